/* Reductions in FP64 lanes: of FP64, and of shorter types where FP32 would overflow. */
#define TD_REAL_BITS 64
#include "kernels/reduce/reduce_rows.h"

static void load(void *to, const void *from, int64_t n, enum td_dtype type)
{
    typedef double wide __attribute__((vector_size(2 * TD_VBYTES)));
    const uint16_t *h = from;
    double *f = to;
    int64_t i = 0;
    if (type == TD_f32) {
        for (; i < n; i++)
            f[i] = (double)((const float *)from)[i];
        return;
    }
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh v;
        memcpy(&v, h + i, sizeof v);
        wide w =
            __builtin_convertvector(type == TD_bf16 ? td_widen_bf16(v) : td_widen_f16(v), wide);
        memcpy(f + i, &w, sizeof w);
    }
    for (; i < n; i++)
        f[i] = (double)(type == TD_bf16 ? td_bf16_to_f32(h[i]) : td_f16_to_f32(h[i]));
}

TD_KERNEL(reduce_f64)
{
    td_reduce(call,
              &(const struct td_reduce_way){fold_rows, TD_f64, load, RUN, TD_NAME(reduce_finish)});
}
