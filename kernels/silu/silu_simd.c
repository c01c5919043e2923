/* silu, vector form, FP32. */
#include "kernels/act_vec.h"
#include "kernels/elementwise.h"

TD_KERNEL_UNARY(silu, td_silu)
