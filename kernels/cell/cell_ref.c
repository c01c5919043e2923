/* The recurrent cells' gates, reference: element after element. */
#include "kernels/cell/cell.h"
#include "kernels/elementwise.h"

#include <math.h>

static double curve(enum td_cell_curve which, double x)
{
    switch (which) {
    case TD_CELL_sigmoid:
        return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
    case TD_CELL_tanh:
        return tanh(x);
    case TD_CELL_relu:
        return x < 0 ? 0 : x;
    default:
        return x;
    }
}

static double gate(const struct td_cell *cell, int64_t row, int which, int64_t k)
{
    return td_get_real(cell->gates, (row * cell->count + which) * cell->d + k);
}

static double hole(const struct td_cell *cell, int which, int64_t k, double c)
{
    return cell->peephole ? td_get_real(cell->peephole, which * cell->d + k) * c : 0;
}

static void lstm(const struct td_cell *cell, int64_t row, int64_t k, double before)
{
    double c = curve(cell->cand, gate(cell, row, 0, k)), i = gate(cell, row, 1, k);
    double f = gate(cell, row, 2, k), o = gate(cell, row, 3, k);
    if (cell->before)
        c = c * curve(cell->gate, i + hole(cell, 0, k, before)) +
            before * curve(cell->gate, f + hole(cell, 1, k, before));
    else
        c = c * curve(cell->gate, i);
    td_put_real(cell->h, row * cell->d + k,
                curve(cell->cell, c) * curve(cell->gate, o + hole(cell, 2, k, c)));
    td_put_real(cell->c, row * cell->d + k, c);
}

static void gru(const struct td_cell *cell, int64_t row, int64_t k, double before)
{
    double u = curve(cell->gate, gate(cell, row, 0, k)), s, out;
    if (cell->kind == TD_CELL_reset) {
        out = curve(cell->gate, gate(cell, row, 1, k)) * before;
    } else {
        s = u * curve(cell->cand, gate(cell, row, 2, k));
        out = cell->before ? s + (1 - u) * before : s;
    }
    td_put_real(cell->h, row * cell->d + k, out);
}

td_kernel td_cell_ref;
void td_cell_ref(const struct td_call *call)
{
    struct td_cell cell = td_cell_of(call);
    for (int64_t row = 0; row < cell.rows && !td_stopped(); row++)
        for (int64_t k = 0; k < cell.d; k++) {
            double before = cell.before ? td_get_real(cell.before, row * cell.d + k) : 0;
            if (cell.kind == TD_CELL_lstm)
                lstm(&cell, row, k, before);
            else
                gru(&cell, row, k, before);
        }
}
