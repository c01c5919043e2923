/* The recurrent family in FP32 lanes. */
#define TD_REAL_BITS 32
#include "kernels/recurrent/recurrent_rows.h"

TD_KERNEL(recurrent_f32)
{
    recurrent_run(call);
}
