/* Turning convolutions, and what goes along with them, to channels last; and that the numbers stay.
 */
#include "tests/dispatch/model_test.h"

#include <math.h>

/* A call in place, as archives have them. */
static int lower_in_place(struct td_walk *walk, const struct td_node *node,
                          const struct td_item *in, struct td_item *out)
{
    return TD_CALL(walk, node->form, out, {NULL, in[0]});
}

static int add_in_place(const char *op, int value)
{
    int result = add(op, 1, V(value));
    nodes[model.graph.n_nodes - 1].lower = lower_in_place;
    return result;
}

/* A network with what goes along with its convolutions, and what does not. */
START_TEST(test_channels_last)
{
    static float x[2 * 9 * 10 * 3], got[4000], wanted[4000];
    float scale[4] = {1, 2, -1, 0.5f};
    begin(1);
    int image = add("permute(reshape(a, [2, 9, 10, 3]), [0, 3, 1, 2])", 1, V(graph_inputs[0]));
    int first = add("conv2d(a, b, None, 1, 1)", 2, V(image, weight_of(4, 3, 3)));
    int a = add_in_place("hardswish_", first);
    int b = add("conv2d(a, b, None, 1, 1, 1, 4)", 2, V(a, weight_of(4, 1, 3)));
    int k = constant_of(scale, 4, (int64_t[]){1, 4, 1, 1});
    int c = add("relu(a * b + c)", 3, V(b, k, a)); /* what lies last in both */
    int pooled = add("sigmoid(conv2d(mean(a, [2, 3], True), b))", 2, V(c, weight_of(4, 4, 1)));
    int d = add("a * b", 2, V(c, pooled));
    int e = add("cat([a, b], 1)", 2, V(d, a));
    int pools =
        add("avg_pool2d(max_pool2d(constant_pad_nd(a, [1, 0, 1, 1], -9), [2, 1], [1, 2]), 2, "
            "1, 1)",
            1, V(e));
    int f = add("flip(max_pool2d(a, 2), [2])", 1, V(pools)); /* wants channels first */
    int g = add("convolution(a, b, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 1)", 2,
                V(f, weight_of(5, 8, 2)));
    int turned = add("permute(a, [0, 2, 3, 1])", 1, V(g));
    int h = add("reshape(softmax(a, -1), [-1])", 1, V(turned));
    int whole = add("reshape(adaptive_avg_pool2d(a, 1), [-1])", 1, V(g));
    finish(add("cat([a, b, reshape(c, [-1])])", 3, V(h, whole, g)));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 2 * 9 * 10 * 3; i++)
            x[i] = (float)((i * 7 + turn) % 11) / 5 - 1;
        int n = run(x, 2 * 9 * 10 * 3, NULL, false, got);
        ck_assert_msg(n > 0, "%s", problem.text);
        ck_assert_int_eq(run(x, 2 * 9 * 10 * 3, NULL, true, wanted), n);
        for (int i = 0; i < n; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-5f * (1 + fabsf(wanted[i])), "%d: %g %g",
                          i, (double)got[i], (double)wanted[i]);
    }
    ck_assert_int_eq(count_steps("conv2d"), 0);
    ck_assert_int_eq(count_steps("conv2d_channels_last"), 3);
    ck_assert_int_eq(count_steps("linear"), 1); /* of what is pooled */
    /* The input's, which is of another shape, and back; before the pool and behind it; and what
     * lies channels first in the result: of these five, three are read by strides. */
    ck_assert_int_eq(count_steps("permute"), 2);
    ck_assert_int_eq(count_steps("adaptive_avg_pool2d"), 0);
    ck_assert_int_eq(count_steps("max_pool3d"), 2);
    ck_assert_int_eq(count_steps("avg_pool3d"), 1);
    ck_assert_int_eq(count_steps("mean"), 2);
    end();
}
END_TEST

/* Of images of one pixel a convolution by one pixel is linear, but in groups or with padding. */
START_TEST(test_convolutions_of_a_pixel)
{
    static float x[2 * 8], got[400], wanted[400];
    begin(1);
    int image = add("reshape(a, [2, 8, 1, 1]) * 2", 1, V(graph_inputs[0]));
    int a =
        add("relu(conv2d(a, b, c, 2))", 3,
            V(image, weight_of(12, 8, 1), constant_of((float[12]){1, -2, 3}, 1, (int64_t[]){12})));
    int b = add("conv2d(a, b, None, 1, 0, 1, 4)", 2, V(a, weight_of(4, 3, 1)));
    int c = add("convolution(a, b, None, [1, 1], [1, 0], [1, 1], False, [0, 0], 1)", 2,
                V(b, weight_of(5, 4, 1)));
    int d = add("convolution(a, b, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)", 2,
                V(b, weight_of(5, 4, 1)));
    finish(add("cat([reshape(a, [-1]), reshape(b, [-1]), reshape(c, [-1])])", 3, V(b, c, d)));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 16; i++)
            x[i] = (float)((i * 7 + turn) % 11) / 5 - 1;
        int n = run(x, 16, NULL, false, got);
        ck_assert_msg(n > 0, "%s", problem.text);
        ck_assert_int_eq(run(x, 16, NULL, true, wanted), n);
        for (int i = 0; i < n; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) < 1e-5f, "%d: %g, not %g", i, (double)got[i],
                          (double)wanted[i]);
    }
    ck_assert_int_eq(count_steps("linear"), 2);
    ck_assert_int_eq(count_steps("conv2d_channels_last"), 2);
    end();
}
END_TEST

/* A folded normalisation has results that no step makes any more. */
START_TEST(test_folded_norm)
{
    static float x[3 * 64], got[400], wanted[400];
    begin(1);
    int image = add("reshape(a, [1, 3, 8, 8]) * 2", 1, V(graph_inputs[0]));
    int one = constant_of((float[4]){0.5f, 1, 2, 1.5f}, 1, (int64_t[]){4});
    int a = add("conv2d(a, b, None, 1, 1)", 2, V(image, weight_of(4, 3, 3)));
    int b = add("_native_batch_norm_legit_no_training(a, b, b, b, b, 0.1, 0.001)[0]", 2, V(a, one));
    finish(add("reshape(relu(a), [-1])", 1, V(b)));
    for (int turn = 0; turn < 3; turn++) {
        for (int i = 0; i < 3 * 64; i++)
            x[i] = (float)((i * 7 + turn) % 11) / 5 - 1;
        int n = run(x, 3 * 64, NULL, false, got);
        ck_assert_msg(n > 0, "%s", problem.text);
        ck_assert_int_eq(run(x, 3 * 64, NULL, true, wanted), n);
        for (int i = 0; i < n; i++)
            ck_assert_msg(fabsf(got[i] - wanted[i]) <= 1e-5f * (1 + fabsf(wanted[i])), "%d: %g %g",
                          i, (double)got[i], (double)wanted[i]);
    }
    ck_assert_int_eq(count_steps("_native_batch_norm_legit_no_training"), 0);
    ck_assert_int_eq(count_steps("conv2d_channels_last"), 1);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_channels_last, test_convolutions_of_a_pixel,
                                  test_folded_norm};
    return td_run_tests("layout", tests, sizeof tests / sizeof *tests);
}
