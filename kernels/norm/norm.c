/* The norms: over the last dimensions (layer_norm, rms_norm), over groups of channels (group_norm,
 * instance_norm) and over whole batches, with the statistics found or given (batch_norm). The
 * native forms give as well what their gradients want to know. Running statistics are read and
 * never written: what a call is given stays as it is. Bounds are in units of the results' general
 * size, since self - mean and the bias may cancel. */
#include "kernels/norm/norm.h"
#include "kernels/sizes.h"

#include "kernels/backward.h"
#include "kernels/elementwise.h"

#include <errno.h>
#include <float.h>

int td_rule_normalized(struct td_call *call, const struct td_tensor *x, int i)
{
    int n = call->arg[i].ints.n;
    if (n < 1 || n > x->rank)
        return td_refuse(call, "normalized_shape: has %d dimensions; from 1 to input's %d is right",
                         n, x->rank);
    for (int d = 0; d < n; d++)
        if (call->arg[i].ints.v[d] != x->shape[x->rank - n + d])
            return td_refuse(call,
                             "normalized_shape: entry %d is %lld; the size of input's dimension "
                             "%d, %lld, is right",
                             d, (long long)call->arg[i].ints.v[d], x->rank - n + d,
                             (long long)x->shape[x->rank - n + d]);
    return 0;
}

int td_rule_normalizing(struct td_call *call, const struct td_tensor *input, int first, int last,
                        const char *const *names, enum td_dtype *type)
{
    bool half = input->dtype & (TD_f16 | TD_bf16), any = false;
    *type = input->dtype;
    for (int i = first; i <= last; i++) {
        const struct td_tensor *t = td_arg(call, i);
        if (!t)
            continue;
        bool fits = any ? t->dtype == *type : t->dtype == *type || (half && t->dtype == TD_f32);
        if (!fits)
            return td_refuse(call, "%s: is %s; %s%s is right", names[i - first],
                             td_dtype_name(t->dtype), td_dtype_name(*type),
                             half && !any ? " or FP32" : "");
        *type = t->dtype;
        any = true;
    }
    return 0;
}

struct td_rows td_normalized_rows(const struct td_tensor *input, const struct td_value *shape)
{
    struct td_rows rows = {1, 1};
    for (int d = 0; d < input->rank; d++)
        *(d < input->rank - shape->ints.n ? &rows.count : &rows.n) *= input->shape[d];
    return rows;
}

/* ---- over the last dimensions ---- */

/* Statistics, when there are three results: of that type and shape. */
static void stats(struct td_call *call, enum td_dtype type, int rank, const int64_t *shape)
{
    for (int i = 1; i < 3; i++) {
        call->out[i] = (struct td_tensor){.dtype = type, .rank = rank};
        for (int d = 0; d < rank; d++)
            call->out[i].shape[d] = shape[d];
    }
    call->n_out = 3;
}

static int judge_layer(struct td_call *call, enum td_dtype *type)
{
    static const char *const names[] = {"weight", "bias"};
    const struct td_norm_args *args = call->op->family;
    const struct td_value *shape = &call->arg[1];
    int last = args->bias > 0 ? args->bias : args->weight;
    int err = td_rule_normalized(call, &call->arg[0].tensor, 1);
    err = err ? err
              : td_rule_normalizing(call, &call->arg[0].tensor, args->weight, last, names, type);
    for (int i = args->weight; !err && i <= last; i++)
        err = td_rule_shape(call, i, names[i - args->weight], "normalized_shape", shape->ints.n,
                            shape->ints.v);
    td_rule_unary(call);
    return err;
}

static int rule_layer(struct td_call *call)
{
    enum td_dtype type;
    return judge_layer(call, &type);
}

static int rule_native_layer(struct td_call *call)
{
    enum td_dtype type = TD_DTYPE_none;
    int err = judge_layer(call, &type), rank = call->out[0].rank;
    int64_t shape[TD_MAX_RANK];
    for (int d = 0; !err && d < rank; d++)
        shape[d] = d < rank - call->arg[1].ints.n ? call->out[0].shape[d] : 1;
    if (!err)
        stats(call, type, rank, shape);
    return err;
}

/* ---- over channels, which are dimension 1 ---- */

static int judge_channels(struct td_call *call, enum td_dtype *type)
{
    static const char *const names[] = {"weight", "bias", "running_mean", "running_var"};
    const struct td_norm_args *args = call->op->family;
    const struct td_tensor *x = &call->arg[0].tensor;
    int last = args->var > 0 ? args->var : args->bias;
    if (x->rank < 2)
        return td_refuse(call, "input: is of rank %d; its shape must be [n, channels, ..]",
                         x->rank);
    int err = td_rule_normalizing(call, x, args->weight, last, names, type);
    for (int i = args->weight; !err && i <= last; i++)
        err = td_rule_shape(call, i, names[i - args->weight], "one number a channel", 1,
                            &x->shape[1]);
    td_rule_unary(call);
    return err;
}

