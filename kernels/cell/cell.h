/* What the files of lstm_gates, gru_reset and gru_update share: the part of a recurrent cell that
 * is element by element, once products have made its gates. */
#ifndef TD_KERNELS_CELL_H
#define TD_KERNELS_CELL_H

#include "kernels/kernels.h"

enum td_cell_kind { TD_CELL_lstm, TD_CELL_reset, TD_CELL_update };

#define TD_CELL_CURVES(X) X(sigmoid) X(tanh) X(relu) X(identity)

enum td_cell_curve {
#define X(name) TD_CELL_##name,
    TD_CELL_CURVES(X)
#undef X
        TD_CELL_CURVE_COUNT
};

struct td_cell {
    enum td_cell_kind kind;
    enum td_cell_curve gate, cand, cell;
    const struct td_tensor *gates;    /* [rows, count * d] */
    const struct td_tensor *before;   /* c or h of the step before, [rows, d]; NULL: none */
    const struct td_tensor *peephole; /* [3, d]: of i, f and o; NULL: none */
    const struct td_tensor *h, *c;    /* results, [rows, d]; c is lstm's */
    int64_t rows, d;
    int count; /* of gates: c, i, f and o; or update, reset and state */
};

struct td_cell td_cell_of(const struct td_call *call);

#endif
