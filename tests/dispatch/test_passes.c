/* What passes make of a recorded plan, and that the numbers stay. */
#include "tests/dispatch/model_test.h"

#include <math.h>

/* What a convolution, a normalisation and what changes nothing become; and that the numbers stay.
 * read: somebody else reads the convolution, too. */
static void check_norm(const char *conv, bool read, int steps)
{
    float w[2 * 3 * 9], stats[3][4], x[3 * 64], got[2000], wanted[2000];
    for (int i = 0; i < 54; i++)
        w[i] = (float)(i % 7) - 3;
    for (int i = 0; i < 12; i++)
        stats[i / 4][i % 4] = (float)(i % 5) / 4 + 0.5f;
    begin(1);
    bool turned = strstr(conv, "transpose") != NULL;
    int weight = constant_of(w, 4, (int64_t[]){turned ? 3 : 2, turned ? 2 : 3, 3, 3});
    int one[3];
    for (int i = 0; i < 3; i++)
        one[i] = constant_of(stats[i], 1, (int64_t[]){2});
    int image = add("reshape(a, [1, 3, 8, 8])", 1, V(graph_inputs[0]));
    int y = add(conv, 2, V(image, weight));
    int z = add("batch_norm(a, None, b, b, c, False, 0.1, 0.001, False)", 3, V(y, one[1], one[2]));
    int same = add("contiguous(clone(a))", 1, V(z));
    finish(add(read ? "reshape(a + b, [-1])" : "reshape(relu(a), [-1])", read ? 2 : 1, V(same, y)));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 3 * 64; i++)
            x[i] = (float)((i * 7 + turn) % 11) - 5;
        int n = run(x, 3 * 64, NULL, false, got);
        ck_assert_msg(n > 0, "%d %s", n, problem.text);
        ck_assert_int_eq(run(x, 3 * 64, NULL, true, wanted), n);
        for (int i = 0; i < n; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-4f * (1 + fabsf(wanted[i])), "%d: %g %g",
                          i, (double)got[i], (double)wanted[i]);
    }
    const struct td_plan *plan = model.plans_;
    int left = 0;
    for (int s = 0; s < plan->n_steps; s++)
        left += plan->step[s].handle != NULL;
    ck_assert_int_eq(left, steps);
    ck_assert_int_eq(plan->pass[0].done, 2); /* clone, contiguous */
    ck_assert_int_eq(plan->pass[1].done, !read);
    ck_assert_int_eq(plan->pass[1].n_refused, read);
    end();
}

/* IND-14 */
START_TEST(test_norm)
{
    check_norm("conv2d(a, b, None, 1, 1)", false, 2);
    check_norm("conv_transpose2d(a, b, None, [2, 1])", false, 2);
    check_norm("conv2d(a, b, None, 2)", true, 3);
}
END_TEST

static const char batch_norm[] = "batch_norm(a, b, b, b, c, False, 0.1, 0.001, False)";

/* Runs what has been made for the plan that takes formula, and without; they must say the same. */
static void check_same(int64_t n, int steps)
{
    static float x[300], got[2000], wanted[2000];
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 300; i++)
            x[i] = (float)((i * 7 + turn) % 11) - 5;
        int made = run(x, n, NULL, false, got);
        ck_assert_msg(made >= 0, "%s", problem.text);
        ck_assert_int_eq(run(x, n, NULL, true, wanted), made);
        for (int i = 0; i < made; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-4f * (1 + fabsf(wanted[i])), "%d: %g %g",
                          i, (double)got[i], (double)wanted[i]);
    }
    ck_assert_int_eq(model.plans_->pass[1].done, steps);
    end();
}

/* One weight in several shapes and meanings, each with the same normalisation. */
START_TEST(test_norm_of_one_weight)
{
    float w[64], ones[4] = {1, 2, 3, 4};
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i * 5 % 13) - 6;
    begin(1);
    int weight = constant_of(w, 4, (int64_t[]){4, 4, 2, 2});
    int one = constant_of(ones, 1, (int64_t[]){4}), image = graph_inputs[0];
    image = add("reshape(a, [1, 4, 5, 5])", 1, V(image));
    int all = add("reshape(conv_transpose2d(a, b), [-1])", 2, V(image, weight));
    static const char *const formulas[] = {"conv2d(a, b)", "conv_transpose2d(a, b)",
                                           "conv2d(a, reshape(b, [4, 4, 4, 1]))",
                                           "conv2d(a, reshape(b, [4, 4, 1, 4]))"};
    for (int i = 0; i < 4; i++) {
        int y = add(formulas[i], 2, V(image, weight));
        int z = add(batch_norm, 3, V(y, one, one));
        all = add("cat([a, reshape(b, [-1])])", 2, V(all, z));
    }
    finish(all);
    check_same(100, 4);
}
END_TEST

