/* The walk over operands that broadcast to a result, for one call, or for several over one shape
 * that are computed together. A row function sees only dense elements, whole multiples of its unit;
 * everything else is arranged here, in tiles that stay in the first-level cache:
 *
 * - dimensions that all operands walk as one are folded, so most calls are one run;
 * - an operand that lies dense beside the result is read in place;
 * - any other (a column, a row against short rows, one number, what has strides) is laid out in a
 * tile first, once for all tiles where each innermost row wants the same;
 * - one of two operands that stays all along an innermost row is no operand of a tile where a
 * formula has rows for it (pointwise_still.c);
 * - a BOOL among operands of another type is made one of theirs in a tile, but for one that picks;
 * - what one call makes for another stays in a tile, in the type that it is rounded to;
 * - operands that lie side by side along another dimension, as a transposed matrix does, are laid
 * out several rows at a time (pointwise_blocks.c);
 * - a result of a cheap call that with its operands is larger than the caches is computed in a
 * small tile, and written from there past them: else each of its lines would be read before it is.
 *
 * Several calls, or one whose operands would be laid out again and again, may be one generated loop
 * in place of all this (pointwise_code.c).
 *
 * Work is split by ranges of the result's elements. Compiled once, with base flags. */
#include "kernels/pointwise/walk.h"

#include "kernels/elementwise.h"
#include "kernels/jit/code.h"
#include "kernels/trap.h"

#include <assert.h>
#include <emmintrin.h>
#include <errno.h>
#include <string.h>

#define FEW 1024          /* elements that no team is woken for */
#define BEYOND (40 << 20) /* bytes of operands that the caches have lost by the next call */
#define STREAM 2048       /* and so many of such a result are written at a time, */
#define CHEAP 2           /* where elements take so few operations: others would wait for it */
#define LINE 64

/* ---- running ---- */

/* Computes whole units of n elements in place. For the few elements beyond, one more unit that ends
 * with the last of them, and so computes some twice; through tiles where that cannot be, as the
 * result overwrites an operand or there is no whole unit. */
void td_point_run_op(const struct td_point_op *op, int64_t n, char *const *at)
{
    int64_t whole = n - n % op->unit, rest = n - whole;
    size_t out_size = td_dtype_size(op->args.to);
    const void *in[TD_POINT_OPERANDS];
    if (op->impl)
        td_net_note(op->impl, op->call);
    for (int k = 0; k < op->n_in; k++)
        in[k] = at[op->in[k]];
    if (whole)
        op->row(&op->args, whole, at[op->out], in);
    if (!rest)
        return;
    bool apart = whole > 0;
    for (int k = 0; k < op->n_in; k++)
        apart = apart && in[k] != at[op->out];
    if (apart) {
        for (int k = 0; k < op->n_in; k++)
            in[k] = (const char *)in[k] + (size_t)(n - op->unit) * td_dtype_size(op->args.from[k]);
        op->row(&op->args, op->unit, at[op->out] + (size_t)(n - op->unit) * out_size, in);
        return;
    }
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

static void lay_out(const struct td_point_walk *w, const struct td_point_value *v, int64_t begin,
                    int64_t n, char *to)
{
    const struct td_point_walked from = {v->data, v->size, w->rank, w->shape, v->step};
    td_point_lay_out(&from, begin, n, to);
}

char *td_point_at(const struct td_point_walk *w, const struct td_point_value *v, int64_t begin,
                  int64_t n, char *tile)
{
    if (v->dense)
        return v->data + (size_t)begin * v->size;
    if (v->tiled) {
        if (!v->constant && !v->made)
            lay_out(w, v, begin, n, tile);
        return tile;
    }
    int last = w->rank - 1;
    int64_t from = begin % w->shape[last], row = begin / w->shape[last];
    for (int d = last - 1; d >= 0; row /= w->shape[d--])
        from += row % w->shape[d] * v->step[d];
    return v->data + from * (int64_t)v->size;
}

/* ---- results beyond the caches ---- */

struct past {
    int value; /* that is written past the caches; -1: none is */
    char *to;
    size_t size;
    int n; /* operands that lie beside it, and bytes of each for a line of it */
    const char *from[TD_FUSED_VALUES];
    size_t step[TD_FUSED_VALUES];
};

/* The dense operands are more than the last cache holds; or the result is, where there are no
 * such operands. On an AMD EPYC (Zen 4, 32 MiB) stores past the caches reach 20 GB/s of one core: a
 * loop over 22 MB that writes as much takes 1.2 ms with them and 1.0 ms without; of 80 MB 4.1
 * and 5.2 ms. */
static bool is_beyond(const struct td_point_walk *w)
{
    int64_t read = 0, written = 0;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        int64_t bytes = v->dense ? (int64_t)v->size * td_numel(w->out) : 0;
        *(v->made ? &written : &read) += bytes;
    }
    return (read ? read : written) >= BEYOND;
}

