/* linear, with post-ops that are applied before the result is stored: as linear's keyword for
 * people and plans, and as linear_pointwise with PyTorch's words for the graphs that name it; and
 * dense, which is linear of a weight that lies as matmul wants it, [in_features, out_features].
 * linear_scaled and dense_scaled are the same of an INT8 weight with scales for each of the
 * out_features, which becomes FP32 a panel at a time, in the first cache. */
#include "kernels/linear.h"
#include "kernels/product/product.h"

#include <errno.h>
#include <string.h>

/* Which argument is the bias; the activation and what it takes follow. */
static int bias_of(const struct td_call *call)
{
    return td_product_of(call)->scale + (td_product_of(call)->scale ? 1 : 2);
}

static int check_bias(struct td_call *call, int64_t n)
{
    const struct td_tensor *input = &call->arg[0].tensor, *bias = td_arg(call, bias_of(call));
    if (!bias)
        return 0;
    if (bias->dtype != input->dtype)
        return td_refuse(call, "bias: is %s, input is %s; both must be of one type",
                         td_dtype_name(bias->dtype), td_dtype_name(input->dtype));
    if (bias->rank > 1 || td_numel(bias) != n)
        return td_refuse(call, "bias: must be of shape [%lld], one number for each row of weight",
                         (long long)n);
    return 0;
}

static bool is_turned(const struct td_call *call)
{
    return td_product_of(call)->turned;
}

static int check_types(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    const struct td_tensor *scale = td_arg(call, td_product_of(call)->scale);
    if (!td_product_of(call)->scale && input->dtype != weight->dtype)
        return td_refuse(call, "weight: is %s, input is %s; both must be of one type",
                         td_dtype_name(weight->dtype), td_dtype_name(input->dtype));
    if (td_product_of(call)->scale && (input->dtype != TD_f32 || scale->dtype != TD_f32))
        return td_refuse(call, "input, scale: are %s and %s; FP32 is right",
                         td_dtype_name(input->dtype), td_dtype_name(scale->dtype));
    if (td_product_of(call)->scale && weight->dtype != TD_i8)
        return td_refuse(call, "weight: is %s; INT8 is right", td_dtype_name(weight->dtype));
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    int err = check_types(call);
    if (err)
        return err;
    if (!input->rank)
        return td_refuse(call, "input: is a single number; its shape must be [.., in_features]");
    bool turned = is_turned(call);
    if (weight->rank < 1 || weight->rank > 2)
        return td_refuse(call, "weight: is of rank %d; its shape must be %s or [in_features]",
                         weight->rank,
                         turned ? "[out_features, in_features]" : "[in_features, out_features]");
    int64_t k = input->shape[input->rank - 1];
    int64_t w_k = weight->shape[turned ? weight->rank - 1 : 0];
    if (k != w_k)
        return td_refuse(call,
                         "weight: has %lld %s, input's last dimension is %lld; they must be equal",
                         (long long)w_k, turned ? "columns" : "rows", (long long)k);
    int64_t n = weight->rank == 2 ? weight->shape[turned ? 0 : 1] : 1;
    struct td_tensor *out = &call->out[0];
    *out = *input;
    out->weight = NULL;
    if (weight->rank == 2)
        out->shape[out->rank - 1] = n;
    else
        out->rank--;
    call->n_out = 1;
    return check_bias(call, n);
}

static int rule_linear(struct td_call *call)
{
    int err = rule(call), bias = bias_of(call);
    return err ? err : td_post_rule(call, "activation", bias + 1, bias + 2);
}

/* The blocks of a column's k numbers that have scales of their own; 0: the scales do not fit. */
static int64_t blocks_of(const struct td_call *call, int64_t n, int64_t k)
{
    const struct td_tensor *scale = &call->arg[2].tensor;
    if (scale->rank < 2)
        return td_numel(scale) == 1 || td_numel(scale) == n;
    int64_t columns = scale->shape[is_turned(call) ? 0 : 1],
            blocks = scale->shape[is_turned(call) ? 1 : 0];
    return scale->rank == 2 && columns == n && blocks && k % blocks == 0 ? blocks : 0;
}

