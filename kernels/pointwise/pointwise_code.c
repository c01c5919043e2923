/* Calls that are computed together as one generated loop: what a walk's rows would do tile after
 * tile, in registers. The formulas are those that the rows are compiled from. */
#include "kernels/jit/trace.h"

#include "kernels/jit/code.h"
#include "kernels/none.h"
#include "kernels/pointwise/walk.h"
#include "kernels/trap.h"

#include <stdio.h>

#define SHORT_ROW 16            /* below, beginning a row takes longer than what is saved; */
#define DEAR_ROW 64             /* and its end does, of a formula that costs */
#define DEAR 8                  /* so many operations */
#define MOST (INT64_C(1) << 30) /* elements of a row at once */

/* Of a formula of whole numbers alone there is no text in lanes. */
static const V NONE = -1;
#define AS_same(v) (v)
#define AS_ratio(v) (v)
#define AS_pick(v) (v)
#define AS_truth(m) L_sel(m, L_c(1), L_c(0))

static V formula(enum td_point point, const V *x, const V *param)
{
    V a = x[0], b = x[1], c = x[2], p = param[0], q = param[1], r = param[2];
    (void)a, (void)b, (void)c, (void)p, (void)q, (void)r;
    switch (point) {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    case TD_POINT_##id:                                                                            \
        return AS_##result(lanes);
#include "kernels/pointwise/pointwise.def"
    default:
        return NONE;
    }
}

/* What the code depends on, as bytes, and what else is asked of a walk. */
struct pattern {
    unsigned char key[TD_LOOP_KEY];
    size_t bytes;
    const char *why;
};

static void say(struct pattern *k, int byte)
{
    if (k->bytes == TD_LOOP_KEY)
        k->why = TD_WHY(length);
    else
        k->key[k->bytes++] = (unsigned char)byte;
}

static bool is_number(const struct td_point_value *v)
{
    return !v->made && !v->place;
}

static bool is_widening(const struct td_point_op *op)
{
    return op->row == td_point_widen;
}

/* Whether an op's tensors and values are FP32: truth stays within the loop. */
static bool is_real(const struct td_point_walk *w, const struct td_point_op *op)
{
    if (is_widening(op))
        return w->value[op->in[0]].made && op->args.to == TD_f32;
    bool real = op->args.type == TD_f32;
    for (int k = 0; k < op->n_in; k++)
        real = real && (op->args.from[k] == TD_f32 || w->value[op->in[k]].made);
    return real && (op->args.to == TD_f32 || !w->value[op->out].data);
}

/* Bytes of a vector of the level whose row it is. */
static int width(const struct td_point_op *op)
{
    return op->unit * (int)sizeof(float);
}

static bool is_wide(const struct td_point_walk *w)
{
    return width(&w->op[0]) == 64;
}

static bool is_dear(const struct td_point_op *op)
{
    const struct td_call *call = op->call;
    return !is_widening(op) && call->op->flops(call) >= DEAR * (double)td_numel(&call->out[0]);
}

static void ask(const struct td_point_walk *w, struct pattern *k)
{
    const int last = w->rank - 1;
    bool dear = false, of_type = true;
    k->bytes = 0;
    k->why = NULL;
    say(k, is_wide(w));
    say(k, w->summed ? *w->summed : 0xff);
    for (int i = 0; i < w->n_values; i++) {
        const struct td_point_value *v = &w->value[i];
        say(k, is_number(v) ? 'n' : v->made ? (v->data ? 'o' : 'm') : v->step[last] ? 'd' : 's');
        if (!v->made && v->step[last] && v->step[last] != 1 && !v->apart)
            k->why = TD_WHY(apart);
    }
    for (int i = 0; i < w->n_ops; i++) {
        const struct td_point_op *op = &w->op[i];
        dear |= is_dear(op);
        say(k, is_widening(op) ? 0xff : (int)td_point_of(op->call));
        for (int j = 0; j < op->n_in; j++)
            say(k, op->in[j]);
        say(k, op->out);
        of_type &= is_real(w, op);
        if (width(op) < 32 && !is_widening(op))
            k->why = TD_WHY(level);
        if (width(op) != width(&w->op[0]) && !is_widening(op))
            k->why = TD_WHY(levels);
    }
    if (!of_type) /* a row of another type has vectors of another width, at the same level */
        k->why = TD_WHY(type);
    if (w->shape[last] < (dear ? DEAR_ROW : SHORT_ROW) && w->rank > 1)
        k->why = TD_WHY(rows);
}
_Static_assert(TD_POINTS < 0xff, "a formula's number is a byte of the key");

