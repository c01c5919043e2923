/* What nodes do when the program is walked: calls of operators, formulas, and graphs in graphs. */
#include "dispatch/model/pt2.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_number(const struct td_item *item)
{
    return item->v.kind == TD_KIND_int || item->v.kind == TD_KIND_float ||
           item->v.kind == TD_KIND_bool;
}

int td_pt2_list(struct td_walk *walk, const struct td_item *item, int64_t v[TD_MAX_LIST])
{
    if (item->v.kind != TD_KIND_tensors)
        return td_walk_ints(walk, item, v, TD_MAX_LIST);
    if (item->n > TD_MAX_LIST)
        return td_walk_refuse(walk, "a list has %d numbers, but at most %d are taken", item->n,
                              TD_MAX_LIST);
    for (int i = 0; i < item->n; i++) {
        int n = td_walk_ints(walk, &item->list[i], &v[i], 1);
        if (n != 1)
            return n < 0 ? n : td_walk_refuse(walk, "a list has other things than numbers");
    }
    return item->n;
}

/* ---- calls ---- */

/* A list of sizes as what it is; the item itself otherwise. */
static int as_numbers(struct td_walk *walk, const struct td_item *item, bool ints,
                      struct td_item *result)
{
    int64_t v[TD_MAX_LIST];
    *result = *item;
    if (item->v.kind != TD_KIND_tensors || !ints)
        return 0;
    int n = td_pt2_list(walk, item, v);
    if (n >= 0)
        *result = td_item_ints(v, n);
    return n < 0 ? n : 0;
}

static const struct td_param *param_of(const struct td_handle *handle, const char *name)
{
    for (int i = 0; name && i < handle->schema.n_params; i++)
        if (!strcmp(handle->schema.param[i].name, name))
            return &handle->schema.param[i];
    return NULL;
}

/* A number where a tensor is due becomes one, of the first tensor's type where that is of its
 * category. */
static int as_tensor(struct td_walk *walk, const struct td_given *args, int n, struct td_item *item)
{
    const struct td_tensor *self = NULL;
    for (int k = 0; k < n && !self; k++)
        if (args[k].item.v.kind == TD_KIND_tensor)
            self = &args[k].item.v.tensor;
    bool floats = item->v.kind == TD_KIND_float;
    enum td_dtype dtype = floats ? TD_f32 : item->v.kind == TD_KIND_bool ? TD_bool : TD_i64;
    if (floats && self && self->dtype & TD_FLOATS)
        dtype = self->dtype;
    double f = td_scalar(&item->v);
    int64_t i = item->v.i; /* which the result takes the place of */
    return dtype == TD_i64 ? td_walk_tensor_i64(walk, &i, -1, item)
                           : td_walk_tensor(walk, dtype, &f, -1, item);
}

/* The overload that takes a number for this argument: mul.Scalar for mul.Tensor; or NULL. */
static const struct td_handle *with_number(const struct td_handle *handle, const char *name)
{
    const struct td_handle *h = td_registry_find(handle->schema.name);
    for (; h; h = h->next) {
        const struct td_param *param = param_of(h, name);
        if (param && param->type.base == TD_BASE_Scalar &&
            h->schema.n_params == handle->schema.n_params)
            return h;
    }
    return NULL;
}

/* "add_.Scalar", where the node has add_.Tensor */
static void name_call(const struct td_node *node, const struct td_handle *handle, char *name,
                      size_t size)
{
    const struct td_handle *own = node->form;
    bool in_place = strcspn(node->op, ".") == strlen(own->schema.name) + 1;
    snprintf(name, size, "%s%s%s%s", handle->schema.name, in_place ? "_" : "",
             *handle->schema.overload ? "." : "", handle->schema.overload);
}

/* The arguments as the operator's schema wants them; handle: the overload that takes them. */
static int prepare(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_given *given, const struct td_handle **handle)
{
    int err = 0;
    for (int i = 0; i < node->n_operands && !err; i++) {
        const struct td_param *param = param_of(*handle, node->operand[i].name);
        given[i].name = node->operand[i].name;
        bool ints = param && param->type.list &&
                    (param->type.base == TD_BASE_int || param->type.base == TD_BASE_bool);
        err = as_numbers(walk, &in[i], ints, &given[i].item);
    }
    for (int i = 0; i < node->n_operands && !err; i++) {
        const struct td_param *param = param_of(*handle, given[i].name);
        if (!param || param->type.list || param->type.base != TD_BASE_Tensor ||
            !is_number(&given[i].item))
            continue;
        const struct td_handle *other = with_number(*handle, given[i].name);
        if (other)
            *handle = other;
        else
            err = as_tensor(walk, given, node->n_operands, &given[i].item);
    }
    return err;
}

