/* relu, vector form, FP32. */
#include "kernels/act_vec.h"
#include "kernels/elementwise.h"

TD_KERNEL_UNARY(relu, td_relu)
