/* tanh, vector form, FP32. SLEEF's. */
#include "kernels/elementwise.h"
#include "kernels/vec.h"

TD_KERNEL_UNARY(tanh, td_tanh)