/* Whether the statistics are the input's own; no_training has no say in it. */
static bool finds(const struct td_call *call)
{
    const struct td_norm_args *args = call->op->family;
    return args->training > 0 && call->arg[args->training].i;
}

static int rule_batch(struct td_call *call)
{
    const struct td_norm_args *args = call->op->family;
    enum td_dtype type = TD_DTYPE_none;
    int err = judge_channels(call, &type);
    if (err || finds(call))
        return err;
    if (args->mean < 0)
        return td_refuse(call, "training: is false; true is right, as no statistics are given");
    for (int i = args->mean; i <= args->var; i++)
        if (!td_arg(call, i))
            return td_refuse(call, "running_%s: is missing; without %s it is needed",
                             i == args->mean ? "mean" : "var",
                             args->form == TD_NORM_batch ? "training" : "use_input_stats");
    return 0;
}

static int rule_native_batch(struct td_call *call)
{
    enum td_dtype type = TD_DTYPE_none;
    int err = rule_batch(call);
    err = err ? err : judge_channels(call, &type);
    if (!err)
        stats(call, type, 1, finds(call) ? &call->out[0].shape[1] : (int64_t[]){0});
    return err;
}

static int check_groups(struct td_call *call, int64_t channels)
{
    const struct td_norm_args *args = call->op->family;
    int64_t groups = call->arg[args->group].i;
    if (groups < 1 || channels % groups)
        return td_refuse(call, "%s: is %lld; a divisor of the %lld channels is right",
                         args->form == TD_NORM_group ? "num_groups" : "group", (long long)groups,
                         (long long)channels);
    return 0;
}

static int rule_group(struct td_call *call)
{
    enum td_dtype type;
    int err = judge_channels(call, &type);
    return err ? err : check_groups(call, call->arg[0].tensor.shape[1]);
}

/* The sizes that are given stand for the input's own, which may lie in any shape. */
static int rule_native_group(struct td_call *call)
{
    static const char *const names[] = {"weight", "bias"};
    const struct td_norm_args *args = call->op->family;
    const struct td_tensor *x = &call->arg[0].tensor;
    enum td_dtype type = TD_DTYPE_none;
    int64_t all = 1, size[3];
    bool small = true;
    for (int i = 0; i < 3; i++) {
        size[i] = call->arg[args->group - 3 + i].i;
        small = small && size[i] >= 0 && td_size_times(all, size[i], &all);
    }
    if (!small || all != td_numel(x))
        return td_refuse(call,
                         "N, C, HxW: are %lld, %lld, %lld; sizes of input's %lld elements "
                         "are right",
                         (long long)size[0], (long long)size[1], (long long)size[2],
                         (long long)td_numel(x));
    int err = check_groups(call, size[1]);
    err = err ? err : td_rule_normalizing(call, x, args->weight, args->bias, names, &type);
    for (int i = args->weight; !err && i <= args->bias; i++)
        err = td_rule_shape(call, i, names[i - args->weight], "one number a channel", 1, &size[1]);
    td_rule_unary(call);
    if (!err)
        stats(call, type, 2, (int64_t[]){size[0], call->arg[args->group].i});
    return err;
}

/* ---- what is computed ---- */

/* Groups of nothing are groups all the same: they have statistics. */
static void without_elements(struct td_norm *n, int64_t groups)
{
    n->channels = groups;
    n->together = 1;
    n->inner = 0;
}

static void sizes_of(const struct td_call *call, struct td_norm *n)
{
    const struct td_norm_args *args = call->op->family;
    const struct td_tensor *x = n->x;
    n->inner = 1;
    if (args->form <= TD_NORM_rms) {
        struct td_rows rows = td_normalized_rows(x, &call->arg[1]);
        n->images = rows.count;
        n->channels = n->together = rows.n;
        if (!rows.n)
            without_elements(n, 1);
        return;
    }
    if (args->form == TD_NORM_native_group) {
        n->images = call->arg[args->group - 3].i;
        n->channels = call->arg[args->group - 2].i;
        n->inner = call->arg[args->group - 1].i;
    } else {
        n->images = x->shape[0];
        n->channels = x->shape[1];
        for (int d = 2; d < x->rank; d++)
            n->inner *= x->shape[d];
    }
    if (args->group > 0)
        n->together = n->channels / call->arg[args->group].i;
    else if (args->form == TD_NORM_instance && finds(call))
        n->together = 1;
    if (args->group > 0 && !n->channels)
        without_elements(n, call->arg[args->group].i);
}

