/* pairwise_coupling: the probabilities of classes that each two of them are compared for, as
 * support vector machines are; by T.-F. Wu, C.-J. Lin and R. Weng's second way, as LIBSVM and ONNX
 * Runtime take its steps: in FP32, a hundred at most. */
#include "kernels/kernels.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    const struct td_tensor *pairs = &call->arg[0].tensor;
    int64_t k = call->arg[1].i;
    if (k < 2 || k > 4096)
        return td_refuse(call, "classes: is %lld; from 2 to 4096 is right", (long long)k);
    if (pairs->rank != 2 || pairs->shape[1] != k * (k - 1) / 2)
        return td_refuse(call,
                         "pairs: must be of shape [n, %lld], one for each two of %lld "
                         "classes",
                         (long long)(k * (k - 1) / 2), (long long)k);
    call->out[0] = (struct td_tensor){.dtype = TD_f32, .rank = 2, .shape = {pairs->shape[0], k}};
    call->n_out = 1;
    return 0;
}

/* Of a row: k by k, and k. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    size_t k = (size_t)call->arg[1].i;
    prepared->scratch = (2 * k * k + k) * sizeof(float);
    return NULL;
}

static double flops(const struct td_call *call)
{
    double k = (double)call->arg[1].i;
    return 200 * k * k * (double)call->arg[0].tensor.shape[0];
}

td_kernel td_couple_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_couple_ref, .dtypes = TD_f32, .prepare = prepare},
    {0},
};

const struct td_op td_op_pairwise_coupling = {
    .schema = "pairwise_coupling(Tensor pairs, int classes) -> Tensor",
    .doc = "p of each row, the sum of which is 1, that makes the sum of (r_ji p_i - r_ij p_j)^2 "
           "small, where r_ij stands in pairs in the order 01 02 .. 12 13 .., and r_ji = 1 - r_ij",
    .rule = rule,
    .dtypes = TD_f32,
    .ulp = 32,
    .impls = impls,
    .flops = flops,
    .samples = (const char *const[]){"pairs=[n,1] classes=2", "pairs=[n,6] classes=4", NULL},
};