/* Products and sums with constants, one or one a channel, in any order; not what is of the image's
 * shape, nor what others read as well, nor infinite numbers. */
START_TEST(test_affine)
{
    float four[4] = {0.5f, -1, 2, 3}, two = 2, wide[5] = {1, 2, 3, 4, 5}, w[4 * 4 * 4];
    int64_t none[1] = {1};
    for (int i = 0; i < 64; i++)
        w[i] = (float)(i * 5 % 13) / 8 - 0.75f;
    begin(1);
    int weight = constant_of(w, 4, (int64_t[]){4, 4, 2, 2}), one = constant_of(&two, 0, none);
    int image = add("reshape(a, [1, 4, 5, 5])", 1, V(graph_inputs[0]));
    int each = constant_of(four, 4, (int64_t[]){1, 4, 1, 1});
    int bias = constant_of(four, 3, (int64_t[]){4, 1, 1});
    int few = constant_of(four, 1, (int64_t[]){4}), row = constant_of(wide, 1, (int64_t[]){5});
    int a = add("conv2d(a, b, c, 1, 1)", 3, V(image, weight, few));
    a = add("c + b * (a * b)", 3, V(a, each, one)); /* three */
    int b = add("conv_transpose2d(a, b) + c", 3, V(a, weight, bias));
    int c = add("conv2d(a, b) + c", 3, V(b, constant_of(w, 4, (int64_t[]){5, 4, 1, 3}), row));
    int e = add("conv2d(a, b)", 2, V(c, constant_of(w, 4, (int64_t[]){4, 5, 1, 1})));
    int f = add("a * b + a", 2, V(e, one)); /* read twice */
    finish(add("reshape(a, [-1])", 1, V(f)));
    check_same(100, 4);
}
END_TEST

START_TEST(test_affine_without_end)
{
    float w[2] = {0, 1}, most = INFINITY;
    int64_t none[1] = {1};
    begin(1);
    int y = add("conv2d(reshape(abs(a), [1, 1, 4, 5]) + 1, b) * c", 3,
                V(graph_inputs[0], constant_of(w, 4, (int64_t[]){1, 1, 1, 2}),
                  constant_of(&most, 0, none)));
    finish(add("reshape(clamp(a, -1, 1), [-1])", 1, V(y)));
    check_same(20, 0);
}
END_TEST

/* An image alone: what is normalised is its height, which has as many as there are channels. */
START_TEST(test_norm_of_the_height)
{
    float w[4] = {1, -2, 3, 0.5f}, ones[4] = {1, 2, 3, 4};
    begin(1);
    int weight = constant_of(w, 4, (int64_t[]){4, 1, 1, 1});
    int one = constant_of(ones, 1, (int64_t[]){4});
    int y = add("conv2d(reshape(a, [1, 4, 5]), b)", 2, V(graph_inputs[0], weight));
    finish(add("reshape(a, [-1])", 1, V(add(batch_norm, 3, V(y, one, one)))));
    check_same(20, 0);
}
END_TEST

START_TEST(test_norm_of_no_weight)
{
    float none = 0, ones[4] = {1, 2, 3, 4};
    begin(1);
    int weight = constant_of(&none, 4, (int64_t[]){4, 0, 1, 1});
    int one = constant_of(ones, 1, (int64_t[]){4});
    int y =
        add("conv2d(narrow(reshape(a, [1, 1, 4, 5]), 1, 0, 0), b)", 2, V(graph_inputs[0], weight));
    finish(add("reshape(a, [-1])", 1, V(add(batch_norm, 3, V(y, one, one)))));
    check_same(20, 0);
}
END_TEST

