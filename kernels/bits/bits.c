/* linear_bits: a linear layer whose weight has 2, 4 or 8 bits an element, with a scale for each
 * block of a row, as ONNX Runtime's MatMulNBits and GenAI's models have it. The weight stays as it
 * is: it is read once for a few rows of the input, and unpacked in registers. For more rows a
 * stored one is packed, once, to 8 bits. */
#include "kernels/bits/bits.h"

#include "kernels/sizes.h"

#include <errno.h>

enum { WEIGHT, SCALES, INPUT, ZEROS, BIAS, BITS };

struct td_bits td_bits_of(const struct td_call *call)
{
    const struct td_tensor *weight = td_arg(call, WEIGHT), *input = td_arg(call, INPUT);
    const struct td_tensor *zeros = td_arg(call, ZEROS), *bias = td_arg(call, BIAS);
    struct td_bits b = {.weight = weight->data,
                        .zero = zeros ? zeros->data : NULL,
                        .scale = td_arg(call, SCALES)->data,
                        .input = input->data,
                        .bias = bias ? bias->data : NULL,
                        .out = call->out[0].data,
                        .n = weight->shape[0],
                        .k = input->shape[input->rank - 1],
                        .blocks = weight->shape[1],
                        .bits = call->arg[BITS].i,
                        .zero_bytes = zeros ? zeros->shape[1] : 0};
    b.block = weight->shape[2] * 8 / b.bits;
    b.m = b.k ? td_numel(input) / b.k : 0;
    return b;
}

static int rule_float(struct td_call *call, int i, const char *name)
{
    const struct td_tensor *t = td_arg(call, i);
    return !t || t->dtype == TD_f32
               ? 0
               : td_refuse(call, "%s: is %s; FP32 is right", name, td_dtype_name(t->dtype));
}

static int rule(struct td_call *call)
{
    const struct td_tensor *weight = td_arg(call, WEIGHT), *scales = td_arg(call, SCALES);
    const struct td_tensor *input = td_arg(call, INPUT), *zeros = td_arg(call, ZEROS);
    const struct td_tensor *bias = td_arg(call, BIAS);
    int64_t bits = call->arg[BITS].i;
    if (bits != 2 && bits != 4 && bits != 8)
        return td_refuse(call, "bits: is %lld; 2, 4 or 8 is right", (long long)bits);
    if (weight->rank != 3 || !weight->shape[1] || !weight->shape[2] || weight->shape[2] > 1 << 20)
        return td_refuse(call, "weight: must be of shape [n, blocks, bytes of a block]");
    int64_t n = weight->shape[0], blocks = weight->shape[1], block = weight->shape[2] * 8 / bits;
    int err = rule_float(call, SCALES, "scales");
    err = err ? err : rule_float(call, INPUT, "input");
    err = err ? err : rule_float(call, BIAS, "bias");
    if (err)
        return err;
    if (scales->rank != 2 || scales->shape[0] != n || scales->shape[1] != blocks)
        return td_refuse(call, "scales: must be of shape [%lld, %lld], one a block", (long long)n,
                         (long long)blocks);
    int64_t k = input->rank ? input->shape[input->rank - 1] : -1, whole, less;
    td_size_times(blocks, block, &whole);
    td_size_times(blocks - 1, block, &less);
    if (k < 1 || k > whole || k <= less)
        return td_refuse(call, "input: its rows must fill %lld blocks of %lld", (long long)blocks,
                         (long long)block);
    int64_t bytes = blocks / (8 / bits) + (blocks % (8 / bits) > 0);
    if (zeros && (zeros->dtype != TD_u8 || zeros->rank != 2 || zeros->shape[0] != n ||
                  zeros->shape[1] != bytes))
        return td_refuse(call,
                         "zero_points: must be UINT8 of shape [%lld, %lld], packed as weight "
                         "is",
                         (long long)n, (long long)bytes);
    if (bias && (bias->rank != 1 || bias->shape[0] != n))
        return td_refuse(call, "bias: must be of shape [%lld]", (long long)n);
    call->out[0] = *input;
    call->out[0].weight = NULL;
    call->out[0].shape[input->rank - 1] = n;
    call->n_out = 1;
    return 0;
}