static int rule_scaled(struct td_call *call)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    int err = rule_linear(call);
    if (err)
        return err;
    int64_t n = weight->rank == 2 ? weight->shape[is_turned(call) ? 0 : 1] : 1;
    if (!blocks_of(call, n, input->shape[input->rank - 1]))
        return td_refuse(
            call, "scale: must be one number, [%lld] or %s; blocks must divide in_features",
            (long long)n, is_turned(call) ? "[out_features, blocks]" : "[blocks, out_features]");
    return 0;
}

bool td_is_linear(const struct td_op *op)
{
    return op->rule == rule_linear || op->rule == rule_scaled;
}

/* What PyTorch's graphs call fusions. */
static const char *const attrs[] = {
    "none",    "relu", "relu6", "leaky_relu", "hardtanh", "hardsigmoid", "hardswish",
    "sigmoid", "tanh", "silu",  "swish",      "gelu",     "gelu_tanh"};

static bool is(const struct td_call *call, const char *attr)
{
    return !strcmp(call->arg[3].str, attr);
}

/* The two numbers of an activation must be there exactly where it has them, as in PyTorch. */
static int check_scalars(struct td_call *call)
{
    int has = (call->arg[4].kind != TD_KIND_none) + (call->arg[5].kind != TD_KIND_none);
    if (is(call, "leaky_relu") && (has != 1 || call->arg[4].kind == TD_KIND_none))
        return td_refuse(call, "alpha: leaky_relu needs its slope here, and no beta");
    if (is(call, "hardtanh") && has != 2)
        return td_refuse(call, "alpha, beta: hardtanh needs its lower and its upper bound here");
    if (!is(call, "leaky_relu") && !is(call, "hardtanh") && has)
        return td_refuse(call, "alpha, beta: only leaky_relu and hardtanh have numbers, attr is %s",
                         call->arg[3].str);
    return 0;
}

static int rule_pointwise(struct td_call *call)
{
    const struct td_value *algorithm = &call->arg[6];
    size_t i = 0, n = sizeof attrs / sizeof *attrs;
    int err = rule(call);
    if (err)
        return err;
    while (i < n && !is(call, attrs[i]))
        i++;
    if (i == n)
        return td_refuse(call,
                         "attr: \"%s\" is no fusion that is defined; none or a PyTorch activation, "
                         "such as relu, silu or gelu, is right",
                         call->arg[3].str);
    if (algorithm->kind == TD_KIND_str && strcmp(algorithm->str, "none") &&
        strcmp(algorithm->str, "tanh"))
        return td_refuse(call, "algorithm: \"%s\" is not known; none or tanh is right",
                         algorithm->str);
    err = check_scalars(call);
    return err ? err : td_post_rule(call, "attr", 3, -1);
}

static void numbers(const struct td_gemm *g, int64_t p, int64_t k, int64_t j, int64_t n, int8_t *to,
                    int64_t ld)
{
    const int8_t *from = (const int8_t *)g->b->data + p * g->step_k + j * g->step_n;
    for (int64_t i = 0; i < k; i++, from += g->step_k, to += ld)
        if (g->step_n == 1)
            memcpy(to, from, (size_t)n);
        else
            for (int64_t x = 0; x < n; x++)
                to[x] = from[x * g->step_n];
}

static void scales(const struct td_gemm *g, int64_t block, int64_t j, int64_t n, float *scale,
                   float *zero)
{
    const struct td_tensor *by = g->context;
    const float *from = by->data;
    int64_t blocks = g->k / g->block, one = td_numel(by) == 1;
    bool turned = g->step_k == 1;
    (void)zero; /* there are none */
    for (int64_t x = 0; x < n; x++)
        scale[x] = from[one ? 0 : turned ? (j + x) * blocks + block : block * g->n + j + x];
}

static const struct td_gemm_quantized quantized = {.numbers = numbers, .scales = scales};

