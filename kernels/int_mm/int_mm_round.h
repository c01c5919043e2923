/* How vectors of scaled sums become 8 bits. */
#ifndef TD_KERNELS_INT_MM_ROUND_H
#define TD_KERNELS_INT_MM_ROUND_H

#include "kernels/kernels.h"
#include "kernels/vec.h"

typedef uint8_t td_qbytes __attribute__((vector_size(TD_LANES)));

struct td_q_range { /* of a quantized result: the type's limits less the zero point, and that */
    float low, high;
    int32_t zero;
};

static inline struct td_q_range td_q_range_of(enum td_dtype type, int32_t zero)
{
    int32_t low = type == TD_u8 ? 0 : -128, high = type == TD_u8 ? 255 : 127;
    return (struct td_q_range){(float)(low - zero), (float)(high - zero), zero};
}

TD_INLINE td_qbytes td_q_narrow(td_vf y, const struct td_q_range *range)
{
    const float big = 12582912; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    td_vf low = td_set(range->low), high = td_set(range->high);
    td_vi number = y == y; /* NaN becomes the least */
    y = (td_vf)(((td_vi)y & number) | ((td_vi)low & ~number));
    td_vi over = y > low, under = y < high;
    y = (td_vf)(((td_vi)y & over) | ((td_vi)low & ~over));
    y = (td_vf)(((td_vi)y & under) | ((td_vi)high & ~under));
    td_vi whole = __builtin_convertvector((y + big) - big, td_vi) + range->zero;
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
