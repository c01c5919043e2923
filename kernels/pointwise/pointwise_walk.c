/* The walk over operands that broadcast to a result, for one call, or for several over one shape
 * that are computed together. A row function sees only dense elements, whole multiples of its unit;
 * everything else is arranged here, in tiles that stay in the first-level cache:
 *
 * - dimensions that all operands walk as one are folded, so most calls are one run;
 * - an operand that lies dense beside the result is read in place;
 * - any other (a column, a row against short rows, one number, what has strides) is laid out in a
 * tile first, once for all tiles where each innermost row wants the same;
 * - a BOOL among operands of another type is made one of theirs in a tile, but for one that picks;
 * - what one call makes for another stays in a tile, in the type that it is rounded to.
 *
 * Work is split by ranges of the result's elements. Compiled once, with base flags. */
#include "kernels/pointwise/pointwise.h"

#include "kernels/elementwise.h"
#include "kernels/fused.h"

#include <assert.h>
#include <string.h>

#define TILE 1024 /* elements at most */
#define NEAR 384  /* of several calls on much memory: while one computes, the next's loads come */
#define MUCH ((size_t)1 << 20)
#define ROOM 16384 /* bytes of all tiles: a third of a 48 KiB cache */
#define SHORT 128  /* runs below are laid out many at a time */
#define FEW 1024   /* elements that no team is woken for */

struct value {                 /* an operand in memory, or what an op makes */
    char *data;                /* NULL: it is in its tile alone */
    size_t size;               /* bytes an element */
    size_t slot;               /* bytes an element of the tiles before its own */
    int64_t step[TD_MAX_RANK]; /* elements; 0 where it is broadcast */
    uint64_t number;           /* where a Scalar's element stands */
    bool made;                 /* by an op */
    bool tiled;                /* has a tile */
    bool dense;                /* lies exactly like the result */
    bool constant;             /* one element for all */
    bool again;                /* its elements come again with each innermost row */
};

struct op { /* a row over values */
    struct td_point_args args;
    td_point_row *row;
    int unit, n_in, in[TD_POINT_OPERANDS], out;
};

struct walk {
    int rank, n_values, n_ops;
    int64_t tile;               /* elements that have room */
    int64_t whole;              /* of a tile: whole rows, where operands come again with these */
    int64_t shape[TD_MAX_RANK]; /* folded, outermost first; never empty */
    const struct td_tensor *out;
    struct value value[TD_FUSED_VALUES];
    struct op op[TD_FUSED_VALUES];
};
_Static_assert(TD_FUSED_VALUES * 8 * 32 <= ROOM, "the widest tiles hold 32 elements");

/* ---- setting up ---- */

/* A value that is still to be filled in. */
static struct value *add_value(struct walk *w, enum td_dtype type, bool made)
{
    struct value *v = &w->value[w->n_values++];
    v->data = NULL;
    v->size = td_dtype_size(type);
    v->made = v->constant = made;
    return v;
}

