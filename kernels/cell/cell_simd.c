/* The recurrent cells' gates, vector form: a row of the batch after the other, some elements of
 * each gate at a time, in lanes of doubles for every type. */
#define TD_REAL_BITS 64
#include "kernels/cell/cell.h"
#include "kernels/formulas.h"
#include "kernels/lines.h"

#define GRAIN 2048

struct line { /* of what is read, and of both results */
    double gate[4][TD_RUN], before[TD_RUN], hole[3][TD_RUN], h[TD_RUN], c[TD_RUN];
};

static inline V curve(enum td_cell_curve which, V x)
{
    switch (which) {
    case TD_CELL_sigmoid:
        return o_sigmoid(x);
    case TD_CELL_tanh:
        return o_tanh(x);
    case TD_CELL_relu:
        return o_relu(x);
    default:
        return x;
    }
}

static inline V hole(const struct td_cell *cell, const struct line *line, int which, int64_t k, V x,
                     V c)
{
    return cell->peephole ? L_add(x, L_mul(L_load(line->hole[which] + k), c)) : x;
}

static void lstm(const struct td_cell *cell, struct line *line, int64_t n)
{
    for (int64_t k = 0; k < n; k += L_LANES) {
        V before = L_load(line->before + k), i = L_load(line->gate[1] + k),
          f = L_load(line->gate[2] + k), c = curve(cell->cand, L_load(line->gate[0] + k));
        if (cell->before)
            c = L_add(L_mul(c, curve(cell->gate, hole(cell, line, 0, k, i, before))),
                      L_mul(before, curve(cell->gate, hole(cell, line, 1, k, f, before))));
        else
            c = L_mul(c, curve(cell->gate, i));
        V o = curve(cell->gate, hole(cell, line, 2, k, L_load(line->gate[3] + k), c));
        L_store(line->c + k, c);
        L_store(line->h + k, L_mul(curve(cell->cell, c), o));
    }
}

static void gru(const struct td_cell *cell, struct line *line, int64_t n)
{
    for (int64_t k = 0; k < n; k += L_LANES) {
        V before = L_load(line->before + k), out;
        if (cell->kind == TD_CELL_reset) {
            out = L_mul(curve(cell->gate, L_load(line->gate[1] + k)), before);
        } else {
            V u = curve(cell->gate, L_load(line->gate[0] + k));
            out = L_mul(u, curve(cell->cand, L_load(line->gate[2] + k)));
            if (cell->before)
                out = L_add(out, L_mul(L_sub(L_c(1), u), before));
        }
        L_store(line->h + k, out);
    }
}

/* n elements of a row from k on. */
static void run(const struct td_cell *cell, struct line *line, int64_t row, int64_t k, int64_t n)
{
    int64_t d = cell->d, at = row * d + k;
    for (int i = 0; i < cell->count; i++)
        td_line_get(line->gate[i], cell->gates, (row * cell->count + i) * d + k, n);
    if (cell->before)
        td_line_get(line->before, cell->before, at, n);
    for (int i = 0; cell->peephole && i < 3; i++)
        td_line_get(line->hole[i], cell->peephole, i * d + k, n);
    if (cell->kind != TD_CELL_lstm) {
        gru(cell, line, n);
    } else {
        lstm(cell, line, n);
        td_line_put(cell->c, at, n, line->c);
    }
    td_line_put(cell->h, at, n, line->h);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct td_cell *cell = arg;
    struct line line = {0}; /* lanes beyond a row are computed, too */
    for (int64_t row = begin; row < end && !td_stopped(); row++)
        for (int64_t k = 0; k < cell->d; k += TD_RUN)
            run(cell, &line, row, k, cell->d - k < TD_RUN ? cell->d - k : TD_RUN);
}

TD_KERNEL(cell)
{
    struct td_cell cell = td_cell_of(call);
    td_parallel(call->threads, cell.rows, 1 + GRAIN / (cell.d + 1), rows, &cell);
}
