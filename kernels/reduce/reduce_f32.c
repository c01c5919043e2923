/* Reductions in FP32 lanes: of FP32, and of BF16 and FP16 by way of it. */
#define TD_REAL_BITS 32
#include "kernels/lines.h"
#include "kernels/reduce/reduce_rows.h"

#define WIDEN(f)                                                                                   \
    for (int64_t i = 0; i < whole; i += TD_LANES) {                                                \
        td_vh h;                                                                                   \
        memcpy(&h, x + i, sizeof h);                                                               \
        td_store(y + i, f(h));                                                                     \
    }

/* Whole vectors first, in a loop that asks nothing. */
static void load(void *to, const void *from, int64_t n, enum td_dtype type)
{
    float *y = to;
    const uint16_t *x = from;
    const int64_t whole = n - n % TD_LANES;
    if (type == TD_bf16)
        WIDEN(td_widen_bf16)
    else
        WIDEN(td_widen_f16)
    td_line_widen(y + whole, x + whole, n - whole, type);
}

TD_KERNEL(reduce_f32)
{
    td_reduce(call,
              &(const struct td_reduce_way){fold_rows, TD_f32, load, RUN, TD_NAME(reduce_finish)});
}
