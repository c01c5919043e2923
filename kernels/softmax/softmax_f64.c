/* softmax and its kin in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/softmax/softmax_rows.h"

TD_KERNEL(softmax_f64)
{
    soft(call);
}
