/* Post-ops on oneDNN: which it does as they should be done, and their tensors. */
#ifndef TD_KERNELS_ONEDNN_POST_H
#define TD_KERNELS_ONEDNN_POST_H

#include "kernels/onednn/onednn.h"

/* Adds those that the library does, the first desc->posts, to a description that has everything
 * else. out: the result, whose last dimension are the library's channels. */
void td_onednn_post_describe(const struct td_post *post, const struct td_tensor *out,
                             struct td_onednn_desc *desc);
/* Whether the library does the formula at all. */
bool td_onednn_post_knows(const struct td_post_op *op);
/* Where their tensors lie. */
void td_onednn_post_args(const struct td_post *post, struct td_onednn_args *args);
/* Does those from number `from` on behind the library, in the widest lanes that it uses itself. */
void td_onednn_post_behind(const struct td_post *post, int from, const struct td_tensor *out,
                           int threads);

#endif
