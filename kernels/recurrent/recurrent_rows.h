/* The recurrent family in lanes: read once for FP32, BF16 and FP16, and once for FP64. A layer's
 * part that is of its input is one product for many steps; a step is one product of the state, to
 * which that part is added as a bias, and then the cell, which goes once through its gates. */
#ifndef TD_KERNELS_RECURRENT_ROWS_H
#define TD_KERNELS_RECURRENT_ROWS_H

#include "kernels/formulas.h"
#include "kernels/gemm/gemm.h"
#include "kernels/move/move.h"
#include "kernels/reals.h"
#include "kernels/recurrent/recurrent.h"

#if TD_REAL_BITS == 64
#define PRODUCT TD_NAME(gemm_any)
#else
#define PRODUCT TD_NAME(gemm)
#endif
#define GRAIN 4096 /* gates worth a thread */

struct job {
    struct td_recurrent r;
    struct td_recurrent_layer l;
    int threads;
    void *products; /* scratch of theirs */
    td_real *of_input, *gates, *state, *cells, *plain, *bias;
    struct td_tensor w_input, w_hidden, w_shown; /* as td_real */
    bool turned;                                 /* w_hidden is a copy, transposed */
    td_real *y;                                  /* where the step's result goes */
    int64_t width;                               /* from one row of it to the next */
};

static void fetch(td_real *to, const struct td_tensor *t, int64_t at, int64_t n)
{
    for (int64_t i = 0; i < n; i += L_LANES)
        L_put_next(to, i, n - i, TD_REAL_TYPE, L_next(t->data, at + i, n - i, t->dtype, 0));
}

static void store(const struct td_tensor *t, int64_t at, int64_t n, const td_real *from)
{
    for (int64_t i = 0; i < n; i += L_LANES)
        L_put_next(t->data, at + i, n - i, t->dtype, L_next(from, i, n - i, TD_REAL_TYPE, 0));
}

/* The weight itself, or a copy in room. */
static struct td_tensor weight(const struct td_tensor *t, td_real *room)
{
    struct td_tensor copy = {.dtype = TD_REAL_TYPE, .data = room};
    if (!t || t->dtype == TD_REAL_TYPE)
        return t ? *t : copy;
    fetch(room, t, 0, td_numel(t));
    return copy;
}

/* The weight as its products of a few rows read it best. */
static struct td_tensor turned(const struct td_tensor *t, td_real *room, int threads)
{
    struct td_tensor copy = {.dtype = TD_REAL_TYPE, .data = room};
    struct td_piece piece = {.box = {.from = t,
                                     .rank = 2,
                                     .shape = {t->shape[1], t->shape[0]},
                                     .stride = {1, t->shape[1]}},
                             .out = &copy,
                             .stride = {t->shape[0], 1}};
    TD_NAME(move_piece)(&piece, threads);
    return copy;
}

/* out[m, n] = a[m, k] x w transposed + bias. */
static void product(const struct job *j, const td_real *a, const struct td_tensor *w,
                    const td_real *bias, int64_t bias_step, td_real *out, int64_t m, int64_t n,
                    int64_t k, bool turned)
{
    struct td_tensor left = {.dtype = TD_REAL_TYPE, .data = (void *)(uintptr_t)a},
                     add = {.dtype = TD_REAL_TYPE, .data = (void *)(uintptr_t)bias},
                     to = {.dtype = TD_REAL_TYPE, .data = out};
    struct td_gemm g;
    td_recurrent_gemm(&g, &left, w, bias ? &add : NULL, bias_step, &to, m, n, k, j->threads);
    if (turned) {
        g.step_k = n;
        g.step_n = 1;
    }
    if (m && n)
        PRODUCT(&g, j->products);
}

/* ---- cells: the lanes from i on of one row ---- */

struct row {
    const td_real *of_input, *gates;
    td_real *h, *c; /* h: what becomes of it, before it is projected */
    const td_real *before;
    int64_t n;
};

#define GATE(from, which) L_next(row->from + (which)*row->n, i, left, TD_REAL_TYPE, 0)

static inline V cell_lstm(const struct row *row, int64_t i, int64_t left)
{
    V c = L_next(row->c, i, left, TD_REAL_TYPE, 0);
    c = L_add(L_mul(o_sigmoid(GATE(gates, 1)), c),
              L_mul(o_sigmoid(GATE(gates, 0)), o_tanh(GATE(gates, 2))));
    L_put_next(row->c, i, left, TD_REAL_TYPE, c);
    return L_mul(o_sigmoid(GATE(gates, 3)), o_tanh(c));
}

static inline V cell_gru(const struct row *row, int64_t i, int64_t left)
{
    V r = o_sigmoid(L_add(GATE(of_input, 0), GATE(gates, 0)));
    V z = o_sigmoid(L_add(GATE(of_input, 1), GATE(gates, 1)));
    V n = o_tanh(L_add(GATE(of_input, 2), L_mul(r, GATE(gates, 2))));
    return L_add(L_mul(L_sub(GATE(before, 0), n), z), n);
}

