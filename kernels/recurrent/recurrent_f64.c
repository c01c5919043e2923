/* The recurrent family in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/recurrent/recurrent_rows.h"

TD_KERNEL(recurrent_f64)
{
    recurrent_run(call);
}
