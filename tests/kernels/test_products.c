/* kernels: matmul, linear and conv2d beyond what checkimpl asks: each activation on each row, the
 * sentences of calls that are refused, values worked out by hand. */
#include "kernels/post.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- activations ---- */

static const struct {
    const char *op, *arguments;
    struct td_post_op act;
} acts[] = {
    {"linear", "activation=none", {TD_POINT_positive}},
    {"linear", "activation=relu", {TD_POINT_relu}},
    {"linear", "activation=relu6", {TD_POINT_relu6}},
    {"linear", "activation=leaky_relu", {TD_POINT_leaky_relu, {0.01f}}},
    {"linear", "activation=hardtanh", {TD_POINT_clamp, {-1, 1}}},
    {"linear", "activation=hardsigmoid", {TD_POINT_hardsigmoid}},
    {"linear", "activation=hardswish", {TD_POINT_hardswish}},
    {"linear", "activation=sigmoid", {TD_POINT_sigmoid}},
    {"linear", "activation=tanh", {TD_POINT_tanh}},
    {"linear", "activation=silu", {TD_POINT_silu}},
    {"linear", "activation=swish", {TD_POINT_silu}},
    {"linear", "activation=gelu", {TD_POINT_gelu}},
    {"linear", "activation=gelu_tanh", {TD_POINT_gelu_tanh}},
    {"linear_pointwise", "attr=leaky_relu alpha=0.25", {TD_POINT_leaky_relu, {0.25f}}},
    {"linear_pointwise", "attr=hardtanh alpha=-2 beta=3", {TD_POINT_clamp, {-2, 3}}},
    {"linear_pointwise", "attr=gelu algorithm=none", {TD_POINT_gelu}},
    {"linear_pointwise", "attr=gelu algorithm=tanh", {TD_POINT_gelu_tanh}},
    {"linear_pointwise", "attr=swish", {TD_POINT_silu}},
};

/* What the row must give: the same without activation, and then the activation. */
static void judge(const struct td_call *call, const double *plain, const struct td_post_op *act,
                  const char *name)
{
    struct td_post post = {.n = 1, .op = {*act}};
    const float *got = call->out[0].data;
    for (int64_t i = 0; i < td_numel(&call->out[0]); i++) {
        double want = td_post_judge(&post, &call->out[0], i, plain[i]);
        ck_assert_msg(fabs((double)got[i] - want) <= 4e-6 * (1 + fabs(want)),
                      "%s: act(%g) is %g, not %g", name, plain[i], (double)got[i], want);
    }
}