static struct past look_past(const struct td_point_walk *w)
{
    struct past p = {.value = -1};
    int out = -1;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (v->again || (v->made && !v->tiled && out >= 0))
            return p;
        out = v->made && !v->tiled ? k : out;
    }
    if (!w->cheap || !is_beyond(w) || out < 0 || !w->value[out].dense || w->value[out].size < 4 ||
        w->shape[w->rank - 1] < 4 * STREAM)
        return p;
    p.to = w->value[out].data;
    p.size = w->value[out].size;
    if ((uintptr_t)p.to % p.size)
        return p;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        if (k == out || !v->dense)
            continue;
        if (v->data == p.to) /* in place, its lines are there */
            return p;
        p.from[p.n] = v->data;
        p.step[p.n++] = LINE * v->size / p.size;
    }
    p.value = out;
    return p;
}

/* How many elements come next: up to the beginning of a line first, then so many lines. */
static int64_t next_part(const struct past *p, int64_t begin)
{
    size_t before = (uintptr_t)(p->to + (size_t)begin * p->size) % LINE;
    return (int64_t)((before ? LINE - before : STREAM) / p->size);
}

/* Writes n elements from a tile; while it does, what comes next of the operands is fetched. */
static void stream(const struct past *p, int64_t begin, int64_t n, const char *tile)
{
    size_t bytes = (size_t)n * p->size, i = 0;
    char *to = p->to + (size_t)begin * p->size;
    const char *next[TD_FUSED_VALUES];
    for (int k = 0; k < p->n; k++)
        next[k] = p->from[k] + (size_t)(begin + n) * p->step[k] / LINE * p->size;
    for (; i + LINE <= bytes && (uintptr_t)to % LINE == 0; i += LINE) {
        for (int k = 0; k < p->n; k++)
            for (const char *end = next[k] + p->step[k]; next[k] < end; next[k] += LINE)
                __builtin_prefetch(next[k]);
        for (size_t at = 0; at < LINE; at += sizeof(__m128i))
            _mm_stream_si128((__m128i *)(to + i + at),
                             _mm_load_si128((const __m128i *)(tile + i + at)));
    }
    memcpy(to + i, tile + i, bytes - i);
}

void td_point_run_rows(void *arg, int64_t begin, int64_t end)
{
    const struct td_point_walk *w = arg;
    char tiles[TD_POINT_ROOM] __attribute__((aligned(64))), *at[TD_FUSED_VALUES];
    char results[STREAM] __attribute__((aligned(LINE)));
    int last = w->rank - 1;
    const struct past past = look_past(w);
    int64_t inner = w->shape[last], first = begin;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        at[k] = tiles + v->slot * (size_t)w->tile;
        if (v->constant && !v->made)
            td_point_copy(at[k], v->data, w->tile, 0, v->size);
        else if (v->again)
            lay_out(w, v, begin, w->whole < end - begin ? w->whole : end - begin, at[k]);
    }
    for (int k = 0; k < w->n_ops; k++)
        if (w->value[w->op[k].out].constant)
            td_point_run_op(&w->op[k], w->tile, at);
    while (begin < end) {
        int64_t n = end - begin, col = begin % inner;
        if (inner >= w->brief && n > inner - col)
            n = inner - col;
        if (n > w->whole)
            n = w->whole;
        if (past.value >= 0 && n > next_part(&past, begin))
            n = next_part(&past, begin);
        for (int k = 0; k < w->n_values; k++) {
            const struct td_point_value *v = &w->value[k];
            bool is_there = v->again || (v->still && inner >= w->brief && col && begin != first);
            if (k == past.value)
                at[k] = results;
            else if (!is_there)
                at[k] = td_point_at(w, v, begin, n, at[k]);
        }
        for (int k = 0; k < w->n_ops; k++)
            if (!w->value[w->op[k].out].constant)
                td_point_run_op(&w->op[k], n, at);
        if (past.value >= 0)
            stream(&past, begin, n, results);
        begin += n;
    }
    if (past.value >= 0)
        _mm_sfence();
}

