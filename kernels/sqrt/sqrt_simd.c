/* sqrt, vector form, FP32. Exact to the last bit, by the square root instruction. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_UNARY(sqrt, td_sqrt)