/* IND-4 */
START_TEST(test_activations)
{
    char pattern[200], why[100];
    bool is_linear = !strcmp(acts[_i].op, "linear");
    struct sample plain, s;
    const char *shapes =
        is_linear ? "input=[9,6] weight=[37,6] bias=[37]" : "X=[9,6] W=[37,6] B=[37]";
    snprintf(pattern, sizeof pattern, "%s %s", shapes, acts[_i].arguments);
    int err =
        sample_init(&plain, acts[_i].op, shapes, (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 3);
    ck_assert_int_eq(err, 0);
    err = sample_init(&s, acts[_i].op, pattern, (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 3);
    ck_assert_msg(!err, "%s", s.run.problem.text);
    double want[9 * 37];
    const struct td_impl *ref = s.run.call.op->impls;
    while (ref[1].run)
        ref++;
    ref->run(&plain.run.call);
    for (int i = 0; i < 9 * 37; i++)
        want[i] = (double)((float *)plain.run.call.out[0].data)[i];
    for (const struct td_impl *i = s.run.call.op->impls; i->run; i++) {
        if (!sample_runnable(i, why) || !(i->dtypes & TD_f32))
            continue;
        ck_assert(sample_takes(i, &s.run.call));
        sample_run(i, &s.run.call);
        judge(&s.run.call, want, &acts[_i].act, i->name);
    }
    sample_fini(&plain);
    sample_fini(&s);
}
END_TEST

START_TEST(test_formulas)
{
    static const struct {
        struct td_post_op act;
        double x, y;
    } known[] = {
        {{TD_POINT_relu}, -3, 0},
        {{TD_POINT_relu6}, 7, 6},
        {{TD_POINT_leaky_relu, {0.5f}}, -3, -1.5},
        {{TD_POINT_clamp, {-1, 1}}, -3, -1},
        {{TD_POINT_hardsigmoid}, 1.5, 0.75},
        {{TD_POINT_hardswish}, 1.5, 1.125},
        {{TD_POINT_sigmoid}, 0, 0.5},
        {{TD_POINT_tanh}, 0.5, 0.46211715726000975},
        {{TD_POINT_silu}, 1, 0.7310585786300049},
        {{TD_POINT_gelu}, 1, 0.8413447460685429},
        {{TD_POINT_gelu_tanh}, 1, 0.8411919906082768},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        ck_assert_double_eq_tol(
            td_point_judge(known[i].act.point, (double[3]){known[i].x}, known[i].act.param, TD_f64),
            known[i].y, 1e-14);
}
END_TEST

/* ---- what is refused, and a word of the sentence ---- */

#define OF_8 "x_scale=[]:f32 x_zero_point=[] y_scale=[]:f32 y_zero_point=[] "

static const struct {
    const char *op, *pattern, *word;
} wrong[] = {
    {"matmul", "self=[2,3] other=[4,5]", "other: has 4 rows, self has 3 columns"},
    {"matmul", "self=[3] other=[4]", "other: has 4 rows, self has 3 columns"},
    {"matmul", "self=[] other=[4]", "self: is a single number"},
    {"matmul", "self=[4] other=[]", "other: is a single number"},
    {"matmul", "self=[2,1,3,4] other=[5,3,4,5]", "other: batch dimension 0 is 5, self's is 2"},
    {"linear", "input=[2,3] weight=[4,5]", "weight: has 5 columns, input's last dimension is 3"},
    {"linear", "input=[] weight=[4,5]", "input: is a single number"},
    {"linear", "input=[5] weight=[4,5,5]", "weight: is of rank 3"},
    {"linear", "input=[2,5] weight=[4,5] bias=[5]", "must be of shape [4], one number"},
    {"linear", "input=[2,5] weight=[4,5] bias=[4,1]", "must be of shape [4], one number"},
    {"linear", "input=[2,5] weight=[4,5] activation=relux", "activation: \"relux\" is not known"},
    {"linear", "input=[2,5] weight=[4,5] activation=relux", "relu, relu6, leaky_relu"},
    {"linear", "input=[2,5] weight=[4,5] activation=lt", "activation: \"lt\" is not known"},
    {"linear", "input=[2,5] weight=[4,5] activation=bitwise_not",
     "\"bitwise_not\" has no meaning in floating-point numbers; none, relu"},
    {"linear", "input=[2,5] weight=[4,5] activation=gcd others=[4]", "\"gcd\" has no meaning"},
    {"linear", "input=[2,5] weight=[4,5] activation=relu;", "activation: \";\" is not known"},
    {"linear", "input=[2,5] weight=[4,5] activation=clamp(1", "activation: \"clamp(1\" has other"},
    {"linear", "input=[2,5] weight=[4,5] activation=clamp(1)",
     "activation: \"clamp(1)\" has other"},
    {"linear", "input=[2,5] weight=[4,5] activation=elu(1,2,3,4)", "has other numbers"},
    {"linear", "input=[2,5] weight=[4,5] activation=exp,exp,exp,exp,exp",
     "\"exp\" is one too many"},
    {"linear", "input=[2,5] weight=[4,5] activation=plus", "takes a tensor, and others has no"},
    {"linear", "input=[2,5] weight=[4,5] activation=plus,relu", "activation: \"plus\" takes"},
    {"linear", "input=[2,5] weight=[4,5] activation=tanh,clamp(1,2,3),relu",
     "activation: \"clamp(1,2,3)\" has other"},
    {"linear", "input=[2,5] weight=[4,5] activation=relu others=[4]", "others: has more tensors"},
    {"linear", "input=[2,5] weight=[4,5] activation=plus others=[2]", "others: one is FP32 of 2"},
    {"linear", "input=[2,5] weight=[4,5] activation=plus others=[2,1]", "others: one is FP32 of 2"},
    {"linear", "input=[2,5] weight=[4,5] activation=plus others=[1,2,4]",
     "others: one is FP32 of 8"},
    {"linear_pointwise", "X=[2,5] W=[4,5] attr=cube", "attr: \"cube\""},
    {"linear_pointwise", "X=[2,5] W=[4,5] attr=leaky_relu", "alpha: leaky_relu needs its slope"},
    {"linear_pointwise", "X=[2,5] W=[4,5] attr=hardtanh alpha=1", "alpha, beta: hardtanh needs"},
    {"linear_pointwise", "X=[2,5] W=[4,5] attr=relu alpha=1", "alpha, beta: only leaky_relu"},
    {"linear_pointwise", "X=[2,5] W=[4,5] attr=gelu algorithm=erf", "algorithm: \"erf\""},
    {"_int_mm", "self=[2,3] mat2=[4,5]", "mat2: has 4 rows, self has 3 columns"},
    {"_int_mm", "self=[1,2,3] mat2=[3,5]", "self: is of rank 3"},
    {"_int_mm", "self=[2,3] mat2=[3]", "mat2: is of rank 1"},
    {"qlinear_conv", "x=[1,4,3] " OF_8 "w=[2,3,1,1] w_scale=[]:f32 w_zero_point=[]",
     "x: is of rank 3; its shape must be [n, h, w, c]"},
    {"qlinear_conv", "x=[1,4,4,3] " OF_8 "w=[2,4,1,1] w_scale=[]:f32 w_zero_point=[]",
     "groups: is 1, x has 3 channels"},
    {"qlinear_conv", "x=[1,4,4,3] " OF_8 "w=[2,3,6,1] w_scale=[]:f32 w_zero_point=[]",
     "w: the kernel reaches over 6 elements, and x has 4"},
    {"qlinear_conv", "x=[1,4,4,3] " OF_8 "w=[2,3,1,1] w_scale=[3]:f32 w_zero_point=[]",
     "w_scale: has 3 numbers; one, or one an output channel, is right"},
    {"qlinear_conv", "x=[1,4,4,3] " OF_8 "w=[2,3,1,1] w_scale=[]:f32 w_zero_point=[]:i32",
     "w_zero_point: is INT32; the type of w is right"},
    {"qlinear_conv", "x=[1,4,4,3] " OF_8 "w=[2,3,1,1] w_scale=[]:f32 w_zero_point=[] B=[3]:i32",
     "B: has 3 numbers; [2], one an output channel, is right"},
    {"conv2d", "input=[5,5] weight=[1,1,3,3]", "input: is of rank 2"},
    {"conv2d", "input=[1,5,5] weight=[1,3,3]", "weight: is of rank 3"},
    {"conv2d", "input=[1,3,5,5] weight=[4,2,3,3]", "weight: takes 2 channels in each of 1 groups"},
    {"conv2d", "input=[1,4,5,5] weight=[3,2,3,3] groups=2", "groups: 2 does not divide"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] groups=0", "groups: is 0"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] bias=[3]", "must be of shape [4], one number"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] stride=0", "stride: is 0 in dimension 0"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] stride=[1,-1]", "stride: is -1 in dimension 1"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] padding=-1", "padding: is -1"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,3,3] dilation=0", "dilation: is 0"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,7,3]", "reaches over 7 elements of the height"},
    {"conv2d", "input=[1,4,5,5] weight=[4,4,0,3]", "weight: its height is 0"},
    {"conv2d", "input=[1,4,9,5] weight=[4,4,3,3] dilation=[1,3]",
     "reaches over 7 elements of the "
     "width, and input has 5"},
    {"conv2d", "input=[1,1,1,1] weight=[1,1,1,1] padding=2147483647", "too large"},
    {"conv2d", "input=[1,1,1,1] weight=[1,1,1,1] padding=2147483648", "padding: is 2147483648"},
    {"conv2d", "input=[1,1,1,1] weight=[1,1,1,1] padding=[1,2,3]", "padding"},
};

