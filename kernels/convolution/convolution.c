/* The convolutions: ATen's, in one to three dimensions, plain and transposed, over images or one
 * image without its dimension. What a parameter may be is bounded before anything is computed from
 * it, since a padding can ask for a result of any size. */
#include "kernels/convolution/convolution.h"
#include "kernels/onednn/onednn.h"

#include <errno.h>
#include <string.h>

static const struct td_conv_args *args_of(const struct td_call *call)
{
    return call->op->family;
}

static bool is_transposed(const struct td_call *call)
{
    const struct td_conv_args *args = args_of(call);
    return args->transposed < 0 ? args->always : call->arg[args->transposed].i;
}

static int dims_of(const struct td_call *call)
{
    return args_of(call)->dims ? args_of(call)->dims : call->arg[1].tensor.rank - 2;
}

/* Where the input's first size is, behind which the others follow; and its channels. */
static int sizes_at(const struct td_call *call)
{
    return args_of(call)->last ? 1 : call->arg[0].tensor.rank - dims_of(call);
}

static int channels_at(const struct td_call *call)
{
    int rank = call->arg[0].tensor.rank;
    return args_of(call)->last ? rank - 1 : rank - dims_of(call) - 1;
}

/* "height", of dimension d of so many. */
static const char *dim_name(int dims, int d)
{
    static const char *const names[] = {"depth", "height", "width"};
    return names[TD_CONV_DIMS - dims + d];
}

/* ---- the rule ---- */

static int check_types(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *bias = td_arg(call, 2);
    int dims = dims_of(call);
    if (dims < 1 || dims > TD_CONV_DIMS || weight->rank != dims + 2)
        return td_refuse(call, "weight: is of rank %d; its shape must be [%s%s]", weight->rank,
                         is_transposed(call) ? "in, out / groups" : "out, in / groups",
                         dims == 1   ? ", w"
                         : dims == 2 ? ", h, w"
                                     : ", d, h, w, of which one or two may lack");
    if (args_of(call)->last && input->rank != dims + 2)
        return td_refuse(call, "input: is of rank %d; its shape must be [n, h, w, c]", input->rank);
    if (input->rank != dims + 1 && input->rank != dims + 2)
        return td_refuse(call, "input: is of rank %d; its shape must be [n, c, %s] or [c, %s]",
                         input->rank, "d, h, w" + 3 * (3 - dims), "d, h, w" + 3 * (3 - dims));
    if (weight->dtype != input->dtype)
        return td_refuse(call, "weight: is %s, input is %s; both must be of one type",
                         td_dtype_name(weight->dtype), td_dtype_name(input->dtype));
    if (bias && bias->dtype != input->dtype)
        return td_refuse(call, "bias: is %s, input is %s; both must be of one type",
                         td_dtype_name(bias->dtype), td_dtype_name(input->dtype));
    return 0;
}

/* A list of one number for each dimension; a single one is for all. */
static int check_list(struct td_call *call, int i, const char *name, int64_t least)
{
    if (i < 0 || call->arg[i].kind != TD_KIND_ints)
        return 0;
    struct td_value *v = &call->arg[i];
    int dims = dims_of(call);
    for (int d = 1; v->ints.n == 1 && d < dims; d++)
        v->ints.v[d] = v->ints.v[0];
    if (v->ints.n != 1 && v->ints.n != dims)
        return td_refuse(call, "%s: has %d numbers; one or %d are right", name, v->ints.n, dims);
    v->ints.n = dims;
    for (int d = 0; d < dims; d++)
        if (v->ints.v[d] < least || v->ints.v[d] > INT32_MAX)
            return td_refuse(call, "%s: is %lld in dimension %d; %lld to %d is right", name,
                             (long long)v->ints.v[d], d, (long long)least, INT32_MAX);
    return 0;
}

static int check_lists(struct td_call *call)
{
    const struct td_conv_args *args = args_of(call);
    int err = check_list(call, args->stride, "stride", 1);
    err = err ? err : check_list(call, args->padding, "padding", 0);
    err = err ? err : check_list(call, args->dilation, "dilation", 1);
    err = err ? err : check_list(call, args->output_padding, "output_padding", 0);
    const struct td_value *padding = &call->arg[args->padding];
    if (err || padding->kind != TD_KIND_str)
        return err;
    bool same = !strcmp(padding->str, "same");
    if (!same && strcmp(padding->str, "valid"))
        return td_refuse(call, "padding: is '%.60s'; 'valid' or 'same' is right", padding->str);
    for (int d = 0; same && d < dims_of(call); d++)
        if (call->arg[args->stride].ints.v[d] != 1)
            return td_refuse(call, "padding: is 'same', which needs a stride of 1");
    return 0;
}