static double flops(const struct td_call *call)
{
    struct td_bits b = td_bits_of(call);
    return 2 * (double)b.m * (double)b.n * (double)b.k;
}

/* ---- many rows ---- */

/* Half of what the bits hold: numbers less this are INT8. */
static inline int nought(const struct td_bits *b)
{
    return 1 << (b->bits - 1);
}

static void numbers(const struct td_gemm *g, int64_t p, int64_t k, int64_t j, int64_t n, int8_t *to,
                    int64_t ld)
{
    const struct td_bits *b = g->context;
    for (int64_t x = 0; x < n; x++, to++) {
        const uint8_t *row = b->weight + (j + x) * b->blocks * b->block * b->bits / 8;
        for (int64_t i = 0, at = p; i < k; i++, at++)
            to[i * ld] = (int8_t)(td_bits_get(row, at, b->bits) - nought(b));
    }
}

static void scales(const struct td_gemm *g, int64_t block, int64_t j, int64_t n, float *scale,
                   float *zero)
{
    const struct td_bits *b = g->context;
    for (int64_t x = 0; x < n; x++) {
        scale[x] = b->scale[(j + x) * b->blocks + block];
        zero[x] = td_bits_zero(b, j + x, block) - (float)nought(b);
    }
}

struct td_gemm td_bits_gemm(const struct td_call *call, const struct td_bits *b)
{
    static const struct td_gemm_quantized kinds[] = {
        {.numbers = numbers, .scales = scales},
        {.numbers = numbers, .scales = scales, .has_zeros = true}};
    return (struct td_gemm){.a = td_arg(call, INPUT),
                            .b = td_arg(call, WEIGHT),
                            .bias = td_arg(call, BIAS),
                            .bias_j = 1,
                            .out = &call->out[0],
                            .m = b->m,
                            .n = b->n,
                            .k = b->k,
                            .step_k = 1,
                            .step_n = b->blocks * b->block,
                            .quantized = &kinds[b->zero != NULL],
                            .block = b->block,
                            .context = b,
                            .threads = call->threads};
}

/* Of a few rows of input: these, each filled up to whole blocks, and of 4 bits in the order of
 * sums. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_bits b = td_bits_of(call);
    int64_t bytes;
    if (td_bits_is_product(&b)) {
        struct td_gemm g = td_bits_gemm(call, &b);
        prepared->scratch = td_gemm_scratch(&g);
        return NULL;
    }
    if (!td_size_times(b.m, (int64_t)sizeof(float) * b.blocks * b.block, &bytes))
        return "its rows are too many";
    prepared->scratch = (size_t)bytes;
    return NULL;
}

td_kernel td_bits_ref;
TD_KERNELS_3(bits);

/* clang-format off */
static const struct td_impl impls[] = {
    TD_SIMD_3(bits, TD_u8, .prepare = prepare)
    {.name = "ref", .run = td_bits_ref, .dtypes = TD_u8},
    {0},
};
/* clang-format on */

const struct td_op td_op_linear_bits = {
    .schema = "linear_bits(Tensor weight, Tensor scales, Tensor input, Tensor? zero_points=None, "
              "Tensor? bias=None, *, int bits=4) -> Tensor",
    .doc = "input w' + bias, where w = (weight - zero_points) * scales, in blocks of a row; weight "
           "and zero_points have their elements packed, the first one in the lowest bits; "
           "zero_points left out: half of what the bits hold",
    .rule = rule,
    .dtypes = TD_u8,
    .ulp = 32, /* of FP32 sums */
    .sums = true,
    .impls = impls,
    .flops = flops,
    .samples =
        (const char *const[]){"weight=[n,2,16] scales=[n,2]:f32 input=[m,64]:f32",
                              "weight=[n,3,32] scales=[n,3]:f32 input=[2,m,90]:f32 "
                              "zero_points=[n,3] bias=[n]:f32 bits=8",
                              "weight=[n,3,8] scales=[n,3]:f32 input=[m,40]:f32 zero_points=[n,2]",
                              "weight=[n,5,4] scales=[n,5]:f32 input=[m,78]:f32 zero_points=[n,2] "
                              "bits=2",
                              NULL},
};