START_TEST(test_refused)
{
    struct sample s;
    enum td_dtype dtype = *wrong[_i].op == '_' ? TD_i8 : *wrong[_i].op == 'q' ? TD_u8 : TD_f32;
    int err = sample_init(&s, wrong[_i].op, wrong[_i].pattern, (struct td_sizes){0}, dtype,
                          SAMPLE_PLAIN, 1);
    ck_assert_int_eq(err, -EINVAL);
    ck_assert_msg(strstr(s.run.problem.text, wrong[_i].word), "%s %s: '%s' does not say '%s'",
                  wrong[_i].op, wrong[_i].pattern, s.run.problem.text, wrong[_i].word);
    sample_fini(&s);
}
END_TEST

START_TEST(test_mixed_types)
{
    static const char *const ops[][3] = {
        {"matmul", "self", "other"}, {"linear", "input", "weight"}, {"conv2d", "input", "weight"}};
    float data[16] = {0};
    for (int i = 0; i < 3; i++) {
        struct td_run run;
        struct td_tensor a = {.data = data, .dtype = TD_f32, .rank = 4, .shape = {1, 1, 2, 2}};
        struct td_tensor b = a;
        if (i == 1)
            b.rank = 2, b.shape[0] = b.shape[1] = 2;
        b.dtype = TD_bf16;
        struct td_named args[] = {{ops[i][1], {.kind = TD_KIND_tensor, .tensor = a}},
                                  {ops[i][2], {.kind = TD_KIND_tensor, .tensor = b}}};
        ck_assert_int_eq(td_run_bind(&run, ops[i][0], args, 2, NULL), -EINVAL);
        ck_assert_msg(strstr(run.problem.text, "is BF16") && strstr(run.problem.text, "is FP32"),
                      "%s", run.problem.text);
    }
}
END_TEST