void td_norm_of(const struct td_call *call, struct td_norm *n)
{
    const struct td_norm_args *args = call->op->family;
    const struct td_value *eps = &call->arg[args->eps];
    *n = (struct td_norm){.x = &call->arg[0].tensor,
                          .weight = td_arg(call, args->weight),
                          .out = &call->out[0],
                          .root = args->form == TD_NORM_rms};
    n->bias = args->bias > 0 ? td_arg(call, args->bias) : NULL;
    n->eps = eps->kind != TD_KIND_none ? td_scalar(eps)
             : n->x->dtype == TD_f64   ? DBL_EPSILON
                                       : (double)FLT_EPSILON;
    if (args->var > 0 && !finds(call)) {
        n->mean = td_arg(call, args->mean);
        n->var = td_arg(call, args->var);
    }
    if (call->n_out == 3 && td_numel(&call->out[1])) {
        n->out_mean = &call->out[1];
        n->out_rstd = &call->out[2];
    }
    sizes_of(call, n);
    n->groups = n->channels;
    n->n = n->images * n->inner;
    if (n->together) {
        n->groups = n->images * (n->channels / n->together);
        n->n = n->together * n->inner;
    }
}

static double flops(const struct td_call *call)
{
    return 8 * (double)td_numel(&call->out[0]);
}

/* Parameters of the lanes' type, and what each channel is made with. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_norm n;
    td_norm_of(call, &n);
    int64_t arrays = (n.weight != NULL) + (n.bias != NULL);
    if (n.x->dtype & (TD_f32 | TD_f64))
        arrays = 0;
    prepared->scratch = (size_t)(n.channels * (arrays + (n.together ? 0 : 3))) * sizeof(double);
    return NULL;
}

bool td_norm_walk(const struct td_call *call, const struct td_norm *n, struct td_reduction *walk)
{
    *walk = td_reduction(n->x, ~0u << (n->x->rank - call->arg[1].ints.n));
    return td_has_rows(n->x) && walk->along && walk->inner == n->n;
}

static const char *prepare_layer(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_norm n;
    struct td_reduction walk;
    td_norm_of(call, &n);
    prepared->dense = (n.weight && n.weight->stride) || (n.bias && n.bias->stride) ||
                      (n.x->stride && !td_norm_walk(call, &n, &walk));
    return prepare(call, prepared);
}

td_kernel td_norm_ref;
TD_KERNELS_3(norm_f32);
TD_KERNELS_3(norm_f64);

/* clang-format off */
#define ROWS(...) /* a group's statistics come before its elements */                              \
    TD_SIMD_3(norm_f32, TD_f32 | TD_bf16 | TD_f16, .in_place = 1, __VA_ARGS__)                     \
    TD_SIMD_3(norm_f64, TD_f64, .in_place = 1, __VA_ARGS__)                                        \
    TD_REF(norm), {0}
static const struct td_impl impls_layer[] = {ROWS(.prepare = prepare_layer, .strided = true)};
static const struct td_impl impls_channel[] = {ROWS(.prepare = prepare)};

#define ARGS(form, ...) (const struct td_norm_args) {TD_NORM_##form, __VA_ARGS__}
/* Arguments:                           weight  bias  mean  var  training  eps  group */
#define LAYER        ARGS(layer,             2,    3,   -1,  -1,       -1,   4,    -1)
#define RMS          ARGS(rms,               2,   -1,   -1,  -1,       -1,   3,    -1)
#define BATCH        ARGS(batch,             1,    2,    3,   4,        5,   7,    -1)
#define NO_STATS     ARGS(batch,             1,    2,   -1,  -1,        3,   5,    -1)
#define NO_TRAINING  ARGS(batch,             1,    2,    3,   4,       -1,   6,    -1)
#define INSTANCE     ARGS(instance,          1,    2,    3,   4,        5,   7,    -1)
#define GROUP        ARGS(group,             2,    3,   -1,  -1,       -1,   4,     1)
#define NATIVE_GROUP ARGS(native_group,      1,    2,   -1,  -1,       -1,   7,     6)
/* clang-format on */

#define IMPLS_layer impls_layer
#define IMPLS_native_layer impls_layer
#define IMPLS_group impls_channel
#define IMPLS_native_group impls_channel
#define IMPLS_batch impls_channel
#define IMPLS_native_batch impls_channel

enum { /* which rules are for operators that may take statistics over all rows */
       MIXES_layer = 0,
       MIXES_native_layer = 0,
       MIXES_group = 0,
       MIXES_native_group = 0,
       MIXES_batch = TD_MAX_RANK,
       MIXES_native_batch = TD_MAX_RANK
};

#define TD_NORM(symbol, text, formula, shapes, which, ...)                                         \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule_##shapes,                                                                     \
        .mixes = MIXES_##shapes,                                                                   \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = 16,                                                                                 \
        .sums = true,                                                                              \
        .impls = IMPLS_##shapes,                                                                   \
        .family = &(which),                                                                        \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/norm/norm.def"
