/* What the operators that are one matrix product share: how the tables of product.c and
 * product_linear.c describe one, and the rows of all. */
#ifndef TD_KERNELS_PRODUCT_H
#define TD_KERNELS_PRODUCT_H

#include "kernels/gemm/gemm.h"

/* td_op.family: which argument is what, -1 where there is none, and what each must be. */
struct td_product {
    void (*gemm)(const struct td_call *call, struct td_gemm *g); /* what a checked call computes */
    int a, b, add, beta, alpha;
    int rank_a, rank_b; /* 0: any from 1 on */
    const char *names;  /* of a and b: "mat1 mat2" */
    bool turned;        /* b[p, j] is element [j, p] of its tensor */
    int scale;          /* the argument that has the scales of an INT8 b; 0: there is none */
};

static inline const struct td_product *td_product_of(const struct td_call *call)
{
    return call->op->family;
}

extern const struct td_impl td_product_impls[];
extern const struct td_impl td_product_scaled_impls[]; /* of a b with scales */

/* The same as td_product_gemm for implementations that take strides. g->strided: by those of its
 * tensors; else as if all were dense, as which they are to be given to it. library: a may lie by
 * columns, but no row or column may stand for all. */
void td_product_strided(const struct td_call *call, struct td_gemm *g, bool library);

double td_product_flops(const struct td_call *call);

#endif
