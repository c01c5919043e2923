/* Weights of models that rest: that they do, are awake for whoever reads them, and stay awake where
 * a plan does. */
#include "tests/dispatch/model_test.h"

#include <math.h>

enum { SIDE = 128, ROWS = 100 };

static struct matrices {
    float w[SIDE * SIDE], x[ROWS * SIDE], want[ROWS * SIDE], got[ROWS * SIDE];
} * m;

/* x w, w's rows being outputs, with whatever else is computed of both. */
static void make_product(const char *more)
{
    m = malloc(sizeof *m);
    for (int i = 0; i < SIDE * SIDE; i++)
        m->w[i] = (float)(i % 7 + 1);
    for (int i = 0; i < ROWS * SIDE; i++)
        m->x[i] = (float)(i % 5 - 2);
    begin(1);
    int w = constant(m->w, SIDE * SIDE);
    int y = add("linear(reshape(a, [-1, 128]), reshape(b, [128, 128]))", 2, V(graph_inputs[0], w));
    finish(add(more, 2, V(y, w)));
    ck_assert_int_eq(run(m->x, ROWS * SIDE, NULL, true, m->want), ROWS * SIDE);
}

/* The results of so many rows are right. */
static void run_rows(int64_t rows, bool eager)
{
    memset(m->got, 0xff, sizeof m->got);
    ck_assert_int_eq(run(m->x, rows * SIDE, NULL, eager, m->got), rows * SIDE);
    ck_assert(!memcmp(m->got, m->want, (size_t)(rows * SIDE) * sizeof *m->got));
}

static bool is_resting(void)
{
    const float *at = model.constant[0].tensor.data;
    return at[SIDE * SIDE / 2] == 0 && at[SIDE * SIDE / 2 + 100] == 0;
}

static int runs_before_rest(int64_t rows)
{
    int n = 0;
    for (; !is_resting() && n < 1000; n++)
        run_rows(rows, false);
    return n;
}

START_TEST(test_rest)
{
    make_product("reshape(a, [-1])");
    int first = runs_before_rest(ROWS);
    ck_assert_int_lt(first, 20);
    run_rows(ROWS, false);
    ck_assert(is_resting());
    run_rows(ROWS, true); /* op by op, it is wanted */
    ck_assert(!is_resting());
    int second = runs_before_rest(ROWS);
    ck_assert_int_gt(second, first);
    ck_assert_int_lt(second, 1000);
    run_rows(90, false); /* a walk for another shape, then its own plan */
    ck_assert(!is_resting());
    ck_assert_int_lt(runs_before_rest(90), 1000);
    run_rows(ROWS, false);
    ck_assert(is_resting());
    end();
    free(m);
}
END_TEST

/* The more shapes have come, the longer weights stay awake for the next one. */
START_TEST(test_rest_of_many_shapes)
{
    make_product("reshape(a, [-1])");
    for (int rows = ROWS - 9; rows <= ROWS; rows++)
        run_rows(rows, false);
    int n = runs_before_rest(ROWS);
    ck_assert_int_gt(n, 30);
    ck_assert_int_lt(n, 100);
    end();
    free(m);
}
END_TEST

/* A step that reads a part of it, whose tensor knows of no weight. */
START_TEST(test_no_rest_for_parts)
{
    make_product("reshape(a * select(reshape(b, [128, 128]), 0, 77), [-1])");
    ck_assert_int_eq(runs_before_rest(ROWS), 1000);
    end();
    free(m);
}
END_TEST

START_TEST(test_no_rest_for_outputs)
{
    make_product("reshape(a, [-1])");
    graph_outputs[1] = model.constant[0].value;
    model.n_outputs = model.graph.n_outputs = 2;
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    ck_assert_int_eq(runs_before_rest(ROWS), 1000);
    end();
    free(m);
}
END_TEST

