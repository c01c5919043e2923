/* Writes in place, made functional. A graph that torch.export gives as it is has views that share
 * memory and calls that write into it: relu_(x), y[:, 1].add_(z). Here a tensor's contents are a
 * value that never changes; a write makes a new one, and whoever looks at the same memory through
 * another view gets it when they look: what was written is put back into the whole that it is a
 * view of, and the other views are taken of that anew. So a write that nobody else sees costs
 * nothing. */
#include "dispatch/pt2/pt2.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- contents ---- */

#define MAX_VIEWS 64 /* of views, one of the other, that are taken anew */

struct td_pt2_value *td_pt2_root(struct td_pt2_value *value)
{
    return value->of ? value->root : value;
}

void td_pt2_make_view(struct td_pt2_value *value, struct td_pt2_value *of, const cJSON *by,
                      int result, bool unsure)
{
    value->of = of;
    value->root = td_pt2_root(of);
    value->depth = of->depth + 1;
    value->by = by;
    value->result = result;
    value->unsure = unsure;
    value->seen = value->root->version;
}

/* The view as it is now, taken anew of what it is a view of. */
static int view_again(struct td_pt2_graph *graph, struct td_pt2_value *value)
{
    int base, out[TD_MAX_OUTS];
    if (value->depth > MAX_VIEWS)
        return td_pt2_refuse(graph,
                             "reads a view of more than %d views, one of the other, after "
                             "a write in place",
                             MAX_VIEWS);
    if (value->unsure)
        return td_pt2_refuse(graph, "reads what may be a copy or a view of a tensor that was "
                                    "written in place; which, is not known");
    int err = td_pt2_current(graph, value->of, &base);
    if (err)
        return err;
    for (int i = 0; i < TD_MAX_OUTS; i++)
        out[i] = -1;
    out[value->result] = value->number = td_program_value(graph->pt2->model);
    value->seen = td_pt2_root(value)->version;
    return td_pt2_emit(graph, value->by, out, value->result + 1, NULL);
}

/* Operands: the base, what was written into its view, and the arguments that made the view. */
static td_lower write_back;

/* Appends the node that puts what was written into a view back into the whole. */
static int put_back(struct td_pt2_graph *graph, const struct td_pt2_value *view, int whole,
                    int written, int *number)
{
    struct td_node_operand *operand;
    struct td_node node = {.name = "", .op = "write back", .lower = write_back};
    int err = td_pt2_operands(graph, view->by, 1, 3, &operand, &node.n_operands);
    if (err)
        return err;
    *number = td_program_value(graph->pt2->model);
    operand[0] = (struct td_node_operand){.kind = TD_OPERAND_value, .value = whole};
    operand[1] = (struct td_node_operand){.kind = TD_OPERAND_value, .value = written};
    operand[2] = (struct td_node_operand){.kind = TD_OPERAND_constant,
                                          .constant = td_item_int(view->result).v};
    node.operand = operand;
    node.form = td_pt2_short(graph, view->by);
    node.out = number;
    node.n_outs = 1;
    return node.form ? td_pt2_append(graph, &node) : -ENOMEM;
}

/* Puts what was written last into all that it is a view of. */
static int flush(struct td_pt2_graph *graph, struct td_pt2_value *root)
{
    struct td_pt2_value *view = root->written;
    int now = root->version, written = view->number, err = 0;
    if (view->depth > MAX_VIEWS)
        return td_pt2_refuse(graph,
                             "reads a tensor of which a view of more than %d views was "
                             "written in place",
                             MAX_VIEWS);
    root->written = NULL;
    root->version = root->flushed; /* for those above it, as they were before */
    for (; view->of && !err; view = view->of) {
        int whole;
        if (view->unsure)
            return td_pt2_refuse(graph, "reads a tensor after a write in place into what may be a "
                                        "copy or a view of it; which, is not known");
        err = td_pt2_current(graph, view->of, &whole);
        err = err ? err : put_back(graph, view, whole, written, &written);
        view->of->number = written;
        view->of->seen = now;
    }
    root->version = root->flushed = now;
    return err;
}

/* A write into another view of the same memory is put back first, or it would be forgotten. */
int td_pt2_write(struct td_pt2_graph *graph, struct td_pt2_value *value, int number)
{
    struct td_pt2_value *root = td_pt2_root(value);
    int err = root->written && root->written != value ? flush(graph, root) : 0;
    if (err)
        return err;
    value->number = number;
    value->seen = ++root->version;
    root->writer = td_pt2_name(graph->reading);
    root->written = value->of ? value : NULL;
    if (!value->of)
        root->flushed = root->version;
    return 0;
}

int td_pt2_current(struct td_pt2_graph *graph, struct td_pt2_value *value, int *number)
{
    struct td_pt2_value *root = td_pt2_root(value);
    int err = 0;
    if (root->lost && !td_pt2_trains(graph->reading))
        return td_pt2_refuse(graph,
                             "reads running statistics after node '%.80s' has changed them, which "
                             "cannot be done; call model.eval() before torch.export.export",
                             root->writer);
    if (value->stored && value->number < 0) {
        err = td_pt2_load(graph->pt2, value);
        value->loaded = value->number;
    }
    if (!err && root->written && value->seen != root->version)
        err = flush(graph, root);
    if (!err && value->of && value->seen != root->version)
        err = view_again(graph, value);
    *number = value->number;
    return err;
}

/* ---- putting back ---- */

/* Whether an argument of slice is left out, or a number from least to most. */
static bool is_from(const struct td_node *node, const char *name, int64_t least, int64_t most)
{
    int at = td_node_find(node, name);
    const struct td_node_operand *o = at < 0 ? NULL : &node->operand[at];
    return !o || o->kind == TD_OPERAND_none ||
           (o->kind == TD_OPERAND_constant && o->constant.kind == TD_KIND_int &&
            o->constant.i >= least && o->constant.i <= most);
}

