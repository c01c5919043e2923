/* Tensor files as bodies: Hugging Face's .safetensors; .npy is in tensors.h. Internal to the room.
 */
#ifndef TD_API_TENSOR_FILES_H
#define TD_API_TENSOR_FILES_H

#include "api/request/request.h"

enum td_dtype td_safetensors_dtype(const char *name); /* none: it is no type of the format */

/* Calls each for every tensor of a .safetensors body, in the order of their data, once all of it
 * has been judged; stops at the first error and gives it back. t->data may be unaligned and lives
 * as long as the body. -EINVAL. */
typedef int td_each_tensor(void *arg, const char *key, const struct td_tensor *t,
                           struct td_problem *problem);
int td_read_safetensors(struct td_request *req, td_each_tensor *each, void *arg,
                        struct td_problem *problem);

/* Makes a file of the tensors the response, under their names without so many first bytes. What
 * td_api_problem gives back. */
struct td_tensors_listed;
int td_safetensors_response(struct td_request *req, const struct td_tensors_listed *list, int n,
                            size_t skip);

#endif
