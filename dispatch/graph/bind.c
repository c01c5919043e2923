/* From a graph to the parts of a run: each call is bound as a client's would be, by the operator's
 * overloads and rules, on arguments that are there or results that are known by shape and type.
 * What is to be converted first becomes a part of its own, once for all its places. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"

#include <errno.h>
#include <string.h>

/* ---- parts ---- */

static int feed_of(const struct td_run *part, int arg)
{
    int i = 0;
    while (i < part->n_feeds && part->feed[i].arg != arg)
        i++;
    return i < part->n_feeds ? i : -1;
}

/* The part that converts to the type what argument arg of part comes from. */
static struct td_run *find_cast(const struct td_run *run, const struct td_run *part, int arg,
                                const struct td_tensor *from, enum td_dtype to)
{
    int mine = feed_of(part, arg);
    for (struct td_run *cast = run->parts; cast; cast = cast->next) {
        bool fed = cast->n_feeds > 0;
        const struct td_tensor *t = &cast->call.arg[0].tensor;
        if (strcmp(cast->handle->full, "cast") || cast->call.out[0].dtype != to ||
            fed != (mine >= 0))
            continue;
        if (fed ? cast->feed[0].of == part->feed[mine].of &&
                      cast->feed[0].result == part->feed[mine].result
                : t->data && t->data == from->data && td_nbytes(t) == td_nbytes(from))
            return cast;
    }
    return NULL;
}

/* Conversions before the part's kernel become parts; those of stored tensors that are kept stay. */
static int lift_casts(struct td_run *run, struct td_run *part)
{
    int n = 0, err = 0;
    for (int i = 0; i < part->n_casts; i++) {
        int arg = part->cast[i].arg, mine = feed_of(part, arg);
        struct td_tensor *from = &part->cast[i].from, *to = &part->call.arg[arg].tensor;
        if (to->weight) {
            part->cast[n++] = part->cast[i];
            continue;
        }
        struct td_run *cast = find_cast(run, part, arg, from, to->dtype);
        if (!cast) {
            cast = td_run_add_cast(run, from, to->dtype, td_keyset_of(part->key), &err);
            if (err)
                return err;
            if (mine >= 0)
                cast->feed[cast->n_feeds++] = part->feed[mine];
            cast->feed[0].arg = 0;
        }
        if (mine >= 0) {
            part->feed[mine].of = cast;
            part->feed[mine].result = 0;
        } else if ((err = td_run_feed(run, part, arg, -1, cast, 0))) {
            return err;
        }
    }
    part->n_casts = n;
    return 0;
}

/* ---- binding ---- */

struct binding {
    struct td_run *run, *part[TD_GRAPH_NODES];
    const struct td_graph *graph;
    const struct td_sources *from;
    td_keyset keys; /* of what the calls make */
};

static bool is_tensor(const struct binding *b, const struct td_graph_node *node)
{
    return node->argument >= 0 && b->from->args[node->argument].value.kind == TD_KIND_tensor;
}

static struct td_run *maker(struct binding *b, const struct td_operand *o)
{
    const struct td_graph_node *node = &b->graph->node[o->node];
    if (node->handle)
        return b->part[o->node];
    return node->argument >= 0 && b->from->parts ? b->from->parts[node->argument] : NULL;
}

int td_graph_check_pick(const struct td_handle *handle, const struct td_operand *of, bool whole,
                        struct td_problem *problem)
{
    const struct td_schema *schema = &handle->schema;
    int n = schema->ret[0].type.list ? TD_MAX_OUTS : schema->n_returns;
    if (n < 2 && of->picked)
        return td_problem_set(problem, EINVAL,
                              "%s has one result, of which [%d] is none; select(x, 0, %d) is a row",
                              handle->full, of->result, of->result);
    if (n >= 2 && !whole && !of->picked)
        return td_problem_set(problem, EINVAL, "%s has several results; [0] behind it is the first",
                              handle->full);
    return of->result < n
               ? 0
               : td_problem_set(problem, EINVAL, "%s has %d results; [%d] is none of them",
                                handle->full, n, of->result);
}

/* A result of a part; of is NULL where it is a plain argument or constant. */
static int check_result(struct binding *b, const struct td_run *part, const struct td_operand *o)
{
    int err = td_graph_check_pick(part->handle, o, false, &b->run->problem);
    if (!err && o->result >= part->call.n_out)
        err = td_problem_set(&b->run->problem, EINVAL, "%s has %d results; [%d] is none of them",
                             part->handle->full, part->call.n_out, o->result);
    if (!err && part->call.counted)
        err = td_problem_set(&b->run->problem, EINVAL,
                             "goes on from a result of %s, whose size is not known yet",
                             part->handle->full);
    return err;
}