static int check_groups(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *bias = td_arg(call, 2);
    int64_t groups = call->arg[args_of(call)->groups].i;
    int64_t channels = input->shape[channels_at(call)];
    bool turned = is_transposed(call);
    if (groups < 1 || groups > INT32_MAX)
        return td_refuse(call, "groups: is %lld; at least 1 is right", (long long)groups);
    if (weight->shape[0] % groups)
        return td_refuse(call, "groups: %lld does not divide weight's %lld %s channels",
                         (long long)groups, (long long)weight->shape[0],
                         turned ? "input" : "output");
    if (turned && channels != weight->shape[0])
        return td_refuse(call, "weight: takes %lld channels, input has %lld; they must be equal",
                         (long long)weight->shape[0], (long long)channels);
    if (!turned && (channels % groups || channels / groups != weight->shape[1]))
        return td_refuse(call,
                         "weight: takes %lld channels in each of %lld groups, input has %lld; "
                         "input's must be their product",
                         (long long)weight->shape[1], (long long)groups, (long long)channels);
    if (turned && weight->shape[1] > INT64_MAX / groups)
        return td_refuse(call, "weight: has too many output channels to be counted");
    int64_t outs = turned ? groups * weight->shape[1] : weight->shape[0];
    if (bias && (bias->rank != 1 || bias->shape[0] != outs))
        return td_refuse(call,
                         "bias: has %lld numbers; must be of shape [%lld], one number an output "
                         "channel",
                         (long long)td_numel(bias), (long long)outs);
    return 0;
}

/* Paddings of dimension d, before and behind. */
static void paddings(const struct td_call *call, int d, int64_t *before, int64_t *after)
{
    const struct td_conv_args *args = args_of(call);
    const struct td_value *v = &call->arg[args->padding];
    if (v->kind == TD_KIND_ints) {
        *before = *after = v->ints.v[d];
        return;
    }
    int64_t all = call->arg[args->dilation].ints.v[d] * (call->arg[1].tensor.shape[2 + d] - 1);
    *before = !strcmp(v->str, "same") ? all / 2 : 0;
    *after = !strcmp(v->str, "same") ? all - all / 2 : 0;
}

/* The output's size in spatial dimension d. */
static int spatial(struct td_call *call, int d, int64_t *size)
{
    const struct td_conv_args *args = args_of(call);
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    int dims = dims_of(call);
    int64_t in = input->shape[sizes_at(call) + d], kernel = weight->shape[2 + d];
    int64_t stride = call->arg[args->stride].ints.v[d], before, after;
    int64_t dilation = call->arg[args->dilation].ints.v[d];
    if (in > INT32_MAX || kernel > INT32_MAX || !kernel)
        return td_refuse(call, "%s: its %s is %lld; 1 to %d is right", kernel ? "input" : "weight",
                         dim_name(dims, d), (long long)(kernel ? in : kernel), INT32_MAX);
    paddings(call, d, &before, &after);
    int64_t reach = dilation * (kernel - 1) + 1, room = in + before + after;
    if (!is_transposed(call)) {
        if (reach > room)
            return td_refuse(call,
                             "weight: the kernel reaches over %lld elements of the %s, and input "
                             "has %lld with its padding",
                             (long long)reach, dim_name(dims, d), (long long)room);
        *size = (room - reach) / stride + 1;
        return 0;
    }
    int64_t more = args->output_padding < 0 ? 0 : call->arg[args->output_padding].ints.v[d];
    if (more >= stride && more >= dilation)
        return td_refuse(call,
                         "output_padding: is %lld in dimension %d; less than stride or dilation "
                         "is right",
                         (long long)more, d);
    *size = (in - 1) * stride + reach + more - before - after;
    if (*size < 1)
        return td_refuse(call, "padding: leaves %lld elements of the %s; at least 1 is right",
                         (long long)*size, dim_name(dims, d));
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    struct td_tensor *out = &call->out[0];
    int err = check_types(call), dims = dims_of(call);
    err = err ? err : check_lists(call);
    err = err ? err : check_groups(call);
    if (err)
        return err;
    *out = (struct td_tensor){.dtype = input->dtype, .rank = input->rank};
    out->shape[0] = input->shape[0];
    out->shape[channels_at(call)] = is_transposed(call)
                                        ? weight->shape[1] * call->arg[args_of(call)->groups].i
                                        : weight->shape[0];
    for (int d = 0; d < dims && !err; d++)
        err = spatial(call, d, &out->shape[sizes_at(call) + d]);
    call->n_out = 1;
    int post = args_of(call)->post;
    return err || !post ? err : td_post_rule(call, "activation", post, post + 1);
}