static void set_steps(struct value *v, const struct td_tensor *t, const struct td_tensor *out)
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
static int add_operand(struct walk *w, const struct td_tensor *t)
{
    struct value *v = add_value(w, t->dtype, false);
    int same = 0, rank = w->out->rank;
    v->data = t->data;
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

static int add_number(struct walk *w, struct td_value number, enum td_dtype type)
{
    struct value *v = add_value(w, type, false);
    for (int d = 0; d < w->out->rank; d++)
        v->step[d] = 0;
    v->data = (char *)&v->number;
    td_point_put(v->data, number, type);
    return w->n_values - 1;
}

/* The op makes a value of its own. */
static int add_op(struct walk *w, struct op *op)
{
    op->out = (int)(add_value(w, op->args.to, true) - w->value);
    w->op[w->n_ops++] = *op;
    return op->out;
}

static int add_widened(struct walk *w, int from, enum td_dtype to)
{
    struct op op = {.row = td_point_widen, .unit = 1, .n_in = 1, .in = {from}, .args.to = to};
    op.args.from[0] = TD_bool;
    return add_op(w, &op);
}

/* What a row is told; where operands lie is still to be said. */
static void begin_op(struct op *op, const struct td_call *call, td_point_row *row, int unit)
{
    const struct td_pointwise *family = call->op->family;
    bool picks = td_point_result(family->point) == TD_POINT_IS_pick;
    *op = (struct op){.row = row, .unit = unit};
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

/* made: of the calls before, the values that they make; of: which of these an argument is. */
static int add_call(struct walk *w, const struct td_call *call, td_point_row *row, int unit,
                    const signed char *of, const int *made)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    struct op op;
    begin_op(&op, call, row, unit);
    for (int k = 0; k < op.n_in; k++) {
        int arg = operands[k] - '0';
        const struct td_value *v = &call->arg[arg];
        if (v->kind != TD_KIND_tensor) {
            op.in[k] = add_number(w, td_point_number(call, k), op.args.from[k]);
            continue;
        }
        op.in[k] = of && of[arg] >= 0 ? made[of[arg]] : add_operand(w, &v->tensor);
        if (op.args.from[k] != v->tensor.dtype)
            op.in[k] = add_widened(w, op.in[k], op.args.from[k]);
    }
    int i = add_op(w, &op);
    w->value[i].data = call->out[0].data;
    return i;
}

/* Leaves out dimensions of one element, and folds one into its inner neighbour wherever every
 * operand walks both as one. */
static void fold(struct walk *w)
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

/* What lies how, and with that which values have tiles and of how many elements. */
static void classify(struct walk *w)
{
    size_t bytes = 0, memory = 0;
    bool again = false, one = w->rank == 1 && w->shape[0] == 1; /* of it no tile is made */
    for (int k = 0, last = w->rank - 1; k < w->n_values; k++) {
        struct value *v = &w->value[k];
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
        v->tiled = !v->dense && (v->made || w->shape[last] < SHORT || v->step[last] != 1);
        v->again = v->tiled && !v->made && !v->constant && w->shape[last] < SHORT;
        for (int d = 0; d < last; d++)
            v->again = v->again && !v->step[d];
        again |= v->again;
        memory += v->dense ? (size_t)td_numel(w->out) * v->size : 0;
        v->slot = bytes;
        bytes += v->tiled ? v->size : 0;
    }
    for (int k = 0; k < w->n_ops; k++) /* constant is what constants make */
        for (int i = 0; i < w->op[k].n_in; i++) {
            struct value *out = &w->value[w->op[k].out];
            out->constant = out->constant && w->value[w->op[k].in[i]].constant;
        }
    int64_t most = bytes ? (int64_t)(ROOM / bytes) & ~INT64_C(31) : INT64_MAX;
    int64_t wanted = w->n_ops > 1 && memory > MUCH ? NEAR : TILE;
    wanted = ((td_numel(w->out) < wanted ? td_numel(w->out) : wanted) + 63) & ~INT64_C(63);
    w->tile = (bytes || w->n_ops > 1) && most > wanted ? wanted : most;
    w->whole = w->tile;
    if (again && w->shape[w->rank - 1] <= w->tile)
        w->whole -= w->tile % w->shape[w->rank - 1];
    for (int k = 0; k < w->n_values; k++)
        w->value[k].again = w->value[k].again && !(w->whole % w->shape[w->rank - 1]);
}

/* ---- running ---- */

/* Whole units of n elements in place, the few beyond through tiles. */
static void run_op(const struct op *op, int64_t n, char *const *at)
{
    int64_t whole = n - n % op->unit, rest = n - whole;
    size_t out_size = td_dtype_size(op->args.to);
    const void *in[TD_POINT_OPERANDS];
    for (int k = 0; k < op->n_in; k++)
        in[k] = at[op->in[k]];
    if (whole)
        op->row(&op->args, whole, at[op->out], in);
    if (!rest)
        return;
    char room[TD_POINT_OPERANDS][64], result[64]; /* a unit is at most 64 bytes */
    const void *few[TD_POINT_OPERANDS];
    for (int k = 0; k < op->n_in; k++) {
        size_t size = td_dtype_size(op->args.from[k]);
        memset(room[k], 0x3c,
               sizeof room[k]); /* in no type 0 by which is divided, nor rare and slow */
        memcpy(room[k], (const char *)in[k] + (size_t)whole * size, (size_t)rest * size);
        few[k] = room[k];
    }
    op->row(&op->args, op->unit, result, few);
    memcpy(at[op->out] + (size_t)whole * out_size, result, (size_t)rest * out_size);
}

/* The operand's elements for the result's n from number begin on. */
static void lay_out(const struct walk *w, const struct value *v, int64_t begin, int64_t n, char *to)
{
    const struct td_point_walked from = {v->data, v->size, w->rank, w->shape, v->step};
    td_point_lay_out(&from, begin, n, to);
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const struct walk *w = arg;
    char tiles[ROOM] __attribute__((aligned(64))), *at[TD_FUSED_VALUES];
    int last = w->rank - 1;
    int64_t inner = w->shape[last];
    for (int k = 0; k < w->n_values; k++) {
        const struct value *v = &w->value[k];
        at[k] = tiles + v->slot * (size_t)w->tile;
        if (v->constant && !v->made)
            td_point_copy(at[k], v->data, w->tile, 0, v->size);
        else if (v->again)
            lay_out(w, v, begin, w->whole < end - begin ? w->whole : end - begin, at[k]);
    }
    for (int k = 0; k < w->n_ops; k++)
        if (w->value[w->op[k].out].constant)
            run_op(&w->op[k], w->tile, at);
    while (begin < end) {
        int64_t n = end - begin, col = begin % inner;
        if (inner >= SHORT && n > inner - col)
            n = inner - col;
        if (n > w->whole)
            n = w->whole;
        for (int k = 0; k < w->n_values; k++) {
            const struct value *v = &w->value[k];
            if (v->dense) {
                at[k] = v->data + (size_t)begin * v->size;
            } else if (!v->tiled) {
                int64_t from = col, row = begin / inner;
                for (int d = last - 1; d >= 0; row /= w->shape[d--])
                    from += row % w->shape[d] * v->step[d];
                at[k] = v->data + from * (int64_t)v->size;
            } else if (!v->constant && !v->made && !v->again) {
                lay_out(w, v, begin, n, at[k]);
            }
        }
        for (int k = 0; k < w->n_ops; k++)
            if (!w->value[w->op[k].out].constant)
                run_op(&w->op[k], n, at);
        begin += n;
    }
}

static void run_walk(struct walk *w, double flops, int threads)
{
    int64_t n = td_numel(w->out);
    fold(w);
    classify(w);
    /* Waking a team takes 25 us and more: about 250,000 of the cheapest elements. */
    int64_t grain = (int64_t)(262144.0 * (double)n / flops);
    td_parallel(threads, n, grain > 1024 ? grain : 1024, run_range, w);
}

/* ---- one call, or several ---- */

struct way { /* that a kernel would have gone */
    td_point_row *row;
    int unit;
};

/* Few elements that all lie as the result's do, without a walk; false: they are not. */
static bool run_few(const struct td_call *call, td_point_row *row, int unit)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    int64_t n = td_numel(&call->out[0]);
    char *at[TD_POINT_OPERANDS + 1], number[8], room[TD_POINT_OPERANDS][64]; /* a unit of it */
    struct op op;
    if (n > FEW)
        return false;
    begin_op(&op, call, row, unit);
    for (int k = 0; k < op.n_in; k++) {
        const struct td_value *v = &call->arg[operands[k] - '0'];
        const struct td_tensor *t = &v->tensor;
        bool lies = v->kind == TD_KIND_tensor && !t->stride && t->dtype == op.args.from[k];
        if (lies ? td_numel(t) != n : v->kind == TD_KIND_tensor || n > unit)
            return false;
        at[k] = lies ? t->data : room[k];
        op.in[k] = k;
        if (lies)
            continue;
        td_point_put(number, td_point_number(call, k), op.args.from[k]);
        td_point_copy(room[k], number, unit, 0, td_dtype_size(op.args.from[k]));
    }
    op.out = op.n_in;
    at[op.out] = call->out[0].data;
    run_op(&op, n, at);
    return true;
}

void td_pointwise(const struct td_call *call, td_point_row *row, int unit)
{
    struct walk w;
    assert(row);
    if (!call->threads) { /* it is only asked */
        *(struct way *)call->scratch = (struct way){row, unit};
        return;
    }
    if (!td_numel(&call->out[0]) || run_few(call, row, unit))
        return;
    w.n_values = w.n_ops = 0;
    w.out = &call->out[0];
    add_call(&w, call, row, unit, NULL, NULL);
    run_walk(&w, call->op->flops(call), call->threads);
}

void td_fused(const struct td_fused *calls, int n, int threads)
{
    struct walk w;
    int made[TD_FUSED_MOST];
    double flops = 0;
    w.n_values = w.n_ops = 0;
    w.out = &calls[0].call->out[0];
    if (!td_numel(w.out))
        return;
    for (int i = 0; i < n; i++) {
        struct way way;
        struct td_call *call = calls[i].call;
        call->threads = 0;
        call->scratch = &way;
        calls[i].impl->run(call);
        call->threads = threads;
        flops += call->op->flops(call);
        made[i] = add_call(&w, call, way.row, way.unit, calls[i].of, made);
    }
    run_walk(&w, flops, threads);
}