static int list_of(struct binding *b, const struct td_graph_node *node, struct td_named *named);

/* Copies a text into the run's memory, because the graph and the arguments may be gone before the
 * run is. */
static int keep_text(struct td_run *run, struct td_value *v)
{
    size_t bytes = v->kind == TD_KIND_str && v->str ? strlen(v->str) + 1 : 0;
    char *text = bytes ? run->options.alloc(run->options.alloc_arg, bytes) : NULL;
    if (bytes && !text)
        return td_problem_set(&run->problem, ENOMEM, "no memory for a text");
    if (bytes)
        v->str = memcpy(text, v->str, bytes);
    return 0;
}

static int value_of(struct binding *b, const struct td_operand *o, struct td_named *named)
{
    const struct td_graph_node *node = &b->graph->node[o->node];
    struct td_run *part = maker(b, o);
    *named = (struct td_named){.keys = b->from->keys ? b->from->keys : b->keys};
    if (node->argument == TD_NODE_LIST)
        return list_of(b, node, named);
    if (node->value)
        named->value = *node->value;
    else if (is_tensor(b, node))
        *named = b->from->args[node->argument];
    else if (node->argument >= 0)
        named->value = b->from->args[node->argument].value;
    if (!part)
        return keep_text(b->run, &named->value);
    named->value.kind = TD_KIND_tensor;
    int err = node->handle ? check_result(b, part, o) : 0;
    if (!err)
        named->value.tensor = part->call.out[o->result];
    return err;
}

static int list_of(struct binding *b, const struct td_graph_node *node, struct td_named *named)
{
    struct td_run *run = b->run;
    struct td_tensor *v = run->options.alloc(run->options.alloc_arg, sizeof *v * (size_t)node->n);
    if (!v)
        return td_problem_set(&run->problem, ENOMEM, "no memory for a list");
    named->value = (struct td_value){.kind = TD_KIND_tensors, .tensors = {.v = v, .n = node->n}};
    for (int i = 0; i < node->n; i++) {
        struct td_named one;
        int err = value_of(b, &b->graph->operand[node->first + i], &one);
        if (err)
            return err;
        if (one.value.kind != TD_KIND_tensor && one.value.kind != TD_KIND_none)
            return td_problem_set(&run->problem, EINVAL,
                                  "a list has tensors and None, or numbers alone");
        v[i] = one.value.kind == TD_KIND_tensor ? one.value.tensor : (struct td_tensor){0};
    }
    return 0;
}

/* Argument arg of the bound part comes from another, or is the run's own. */
static int feed_operand(struct binding *b, struct td_run *part, int arg, int element,
                        const struct td_operand *o)
{
    const struct td_graph_node *node = &b->graph->node[o->node];
    struct td_run *of = maker(b, o);
    int err = 0;
    if (of)
        return td_run_feed(b->run, part, arg, element, of, node->handle ? o->result : 0);
    if (b->from->own && is_tensor(b, node))
        return td_run_feed(b->run, part, arg, element, NULL, node->argument);
    for (int i = 0; node->argument == TD_NODE_LIST && i < node->n && !err; i++)
        err = feed_operand(b, part, arg, i, &b->graph->operand[node->first + i]);
    return err;
}

static int set_feeds(struct binding *b, struct td_run *part, const struct td_graph_node *node)
{
    int err = 0;
    for (int k = 0; k < node->n && !err; k++) {
        const struct td_operand *o = &b->graph->operand[node->first + k];
        int named = o->name ? td_schema_find(&part->handle->schema, o->name) : -1;
        err = feed_operand(b, part, named < 0 ? k : named, -1, o);
    }
    return err;
}

static int bind_call(struct binding *b, int i)
{
    const struct td_graph_node *node = &b->graph->node[i];
    struct td_named named[TD_MAX_ARGS];
    int err = 0;
    for (int k = 0; k < node->n && !err; k++) {
        err = value_of(b, &b->graph->operand[node->first + k], &named[k]);
        named[k].name = b->graph->operand[node->first + k].name;
    }
    struct td_run *part = err ? NULL : td_run_new_part(b->run, &err);
    if (!part)
        return err;
    part->depth = b->run->depth;
    err = td_run_choose(part, node->handle, node->one, named, node->n);
    if (!err)
        err = b->from->keys ? td_dispatch_keys(part, b->from->keys) : td_dispatch(part);
    if (err)
        b->run->problem = part->problem;
    if (!err)
        err = set_feeds(b, part, node);
    if (!err)
        err = lift_casts(b->run, part);
    b->part[i] = err ? NULL : td_run_append(b->run, part);
    return err;
}

