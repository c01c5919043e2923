/* Tensor files as request bodies: NumPy's .npy and Hugging Face's .safetensors. Internal to api/.
 */
#ifndef TD_API_TENSOR_FILES_H
#define TD_API_TENSOR_FILES_H

#include "api/request/request.h"

/* Reads a .npy body (format 1.0 to 3.0, little-endian, C or Fortran order) into a view over it, or
 * over a copy in the arena. -EINVAL, -ENOMEM. */
int td_read_npy(struct td_request *req, struct td_tensor *t, struct td_problem *problem);

/* Calls each for every tensor of a .safetensors body, in the order of their data, once all of it
 * has been judged; stops at the first error and gives it back. t->data may be unaligned and lives
 * as long as the body. -EINVAL. */
typedef int td_each_tensor(void *arg, const char *key, const struct td_tensor *t,
                           struct td_problem *problem);
int td_read_safetensors(struct td_request *req, td_each_tensor *each, void *arg,
                        struct td_problem *problem);

#endif