/* Chains, with what is read from outside, from before, and by the output. IND-42 */
START_TEST(test_fused)
{
    static float x[5000], got[10000], wanted[10000];
    begin(1);
    int a = add("a * a", 1, V(graph_inputs[0]));
    int b = add("unsqueeze(a, 0) + 1", 1, V(a)); /* a leading 1 changes no element */
    int c = add("sigmoid(a) - b", 2, V(b, a));
    int total = add("sum(a)", 1, V(c));
    int d = add("a * b", 2, V(c, total));
    int e = add("relu(a) + b", 2, V(d, b));
    finish(add("reshape(cat([a, b]), [-1])", 2, V(e, d)));
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < 5000; i++)
            x[i] = (float)((i * 13 + turn) % 17) / 8 - 1;
        ck_assert_msg(run(x, 5000, NULL, false, got) == 10000, "%s", problem.text);
        ck_assert_int_eq(run(x, 5000, NULL, true, wanted), 10000);
        ck_assert_int_eq(memcmp(got, wanted, sizeof got), 0);
    }
    struct td_model_plan plan = {.of_ = model.plans_};
    int with[16];
    for (int i = 0; i < model.plans_->n_steps; i++)
        with[i] = model.plans_->step[i].with;
    ck_assert_int_eq(model.plans_->n_steps, 9);
    for (int i = 0; i < 5; i++)
        ck_assert_int_eq(with[i], 4); /* mul, add, sigmoid, sub, sum */
    for (int i = 5; i < 8; i++)
        ck_assert_int_eq(with[i], 7);         /* mul, relu, add */
    ck_assert(plan.of_->value[3 + 0].inside); /* the sigmoid's argument */
    end();
}
END_TEST

static const struct td_model_pass *pass_called(const char *name)
{
    const struct td_plan *plan = model.plans_;
    int i = 0;
    while (i < plan->n_passes && strcmp(plan->pass[i].name, name) != 0)
        i++;
    ck_assert_int_lt(i, plan->n_passes);
    return &plan->pass[i];
}

/* Four runs, as planned and not; where odd, NaN is among the input, and must come out alike. */
static void check_runs(int64_t n, bool odd)
{
    static float x[600], got[4000], wanted[4000];
    ck_assert_int_le(n, 600);
    for (int turn = 0; turn < 4; turn++) {
        for (int i = 0; i < n; i++)
            x[i] = (float)((i * 7 + turn) % 11) / 5 - 1;
        x[n / 2] = odd ? NAN : x[n / 2];
        int made = run(x, n, NULL, false, got), nans = 0;
        ck_assert_msg(made > 0, "%s", problem.text);
        ck_assert_int_eq(run(x, n, NULL, true, wanted), made);
        for (int i = 0; i < made; i++) {
            ck_assert_msg(isnan(got[i]) == isnan(wanted[i]) &&
                              !(fabsf(got[i] - wanted[i]) > 1e-5f * (1 + fabsf(wanted[i]))),
                          "%d: %g %g", i, (double)got[i], (double)wanted[i]);
            nans += isnan(wanted[i]);
        }
        ck_assert_int_eq(nans > 0, odd);
    }
}

/* What is behind convolutions and linears and goes into them, and what stays. */
START_TEST(test_posts)
{
    float slope[4] = {0.5f, -1, 2, 0}, low = -0.5f, high = 0.25f, scale = 3, bias[4] = {1, 2, 3, 4};
    int64_t one[1] = {1};
    begin(1);
    int w = weight_of(4, 4, 1), k = constant_of(slope, 4, (int64_t[]){1, 4, 1, 1});
    int limits[] = {constant_of(&low, 0, one), constant_of(&high, 0, one)};
    int image = add("permute(reshape(a, [2, 9, 10, 3]), [0, 3, 1, 2])", 1, V(graph_inputs[0]));
    int a = add("relu(conv2d(a, b, None, 1, 1))", 2, V(image, weight_of(4, 3, 3)));
    int c = add("relu(a + conv2d(a, b))", 2, V(a, w)); /* the residual first */
    int d = add("_prelu_kernel(conv2d(a, b), c)", 3, V(c, w, k));
    int e =
        add("clamp.Tensor(a, b, c)", 3, V(add("conv2d(a, b)", 2, V(d, w)), limits[0], limits[1]));
    int f = add("conv2d(a, b)", 2, V(e, w));
    int g = add("sigmoid(conv2d(a, b))", 2, V(f, w)); /* which no library does well */
    int h = add("relu(conv2d(a, b)) + c", 3, V(g, w, f));
    int i = add("hardswish(relu(leaky_relu(conv2d(a, b) * c, 0.1) - 0.5)) / 2", 3,
                V(h, w, constant_of(&scale, 0, one))); /* one too many */
    int rows = add("reshape(a, [-1, 4])", 1, V(i));
    int weight = add("reshape(a, [4, 4])", 1, V(w));
    int j = add("relu(linear(a, b) + c)", 3, V(rows, weight, constant_of(bias, 1, (int64_t[]){4})));
    finish(add("reshape(a, [-1])", 1, V(j)));
    check_runs(540, false);
    ck_assert_int_eq(pass_called("products")->done, 1); /* the bias */
    ck_assert_int_eq(pass_called("post_ops")->done, 1 + 2 + 1 + 1 + 2 + 4 + 1);
    ck_assert_int_eq(pass_called("post_ops")->n_refused, 2);
    ck_assert_str_eq(pass_called("post_ops")->refused[1].why, "four others follow already");
    ck_assert_int_eq(count_steps("div"), 1);
    ck_assert_int_eq(count_steps("sigmoid"), 1);
    ck_assert_int_eq(count_steps("add") + count_steps("relu") + count_steps("clamp"), 0);
    end();
}
END_TEST