static void gemm(const struct td_call *call, struct td_gemm *g)
{
    const struct td_tensor *input = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    *g = (struct td_gemm){.a = input,
                          .b = weight,
                          .bias = td_arg(call, bias_of(call)),
                          .bias_j = 1,
                          .out = &call->out[0],
                          .k = input->shape[input->rank - 1],
                          .m = 1,
                          .n = 1,
                          .step_k = 1,
                          .threads = call->threads};
    bool turned = is_turned(call);
    if (weight->rank == 2)
        g->n = weight->shape[turned ? 0 : 1];
    g->step_n = g->k;
    if (!turned && g->n > 1) {
        g->step_k = g->n;
        g->step_n = 1;
    }
    for (int d = 0; d < input->rank - 1; d++)
        g->m *= input->shape[d];
    if (td_product_of(call)->scale) {
        g->quantized = &quantized;
        g->context = &call->arg[2].tensor;
        g->block = g->k / blocks_of(call, g->n, g->k);
    }
    bool pointwise = call->n_args == 7;
    td_post_of(call, bias_of(call) + 1, pointwise ? -1 : bias_of(call) + 2, &g->post);
    if (!pointwise || !g->post.n)
        return;
    for (int i = 0; i < 2; i++)
        if (call->arg[4 + i].kind != TD_KIND_none)
            g->post.op[0].param[i] = td_scalar(&call->arg[4 + i]);
    if (is(call, "gelu") && call->arg[6].kind == TD_KIND_str && !strcmp(call->arg[6].str, "tanh"))
        g->post.op[0].point = TD_POINT_gelu_tanh;
}

static const struct td_product family = {.gemm = gemm, .add = -1, .turned = true};
static const struct td_product family_dense = {.gemm = gemm, .add = -1};
static const struct td_product family_scaled = {
    .gemm = gemm, .add = -1, .turned = true, .scale = 2};
static const struct td_product family_dense_scaled = {.gemm = gemm, .add = -1, .scale = 2};

const struct td_op td_op_linear = {
    .schema = "linear(Tensor input, Tensor weight, Tensor? bias=None, *, str? activation=None, "
              "Tensor[]? others=None) -> Tensor",
    .doc = "out = activation(input x weight transposed + bias); activation may be several, 'plus, "
           "relu', of which some take one of others",
    .rule = rule_linear,
    .dtypes = TD_INTS | TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = td_product_impls,
    .family = &family,
    .samples =
        (const char *const[]){
            "input=[n,m] weight=[n,m] bias=[n]", "input=[5,n] weight=[m,n] bias=[m]",
            "input=[n] weight=[m,n]", "input=[2,n,m] weight=[9,m]", "input=[3,n] weight=[n]",
            "input=[7,n] weight=[40,n]", "input=[n,m] weight=[17,m] bias=[17] activation=relu",
            "input=[5,n] weight=[m,n] bias=[m] activation=gelu",
            "input=[5,n] weight=[m,n] activation=plus,relu others=[5,m]",
            "input=[2,n] weight=[m,n] activation=mul others=[m]",
            "input=[m,300] weight=[33,300] activation=plus,relu others=[m,33]",
            "input=[m,300] weight=[33,300] activation=mul others=[33]",
            "input=[m,30] weight=[150,30] activation=silu,plus,fmax others=[150]|[1]",
            "input=[2,3,n] weight=[n] activation=mul others=[3]", NULL},
    .flops = td_product_flops,
};

const struct td_op td_op_linear_pointwise = {
    .schema = "linear_pointwise(Tensor X, Tensor W, Tensor? B=None, str attr='none', "
              "Scalar? alpha=None, Scalar? beta=None, str? algorithm=None) -> Tensor",
    .doc = "out = attr(X x W transposed + B); alpha, beta, algorithm are the activation's",
    .rule = rule_pointwise,
    .dtypes = TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = td_product_impls,
    .family = &family,
    .samples = (const char *const[]){"X=[n,m] W=[20,m] B=[20] attr=leaky_relu alpha=0.5",
                                     "X=[3,n] W=[m,n] attr=silu", NULL},
    .flops = td_product_flops,
};

