/* Convolutions of 8-bit integers with scales and zero points, of images with channels last: ONNX's
 * QLinearConv, and its ConvInteger with the scales and the bias that follow it. */
#include "kernels/qconv/qconv.h"

#include <errno.h>

static const int64_t *list_of(const struct td_call *call, int arg)
{
    return call->arg[td_qconv_place(call, arg)].ints.v;
}

/* ---- the rule ---- */

static int check_types(struct td_call *call)
{
    static const struct {
        int arg;
        const char *name, *right;
        unsigned types;
    } each[] = {{TD_QCONV_W, "w", "INT8 or UINT8", TD_i8 | TD_u8},
                {TD_QCONV_Y_ZERO, "y_zero_point", "INT8 or UINT8", TD_i8 | TD_u8},
                {TD_QCONV_X_SCALE, "x_scale", "FP32", TD_f32},
                {TD_QCONV_W_SCALE, "w_scale", "FP32", TD_f32},
                {TD_QCONV_Y_SCALE, "y_scale", "FP32", TD_f32}};
    const struct td_tensor *bias = td_arg(call, td_qconv_place(call, TD_QCONV_BIAS));
    bool rounds = td_qconv_rounds(call);
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        if (each[i].arg >= TD_QCONV_Y_SCALE && !rounds)
            continue;
        enum td_dtype type = call->arg[each[i].arg].tensor.dtype;
        if (!(type & each[i].types))
            return td_refuse(call, "%s: is %s; %s is right", each[i].name, td_dtype_name(type),
                             each[i].right);
    }
    for (int i = 0; i < 2; i++) {
        int arg = i ? TD_QCONV_W : TD_QCONV_X;
        const struct td_tensor *t = &call->arg[arg].tensor, *zero = &call->arg[arg + 2].tensor;
        const char *name = i ? "w" : "x";
        if (t->dtype != zero->dtype)
            return td_refuse(call, "%s_zero_point: is %s; the type of %s is right", name,
                             td_dtype_name(zero->dtype), name);
        if (t->rank != 4)
            return td_refuse(call, "%s: is of rank %d; its shape must be %s", name, t->rank,
                             i ? "[out, in / groups, h, w]" : "[n, h, w, c]");
    }
    if (bias && bias->dtype != (rounds ? TD_i32 : TD_f32))
        return td_refuse(call, "B: is %s; %s is right", td_dtype_name(bias->dtype),
                         rounds ? "INT32" : "FP32");
    return 0;
}

/* A list of n numbers, of which a single one is for all. */
static int check_list(struct td_call *call, int i, const char *name, int n, int64_t least)
{
    struct td_value *v = &call->arg[td_qconv_place(call, i)];
    for (int d = 1; v->ints.n == 1 && d < n; d++)
        v->ints.v[d] = v->ints.v[0];
    v->ints.n = n; /* the schema has seen that it is one or n */
    for (int d = 0; d < n; d++)
        if (v->ints.v[d] < least || v->ints.v[d] > INT32_MAX)
            return td_refuse(call, "%s: has %lld; %lld to %d is right", name,
                             (long long)v->ints.v[d], (long long)least, INT32_MAX);
    return 0;
}

static int check_groups(struct td_call *call)
{
    const struct td_tensor *x = &call->arg[TD_QCONV_X].tensor, *w = &call->arg[TD_QCONV_W].tensor;
    int64_t groups = call->arg[td_qconv_place(call, TD_QCONV_GROUPS)].i;
    if (groups < 1 || w->shape[0] % groups || x->shape[3] % groups ||
        x->shape[3] / groups != w->shape[1])
        return td_refuse(call,
                         "groups: is %lld, x has %lld channels and w is [%lld, %lld, ..]; x's must "
                         "be groups times the second, and the first a multiple of groups",
                         (long long)groups, (long long)x->shape[3], (long long)w->shape[0],
                         (long long)w->shape[1]);
    return 0;
}

