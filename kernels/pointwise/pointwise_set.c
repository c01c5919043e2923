/* Setting a walk up: which values and operations there are, which dimensions are walked as one, and
 * what lies how. Compiled once, with base flags. */
#include "kernels/pointwise/walk.h"

#include <string.h>

#define TILE 1024 /* elements at most */
#define NEAR 384  /* of several calls on much memory: while one computes, the next's loads come */
#define MUCH ((size_t)1 << 20)
#define LEAST_DOWN 4 /* rows that are laid out together, at least */
#define FEW 256      /* of a row, of which elements stay: its tile is filled once, and read again */

/* A value that is still to be filled in. */
static struct td_point_value *add_value(struct td_point_walk *w, enum td_dtype type, bool made)
{
    struct td_point_value *v = &w->value[w->n_values++];
    v->data = NULL;
    v->place = NULL;
    v->size = td_dtype_size(type);
    v->made = v->constant = made;
    return v;
}

static void set_steps(struct td_point_value *v, const struct td_tensor *t,
                      const struct td_tensor *out)
{
    int64_t step = 1;
    for (int d = out->rank - 1; d >= 0; d--) {
        int own = d - (out->rank - t->rank);
        bool walked = own >= 0 && t->shape[own] != 1;
        v->step[d] = !walked ? 0 : t->stride ? t->stride[own] : step;
        if (own >= 0)
            step *= t->shape[own];
    }
}

/* The operand, or the same one that is there already. */
static int add_operand(struct td_point_walk *w, const struct td_tensor *t)
{
    struct td_point_value *v = add_value(w, t->dtype, false);
    int same = 0, rank = w->out->rank;
    v->data = t->data;
    v->place = &t->data;
    set_steps(v, t, w->out);
    while (w->value[same].made || w->value[same].data != v->data ||
           w->value[same].size != v->size ||
           memcmp(w->value[same].step, v->step, (size_t)rank * sizeof *v->step))
        same++;
    w->n_values = same < w->n_values - 1 ? w->n_values - 1 : w->n_values;
    return same;
}

static enum td_dtype constant_type(enum td_dtype type)
{
    return type == TD_f16 || type == TD_bf16 ? TD_f32 : type;
}

static int add_number(struct td_point_walk *w, struct td_value number, enum td_dtype type)
{
    struct td_point_value *v = add_value(w, type, false);
    for (int d = 0; d < w->out->rank; d++)
        v->step[d] = 0;
    v->data = (char *)&v->number;
    td_point_put(v->data, number, type);
    return w->n_values - 1;
}

/* The op makes a value of its own. */
static int add_op(struct td_point_walk *w, struct td_point_op *op)
{
    op->out = (int)(add_value(w, op->args.to, true) - w->value);
    w->op[w->n_ops++] = *op;
    return op->out;
}

static int add_widened(struct td_point_walk *w, const struct td_call *call, int from,
                       enum td_dtype to)
{
    struct td_point_op op = {
        .row = td_point_widen, .unit = 1, .n_in = 1, .in = {from}, .args.to = to, .call = call};
    op.args.from[0] = TD_bool;
    return add_op(w, &op);
}

void td_point_begin_op(struct td_point_op *op, const struct td_call *call,
                       const struct td_point_way *way)
{
    const struct td_pointwise *family = call->op->family;
    bool picks = td_point_result(family->point) == TD_POINT_IS_pick;
    *op = (struct td_point_op){.row = way->row, .unit = way->unit, .call = call};
    op->args.type = td_point_type(call);
    op->args.to = call->out[0].dtype;
    for (int k = 0; family->operands[k]; k++, op->n_in++) {
        const struct td_value *v = &call->arg[family->operands[k] - '0'];
        bool own = v->kind == TD_KIND_tensor && (v->tensor.dtype == op->args.type || (picks && !k));
        op->args.from[k] = own ? v->tensor.dtype : constant_type(op->args.type);
    }
    for (int k = 0; family->params[k]; k++)
        td_point_param(call, k, &op->args.real[k], &op->args.whole[k]);
}