/* Of td_parallel_brief: waking a team takes 25 us and more, about 250,000 of the cheapest
 * elements; using one that is awake takes an eighth of that. */
static int64_t grain_of(int64_t n, double flops)
{
    int64_t grain = (int64_t)(32768.0 * (double)n / flops);
    return grain > 1024 ? grain : 1024;
}

void td_point_run(void *arg)
{
    const struct td_point_running *r = arg;
    if (r->walk->down >= 0) {
        td_point_run_blocks(r->walk, r->threads, r->grain);
        return;
    }
    td_parallel_brief(r->threads, r->n, r->grain,
                      r->walk->code ? td_point_run_code : td_point_run_rows, r->walk);
}

struct td_point_running td_point_ready(struct td_point_walk *w, double flops, int threads)
{
    int64_t n = td_numel(w->out);
    td_point_close_walk(w);
    w->cheap = flops <= CHEAP * (double)n;
    return (struct td_point_running){threads, n, grain_of(n, flops), w};
}

/* ---- one call ---- */

/* Few elements that all lie as the result's do, without a walk; false: they are not. */
static bool run_few(const struct td_call *call, const struct td_point_way *way)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    int64_t n = td_numel(&call->out[0]);
    char *at[TD_POINT_OPERANDS + 1], number[8], room[TD_POINT_OPERANDS][64]; /* a unit of it */
    struct td_point_op op;
    if (n > FEW)
        return false;
    td_point_begin_op(&op, call, way);
    for (int k = 0; k < op.n_in; k++) {
        const struct td_value *v = &call->arg[operands[k] - '0'];
        const struct td_tensor *t = &v->tensor;
        bool lies = v->kind == TD_KIND_tensor && !t->stride && t->dtype == op.args.from[k];
        if (lies ? td_numel(t) != n : v->kind == TD_KIND_tensor || n > way->unit)
            return false;
        at[k] = lies ? t->data : room[k];
        op.in[k] = k;
        if (lies)
            continue;
        td_point_put(number, td_point_number(call, k), op.args.from[k]);
        td_point_copy(room[k], number, way->unit, 0, td_dtype_size(op.args.from[k]));
    }
    op.out = op.n_in;
    at[op.out] = call->out[0].data;
    td_point_run_op(&op, n, at);
    return true;
}

/* Whether a loop is worth looking for: an operand would be laid out in tiles, or taken by rows or
 * as one number, which a loop does not need. It cannot write past the caches, which is worth more
 * than keeping a number in a register. */
static bool is_loop_worth(const struct td_point_walk *w)
{
    bool laid = false, number = false;
    for (int k = 0; k < w->n_values; k++) {
        const struct td_point_value *v = &w->value[k];
        laid |= !v->made && !v->dense && !v->again && !v->constant;
        number |= !v->made && v->constant;
    }
    return laid || (number && !(w->cheap && is_beyond(w)));
}

void td_pointwise(const struct td_call *call, const struct td_point_way *way)
{
    td_pointwise_still(call, way, (td_point_still_rows *const[2]){NULL, NULL});
}

void td_pointwise_still(const struct td_call *call, const struct td_point_way *way,
                        td_point_still_rows *const still[2])
{
    struct td_point_value value[TD_POINT_OPERANDS * 2 + 1]; /* widened ones are two */
    struct td_point_op op[TD_POINT_OPERANDS + 1];
    struct td_point_walk w = {.value = value, .op = op, .out = &call->out[0]};
    assert(way->row);
    if (!call->threads) { /* it is only asked */
        *(struct td_point_way *)call->scratch = *way;
        return;
    }
    if (!td_numel(w.out) || run_few(call, way))
        return;
    td_point_add_call(&w, call, way, NULL, NULL);
    struct td_point_running running = td_point_ready(&w, call->op->flops(call), call->threads);
    int one = still[0] && look_past(&w).value < 0 ? td_point_find_still(&w) : -1;
    if (one >= 0) {
        td_point_run_still(&w, still[one], running.threads, running.grain);
        return;
    }
    if (td_numel(w.out) >= TD_LOOP_LEAST && is_loop_worth(&w))
        td_point_generate(&w);
    td_point_run(&running);
}