/* NaN goes through what the library applies to it. */
START_TEST(test_posts_keep_nan)
{
    begin(1);
    int image = add("permute(reshape(a, [2, 9, 10, 3]), [0, 3, 1, 2])", 1, V(graph_inputs[0]));
    int a = add("relu(conv2d(a, b, None, 1, 1))", 2, V(image, weight_of(4, 3, 3)));
    int b = add("hardswish(conv2d(a, b))", 2, V(a, weight_of(4, 4, 1)));
    finish(add("reshape(relu(conv2d(a, b) + a), [-1])", 2, V(b, weight_of(4, 4, 1))));
    check_runs(540, true);
    ck_assert_int_eq(pass_called("post_ops")->done, 4);
    end();
}
END_TEST

/* A depthwise convolution by a kernel of ours, its dilation wider than its input. */
START_TEST(test_posts_without_library)
{
    begin(1);
    int image = add("permute(reshape(a, [2, 9, 10, 3]), [0, 3, 1, 2])", 1, V(graph_inputs[0]));
    int a = add("conv2d(a, b, None, 1, 1)", 2, V(image, weight_of(4, 3, 3)));
    float w[4 * 6];
    for (int i = 0; i < 24; i++)
        w[i] = (float)(i % 7) - 3;
    int wide = constant_of(w, 4, (int64_t[]){4, 1, 2, 3});
    int b = add("relu(conv2d(a, b, None, 1, [44, 1], [80, 1], 4))", 2, V(a, wide));
    finish(add("reshape(conv2d(a, b), [-1])", 2, V(b, weight_of(4, 4, 1))));
    check_runs(540, false);
    ck_assert_int_eq(pass_called("post_ops")->done, 1);
    ck_assert_int_eq(count_steps("relu"), 0);
    end();
}
END_TEST

/* What is made between the convolution and its follower comes too late, but the other way round
 * it does not; and what is read twice stays. IND-11 */
START_TEST(test_posts_of_two)
{
    begin(1);
    int image = add("permute(reshape(a, [2, 9, 10, 3]), [0, 3, 1, 2])", 1, V(graph_inputs[0]));
    int a = add("conv2d(a, b, None, 1, 1)", 2, V(image, weight_of(4, 3, 3)));
    int b = add("conv2d(a, b, None, 1, 1)", 2, V(image, weight_of(4, 3, 3)));
    int c = add("relu(a + b)", 2, V(a, b));
    int d = add("conv2d(a, b)", 2, V(c, weight_of(4, 4, 1)));
    finish(add("reshape(relu(a) * a, [-1])", 1, V(d)));
    check_runs(540, false);
    ck_assert_int_eq(pass_called("post_ops")->done, 2);
    ck_assert_int_eq(pass_called("post_ops")->n_refused, 0);
    end();
}
END_TEST

