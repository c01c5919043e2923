/* The words in which rows of the importer's table say what a node is: names, numbers and formulas.
 */
#include "dispatch/onnx/ops/onnx.h"

#include <errno.h>
#include <string.h>

static const struct td_item none = {0};

void no_room(struct td_onnx *n, const char *what)
{
    if (!n->err)
        n->err = td_walk_no_room(n->walk, what);
}

/* ---- names ---- */

/* The place of a name; n->n: it has none. Mostly it is the very pointer that a form has. */
static int find(const struct td_onnx *n, const char *name)
{
    int i = 0;
    while (i < n->n && n->name[i].name != name && strcmp(n->name[i].name, name) != 0)
        i++;
    return i;
}

const struct td_item *at(struct td_onnx *n, const char *name)
{
    int i = find(n, name);
    return i < n->n ? &n->name[i].item : &none;
}

bool has(struct td_onnx *n, const char *name)
{
    return at(n, name)->v.kind != TD_KIND_none;
}

void let(struct td_onnx *n, const char *name, struct td_item item)
{
    int i = find(n, name);
    if (i == TD_ONNX_NAMES) {
        refuse(n, "too many names");
        return;
    }
    if (i == n->n)
        n->name[n->n++].name = name;
    n->name[i].item = item;
}

void let_int(struct td_onnx *n, const char *name, int64_t v)
{
    let(n, name, td_item_int(v));
}

void let_ints(struct td_onnx *n, const char *name, const int64_t *v, int count)
{
    if (count > TD_MAX_LIST)
        refuse(n, "%s: at most %d numbers are right, not %d", name, TD_MAX_LIST, count);
    else
        let(n, name, td_item_ints(v, count));
}

void let_tensor(struct td_onnx *n, const char *name, enum td_dtype dtype, const double *v,
                int count)
{
    struct td_item item = {0};
    if (!n->err)
        n->err = td_walk_tensor(n->walk, dtype, v, count, &item);
    if (!n->err)
        let(n, name, item);
}

void set_numbers(struct td_onnx *n, const char *name, enum td_dtype dtype)
{
    double v[TD_MAX_LIST];
    const struct td_item *item = at(n, name);
    if (item->v.kind == TD_KIND_tensor) {
        let(n, "type", td_item_dtype(dtype));
        let(n, "v", *item);
        set(n, name, "to.dtype(v, type)");
        return;
    }
    int count = reals(n, name, v, TD_MAX_LIST);
    if (count < 0)
        refuse(n, "%s: numbers are missing", name);
    else
        let_tensor(n, name, dtype, v, count);
}

/* ---- what they are ---- */

const struct td_tensor *tensor_of(struct td_onnx *n, const char *name)
{
    static const struct td_tensor other = {
        .dtype = TD_f32, .rank = TD_MAX_RANK, .shape = {1, 1, 1, 1, 1, 1, 1, 1}};
    const struct td_item *item = at(n, name);
    if (item->v.kind == TD_KIND_tensor)
        return &item->v.tensor;
    refuse(n, "%s: a tensor is missing", name);
    return &other;
}

int axis_of(struct td_onnx *n, const char *name, int rank)
{
    int64_t axis = whole(n, name, 0);
    if (axis >= -rank && axis < rank)
        return (int)(axis < 0 ? axis + rank : axis);
    refuse(n, "%s: %lld is none of %d dimensions", name, (long long)axis, rank);
    return 0;
}

int ints(struct td_onnx *n, const char *name, int64_t *v, int max)
{
    const struct td_item *item = at(n, name);
    if (n->err || item->v.kind == TD_KIND_none)
        return -1;
    int count = td_walk_ints(n->walk, item, v, max);
    if (count >= 0)
        return count;
    if (count == -EINVAL)
        refuse(n, "%s: at most %d whole numbers are right", name, max);
    else
        n->err = count;
    return -1;
}

int reals(struct td_onnx *n, const char *name, double *v, int max)
{
    const struct td_item *item = at(n, name);
    if (n->err || item->v.kind == TD_KIND_none)
        return -1;
    int count = td_walk_floats(n->walk, item, v, max);
    if (count >= 0)
        return count;
    if (count == -EINVAL)
        refuse(n, "%s: at most %d numbers are right", name, max);
    else
        n->err = count;
    return -1;
}

int64_t whole(struct td_onnx *n, const char *name, int64_t otherwise)
{
    int64_t v;
    int count = ints(n, name, &v, 1);
    if (!count)
        refuse(n, "%s: a number is missing", name);
    return count == 1 ? v : otherwise;
}

double real(struct td_onnx *n, const char *name, double otherwise)
{
    double v;
    int count = reals(n, name, &v, 1);
    if (!count)
        refuse(n, "%s: a number is missing", name);
    return count == 1 ? v : otherwise;
}

const char *text(struct td_onnx *n, const char *name)
{
    const struct td_item *item = at(n, name);
    return item->v.kind == TD_KIND_str ? item->v.str : "";
}

int list_of(struct td_onnx *n, const char *name, const struct td_item **list)
{
    const struct td_item *item = at(n, name);
    *list = item->list;
    if (item->v.kind == TD_KIND_tensors && item->n)
        return item->n;
    refuse(n, "%s: tensors are missing", name);
    return 0;
}

/* ---- calls ---- */

/* count NULL: there is one result. */
static void compute(struct td_onnx *n, const char *formula, struct td_item *result, int *count)
{
    struct td_given used[TD_ONNX_NAMES]; /* those that occur */
    int n_used = 0;
    for (int i = 0; i < n->n; i++)
        if (strstr(formula, n->name[i].name))
            used[n_used++] = n->name[i];
    if (!n->err)
        n->err = td_walk_formula(n->walk, formula, used, n_used, result, count);
}

