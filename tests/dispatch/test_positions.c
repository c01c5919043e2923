/* Plans for positions that come again: each has one, and none has a copy of what all read. */
#include "tests/dispatch/model_test.h"

enum { WIDTH = 64, LENGTH = 256, FIRST = 16, LAST = 135 };

static float cache[LENGTH * WIDTH], x[WIDTH], got[LENGTH], want[LENGTH];

static void run_at(int64_t position, bool eager, float *result)
{
    const struct td_tensor at = {.data = &position, .dtype = TD_i64};
    ck_assert_msg(run(x, WIDTH, &at, eager, result) == position, "%s", problem.text);
}

/* Scores of a query against so many rows of a cache, as a step of decoding has them. */
START_TEST(test_positions)
{
    for (int i = 0; i < LENGTH * WIDTH; i++)
        cache[i] = (float)(i % 11 - 5);
    for (int i = 0; i < WIDTH; i++)
        x[i] = (float)(i % 3 + 1);
    begin(2);
    int keys = add_counted("permute(slice(reshape(a, [256, 64]), 0, 0, n), [1, 0])",
                           graph_inputs[1], constant(cache, LENGTH * WIDTH));
    finish(add("reshape(matmul(reshape(a, [1, 64]), b), [-1])", 2, V(graph_inputs[0], keys)));
    for (int turn = 0; turn < 4; turn++)
        for (int position = FIRST; position <= LAST; position++) {
            run_at(position, true, want);
            run_at(position, false, got);
            ck_assert(!memcmp(got, want, (size_t)position * sizeof *got));
        }
    int n = 0;
    for (const struct td_plan *plan = model.plans_; plan; plan = plan->next, n++) {
        ck_assert_str_eq(plan->refused, "");
        ck_assert_int_eq(plan->n_held, 0); /* it has no tensor of its own */
        for (int s = 0; s < plan->n_steps; s++)
            ck_assert(!plan->step[s].handle ||
                      strcmp(plan->step[s].handle->schema.name, "permute") != 0);
    }
    ck_assert_int_eq(n, LAST - FIRST + 1); /* whose hashes end alike, too */
    ck_assert_int_eq(model.recorded_, n + 1);
    end();
}
END_TEST

/* A whole constant is copied in the strides that its readers like best. */
START_TEST(test_whole_constant)
{
    begin(2);
    int all = add("permute(reshape(a, [256, 64]), [1, 0])", 1, V(constant(cache, LENGTH * WIDTH)));
    int scores = add("matmul(reshape(a, [1, 64]), b)", 2, V(graph_inputs[0], all));
    finish(add_counted("slice(reshape(a, [-1]), 0, 0, n)", graph_inputs[1], scores));
    for (int turn = 0; turn < 4; turn++)
        run_at(20, false, got);
    ck_assert_int_eq(model.plans_->n_held, 1);
    ck_assert_int_eq(model.plans_->n_outer, 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_positions, test_whole_constant};
    return td_run_tests("positions", tests, sizeof tests / sizeof *tests);
}