int td_point_add_call(struct td_point_walk *w, const struct td_call *call,
                      const struct td_point_way *way, const signed char *of, const int *made)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    struct td_point_op op;
    w->turn = w->turn ? w->turn : way->turn;
    td_point_begin_op(&op, call, way);
    for (int k = 0; k < op.n_in; k++) {
        int arg = operands[k] - '0';
        const struct td_value *v = &call->arg[arg];
        if (v->kind != TD_KIND_tensor) {
            op.in[k] = add_number(w, td_point_number(call, k), op.args.from[k]);
            continue;
        }
        op.in[k] = of && of[arg] >= 0 ? made[of[arg]] : add_operand(w, &v->tensor);
        if (op.args.from[k] != v->tensor.dtype)
            op.in[k] = add_widened(w, call, op.in[k], op.args.from[k]);
    }
    int i = add_op(w, &op);
    w->value[i].data = call->out[0].data;
    w->value[i].place = &call->out[0].data;
    return i;
}

/* Leaves out dimensions of one element, and folds one into its inner neighbour wherever every
 * operand walks both as one. */
static void fold(struct td_point_walk *w)
{
    int rank = 0;
    for (int d = 0; d < w->out->rank; d++) {
        int64_t size = w->out->shape[d];
        if (size == 1)
            continue;
        bool joins = rank > 0;
        for (int k = 0; joins && k < w->n_values; k++)
            joins = w->value[k].made || w->value[k].step[rank - 1] == w->value[k].step[d] * size;
        rank -= joins;
        w->shape[rank] = size * (joins ? w->shape[rank] : 1);
        for (int k = 0; k < w->n_values; k++)
            if (!w->value[k].made)
                w->value[k].step[rank] = w->value[k].step[d];
        rank++;
    }
    if (!rank) {
        w->shape[rank] = 1;
        for (int k = 0; k < w->n_values; k++)
            w->value[k].step[rank] = 0;
        rank++;
    }
    w->rank = rank;
}

/* Whether it is one element for each innermost row, and not for all. */
static bool is_still(const struct td_point_walk *w, const struct td_point_value *v)
{
    bool moves = false;
    for (int d = 0; d < w->rank - 1; d++)
        moves |= v->step[d] != 0;
    return !v->made && moves && !v->step[w->rank - 1];
}

/* Whether all that does not lie as the result does is the same for each innermost row: it is laid
 * out once for all of them. */
static bool is_repeated(const struct td_point_walk *w)
{
    bool all = true;
    for (int k = 0; k < w->n_values && all; k++) {
        const struct td_point_value *v = &w->value[k];
        int64_t step = 1;
        bool dense = true, moves = false;
        for (int d = w->rank - 1; d >= 0 && !v->made; d--) {
            dense = dense && v->step[d] == step;
            moves |= d < w->rank - 1 && v->step[d];
            step *= w->shape[d];
        }
        all = v->made || dense || !moves;
    }
    return all;
}

