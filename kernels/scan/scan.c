/* The descriptors of the scans, made from scan.def, and the rule that they share. */
#include "kernels/scan/scan.h"

#include "kernels/elementwise.h"

static int rule(struct td_call *call)
{
    enum td_scan scan = td_scan_of(call);
    bool totals = scan == TD_SCAN_sum || scan == TD_SCAN_prod;
    td_rule_unary(call);
    if (totals && call->arg[2].kind != TD_KIND_dtype && td_dtype_kind(call->out[0].dtype) != 'f')
        call->out[0].dtype = TD_i64;
    if (scan >= TD_SCAN_FIRST_PICK) {
        call->out[1] = call->out[0];
        call->out[1].dtype = TD_i64;
        call->n_out = 2;
    }
    return td_rule_dim(call, 1, "dim", call->out[0].rank);
}

static double flops(const struct td_call *call)
{
    static const int costs[TD_SCANS] = {
#define TD_SCAN_STEP(id, cost, ...) cost,
#define TD_SCAN_PICK(...) 3,
#include "kernels/scan/scan.def"
    };
    return costs[td_scan_of(call)] * (double)td_numel(&call->out[0]);
}

td_kernel td_scan_ref;
TD_KERNELS_3(scan);

/* clang-format off */
static const struct td_impl rows_all[] = {
    TD_SIMD_3(scan, TD_ALL & ~TD_UINTS, .in_place = 1) TD_REF(scan), {0}};
static const struct td_impl rows_real[] = {TD_SIMD_3(scan, TD_FLOATS, .in_place = 1) TD_REF(scan), {0}};
/* clang-format on */

#define TD_SCANNED(symbol, id, text, formula, promotion, types, bound, scale, ...)                 \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = "out = " formula,                                                                   \
        .rule = rule,                                                                              \
        .promote = TD_PROMOTE_##promotion,                                                         \
        .casts = true,                                                                             \
        .dtypes = types,                                                                           \
        .ulp = bound,                                                                              \
        .sums = scale,                                                                             \
        .impls = (types) == TD_ALL ? rows_all : rows_real,                                         \
        .family = &(const enum td_scan){TD_SCAN_##id},                                             \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/scan/scan.def"