/* ---- shapes of results, and whole numbers ---- */

static const struct {
    const char *op, *pattern;
    int rank;
    int64_t shape[4];
} shapes[] = {
    {"matmul", "self=[3] other=[3]", 0, {0}},
    {"matmul", "self=[2,3] other=[3]", 1, {2}},
    {"matmul", "self=[3] other=[3,4]", 1, {4}},
    {"matmul", "self=[3] other=[5,3,4]", 2, {5, 4}},
    {"matmul", "self=[5,2,3] other=[3]", 2, {5, 2}},
    {"matmul", "self=[5,1,2,3] other=[6,3,4]", 4, {5, 6, 2, 4}},
    {"matmul", "self=[0,2,3] other=[3,4]", 3, {0, 2, 4}},
    {"linear", "input=[3] weight=[4,3]", 1, {4}},
    {"linear", "input=[2,5,3] weight=[4,3]", 3, {2, 5, 4}},
    {"linear", "input=[2,3] weight=[3]", 1, {2}},
    {"conv2d", "input=[3,9,8] weight=[4,3,3,3]", 3, {4, 7, 6}},
    {"conv2d", "input=[2,3,9,8] weight=[4,3,3,3] stride=2 padding=1", 4, {2, 4, 5, 4}},
    {"conv2d", "input=[0,3,9,8] weight=[4,3,3,3] dilation=[4,1]", 4, {0, 4, 1, 6}},
};

START_TEST(test_shapes)
{
    struct sample s;
    int err = sample_init(&s, shapes[_i].op, shapes[_i].pattern, (struct td_sizes){0}, TD_f32,
                          SAMPLE_PLAIN, 1);
    ck_assert_msg(!err, "%s: %s", shapes[_i].pattern, s.run.problem.text);
    ck_assert_int_eq(s.run.call.out[0].rank, shapes[_i].rank);
    for (int d = 0; d < shapes[_i].rank; d++)
        ck_assert_int_eq(s.run.call.out[0].shape[d], shapes[_i].shape[d]);
    sample_fini(&s);
}
END_TEST

