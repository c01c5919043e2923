/* What the files of seq_pool and crf_decode share: sequences of different lengths, one behind the
 * other along the first dimension. */
#ifndef TD_KERNELS_SEQUENCE_H
#define TD_KERNELS_SEQUENCE_H

#include "kernels/kernels.h"

enum td_pooled { TD_POOLED_sum, TD_POOLED_mean, TD_POOLED_sqrt, TD_POOLED_none };

struct td_sequences {
    const struct td_tensor *x;       /* [steps, width] */
    const struct td_tensor *weights; /* crf_decode's transitions, [width + 2, width]; or NULL */
    const struct td_tensor *lengths; /* [n]; NULL: one sequence of all steps */
    const struct td_tensor *out, *scores; /* scores: crf_decode's */
    enum td_pooled how;                   /* seq_pool's */
    int64_t n, steps, width;
    /* In scratch, of a row that runs. */
    int64_t *begin; /* [n + 1]: the first step of each, and the end */
    double *best;   /* crf_decode's, [steps, width]: the best score of each step and tag */
    double *table;  /* [width + 2, stride]: transitions, and 0 behind each row */
    int64_t stride; /* a multiple of 8 */
    int32_t *from;  /* [steps, width]: the tag before that the best score is of */
};

/* Where scratch is NULL, without what lies there. */
struct td_sequences td_sequences_of(const struct td_call *call, void *scratch);

/* How a score compares with the best so far in crf_decode: the first of the greatest, or of NaN,
 * is taken. */
static inline bool td_crf_is_better(double score, double best)
{
    return score > best || (score != score && best == best);
}

#endif
