/* A graph of the archive's, node by node: names become values, arguments operands, and each node
 * gets the function that says it in calls. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int td_pt2_no_memory(struct td_pt2 *pt2)
{
    return td_problem_set(pt2->problem, ENOMEM, "no memory for the model");
}

int td_pt2_refuse(struct td_pt2_graph *graph, const char *format, ...)
{
    char why[400];
    const char *name = td_pt2_text(graph->reading, "name");
    const char *target = td_pt2_text(graph->reading, "target");
    va_list args;
    va_start(args, format);
    vsnprintf(why, sizeof why, format, args);
    va_end(args);
    if (!graph->reading)
        return td_problem_set(graph->pt2->problem, EINVAL, "the graph %s", why);
    return td_problem_set(graph->pt2->problem, EINVAL, "node '%.80s' (%.80s): %s", name ? name : "",
                          target ? target : "", why);
}

/* ---- names ---- */

typedef int each_name(void *arg, const char *name);

/* Calls fn with each name that an Argument holds. */
static int names_of(const cJSON *argument, each_name *fn, void *arg)
{
    const cJSON *member = td_pt2_argument(argument);
    int err = 0;
    if (!member)
        return 0;
    bool list = cJSON_IsArray(member);
    for (const cJSON *i = list ? member->child : member; i && !err; i = list ? i->next : NULL) {
        struct td_pt2_leaf leaf = td_pt2_leaf(member->string, i);
        err = leaf.name ? fn(arg, leaf.name) : 0;
    }
    return err;
}

static int for_names(const cJSON *json, each_name *fn, void *arg)
{
    const cJSON *inputs = td_pt2_get(json, "inputs"), *nodes = td_pt2_get(json, "nodes");
    int err = 0;
    for (const cJSON *i = inputs ? inputs->child : NULL; i && !err; i = i->next)
        err = names_of(i, fn, arg);
    for (const cJSON *node = nodes ? nodes->child : NULL; node && !err; node = node->next) {
        const cJSON *outs = td_pt2_get(node, "outputs");
        for (const cJSON *o = outs ? outs->child : NULL; o && !err; o = o->next)
            err = names_of(o, fn, arg);
    }
    return err;
}

static int count_name(void *arg, const char *name)
{
    (void)name;
    return ++*(int *)arg == INT32_MAX / 2 ? -EINVAL : 0;
}

static int add_name(void *arg, const char *name)
{
    struct td_pt2_graph *graph = arg;
    int at = graph->n_keys++;
    graph->key[at] = (struct td_pt2_key){.name = name, .at = at};
    graph->value[at] = td_arena_zalloc(graph->pt2->arena, sizeof **graph->value);
    if (!graph->value[at])
        return td_pt2_no_memory(graph->pt2);
    graph->value[at]->number = graph->value[at]->loaded = graph->value[at]->becomes = -1;
    return 0;
}

int td_pt2_begin(struct td_pt2_graph *graph, struct td_pt2 *pt2, const cJSON *json)
{
    int n = 0;
    *graph = (struct td_pt2_graph){.pt2 = pt2, .json = json};
    if (!cJSON_IsArray(td_pt2_get(json, "nodes")) || !cJSON_IsArray(td_pt2_get(json, "inputs")) ||
        !cJSON_IsArray(td_pt2_get(json, "outputs")))
        return td_problem_set(pt2->problem, EINVAL, "a graph without inputs, outputs or nodes");
    int err = for_names(json, count_name, &n);
    if (err)
        return err;
    graph->key = td_arena_zalloc(pt2->arena, sizeof *graph->key * (size_t)(n + 1));
    graph->value = td_arena_zalloc(pt2->arena, sizeof *graph->value * (size_t)(n + 1));
    if (!graph->key || !graph->value)
        return td_pt2_no_memory(graph->pt2);
    err = for_names(json, add_name, graph);
    err = err ? err : td_pt2_sort(graph->key, graph->n_keys, "values", pt2->problem);
    const cJSON *metas = td_pt2_get(json, "tensor_values");
    for (const cJSON *meta = metas && !err ? metas->child : NULL; meta; meta = meta->next) {
        struct td_pt2_key *key = td_pt2_find(graph->key, graph->n_keys, meta->string);
        if (key)
            graph->value[key->at]->meta = meta;
    }
    return err;
}

struct td_pt2_value *td_pt2_value(struct td_pt2_graph *graph, const char *name)
{
    struct td_pt2_key *key = td_pt2_find(graph->key, graph->n_keys, name);
    if (key)
        return graph->value[key->at];
    td_pt2_refuse(graph, "has '%.80s', which nothing makes", name);
    return NULL;
}

/* The number of a name's contents as they are now. -EINVAL when it has none. */
static int number_of(struct td_pt2_graph *graph, const char *name, int *number)
{
    struct td_pt2_value *value = td_pt2_value(graph, name);
    int err = value ? graph->pt2->reader->current(graph, value, number) : -EINVAL;
    if (!err && *number < 0)
        err = td_pt2_refuse(graph, "reads '%.80s', which nothing before it makes", name);
    return err;
}