static void cells(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct td_recurrent *r = &j->r;
    int64_t n = r->hidden, rows = r->gates * n;
    for (int64_t b = begin; b < end; b++) {
        td_real *h = r->shown == n ? j->state + b * n : j->plain + b * n;
        struct row one = {j->of_input + b * rows, j->gates + b * rows, h, j->cells + b * n, h, n};
        const struct row *row = &one;
        for (int64_t i = 0; i < n; i += L_LANES) {
            int64_t left = n - i;
            V v = r->cell == TD_RECURRENT_lstm   ? cell_lstm(row, i, left)
                  : r->cell == TD_RECURRENT_gru  ? cell_gru(row, i, left)
                  : r->cell == TD_RECURRENT_tanh ? o_tanh(GATE(gates, 0))
                                                 : o_relu(GATE(gates, 0));
            L_put_next(h, i, left, TD_REAL_TYPE, v);
        }
        if (r->shown == n)
            memcpy(j->y + b * j->width, h, (size_t)n * sizeof *h);
    }
}

static void step(struct job *j)
{
    const struct td_recurrent *r = &j->r;
    int64_t rows = r->gates * r->hidden;
    bool gru = r->cell == TD_RECURRENT_gru; /* which keeps both parts to itself */
    product(j, j->state, &j->w_hidden, gru ? j->bias + rows : j->of_input, gru ? 0 : rows, j->gates,
            r->batch, rows, r->shown, j->turned);
    td_parallel(j->threads, r->batch, 1 + GRAIN / (rows + 1), cells, j);
    if (!j->l.w_shown)
        return;
    product(j, j->plain, &j->w_shown, NULL, 0, j->state, r->batch, r->shown, r->hidden, false);
    for (int64_t b = 0; b < r->batch; b++)
        memcpy(j->y + b * j->width, j->state + b * r->shown, (size_t)r->shown * sizeof *j->y);
}

/* The biases: of the input's part and of the state's; all in the former but for GRU. */
static void add_biases(struct job *j)
{
    int64_t rows = j->r.gates * j->r.hidden;
    memset(j->bias, 0, (size_t)(2 * rows) * sizeof *j->bias);
    if (!j->r.biases)
        return;
    fetch(j->bias, j->l.b_input, 0, rows);
    fetch(j->bias + rows, j->l.b_hidden, 0, rows);
    for (int64_t i = 0; i < rows && j->r.cell != TD_RECURRENT_gru; i++)
        j->bias[i] += j->bias[rows + i];
}

/* One layer one way: x is [steps, batch, inputs], y the layer's own, of its whole width. */
static void run_way(struct job *j, int64_t layer, int64_t way, const td_real *x, td_real *y,
                    const struct td_recurrent_room *room, td_real *scratch)
{
    const struct td_recurrent *r = &j->r;
    int64_t state = (layer * r->ways + way) * r->batch, rows = r->gates * r->hidden;
    td_real *parts = scratch + room->gates;
    j->l = td_recurrent_layer(r, layer, way);
    j->w_input = weight(j->l.w_input, scratch + room->w_input);
    j->turned = td_recurrent_turns(r, j->l.w_hidden);
    j->w_hidden = j->turned ? turned(j->l.w_hidden, scratch + room->w_hidden, j->threads)
                            : weight(j->l.w_hidden, scratch + room->w_hidden);
    j->w_shown = weight(j->l.w_shown, scratch + room->w_shown);
    add_biases(j);
    fetch(j->state, r->h, state * r->shown, r->batch * r->shown);
    if (r->c)
        fetch(j->cells, r->c, state * r->hidden, r->batch * r->hidden);
    for (int64_t done = 0; done < r->steps && !td_stopped(); done += room->stretch) {
        int64_t n = r->steps - done < room->stretch ? r->steps - done : room->stretch;
        int64_t first = way ? r->steps - done - n : done;
        product(j, x + first * r->batch * j->l.inputs, &j->w_input, j->bias, 0, parts, n * r->batch,
                rows, j->l.inputs, false);
        for (int64_t k = 0; k < n && !td_stopped(); k++) {
            int64_t t = way ? n - 1 - k : k;
            j->of_input = parts + t * r->batch * rows;
            j->y = y + (first + t) * r->batch * j->width + way * r->shown;
            step(j);
        }
    }
    store(r->out_h, state * r->shown, r->batch * r->shown, j->state);
    if (r->c)
        store(r->out_c, state * r->hidden, r->batch * r->hidden, j->cells);
}

static void recurrent_run(const struct td_call *call)
{
    td_real *scratch = call->scratch;
    struct job j = {.r = td_recurrent_of(call), .threads = call->threads};
    const struct td_recurrent *r = &j.r;
    struct td_recurrent_room room = td_recurrent_room(r, call->threads);
    td_real *x = scratch + room.layer[0], *y = scratch + room.layer[1];
    j.products = scratch + room.end;
    j.gates = scratch + room.gates + room.stretch * r->batch * r->gates * r->hidden;
    j.state = scratch + room.state;
    j.cells = scratch + room.cells;
    j.plain = scratch + room.plain;
    j.bias = scratch + room.bias;
    j.width = td_recurrent_width(r);
    for (int64_t t = 0; t < r->steps; t++)
        for (int64_t b = 0; b < r->batch; b++)
            fetch(x + (t * r->batch + b) * r->inputs, r->input,
                  td_recurrent_row(r, t, b) * r->inputs, r->inputs);
    for (int64_t layer = 0; layer < r->layers; layer++) {
        for (int64_t way = 0; way < r->ways; way++)
            run_way(&j, layer, way, x, y, &room, scratch);
        td_real *done = y;
        y = x;
        x = done;
    }
    for (int64_t t = 0; t < r->steps; t++)
        for (int64_t b = 0; b < r->batch; b++)
            store(r->out, td_recurrent_row(r, t, b) * j.width, j.width,
                  x + (t * r->batch + b) * j.width);
}

#endif
