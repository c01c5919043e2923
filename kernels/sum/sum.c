/* sum, over everything or over some dimensions. Integers and BOOL are summed in INT64, as in ATen;
 * where dtype is given, elements are converted to it first. */
#include "kernels/sum/sum.h"

#include "kernels/elementwise.h"

unsigned td_sum_dims(const struct td_call *call)
{
    const struct td_value *dim = &call->arg[1];
    unsigned dims = 0;
    for (int i = 0; dim->kind == TD_KIND_ints && i < dim->ints.n; i++)
        dims |= 1u << dim->ints.v[i];
    return dims ? dims : (1u << TD_MAX_RANK) - 1; /* no dimension: all of them */
}

struct td_sum_cut td_sum_cut(const struct td_reduction *r)
{
    enum { PIECE = 1 << 16, FEW = 64, PARTS = 16 };
    struct td_sum_cut cut = {.blocks = 1, .parts = 1};
    int64_t width = 1, all = r->reduced * (r->along ? r->inner : 1);
    if (!r->along) {
        cut.blocks = (r->inner + TD_SUM_COLUMNS - 1) / TD_SUM_COLUMNS;
        width = r->inner < TD_SUM_COLUMNS ? r->inner : TD_SUM_COLUMNS;
    }
    if (r->kept * cut.blocks < FEW && all * width > 2 * PIECE) {
        cut.parts = all * width / PIECE;
        if (!r->along && cut.parts > PARTS)
            cut.parts = PARTS;
    }
    cut.length = (all + cut.parts - 1) / cut.parts;
    return cut;
}

static size_t scratch(const struct td_call *call)
{
    struct td_reduction r = td_reduction(&call->arg[0].tensor, td_sum_dims(call));
    int64_t parts = td_sum_cut(&r).parts;
    return parts > 1 ? (size_t)(parts * td_numel(&call->out[0])) * sizeof(double) : 0;
}

static int finish(struct td_call *call, bool keepdim, const struct td_value *dtype)
{
    struct td_tensor *out = &call->out[0];
    td_rule_unary(call);
    td_reduced_shape(out, &call->arg[0].tensor, td_sum_dims(call), keepdim);
    if (dtype->kind != TD_KIND_dtype && td_dtype_kind(out->dtype) != 'f')
        out->dtype = TD_i64;
    return 0;
}

static int rule(struct td_call *call)
{
    return finish(call, false, &call->arg[1]);
}

static int rule_dim(struct td_call *call)
{
    int err = 0;
    if (call->arg[1].kind == TD_KIND_ints)
        err = td_rule_dims(call, 1, "dim", call->arg[0].tensor.rank);
    return err ? err : finish(call, call->arg[2].i, &call->arg[3]);
}

static bool same_type(const struct td_call *call)
{
    return call->out[0].dtype == call->arg[0].tensor.dtype;
}

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->arg[0].tensor);
}

td_kernel td_sum_ref;
TD_KERNELS_3(sum);

static const struct td_impl impls[] = {
    TD_SIMD_3(sum, TD_f32 | TD_i64, .accepts = same_type, .scratch = scratch) TD_REF(sum),
    {0},
};

const struct td_op td_op_sum = {
    .schema = "sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
    .doc = "out = the sum of all elements",
    .rule = rule,
    .casts = true,
    .dtypes = TD_ALL,
    .ulp = 8,
    .sums = true,
    .impls = impls,
    .samples =
        (const char *const[]){"self=[n]", "self=[3,n]", "self=[]", "self=[7,n] dtype=FP64", NULL},
    .flops = flops,
};

const struct td_op td_op_sum_dim_IntList = {
    .schema = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, "
              "ScalarType? dtype=None) -> Tensor",
    .doc = "out = the sum along the dimensions in dim, along all when there are none",
    .rule = rule_dim,
    .casts = true,
    .dtypes = TD_ALL,
    .ulp = 8,
    .sums = true,
    .impls = impls,
    .samples = (const char *const[]){"self=[7,n] dim=[1]", "self=[n,7] dim=[0]",
                                     "self=[2,n,3,5] dim=[1,3]",
                                     "self=[n,3,m] dim=[0,2] keepdim=True", "self=[2,m,n] dim=[-2]",
                                     "self=[n,2] dim=[] keepdim=True", "self=[] dim=[-1]", NULL},
    .flops = flops,
};
