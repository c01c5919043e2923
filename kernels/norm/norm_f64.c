/* The norms in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/norm/norm_rows.h"

TD_KERNEL(norm_f64)
{
    norm_run(call);
}
