/* The descriptors of softmax, its logarithm and their gradients, and their rules. */
#include "kernels/softmax/softmax.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int rule_forward(struct td_call *call)
{
    td_rule_unary(call);
    if (!(call->out[0].dtype & TD_FLOATS))
        return td_refuse(call,
                         "dtype: softmax gives a floating type, not %s; FP16, BF16, FP32 or FP64 "
                         "is right",
                         td_dtype_name(call->out[0].dtype));
    if (call->arg[2].kind == TD_KIND_bool && call->arg[2].i)
        return td_refuse(call, "half_to_float: True is for other devices; False is right");
    return td_rule_dim(call, 1, "dim", call->out[0].rank);
}

static int rule_slope(struct td_call *call)
{
    enum td_dtype type = call->arg[3].dtype;
    int err = td_rule_gradient(call, "output");
    err = err ? err : td_rule_dim(call, 2, "dim", call->out[0].rank);
    if (!err && !(type & TD_FLOATS))
        err = td_refuse(call,
                        "input_dtype: softmax has a gradient for floating types, not for %s; FP16, "
                        "BF16, FP32 or FP64 is right",
                        td_dtype_name(type));
    if (type == TD_f16 && call->out[0].dtype == TD_f32) /* as ATen has it: no other type counts */
        call->out[0].dtype = type;
    return err;
}

bool td_soft_walk(const struct td_call *call, struct td_reduction *walk)
{
    const struct td_tensor *x = &call->arg[0].tensor;
    struct td_span s = td_soft_span(call);
    *walk = td_reduction(x, 1u << call->arg[1].i);
    return td_has_rows(x) && s.size > 1 && (walk->along || walk->inner == s.inner);
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_reduction walk;
    prepared->dense = call->arg[0].tensor.stride && !td_soft_walk(call, &walk);
    return NULL;
}

static double flops(const struct td_call *call)
{
    double cost = td_soft_of(call) == TD_SOFT_plain_slope ? 5 : 20;
    return cost * (double)td_numel(&call->out[0]);
}

td_kernel td_softmax_ref;
TD_KERNELS_3(softmax_f32);
TD_KERNELS_3(softmax_f64);

/* clang-format off */
#define ROWS(...) /* no element is read any more once its result is begun */                       \
    TD_SIMD_3(softmax_f32, TD_f32 | TD_f16 | TD_bf16, .in_place = 3, __VA_ARGS__)                  \
    TD_SIMD_3(softmax_f64, TD_f64, .in_place = 3, __VA_ARGS__)                                     \
    TD_REF(softmax), {0}
static const struct td_impl impls[] = {ROWS(.prepare = prepare, .strided = true)};
static const struct td_impl impls_slope[] = {ROWS()};
/* clang-format on */

#define TD_SOFT_ALONG                                                                              \
    "self=[3,n] dim=-1", "self=[n,3] dim=0", "self=[2,n,5] dim=1", "self=[3,m,n] dim=1"
#define TD_SOFT_SLOPE                                                                              \
    "grad_output=[9,n] output=[9,n] dim=-1 input_dtype=FP32",                                      \
        "grad_output=[n,9] output=[n,9] dim=0 input_dtype=FP32",                                   \
        "grad_output=[2,n,5] output=[2,n,5] dim=1 input_dtype=FP32",                               \
        "grad_output=[3,m,n] output=[3,m,n] dim=-2 input_dtype=FP32",                              \
        "grad_output=[9,n] output=[9,n] dim=1 input_dtype=FP16"
#define IS_FORWARD(kind) (TD_SOFT_##kind < TD_SOFT_plain_slope)
#define TD_SOFT(symbol, kind, text, formula, promotion, types, bound, ...)                         \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = IS_FORWARD(kind) ? rule_forward : rule_slope,                                      \
        .promote = TD_PROMOTE_##promotion,                                                         \
        .casts = IS_FORWARD(kind),                                                                 \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = true,                                                                              \
        .impls = IS_FORWARD(kind) ? impls : impls_slope,                                           \
        .family = &(const enum td_soft){TD_SOFT_##kind},                                           \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/softmax/softmax.def"
