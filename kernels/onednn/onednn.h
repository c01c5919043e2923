/* oneDNN as one implementation among others: a product, a convolution or its gradient is described,
 * the primitive for it is made once and found again, and weights that the server stores are packed
 * once. Nothing of dnnl.h is seen outside the onednn*.c files. Any thread may enter. */
#ifndef TD_KERNELS_ONEDNN_H
#define TD_KERNELS_ONEDNN_H

#include "kernels/kernels.h"
#include "kernels/memo.h"
#include "kernels/post.h"

enum td_onednn_kind {
    TD_ONEDNN_linear,      /* src [m,k], weight [n,k], bias [n], dst [m,n] */
    TD_ONEDNN_matmul,      /* src [..,m,k], weight [..,k,n], dst [..,m,n], batch sizes equal or 1 */
    TD_ONEDNN_conv,        /* src [n,c,..], weight [groups,o,c,..], bias [groups*o], dst [n,o,..] */
    TD_ONEDNN_conv_src,    /* its gradient: src from weight and dst */
    TD_ONEDNN_conv_weight, /* and weight from src and dst */
    TD_ONEDNN_deconv,      /* as conv, transposed: dst is the larger */
};

struct td_onednn_post { /* one that the library does before it stores */
    int32_t how;        /* post.c's number of it */
    int32_t shape;      /* of its tensor: 0 one element, 1 one a channel, 2 all; -1 there is none */
    float alpha;        /* a leaky relu's slope, else 0 */
};

/* A primitive's description, which is also its key: set all of it to zero first (memset), since it
 * is compared byte for byte. All tensors are of type dtype; dst is dense, and so is src but for a
 * matmul's. */
struct td_onednn_desc {
    int64_t src[TD_MAX_RANK], weight[TD_MAX_RANK], dst[TD_MAX_RANK];
    int64_t step[TD_MAX_RANK];     /* the weight's, in elements */
    int64_t src_step[TD_MAX_RANK]; /* a matmul's src's */
    int64_t strided;               /* 1: either lies otherwise than dense ones */
    /* Of convolutions, in up to three dimensions; dilation 1 is a plain kernel; after: padding
     * behind. */
    int64_t stride[3], padding[3], after[3], dilation[3];
    int64_t stored; /* 1: the weight is a td_weight, so any packed form will do */
    int64_t last;   /* 1: src and dst lie as [n,..,c], whatever the order of their sizes here */
    enum td_onednn_kind kind;
    enum td_dtype dtype;
    int rank, weight_rank;
    int threads; /* OpenMP threads: baked into a primitive when it is made */
    int bias;    /* 1: there is one */
    struct td_onednn_post post[TD_POSTS];
    int posts, zero; /* how many; and 0, so that no byte is padding */
};

struct td_onednn_args {
    const void *bias; /* where the primitive has one */
    const struct td_tensor *weight;
    void *src, *dst, *scratch;  /* one of src, weight and dst is written */
    const void *post[TD_POSTS]; /* the tensors of those that have one */
};

/* A row's answer (struct td_impl): adds the primitive for this to the prepared state, where the
 * library has one that is more than its own reference, and raises scratch to its bytes. A row that
 * needs several asks for each. */
const char *td_onednn_prepare(const struct td_onednn_desc *desc, struct td_prepared *prepared);

/* Computes by a prepared primitive. A negative errno when the library failed at run time: nothing
 * written is of use then. */
int td_onednn_run(const struct td_memo_item *primitive, const struct td_onednn_args *args);

/* The level that the library's name for a primitive tells of ("brg:avx512_core_bf16"), or TD_ISAS;
 * and the highest up to that one which has instructions for products of the type. */
enum td_isa td_onednn_named(const char *how);
enum td_isa td_onednn_serves(enum td_isa isa, enum td_dtype dtype);

/* An operator's row, with more fields where it has some, nothing in a build of references alone,
 * and the declarations of its two functions. */
#ifdef TD_ONLY_REF
#define TD_ONEDNN(what, ...)
#else
#define TD_ONEDNN(what, types, ...)                                                                \
    {.name = "onednn",                                                                             \
     .run = td_##what##_onednn,                                                                    \
     .isa = TD_ISA_default,                                                                        \
     .dtypes = (types),                                                                            \
     .library = true,                                                                              \
     .prepare = td_##what##_onednn_prepare,                                                        \
     __VA_ARGS__},
#endif
#define TD_ONEDNN_ROW(what)                                                                        \
    td_kernel td_##what##_onednn;                                                                  \
    const char *td_##what##_onednn_prepare(const struct td_call *call, struct td_prepared *prepared)

#endif
