/* Products of 8-bit integers, of either signedness on each side: ATen's _int_mm, and ONNX's
 * MatMulInteger and QLinearMatMul. Zero points are taken into account afterwards, by the sums of
 * rows and columns: (a - za)(b - zb) = ab - za b - zb a + za zb. */
#include "kernels/int_mm/int_mm.h"

#include "kernels/elementwise.h"
#include "kernels/weight.h"

#include <errno.h>
#include <string.h>

static const struct td_int_mm_args *args_of(const struct td_call *call)
{
    return call->op->family;
}

static const struct td_tensor *arg(const struct td_call *call, int i)
{
    return i < 0 ? NULL : td_arg(call, i);
}

/* ---- rules ---- */

static int rule_types(struct td_call *call)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *b = td_arg(call, args->b),
                           *zero[] = {arg(call, args->a_zero), arg(call, args->b_zero)};
    int scales[] = {args->a_scale, args->b_scale, args->y_scale};
    if (!(b->dtype & (TD_i8 | TD_u8)))
        return td_refuse(call, "%s: is %s; INT8 and UINT8 are right",
                         args->a_zero < 0 ? "mat2" : "b", td_dtype_name(b->dtype));
    for (int i = 0; i < 2; i++)
        if (zero[i] && zero[i]->dtype != td_arg(call, i ? args->b : args->a)->dtype)
            return td_refuse(call, "%c_zero_point: is %s; the type of %c is right", "ab"[i],
                             td_dtype_name(zero[i]->dtype), "ab"[i]);
    for (int i = 0; i < 3 && args->y_scale >= 0; i++)
        if (!(td_arg(call, scales[i])->dtype & (TD_f32 | TD_f16 | TD_bf16)))
            return td_refuse(call, "%c_scale: is %s; FP32, FP16 or BF16 is right", "aby"[i],
                             td_dtype_name(td_arg(call, scales[i])->dtype));
    if (args->y_zero >= 0 && !(td_arg(call, args->y_zero)->dtype & (TD_i8 | TD_u8)))
        return td_refuse(call, "y_zero_point: is %s; INT8 or UINT8 is right",
                         td_dtype_name(td_arg(call, args->y_zero)->dtype));
    return 0;
}

/* One number, or as many as there are rows, or columns. */
static int rule_numbers(struct td_call *call, int i, const char *name, int64_t each)
{
    const struct td_tensor *t = arg(call, i);
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
    return err ? err : rule_numbers(call, args->y_zero, "y_zero_point", 1);
}

/* ---- what is computed ---- */

static bool walks(const struct td_tensor *t, int back) /* dimension, counted from the end */
{
    return back <= t->rank && t->shape[t->rank - back] != 1;
}

static void gemm(const struct td_call *call, struct td_gemm *g, int group, int pad)
{
    const struct td_tensor *a = td_arg(call, args_of(call)->a), *b = td_arg(call, args_of(call)->b),
                           *out = &call->out[0];
    *g = (struct td_gemm){.a = a,
                          .b = b,
                          .rank = out->rank - 2,
                          .m = a->shape[a->rank - 2],
                          .k = a->shape[a->rank - 1],
                          .n = b->shape[b->rank - 1],
                          .step_k = b->shape[b->rank - 1],
                          .step_n = 1,
                          .threads = call->threads,
                          .group = group,
                          .pad = pad};
    bool one = true; /* matrix b for all of a's, which lie one after the other: it is one product */
    for (int d = 0; d < g->rank; d++) {
        g->batch[d] = out->shape[d];
        g->has_a[d] = walks(a, out->rank - d);
        g->has_b[d] = walks(b, out->rank - d);
        one = one && !g->has_b[d];
    }
    for (; one && g->rank; g->rank--)
        g->m *= g->batch[g->rank - 1];
}