/* A result that is a number alone, as a tensor. */
static struct td_run *tensor_of(struct binding *b, struct td_named *number, int *err)
{
    struct td_run *part = td_run_new_part(b->run, err);
    if (!part)
        return NULL;
    *err = td_run_choose(part, td_registry_find("clone"), true, number, 1);
    *err = *err ? *err : td_dispatch(part);
    b->run->problem = part->problem;
    return td_run_append(b->run, part);
}

/* A copy of a result that has a name already, or of an argument. */
static struct td_run *copy_of(struct binding *b, const struct td_operand *o, int *err)
{
    struct td_run *part = maker(b, o), *run = b->run;
    struct td_named named;
    *err = value_of(b, o, &named);
    if (!*err && run->options.numbers && td_is_plain(&named.value))
        return tensor_of(b, &named, err);
    if (!*err && named.value.kind != TD_KIND_tensor)
        *err = td_problem_set(&run->problem, EINVAL, "gives no tensor");
    if (*err)
        return NULL;
    struct td_value values[2] = {named.value};
    td_keyset keys = part ? td_keyset_of(part->key) : named.keys;
    struct td_run *copy =
        td_run_add_part(run, "clone", values, keys ? keys : td_keyset_of(TD_KEY_CPU), err);
    if (copy)
        *err = feed_operand(b, copy, 0, -1, o);
    return copy;
}

/* Result i of the run is that one. */
static int give(struct binding *b, int i, struct td_operand of, bool whole)
{
    struct td_run *part = maker(b, &of), *run = b->run;
    int err = 0;
    if (part && b->graph->node[of.node].handle)
        err = td_graph_check_pick(part->handle, &of, whole, &run->problem);
    if (!err && part && of.result >= part->call.n_out)
        err = td_problem_set(&run->problem, EINVAL, "%s has %d results; [%d] is none of them",
                             part->handle->full, part->call.n_out, of.result);
    if (!err && (!part || part->gives[of.result])) {
        part = copy_of(b, &of, &err);
        of.result = 0;
    }
    if (err)
        return err;
    part->gives[of.result] = (unsigned char)(i + 1);
    run->call.out[i] = part->call.out[of.result];
    run->call.counted |= (part->call.counted >> of.result & 1u) << i;
    if (part->call.counted)
        run->call.counted_dim = part->call.counted_dim;
    return 0;
}

/* The run has the parts' results: those with names, or all of one call. */
static int give_results(struct binding *b)
{
    const struct td_graph *g = b->graph;
    struct td_run *run = b->run;
    struct td_operand of = g->result[0].of;
    const struct td_run *whole = g->named || of.picked ? NULL : maker(b, &of);
    int n = whole ? whole->call.n_out : g->n_results, err = 0;
    run->call.n_out = 0;
    run->call.counted = 0;
    if (run->names)
        run->names->unnamed = whole ? &whole->handle->schema : NULL;
    for (int i = 0; i < n && !err; i++) {
        if (g->named && g->result[i].name[0] == '_')
            continue;
        of = g->result[whole ? 0 : i].of;
        of.result = whole ? (short)i : of.result;
        err = give(b, run->call.n_out, of, whole);
        run->call.n_out += !err;
    }
    if (!err && !run->call.n_out && n)
        err = td_problem_set(&run->problem, EINVAL, "all names begin with _: there is no result");
    return err;
}

static int in_text(struct td_run *run, const struct td_sources *from, int column, int err)
{
    struct td_problem why = run->problem;
    if (err)
        td_problem_set(&run->problem, -err, "%s: column %d: %.500s", from->who, column, why.text);
    return err;
}

int td_graph_bind(struct td_run *run, const struct td_graph *graph, const struct td_sources *from)
{
    struct binding b = {.run = run, .graph = graph, .from = from};
    int err = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (is_tensor(&b, &graph->node[i]))
            b.keys |= from->args[graph->node[i].argument].keys;
    for (int i = 0; i < graph->n_nodes && !err; i++)
        if (graph->node[i].handle)
            err = in_text(run, from, graph->node[i].column, bind_call(&b, i));
    return err ? err : in_text(run, from, 1, give_results(&b));
}
