/* What layer_norm, native_layer_norm and their gradient share. */
#ifndef TD_KERNELS_LAYER_NORM_H
#define TD_KERNELS_LAYER_NORM_H

#include "kernels/kernels.h"

/* Argument i, normalized_shape, is the sizes of the input's last dimensions. 0 or -EINVAL. */
int td_rule_normalized(struct td_call *call, const struct td_tensor *input, int i);

/* Arguments first to last, as far as they are given, are all of the input's type, or all FP32
 * beside FP16 or BF16: *type, the input's where none is given. names: theirs. 0 or -EINVAL. */
int td_rule_normalizing(struct td_call *call, const struct td_tensor *input, int first, int last,
                        const char *const *names, enum td_dtype *type);

/* The input as rows of n elements that are normalized together. */
struct td_rows {
    int64_t count, n;
};
struct td_rows td_normalized_rows(const struct td_tensor *input, const struct td_value *shape);

#endif