/* The formulas' names, in the order in which they are computed. */
static void name_loop(struct td_loop *l, const struct td_point_walk *w)
{
    size_t n = 0;
    for (int k = 0; k < w->n_ops && n < sizeof l->name; k++)
        n += (size_t)snprintf(l->name + n, sizeof l->name - n, "%s%s", k ? " " : "",
                              is_widening(&w->op[k]) ? "widen"
                                                     : td_point_name(td_point_of(w->op[k].call)));
}

/* Streams and numbers in the order in which values stand; operands are told in both parts, and are
 * the same nodes. */
static void tell(struct td_loop *l, const void *arg)
{
    const struct td_point_walk *w = arg;
    V at[TD_FUSED_VALUES];
    int stream[TD_FUSED_VALUES];
    td_tracing = l;
    name_loop(l, w);
    l->n_streams = l->n_params = 0;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (is_number(v))
            at[k] = td_loop_param(l);
        else if (!v->made || v->data)
            stream[k] = td_loop_stream(l, !v->made && !v->step[w->rank - 1]);
        if (!is_number(v) && !v->made && !l->why)
            at[k] = td_loop_node(l, TD_LOOP_load, stream[k], -1, -1, -1);
    }
    for (int k = 0; k < w->n_ops && !l->why; k++) {
        const struct td_point_op *op = &w->op[k];
        V x[TD_POINT_OPERANDS] = {-1, -1, -1}, p[TD_POINT_PARAMS] = {-1, -1, -1};
        for (int i = 0; i < op->n_in; i++)
            x[i] = at[op->in[i]];
        if (is_widening(op)) {
            at[op->out] = x[0];
            continue;
        }
        const char *params = ((const struct td_pointwise *)op->call->op->family)->params;
        for (int i = 0; params[i]; i++)
            p[i] = td_loop_param(l);
        at[op->out] = formula(td_point_of(op->call), x, p);
    }
    for (int k = 0; k < w->n_ops && !l->why; k++) {
        int out = w->op[k].out;
        if (w->value[out].data)
            td_loop_node(l, TD_LOOP_store, stream[out], at[out], -1, -1);
    }
    if (w->summed && !l->why) {
        l->sum = td_loop_stream(l, true);
        td_loop_node(l, TD_LOOP_total, 0, at[*w->summed], -1, -1);
        for (int k = 0; k < l->n_nodes && !l->why; k++)
            if (l->node[k].op == TD_LOOP_guard)
                l->why = TD_WHY(rare);
    }
}

const char *td_point_generate(struct td_point_walk *w)
{
    struct pattern k;
    const char *why;
    w->code = NULL;
    ask(w, &k);
    if (k.why)
        return k.why;
    w->code = td_loop_for(k.key, k.bytes, is_wide(w), tell, w, &why);
    return w->code ? NULL : why;
}

/* ---- running ---- */

static void put_param(struct td_loop_args *args, int k, float x)
{
    for (int i = 0; i < 8; i++)
        args->param[k][i] = x;
}

/* In the order in which tell has them. */
static void put_params(const struct td_point_walk *w, struct td_loop_args *args)
{
    int n = 0;
    for (int k = 0; k < w->n_values; k++)
        if (is_number(&w->value[k])) {
            float x;
            memcpy(&x, w->value[k].data, sizeof x);
            put_param(args, n++, x);
        }
    for (int k = 0; k < w->n_ops; k++) {
        const struct td_point_op *op = &w->op[k];
        if (is_widening(op))
            continue;
        const char *params = ((const struct td_pointwise *)op->call->op->family)->params;
        for (int i = 0; params[i]; i++) {
            double x = op->args.real[i];
            put_param(args, n++, x == x ? (float)x : NAN); /* without a caller's bits */
        }
    }
}

struct row { /* of the result: its number, and its index in each dimension but the last */
    int64_t number, index[TD_MAX_RANK];
};

