/* The descriptors of pads and of resampling to the nearest element, made from pick.def, and the
 * rules that judge paddings. */
#include "kernels/pick/pick.h"
#include "kernels/upsample.h"

#include <errno.h>
#include <string.h>

static const char *const modes[] = {[TD_PICK_constant] = "constant",
                                    [TD_PICK_reflect] = "reflect",
                                    [TD_PICK_replicate] = "replicate",
                                    [TD_PICK_circular] = "circular"};

/* How the call picks; TD_PICK_by_mode when there is no such mode. */
static enum td_pick_how how_of(const struct td_call *call)
{
    const struct td_pick *family = call->op->family;
    enum td_pick_how how = 0;
    if (family->how != TD_PICK_by_mode)
        return family->how;
    while (how < TD_PICK_by_mode && strcmp(call->arg[2].str, modes[how]))
        how++;
    return how;
}

/* ---- pads ---- */

/* Elements before dimension d of rank, and behind it. */
static void padding_of(const struct td_call *call, int rank, int d, int64_t *before,
                       int64_t *behind)
{
    const struct td_value *pad = &call->arg[1];
    int at = 2 * (rank - 1 - d);
    *before = at < pad->ints.n ? pad->ints.v[at] : 0;
    *behind = at < pad->ints.n ? pad->ints.v[at + 1] : 0;
}

static const char *name_of(const struct td_call *call)
{
    return strstr(call->op->schema, " padding)") ? "padding" : "pad";
}

/* One dimension that is not filled: what it is continued with has to be there. */
static int rule_continued(struct td_call *call, enum td_pick_how how, int d, int64_t in,
                          int64_t before, int64_t behind)
{
    int64_t more = before > behind ? before : behind, cut = 0;
    cut += before < 0 ? -before : 0;
    cut += behind < 0 ? -behind : 0;
    if (how == TD_PICK_reflect && more > 0 && more >= in)
        return td_refuse(call, "%s: is %lld at dimension %d of %lld; less than that is right",
                         name_of(call), (long long)more, d, (long long)in);
    if (how == TD_PICK_circular && more > in - cut)
        return td_refuse(call,
                         "%s: is %lld at dimension %d, where %lld come around; up to that is "
                         "right",
                         name_of(call), (long long)more, d, (long long)(in - cut));
    return 0;
}

static int rule_lengths(struct td_call *call, enum td_pick_how how)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    int n = call->arg[1].ints.n, dims = n / 2;
    if (n % 2 || dims > in->rank)
        return td_refuse(call, "%s: has %d entries; two for each of up to %d dimensions are right",
                         name_of(call), n, in->rank);
    if (how == TD_PICK_constant)
        return 0;
    if (dims < 1 || dims > 3 || (in->rank != dims + 1 && in->rank != dims + 2))
        return td_refuse(call,
                         "%s: has %d entries; two for each of up to three dimensions, of self "
                         "all but a batch and channels, are right",
                         name_of(call), n);
    for (int d = in->rank - dims; d < in->rank; d++)
        if (!in->shape[d])
            return td_refuse(call, "self: dimension %d is 0; there is nothing to continue", d);
    return 0;
}

static int rule_pad(struct td_call *call)
{
    const struct td_pick *family = call->op->family;
    enum td_pick_how how = how_of(call);
    struct td_tensor *out = &call->out[0];
    td_rule_unary(call);
    if (how == TD_PICK_by_mode)
        return td_refuse(call,
                         "mode: is '%.60s'; constant, reflect, replicate or circular is right",
                         call->arg[2].str);
    if (family->how == TD_PICK_by_mode && how != TD_PICK_constant &&
        call->arg[3].kind == TD_KIND_float && call->arg[3].f != 0)
        return td_refuse(call, "value: mode %s takes none", modes[how]);
    int err = rule_lengths(call, how);
    for (int d = 0; !err && d < out->rank; d++) {
        int64_t before, behind, *size = &out->shape[d], in = *size;
        padding_of(call, out->rank, d, &before, &behind);
        bool keeps = how == TD_PICK_constant || how == TD_PICK_circular;
        int64_t least = how != TD_PICK_constant && in > 0;
        if (!td_size_plus(*size, before, size) || !td_size_plus(*size, behind, size) ||
            *size < least || (keeps && (before < -in || behind < -in)))
            return td_refuse(call,
                             "%s: %lld before and %lld behind leave nothing right of dimension "
                             "%d of %lld",
                             name_of(call), (long long)before, (long long)behind, d, (long long)in);
        err = rule_continued(call, how, d, in, before, behind);
    }
    return err;
}

