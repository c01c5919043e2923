/* The sort family: operators that put the elements along one dimension in order, all of them or the
 * first few. NaN is above all numbers, and 0 is -0; equal elements stay in the order in which they
 * came, whether that was asked for or not. */
#ifndef TD_KERNELS_SORT_H
#define TD_KERNELS_SORT_H

#include "kernels/kernels.h"

enum td_sort_kind {
    TD_SORT_all,     /* values and indices of all elements */
    TD_SORT_indices, /* indices alone */
    TD_SORT_top,     /* of the first k */
    TD_SORT_kth,     /* of the k-th */
    TD_SORT_middle,  /* of the one in the middle, the lower of two; NaN where there is one */
};

struct td_sort { /* of a td_op: its family */
    enum td_sort_kind kind;
    const char *args; /* places of dim, k, and of what is true when the order goes down */
};

/* What a call asks for, in numbers: rows of size elements, step apart, of which the first k in
 * order are results. one: of these the last only (or, a middle, the first NaN). */
struct td_sorting {
    const struct td_tensor *values, *indices; /* values: NULL when not wanted */
    int64_t outer, size, inner, k;
    bool down, one, nan;
};
struct td_sorting td_sorting(const struct td_call *call);

#endif
