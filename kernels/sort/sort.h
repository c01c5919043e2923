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
    TD_SORT_known,   /* of the one in the middle of those that are no NaN */
    TD_SORT_often,   /* of the one that is there most often, the least of several such */
    TD_SORT_whole,   /* of all elements together: the middle's value */
    TD_SORT_whole_known,
};

struct td_sort { /* of a td_op: its family */
    enum td_sort_kind kind;
    const char *args; /* places of dim (-: all elements are one row), k, and of what is true when
                         the order goes down */
};

/* What a call asks for, in numbers: rows of size elements, step apart, of which the first k in
 * order are results. one: a single one of these, which td_sort_place tells. */
struct td_sorting {
    const struct td_tensor *values, *indices; /* NULL when not wanted */
    int64_t outer, size, inner, k;
    bool down, one;
    enum td_sort_kind kind;
};
struct td_sorting td_sorting(const struct td_call *call);

/* Which of a row in order is the result, where that is one. nans: how many NaN stand at its end.
 * Whether elements i and i + 1 in order are equal numbers says same, which kthvalue does not ask.
 */
int64_t td_sort_place(const struct td_sorting *s, int64_t nans,
                      bool (*same)(const void *row, int64_t i), const void *row);

#endif
