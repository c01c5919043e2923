/* maximum, vector form, FP32. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_BINARY(maximum, td_max)
