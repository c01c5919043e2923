/* The operators that take a mean away and divide by a deviation, by the names that they share: the
 * input is [images, channels, inner]. Either some of an image's channels are normalized together,
 * or each channel over all images, or the statistics are given, one of each channel. */
#ifndef TD_KERNELS_NORM_H
#define TD_KERNELS_NORM_H

#include "kernels/dims.h"

/* td_op.family: which of the call's arguments are what; -1 where there is none. */
struct td_norm_args {
    enum td_norm_form {
        TD_NORM_layer, /* over the last dimensions, argument 1, normalized_shape */
        TD_NORM_rms,   /* the same, and the mean is taken for 0 */
        TD_NORM_batch,
        TD_NORM_instance,
        TD_NORM_group,        /* argument group is the number of groups */
        TD_NORM_native_group, /* and N, C, HxW stand before it */
    } form;
    int weight, bias, mean, var, training, eps, group;
};

struct td_norm {
    const struct td_tensor *x, *weight, *bias, *out; /* borrowed; weight, bias NULL: none */
    const struct td_tensor *mean, *var;              /* given; NULL: to be found */
    const struct td_tensor *out_mean, *out_rstd;     /* NULL: not wanted */
    int64_t images, channels, inner;
    int64_t together;  /* channels of an image that are one group; 0: each over all images */
    int64_t groups, n; /* how many, and the elements of each */
    bool root;         /* no mean */
    const struct td_reduction *walk; /* of the input's groups; NULL: they follow one another */
    double eps;
};

/* What a checked call computes. */
void td_norm_of(const struct td_call *call, struct td_norm *n);

/* How the rows of a layer's input lie that has strides; false: their elements lie apart. */
bool td_norm_walk(const struct td_call *call, const struct td_norm *n, struct td_reduction *walk);

/* Where group k of the input begins, of those within an image. */
static inline int64_t td_norm_at(const struct td_norm *n, int64_t k)
{
    return n->walk ? td_reduction_at(n->walk, 0, k) : k * n->n;
}

/* Argument i, normalized_shape, is the sizes of the input's last dimensions. 0 or -EINVAL. */
int td_rule_normalized(struct td_call *call, const struct td_tensor *input, int i);

/* Arguments first to last, as far as they are given, are all of the input's type, or all FP32
 * beside FP16 or BF16: *type, the input's where none is given. names: theirs. 0 or -EINVAL. */
int td_rule_normalizing(struct td_call *call, const struct td_tensor *input, int first, int last,
                        const char *const *names, enum td_dtype *type);

/* What native_group_norm_backward says of the input. */
struct td_group_sizes {
    int64_t images, channels, inner, groups;
};
struct td_group_sizes td_group_sizes(const struct td_call *call);

/* The input as rows of n elements that are normalized together. */
struct td_rows {
    int64_t count, n;
};
struct td_rows td_normalized_rows(const struct td_tensor *input, const struct td_value *shape);

#endif
