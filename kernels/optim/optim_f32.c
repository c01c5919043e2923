/* sgd, adam and adamw in FP32 lanes. */
#define TD_REAL_BITS 32
#include "kernels/optim/optim_rows.h"

TD_KERNEL(optim_f32)
{
    optim_run(call);
}