/* Nor do they where a plan for a value reads a part in other strides, which it has no copy of. */
START_TEST(test_no_rest_for_shared_views)
{
    float x[ROWS * SIDE], got[ROWS * SIDE], want[ROWS * SIDE], w[SIDE * SIDE];
    int64_t rows = 64;
    const struct td_tensor n = {.data = &rows, .dtype = TD_i64};
    for (int i = 0; i < SIDE * SIDE; i++)
        w[i] = (float)(i % 7 + 1);
    for (int i = 0; i < ROWS * SIDE; i++)
        x[i] = (float)(i % 5 - 2);
    begin(2);
    int weight = constant(w, SIDE * SIDE);
    int y =
        add("linear(reshape(a, [-1, 128]), reshape(b, [128, 128]))", 2, V(graph_inputs[0], weight));
    int part = add_counted("permute(slice(reshape(a, [128, 128]), 0, 0, n), [1, 0])",
                           graph_inputs[1], weight);
    finish(add("reshape(matmul(a, b), [-1])", 2, V(y, part)));
    ck_assert_int_eq(run(x, ROWS * SIDE, &n, true, want), ROWS * 64);
    for (int i = 0; i < 50; i++) {
        ck_assert_int_eq(run(x, ROWS * SIDE, &n, false, got), ROWS * 64);
        ck_assert(!memcmp(got, want, ROWS * 64 * sizeof *got));
        const float *at = model.constant[0].tensor.data;
        ck_assert(at[SIDE * SIDE / 2] != 0);
    }
    end();
}
END_TEST

/* Whose results may lie in the model's constants keeps these awake until it has freed them. */
START_TEST(test_no_rest_for_results)
{
    make_product("reshape(a, [-1])");
    struct td_tensor in = {.data = m->x, .dtype = TD_f32, .rank = 1, .shape = {ROWS * SIDE}};
    struct td_model_call call = {.threads = 1, .node = -1, .eager = true};
    struct td_model_results *results;
    run_rows(ROWS, false);
    ck_assert_int_eq(td_model_run(&model, &in, &call, &results, &problem), 0);
    ck_assert_int_eq(runs_before_rest(ROWS), 1000);
    td_model_free_results(&results);
    ck_assert_int_lt(runs_before_rest(ROWS), 1000);
    end();
    free(m);
}
END_TEST

/* What is made of weights once for all plans, such as a convolution's with the norm behind it. */
START_TEST(test_rest_of_what_is_folded)
{
    enum { CHANNELS = 64, PLACES = 6 * 6 };
    float w[CHANNELS * CHANNELS], one[CHANNELS], x[CHANNELS * PLACES], got[CHANNELS * PLACES];
    float want[CHANNELS * PLACES];
    for (int i = 0; i < CHANNELS * CHANNELS; i++)
        w[i] = (float)(i % 7 + 1);
    for (int i = 0; i < CHANNELS * PLACES; i++)
        x[i] = (float)(i % 5 - 2);
    for (int i = 0; i < CHANNELS; i++)
        one[i] = (float)(i % 3 + 1);
    begin(1);
    int s = constant(one, CHANNELS);
    int y = add("conv2d(reshape(a, [1, 64, 6, 6]), reshape(b, [64, 64, 1, 1]))", 2,
                V(graph_inputs[0], constant(w, CHANNELS * CHANNELS)));
    finish(add("reshape(batch_norm(a, b, b, b, b, False, 0.1, 0, False), [-1])", 2, V(y, s)));
    ck_assert_int_eq(run(x, CHANNELS * PLACES, NULL, true, want), CHANNELS * PLACES);
    for (int i = 0; i < 40; i++) {
        ck_assert_int_eq(run(x, CHANNELS * PLACES, NULL, false, got), CHANNELS * PLACES);
        for (int k = 0; k < CHANNELS * PLACES; k++)
            ck_assert_float_eq_tol(got[k], want[k], 1e-4f * (1 + fabsf(want[k])));
    }
    ck_assert_ptr_nonnull(model.derived_);
    struct td_derived *const *derived = model.derived_;
    while (!*derived)
        derived++;
    const float *at = td_weight_tensor((*derived)->weight[0])->data;
    ck_assert_float_eq(at[CHANNELS * CHANNELS / 2], 0);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rest,
                                  test_rest_of_many_shapes,
                                  test_no_rest_for_parts,
                                  test_no_rest_for_outputs,
                                  test_no_rest_for_shared_views,
                                  test_no_rest_for_results,
                                  test_rest_of_what_is_folded};
    return td_run_tests("rest", tests, sizeof tests / sizeof *tests);
}
