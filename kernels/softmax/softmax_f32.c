/* softmax and its kin in FP32 lanes: of FP32, and of BF16 and FP16 by way of it. */
#define TD_REAL_BITS 32
#include "kernels/softmax/softmax_rows.h"

TD_KERNEL(softmax_f32)
{
    soft(call);
}
