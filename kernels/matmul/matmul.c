/* matmul: ATen's, for every rank. Vectors count as a row (self) or a column (other), and batch
 * dimensions broadcast. When other is one matrix, self's whole batch is one tall matrix. */
#include "kernels/gemm/gemm.h"
#include "kernels/onednn.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    struct td_tensor *out = &call->out[0];
    if (a->dtype != b->dtype)
        return td_refuse(call, "other: is %s, self is %s; both must be of one type",
                         td_dtype_name(b->dtype), td_dtype_name(a->dtype));
    if (!a->rank || !b->rank)
        return td_refuse(call,
                         "%s: is a single number; a matrix product needs a rank of at least 1",
                         a->rank ? "other" : "self");
    int64_t k = a->shape[a->rank - 1], b_k = b->shape[b->rank > 1 ? b->rank - 2 : 0];
    if (k != b_k)
        return td_refuse(call,
                         "other: has %lld rows, self has %lld columns; they must be equal "
                         "(self [.., m, k] times other [.., k, n])",
                         (long long)b_k, (long long)k);
    int batch_a = a->rank > 2 ? a->rank - 2 : 0, batch_b = b->rank > 2 ? b->rank - 2 : 0;
    int rank = batch_a > batch_b ? batch_a : batch_b;
    *out = (struct td_tensor){.dtype = a->dtype};
    for (int d = 0; d < rank; d++) {
        int at_a = d - (rank - batch_a), at_b = d - (rank - batch_b);
        int64_t size_a = at_a >= 0 ? a->shape[at_a] : 1, size_b = at_b >= 0 ? b->shape[at_b] : 1;
        if (size_a != size_b && size_a != 1 && size_b != 1)
            return td_refuse(call,
                             "other: batch dimension %d is %lld, self's is %lld; equal sizes or 1 "
                             "are right",
                             at_b, (long long)size_b, (long long)size_a);
        out->shape[d] = size_a == 1 ? size_b : size_a;
    }
    if (a->rank > 1)
        out->shape[rank++] = a->shape[a->rank - 2];
    if (b->rank > 1)
        out->shape[rank++] = b->shape[b->rank - 1];
    out->rank = rank;
    call->n_out = 1;
    return 0;
}

void td_matmul_gemm(const struct td_call *call, struct td_gemm *g)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
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
}

static double flops(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return 2.0 * (double)td_numel(g.out) * (double)g.k;
}

static size_t scratch(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_scratch(&g);
}

static bool packs(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_packs(&g);
}

static size_t scratch_pairs(const struct td_call *call)
{
    struct td_gemm g;
    td_matmul_gemm(call, &g);
    return td_gemm_scratch_pairs(&g);
}

td_kernel td_matmul_ref, td_matmul_amx, td_matmul_avx512_bf16;
TD_KERNELS_3(matmul);
TD_ONEDNN_ROW(matmul);

static const struct td_impl impls[] = {
    /* FP32: level with oneDNN's AVX2 code or ahead of it at all sizes. */
    TD_SIMD_3(matmul, TD_f32, .scratch = scratch)
    /* BF16: the library is ahead wherever it has it at all, with AVX-512 or AMX. */
    TD_ONEDNN(matmul, TD_f32 | TD_bf16 | TD_f16),
    TD_AMX(matmul, TD_bf16, .scratch = scratch_pairs, .accepts = packs)
        TD_SIMD(avx512_bf16, matmul, TD_bf16, .scratch = scratch_pairs, .accepts = packs)
            TD_SIMD_3(matmul, TD_bf16, .scratch = scratch)
    /* All the rest. */
    TD_REF(matmul),
    {0},
};

const struct td_op td_op_matmul = {
    .schema = "matmul(Tensor self, Tensor other) -> Tensor",
    .doc = "out[.., i, j] = sum over p of self[.., i, p] * other[.., p, j]",
    .rule = rule,
    .dtypes = TD_INTS | TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"self=[n,m] other=[m,n]", "self=[n,m] other=[m,33]",
                                     "self=[7,n] other=[n,m]", "self=[n] other=[n]",
                                     "self=[2,n] other=[n,3]", "self=[20,n] other=[n,33]",
                                     "self=[n,m] other=[m]", "self=[n] other=[n,m]",
                                     "self=[2,n,m] other=[m,17]", "self=[3,m,n] other=[3,n,20]",
                                     "self=[2,1,n,8] other=[3,8,m]", NULL},
    .flops = flops,
};
