/* How vectors of scaled sums become 8 bits. */
#ifndef TD_KERNELS_INT_MM_ROUND_H
#define TD_KERNELS_INT_MM_ROUND_H

#include "kernels/vec.h"

typedef uint8_t td_qbytes __attribute__((vector_size(TD_LANES)));

/* least, most: the limits of the type less the zero point. */
TD_INLINE td_qbytes td_q_narrow(td_vf y, float least, float most, int32_t zero)
{
    const float big = 12582912; /* 1.5 * 2^23: what is added to it is rounded to a whole number */
    td_vf low = td_set(least), high = td_set(most);
    td_vi number = y == y; /* NaN becomes the least */
    y = (td_vf)(((td_vi)y & number) | ((td_vi)low & ~number));
    td_vi over = y > low, under = y < high;
    y = (td_vf)(((td_vi)y & over) | ((td_vi)low & ~over));
    y = (td_vf)(((td_vi)y & under) | ((td_vi)high & ~under));
    td_vi whole = __builtin_convertvector((y + big) - big, td_vi) + zero;
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