/* What lies how, and with that which values have tiles and of how many elements. */
static void classify(struct td_point_walk *w)
{
    size_t bytes = 0, memory = 0;
    bool again = false, still = false,
         one = w->rank == 1 && w->shape[0] == 1; /* of it no tile is made */
    for (int k = 0; k < w->n_values; k++) {
        w->value[k].still = is_still(w, &w->value[k]);
        still |= w->value[k].still;
    }
    w->brief = still || is_repeated(w) ? TD_POINT_STILL : TD_POINT_SHORT;
    for (int k = 0, last = w->rank - 1; k < w->n_values; k++) {
        struct td_point_value *v = &w->value[k];
        int64_t step = 1;
        v->dense = v->made && v->data;
        v->constant = v->constant && !v->dense;
        if (!v->made) {
            v->dense = v->constant = true;
            for (int d = last; d >= 0; d--) {
                v->dense = v->dense && v->step[d] == step;
                v->constant = v->constant && !v->step[d];
                step *= w->shape[d];
            }
            v->constant = v->constant && !one;
            v->dense = one || (v->dense && !v->constant);
        }
        v->tiled = !v->dense && (v->made || w->shape[last] < w->brief || v->step[last] != 1);
        v->again = v->tiled && !v->made && !v->constant && w->shape[last] < w->brief;
        for (int d = 0; d < last; d++)
            v->again = v->again && !v->step[d];
        again |= v->again;
        memory += v->dense ? (size_t)td_numel(w->out) * v->size : 0;
        v->slot = bytes;
        bytes += v->tiled ? v->size : 0;
    }
    for (int k = 0; k < w->n_ops; k++) /* constant is what constants make */
        for (int i = 0; i < w->op[k].n_in; i++) {
            struct td_point_value *out = &w->value[w->op[k].out];
            out->constant = out->constant && w->value[w->op[k].in[i]].constant;
        }
    int64_t most = bytes ? (int64_t)(TD_POINT_ROOM / bytes) & ~INT64_C(31) : INT64_MAX;
    int64_t wanted = w->n_ops > 1 && memory > MUCH ? NEAR : TILE;
    wanted = ((td_numel(w->out) < wanted ? td_numel(w->out) : wanted) + 63) & ~INT64_C(63);
    w->tile = (bytes || w->n_ops > 1) && most > wanted ? wanted : most;
    w->whole = w->tile;
    if (again && w->shape[w->rank - 1] <= w->tile)
        w->whole -= w->tile % w->shape[w->rank - 1];
    still = still && w->shape[w->rank - 1] >= w->brief;
    while (still && w->whole > FEW && 8 * w->whole > w->shape[w->rank - 1])
        w->whole = w->whole / 2 & ~INT64_C(63);
    for (int k = 0; k < w->n_values; k++)
        w->value[k].again = w->value[k].again && !(w->whole % w->shape[w->rank - 1]);
}

/* The dimension but the last that an operand lies side by side along; -1: none, or it is short. */
static int side_by_side(const struct td_point_walk *w, const struct td_point_value *v)
{
    for (int d = 0; d < w->rank - 1; d++)
        if (v->step[d] == 1 && w->shape[d] >= LEAST_DOWN)
            return d;
    return -1;
}

/* Which operands' elements are apart along the last dimension, and the dimension that blocks go
 * down then: if possible one that such an operand lies along. */
static void find_blocks(struct td_point_walk *w)
{
    const int last = w->rank - 1;
    bool any = false;
    w->down = -1;
    for (int k = 0; k < w->n_values; k++) {
        struct td_point_value *v = &w->value[k];
        v->apart = last && !v->made && v->step[last] != 0 && v->step[last] != 1;
        any |= v->apart;
        if (v->apart && w->down < 0)
            w->down = side_by_side(w, v);
    }
    if (any && w->down < 0)
        w->down = last - 1;
}

void td_point_close_walk(struct td_point_walk *w)
{
    fold(w);
    classify(w);
    find_blocks(w);
}

/* ---- names ---- */

const char *td_point_name(enum td_point point)
{
    static const char *const names[] = {
#define TD_POINT(id, ...) #id,
#include "kernels/pointwise/pointwise.def"
    };
    return names[point];
}

bool td_point_serves(enum td_point point, const struct td_op *op)
{
    static const struct {
        enum td_point of, point;
    } variants[] = {
#define TD_VARIANT(of, id, condition) {TD_POINT_##of, TD_POINT_##id},
#include "kernels/pointwise/pointwise.def"
    };
    enum td_point own = ((const struct td_pointwise *)op->family)->point;
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (variants[i].of == own && variants[i].point == point)
            return true;
    return own == point;
}
