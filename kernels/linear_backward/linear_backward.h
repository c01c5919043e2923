/* A checked call of linear_backward, its sizes by name. */
#ifndef TD_KERNELS_LINEAR_BACKWARD_H
#define TD_KERNELS_LINEAR_BACKWARD_H

#include "kernels/gemm/gemm.h"

struct td_linear_backward {
    const struct td_tensor *self, *grad, *weight;
    int64_t rows, in, out; /* self is [rows, in], grad_output [rows, out], weight [out, in] */
};
void td_linear_backward_of(const struct td_call *call, struct td_linear_backward *l);

/* Its two products: grad_output x weight, and grad_output transposed x self, of which turned is the
 * first factor, an [out, rows] tensor. */
void td_linear_backward_self(const struct td_call *call, struct td_gemm *g);
void td_linear_backward_weight(const struct td_call *call, const struct td_tensor *turned,
                               struct td_gemm *g);

/* Bytes of grad_output transposed, at the start of scratch, in lines of 64. */
size_t td_linear_backward_turned(const struct td_call *call);

#endif
