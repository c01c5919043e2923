/* Tensor files as bodies: Hugging Face's .safetensors; .npy is in tensors.h. Internal to the room.
 */
#ifndef TD_API_TENSOR_FILES_H
#define TD_API_TENSOR_FILES_H

#include "api/request/request.h"

enum td_dtype td_safetensors_dtype(const char *name); /* none: it is no type of the format */

#endif