/* ---- operands ---- */

static int leaf_operand(struct td_pt2_graph *graph, const struct td_pt2_leaf *leaf,
                        struct td_node_operand *o)
{
    if (leaf->name) {
        o->kind = TD_OPERAND_value;
        return number_of(graph, leaf->name, &o->value);
    }
    if (td_pt2_constant(leaf, &o->constant))
        return td_pt2_refuse(graph, "has an argument that cannot be read (%.40s)", leaf->as);
    o->kind = o->constant.kind ? TD_OPERAND_constant : TD_OPERAND_none;
    if (o->constant.kind != TD_KIND_str)
        return 0;
    o->constant.str = td_program_text(graph->pt2->model, o->constant.str, strlen(o->constant.str));
    return o->constant.str ? 0 : td_pt2_no_memory(graph->pt2);
}

/* A list of plain numbers becomes one constant: false when it is no such list. */
static bool pack_numbers(struct td_node_operand *o)
{
    enum td_kind kind = o->n ? o->list[0].constant.kind : TD_KIND_none;
    struct td_value v = {0};
    if (!o->n || o->n > TD_MAX_LIST ||
        (kind != TD_KIND_int && kind != TD_KIND_float && kind != TD_KIND_bool))
        return false;
    for (int i = 0; i < o->n; i++) {
        if (o->list[i].kind != TD_OPERAND_constant || o->list[i].constant.kind != kind)
            return false;
        if (kind == TD_KIND_float)
            v.floats.v[i] = o->list[i].constant.f;
        else
            v.ints.v[i] = o->list[i].constant.i;
    }
    v.kind = kind == TD_KIND_float  ? TD_KIND_floats
             : kind == TD_KIND_bool ? TD_KIND_bools
                                    : TD_KIND_ints;
    if (kind == TD_KIND_float)
        v.floats.n = o->n;
    else
        v.ints.n = o->n;
    o->kind = TD_OPERAND_constant;
    o->constant = v;
    return true;
}

static int list_operand(struct td_pt2_graph *graph, const cJSON *member, struct td_node_operand *o)
{
    int n = cJSON_GetArraySize(member), err = 0;
    struct td_node_operand *list =
        td_program_alloc(graph->pt2->model, sizeof *list * (size_t)(n + 1));
    if (!list)
        return td_pt2_no_memory(graph->pt2);
    for (const cJSON *item = member->child; item && !err; item = item->next) {
        struct td_pt2_leaf leaf = td_pt2_leaf(member->string, item);
        err = leaf_operand(graph, &leaf, &list[o->n++]);
    }
    o->kind = TD_OPERAND_list;
    o->list = list;
    bool numbers = !n && !strstr(member->string, "tensor");
    if (numbers) { /* none of them */
        o->kind = TD_OPERAND_constant;
        o->constant.kind = strstr(member->string, "float") ? TD_KIND_floats : TD_KIND_ints;
    } else if (!err) {
        pack_numbers(o);
    }
    return err;
}

/* What a node's inner graph writes into its inputs would end with that. */
static int check_inputs(struct td_pt2_graph *graph, struct td_pt2_graph *inner)
{
    const cJSON *inputs = td_pt2_get(inner->json, "inputs");
    for (const cJSON *i = inputs->child; i; i = i->next) {
        const cJSON *argument = td_pt2_argument(i);
        const char *name = argument ? td_pt2_leaf(argument->string, argument).name : NULL;
        const struct td_pt2_value *value = name ? td_pt2_value(inner, name) : NULL;
        if (value && value->writer)
            return td_pt2_refuse(graph,
                                 "node '%.80s' of its inner graph writes into the input '%.80s', "
                                 "which would be lost behind it; export the model under "
                                 "torch.no_grad()",
                                 value->writer, name);
    }
    return 0;
}

static int graph_operand(struct td_pt2_graph *graph, const cJSON *member, struct td_node_operand *o)
{
    struct td_pt2_graph inner;
    const cJSON *json = td_pt2_get(member, "graph"), *inputs = td_pt2_get(json, "inputs");
    o->kind = TD_OPERAND_graph;
    o->graph = td_program_alloc(graph->pt2->model, sizeof *o->graph);
    int n = cJSON_GetArraySize(inputs), err = o->graph ? 0 : td_pt2_no_memory(graph->pt2);
    int *input = err ? NULL : td_program_alloc(graph->pt2->model, sizeof *input * (size_t)(n + 1));
    err = err ? err : input ? td_pt2_begin(&inner, graph->pt2, json) : td_pt2_no_memory(graph->pt2);
    for (const cJSON *i = inputs && !err ? inputs->child : NULL; i && !err; i = i->next) {
        const cJSON *argument = td_pt2_argument(i);
        struct td_pt2_leaf leaf = {0};
        if (argument)
            leaf = td_pt2_leaf(argument->string, argument);
        struct td_pt2_value *value = leaf.name ? td_pt2_value(&inner, leaf.name) : NULL;
        input[o->graph->n_inputs++] = td_program_value(graph->pt2->model);
        if (value)
            value->number = input[o->graph->n_inputs - 1];
    }
    if (err)
        return err;
    o->graph->input = input;
    err = graph->pt2->reader->nodes(&inner);
    err = err ? err : check_inputs(graph, &inner);
    return err ? err : td_pt2_end(&inner, o->graph);
}

