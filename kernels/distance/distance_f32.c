/* The distances in FP32 lanes. */
#define TD_REAL_BITS 32
#include "kernels/distance/distance_rows.h"

TD_KERNEL(distance_f32)
{
    distances(call);
}
