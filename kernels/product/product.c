/* matmul for every rank, and the products of ATen that are it with fixed ranks or with something
 * added. Vectors count as a row (a) or a column (b), and batch dimensions broadcast. When b is one
 * matrix, a's whole batch is one tall matrix. */
#include "kernels/product/product.h"
#include "kernels/cut.h"
#include "kernels/onednn/onednn.h"
#include "kernels/weight.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* ---- rules ---- */

struct names {
    char a[16], b[16];
};

static struct names names_of(const struct td_call *call)
{
    struct names names = {{0}};
    const char *both = td_product_of(call)->names;
    size_t n = strcspn(both, " ");
    memcpy(names.a, both, n);
    strcpy(names.b, both + n + 1);
    return names;
}

static int check_rank(struct td_call *call, const struct td_tensor *t, int rank, const char *name)
{
    static const char *const kinds[] = {"a vector", "a matrix", "a batch of matrices"};
    if (rank && t->rank != rank)
        return td_refuse(call, "%s: is of rank %d; %s, of rank %d, is right", name, t->rank,
                         kinds[rank - 1], rank);
    if (!t->rank)
        return td_refuse(
            call, "%s: is a single number; a matrix product needs a rank of at least 1", name);
    return 0;
}

/* The batch dimensions of both, broadcast, into out; how many. Products of fixed rank do not
 * broadcast. Negative when they do not go together. */
static int join_batches(struct td_call *call, const struct td_tensor *a, const struct td_tensor *b)
{
    int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    int rank = batch_a > batch_b ? batch_a : batch_b;
    bool any = !td_product_of(call)->rank_a;
    for (int d = 0; d < rank; d++) {
        int at_a = d - (rank - batch_a), at_b = d - (rank - batch_b);
        int64_t size_a = at_a >= 0 ? a->shape[at_a] : 1, size_b = at_b >= 0 ? b->shape[at_b] : 1;
        if (size_a != size_b && (!any || (size_a != 1 && size_b != 1))) {
            struct names names = names_of(call);
            return td_refuse(call, "%s: batch dimension %d is %lld, %s's is %lld; %s right",
                             names.b, at_b, (long long)size_b, names.a, (long long)size_a,
                             any ? "equal sizes or 1 are" : "the same is");
        }
        call->out[0].shape[d] = size_a == 1 ? size_b : size_a;
    }
    return rank;
}

static int judge_factors(struct td_call *call)
{
    const struct td_product *family = td_product_of(call);
    const struct td_tensor *a = &call->arg[family->a].tensor, *b = &call->arg[family->b].tensor;
    struct td_tensor *out = &call->out[0];
    struct names names = names_of(call);
    if (a->dtype != b->dtype)
        return td_refuse(call, "%s: is %s, %s is %s; both must be of one type", names.b,
                         td_dtype_name(b->dtype), names.a, td_dtype_name(a->dtype));
    int err = check_rank(call, a, family->rank_a, names.a);
    err = err ? err : check_rank(call, b, family->rank_b, names.b);
    if (err)
        return err;
    int64_t k = a->shape[a->rank - 1], b_k = b->shape[b->rank > 1 ? b->rank - 2 : 0];
    if (k != b_k)
        return td_refuse(call,
                         "%s: has %lld rows, %s has %lld columns; they must be equal "
                         "(%s [.., m, k] times %s [.., k, n])",
                         names.b, (long long)b_k, names.a, (long long)k, names.a, names.b);
    *out = (struct td_tensor){.dtype = a->dtype};
    int rank = join_batches(call, a, b);
    if (rank < 0)
        return rank;
    if (a->rank > 1)
        out->shape[rank++] = a->shape[a->rank - 2];
    if (b->rank > 1)
        out->shape[rank++] = b->shape[b->rank - 1];
    out->rank = rank;
    call->n_out = 1;
    return 0;
}

