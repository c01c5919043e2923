/* cast: the type conversion, by the rules of half.h for BF16 and FP16. A call of its own name,
 * since what ATen calls to.dtype also moves between devices and layouts. */
#include "kernels/elementwise.h"

static int rule(struct td_call *call)
{
    td_rule_unary(call);
    call->out[0].dtype = call->arg[1].dtype;
    return 0;
}

/* Between FP32 and a half type; and a plain copy. */
static bool fits(const struct td_call *call)
{
    unsigned from = call->arg[0].tensor.dtype, to = call->out[0].dtype;
    unsigned half = TD_f16 | TD_bf16;
    return from == to || (from == TD_f32 && to & half) || (from & half && to == TD_f32);
}

static bool to_bf16(const struct td_call *call)
{
    return call->out[0].dtype == TD_bf16;
}

td_kernel td_cast_ref, td_cast_avx512_bf16;
TD_KERNELS_3(cast);

static const struct td_impl impls[] = {
    /* FP16 is converted by instructions that AVX512 has already. */
    TD_ABSENT(avx512_fp16) TD_SIMD(avx512_bf16, cast, TD_f32, .accepts = to_bf16)
        TD_SIMD_3(cast, TD_ALL, .accepts = fits) TD_REF(cast),
    {0},
};

const struct td_op td_op_cast = {
    .schema = "cast(Tensor self, ScalarType dtype) -> Tensor",
    .doc = "out = self in another type: to nearest even, wrapping for integers",
    .rule = rule,
    .dtypes = TD_ALL,
    .impls = impls,
    .samples =
        (const char *const[]){"self=[n] dtype=BF16", "self=[n] dtype=FP16", "self=[n] dtype=FP32",
                              "self=[n] dtype=INT8", "self=[n] dtype=INT64", "self=[n] dtype=INT32",
                              "self=[n] dtype=INT16", "self=[n] dtype=UINT8", "self=[n] dtype=BOOL",
                              "self=[n] dtype=FP64", "self=[] dtype=FP32", NULL},
};
