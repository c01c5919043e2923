/* minimum, vector form, FP32. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_BINARY(minimum, td_min)