int td_pt2_call(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_handle *handle = node->form;
    struct td_given given[TD_MAX_ARGS];
    struct td_item result[TD_MAX_OUTS];
    char name[2 * TD_NAME_SIZE + 1];
    int n, err = prepare(walk, node, in, given, &handle);
    name_call(node, handle, name, sizeof name);
    err = err ? err : td_walk_call(walk, name, given, node->n_operands, result, &n);
    if (err)
        return err;
    if (n < node->n_outs)
        return td_walk_refuse(walk, "gives %d results, but %d are wanted", n, node->n_outs);
    if (node->n_outs)
        memcpy(out, result, sizeof *out * (size_t)node->n_outs);
    return 0;
}

int td_pt2_call_on(struct td_walk *walk, const char *op, const struct td_node *node,
                   const struct td_item *in, int first, int n, struct td_item *out)
{
    struct td_given given[TD_MAX_ARGS];
    for (int i = 0; i < n; i++)
        given[i] = (struct td_given){NULL, in[first + i]};
    for (int i = 3; i < node->n_operands; i++) {
        if (n == TD_MAX_ARGS)
            return td_walk_refuse(walk, "has too many arguments");
        int err = as_numbers(walk, &in[i], true, &given[n].item);
        if (err)
            return err;
        given[n++].name = node->operand[i].name;
    }
    return td_walk_call(walk, op, given, n, out, NULL);
}

/* "dim=-1", "dtype": an argument that is left out is what stands there, or None. */
static struct td_given left_out(char *text)
{
    struct td_given given = {.name = strsep(&text, "=")};
    char *end;
    if (!text)
        return given;
    int64_t i = strtoll(text, &end, 10);
    given.item = !strcmp(text, "False") ? td_item_bool(false)
                 : *end                 ? td_item_float(strtod(text, NULL))
                                        : td_item_int(i);
    return given;
}

int td_pt2_formula(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    struct td_given given[2 * TD_MAX_ARGS];
    struct td_item result[TD_MAX_OUTS];
    char also[128];
    int n = 0, made, err = 0;
    snprintf(also, sizeof also, "%s", target->also ? target->also : "");
    for (int i = 0; i < node->n_operands && !err; i++, n++) {
        bool numbers = in[i].n && is_number(&in[i].list[0]);
        if (n == TD_MAX_ARGS)
            return td_walk_refuse(walk, "has too many arguments");
        given[n].name = node->operand[i].name;
        err = as_numbers(walk, &in[i], numbers, &given[n].item);
        if (given[n].name && !strcmp(given[n].name, "hx") && in[i].n == 2) { /* of lstm_cell */
            given[n] = (struct td_given){"hx_0", in[i].list[0]};
            given[++n] = (struct td_given){"hx_1", in[i].list[1]};
        }
    }
    char *rest = also;
    for (char *name; !err && n < 2 * TD_MAX_ARGS && (name = strsep(&rest, " "));)
        if (*name) {
            given[n] = left_out(name);
            n += td_node_find(node, given[n].name) < 0;
        }
    err = err ? err : td_walk_formula(walk, target->formula, given, n, result, &made);
    if (!err && made < node->n_outs)
        err = td_walk_refuse(walk, "gives %d results, but %d are wanted", made, node->n_outs);
    for (int i = 0; i < node->n_outs && !err; i++)
        out[i] = result[i];
    return err;
}

int td_pt2_same(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    (void)walk, (void)node;
    *out = *in;
    return 0;
}

/* ---- graphs in graphs ---- */

/* The items of operands from first on, lists laid out; in memory that the caller frees. */
static int lay_out(const struct td_node *node, const struct td_item *in, int first,
                   struct td_item **items)
{
    int n = 0, at = 0;
    for (int i = first; i < node->n_operands; i++)
        n += in[i].v.kind == TD_KIND_tensors ? in[i].n
             : in[i].v.kind == TD_KIND_ints  ? in[i].v.ints.n
                                             : 1;
    *items = calloc((size_t)n + 1, sizeof **items);
    if (!*items)
        return -ENOMEM;
    for (int i = first; i < node->n_operands; i++) {
        if (in[i].v.kind == TD_KIND_tensors)
            for (int k = 0; k < in[i].n; k++)
                (*items)[at++] = in[i].list[k];
        else if (in[i].v.kind == TD_KIND_ints)
            for (int k = 0; k < in[i].v.ints.n; k++)
                (*items)[at++] = td_item_int(in[i].v.ints.v[k]);
        else
            (*items)[at++] = in[i];
    }
    return n;
}

/* Runs a graph on n items, for as many outputs. */
static int run_graph(struct td_walk *walk, const struct td_node_graph *graph,
                     const struct td_item *items, int n, struct td_item *out, int n_outs)
{
    if (graph->n_inputs != n || graph->n_outputs != n_outs)
        return td_walk_refuse(walk,
                              "an inner graph has %d inputs and %d outputs, but is given %d "
                              "and %d are wanted",
                              graph->n_inputs, graph->n_outputs, n, n_outs);
    return td_walk_graph(walk, graph, items, out);
}

