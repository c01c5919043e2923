/* The norms in FP32 lanes: rows for FP32, BF16 and FP16. */
#define TD_REAL_BITS 32
#include "kernels/norm/norm_rows.h"

TD_KERNEL(norm_f32)
{
    norm_run(call);
}