uint64_t td_pick_filling(const struct td_call *call)
{
    const struct td_pick *family = call->op->family;
    const struct td_value *v = family->how == TD_PICK_constant  ? &call->arg[2]
                               : family->how == TD_PICK_by_mode ? &call->arg[3]
                                                                : NULL;
    uint64_t bits = 0;
    struct td_tensor one = {.data = &bits, .dtype = call->out[0].dtype};
    if (!v || v->kind == TD_KIND_none)
        return 0;
    td_put_scalar(&one, 0, v);
    return bits;
}

/* ---- nearest elements ---- */

/* Where the factors stand, as td_rule_upsample has it. */
static int factors_of(const struct td_call *call)
{
    const struct td_pick *family = call->op->family;
    return family->vec ? 2 : -2;
}

static int rule_nearest(struct td_call *call)
{
    const struct td_pick *family = call->op->family;
    return td_rule_upsample(call, family->dims, factors_of(call));
}

void td_pick_axes(const struct td_call *call, struct td_pick_axis axis[TD_MAX_RANK])
{
    const struct td_pick *family = call->op->family;
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    enum td_pick_how how = how_of(call);
    bool nearest = how == TD_PICK_nearest || how == TD_PICK_exact;
    for (int d = 0; d < out->rank; d++) {
        struct td_pick_axis *a = &axis[d];
        *a = (struct td_pick_axis){.how = how, .in = in->shape[d], .out = out->shape[d]};
        if (nearest) {
            int own = d - (out->rank - family->dims);
            double f = own >= 0 ? td_upsample_factor(call, family->dims, factors_of(call), own) : 0;
            a->wide = in->dtype == TD_f64;
            a->scale = f > 0 ? 1 / f : (double)a->in / (double)a->out;
            a->scale = a->wide ? a->scale : (double)(float)a->scale;
            continue;
        }
        int64_t behind;
        padding_of(call, out->rank, d, &a->before, &behind);
        a->low = a->before < 0 ? -a->before : 0;
        a->size = a->in - a->low - (behind < 0 ? -behind : 0);
    }
}

/* ---- descriptors ---- */

static double flops(const struct td_call *call)
{
    return (double)td_numel(&call->out[0]);
}

/* Where the elements of the last dimension that picks come from. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    const struct td_tensor *out = &call->out[0];
    int64_t most = 0;
    for (int d = 0; d < out->rank; d++)
        most = out->shape[d] > most ? out->shape[d] : most;
    prepared->scratch = call->op->rule == rule_pad || !td_numel(out) ? 0 : td_pick_scratch(most);
    return NULL;
}

td_kernel td_pick_ref;
TD_KERNELS_3(pick);
static const struct td_impl impls[] = {
    TD_SIMD_3(pick, TD_ALL, .prepare = prepare) TD_REF(pick),
    {0},
};

#define RULE_constant rule_pad
#define RULE_reflect rule_pad
#define RULE_replicate rule_pad
#define RULE_by_mode rule_pad
#define RULE_nearest rule_nearest
#define RULE_exact rule_nearest
#define TD_PICK(symbol, which, n, factors, text, formula, types, ...)                              \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = RULE_##which,                                                                      \
        .dtypes = types,                                                                           \
        .impls = impls,                                                                            \
        .family = &(const struct td_pick){.how = TD_PICK_##which, .dims = n, .vec = factors},      \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/pick/pick.def"