/* What is added is of the product's type and broadcasts to its shape. */
static int judge_added(struct td_call *call)
{
    const struct td_product *family = td_product_of(call);
    const struct td_tensor *add = &call->arg[family->add].tensor, *out = &call->out[0];
    if (add->dtype != out->dtype)
        return td_refuse(call, "self: is %s, the factors are %s; all must be of one type",
                         td_dtype_name(add->dtype), td_dtype_name(out->dtype));
    if (add->rank > out->rank)
        return td_refuse(call,
                         "self: has %d dimensions, the product has %d; at most as many are right",
                         add->rank, out->rank);
    for (int d = 1; d <= add->rank; d++)
        if (add->shape[add->rank - d] != 1 &&
            add->shape[add->rank - d] != out->shape[out->rank - d])
            return td_refuse(
                call, "self: dimension %d is %lld, the product's is %lld; as many or 1 is right",
                add->rank - d, (long long)add->shape[add->rank - d],
                (long long)out->shape[out->rank - d]);
    int err = 0;
    for (int i = family->beta; !err && i <= family->alpha && td_dtype_kind(out->dtype) != 'f'; i++)
        err = td_rule_cut(call, &call->arg[i], i == family->beta ? "beta" : "alpha");
    return err;
}

static int rule(struct td_call *call)
{
    int err = judge_factors(call);
    return err || td_product_of(call)->add < 0 ? err : judge_added(call);
}

static int rule_outer(struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    int err = check_rank(call, a, 1, "self");
    err = err ? err : check_rank(call, b, 1, "vec2");
    assert(err || a->dtype == b->dtype); /* they were promoted */
    call->out[0] = (struct td_tensor){
        .dtype = a->dtype, .rank = 2, .shape = {a->shape[0], err ? 0 : b->shape[0]}};
    call->n_out = 1;
    return err;
}

/* ---- what is computed ---- */

/* The step of what is added along a dimension of the result, counted from its end; 0: it is the
 * same all along. */
static int64_t step_of(const struct td_tensor *add, int from_end)
{
    int64_t step = 1;
    for (int d = 1; d < from_end && d <= add->rank; d++)
        step *= add->shape[add->rank - d];
    return from_end <= add->rank && add->shape[add->rank - from_end] > 1 ? step : 0;
}

static void set_added(const struct td_call *call, struct td_gemm *g)
{
    const struct td_product *family = td_product_of(call);
    int column = g->out->rank - (family->rank_a == 3);
    g->bias = &call->arg[family->add].tensor;
    g->bias_j = column > 1 ? step_of(g->bias, 1) : 0;
    g->bias_i = step_of(g->bias, column > 1 ? 2 : 1);
    g->bias_batch = step_of(g->bias, 3);
    g->has_bias[0] = g->bias_batch > 0;
    g->scaled = true;
    g->beta = td_scalar(&call->arg[family->beta]);
    g->alpha = td_scalar(&call->arg[family->alpha]);
    g->whole_beta = td_scalar_int(&call->arg[family->beta]);
    g->whole_alpha = td_scalar_int(&call->arg[family->alpha]);
    if (g->beta == 0) /* nothing of it is looked at, not even NaN */
        g->bias = NULL;
}

static void gemm(const struct td_call *call, struct td_gemm *g)
{
    const struct td_product *family = td_product_of(call);
    const struct td_tensor *a = &call->arg[family->a].tensor, *b = &call->arg[family->b].tensor;
    *g = (struct td_gemm){.a = a, .b = b, .out = &call->out[0], .threads = call->threads};
    g->m = a->rank > 1 ? a->shape[a->rank - 2] : 1;
    g->k = a->shape[a->rank - 1];
    g->n = b->rank > 1 ? b->shape[b->rank - 1] : 1;
    g->step_k = g->n;
    g->step_n = g->n == 1 ? g->k : 1; /* a column is as well a row of the transposed matrix */
    int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    int rank = batch_a > batch_b ? batch_a : batch_b;
    bool one_b = true;
    for (int d = 0; d < rank; d++) {
        int at_a = d - (rank - batch_a), at_b = d - (rank - batch_b);
        g->batch[d] = g->out->shape[d];
        g->has_a[d] = at_a >= 0 && a->shape[at_a] == g->batch[d];
        g->has_b[d] = at_b >= 0 && b->shape[at_b] == g->batch[d];
        one_b = one_b && (at_b < 0 || b->shape[at_b] == 1);
    }
    if (one_b)
        g->m *= td_numel(g->out) ? td_numel(g->out) / (g->m * g->n) : 0;
    g->rank = one_b ? 0 : rank;
    if (family->add >= 0)
        set_added(call, g);
}