bool td_pt2_puts_all(const struct td_node *node)
{
    const char *target = node->form;
    if (node->lower != write_back)
        return false;
    if (!strcmp(target, "slice.Tensor"))
        return is_from(node, "start", 0, 0) && is_from(node, "end", INT64_MAX, INT64_MAX) &&
               is_from(node, "step", 1, 1);
    char form = td_pt2_view_form(target);
    return form == 's' || form == 'd' || form == 'm' || !strcmp(target, "permute") ||
           !strcmp(target, "view.dtype");
}

/* Where the part begins in its dimension, which split, chunk or narrow gave as the result-th. */
static int part_begin(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                      int64_t length, int64_t *begin)
{
    const char *target = node->form;
    int64_t v[TD_MAX_LIST], result = in[2].v.i, step = length;
    int start = strcmp(target, "narrow") ? -1 : td_node_find(node, "start");
    if (start >= 0) {
        int found = td_walk_ints(walk, &in[start], begin, 1);
        *begin += found == 1 && *begin < 0 ? length : 0;
        return found < 0 ? found : 0;
    }
    int n = td_pt2_list(walk, &in[3], v);
    *begin = 0;
    if (n < 0)
        return n;
    if (!strncmp(target, "split", 5) && n > 1) {
        for (int i = 0; i < result && i < n; i++)
            *begin += v[i];
        return 0;
    }
    if (!strncmp(target, "split", 5))
        step = v[0];
    else if (n == 1 && v[0] > 0)
        step = (length + v[0] - 1) / v[0]; /* of chunk */
    *begin = result * step;
    return 0;
}

static int put_part(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    const struct td_tensor *base = &in[0].v.tensor, *part = &in[1].v.tensor;
    int at = td_node_find(node, "dim");
    int64_t dim = 0, begin = 0;
    if (at >= 0 && td_walk_ints(walk, &in[at], &dim, 1) < 0)
        return -EINVAL;
    dim += dim < 0 ? base->rank : 0;
    if (dim < 0 || dim >= base->rank || dim >= part->rank)
        return td_walk_refuse(walk, "has no such dimension");
    int err = part_begin(walk, node, in, base->shape[dim], &begin);
    if (err)
        return err;
    return TD_CALL(walk, "slice_scatter", out, TD_GIVE(in[0]), TD_GIVE(in[1]),
                   TD_GIVE(td_item_int(dim)), TD_GIVE(td_item_int(begin)),
                   TD_GIVE(td_item_int(begin + part->shape[dim])));
}

static int put_permuted(struct td_walk *walk, const struct td_item *in, struct td_item *out)
{
    int64_t dims[TD_MAX_LIST], back[TD_MAX_LIST] = {0};
    int n = td_pt2_list(walk, &in[3], dims);
    for (int i = 0; i < n; i++) {
        dims[i] += dims[i] < 0 ? n : 0;
        if (dims[i] < 0 || dims[i] >= n)
            return td_walk_refuse(walk, "has no such dimension");
        back[dims[i]] = i;
    }
    return n < 0 ? n
                 : TD_CALL(walk, "permute", out, TD_GIVE(in[1]), TD_GIVE(td_item_ints(back, n)));
}

static int write_back(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                      struct td_item *out)
{
    static const struct {
        const char *view, *scatter;
    } scatters[] = {{"slice.Tensor", "slice_scatter"},
                    {"select.int", "select_scatter"},
                    {"diagonal", "diagonal_scatter"},
                    {"as_strided", "as_strided_scatter"}};
    const char *target = node->form;
    char form = td_pt2_view_form(target);
    if (in[0].v.kind != TD_KIND_tensor || in[1].v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "%s: of no tensor", target);
    if (form == 's' && td_numel(&in[0].v.tensor) == td_numel(&in[1].v.tensor)) {
        *out = td_item_reshaped(&in[1], in[0].v.tensor.shape, in[0].v.tensor.rank);
        return 0;
    }
    if (form == 'd')
        return td_pt2_call_on(walk, target, node, in, 1, 1, out);
    if (form == 'm' && in[1].v.tensor.rank > 1)
        return TD_CALL(walk, "transpose.int", out, TD_GIVE(in[1]), TD_GIVE(td_item_int(-2)),
                       TD_GIVE(td_item_int(-1)));
    for (int i = 0; i < 4; i++)
        if (!strcmp(target, scatters[i].view))
            return td_pt2_call_on(walk, scatters[i].scatter, node, in, 0, 2, out);
    if (!strcmp(target, "view.dtype"))
        return TD_CALL(walk, "view.dtype", out, TD_GIVE(in[1]),
                       TD_GIVE(td_item_dtype(in[0].v.tensor.dtype)));
    if (!strcmp(target, "permute") && node->n_operands > 3)
        return put_permuted(walk, in, out);
    int dim = td_node_find(node, "dim");
    if (!strcmp(target, "unbind.int"))
        return TD_CALL(walk, "select_scatter", out, TD_GIVE(in[0]), TD_GIVE(in[1]),
                       TD_GIVE(dim < 0 ? td_item_int(0) : in[dim]), TD_GIVE(in[2]));
    bool part = !strncmp(target, "split", 5) || !strcmp(target, "chunk") ||
                (!strcmp(target, "narrow") && td_node_find(node, "start") >= 0);
    if (node->n_operands > 3 && part)
        return put_part(walk, node, in, out);
    return td_walk_refuse(walk,
                          "a write in place into what %s gives is seen through another view; "
                          "that cannot be done",
                          target);
}
