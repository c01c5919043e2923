/* What people call operators, arguments and types who come from torch or NumPy: with a module in
 * front ("torch.relu", "np.float32"), or by another word ("axis"). ATen's own names come first
 * everywhere; these are only looked at where there is no such name. */
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <string.h>

/* The name behind its module, or NULL: there is none in front. */
static const char *behind_module(const char *name)
{
    static const char *const modules[] = {"torch.", "numpy.", "np.",
                                          "math.",  "F.",     "nn.functional."};
    const char *rest = NULL;
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (!strncmp(name, modules[i], strlen(modules[i]))) {
            rest = name + strlen(modules[i]);
            const char *more = behind_module(rest);
            return more ? more : rest;
        }
    return rest;
}

const char *td_op_called(const char *name)
{
    static const struct {
        const char *name, *op;
    } others[] = {{"power", "pow"},           {"expand_dims", "unsqueeze"},
                  {"invert", "bitwise_not"},  {"left_shift", "bitwise_left_shift"},
                  {"rint", "round"},          {"right_shift", "bitwise_right_shift"},
                  {"mod", "remainder"},       {"linalg.norm", "norm"},
                  {"degrees", "rad2deg"},     {"radians", "deg2rad"},
                  {"special.erf", "erf"},     {"special.expit", "sigmoid"},
                  {"special.erfc", "erfc"},   {"special.softmax", "softmax"},
                  {"special.exp2", "exp2"},   {"special.expm1", "expm1"},
                  {"special.log1p", "log1p"}, {"linalg.vector_norm", "linalg_vector_norm"}};
    if (td_registry_find(name))
        return name;
    const char *rest = behind_module(name), *wanted = rest ? rest : name;
    if (rest && td_registry_find(rest))
        return rest;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (!strcmp(wanted, others[i].name) && td_registry_find(others[i].op))
            return others[i].op;
    return rest ? rest : name;
}

const char *td_op_nearest(const char *name)
{
    const char *names[1024], *rest = behind_module(name);
    int n = 0;
    for (int i = 0; i < td_registry_count() && n < 1024; i++)
        if (td_registry_at(i)->first)
            names[n++] = td_registry_at(i)->schema.name;
    return td_nearest(rest ? rest : name, names, n);
}

static const char *own_param(const struct td_handle *handle, bool one, const char *name)
{
    for (const struct td_handle *h = handle; h; h = one ? NULL : h->next) {
        int i = td_schema_find(&h->schema, name);
        if (i >= 0)
            return h->schema.param[i].name;
    }
    return NULL;
}

const char *td_param_called(const struct td_handle *handle, bool one, const char *name)
{
    static const struct {
        const char *name, *param;
    } others[] = {{"axis", "dim"},        {"axis", "dims"},      {"axes", "dim"},
                  {"axes", "dims"},       {"dim", "dims"},       {"keepdims", "keepdim"},
                  {"x", "self"},          {"x", "input"},        {"input", "self"},
                  {"self", "input"},      {"a", "self"},         {"a", "input"},
                  {"x1", "self"},         {"x2", "other"},       {"x2", "mat2"},
                  {"y", "other"},         {"b", "other"},        {"b", "mat2"},
                  {"other", "mat2"},      {"other", "exponent"}, {"x2", "exponent"},
                  {"x", "tensors"},       {"arrays", "tensors"}, {"a_min", "min"},
                  {"a_max", "max"},       {"shape", "size"},     {"size", "shape"},
                  {"ddof", "correction"}, {"newshape", "shape"}, {"axis1", "dim0"},
                  {"axis2", "dim1"},      {"reps", "dims"},      {"shift", "shifts"}};
    const char *own = own_param(handle, one, name);
    for (size_t i = 0; !own && i < sizeof others / sizeof *others; i++)
        if (!strcmp(name, others[i].name))
            own = own_param(handle, one, others[i].param);
    return own;
}

enum td_dtype td_dtype_called(const char *name)
{
    static const struct {
        const char *name;
        enum td_dtype dtype;
    } others[] = {
        {"float32", TD_f32}, {"float16", TD_f16}, {"float64", TD_f64}, {"bfloat16", TD_bf16},
        {"int8", TD_i8},     {"int16", TD_i16},   {"int32", TD_i32},   {"int64", TD_i64},
        {"uint8", TD_u8},    {"uint16", TD_u16},  {"uint32", TD_u32},  {"uint64", TD_u64},
        {"bool_", TD_bool},  {"half", TD_f16},    {"double", TD_f64},  {"single", TD_f32}};
    const char *rest = behind_module(name), *wanted = rest ? rest : name;
    enum td_dtype dtype = td_dtype_find(wanted);
    for (size_t i = 0; !dtype && i < sizeof others / sizeof *others; i++)
        if (!strcmp(wanted, others[i].name))
            dtype = others[i].dtype;
    return dtype;
}