/* Whether a condition, a number or a tensor of one, holds: 1 or 0. */
static int holds(struct td_walk *walk, const struct td_item *item)
{
    double v;
    int n = td_walk_floats(walk, item, &v, 1);
    return n == 1 ? v != 0 : n < 0 ? n : td_walk_refuse(walk, "a condition has no elements");
}

int td_pt2_cond(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    struct td_item *items;
    int so = holds(walk, &in[0]);
    int n = so < 0 ? so : lay_out(node, in, 3, &items);
    if (n < 0)
        return n;
    int err = run_graph(walk, node->operand[so ? 1 : 2].graph, items, n, out, node->n_outs);
    free(items);
    return err;
}

/* Operands: a graph to be run, after what is to be done with gradients. */
int td_pt2_inline(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    struct td_item *items;
    int n = lay_out(node, in, 2, &items);
    if (n < 0)
        return n;
    int err = run_graph(walk, node->operand[1].graph, items, n, out, node->n_outs);
    free(items);
    return err;
}

/* items: those carried, of which there are as many as results, and those that stay. */
static int loop(struct td_walk *walk, const struct td_node *node, struct td_item *items, int n)
{
    const struct td_node_graph *cond = node->operand[0].graph, *body = node->operand[1].graph;
    struct td_item *next = calloc((size_t)node->n_outs + 1, sizeof *next), go;
    size_t mark = td_walk_mark(walk);
    int so = next ? 1 : -ENOMEM;
    while (so > 0) {
        so = run_graph(walk, cond, items, n, &go, 1);
        so = so < 0 ? so : holds(walk, &go);
        int err = so > 0 ? run_graph(walk, body, items, n, next, node->n_outs) : 0;
        if (so > 0 && !err && td_stopped()) {
            td_walk_refuse(walk, "the model was stopped");
            err = -ETIMEDOUT;
        }
        if (so > 0 && !err) {
            td_walk_release(walk, mark, next, node->n_outs);
            memcpy(items, next, sizeof *items * (size_t)node->n_outs);
        }
        so = err ? err : so;
    }
    free(next);
    return so;
}

int td_pt2_while(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    struct td_item *items;
    int n = lay_out(node, in, 2, &items), err = n < 0 ? n : 0;
    if (n >= 0 && n < node->n_outs)
        err = td_walk_refuse(walk, "has more results than it is given values");
    if (!err)
        err = loop(walk, node, items, n);
    if (!err && node->n_outs)
        memcpy(out, items, sizeof *out * (size_t)node->n_outs);
    if (n >= 0)
        free(items);
    return err;
}

/* ---- map ---- */

/* Runs the graph on the i-th of each of the first lists, n of them, and on what follows these. */
static int map_one(struct td_walk *walk, const struct td_node *node, struct td_item *items, int n,
                   int n_mapped, int64_t i, struct td_item *out)
{
    struct td_item *of = calloc((size_t)n + 1, sizeof *of);
    int err = of ? 0 : -ENOMEM;
    for (int k = 0; k < n && !err; k++) {
        of[k] = items[k];
        if (k < n_mapped)
            err = TD_CALL(walk, "select.int", &of[k], TD_GIVE(items[k]), TD_GIVE(td_item_int(0)),
                          TD_GIVE(td_item_int(i)));
    }
    err = err ? err : run_graph(walk, node->operand[0].graph, of, n, out, node->n_outs);
    free(of);
    return err;
}

/* Stacks every n_outs-th of the items. */
static int stack(struct td_walk *walk, const struct td_item *items, int64_t n, int n_outs,
                 struct td_item *out)
{
    struct td_item *list = calloc((size_t)n, sizeof *list), all;
    int err = list ? 0 : -ENOMEM;
    for (int64_t i = 0; i < n && !err; i++)
        list[i] = items[i * n_outs];
    err = err ? err : td_walk_list(walk, list, (int)n, &all);
    err = err ? err : TD_CALL(walk, "stack", out, TD_GIVE(all));
    free(list);
    return err;
}

int td_pt2_map(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
               struct td_item *out)
{
    struct td_item *items, *made = NULL;
    int mapped = in[1].v.kind == TD_KIND_tensors ? in[1].n : 1;
    int n = lay_out(node, in, 1, &items), err = n < 0 ? n : 0;
    if (err)
        return err;
    const struct td_tensor *first = &items[0].v.tensor;
    if (mapped < 1 || n < mapped || items[0].v.kind != TD_KIND_tensor || !first->rank ||
        first->shape[0] < 1 || first->shape[0] > INT32_MAX / 64)
        err = td_walk_refuse(walk, "has nothing to go over");
    int64_t length = err ? 0 : first->shape[0];
    if (!err && !(made = calloc((size_t)length * (size_t)node->n_outs + 1, sizeof *made)))
        err = -ENOMEM;
    for (int64_t i = 0; i < length && !err; i++)
        err = map_one(walk, node, items, n, mapped, i, &made[i * node->n_outs]);
    for (int k = 0; k < node->n_outs && !err; k++)
        err = stack(walk, made + k, length, node->n_outs, &out[k]);
    free(made);
    free(items);
    return err;
}
