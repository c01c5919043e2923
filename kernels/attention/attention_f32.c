/* Attention in FP32 lanes. */
#define TD_REAL_BITS 32
#include "kernels/attention/attention_rows.h"

TD_KERNEL(attention_f32)
{
    attention_run(call);
}