/* One number, or one an output channel. */
static int check_numbers(struct td_call *call, int i, const char *name, bool channels)
{
    const struct td_tensor *t = td_arg(call, i);
    int64_t n = t ? td_numel(t) : 1, outs = call->arg[TD_QCONV_W].tensor.shape[0];
    if (n == 1 || (channels && n == outs))
        return 0;
    return td_refuse(call, "%s: has %lld numbers; one%s is right", name, (long long)n,
                     channels ? ", or one an output channel," : "");
}

static int check_sizes(struct td_call *call)
{
    const struct td_tensor *x = &call->arg[TD_QCONV_X].tensor, *w = &call->arg[TD_QCONV_W].tensor;
    const int64_t *pad = list_of(call, TD_QCONV_PADDING);
    for (int d = 0; d < 2; d++) {
        int64_t in = x->shape[1 + d], kernel = w->shape[2 + d];
        if (in > INT32_MAX || kernel > INT32_MAX || !kernel)
            return td_refuse(call, "x, w: %lld elements under a kernel of %lld; 1 to %d are right",
                             (long long)in, (long long)kernel, INT32_MAX);
        int64_t reach = list_of(call, TD_QCONV_DILATION)[d] * (kernel - 1) + 1;
        int64_t room = in + pad[d] + pad[2 + d];
        if (reach > room)
            return td_refuse(call,
                             "w: the kernel reaches over %lld elements, and x has %lld with its "
                             "padding",
                             (long long)reach, (long long)room);
        call->out[0].shape[1 + d] = (room - reach) / list_of(call, TD_QCONV_STRIDE)[d] + 1;
    }
    return 0;
}

static int rule(struct td_call *call)
{
    int err = check_types(call);
    err = err ? err : check_list(call, TD_QCONV_STRIDE, "stride", 2, 1);
    err = err ? err : check_list(call, TD_QCONV_PADDING, "padding", 4, 0);
    err = err ? err : check_list(call, TD_QCONV_DILATION, "dilation", 2, 1);
    err = err ? err : check_groups(call);
    err = err ? err : check_numbers(call, TD_QCONV_X_SCALE, "x_scale", false);
    err = err ? err : check_numbers(call, TD_QCONV_X_ZERO, "x_zero_point", false);
    err = err ? err : check_numbers(call, TD_QCONV_W_SCALE, "w_scale", true);
    err = err ? err : check_numbers(call, TD_QCONV_W_ZERO, "w_zero_point", true);
    bool rounds = td_qconv_rounds(call);
    err = err || !rounds ? err : check_numbers(call, TD_QCONV_Y_SCALE, "y_scale", false);
    err = err || !rounds ? err : check_numbers(call, TD_QCONV_Y_ZERO, "y_zero_point", false);
    if (err)
        return err;
    const struct td_tensor *bias = td_arg(call, td_qconv_place(call, TD_QCONV_BIAS)),
                           *w = &call->arg[TD_QCONV_W].tensor;
    if (bias && (bias->rank != 1 || bias->shape[0] != w->shape[0]))
        return td_refuse(call, "B: has %lld numbers; [%lld], one an output channel, is right",
                         (long long)td_numel(bias), (long long)w->shape[0]);
    call->out[0] = (struct td_tensor){.dtype = TD_f32, .rank = 4};
    if (rounds)
        call->out[0].dtype = call->arg[TD_QCONV_Y_ZERO].tensor.dtype;
    call->out[0].shape[0] = call->arg[TD_QCONV_X].tensor.shape[0];
    call->out[0].shape[3] = w->shape[0];
    call->n_out = 1;
    return check_sizes(call);
}

/* ---- what is computed ---- */