/* Products by constants become dense and take biases; others say why they do not. */
START_TEST(test_products)
{
    static const char *const why[] = {"its second factor is no constant", "its first is a constant",
                                      "what it adds is no vector of constants",
                                      "its second factor is no constant matrix of FP32"};
    float number[16] = {1, -2, 3, 0.5f, 2, -1, 0.25f, 1, -3, 2, 1, 0.5f, -1, 2, 0, 1};
    int64_t sizes[] = {4, 3, 4, 4, 1, 4};
    begin(1);
    int w = constant_of(number, 2, sizes), v = constant_of(number, 2, sizes + 1);
    int square = constant_of(number, 2, sizes + 2), rows = constant_of(number, 2, sizes + 4);
    int row = constant_of(number, 1, sizes + 1), four = constant_of(number, 1, sizes);
    int image = add("reshape(a, [3, 45, 4])", 1, V(graph_inputs[0]));
    int a = add("relu(matmul(a, b) + c)", 3, V(image, w, row));
    int b = add("c + mm(reshape(a, [135, 3]), b)", 3, V(a, v, rows)); /* the bias alone */
    int c = add("relu6(addmm(b, a, c))", 3, V(b, four, square));
    int d = add("mm(a, b)", 2, V(c, square)); /* nothing pointwise follows */
    int e = add("relu(matmul(mm(transpose(a, 0, 1), a), b))", 2, V(d, square));
    int f = add("relu(mm(transpose(a, 0, 1), a))", 1, V(c));
    int g = add("relu(matmul(b, a))", 2, V(e, square));
    int h = add("relu(addmm(b, a, c))", 3, V(f, square, square));
    int i = add("relu(matmul(a, b))", 2, V(image, four));
    finish(add("cat([reshape(a, [-1]), reshape(b, [-1]), reshape(c, [-1])])", 3, V(g, h, i)));
    check_runs(540, false);
    ck_assert_int_eq(pass_called("products")->done, 2 + 2 + 1 + 1);
    ck_assert_int_eq(pass_called("products")->n_refused, 4);
    for (int k = 0; k < 4; k++)
        ck_assert_str_eq(pass_called("products")->refused[k].why, why[k]);
    ck_assert_int_eq(count_steps("dense"), 4);
    end();
}
END_TEST

/* What others read, too, stays; what is added may be a part of something. IND-10 */
START_TEST(test_posts_beside_readers)
{
    begin(1);
    int rows = add("reshape(a, [270, 2])", 1, V(graph_inputs[0]));
    int weight = add("reshape(a, [2, 2])", 1, V(weight_of(4, 1, 1)));
    int a = add("linear(a, b)", 2, V(rows, weight));
    int b = add("sum(a, [0])", 1, V(a)), c = add("relu(a)", 1, V(a));
    int part = add("linear(narrow(a, 0, 10, 9), b) + narrow(c, 0, 3, 9)", 3, V(c, weight, rows));
    finish(add("reshape(cat([a, b * c]), [-1])", 3, V(c, b, part)));
    check_runs(540, false);
    ck_assert_int_eq(pass_called("post_ops")->done, 2);
    ck_assert_int_eq(count_steps("relu"), 1);
    end();
}
END_TEST

/* hardswish as files spell it, and what only looks like it. */
START_TEST(test_idioms)
{
    float six = 6, zero = 0;
    int64_t one[1] = {1};
    begin(1);
    int n = constant_of(&six, 0, one), z = constant_of(&zero, 0, one), x = graph_inputs[0];
    int a = add("a * clamp(a + 3, 0, 6) / b", 2, V(x, n));
    int b = add("clamp.Tensor(a + 3, b, c) * a / 6", 3, V(a, z, n));
    int c = add("a * relu6(a + 3) / 6", 1, V(b));
    int d = add("b * clamp(a + 3, 0, 6) / 6", 2, V(c, x));
    int e = add("a * clamp(a + 3, 0, 5) / 6", 1, V(d));
    int f = add("a * clamp(a + 2, 0, 6) / 6", 1, V(e));
    finish(add("a * clamp(a + 3, 0, 6) / 5", 1, V(f)));
    check_runs(540, true);
    ck_assert_int_eq(pass_called("idioms")->done, 3);
    ck_assert_int_eq(count_steps("hardswish"), 3);
    ck_assert_int_eq(count_steps("div"), 4);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_norm, test_norm_of_one_weight, test_affine, test_affine_without_end,
        test_norm_of_the_height, test_norm_of_no_weight, test_fused, test_posts_beside_readers,
        test_products, test_idioms,
        /* with post-ops of a convolution, which need AVX2: */
        test_posts, test_posts_keep_nan, test_posts_without_library, test_posts_of_two};
    struct td_cpu cpu; /* apart from the process's, which test_machine is the first to ask for */
    int err = td_cpu_detect(&cpu, &td_cpuid_native, NULL, &problem);
    size_t left = err || cpu.cpu_levels >> TD_ISA_avx2 & 1 ? 0 : 4;
    fputs(left ? "not tried: the last four, which need AVX2\n" : "", stdout);
    return td_run_tests("passes", tests, sizeof tests / sizeof *tests - left);
}
