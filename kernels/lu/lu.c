/* LU factors of matrices of any shape, P L U = A with rows exchanged as the largest element of each
 * column asks, and the parts of such factors. As in linear algebra (kernels/linalg), all is
 * computed in FP64, and what has no inverse is told by info. */
#include "kernels/lu/lu.h"

#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

struct td_lu td_lu_of(const struct td_call *call)
{
    const struct td_tensor *a = &call->arg[0].tensor;
    int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], count = 1;
    for (int d = 0; d < a->rank - 2; d++)
        count *= a->shape[d];
    return (struct td_lu){
        *(const enum td_lu_kind *)call->op->family, a, m, n, m < n ? m : n, count};
}

/* ---- rules ---- */

/* A result like a, of these last sizes; n below 0: none of columns. */
static void add_result(struct td_call *call, int64_t m, int64_t n, enum td_dtype dtype)
{
    const struct td_tensor *a = &call->arg[0].tensor;
    struct td_tensor *out = &call->out[call->n_out++];
    *out = (struct td_tensor){.dtype = dtype, .rank = a->rank - 2};
    memcpy(out->shape, a->shape, sizeof out->shape);
    if (m >= 0)
        out->shape[out->rank++] = m;
    if (n >= 0)
        out->shape[out->rank++] = n;
}

/* What was not asked for has no elements. */
static void add_part(struct td_call *call, bool wanted, int64_t m, int64_t n)
{
    enum td_dtype dtype = call->arg[0].tensor.dtype;
    if (wanted)
        add_result(call, m, n, dtype);
    else
        call->out[call->n_out++] = (struct td_tensor){.dtype = dtype, .rank = 1};
}

static int rule_matrices(struct td_call *call, const char *name)
{
    const struct td_tensor *a = &call->arg[0].tensor;
    call->n_out = 0;
    return a->rank < 2
               ? td_refuse(call, "%s: has %d dimensions; two or more are right", name, a->rank)
               : 0;
}

static int rule(struct td_call *call)
{
    int err = rule_matrices(call, "A");
    if (err)
        return err;
    struct td_lu l = td_lu_of(call);
    if (!call->arg[1].i)
        return td_refuse(call, "pivot: true alone is right on CPUs");
    if (l.kind == TD_LU_factor && call->arg[2].i)
        return td_refuse(call, "check_errors: false alone is right: info says what is wrong");
    add_result(call, l.m, l.kind == TD_LU_factor ? l.n : l.m, l.a->dtype);
    if (l.kind == TD_LU_parts) {
        add_result(call, l.m, l.less, l.a->dtype);
        add_result(call, l.less, l.n, l.a->dtype);
    } else {
        add_result(call, l.less, -1, TD_i32);
        add_result(call, -1, -1, TD_i32);
    }
    return 0;
}

/* Pivots that are not asked for are not looked at. */
static int rule_unpack(struct td_call *call)
{
    const struct td_tensor *pivots = &call->arg[1].tensor;
    int err = rule_matrices(call, "LU_data");
    if (err)
        return err;
    struct td_lu l = td_lu_of(call);
    bool data = call->arg[2].i, rows = call->arg[3].i, like = pivots->rank == l.a->rank - 1;
    for (int d = 0; like && d < pivots->rank - 1; d++)
        like = pivots->shape[d] == l.a->shape[d];
    if (rows && (!like || pivots->shape[pivots->rank - 1] != l.less))
        return td_refuse(call, "LU_pivots: %lld for each matrix of LU_data are right",
                         (long long)l.less);
    add_part(call, rows, l.m, l.m);
    add_part(call, data, l.m, l.less);
    add_part(call, data, l.less, l.n);
    return 0;
}

static int check(const struct td_call *call)
{
    const struct td_tensor *pivots = &call->arg[1].tensor;
    struct td_lu l = td_lu_of(call);
    int64_t n = call->arg[3].i ? td_numel(pivots) : 0;
    for (int64_t i = 0; i < n; i++) {
        int32_t pivot = ((const int32_t *)pivots->data)[i];
        if (pivot < 1 || pivot > l.m)
            return td_refuse(call, "LU_pivots: has %d; from 1 to %lld is right", (int)pivot,
                             (long long)l.m);
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    struct td_lu l = td_lu_of(call);
    double m = (double)l.m, n = (double)l.n, less = (double)l.less;
    double whole = l.kind == TD_LU_unpack ? 0 : 2 * m * n * less;
    return (double)l.count * (whole + m * n + (l.kind == TD_LU_factor ? 0 : m * m));
}

/* A matrix, its pivots, and where each row came from. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_lu l = td_lu_of(call);
    int64_t elements, doubles, bytes;
    bool fits = l.m <= INT32_MAX && td_size_times(l.m, l.n, &elements) &&
                td_size_plus(elements, 2 * l.m, &doubles) && td_size_times(doubles, 8, &bytes);
    prepared->scratch = fits ? (size_t)bytes + 64 : 0;
    return fits ? NULL : "its matrices are too large";
}

td_kernel td_lu_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_lu_ref, .dtypes = TD_f32 | TD_f64, .prepare = prepare},
    {0},
};

#define FAMILY(what)                                                                               \
    &(const enum td_lu_kind)                                                                       \
    {                                                                                              \
        TD_LU_##what                                                                               \
    }

const struct td_op td_op_linalg_lu_factor_ex = {
    .schema = "linalg_lu_factor_ex(Tensor A, *, bool pivot=True, bool check_errors=False) -> "
              "(Tensor LU, Tensor pivots, Tensor info)",
    .doc = "LU: L below its diagonal of ones, and U, of P L U = A; pivots: with which row each was "
           "exchanged, from 1 on; info: 0, or the number of the first pivot that is 0",
    .rule = rule,
    .dtypes = TD_f32 | TD_f64,
    .impls = impls,
    .flops = flops,
    .family = FAMILY(factor),
    .samples = (const char *const[]){"A=[n,n]", "A=[3,m,5]", "A=[5,m]", NULL},
};

const struct td_op td_op_linalg_lu = {
    .schema = "linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)",
    .doc =
        "P L U = A: P exchanges rows, L is a lower triangle with ones on its diagonal, U an upper "
        "one",
    .rule = rule,
    .dtypes = TD_f32 | TD_f64,
    .impls = impls,
    .flops = flops,
    .family = FAMILY(parts),
    .samples = (const char *const[]){"A=[n,n]", "A=[3,m,5]", "A=[5,m]", NULL},
};

const struct td_op td_op_lu_unpack = {
    .schema = "lu_unpack(Tensor LU_data, Tensor LU_pivots, bool unpack_data=True, bool "
              "unpack_pivots=True) -> (Tensor P, Tensor L, Tensor U)",
    .doc =
        "P, L and U of what linalg_lu_factor_ex gives; unpack_pivots, unpack_data: whether P, and "
        "L and U, are wanted",
    .rule = rule_unpack,
    .int32 = 2,
    .dtypes = TD_f32 | TD_f64,
    .impls = impls,
    .flops = flops,
    .follows = 2,
    .check = check,
    .family = FAMILY(unpack),
    .samples =
        (const char *const[]){
            "LU_data=[n,n] LU_pivots=[n]:i32<n unpack_data=True unpack_pivots=False",
            "LU_data=[3,5,2] LU_pivots=[3,2]:i32<5 unpack_data=True unpack_pivots=False",
            "LU_data=[2,3] LU_pivots=[2]:i32<2 unpack_data=True unpack_pivots=False", NULL},
};