/* ---- what is computed ---- */

void td_conv_of(const struct td_call *call, struct td_conv *c)
{
    const struct td_conv_args *args = args_of(call);
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *out = &call->out[0];
    *c = (struct td_conv){.input = input, .weight = weight, .bias = td_arg(call, 2), .out = out};
    c->dims = dims_of(call);
    c->images = input->rank == c->dims + 2 ? input->shape[0] : 1;
    c->groups = call->arg[args->groups].i;
    c->transposed = is_transposed(call);
    c->last = args->last;
    if (args->post)
        td_post_of(call, args->post, args->post + 1, &c->post);
    c->in_channels = c->transposed ? weight->shape[0] / c->groups : weight->shape[1];
    c->out_channels = c->transposed ? weight->shape[1] : weight->shape[0] / c->groups;
    for (int d = 0; d < TD_CONV_DIMS; d++) {
        bool there = d < c->dims;
        c->in[d] = there ? input->shape[sizes_at(call) + d] : 1;
        c->kernel[d] = there ? weight->shape[2 + d] : 1;
        c->size[d] = there ? out->shape[sizes_at(call) + d] : 1;
        c->stride[d] = there ? call->arg[args->stride].ints.v[d] : 1;
        c->dilation[d] = there ? call->arg[args->dilation].ints.v[d] : 1;
        if (there)
            paddings(call, d, &c->padding[d], &c->after[d]);
    }
    if (c->last)
        td_conv_lie_down(c);
}

int64_t td_conv_pixels(const struct td_conv *c, const int64_t *size)
{
    int64_t n = 1;
    for (int d = 0; d < c->dims; d++)
        n *= size[d];
    return n;
}

int64_t td_conv_positions(const struct td_conv *c)
{
    return td_conv_pixels(c, c->kernel);
}

static double flops(const struct td_call *call)
{
    struct td_conv c;
    td_conv_of(call, &c);
    double each = 2.0 * (double)td_conv_positions(&c);
    return c.transposed ? each * (double)td_numel(c.input) * (double)c.out_channels
                        : each * (double)td_numel(c.out) * (double)c.in_channels;
}

/* ---- rows ---- */

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_conv c;
    struct td_gemm g;
    struct td_laid cut;
    struct td_col2im col2im;
    struct td_tensor picked;
    struct td_piece piece;
    td_conv_of(call, &c);
    if (td_conv_cut_laid(&c, call->threads, &cut)) {
        prepared->scratch = cut.slot * (size_t)cut.slots;
        return NULL;
    }
    if (!td_conv_cut_col2im(&c, call->threads, &col2im)) {
        prepared->scratch = td_col2im_scratch(&col2im);
        return NULL;
    }
    const char *no = td_conv_ungathered(&c);
    if (!no && c.post.n && c.out->dtype == TD_f16)
        no = "FP16 would be rounded, and be too great for it, before what follows";
    if (no)
        return no;
    if (td_conv_pick(&c, &picked, &piece))
        prepared->scratch = td_conv_turned(&picked);
    if (td_conv_linear(&c, call->threads, &g)) {
        prepared->scratch += td_gemm_scratch(&g);
        return NULL;
    }
    td_conv_gemm(&c, c.weight, call->threads, &g);
    if (td_conv_is_matmul(&c, &g)) {
        prepared->scratch += td_gemm_scratch(&g);
        return NULL;
    }
    prepared->scratch += td_gemm_scratch_any(&g) + (c.transposed ? td_nbytes(c.weight) : 0);
    prepared->scratch += c.last ? td_conv_turned(c.input) + td_conv_turned(c.out) : 0;
    prepared->rearranges = c.last;
    return NULL;
}

