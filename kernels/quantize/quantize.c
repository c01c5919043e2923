/* The operators between real numbers and whole ones with a scale and a zero point: those of
 * PyTorch's namespace quantized_decomposed, in which a quantized tensor is a plain one and its
 * scale an argument, and ONNX's DynamicQuantizeLinear. */
#include "kernels/quantize/quantize.h"

#include <errno.h>

#define WHOLES ((TD_INTS & ~TD_i64) | TD_u16)

/* One scale, or one for each size of the dimension axis. */
static int rule_channels(struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    int64_t axis = call->arg[3].i;
    if (axis < -in->rank || axis >= in->rank)
        return td_refuse(
            call, "axis: %lld is out of range for a tensor of rank %d; from %d to %d is right",
            (long long)axis, in->rank, -in->rank, in->rank - 1);
    int64_t n = in->shape[axis < 0 ? axis + in->rank : axis];
    for (int i = 1; i <= 2; i++) {
        const struct td_tensor *t = td_arg(call, i);
        if (t && (t->rank != 1 || t->shape[0] != n))
            return td_refuse(
                call,
                "%s: has rank %d and %lld elements; rank 1 and %lld, one for each size "
                "of dimension %lld, are right",
                i == 1 ? "scales" : "zero_points", t->rank, (long long)td_numel(t), (long long)n,
                (long long)axis);
    }
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_quantize *family = td_quantize(call);
    const struct td_value *limits = &call->arg[3 + family->channels], *type = limits + 2;
    enum td_dtype whole = type->dtype;
    int err = family->channels ? rule_channels(call) : 0;
    if (err)
        return err;
    if (!(whole & WHOLES))
        return td_refuse(call, "dtype: is %s; UINT8, INT8, UINT16, INT16 or INT32 is right",
                         td_dtype_name(whole));
    if (limits[0].i > limits[1].i)
        return td_refuse(call, "quant_min: %lld is above quant_max, %lld", (long long)limits[0].i,
                         (long long)limits[1].i);
    call->out[0] = call->arg[0].tensor;
    call->n_out = 1;
    if (family->way == TD_QUANTIZE_to) {
        bool sign = td_dtype_kind(whole) == 'i';
        int bits = 8 * (int)td_dtype_size(whole) - sign;
        int64_t most = (INT64_C(1) << bits) - 1, least = sign ? -most - 1 : 0;
        if (limits[0].i < least || limits[1].i > most ||
            (int64_t)(float)limits[0].i != limits[0].i ||
            (int64_t)(float)limits[1].i != limits[1].i)
            return td_refuse(call, "quant_min: from %lld to %lld is beyond %s, or what FP32 counts",
                             (long long)limits[0].i, (long long)limits[1].i, td_dtype_name(whole));
        call->out[0].dtype = whole;
        return 0;
    }
    /* What dtype says of input, input shows itself. */
    call->out[0].dtype = type[1].kind == TD_KIND_dtype ? type[1].dtype : TD_f32;
    if (!(call->out[0].dtype & TD_FLOATS))
        return td_refuse(call, "out_dtype: is %s; FP16, BF16, FP32 or FP64 is right",
                         td_dtype_name(call->out[0].dtype));
    return 0;
}

static int rule_dynamic(struct td_call *call)
{
    call->out[0] = call->arg[0].tensor;
    call->out[0].dtype = TD_u8;
    call->out[1] = (struct td_tensor){.dtype = TD_f32};
    call->out[2] = (struct td_tensor){.dtype = TD_u8};
    call->n_out = 3;
    return 0;
}

static double flops(const struct td_call *call)
{
    return 6.0 * (double)td_numel(&call->out[0]);
}

td_kernel td_quantize_ref;
TD_KERNELS_3(quantize);

#define REALS (TD_f16 | TD_bf16 | TD_f32)
static const struct td_impl impls_to[] = {TD_SIMD_3(quantize, REALS) TD_REF(quantize), {0}};
static const struct td_impl impls_self[] = {TD_SIMD_3(quantize, TD_f32) TD_REF(quantize), {0}};
static const struct td_impl impls_back[] = {TD_SIMD_3(quantize, WHOLES) TD_REF(quantize), {0}};

#define TD_QUANTIZE(symbol, text, formula, judged, types, rows, direction, along, ...)             \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = judged,                                                                            \
        .unpromoted = 6,                                                                           \
        .dtypes = types,                                                                           \
        .impls = rows,                                                                             \
        .flops = flops,                                                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .family = &(const struct td_quantize){TD_QUANTIZE_##direction, along},                     \
    };
#include "kernels/quantize/quantize.def"
#undef TD_QUANTIZE
