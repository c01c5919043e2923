/* kernels: the values that PyTorch's users rely on, written down and not taken from a reference:
 * where NaN goes, what an empty tensor gives, how accuracy holds far from 1. Each holds for every
 * row that runs here, the reference's among them. */
#include "kernels/elementwise.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A call of one operator on FP32 values; x is the first tensor's, NULL for any. */
static void start(struct sample *s, const char *op, const char *pattern, const float *x)
{
    int err = sample_init(s, op, pattern, (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 1);
    ck_assert_msg(!err, "%s %s: %s", op, pattern, s->run.problem.text);
    if (x)
        memcpy(s->input[0].data, x, td_nbytes(&s->input[0]));
}

/* Runs the call on every row that takes it; judge gets the row's name. */
static void each(struct sample *s, void (*judge)(const struct td_call *, const char *))
{
    char why[100], name[100];
    struct td_call *call = &s->run.call;
    int ran = 0;
    for (const struct td_impl *i = call->op->impls; i->run; i++) {
        if (!sample_runnable(i, why) || !(i->dtypes & s->input[0].dtype) || !sample_takes(i, call))
            continue;
        snprintf(name, sizeof name, "%.60s %.20s@%s", s->run.handle->full, i->name,
                 td_isa_name(i->isa));
        memset(call->out[0].data, 0xa5, td_nbytes(&call->out[0]));
        sample_run(i, call);
        judge(call, name);
        ran++;
    }
    ck_assert_int_ge(ran, 2);
    sample_fini(s);
}

static float at(const struct td_call *call, int i)
{
    return ((const float *)call->out[0].data)[i];
}

static void second_is_nan(const struct td_call *call, const char *name)
{
    ck_assert_msg(!isnan(at(call, 0)) && isnan(at(call, 1)), "%s", name);
}

static void all_nan(const struct td_call *call, const char *name)
{
    for (int i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(isnan(at(call, i)), "%s: element %d is %g", name, i, at(call, i));
}

static void all_zero(const struct td_call *call, const char *name)
{
    for (int i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(at(call, i) == 0, "%s: element %d is %g", name, i, at(call, i));
}

static void all_low(const struct td_call *call, const char *name)
{
    for (int i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(at(call, i) == -INFINITY, "%s: element %d is %g", name, i, at(call, i));
}

static void nothing(const struct td_call *call, const char *name)
{
    ck_assert_msg(td_numel(&call->out[0]) == 0, "%s", name);
}

START_TEST(test_nan_passes)
{
    static const char *const unary[] = {"relu", "sigmoid", "tanh", "exp",  "gelu", "erf",
                                        "silu", "neg",     "abs",  "sqrt", "rsqrt"};
    static const char *const binary[] = {"maximum", "minimum", "add.Tensor", "mul.Tensor"};
    struct sample s;
    float x[17] = {1, NAN};
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        start(&s, unary[i], "self=[17]", x);
        each(&s, second_is_nan);
    }
    for (size_t i = 0; i < sizeof binary / sizeof *binary; i++) {
        start(&s, binary[i], "self=[17] other=[17]", x);
        each(&s, second_is_nan);
        start(&s, binary[i], "self=[17] other=[17]", NULL); /* and from the other side */
        memcpy(s.input[1].data, x, sizeof x);
        each(&s, second_is_nan);
    }
}
END_TEST

static void keeps_zeros(const struct td_call *call, const char *name)
{
    for (int i = 0; i < 17; i++)
        ck_assert_msg(at(call, i) == 0 && !!signbit(at(call, i)) == !(i % 2),
                      "%s: element %d is %g", name, i, at(call, i));
}

/* Odd functions and what is the identity near 0 keep the sign of a zero. */
START_TEST(test_zeros)
{
    static const char *const unary[] = {"relu", "tanh", "gelu", "erf", "silu", "sqrt"};
    struct sample s;
    float x[17];
    for (int i = 0; i < 17; i++)
        x[i] = i % 2 ? 0.F : -0.F;
    for (size_t i = 0; i < sizeof unary / sizeof *unary; i++) {
        start(&s, unary[i], "self=[17]", x);
        each(&s, keeps_zeros);
    }
}
END_TEST

static double right;

static void all_right(const struct td_call *call, const char *name)
{
    for (int64_t i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(td_get_real(&call->out[0], i) == right, "%s: element %d", name, (int)i);
}

/* A number has the type of what it is compared with: BF16's nearest to 0.1 is 0.1. */
START_TEST(test_compared_numbers)
{
    static const enum td_dtype types[] = {TD_bf16, TD_f16, TD_f32, TD_f64};
    static const struct {
        const char *op, *few, *many;
        int right;
    } calls[] = {{"eq.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 1},
                 {"le.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 1},
                 {"ge.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 1},
                 {"ne.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 0},
                 {"lt.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 0},
                 {"gt.Scalar", "self=[1] other=0.1", "self=[131] other=0.1", 0},
                 {"hardshrink", "self=[1] lambd=0.1", "self=[131] lambd=0.1", 0},
                 {"softshrink", "self=[1] lambd=0.1", "self=[131] lambd=0.1", 0}};
    for (size_t k = 0; k < sizeof calls / sizeof *calls * 8; k++) {
        struct sample s;
        const char *pattern = k & 4 ? calls[k / 8].many : calls[k / 8].few;
        right = calls[k / 8].right;
        ck_assert_int_eq(sample_init(&s, calls[k / 8].op, pattern, (struct td_sizes){0},
                                     types[k % 4], SAMPLE_PLAIN, 1),
                         0);
        for (int64_t i = 0; i < td_numel(&s.input[0]); i++)
            td_put_real(&s.input[0], i, 0.1);
        each(&s, all_right);
    }
}
END_TEST

/* A product with one element keeps the input, so what a row fuses is seen alone: it is what the
 * operator of that name gives, for NaN and infinities too. */
static struct sample plain;

static void as_the_operator(const struct td_call *call, const char *name)
{
    const float *x = call->arg[0].tensor.data, *want = plain.run.call.out[0].data;
    for (int i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(isnan(want[i]) ? isnan(at(call, i))
                                     : at(call, i) == want[i] || fabsf(at(call, i) - want[i]) <=
                                                                     1e-6f * (1 + fabsf(want[i])),
                      "%s %s(%g) is %g, the operator's is %g", name, call->arg[3].str, x[i],
                      at(call, i), want[i]);
}

START_TEST(test_fused_as_the_operator)
{
    static const char *const calls[][3] = {
        {"relu", "self=[17]", "relu"},       {"silu", "self=[17]", "silu"},
        {"sigmoid", "self=[17]", "sigmoid"}, {"tanh", "self=[17]", "tanh"},
        {"gelu", "self=[17]", "gelu"},       {"gelu", "self=[17] approximate=tanh", "gelu_tanh"},
    };
    float x[17] = {NAN, INFINITY, -INFINITY, 0, 1, -1, 88, -88, -95, -104, 3e38f, -3e38f};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        char pattern[80];
        start(&plain, calls[i][0], calls[i][1], x);
        td_op_best(plain.run.call.op)->run(&plain.run.call);
        struct sample s;
        snprintf(pattern, sizeof pattern, "X=[17,1] W=[1,1] attr=%s", calls[i][2]);
        start(&s, "linear_pointwise", pattern, x);
        *(float *)s.input[1].data = 1;
        each(&s, as_the_operator);
        sample_fini(&plain);
    }
}
END_TEST

START_TEST(test_softmax_without_maximum)
{
    struct sample s;
    float x[33];
    for (int k = 0; k < 3; k++) { /* all -inf; one +inf; one NaN, in the middle */
        for (int i = 0; i < 33; i++)
            x[i] = k ? (float)i : -INFINITY;
        x[20] = k == 0 ? -INFINITY : k == 1 ? INFINITY : NAN;
        start(&s, "softmax.int", "self=[33] dim=0", x);
        each(&s, all_nan);
    }
}
END_TEST

START_TEST(test_empty)
{
    struct sample s;
    start(&s, "sum", "self=[0]", NULL);
    each(&s, all_zero);
    start(&s, "sum.dim_IntList", "self=[3,0,2] dim=[1]", NULL);
    ck_assert_int_eq(td_numel(&s.run.call.out[0]), 6);
    each(&s, all_zero);
    start(&s, "mean.dim", "self=[3,0] dim=[1]", NULL);
    each(&s, all_nan);
    start(&s, "logsumexp", "self=[3,0] dim=[1]", NULL);
    each(&s, all_low);
    start(&s, "amax", "self=[3,0] dim=[0]", NULL);
    each(&s, nothing);
    start(&s, "softmax.int", "self=[3,0] dim=1", NULL);
    each(&s, nothing);
    start(&s, "layer_norm", "input=[0,4] normalized_shape=[4]", NULL);
    each(&s, nothing);
    start(&s, "permute", "self=[2,0] dims=[1,0]", NULL);
    each(&s, nothing);
    start(&s, "add.Tensor", "self=[0,1] other=[1,5]", NULL);
    each(&s, nothing);
}
END_TEST

/* Alternating offset +- 1: mean offset, variance 1, so the result is +-1 but for eps. */
static void alternates(const struct td_call *call, const char *name)
{
    for (int i = 0; i < td_numel(&call->out[0]); i++)
        ck_assert_msg(fabsf(at(call, i) - (i % 2 ? -1 : 1)) < 1e-5f, "%s: element %d is %g", name,
                      i, at(call, i));
}

START_TEST(test_layer_norm_offset)
{
    struct sample s;
    float x[1000];
    for (int i = 0; i < 1000; i++)
        x[i] = 1e6f + (i % 2 ? -1 : 1);
    start(&s, "layer_norm", "input=[1000] normalized_shape=[1000]", x);
    each(&s, alternates);
}
END_TEST

static void is_gelu(const struct td_call *call, const char *name)
{
    for (int i = 0; i < td_numel(&call->out[0]); i++) {
        double x = (double)((const float *)call->arg[0].tensor.data)[i];
        double want = x / 2 * erfc(-x * M_SQRT1_2), off = fabs((double)at(call, i) - want);
        ck_assert_msg(off <= 2.5e-7 * fmax(1, fabs(x)), "%s: gelu(%g) is %g off", name, x, off);
    }
}

START_TEST(test_gelu_error)
{
    struct sample s;
    static float x[20000];
    for (int i = 0; i < 20000; i++)
        x[i] = (float)(i - 10000) * 0.001f;
    start(&s, "gelu", "self=[20000]", x);
    each(&s, is_gelu);
}
END_TEST

static void is_denormal(const struct td_call *call, const char *name)
{
    for (int i = 0; i < 3; i++) { /* exp(-87.5), exp(-95), exp(-103), which sigmoid equals here */
        static const double want[] = {9.982351e-39, 5.521082e-42, 1.852117e-45};
        ck_assert_msg(fabs((double)at(call, i) - want[i]) <= 1.5e-45 + 1e-4 * want[i], "%s: %g",
                      name, at(call, i));
    }
    for (int i = 3; i < 7; i++)
        ck_assert_msg(at(call, i) == 0, "%s: %g", name, at(call, i));
}

START_TEST(test_denormals)
{
    static const char *const ops[] = {"exp", "sigmoid"};
    struct sample s;
    float x[7] = {-87.5f, -95, -103, -104, -105, -1e30f, -INFINITY};
    for (int i = 0; i < 2; i++) {
        start(&s, ops[i], "self=[7]", x);
        each(&s, is_denormal);
    }
}
END_TEST

static void is_apart(const struct td_call *call, const char *name)
{
    static const double want[] = {5e-25, 5e25, 5e25, 5e25, 5e25, 0};
    for (int i = 0; i < 6; i++)
        ck_assert_msg(fabs((double)at(call, i) - want[i]) <= 1e-6 * want[i], "%s: element %d is %g",
                      name, i, (double)at(call, i));
}

static void is_unknown(const struct td_call *call, const char *name)
{
    for (int i = 0; i < 6; i++)
        ck_assert_msg(i == 5 ? isnan((double)at(call, i)) : isinf((double)at(call, i)) || i == 0,
                      "%s: element %d is %g", name, i, (double)at(call, i));
}

/* Distances whose squares, and cubes, FP32 has no room for, or no digits; rows that are one; and
 * two infinite rows, which are no number apart. */
START_TEST(test_far_distances)
{
    static const char *const p[] = {"self=[4,2] p=2.0", "self=[4,2] p=3.0"};
    static const float x[] = {3e-25f, 4e-25f, 0, 0, 3e25f, 4e25f, 3e25f, 4e25f};
    static const float infinite[] = {0, 0, 1, 2, INFINITY, 3, INFINITY, 4};
    float by_cubes[8];
    struct sample s;
    start(&s, "pdist", p[0], x);
    each(&s, is_apart);
    for (int i = 0; i < 8; i++) /* (5, 0) is as far by cubes as (3, 4) is by squares */
        by_cubes[i] = i % 2 ? 0 : (float)(x[i] / 3 * 5);
    start(&s, "pdist", p[1], by_cubes);
    each(&s, is_apart);
    for (int i = 0; i < 2; i++) {
        start(&s, "pdist", p[i], infinite);
        each(&s, is_unknown);
    }
}
END_TEST

START_TEST(test_refusals)
{
    static const struct {
        const char *op, *pattern, *words[3];
    } calls[] = {
        {"softmax.int", "self=[2,3] dim=2", {"dim: ", "rank 2", "-2 to 1"}},
        {"softmax.int", "self=[2,3] dim=-3", {"dim: ", "-3", "-2 to 1"}},
        {"softmax.int", "self=[2,3] dim=0 dtype=INT64", {"dtype: ", "INT64", "FP32"}},
        {"sum.dim_IntList", "self=[2,3] dim=[0,-2]", {"dim: ", "twice", "once"}},
        {"sum.dim_IntList", "self=[2,3] dim=[9]", {"dim: ", "9", "-2 to 1"}},
        {"amax", "self=[2,0] dim=[1]", {"self: ", "dimension 1", "at least 1"}},
        {"argmin", "self=[0] dim=None", {"self: ", "no elements", "at least 1"}},
        {"linalg_vector_norm", "self=[0] ord=-1", {"self: ", "dimension 0", "at least 1"}},
        {"max.dim", "self=[2,3] dim=2", {"dim: ", "rank 2", "-2 to 1"}},
        {"cumsum", "self=[2,3] dim=-3", {"dim: ", "-3", "-2 to 1"}},
        {"_softmax", "self=[3] dim=0 half_to_float=True", {"half_to_float: ", "True", "False"}},
        {"transpose.int", "self=[2,3] dim0=0 dim1=5", {"dim1: ", "5", "-2 to 1"}},
        {"permute", "self=[2,3] dims=[0]", {"dims: ", "1 ", "2"}},
        {"permute", "self=[2,3] dims=[0,0]", {"dims: ", "twice", "once"}},
        {"layer_norm", "input=[2,3] normalized_shape=[2]", {"normalized_shape: ", "2", "3"}},
        {"layer_norm", "input=[3] normalized_shape=[3] weight=[2]", {"weight: ", "shape", "shape"}},
        {"gelu", "self=[2] approximate=sigmoid", {"approximate: ", "sigmoid", "'tanh'"}},
        {"mul.Tensor", "self=[2] other=[3]", {"broadcast", "2", "3"}},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        struct sample s;
        ck_assert_int_eq(sample_init(&s, calls[i].op, calls[i].pattern, (struct td_sizes){0},
                                     TD_f32, SAMPLE_PLAIN, 1),
                         -EINVAL);
        for (int w = 0; w < 3; w++)
            ck_assert_msg(strstr(s.run.problem.text, calls[i].words[w]) != NULL,
                          "%s: \"%s\" misses %s", calls[i].pattern, s.run.problem.text,
                          calls[i].words[w]);
        sample_fini(&s);
    }
}
END_TEST

int main(void)
{
    sample_start();
    Suite *suite = suite_create("values");
    TCase *tc = tcase_create("values");
    tcase_add_test(tc, test_nan_passes);
    tcase_add_test(tc, test_zeros);
    tcase_add_test(tc, test_compared_numbers);
    tcase_add_test(tc, test_fused_as_the_operator);
    tcase_add_test(tc, test_softmax_without_maximum);
    tcase_add_test(tc, test_empty);
    tcase_add_test(tc, test_layer_norm_offset);
    tcase_add_test(tc, test_gelu_error);
    tcase_add_test(tc, test_denormals);
    tcase_add_test(tc, test_far_distances);
    tcase_add_test(tc, test_refusals);
    suite_add_tcase(suite, tc);
    return td_run_suite(suite);
}