static int operand(struct td_pt2_graph *graph, const cJSON *argument, struct td_node_operand *o)
{
    const cJSON *member = td_pt2_argument(argument);
    if (!member)
        return td_pt2_refuse(graph, "has an argument that is none");
    if (!strcmp(member->string, "as_graph"))
        return graph_operand(graph, member, o);
    if (cJSON_IsArray(member))
        return list_operand(graph, member, o);
    o->kind = TD_OPERAND_constant;
    o->constant = td_item_str("cpu").v;
    if (!strcmp(member->string, "as_device")) /* whichever it was: here there is but one */
        return 0;
    o->kind = TD_OPERAND_none;
    if (!strcmp(member->string, "as_layout") || !strcmp(member->string, "as_memory_format"))
        return 0; /* tensors lie but in one way */
    struct td_pt2_leaf leaf = td_pt2_leaf(member->string, member);
    return leaf_operand(graph, &leaf, o);
}

int td_pt2_operands(struct td_pt2_graph *graph, const cJSON *json, int skip, int before,
                    struct td_node_operand **operands, int *n)
{
    const cJSON *inputs = td_pt2_get(json, "inputs");
    int room = cJSON_GetArraySize(inputs) + before + 1, err = 0;
    struct td_node_operand *o = td_program_alloc(graph->pt2->model, sizeof *o * (size_t)room);
    if (!o)
        return td_pt2_no_memory(graph->pt2);
    *operands = o;
    *n = before;
    for (const cJSON *in = inputs ? inputs->child : NULL; in && !err; in = in->next) {
        const char *name = td_pt2_text(in, "name");
        const cJSON *argument = td_pt2_get(in, "arg");
        if (skip-- > 0)
            continue;
        struct td_node_operand *to = &o[(*n)++];
        if (name && *name && !(to->name = td_program_text(graph->pt2->model, name, strlen(name))))
            return td_pt2_no_memory(graph->pt2);
        err = operand(graph, argument, to);
    }
    return err;
}

/* ---- the graph's end ---- */

int td_pt2_append(struct td_pt2_graph *graph, const struct td_node *node)
{
    if (graph->n_nodes == graph->room) {
        int room = graph->room ? 2 * graph->room : 32;
        struct td_node *more = td_arena_alloc(graph->pt2->arena, sizeof *more * (size_t)room);
        if (!more)
            return td_pt2_no_memory(graph->pt2);
        if (graph->n_nodes)
            memcpy(more, graph->node, sizeof *more * (size_t)graph->n_nodes);
        graph->node = more;
        graph->room = room;
    }
    int *out = td_program_alloc(graph->pt2->model, sizeof *out * (size_t)node->n_outs);
    if (!out)
        return td_pt2_no_memory(graph->pt2);
    if (node->n_outs)
        memcpy(out, node->out, sizeof *out * (size_t)node->n_outs);
    graph->node[graph->n_nodes] = *node;
    graph->node[graph->n_nodes++].out = out;
    return 0;
}

int td_pt2_output(struct td_pt2_graph *graph, const cJSON *argument, int *number)
{
    struct td_node_operand *o = td_program_alloc(graph->pt2->model, sizeof *o);
    int err = o ? operand(graph, argument, o) : td_pt2_no_memory(graph->pt2);
    *number = err ? -1 : o->value;
    if (err || o->kind == TD_OPERAND_value)
        return err;
    *number = td_program_value(graph->pt2->model);
    struct td_node node = {.name = "",
                           .op = "constant",
                           .lower = td_pt2_same,
                           .n_operands = 1,
                           .operand = o,
                           .n_outs = 1,
                           .out = number};
    return td_pt2_append(graph, &node);
}

int td_pt2_end(struct td_pt2_graph *graph, struct td_node_graph *into)
{
    const cJSON *outputs = td_pt2_get(graph->json, "outputs");
    int n = cJSON_GetArraySize(outputs), err = 0;
    size_t bytes = sizeof *into->node * (size_t)graph->n_nodes;
    graph->reading = NULL;
    if (!into->output) { /* else they are known */
        int *output = td_program_alloc(graph->pt2->model, sizeof *output * (size_t)(n + 1));
        if (!output)
            return td_pt2_no_memory(graph->pt2);
        for (const cJSON *o = outputs->child; o && !err; o = o->next)
            err = td_pt2_output(graph, o, &output[into->n_outputs++]);
        into->output = output;
        bytes = sizeof *into->node * (size_t)graph->n_nodes;
    }
    into->node = err ? NULL : td_program_alloc(graph->pt2->model, bytes);
    if (!into->node)
        return err ? err : td_pt2_no_memory(graph->pt2);
    if (bytes)
        memcpy(into->node, graph->node, bytes);
    into->n_nodes = graph->n_nodes;
    return 0;
}
