/* What the files of the searches share: which arguments are what. A value's place is found by
 * halving, in the same halves whether the sequence is sorted or not. */
#ifndef TD_KERNELS_SEARCH_H
#define TD_KERNELS_SEARCH_H

#include "kernels/kernels.h"

struct td_search {
    const struct td_tensor *sequence, *sorter, *out; /* borrowed; sorter NULL: none */
    const struct td_tensor *values;                  /* NULL: one number, which is this */
    double real;
    int64_t whole; /* the same for sequences of whole numbers */
    int64_t size;  /* of a sequence */
    int64_t each;  /* values that share one */
    bool right;    /* behind those that are equal */
};

/* What a checked call searches. */
struct td_search td_search_of(const struct td_call *call);

#endif
