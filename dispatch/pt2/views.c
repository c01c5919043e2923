/* Which targets make views of their first argument, and which tensors lie as tensors do here. */
#include "dispatch/pt2/pt2.h"

#include <string.h>

bool td_pt2_is_dense(const cJSON *meta)
{
    const cJSON *size = td_pt2_get(meta, "sizes"), *stride = td_pt2_get(meta, "strides");
    int n = cJSON_GetArraySize(size);
    int64_t expected = 1, s, t;
    if (!meta || cJSON_GetArraySize(stride) != n)
        return false;
    for (int d = n - 1; d >= 0; d--) {
        bool sized = td_pt2_whole(td_pt2_get(cJSON_GetArrayItem(size, d), "as_int"), &s);
        bool known = td_pt2_whole(td_pt2_get(cJSON_GetArrayItem(stride, d), "as_int"), &t);
        if (known && expected && t != expected && !(sized && s == 1))
            return false;
        expected = sized && known ? s * t : 0; /* 0: unknown */
    }
    return true;
}

/* Those that differ in their shape alone. */
static const char *const shaping[] = {
    "view",    "flatten.using_ints", "unflatten.int", "squeeze",    "squeeze.dim", "squeeze.dims",
    "reshape", "unsqueeze",          "view_as",       "reshape_as", NULL};
static const char *const swapping[] = {"transpose.int", "t", "swapaxes", "swapdims", NULL};
/* That change places of the last two dimensions. */
static const char *const turning[] = {"numpy_T", "mT", "mH", "matrix_H", "adjoint", NULL};
static const char *const others[] = {
    "permute",           "slice.Tensor",     "select.int",  "diagonal",
    "as_strided",        "narrow",           "unbind.int",  "split.Tensor",
    "split.sizes",       "split_with_sizes", "chunk",       "expand",
    "expand_as",         "broadcast_to",     "movedim.int", "movedim.intlist",
    "moveaxis.int",      "moveaxis.intlist", "unfold",      "meshgrid",
    "meshgrid.indexing", "view.dtype",       NULL};

char td_pt2_view_form(const char *target)
{
    return td_is_one_of(target, shaping)    ? 's'
           : td_is_one_of(target, swapping) ? 'd'
           : td_is_one_of(target, turning)  ? 'm'
           : td_is_one_of(target, others)   ? 'o'
                                            : 0;
}

char td_pt2_view(const char *target, const cJSON *meta)
{
    bool copies = !strncmp(target, "reshape", 7) || !strncmp(target, "flatten", 7);
    if (copies && !td_pt2_is_dense(meta))
        return 'u';
    return td_pt2_view_form(target) ? 'v' : 0;
}