const struct td_op td_op_dense = {
    .schema = "dense(Tensor input, Tensor weight, Tensor? bias=None, *, str? activation=None, "
              "Tensor[]? others=None) -> Tensor",
    .doc = "out = activation(input x weight + bias): linear of a weight of [in_features, "
           "out_features]",
    .rule = rule_linear,
    .dtypes = TD_INTS | TD_FLOATS,
    .ulp = 24,
    .sums = true,
    .impls = td_product_impls,
    .family = &family_dense,
    .samples = (const char *const[]){"input=[n,m] weight=[m,n] bias=[n]",
                                     "input=[5,n] weight=[n,m] bias=[m]", "input=[n] weight=[n,m]",
                                     "input=[2,n,m] weight=[m,9]", "input=[3,n] weight=[n]",
                                     "input=[20,n] weight=[n,33] bias=[33] activation=gelu",
                                     "input=[5,n] weight=[n,m] activation=plus,relu others=[5,m]",
                                     "input=[2,n] weight=[n,m] activation=mul others=[m]", NULL},
    .flops = td_product_flops,
};

const struct td_op td_op_linear_scaled = {
    .schema = "linear_scaled(Tensor input, Tensor weight, Tensor scale, Tensor? bias=None, *, "
              "str? activation=None, Tensor[]? others=None) -> Tensor",
    .doc = "linear of an INT8 weight of [out_features, in_features] whose element [j, p] is "
           "weight[j, p] * scale[j] in FP32, as weight-only quantization has it; or times "
           "scale[j, p / block], of equal blocks",
    .rule = rule_scaled,
    .dtypes = TD_f32,
    .ulp = 24,
    .sums = true,
    .impls = td_product_scaled_impls,
    .family = &family_scaled,
    .samples =
        (const char *const[]){"input=[n,m] weight=[33,m]:INT8 scale=[33]:f32 bias=[33]:f32",
                              "input=[5,n] weight=[m,n]:INT8 scale=[1]:f32",
                              "input=[m,320] weight=[37,320]:INT8 scale=[37,10]:f32",
                              "input=[2,m,300] weight=[70,300]:INT8 scale=[70]:f32 activation=relu",
                              "input=[n] weight=[m,n]:INT8 scale=[m]:f32",
                              "input=[3,n] weight=[n]:INT8 scale=[1]:f32", NULL},
    .flops = td_product_flops,
};

const struct td_op td_op_dense_scaled = {
    .schema = "dense_scaled(Tensor input, Tensor weight, Tensor scale, Tensor? bias=None, *, "
              "str? activation=None, Tensor[]? others=None) -> Tensor",
    .doc = "dense of an INT8 weight of [in_features, out_features] whose element [p, j] is "
           "weight[p, j] * scale[j] in FP32; or times scale[p / block, j], of equal blocks",
    .rule = rule_scaled,
    .dtypes = TD_f32,
    .ulp = 24,
    .sums = true,
    .impls = td_product_scaled_impls,
    .family = &family_dense_scaled,
    .samples =
        (const char *const[]){"input=[n,m] weight=[m,33]:INT8 scale=[33]:f32 bias=[33]:f32",
                              "input=[5,n] weight=[n,m]:INT8 scale=[1]:f32",
                              "input=[m,520] weight=[520,37]:INT8 scale=[13,37]:f32",
                              "input=[100,300] weight=[300,m]:INT8 scale=[m]:f32",
                              "input=[2,m,300] weight=[300,70]:INT8 scale=[70]:f32 "
                              "activation=plus,relu others=[2,m,70]",
                              "input=[n] weight=[n,m]:INT8 scale=[m]:f32",
                              "input=[3,n] weight=[n]:INT8 scale=[1]:f32 activation=gelu", NULL},
    .flops = td_product_flops,
};