static size_t lines(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

/* In bytes: sums, where they are not the result; sums of a's rows and of b's columns. */
static size_t room_of(const struct td_call *call, size_t *of_a, size_t *of_b)
{
    const struct td_int_mm_args *args = args_of(call);
    const struct td_tensor *a = td_arg(call, args->a), *b = td_arg(call, args->b);
    bool zero_a = arg(call, args->a_zero), zero_b = arg(call, args->b_zero);
    int64_t rows = a->shape[a->rank - 1] ? td_numel(a) / a->shape[a->rank - 1] : 0;
    int64_t cols = b->shape[b->rank - 2] ? td_numel(b) / b->shape[b->rank - 2] : 0;
    *of_a = zero_b ? lines((size_t)rows * 4) : 0;
    *of_b = zero_a ? lines((size_t)cols * 4) : 0;
    return args->y_zero >= 0 ? lines((size_t)td_numel(&call->out[0]) * 4) : 0;
}

static size_t scratch_of(const struct td_call *call, int group, int pad)
{
    struct td_tensor sums = {.dtype = TD_i32};
    struct td_gemm g;
    size_t of_a, of_b, own = room_of(call, &of_a, &of_b);
    gemm(call, &g, group, pad);
    g.out = &sums;
    return lines(td_gemm_scratch(&g)) + own + of_a + of_b;
}

void td_int_mm_begin(const struct td_call *call, struct td_int_mm *m, int group, int pad)
{
    size_t of_a, of_b, own = room_of(call, &of_a, &of_b);
    gemm(call, &m->g, group, pad);
    m->rows = call->out[0].shape[call->out[0].rank - 2];
    m->sums = call->out[0];
    m->g.out = &m->sums;
    m->sums.dtype = TD_i32;
    if (!group) /* for the sizes alone: there is no scratch */
        return;
    char *room = (char *)call->scratch + lines(td_gemm_scratch(&m->g));
    if (own)
        m->sums.data = room;
    m->of_a = of_a ? (uint32_t *)(room + own) : NULL;
    m->of_b = of_b ? (uint32_t *)(room + own + of_a) : NULL;
}

double td_int_mm_number(const struct td_call *call, int i, int64_t at)
{
    const struct td_tensor *t = arg(call, i);
    return t ? td_get_real(t, td_numel(t) == 1 ? 0 : at) : 0;
}

static uint32_t element(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_u8 ? ((const uint8_t *)t->data)[i]
                             : (uint32_t)((const int8_t *)t->data)[i];
}

/* As of most weights. */
static bool are_zero(const struct td_tensor *zero)
{
    int64_t n = zero ? td_numel(zero) : 0, i = 0;
    while (i < n && !element(zero, i))
        i++;
    return i == n;
}

/* Adds n elements from the i-th on to as many sums, or to one. */
static void add(const struct td_tensor *t, int64_t i, int64_t n, uint32_t *sum, bool apart)
{
    const uint8_t *u = (const uint8_t *)t->data + i;
    const int8_t *v = (const int8_t *)t->data + i;
    uint32_t all = 0;
    if (t->dtype == TD_u8)
        for (int64_t j = 0; j < n; j++)
            apart ? (sum[j] += u[j]) : (all += u[j]);
    else
        for (int64_t j = 0; j < n; j++)
            apart ? (sum[j] += (uint32_t)v[j]) : (all += (uint32_t)v[j]);
    if (!apart)
        *sum = all;
}

/* td_weight_fill: the sums of the columns of all its matrices; arg: td_gemm of which it is b. */
static int add_columns(void *sums, const struct td_tensor *b, void *arg)
{
    const struct td_gemm *g = arg;
    uint32_t *sum = sums;
    for (int64_t row = 0; g->k && g->n && row < td_numel(b) / g->n; row++) {
        if (row % g->k == 0)
            memset(sum + row / g->k * g->n, 0, (size_t)g->n * sizeof *sum);
        add(b, row * g->n, g->n, sum + row / g->k * g->n, true);
    }
    return 0;
}

/* The sums of a's rows and of b's columns, of all matrices. Those of a stored b are kept. */
static void add_up(struct td_int_mm *m)
{
    struct td_gemm *g = &m->g;
    struct {
        char what[8];
        int64_t k, n;
    } key = {"sums", g->k, g->n};
    struct td_weight *weight = td_weight_to_pack(g->b);
    for (int64_t row = 0; m->of_a && g->k && row < td_numel(g->a) / g->k; row++)
        add(g->a, row * g->k, g->k, &m->of_a[row], false);
    if (!m->of_b)
        return;
    size_t bytes = (size_t)(g->k ? td_numel(g->b) / g->k : 0) * sizeof(uint32_t);
    const uint32_t *kept = weight ? td_weight_pack(weight, &key, sizeof key, "sums of columns",
                                                   bytes, add_columns, g, NULL)
                                  : NULL;
    if (!kept)
        add_columns(m->of_b, g->b, g);
    else
        m->of_b = (uint32_t *)kept;
}

struct job {
    const struct td_call *call;
    const struct td_int_mm *m;
    td_int_mm_take *take;
};

/* Takes from a row's sums what the zero points have added. */
static void take_zeros(const struct job *job, int64_t row, uint32_t *sum)
{
    const struct td_gemm *g = &job->m->g;
    const struct td_int_mm_args *args = args_of(job->call);
    const struct td_tensor *zero = arg(job->call, args->b_zero);
    int64_t a, b, i = row % job->m->rows;
    td_gemm_at(g, row / g->m, &a, &b);
    uint32_t za = (uint32_t)(int32_t)td_int_mm_number(job->call, args->a_zero, i);
    if (job->m->of_b && za)
        job->take(sum, job->m->of_b + b * g->n, za, g->n);
    if (!job->m->of_a)
        return;
    uint32_t of_a = job->m->of_a[a * g->m + row % g->m] - (uint32_t)g->k * za;
    int64_t step = td_numel(zero) > 1;
    for (int64_t j = 0; j < g->n; j++)
        sum[j] -= of_a * element(zero, j * step);
}

static void finish_row(const struct job *job, int64_t row)
{
    const struct td_int_mm_args *args = args_of(job->call);
    const struct td_tensor *out = &job->call->out[0];
    int64_t n = job->m->g.n, i = row % job->m->rows;
    uint32_t *sum = (uint32_t *)job->m->sums.data + row * n; /* which wrap */
    take_zeros(job, row, sum);
    if (args->y_zero < 0)
        return;
    float scale = (float)td_int_mm_number(job->call, args->a_scale, i);
    float y_scale = (float)td_int_mm_number(job->call, args->y_scale, 0);
    float y_zero = (float)td_int_mm_number(job->call, args->y_zero, 0);
    for (int64_t j = 0; j < n; j++)
        ((uint8_t *)out->data)[row * n + j] = (uint8_t)td_int_mm_round(
            (int32_t)sum[j], scale * (float)td_int_mm_number(job->call, args->b_scale, j) / y_scale,
            y_zero, out->dtype);
}

static void finish(void *arg, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end && !td_stopped(); row++)
        finish_row(arg, row);
}

