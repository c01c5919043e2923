/* glu in FP32 lanes: of FP32, and of BF16 and FP16 by way of it. */
#define TD_REAL_BITS 32
#include "kernels/glu/glu_rows.h"

TD_KERNEL(glu_f32)
{
    glu(call);
}