START_TEST(test_whole_numbers)
{
    int64_t a[] = {1, 2, 3, INT64_MAX, 0, 1}, b[] = {1, 10, 100}, out[2];
    struct td_run run;
    struct td_named args[] = {
        {"self", {.kind = TD_KIND_tensor, .tensor = {a, TD_i64, 2, {2, 3}, NULL}}},
        {"other", {.kind = TD_KIND_tensor, .tensor = {b, TD_i64, 1, {3}, NULL}}}};
    sample_start();
    ck_assert_int_eq(td_run_bind(&run, "matmul", args, 2, NULL), 0);
    size_t scratch;
    ck_assert_int_eq(td_run_select(&run, &scratch), 0);
    run.call.out[0].data = out;
    void *room = aligned_alloc(64, (scratch + 63) / 64 * 64);
    td_run_execute(&run, room);
    td_run_release(&run);
    free(room);
    ck_assert_int_eq(out[0], 321);
    ck_assert_int_eq(out[1], INT64_MIN + 99); /* wraps */
}
END_TEST

/* ---- 8-bit products: each signedness with each, on every row ---- */

static void fill_bytes(uint8_t *p, int n, unsigned seed)
{
    for (int i = 0; i < n; i++)
        p[i] = (uint8_t)(rand_r(&seed) >> 8); /* all of -128 to 127 and 0 to 255 */
}

static int byte(const uint8_t *p, int i, enum td_dtype dtype)
{
    return dtype == TD_i8 ? (int8_t)p[i] : p[i];
}

START_TEST(test_signedness)
{
    enum { M = 45, K = 1103, N = 39 };
    static uint8_t a[M * K], b[K * N];
    static int32_t out[M * N];
    char why[100];
    enum td_dtype type_a = _i & 1 ? TD_u8 : TD_i8, type_b = _i & 2 ? TD_u8 : TD_i8;
    fill_bytes(a, M * K, 1);
    fill_bytes(b, K * N, 2);
    struct td_run run;
    struct td_named args[] = {
        {"self", {.kind = TD_KIND_tensor, .tensor = {a, type_a, 2, {M, K}, NULL}}},
        {"mat2", {.kind = TD_KIND_tensor, .tensor = {b, type_b, 2, {K, N}, NULL}}}};
    ck_assert_int_eq(td_run_bind(&run, "_int_mm", args, 2, NULL), 0);
    run.call.out[0].data = out;
    for (const struct td_impl *row = run.call.op->impls; row->run; row++) {
        if (!sample_runnable(row, why))
            continue;
        memset(out, 0xff, sizeof out);
        sample_run(row, &run.call);
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                int64_t want = 0;
                for (int p = 0; p < K; p++)
                    want += byte(a, i * K + p, type_a) * byte(b, p * N + j, type_b);
                ck_assert_msg(out[i * N + j] == want, "%s@%s [%d,%d] is %d, not %lld", row->name,
                              td_isa_name(row->isa), i, j, out[i * N + j], (long long)want);
            }
    }
}
END_TEST

#define COUNT(list) ((int)(sizeof list / sizeof *list))

int main(void)
{
    Suite *suite = suite_create("products");
    TCase *tcase = tcase_create("products");
    tcase_set_timeout(tcase, 30);
    tcase_add_checked_fixture(tcase, sample_start, NULL);
    tcase_add_loop_test(tcase, test_activations, 0, COUNT(acts));
    tcase_add_test(tcase, test_formulas);
    tcase_add_loop_test(tcase, test_refused, 0, COUNT(wrong));
    tcase_add_test(tcase, test_mixed_types);
    tcase_add_loop_test(tcase, test_shapes, 0, COUNT(shapes));
    tcase_add_test(tcase, test_whole_numbers);
    tcase_add_loop_test(tcase, test_signedness, 0, 4);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
