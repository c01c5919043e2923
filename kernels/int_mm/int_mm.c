/* Products of 8-bit integers, of either signedness on each side: ATen's _int_mm, and ONNX's
 * MatMulInteger and QLinearMatMul. Zero points are taken into account afterwards, by the sums of
 * rows and columns: (a - za)(b - zb) = ab - za b - zb a + za zb. */
#include "kernels/int_mm/int_mm.h"

#include <errno.h>

static const struct td_int_mm_args *args_of(const struct td_call *call)
{
    return call->op->family;
}

/* ---- rules ---- */

static int rule_types(struct td_call *call)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *b = td_arg(call, args->b),
                           *zero[] = {td_int_mm_arg(call, args->a_zero),
                                      td_int_mm_arg(call, args->b_zero)};
    int scales[] = {args->a_scale, args->b_scale, args->y_scale};
    if (!(b->dtype & (TD_i8 | TD_u8)))
        return td_refuse(call, "%s: is %s; INT8 and UINT8 are right",
                         args->a_zero < 0 ? "mat2" : "b", td_dtype_name(b->dtype));
    for (int i = 0; i < 2; i++)
        if (zero[i] && zero[i]->dtype != td_arg(call, i ? args->b : args->a)->dtype)
            return td_refuse(call, "%c_zero_point: is %s; the type of %c is right", "ab"[i],
                             td_dtype_name(zero[i]->dtype), "ab"[i]);
    for (int i = 0; i < 3; i++)
        if (scales[i] >= 0 && !(td_arg(call, scales[i])->dtype & (TD_f32 | TD_f16 | TD_bf16)))
            return td_refuse(call, "%c_scale: is %s; FP32, FP16 or BF16 is right", "aby"[i],
                             td_dtype_name(td_arg(call, scales[i])->dtype));
    if (args->y_zero >= 0 && !(td_arg(call, args->y_zero)->dtype & (TD_i8 | TD_u8)))
        return td_refuse(call, "y_zero_point: is %s; INT8 or UINT8 is right",
                         td_dtype_name(td_arg(call, args->y_zero)->dtype));
    const struct td_tensor *bias = td_int_mm_arg(call, args->bias);
    enum td_dtype right = args->y_zero >= 0 ? TD_i32 : TD_f32;
    if (bias && bias->dtype != right)
        return td_refuse(call, "bias: is %s; %s is right", td_dtype_name(bias->dtype),
                         td_dtype_name(right));
    return 0;
}

/* One number, or as many as there are rows, or columns. */
static int rule_numbers(struct td_call *call, int i, const char *name, int64_t each)
{
    const struct td_tensor *t = td_int_mm_arg(call, i);
    if (!t || td_numel(t) == 1 || td_numel(t) == each)
        return 0;
    if (each < 2)
        return td_refuse(call, "%s: has %lld numbers; one is right", name, (long long)td_numel(t));
    return td_refuse(call, "%s: has %lld numbers; one, or %lld, is right", name,
                     (long long)td_numel(t), (long long)each);
}

static int rule_shapes(struct td_call *call)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *a = td_arg(call, args->a), *b = td_arg(call, args->b);
    struct td_tensor *out = &call->out[0];
    bool plain = args->a_zero < 0;
    const char *names[] = {plain ? "self" : "a", plain ? "mat2" : "b"};
    for (int i = 0; i < 2; i++) {
        int rank = (i ? b : a)->rank;
        if (rank < 2 || (plain && rank > 2))
            return td_refuse(call, "%s: is of rank %d; both must be matrices%s", names[i], rank,
                             plain ? ", of rank 2" : ", or several");
    }
    if (a->shape[a->rank - 1] != b->shape[b->rank - 2])
        return td_refuse(call, "%s: has %lld rows, %s has %lld columns; they must be equal",
                         names[1], (long long)b->shape[b->rank - 2], names[0],
                         (long long)a->shape[a->rank - 1]);
    *out = (struct td_tensor){.dtype = TD_i32, .rank = a->rank > b->rank ? a->rank : b->rank};
    for (int k = 3; k <= out->rank; k++) {
        int64_t x = k <= a->rank ? a->shape[a->rank - k] : 1;
        int64_t y = k <= b->rank ? b->shape[b->rank - k] : 1;
        if (x != y && x != 1 && y != 1)
            return td_refuse(call, "b: size %lld does not broadcast with a's %lld", (long long)y,
                             (long long)x);
        out->shape[out->rank - k] = x == 1 ? y : x;
    }
    out->shape[out->rank - 2] = a->shape[a->rank - 2];
    out->shape[out->rank - 1] = b->shape[b->rank - 1];
    if (args->y_zero >= 0)
        out->dtype = td_arg(call, args->y_zero)->dtype;
    else if (args->a_scale >= 0)
        out->dtype = TD_f32;
    call->n_out = 1;
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_int_mm_args *args = args_of(call);
    int err = rule_shapes(call);
    err = err ? err : rule_types(call);
    if (err)
        return err;
    int64_t m = call->out[0].shape[call->out[0].rank - 2],
            n = call->out[0].shape[call->out[0].rank - 1];
    err = rule_numbers(call, args->a_zero, "a_zero_point", m);
    err = err ? err : rule_numbers(call, args->b_zero, "b_zero_point", n);
    err = err ? err : rule_numbers(call, args->a_scale, "a_scale", m);
    err = err ? err : rule_numbers(call, args->b_scale, "b_scale", n);
    err = err ? err : rule_numbers(call, args->y_scale, "y_scale", 1);
    err = err ? err : rule_numbers(call, args->y_zero, "y_zero_point", 1);
    const struct td_tensor *bias = td_int_mm_arg(call, args->bias);
    if (err || !bias || (bias->rank == 1 && bias->shape[0] == n))
        return err;
    return td_refuse(call, "bias: its shape must be [%lld], one number a column", (long long)n);
}