void td_qconv_of(const struct td_call *call, struct td_qconv *c)
{
    *c = (struct td_qconv){.x = &call->arg[TD_QCONV_X].tensor,
                           .w = &call->arg[TD_QCONV_W].tensor,
                           .bias = td_arg(call, td_qconv_place(call, TD_QCONV_BIAS)),
                           .out = &call->out[0]};
    c->images = c->x->shape[0];
    c->channels = c->x->shape[3];
    c->outs = c->w->shape[0];
    c->each = c->w->shape[1];
    c->groups = call->arg[td_qconv_place(call, TD_QCONV_GROUPS)].i;
    for (int d = 0; d < 2; d++) {
        c->in[d] = c->x->shape[1 + d];
        c->kernel[d] = c->w->shape[2 + d];
        c->size[d] = c->out->shape[1 + d];
        c->stride[d] = list_of(call, TD_QCONV_STRIDE)[d];
        c->padding[d] = list_of(call, TD_QCONV_PADDING)[d];
        c->dilation[d] = list_of(call, TD_QCONV_DILATION)[d];
    }
}

static double flops(const struct td_call *call)
{
    struct td_qconv c;
    td_qconv_of(call, &c);
    return 2.0 * (double)td_numel(c.out) * (double)(c.each * c.kernel[0] * c.kernel[1]);
}

#define BAND 65536 /* sums of a band, a thread */

void td_qconv_gemm(const struct td_qconv *c, int64_t pixels, int threads, int group, int pad,
                   struct td_gemm *g)
{
    int64_t depth = c->each * c->kernel[0] * c->kernel[1];
    *g = (struct td_gemm){.m = pixels,
                          .n = c->outs,
                          .k = depth,
                          .step_k = 1,
                          .step_n = depth,
                          .threads = threads,
                          .group = group,
                          .pad = pad};
}

static size_t lines(int64_t bytes)
{
    return ((size_t)bytes + 127) & ~(size_t)63; /* a vector may be read beyond the end */
}

void td_qconv_cut(const struct td_call *call, int group, int pad, struct td_qconv_cut *cut)
{
    struct td_tensor sums = {.dtype = TD_i32};
    struct td_qconv c;
    struct td_gemm g;
    td_qconv_of(call, &c);
    int64_t pixels = c.images * c.size[0] * c.size[1];
    bool deep = td_qconv_is_depthwise(&c);
    cut->depth = c.each * c.kernel[0] * c.kernel[1];
    cut->band = call->threads * (BAND / c.outs / TD_GEMM_ROWS + 1) * TD_GEMM_ROWS;
    cut->band = cut->band < pixels ? cut->band : pixels;
    td_qconv_gemm(&c, cut->band, call->threads, group, pad, &g);
    g.out = &sums;
    cut->at_add = deep ? 0 : lines((int64_t)td_gemm_scratch(&g));
    cut->at_scale = cut->at_add + lines(c.outs * 4);
    cut->at_sum = cut->at_scale + lines(c.outs * 4);
    cut->at_w = cut->at_sum + (deep ? 0 : lines(cut->band * c.outs * 4));
    int64_t weight = cut->depth * c.outs;
    cut->bytes = cut->at_w + lines(deep ? 4 * weight : weight);
}

/* ---- rows ---- */

static const char *prepare(const struct td_call *call, struct td_prepared *prepared, int group,
                           int pad)
{
    struct td_qconv_cut cut;
    struct td_qconv c;
    td_qconv_of(call, &c);
    if (!td_numel(c.w))
        return "there is nothing to multiply";
    if (c.groups > 1 && !td_qconv_is_depthwise(&c))
        return "it has groups of several channels";
    td_qconv_cut(call, group, pad, &cut);
    prepared->scratch = cut.bytes;
    return NULL;
}

static const char *prepare_pairs(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 2, 1);
}

static const char *prepare_quads(const struct td_call *call, struct td_prepared *prepared)
{
    return prepare(call, prepared, 4, 1);
}

static const char *prepare_tiles(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_qconv c;
    td_qconv_of(call, &c);
    return td_qconv_is_depthwise(&c) ? "each channel is by itself" : prepare(call, prepared, 4, 16);
}

td_kernel td_qconv_ref, td_qconv_amx, td_qconv_avx512_vnni, td_qconv_avx2_vnni;
TD_KERNELS_3(qconv);

#define TYPES TD_i8 | TD_u8

