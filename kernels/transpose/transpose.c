/* transpose and permute: one kernel, since swapping two dimensions is a permutation of all. A copy
 * is made: tensors here are dense. */
#include "kernels/dims.h"
#include "kernels/elementwise.h"

#include <errno.h>

static int rule_transpose(struct td_call *call)
{
    td_rule_unary(call);
    struct td_tensor *out = &call->out[0];
    int err = td_rule_dim(call, 1, "dim0", out->rank);
    if (!err)
        err = td_rule_dim(call, 2, "dim1", out->rank);
    if (!err && out->rank) {
        out->shape[call->arg[1].i] = call->arg[0].tensor.shape[call->arg[2].i];
        out->shape[call->arg[2].i] = call->arg[0].tensor.shape[call->arg[1].i];
    }
    return err;
}

static int rule_permute(struct td_call *call)
{
    td_rule_unary(call);
    struct td_tensor *out = &call->out[0];
    if (call->arg[1].ints.n != out->rank)
        return td_refuse(call, "dims: has %d entries; one for each dimension of self, %d, is right",
                         call->arg[1].ints.n, out->rank);
    int err = td_rule_dims(call, 1, "dims", out->rank);
    for (int d = 0; !err && d < out->rank; d++)
        out->shape[d] = call->arg[0].tensor.shape[call->arg[1].ints.v[d]];
    return err;
}

static double flops(const struct td_call *call)
{
    (void)call;
    return 0;
}

td_kernel td_transpose_ref, td_permute_ref;
TD_KERNELS_3(transpose);
TD_KERNELS_3(permute);

static const struct td_impl impls[] = {
    TD_SIMD_3(transpose, TD_ALL) TD_REF(transpose),
    {0},
};

const struct td_op td_op_transpose_int = {
    .schema = "transpose.int(Tensor self, int dim0, int dim1) -> Tensor",
    .doc = "out[.., i, .., j, ..] = self[.., j, .., i, ..], i and j at dim0 and dim1",
    .rule = rule_transpose,
    .dtypes = TD_ALL,
    .impls = impls,
    .samples = (const char *const[]){"self=[n,m] dim0=0 dim1=1", "self=[2,n,17] dim0=-1 dim1=-2",
                                     "self=[n,3,m] dim0=0 dim1=2", "self=[n,5,4] dim0=0 dim1=1",
                                     "self=[] dim0=0 dim1=-1", NULL},
    .flops = flops,
};

static const struct td_impl impls_permute[] = {
    TD_SIMD_3(permute, TD_ALL) TD_REF(permute),
    {0},
};

const struct td_op td_op_permute = {
    .schema = "permute(Tensor self, int[] dims) -> Tensor",
    .doc = "out's dimension i is self's dimension dims[i]",
    .rule = rule_permute,
    .dtypes = TD_ALL,
    .impls = impls_permute,
    .samples = (const char *const[]){"self=[2,n,m] dims=[0,2,1]", "self=[2,n,5] dims=[2,0,1]",
                                     "self=[2,3,n,4] dims=[3,1,0,2]", "self=[n,3,4] dims=[-2,0,2]",
                                     "self=[] dims=[]", "self=[n] dims=[0]", NULL},
    .flops = flops,
};