static struct row row_of(const struct td_point_walk *w, int64_t number)
{
    struct row row = {.number = number};
    for (int d = w->rank - 2; d >= 0; number /= w->shape[d--])
        row.index[d] = number % w->shape[d];
    return row;
}

/* Rows on, as far as the end of the last but one dimension at most: without a division, which would
 * take longer than a few short rows do. */
static void advance(const struct td_point_walk *w, struct row *row, int64_t rows)
{
    int d = w->rank - 2;
    row->number += rows;
    if (d >= 0)
        row->index[d] += rows;
    for (; d > 0 && row->index[d] == w->shape[d]; d--) {
        row->index[d] = 0;
        row->index[d - 1]++;
    }
}

/* Where streams stand at a row's element col: how many there are. */
static int place(const struct td_point_walk *w, const struct row *row, int64_t col,
                 struct td_loop_args *args)
{
    int last = w->rank - 1, s = 0;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        int64_t at = row->number * w->shape[last] + col;
        if (is_number(v) || (v->made && !v->data))
            continue;
        if (!v->made)
            at = col * v->step[last];
        for (int d = last - 1; d >= 0 && !v->made; d--)
            at += row->index[d] * v->step[d];
        args->row_step[s] = 4 * (v->made ? w->shape[last] : last ? v->step[last - 1] : 0);
        args->base[s++] = v->data + 4 * at;
    }
    return s;
}

/* Of rows that are parts of one. */
static void set_steps(const struct td_point_walk *w, int64_t step, struct td_loop_args *args)
{
    for (int k = 0, s = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (!is_number(v) && (!v->made || v->data))
            args->row_step[s++] = v->made || v->step[0] ? 4 * step : 0;
    }
}

bool td_point_run_sums(const struct td_point_walk *w, int64_t at, int64_t n, int64_t rows,
                       int64_t step, float *to)
{
    const int64_t inner = w->shape[w->rank - 1];
    struct td_loop_args args = {.n = n};
    put_params(w, &args);
    if (w->op[0].impl)
        td_net_note(w->op[0].impl, w->op[0].call);
    for (int64_t r = 0; r < rows; r += args.rows) {
        struct row row = row_of(w, (at + r * step) / inner);
        int64_t col = (at + r * step) % inner;
        if (col + n > inner)
            return false;
        int sum = place(w, &row, col, &args);
        args.rows = 1;
        if (w->rank == 1) {
            args.rows = rows;
            set_steps(w, step, &args);
        } else if (n == inner && step == inner) { /* as far as they follow in one dimension */
            int64_t left = w->shape[w->rank - 2] - row.index[w->rank - 2];
            args.rows = left < rows - r ? left : rows - r;
        }
        args.base[sum] = (char *)(to + r);
        args.row_step[sum] = 4;
        w->code(&args);
    }
    return true;
}

void td_point_run_block(const struct td_point_walk *w, char *const *at, const int64_t *row_step,
                        int64_t n, int64_t rows)
{
    struct td_loop_args args = {.n = n, .rows = rows};
    put_params(w, &args);
    if (w->op[0].impl)
        td_net_note(w->op[0].impl, w->op[0].call);
    for (int k = 0, s = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (is_number(v) || (v->made && !v->data))
            continue;
        args.row_step[s] = 4 * row_step[k];
        args.base[s++] = at[k];
    }
    w->code(&args);
}

void td_point_run_code(void *arg, int64_t begin, int64_t end)
{
    const struct td_point_walk *w = arg;
    const int last = w->rank - 1;
    const int64_t inner = w->shape[last];
    struct td_loop_args args;
    struct row row = row_of(w, begin / inner);
    put_params(w, &args);
    if (w->op[0].impl)
        td_net_note(w->op[0].impl, w->op[0].call);
    for (int64_t col = begin % inner; begin < end; begin += args.n * args.rows) {
        int64_t left = end - begin;
        args.n = inner - col < left ? inner - col : left;
        args.n = args.n < MOST ? args.n : MOST;
        args.rows = 1;
        if (args.n == inner && last) { /* whole rows, as far as they follow in one dimension */
            int64_t rows = w->shape[last - 1] - row.index[last - 1];
            args.rows = rows * inner <= left ? rows : left / inner;
        }
        place(w, &row, col, &args);
        w->code(&args);
        col += args.n;
        if (col == inner) {
            col = 0;
            advance(w, &row, args.rows);
        }
    }
}
