/* What the files of LU factors share: a call's matrices, one after the other. */
#ifndef TD_KERNELS_LU_H
#define TD_KERNELS_LU_H

#include "kernels/kernels.h"

enum td_lu_kind {
    TD_LU_factor, /* LU in one matrix, pivots, info */
    TD_LU_parts,  /* P, L and U */
    TD_LU_unpack, /* the same of factors that are given */
};

/* m by n each; less: the smaller of both. */
struct td_lu {
    enum td_lu_kind kind;
    const struct td_tensor *a;
    int64_t m, n, less, count;
};
struct td_lu td_lu_of(const struct td_call *call);

#endif
