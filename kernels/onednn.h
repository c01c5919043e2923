/* oneDNN as one implementation among others: a product, a convolution or its gradient is described,
 * the primitive for it is made once and found again, and weights that the server stores are packed
 * once. Nothing of dnnl.h is seen outside the onednn*.c files. Any thread may enter. */
#ifndef TD_KERNELS_ONEDNN_H
#define TD_KERNELS_ONEDNN_H

#include "kernels/kernels.h"

enum td_onednn_kind {
    TD_ONEDNN_linear,      /* src [m,k], weight [n,k], bias [n], dst [m,n] */
    TD_ONEDNN_matmul,      /* src [..,m,k], weight [..,k,n], dst [..,m,n], batch sizes equal or 1 */
    TD_ONEDNN_conv,        /* src [n,c,..], weight [groups,o,c,..], bias [groups*o], dst [n,o,..] */
    TD_ONEDNN_conv_src,    /* its gradient: src from weight and dst */
    TD_ONEDNN_conv_weight, /* and weight from src and dst */
    TD_ONEDNN_deconv,      /* as conv, transposed: dst is the larger */
};

/* A primitive's description, which is also its key: set all of it to zero first (memset), since it
 * is compared byte for byte. All tensors are of type dtype; src and dst are dense. */
struct td_onednn_desc {
    int64_t src[TD_MAX_RANK], weight[TD_MAX_RANK], dst[TD_MAX_RANK];
    int64_t step[TD_MAX_RANK]; /* the weight's, in elements */
    /* Of convolutions, in up to three dimensions; dilation 1 is a plain kernel; after: padding
     * behind. */
    int64_t stride[3], padding[3], after[3], dilation[3];
    int64_t stored; /* 1: the weight is a td_weight, so any packed form will do */
    enum td_onednn_kind kind;
    enum td_dtype dtype;
    int rank, weight_rank;
    int threads; /* OpenMP threads: baked into a primitive when it is made */
    int bias;    /* 1: there is one */
};

struct td_onednn_args {
    const void *bias;
    const struct td_tensor *weight;
    void *src, *dst, *scratch; /* one of src, weight and dst is written */
};

/* The library has a primitive for this that is more than its own reference. Makes it. */
bool td_onednn_accepts(const struct td_onednn_desc *desc);

/* Whether that is known, and the primitive there: without making it. */
bool td_onednn_ready(const struct td_onednn_desc *desc);

/* Bytes of scratch that run needs. When there is no memory for the primitive itself it asks for
 * more than anybody can give, so that the call ends in "no memory" and not in run. */
size_t td_onednn_scratch(const struct td_onednn_desc *desc);

/* Computes. A negative errno when the library failed at run time: nothing written is of use then.
 */
int td_onednn_run(const struct td_onednn_desc *desc, const struct td_onednn_args *args);

/* Drops all primitives, for tests and for a clean end. */
void td_onednn_forget(void);

/* An operator's row, and the declarations of its four functions. */
#define TD_ONEDNN(what, types)                                                                     \
    {                                                                                              \
        .name = "onednn", .run = td_##what##_onednn, .isa = TD_ISA_default, .dtypes = (types),     \
        .library = true, .accepts = td_##what##_onednn_accepts, .ready = td_##what##_onednn_ready, \
        .scratch = td_##what##_onednn_scratch                                                      \
    }
#define TD_ONEDNN_ROW(what)                                                                        \
    td_kernel td_##what##_onednn;                                                                  \
    bool td_##what##_onednn_accepts(const struct td_call *call);                                   \
    bool td_##what##_onednn_ready(const struct td_call *call);                                     \
    size_t td_##what##_onednn_scratch(const struct td_call *call)

#endif
