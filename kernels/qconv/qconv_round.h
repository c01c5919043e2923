/* What the vector forms of qlinear_conv share: what a call is, and how sums become 8 bits. */
#ifndef TD_KERNELS_QCONV_ROUND_H
#define TD_KERNELS_QCONV_ROUND_H

#include "kernels/qconv/qconv.h"
#include "kernels/vec.h"

typedef uint8_t td_qbytes __attribute__((vector_size(TD_LANES)));

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
    float low, high;
    int32_t y_zero;
};

static inline int32_t td_q_element(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_u8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
}

TD_INLINE td_qbytes td_q_round(const struct td_qjob *job, td_vi sum, int64_t o)
{
    const float big = 12582912; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    td_vi add;
    td_vf low = td_set(job->low), high = td_set(job->high);
    memcpy(&add, job->add + o, sizeof add);
    sum = (td_vi)((td_vu)sum + (td_vu)add);
    td_vf y = __builtin_convertvector(sum, td_vf) * td_load(job->scale + o);
    td_vi number = y == y; /* NaN becomes the least */
    y = (td_vf)(((td_vi)y & number) | ((td_vi)low & ~number));
    td_vi over = y > low, under = y < high;
    y = (td_vf)(((td_vi)y & over) | ((td_vi)low & ~over));
    y = (td_vf)(((td_vi)y & under) | ((td_vi)high & ~under));
    td_vi whole = __builtin_convertvector((y + big) - big, td_vi) + job->y_zero;
    return __builtin_convertvector(whole, td_qbytes);
}

TD_INLINE void td_q_store(uint8_t *to, int64_t left, td_qbytes v)
{
    if (left >= TD_LANES)
        memcpy(to, &v, sizeof v);
    else
        td_copy_few(to, &v, left, 1);
}

#endif