static const struct td_impl impls[] = {
    TD_AMX(qconv, TYPES, .prepare = prepare_tiles)
        TD_SIMD(avx512_vnni, qconv, TYPES, .prepare = prepare_quads)
            TD_SIMD(avx2_vnni, qconv, TYPES, .prepare = prepare_quads)
                TD_SIMD_3(qconv, TYPES, .prepare = prepare_pairs) TD_REF(qconv),
    {0},
};

#define SCALED "x_scale=[]:f32 x_zero_point=[] "
#define GIVEN "y_scale=[]:f32 y_zero_point=[] "

const struct td_op td_op_qlinear_conv = {
    .schema = "qlinear_conv(Tensor x, Tensor x_scale, Tensor x_zero_point, Tensor w, Tensor "
              "w_scale, Tensor w_zero_point, Tensor y_scale, Tensor y_zero_point, Tensor? B=None, "
              "int[2] stride=1, int[4] padding=0, int[2] dilation=1, int groups=1) -> Tensor",
    .doc = "ONNX's QLinearConv where x and out are [n, h, w, c]: out = round((B + sum of (x - "
           "x_zero_point) * (w - w_zero_point)) * (x_scale * w_scale / y_scale)) + y_zero_point, "
           "within its type; four paddings are those before h and w, then behind",
    .rule = rule,
    .dtypes = TYPES,
    .impls = impls,
    .samples =
        (const char *const[]){
            "x=[1,n,m,3] " SCALED "w=[5,3,3,3] w_scale=[5]:f32 w_zero_point=[5] " GIVEN
            "B=[5]:i32 stride=2 padding=2",
            "x=[2,n,5,m] " SCALED "w=[40,m,1,1] w_scale=[]:f32 w_zero_point=[] " GIVEN,
            "x=[1,n,m,19] " SCALED "w=[19,1,3,2] w_scale=[19]:f32 w_zero_point=[19] " GIVEN
            "B=[19]:i32 padding=[1,2,0,1] groups=19",
            "x=[1,n,9,6] " SCALED "w=[4,3,2,2] w_scale=[4]:f32 w_zero_point=[] " GIVEN
            "padding=1 dilation=2 groups=2",
            NULL},
    .flops = flops,
    .mixes = TD_MAX_RANK,
    .family = &(const struct td_qconv_family){.rounds = true},
};

const struct td_op td_op_conv_integer_to_float = {
    .schema = "conv_integer_to_float(Tensor x, Tensor x_scale, Tensor x_zero_point, Tensor w, "
              "Tensor w_scale, Tensor w_zero_point, Tensor? B=None, int[2] stride=1, int[4] "
              "padding=0, int[2] dilation=1, int groups=1) -> Tensor",
    .doc = "ONNX's ConvInteger, and the scales and the bias that follow it, where x and out are "
           "[n, h, w, c]: out = (sum of (x - x_zero_point) * (w - w_zero_point)) * (x_scale * "
           "w_scale) + B in FP32; four paddings are those before h and w, then behind",
    .rule = rule,
    .dtypes = TYPES,
    .impls = impls,
    .samples =
        (const char *const[]){"x=[2,n,5,m] " SCALED "w=[40,m,1,1] w_scale=[]:f32 w_zero_point=[]",
                              "x=[1,n,m,3] " SCALED "w=[5,3,3,3] w_scale=[5]:f32 w_zero_point=[5] "
                              "B=[5]:f32 stride=2 padding=2",
                              "x=[1,n,m,19] " SCALED
                              "w=[19,1,3,2] w_scale=[19]:f32 w_zero_point=[19] "
                              "B=[19]:f32 padding=[1,2,0,1] groups=19",
                              "x=[1,n,9,6] " SCALED "w=[4,3,2,2] w_scale=[4]:f32 w_zero_point=[] "
                              "padding=1 dilation=2 groups=2",
                              NULL},
    .flops = flops,
    .mixes = TD_MAX_RANK,
    .family = &(const struct td_qconv_family){.rounds = false},
};
