/* _int_mm: ATen's product of 8-bit integers, here for either signedness on each side. */
#include "kernels/int_mm/int_mm.h"
#include "kernels/gemm/gemm.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    if (a->rank != 2 || b->rank != 2)
        return td_refuse(call, "%s: is of rank %d; both must be matrices, of rank 2",
                         a->rank == 2 ? "mat2" : "self", a->rank == 2 ? b->rank : a->rank);
    if (!(b->dtype & (TD_i8 | TD_u8)))
        return td_refuse(call, "mat2: is %s; INT8 and UINT8 are right", td_dtype_name(b->dtype));
    if (a->shape[1] != b->shape[0])
        return td_refuse(call, "mat2: has %lld rows, self has %lld columns; they must be equal",
                         (long long)b->shape[0], (long long)a->shape[1]);
    call->out[0] =
        (struct td_tensor){.dtype = TD_i32, .rank = 2, .shape = {a->shape[0], b->shape[1]}};
    call->n_out = 1;
    return 0;
}

void td_int_mm_gemm(const struct td_call *call, struct td_gemm *g, int group, int pad)
{
    const struct td_tensor *a = &call->arg[0].tensor, *b = &call->arg[1].tensor;
    *g = (struct td_gemm){.a = a, .b = b, .out = &call->out[0], .threads = call->threads};
    g->m = a->shape[0];
    g->k = a->shape[1];
    g->n = g->step_k = b->shape[1];
    g->step_n = 1;
    g->group = group;
    g->pad = pad;
}

static size_t scratch_pairs(const struct td_call *call)
{
    struct td_gemm g;
    td_int_mm_gemm(call, &g, 2, 1);
    return td_gemm_scratch(&g);
}

static size_t scratch_quads(const struct td_call *call)
{
    struct td_gemm g;
    td_int_mm_gemm(call, &g, 4, 16);
    return td_gemm_scratch(&g);
}

static double flops(const struct td_call *call)
{
    return 2.0 * (double)td_numel(&call->out[0]) * (double)call->arg[0].tensor.shape[1];
}

td_kernel td_int_mm_ref, td_int_mm_amx, td_int_mm_avx512_vnni, td_int_mm_avx2_vnni;
TD_KERNELS_3(int_mm);

#define TYPES TD_i8 | TD_u8

static const struct td_impl impls[] = {
    TD_AMX(int_mm, TYPES, .scratch = scratch_quads)
        TD_SIMD(avx512_vnni, int_mm, TYPES, .scratch = scratch_quads)
            TD_SIMD(avx2_vnni, int_mm, TYPES, .scratch = scratch_quads)
                TD_SIMD_3(int_mm, TYPES, .scratch = scratch_pairs) TD_REF(int_mm),
    {0},
};

const struct td_op td_op_int_mm = {
    .schema = "_int_mm(Tensor self, Tensor mat2) -> Tensor",
    .doc = "out[i, j] = sum over p of self[i, p] * mat2[p, j], in INT32, which wraps",
    .rule = rule,
    .dtypes = TYPES,
    .impls = impls,
    .samples = (const char *const[]){"self=[n,m] mat2=[m,k]", "self=[n,n] mat2=[n,40]",
                                     "self=[3,n] mat2=[n,37]", "self=[200,m] mat2=[m,n]", NULL},
    .flops = flops,
};