void td_int_mm_end(const struct td_call *call, struct td_int_mm *m, td_int_mm_take *take)
{
    struct job job = {call, m, take};
    int64_t n = td_numel(&call->out[0]);
    if (!n || !(m->of_a || m->of_b || args_of(call)->y_zero >= 0))
        return;
    if (are_zero(arg(call, args_of(call)->b_zero)))
        m->of_a = NULL;
    add_up(m);
    td_parallel(call->threads, n / m->g.n, 1 + 4096 / m->g.n, finish, &job);
}

/* ---- descriptors ---- */

static const char *prepare_pairs(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = scratch_of(call, 2, 1);
    return NULL;
}

static const char *prepare_quads(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = scratch_of(call, 4, 16);
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
          PLACES(0, 1, -1, -1, -1, -1, -1, -1), "self=[n,m] mat2=[m,k]", "self=[n,n] mat2=[n,40]",
          "self=[3,n] mat2=[n,37]", "self=[200,m] mat2=[m,n]")
TD_INT_MM(matmul_integer,
          "matmul_integer(Tensor A, Tensor B, Tensor? a_zero_point=None, Tensor? "
          "b_zero_point=None) -> Tensor",
          "ONNX's MatMulInteger: out = (A - a_zero_point) x (B - b_zero_point) in INT32; zero "
          "points are one number, or one a row of A, a column of B",
          TD_MAX_RANK, PLACES(0, 1, -1, -1, -1, 2, 3, -1),
          "A=[n,m] B=[m,9] a_zero_point=[] b_zero_point=[]", "A=[2,n,5] B=[5,m] a_zero_point=[n]",
          "A=[3,1,7,n] B=[2,n,m] b_zero_point=[m]")
TD_INT_MM(qlinear_matmul,
          "qlinear_matmul(Tensor a, Tensor a_scale, Tensor a_zero_point, Tensor b, Tensor b_scale, "
          "Tensor b_zero_point, Tensor y_scale, Tensor y_zero_point) -> Tensor",
          "ONNX's QLinearMatMul: out = round(matmul_integer(a, b) * (a_scale * b_scale / y_scale)) "
          "+ y_zero_point, within its type",
          TD_MAX_RANK, PLACES(0, 3, 1, 4, 6, 2, 5, 7),
          "a=[n,m] a_scale=[]:f32 a_zero_point=[] b=[m,9] b_scale=[9]:f32 b_zero_point=[9] "
          "y_scale=[]:f32 y_zero_point=[]",
          "a=[2,n,5] a_scale=[n]:f32 a_zero_point=[n] b=[5,m] b_scale=[]:f32 b_zero_point=[] "
          "y_scale=[]:f32 y_zero_point=[]")
