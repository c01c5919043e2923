/* Which steps that move elements become views in a plan, and that the numbers stay, bit for bit. */
#include "tests/dispatch/model_test.h"

#define N 120

/* Formulas over the input a, of N elements, and the results of the last one, b, and of that before
 * it, c: steps that are left of them, that became views, that did not, and why the first one did
 * not. */
static const struct {
    const char *formula[4];
    int left, done, refused;
    const char *why;
} cases[] = {
    {{"reshape(a, [10, 12])", "slice(b, 1, 2, 10, 1) + 1"}, 1, 1, 0, ""},
    {{"reshape(a, [10, 12])", "slice(b, 0, 1, 9, 2) * slice(b, 0, 2, 10, 2)"}, 1, 2, 0, ""},
    {{"reshape(a, [10, 12])", "flip(b, [1]) - b"}, 1, 1, 0, ""},
    {{"select(reshape(a, [6, 20]), 1, 3)", "expand(unsqueeze(b, 1), [6, 5]) * 2"}, 1, 2, 0, ""},
    {{"permute(reshape(a, [2, 3, 2, 10]), [2, 0, 1, 3])", "b * b + 1"}, 2, 1, 0, ""},
    {{"permute(reshape(a, [2, 3, 4, 5]), [2, 0, 1, 3])", "b + 1"},
     2,
     0,
     1,
     "it lies in short runs, or far apart: a copy costs less"},
    {{"diagonal(reshape(a, [2, 6, 10]), 1, 1, 2)", "stack([b, b])"}, 1, 1, 0, ""},
    /* views of views, which are seen in other shapes */
    {{"permute(reshape(a, [2, 3, 4, 5]), [0, 2, 1, 3])", "narrow(reshape(b, [8, 3, 5]), 0, 3, 2)",
      "b + 1"},
     2,
     0,
     1,
     "who reads it sees it in a shape that no strides have"},
    {{"permute(reshape(a, [2, 3, 4, 5]), [1, 0, 2, 3])",
      "slice(reshape(b, [3, 2, 20]), 1, 1, 2, 1)", "b + 1"},
     1,
     2,
     0,
     ""},
    {{"transpose(reshape(a, [3, 4, 10]), 0, 1)", "reshape(b, [2, 2, 3, 10])", "select(b, 0, 1)",
      "b + 1"},
     1,
     1,
     0,
     ""},
    /* a copy is made of what lies apart, but a copy of a copy is one */
    {{"transpose(reshape(a, [5, 24]), 0, 1)", "b + 1"},
     2,
     0,
     1,
     "it lies in short runs, or far apart: a copy costs less"},
    /* but by squares it is read where it lies */
    {{"cat([a, a, a])", "transpose(reshape(b, [18, 20]), 0, 1)", "b + 1"}, 2, 1, 0, ""},
    {{"cat([a, a, a])", "transpose(reshape(b, [18, 20]), 0, 1)", "sum(b + 1, [1])"},
     4,
     0,
     1,
     "its elements are apart, and a copy serves several steps, or a reduction"},
    {{"cat([a, a, a])", "transpose(reshape(b, [18, 20]), 0, 1)", "(b + 1) * cumsum(b * 2, 0) - b"},
     7,
     0,
     1,
     "its elements are apart, and a copy serves several steps, or a reduction"},
    {{"transpose(reshape(a, [10, 12]), 0, 1)", "cat([b, flip(b, [0])])"}, 1, 2, 0, ""},
    {{"transpose(reshape(a, [3, 4, 10]), 0, 1)", "permute(b, [2, 1, 0])"},
     1,
     1,
     1,
     "it is a result of the model"},
    /* one copy for all, where somebody wants one */
    {{"slice(reshape(a, [10, 12]), 1, 2, 10, 1)", "b + cumsum(b, 1)"},
     3,
     0,
     1,
     "who reads it takes no strides"},
    /* what is seen through a view lives as long as that */
    {{"reshape(a, [10, 12]) * 3", "cumsum(cumsum(cumsum(b, 0), 1), 0)",
      "slice(b, 1, 0, 8, 1) + slice(c, 1, 2, 10, 1)"},
     5,
     2,
     0,
     ""},
    /* a view of what is made just before is not read in that one's order */
    {{"reshape(a, [2, 2, 30])", "b * 3", "transpose(b, 0, 1) - b"}, 2, 1, 0, ""},
    /* matrices where they lie: heads beside one another, columns, slices; but not a first factor's
     * columns where rows are read */
    {{"permute(reshape(a, [5, 2, 3, 4]), [1, 2, 0, 3])",
      "matmul(select(b, 0, 0), transpose(select(b, 0, 1), 1, 2))"},
     1,
     2,
     0,
     ""},
    {{"reshape(a, [10, 12])",
      "linear(slice(b, 1, 2, 10, 1), slice(b, 1, 4, 12, 1), select(b, 1, 0))"},
     2,
     2,
     1,
     "who reads it does not take these strides"},
    {{"reshape(a, [10, 12])", "addmm(slice(b, 1, 2, 12, 1), b, reshape(a, [12, 10]))"},
     1,
     1,
     0,
     ""},
    {{"permute(reshape(a, [5, 3, 2, 4]), [1, 2, 0, 3])",
      "scaled_dot_product_attention(select(b, 0, 0), select(b, 0, 1), select(b, 0, 2))"},
     1,
     1,
     0,
     ""},
    {{"transpose(reshape(a, [3, 5, 8]), 1, 2)", "matmul(b, reshape(a, [3, 5, 8]))"},
     2,
     0,
     1,
     "who reads it does not take these strides"},
    /* rows to be reduced, which may lie apart, but not their elements */
    {{"reshape(a, [2, 5, 12])", "sum(slice(b, 2, 2, 10, 1), [0, 2]) + amax(slice(b, 1, 1, 3, 1))"},
     3,
     2,
     0,
     ""},
    {{"reshape(a, [3, 5, 8])",
      "softmax(slice(b, 1, 1, 5, 2), -1) + layer_norm(slice(b, 1, 0, 4, 2), [8]) + "
      "log_softmax(slice(b, 1, 3, 5, 1), 0)"},
     5,
     3,
     0,
     ""},
    /* whose squares FP32 does not hold */
    {{"reshape(a * 1e37, [3, 5, 8])", "layer_norm(slice(b, 1, 0, 4, 2), [8])"}, 2, 1, 0, ""},
    {{"reshape(a, [3, 5, 8])", "layer_norm(transpose(b, 1, 2), [5])"},
     2,
     0,
     1,
     "who reads it does not take these strides"},
    {{"transpose(reshape(a, [10, 12]), 0, 1)", "amax(b, [0])"},
     2,
     0,
     1,
     "who reads it does not take these strides"},
    {{"transpose(reshape(a, [3, 5, 8]), 1, 2)", "scaled_dot_product_attention(b, b, b)"},
     2,
     0,
     1,
     "who reads it does not take these strides"},
};