static void gemm_outer(const struct td_call *call, struct td_gemm *g)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    *g = (struct td_gemm){.a = a, .b = b, .out = &call->out[0], .threads = call->threads};
    g->m = a->shape[0];
    g->n = g->step_k = b->shape[0];
    g->k = g->step_n = 1;
}

void td_product_gemm(const struct td_call *call, struct td_gemm *g)
{
    td_product_of(call)->gemm(call, g);
}

double td_product_flops(const struct td_call *call)
{
    struct td_gemm g;
    td_product_gemm(call, &g);
    return (double)td_numel(g.out) * (2.0 * (double)g.k + (g.scaled ? 2 : 0));
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    prepared->dense = !g.strided;
    prepared->scratch = td_gemm_scratch(&g);
    return NULL;
}

/* In FP32 a product with one matrix takes the library 0.7 to 4 times what it takes ours, 1.1 times
 * in the mean of 70 (Intel with AMX). */
static const char *prepare_f32(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    prepared->leads = !g.rank && call->op->flops(call) <= TD_BRIEF_FLOPS;
    return prepare(call, prepared);
}

static const char *prepare_any(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    prepared->dense = !g.strided;
    prepared->scratch = td_gemm_scratch_any(&g);
    return NULL;
}

static const char *prepare_pairs(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_gemm g;
    td_product_strided(call, &g, false);
    if (!td_gemm_packs(&g))
        return "it has too few rows for packing to pay";
    prepared->dense = !g.strided;
    prepared->scratch = td_gemm_scratch_pairs(&g);
    return NULL;
}

td_kernel td_product_ref, td_product_amx, td_product_avx512_bf16;
TD_KERNELS_3(product);
TD_KERNELS_3(product_any);
TD_ONEDNN_ROW(product);

/* clang-format off */
/* FP32: ours first. BF16: the library is ahead wherever it has it at all, with AVX-512 or AMX. */
#define LIBRARY_ROWS                                                                               \
    TD_SIMD_3(product, TD_f32, .prepare = prepare_f32, .strided = true)                            \
    TD_ONEDNN(product, TD_f32 | TD_bf16 | TD_f16, .strided = true)
#define OTHER_ROWS                                                                                 \
    TD_SIMD_3(product, TD_bf16 | TD_f16, .prepare = prepare, .strided = true)                      \
    TD_SIMD_3(product_any, TD_f64 | TD_INTS, .prepare = prepare_any, .strided = true)              \
    TD_REF(product), {0},
const struct td_impl td_product_impls[] = {
    LIBRARY_ROWS
    TD_AMX(product, TD_bf16, .prepare = prepare_pairs, .strided = true)
    TD_SIMD(avx512_bf16, product, TD_bf16, .prepare = prepare_pairs, .strided = true)
    OTHER_ROWS
};
static const struct td_impl vector_impls[] = {LIBRARY_ROWS OTHER_ROWS}; /* nothing is packed */
const struct td_impl td_product_scaled_impls[] = {
    TD_SIMD_3(product, TD_f32, .prepare = prepare)
    TD_REF(product), {0},
};
/* clang-format on */

#define PROMOTE_gemm TD_PROMOTE_none
#define PROMOTE_gemm_outer TD_PROMOTE_arith
#define TD_PRODUCT(symbol, text, formula, judge, how, A, B, ADD, BETA, ALPHA, RANK_A, RANK_B,      \
                   words, ...)                                                                     \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = judge,                                                                             \
        .promote = PROMOTE_##how,                                                                  \
        .dtypes = TD_INTS | TD_FLOATS,                                                             \
        .ulp = 24,                                                                                 \
        .sums = true,                                                                              \
        .impls = RANK_A == 1 ? vector_impls : td_product_impls,                                    \
        .family = &(const struct td_product){how, A, B, ADD, BETA, ALPHA, RANK_A, RANK_B, words},  \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = td_product_flops,                                                                 \
    };
#include "kernels/product/product.def"
