/* glu in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/glu/glu_rows.h"

TD_KERNEL(glu_f64)
{
    glu(call);
}
