/* The walk of the reductions as the files of it share it: which elements there are, and what is
 * done to few of them. Internal to the family. */
#ifndef TD_KERNELS_REDUCE_WALK_H
#define TD_KERNELS_REDUCE_WALK_H

#include "kernels/reduce/reduce.h"

#define TD_REDUCE_TILE 16384 /* bytes */
/* Short rows that are folded together are as many, or a part of them. */
#define TD_REDUCE_TOGETHER 16

struct cut {
    int64_t blocks; /* of columns; 1 along the innermost dimension */
    int64_t parts;  /* of each result's reduction */
    int64_t length; /* of a part: elements along the innermost dimension, else rows */
};

struct job {
    const struct td_call *call;
    const struct td_fold_rows *rows;
    td_fold_load *load; /* NULL: elements are of the rows' type */
    enum td_fold fold;
    enum td_dtype type; /* of elements */
    bool whole, twice;  /* whole numbers; an element is walked more than once */
    size_t size, own;   /* bytes an element, and in the rows' type */
    double p;
    struct td_reduction r;
    struct cut cut;
    const char *x;
    const struct td_reduce_source *source; /* NULL: elements lie at x */
    int64_t run;                           /* td_reduce_way's, */
    td_finish_results *finish;             /* and this one */
    int64_t together; /* results that stay with one thread: sums are in one order with any number */
    union td_total *parts; /* [part][s or t][result]; NULL where there is one part */
    int64_t outputs;
};

static inline int64_t td_least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- reduce_tile.c ---- */

/* Totals of each of rows rows of n elements, step apart; the first row begins with element `at`. */
void td_reduce_rows(const struct job *job, int64_t at, int64_t n, int64_t rows, int64_t step,
                    const struct td_piece *to);
/* Totals of each of n columns from x on, over rows rows, step apart. */
void td_reduce_columns(const struct job *job, const char *x, int64_t n, int64_t rows, int64_t step,
                       const struct td_piece *to);
/* How many of rows that lie one behind the other are folded as one, a power of 2: so many that
 * whole vectors are filled, and more where totals to be joined are few beside them. */
int64_t td_reduce_abreast(const struct job *job, int64_t n, int64_t rows);
/* Elements [begin, end) of the reduction of the result that begins with element `at`, in runs that
 * are too short to be worth a call, one behind the other in to. */
void td_reduce_gather(const struct job *job, int64_t at, int64_t begin, int64_t end, char *to);

#endif
