/* The nodes of a graph, one after the other: what each gives, and which of it is what it was given,
 * or a view of that. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <string.h>

/* ---- results ---- */

struct results {
    struct td_pt2_graph *graph;
    int n;
    struct td_pt2_key *key[TD_MAX_OUTS]; /* NULL: it has no name */
};

static int add_result(struct results *r, const char *as, const cJSON *item)
{
    struct td_pt2_leaf leaf = td_pt2_leaf(as, item);
    if (r->n == TD_MAX_OUTS)
        return td_pt2_refuse(r->graph, "has more than %d results", TD_MAX_OUTS);
    r->key[r->n++] = leaf.name ? td_pt2_find(r->graph->key, r->graph->n_keys, leaf.name) : NULL;
    return 0;
}

static int read_results(struct results *r)
{
    const cJSON *outs = td_pt2_get(r->graph->reading, "outputs");
    int err = 0;
    for (const cJSON *o = outs ? outs->child : NULL; o && !err; o = o->next) {
        const cJSON *member = td_pt2_argument(o);
        if (!member || !cJSON_IsArray(member)) {
            err = add_result(r, "", member);
            continue;
        }
        for (const cJSON *i = member->child; i && !err; i = i->next)
            err = add_result(r, member->string, i);
    }
    return err;
}

/* The value that is a node's first argument; NULL when it is none. */
static struct td_pt2_value *first_argument(struct td_pt2_graph *graph)
{
    const cJSON *inputs = td_pt2_get(graph->reading, "inputs");
    const cJSON *member = td_pt2_argument(td_pt2_get(inputs ? inputs->child : NULL, "arg"));
    struct td_pt2_leaf leaf = {0};
    if (member && !cJSON_IsArray(member))
        leaf = td_pt2_leaf(member->string, member);
    return leaf.name ? td_pt2_value(graph, leaf.name) : NULL;
}

/* ---- nodes ---- */

/* Whether it asserts that a tensor is complex: such are not one tensor here. */
static bool asserts_complex(const cJSON *node)
{
    const cJSON *inputs = td_pt2_get(node, "inputs"), *i = inputs ? inputs->child : NULL;
    int64_t type = 0;
    for (; i; i = i->next)
        if (td_pt2_whole(td_pt2_get(td_pt2_get(i, "arg"), "as_scalar_type"), &type))
            break;
    return type >= TD_PT2_COMPLEX - 1 && type <= TD_PT2_COMPLEX + 1;
}

/* What a result that is its first argument, or a copy of it, becomes: 's' or 'c'; 0 where it is
 * neither. */
static char kept_how(const struct results *r, const struct td_pt2_value *first, const char *name,
                     char how)
{
    const cJSON *node = r->graph->reading;
    if (how != 't')
        return how;
    if (!strcmp(name, "contiguous"))
        return td_pt2_is_dense(first->meta) ? 's' : 'c';
    const struct td_pt2_value *made = r->key[0] ? r->graph->value[r->key[0]->at] : NULL;
    enum td_dtype is = td_pt2_dtype(td_pt2_get(first->meta, "dtype"));
    int64_t type;
    if (made && td_pt2_whole(td_pt2_get(made->meta, "dtype"), &type) && type == TD_PT2_COMPLEX)
        return 'c'; /* a tensor of reals is a complex one as well */
    if (!made || !is || td_pt2_dtype(td_pt2_get(made->meta, "dtype")) != is)
        return 0;
    return *name == '_' || td_pt2_flag(node, "copy") ? 'c' : 's';
}

/* A result that is its first argument: 0, or 1 where it is not. */
static int keep(const struct results *r, const struct td_pt2_target *target)
{
    struct td_pt2_graph *graph = r->graph;
    struct td_pt2_value *first = first_argument(graph);
    if (!first)
        return td_pt2_refuse(graph, "has no first argument");
    if (td_pt2_flag(graph->reading, "train"))
        return td_pt2_refuse(graph, "was exported while training; call model.eval() before "
                                    "torch.export.export");
    char how = kept_how(r, first, target->name, target->how);
    if (!how)
        return 1;
    if (!r->n || !r->key[0])
        return 0;
    if (how == 's') {
        graph->value[r->key[0]->at] = first;
        return 0;
    }
    return td_pt2_current(graph, first, &graph->value[r->key[0]->at]->number);
}

/* A node that computes: its results get numbers, and are the views they are. */
static int compute(struct results *r, const char *name)
{
    struct td_pt2_graph *graph = r->graph;
    int out[TD_MAX_OUTS];
    bool in_place;
    for (int i = 0; i < r->n; i++)
        out[i] = r->key[i] ? td_program_value(graph->pt2->model) : -1;
    int err = td_pt2_emit(graph, graph->reading, out, r->n, &in_place);
    if (err)
        return err;
    if (td_pt2_trains(graph->reading) && (err = td_pt2_lose_statistics(graph)))
        return err;
    struct td_pt2_value *first = first_argument(graph);
    if (in_place && r->n && r->key[0] && first) {
        graph->value[r->key[0]->at] = first;
        return td_pt2_write(graph, first, out[0]);
    }
    char view = first ? td_pt2_view(name, first->meta) : 0;
    for (int i = 0; i < r->n; i++) {
        if (!r->key[i])
            continue;
        struct td_pt2_value *value = graph->value[r->key[i]->at];
        value->number = out[i];
        if (view)
            td_pt2_make_view(value, first, graph->reading, i, view == 'u');
    }
    return 0;
}

static int read_node(struct td_pt2_graph *graph)
{
    struct results r = {.graph = graph};
    const char *name = td_pt2_short(graph, graph->reading);
    if (!name)
        return -ENOMEM;
    const struct td_pt2_target *target = td_pt2_target(name);
    if (target && target->lower == td_pt2_assert_metadata && asserts_complex(graph->reading))
        return 0;
    bool effect = target && target->lower == td_pt2_effect; /* whose result is no tensor */
    int err = effect ? 0 : read_results(&r);
    if (!err && target && target->how && strchr("sct", target->how) && !target->lower) {
        err = keep(&r, target);
        if (err < 1)
            return err;
        err = 0;
    }
    return err ? err : compute(&r, name);
}

int td_pt2_nodes(struct td_pt2_graph *graph)
{
    const cJSON *nodes = td_pt2_get(graph->json, "nodes");
    int err = 0;
    for (const cJSON *node = nodes->child; node && !err; node = node->next) {
        graph->reading = node;
        err = read_node(graph);
    }
    return err;
}
