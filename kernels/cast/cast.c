/* The descriptors of the operators that copy, made from cast.def, by the rules of half.h for BF16
 * and FP16. cast is a call of its own name, since what ATen calls to.dtype also moves between
 * devices and layouts, of which there is one here. */
#include "kernels/cast/cast.h"

#include "kernels/elementwise.h"
#include "kernels/half.h"
#include "kernels/pointwise/pointwise.h"

#include <errno.h>
#include <string.h>

enum type_of { TYPE_self, TYPE_dtype, TYPE_other };

/* Which argument is copied, and whose type the result has. The walk of the pointwise family, which
 * brings the elements into their places, wants its own form of that first. */
struct copies {
    struct td_pointwise walk;
    enum type_of type;
};

static enum td_dtype result_type(const struct td_call *call)
{
    const struct copies *family = call->op->family;
    if (family->type == TYPE_other)
        return call->arg[1].tensor.dtype;
    for (int i = 0; family->type == TYPE_dtype && i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_dtype)
            return call->arg[i].dtype;
    return call->arg[0].tensor.dtype;
}

static int rule_placed(struct td_call *call)
{
    const struct copies *family = call->op->family;
    const struct td_tensor *self = &call->arg[0].tensor;
    const struct td_tensor *from = &call->arg[*family->walk.operands - '0'].tensor;
    call->n_out = 1;
    call->out[0] = *self;
    call->out[0].dtype = result_type(call);
    int err = td_rule_placement(call, 1);
    if (!err && from->rank > self->rank)
        return td_refuse(call, "src: has %d dimensions, more than self's %d", from->rank,
                         self->rank);
    for (int d = 0; d < from->rank && !err; d++) {
        int64_t size = self->shape[d + self->rank - from->rank];
        if (from->shape[d] != size && from->shape[d] != 1)
            return td_refuse(call,
                             "src: dimension %d is %lld, which does not broadcast to self's %lld; "
                             "1 or %lld is right",
                             d, (long long)from->shape[d], (long long)size, (long long)size);
    }
    return err;
}

static int rule_inference(struct td_call *call)
{
    const struct td_value *train = &call->arg[2];
    int err = rule_placed(call);
    double p = td_scalar(&call->arg[1]);
    if (err)
        return err;
    if (!(p >= 0 && p <= 1))
        return td_refuse(call, "p: is %.15g; from 0 to 1 is right", p);
    if (train->kind == TD_KIND_none || train->i)
        return td_refuse(call, "train: chance plays no part here; False is right");
    if (strstr(call->op->schema, "(Tensor, Tensor)")) {
        call->out[1] = call->out[0];
        call->out[1].dtype = TD_bool;
        call->n_out = 2;
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    (void)prepared;
    return call->out[0].dtype == TD_bf16 ? NULL : "its result is not BF16, all that the level adds";
}

#define RUN(name, T, to, ...)                                                                      \
    void td_##name##_run(int64_t n, void *out, const void *in)                                     \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T x = ((const T *)in)[i];                                                              \
            ((to *)out)[i] = __VA_ARGS__;                                                          \
        }                                                                                          \
    }
RUN(u64_to_f32, uint64_t, float, (float)x)
RUN(u64_to_f64, uint64_t, double, (double)x)
RUN(u64_to_short, uint64_t, float, td_f64_to_odd(td_u64_to_odd(x)))
RUN(f32_to_u64, float, uint64_t, td_f64_to_u64((double)x))
RUN(f64_to_u64, double, uint64_t, td_f64_to_u64(x))

td_kernel td_cast_ref, td_cast_avx512_bf16;
TD_KERNELS_3(cast);

/* Tile by tile, each read before it is written. Dense copies are made by the reference, where a
 * backend has nothing else. */
#define ANYHOW .strided = true, .in_place = ~0u
#define REF TD_REF(cast, .strided = true)
static const struct td_impl impls[] = {
    /* FP16 is converted by instructions that AVX512 has already. */
    TD_ABSENT(avx512_fp16) TD_SIMD(avx512_bf16, cast, TD_ALL & ~TD_bf16, .prepare = prepare, ANYHOW)
        TD_SIMD_3(cast, TD_ALL, ANYHOW) REF,
    {0},
};
/* Where the result has self's type, nothing needs the level of BF16. */
static const struct td_impl impls_same[] = {TD_SIMD_3(cast, TD_ALL, ANYHOW) REF, {0}};

#define TD_COPY(symbol, text, formula, judged, whose, arg, ...)                                    \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = rule_##judged,                                                                     \
        .dtypes = TD_ALL,                                                                          \
        .impls = TYPE_##whose == TYPE_dtype ? impls : impls_same,                                  \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
        .family = &(const struct copies){{TD_POINT_positive, #arg, "", NULL}, TYPE_##whose},       \
    };
#include "kernels/cast/cast.def"
#undef TD_COPY
