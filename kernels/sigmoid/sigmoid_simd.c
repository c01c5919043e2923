/* sigmoid, vector form, FP32. td_sigmoid keeps the digits of tiny results. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_UNARY(sigmoid, td_sigmoid)
