/* The distances in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/distance/distance_rows.h"

TD_KERNEL(distance_f64)
{
    distances(call);
}
