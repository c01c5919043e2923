/* abs, vector form, FP32. The sign bit goes. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_UNARY(abs, td_abs)
