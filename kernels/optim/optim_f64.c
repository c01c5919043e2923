/* sgd, adam and adamw in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/optim/optim_rows.h"

TD_KERNEL(optim_f64)
{
    optim_run(call);
}