struct td_item eval(struct td_onnx *n, const char *formula)
{
    struct td_item result = {0};
    compute(n, formula, &result, NULL);
    return n->err ? none : result;
}

void set(struct td_onnx *n, const char *name, const char *formula)
{
    struct td_item item = eval(n, formula);
    if (!n->err)
        let(n, name, item);
}

void put(struct td_onnx *n, int i, struct td_item item)
{
    if (!n->err && wants(n, i))
        n->out[i] = item;
}

void give(struct td_onnx *n, const char *formula)
{
    struct td_item result[TD_MAX_OUTS];
    int count = 0;
    compute(n, formula, result, &count);
    for (int i = 0; i < count && !n->err; i++)
        put(n, i, result[i]);
}

bool wants(const struct td_onnx *n, int i)
{
    return i < n->node->n_outs && n->node->out[i] >= 0;
}

struct td_item call_list(struct td_onnx *n, const char *op, const struct td_item *list, int count,
                         const int64_t *number)
{
    struct td_item result = {0};
    struct td_given args[2] = {TD_GIVE(none), TD_GIVE(td_item_int(number ? *number : 0))};
    args[0].item.v.kind = TD_KIND_tensors;
    args[0].item.list = (struct td_item *)list;
    args[0].item.n = count;
    if (!n->err)
        n->err = td_walk_call(n->walk, op, args, number ? 2 : 1, &result, NULL);
    return n->err ? none : result;
}

/* ---- a node ---- */

/* The type of the first tensor of an item, which may be a list, whose type is not *type; 0: all
 * have it. If *type is 0, it becomes the type of the item's first tensor. */
static enum td_dtype other_type(const struct td_item *item, enum td_dtype *type)
{
    enum td_dtype other = 0;
    for (int i = 0; i < item->n && !other; i++)
        other = other_type(&item->list[i], type);
    if (item->v.kind != TD_KIND_tensor)
        return other;
    if (!*type)
        *type = item->v.tensor.dtype;
    return item->v.tensor.dtype == *type ? 0 : item->v.tensor.dtype;
}

/* Refuses operand i if its type is not that of the first operand with its letter, or BOOL for 'B':
 * ONNX converts nothing by itself. */
static void check_type(struct td_onnx *n, int i)
{
    const struct td_onnx_form *form = n->node->form;
    const struct td_onnx_operand *operand = form->operand;
    enum td_dtype type = operand[i].type == 'B' ? TD_bool : 0;
    int first = i;
    for (int k = i - 1; k >= 0; k--)
        if (operand[k].type == operand[i].type && n->name[k].item.v.kind != TD_KIND_none)
            first = k;
    if (first < i)
        other_type(&n->name[first].item, &type);
    enum td_dtype other = other_type(&n->name[i].item, &type);
    if (other && operand[i].type == 'B')
        unfit(n, "%s: is %s; BOOL is right", operand[i].name, td_dtype_name(other));
    else if (other)
        unfit(n, "%s: is %s, %s is %s; they must be of one type", operand[i].name,
              td_dtype_name(other), operand[first].name, td_dtype_name(type));
}

/* What most rows ask for: the first tensor's type, and its dimensions behind the first two. */
static void let_usual(struct td_onnx *n)
{
    int i = 0;
    while (i < n->n && n->name[i].item.v.kind != TD_KIND_tensor)
        i++;
    if (i == n->n)
        return;
    struct td_tensor x = n->name[i].item.v.tensor;
    int64_t inner[TD_MAX_RANK];
    for (int d = 2; d < x.rank; d++)
        inner[d - 2] = d;
    let(n, "kind", td_item_dtype(x.dtype));
    let_ints(n, "inner", inner, x.rank > 2 ? x.rank - 2 : 0);
}

/* Up to the sixth set, axis said where the second operand's dimensions lie in the first one's. */
static void spread_second(struct td_onnx *n)
{
    if (n->version >= 7 || !has(n, "B") || !has(n, "axis"))
        return;
    struct td_tensor a = *tensor_of(n, "A"), b = *tensor_of(n, "B");
    int behind = a.rank - axis_of(n, "axis", a.rank) - b.rank;
    if (behind < 0)
        refuse(n, "axis: B does not end within A");
    for (int d = 0; d < behind; d++)
        b.shape[b.rank + d] = 1;
    let_ints(n, "sizes", b.shape, b.rank + (behind < 0 ? 0 : behind));
    set(n, "B", "view(B, sizes)");
}

int td_onnx_walk(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    const struct td_onnx_form *form = node->form;
    struct td_onnx n; /* whose names, eleven kilobytes, are written as they are given */
    n.walk = walk;
    n.node = node;
    n.out = out;
    n.formula = form->row->formula;
    n.version = node->version;
    n.err = n.n = 0;
    for (int i = 0; i < form->n; i++)
        let(&n, form->operand[i].name, (struct td_item){.v = form->operand[i].otherwise});
    for (int i = 0; i < node->n_operands; i++)
        if (node->operand[i].kind != TD_OPERAND_graph)
            let(&n, node->operand[i].name, in[i]);
    for (int i = 0; i < form->n_inputs && !n.err; i++)
        if (form->operand[i].type)
            check_type(&n, i);
    let_usual(&n);
    spread_second(&n);
    if (n.err)
        return n.err;
    if (form->row->lower)
        form->row->lower(&n);
    else
        give(&n, n.formula);
    for (int i = 0; i < node->n_outs && !n.err; i++)
        if (wants(&n, i) && out[i].v.kind == TD_KIND_none)
            refuse(&n, "has no result %d", i);
    return n.err;
}