td_kernel td_convolution_winograd_avx512, td_convolution_winograd_avx2;
#define TD_WINOGRAD(level)                                                                         \
    TD_IF_##level({.name = "winograd",                                                             \
                   .run = td_convolution_winograd_##level,                                         \
                   .isa = TD_ISA_##level,                                                          \
                   .dtypes = TD_f32,                                                               \
                   .prepare = td_winograd_prepare_##level,                                         \
                   .rounding = td_winograd_rounding_##level}, )
td_kernel td_convolution_ref, td_convolution_col2im_avx512, td_convolution_col2im_avx2;
TD_KERNELS_3(convolution_any);
TD_KERNELS_3(convolution_last);
TD_KERNELS_3(convolution_turned);
TD_ONEDNN_ROW(convolution);

/* clang-format off */
#define OWN_ROWS                                                                                   \
    TD_SIMD(avx512, convolution_any, TD_FLOATS | TD_INTS, .prepare = prepare)                      \
    TD_SIMD(avx2, convolution_any, TD_FLOATS | TD_INTS, .prepare = prepare)                        \
    TD_SIMD(default, convolution_any, TD_FLOATS | TD_INTS, .prepare = prepare)                     \
    TD_REF(convolution),
#define COL2IM_ROWS                                                                                \
    TD_SIMD(avx512, convolution_col2im, TD_f32, .prepare = td_col2im_prepare)                         \
    TD_SIMD(avx2, convolution_col2im, TD_f32, .prepare = td_col2im_prepare)
#define ANY_ROWS                                                                                   \
    TD_ONEDNN(convolution, TD_f32 | TD_bf16 | TD_f16) OWN_ROWS
#define WINOGRAD_ROWS TD_WINOGRAD(avx512) TD_WINOGRAD(avx2)
#define PLANE_ROWS                                                                                 \
    TD_ONEDNN(convolution, TD_f32 | TD_bf16 | TD_f16) WINOGRAD_ROWS OWN_ROWS
#define LAST_ROWS                                                                                  \
    TD_SIMD(avx512, convolution_last, TD_f32, .prepare = td_conv_last_prepare_avx512)              \
    TD_SIMD(avx2, convolution_last, TD_f32, .prepare = td_conv_last_prepare)                       \
    TD_SIMD(default, convolution_last, TD_f32, .prepare = td_conv_last_prepare)
#define TURNED_ROWS TD_SIMD_3(convolution_turned, TD_f32, .prepare = td_conv_turned_prepare)
static const struct td_impl rows[] = {ANY_ROWS {0}};
static const struct td_impl rows_line[] = {TURNED_ROWS ANY_ROWS {0}};   /* in one dimension */
static const struct td_impl rows_plane[] = {TURNED_ROWS PLANE_ROWS {0}}; /* in two dimensions */
static const struct td_impl rows_transposed[] = {COL2IM_ROWS ANY_ROWS {0}};
static const struct td_impl rows_either[] = {TURNED_ROWS COL2IM_ROWS PLANE_ROWS {0}};
static const struct td_impl rows_last[] = {LAST_ROWS WINOGRAD_ROWS ANY_ROWS {0}}; /* channels last */
/* clang-format on */
#define ROWS_LAST(dims) rows_last
#define ROWS_PLAIN(dims) ((dims) == 1 ? rows_line : (dims) == 2 ? rows_plane : rows)
#define ROWS_TRANSPOSED(dims) ((dims) < 3 ? rows_transposed : rows)
#define ROWS_EITHER rows_either

#define LAST(dims)                                                                                 \
    (struct td_conv_args)                                                                          \
    {                                                                                              \
        dims, 3, 4, 5, 6, -1, -1, false, true, 7                                                   \
    }
#define PLAIN(dims)                                                                                \
    (struct td_conv_args)                                                                          \
    {                                                                                              \
        dims, 3, 4, 5, 6, -1, -1, false                                                            \
    }
#define TRANSPOSED(dims)                                                                           \
    (struct td_conv_args)                                                                          \
    {                                                                                              \
        dims, 3, 4, 7, 6, 5, -1, true                                                              \
    }
#define EITHER                                                                                     \
    (struct td_conv_args)                                                                          \
    {                                                                                              \
        0, 3, 4, 5, 8, 7, 6, false                                                                 \
    }

#define TD_CONV(symbol, text, formula, which, ...)                                                 \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS | TD_INTS,                                                             \
        .ulp = 16,                                                                                 \
        .sums = true,                                                                              \
        .impls = ROWS_##which,                                                                     \
        .family = &(which),                                                                        \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
#include "kernels/convolution/convolution.def"
