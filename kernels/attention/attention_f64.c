/* Attention in FP64 lanes. */
#define TD_REAL_BITS 64
#include "kernels/attention/attention_rows.h"

TD_KERNEL(attention_f64)
{
    attention_run(call);
}
