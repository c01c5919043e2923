/* What the vector forms of qlinear_conv and conv_integer_to_float share: what a call is, and how
 * its sums become results, 8 bits or FP32. */
#ifndef TD_KERNELS_QCONV_ROUND_H
#define TD_KERNELS_QCONV_ROUND_H

#include "kernels/int_mm/int_mm_round.h"
#include "kernels/qconv/qconv.h"

struct td_qjob {
    const struct td_call *call;
    struct td_qconv c;
    struct td_qconv_cut cut;
    int64_t first; /* pixel of the band */
    uint8_t flip;  /* 128: x is signed */
    int32_t zero;  /* of x, as it is then */
    bool w_zero;   /* w has a zero point other than 0 */
    int32_t *add;  /* by output channel */
    float *scale;
    struct td_q_range range;
    uint8_t *bits;     /* results of 8 bits; NULL: they are FP32 */
    float *reals;      /* results in FP32 */
    const float *bias; /* of these; NULL: none */
};

static inline int32_t td_q_element(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_u8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
}

/* Makes results of a vector of sums, of channels from o on, and stores the first left of them (all
 * if there are more) from element number at on. */
TD_INLINE void td_q_give(const struct td_qjob *job, int64_t at, int64_t left, td_vi sum, int64_t o)
{
    td_vi add;
    memcpy(&add, job->add + o, sizeof add);
    sum = (td_vi)((td_vu)sum + (td_vu)add);
    td_vf y = __builtin_convertvector(sum, td_vf) * td_load(job->scale + o);
    if (job->bits) {
        td_q_store(job->bits + at, left, td_q_narrow(y, &job->range));
        return;
    }
    if (job->bias)
        y += td_load_next(job->bias + o, left, 0);
    td_store_next(job->reals + at, left, y);
}

#endif
