/* Lines of BF16 or FP16 as FP32 and back, for kernels that compute on whole lines, and lines of any
 * floating-point type as FP64, for those that are sums above all. Include only from files built
 * once per level. */
#ifndef TD_KERNELS_LINES_H
#define TD_KERNELS_LINES_H

#include "kernels/kernels.h"
#include "kernels/vec.h"

/* to[i] = from[i] for i in [0, n). type: TD_bf16 or TD_f16. */
TD_INLINE void td_line_widen(float *to, const uint16_t *from, int64_t n, enum td_dtype type)
{
    for (int64_t i = 0; i < n; i += TD_LANES) {
        td_vh h = {0};
        if (n - i >= TD_LANES)
            memcpy(&h, from + i, sizeof h);
        else
            td_copy_few(&h, from + i, n - i, sizeof *from);
        td_vf v = type == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
        td_store_next(to + i, n - i, v);
    }
}

TD_INLINE void td_line_narrow(uint16_t *to, const float *from, int64_t n, enum td_dtype type)
{
    for (int64_t i = 0; i < n; i += TD_LANES) {
        td_vf v = td_load_next(from + i, n - i, 0);
        td_vh h = type == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
        if (n - i >= TD_LANES)
            memcpy(to + i, &h, sizeof h);
        else
            td_copy_few(to + i, &h, n - i, sizeof *to);
    }
}

/* Elements from at on, n <= TD_RUN, of a tensor of any floating-point type; level.c has them. */
#define TD_RUN 256
#define td_line_get TD_NAME(line_get)
#define td_line_put TD_NAME(line_put)
void td_line_get(double *to, const struct td_tensor *t, int64_t at, int64_t n);
void td_line_put(const struct td_tensor *t, int64_t at, int64_t n, const double *x);

#endif