static void check(int i)
{
    static float x[N], got[4000], wanted[4000];
    begin(1);
    const char *formula = cases[i].formula[1];
    int last = graph_inputs[0], before = last;
    for (int k = 0; k < 4 && cases[i].formula[k]; k++) {
        int now = add(cases[i].formula[k], 3, V(graph_inputs[0], last, before));
        before = last;
        last = now;
    }
    finish(add("reshape(a, [-1])", 1, V(last)));
    for (int turn = 0; turn < 3; turn++) {
        for (int k = 0; k < N; k++)
            x[k] = (float)((k * 7 + turn) % 23) - 11;
        int n = run(x, N, NULL, false, got);
        ck_assert_msg(n > 0, "%s: %s", formula, problem.text);
        ck_assert_int_eq(run(x, N, NULL, true, wanted), n);
        ck_assert_msg(!memcmp(got, wanted, (size_t)n * sizeof *got), "%s: other numbers", formula);
    }
    const struct td_plan *plan = model.plans_;
    const struct td_model_pass *pass = plan->pass;
    int left = 0;
    while (strcmp(pass->name, "views"))
        pass++;
    for (int s = 0; s < plan->n_steps; s++)
        left += plan->step[s].handle != NULL;
    ck_assert_msg(left == cases[i].left && pass->done == cases[i].done &&
                      pass->n_refused == cases[i].refused,
                  "%s: %d left, %d done, %d refused: %s", formula, left, pass->done,
                  pass->n_refused, pass->n_refused ? pass->refused[0].why : "");
    if (*cases[i].why)
        ck_assert_str_eq(pass->refused[0].why, cases[i].why);
    end();
}

START_TEST(test_views)
{
    for (int i = 0; i < (int)(sizeof cases / sizeof *cases); i++)
        check(i);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_views};
    return td_run_tests("views", tests, 1);
}