/* ---- descriptors ---- */

static const char *prepare_pairs(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = td_int_mm_scratch(call, 2, 1);
    return NULL;
}

static const char *prepare_quads(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = td_int_mm_scratch(call, 4, 16);
    return NULL;
}

static double flops(const struct td_call *call)
{
    const struct td_tensor *a = td_arg(call, args_of(call)->a);
    return 2.0 * (double)td_numel(&call->out[0]) * (double)(a->shape[a->rank - 1] + 8);
}

td_kernel td_int_mm_ref, td_int_mm_amx, td_int_mm_avx512_vnni, td_int_mm_avx2_vnni;
TD_KERNELS_3(int_mm);

#define TYPES TD_i8 | TD_u8

static const struct td_impl impls[] = {
    TD_AMX(int_mm, TYPES, .prepare = prepare_quads)
        TD_SIMD(avx512_vnni, int_mm, TYPES, .prepare = prepare_quads)
            TD_SIMD(avx2_vnni, int_mm, TYPES, .prepare = prepare_quads)
                TD_SIMD_3(int_mm, TYPES, .prepare = prepare_pairs) TD_REF(int_mm),
    {0},
};

#define TD_INT_MM(symbol, text, formula, mixed, places, ...)                                       \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TYPES,                                                                           \
        .impls = impls,                                                                            \
        .family = &(const struct td_int_mm_args)places,                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
        .mixes = mixed,                                                                            \
    };
#define PLACES(...)                                                                                \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
TD_INT_MM(int_mm, "_int_mm(Tensor self, Tensor mat2) -> Tensor",
          "out[i, j] = sum over p of self[i, p] * mat2[p, j], in INT32, which wraps", 0,
          PLACES(0, 1, -1, -1, -1, -1, -1, -1, -1), "self=[n,m] mat2=[m,k]",
          "self=[n,n] mat2=[n,40]", "self=[3,n] mat2=[n,37]", "self=[200,m] mat2=[m,n]")
TD_INT_MM(matmul_integer,
          "matmul_integer(Tensor A, Tensor B, Tensor? a_zero_point=None, Tensor? "
          "b_zero_point=None) -> Tensor",
          "ONNX's MatMulInteger: out = (A - a_zero_point) x (B - b_zero_point) in INT32; zero "
          "points are one number, or one a row of A, a column of B",
          TD_MAX_RANK, PLACES(0, 1, -1, -1, -1, 2, 3, -1, -1),
          "A=[n,m] B=[m,9] a_zero_point=[] b_zero_point=[]", "A=[2,n,5] B=[5,m] a_zero_point=[n]",
          "A=[3,1,7,n] B=[2,n,m] b_zero_point=[m]")
TD_INT_MM(qlinear_matmul,
          "qlinear_matmul(Tensor a, Tensor a_scale, Tensor a_zero_point, Tensor b, Tensor b_scale, "
          "Tensor b_zero_point, Tensor y_scale, Tensor y_zero_point, Tensor? bias=None) -> Tensor",
          "ONNX's QLinearMatMul: out = round((matmul_integer(a, b) + bias) * (a_scale * b_scale / "
          "y_scale)) + y_zero_point, within its type",
          TD_MAX_RANK, PLACES(0, 3, 1, 4, 6, 2, 5, 7, 8),
          "a=[n,m] a_scale=[]:f32 a_zero_point=[] b=[m,9] b_scale=[9]:f32 b_zero_point=[9] "
          "y_scale=[]:f32 y_zero_point=[] bias=[9]:i32",
          "a=[2,n,5] a_scale=[n]:f32 a_zero_point=[n] b=[5,m] b_scale=[]:f32 b_zero_point=[] "
          "y_scale=[]:f32 y_zero_point=[]")
TD_INT_MM(matmul_integer_to_float,
          "matmul_integer_to_float(Tensor A, Tensor B, Tensor a_scale, Tensor b_scale, Tensor? "
          "a_zero_point=None, Tensor? b_zero_point=None, Tensor? bias=None) -> Tensor",
          "ONNX Runtime's MatMulIntegerToFloat: out = matmul_integer(A, B) * (a_scale * b_scale) + "
          "bias in FP32",
          TD_MAX_RANK, PLACES(0, 1, 2, 3, -1, 4, 5, -1, 6),
          "A=[2,n,5] B=[5,m] a_scale=[]:f32 b_scale=[]:f32 a_zero_point=[] b_zero_point=[m]",
          "A=[n,m] B=[m,9]:INT8 a_scale=[]:f32 b_scale=[9]:f32 a_zero_point=[] bias=[9]:f32",
          "A=[3,1,7,n] B=[2,n,m] a_scale=[7]:f32 b_scale=[m]:f32 bias=[m]:f32")
