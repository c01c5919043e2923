/* Reductions in FP32 lanes: of FP32, and of BF16 and FP16 by way of it. */
#define TD_REAL_BITS 32
#include "kernels/lines.h"
#include "kernels/reduce/reduce_rows.h"

static void load(void *to, const void *from, int64_t n, enum td_dtype type)
{
    td_line_widen(to, from, n, type);
}

TD_KERNEL(reduce_f32)
{
    td_reduce(call, fold_rows, TD_f32, load);
}
