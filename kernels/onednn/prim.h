/* What the onednn*.c files share: a primitive with its layouts, and the frames that it is executed
 * in. The only header that includes dnnl.h, and included by nobody else. */
#ifndef TD_KERNELS_ONEDNN_PRIM_H
#define TD_KERNELS_ONEDNN_PRIM_H

#include "kernels/onednn/onednn.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdatomic.h>

enum slot { SRC, WEIGHT, DST, SLOTS };

struct td_onednn_form { /* how a packed weight came about; compared as bytes */
    int64_t dims[TD_MAX_RANK], from[TD_MAX_RANK], to[TD_MAX_RANK], padded[TD_MAX_RANK];
    int64_t block[DNNL_MAX_NDIMS], block_dim[DNNL_MAX_NDIMS];
    int32_t rank, blocks, dtype;
    char owner[4];
};

#define TD_ONEDNN_SPARES 8

struct td_onednn_prim {
    dnnl_primitive_t main, reorder[SLOTS];
    dnnl_memory_desc_t user[SLOTS], own[SLOTS], bias, pad; /* own NULL: main takes the user's */
    dnnl_memory_desc_t post[TD_POSTS];                     /* of tensors; NULL: that one has none */
    int posts, post_arg[TD_POSTS];                         /* and what main calls them */
    enum slot out;                                         /* the one that main writes */
    bool kept;                                             /* main is not this one's to free */
    size_t bytes;                                          /* that were taken for it, about */
    int threads;                                           /* made for, and to be run with */
    int arg[SLOTS];                                        /* what main calls them: DNNL_ARG_SRC */
    size_t at[SLOTS], scratch;  /* where reordered tensors lie in scratch; the pad is at 0 */
    struct td_onednn_form form; /* of the stored weight, when own[WEIGHT] is there */
    char form_name[64];
    enum td_isa isa; /* of main's code, TD_ISAS where its name does not tell */
    _Atomic(struct td_onednn_frame *) spare[TD_ONEDNN_SPARES];
};

/* Runs a call of the library in a function that has `dnnl_status_t status` and a label out. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((status = (call)) != dnnl_success)                                                     \
            goto out;                                                                              \
    } while (0)

/* ---- frame.c ---- */

extern dnnl_engine_t td_onednn_engine; /* the CPU */
bool td_onednn_start(void);            /* makes it, once; false: the library could not */

struct td_onednn_frame {
    dnnl_stream_t stream;
    dnnl_memory_t user[SLOTS], own[SLOTS], bias, pad, post[TD_POSTS];
    void *once; /* the weight in its form, when that is not kept; only during a call */
};

struct td_onednn_frame *td_onednn_frame_take(struct td_onednn_prim *prim); /* NULL: no memory */
void td_onednn_frame_put(struct td_onednn_prim *prim,
                         struct td_onednn_frame *frame);     /* NULL is fine */
void td_onednn_frame_destroy(struct td_onednn_frame *frame); /* NULL is fine */

/* ---- form.c ---- */

/* p->form and p->form_name, of p->own[WEIGHT]. */
dnnl_status_t td_onednn_form_describe(struct td_onednn_prim *p, const struct td_onednn_desc *d);

/* ---- unpack.c ---- */

/* td_weight_undo: the weight from its form, of which key is the struct td_onednn_form. */
void td_onednn_unpack(const struct td_tensor *plain, const void *packed, const void *key);

/* ---- prim.c ---- */

/* NULL with *error 0: the library has nothing (but its reference) for this; -ENOMEM: no memory. To
 * be called with OpenMP's setting at desc->threads. */
struct td_onednn_prim *td_onednn_prim_create(const struct td_onednn_desc *desc, int *error);
void td_onednn_prim_destroy(void *value); /* NULL is fine */

static inline dnnl_data_type_t td_onednn_type(enum td_dtype dtype)
{
    return dtype == TD_bf16 ? dnnl_bf16 : dtype == TD_f16 ? dnnl_f16 : dnnl_f32;
}

/* ---- kept.c ---- */

/* Of the library's implementations from pd's on, has pd at the first that may be used; how: its
 * name. dnnl_unimplemented: there is none but the library's reference. */
dnnl_status_t td_onednn_settle(dnnl_primitive_desc_t pd, const struct td_onednn_desc *desc,
                               const char **how);
/* Gives prim the primitive of a settled pd. */
dnnl_status_t td_onednn_main(struct td_onednn_prim *prim, const_dnnl_primitive_desc_t pd,
                             const struct td_onednn_desc *desc);

/* ---- post.c ---- */

/* Gives attributes the description's post-ops, and the primitive their tensors' layouts. */
dnnl_status_t td_onednn_post_attach(struct td_onednn_prim *prim, const struct td_onednn_desc *desc,
                                    dnnl_primitive_attr_t attr);

/* ---- prim.c, for what packs weights ---- */

/* A reorder between two layouts. pad: raised to its scratchpad's bytes; NULL: it uses the
 * library's own, and must then run on this thread. */
dnnl_status_t td_onednn_reorder(dnnl_primitive_t *r, const_dnnl_memory_desc_t from,
                                const_dnnl_memory_desc_t to, size_t *pad);

#endif
