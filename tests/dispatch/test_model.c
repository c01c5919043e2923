/* Programs made by hand: what a walk gives, what a plan of it gives, and what is refused. */
#include "pools/pools.h"
#include "tests/dispatch/model_test.h"

#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

/* (x + 1) * (2 w), written twice beside each other. */
static void make_small(float *w, int64_t n)
{
    begin(1);
    int k = constant(w, n), x = graph_inputs[0];
    int twice = add("_b = a + a; c = _b + 0", 1, V(k));
    int y = add("a + 1", 1, V(x));
    int z = add("a * b", 2, V(y, twice));
    int view = add("reshape(a, [1, -1])", 1, V(z));
    finish(add("reshape(cat([a, b], 1), [-1])", 2, V(view, view)));
}

static void visit(const struct td_model_plan *plan, void *arg)
{
    struct td_model_step step;
    char *text = arg;
    ck_assert_str_eq(plan->refused, "");
    ck_assert_int_eq(plan->input[0].shape[0], 100);
    for (int i = 0; i < plan->n_steps; i++)
        if (td_model_plan_step(plan, i, &step))
            text +=
                sprintf(text, "%s %s %lld, ", step.node, step.op, (long long)td_numel(step.result));
}

START_TEST(test_walk_and_plan)
{
    float w[100], x[100], got[200];
    for (int i = 0; i < 100; i++)
        w[i] = (float)i;
    make_small(w, 100);
    for (int turn = 0; turn < 5; turn++) {
        for (int i = 0; i < 100; i++)
            x[i] = (float)(i * turn);
        ck_assert_msg(run(x, 100, NULL, turn == 4, got) == 200, "%s", problem.text);
        for (int i = 0; i < 200; i++)
            ck_assert_float_eq(got[i], (x[i % 100] + 1) * 2 * w[i % 100]);
    }
    const struct td_plan *plan = model.plans_;
    ck_assert(plan && !plan->next);
    ck_assert_str_eq(plan->refused, "");
    ck_assert_int_eq(plan->n_steps, 3); /* add, mul, cat: reshapes are views */
    ck_assert_int_ge(plan->n_folded, 1);
    ck_assert_uint_lt(plan->bytes, plan->bytes_before);
    char text[300];
    td_model_visit_plans(&model, visit, text);
    ck_assert_str_eq(text, "it add.Scalar 100, it mul.Tensor 100, it cat 200, ");
    end();
}
END_TEST

/* IND-14 */
START_TEST(test_folding)
{
    float w[100], x[100], got[200];
    for (int i = 0; i < 100; i++)
        x[i] = w[i] = (float)i;
    make_small(w, 100);
    int nodes_before = model.n_nodes;
    ck_assert_int_eq(td_program_fold(&model, &problem), 0);
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    ck_assert_int_eq(model.n_folded, 1);
    ck_assert_int_eq(model.n_nodes, nodes_before - 1);
    ck_assert_int_eq(model.n_constants, 1); /* 2 w; w is gone */
    ck_assert_ptr_nonnull(model.constant[0].weight);
    ck_assert_float_eq(((const float *)model.constant[0].tensor.data)[99], 198);
    for (int turn = 0; turn < 3; turn++) {
        ck_assert_int_eq(run(x, 100, NULL, false, got), 200);
        ck_assert_float_eq(got[199], 100 * 2 * 99);
    }
    end();
}
END_TEST

/* What draws chance draws it in each run. */
START_TEST(test_chance)
{
    float w[100] = {0}, x[100] = {0}, got[100], other[100];
    begin(1);
    int k = constant(w, 100), drawn = add("a + rand([100])", 1, V(k));
    finish(add("a + b", 2, V(graph_inputs[0], drawn)));
    ck_assert_int_eq(td_program_fold(&model, &problem), 0);
    ck_assert_int_eq(model.n_folded, 0);
    ck_assert_int_eq(td_program_close(&model, &problem), 0);
    for (int turn = 0; turn < 4; turn++) {
        memcpy(other, got, sizeof other);
        ck_assert_msg(run(x, 100, NULL, false, got) == 100, "%s", problem.text);
        ck_assert(!turn || memcmp(got, other, sizeof got));
    }
    ck_assert(model.plans_ && *model.plans_->refused);
    end();
}
END_TEST

START_TEST(test_other_sizes)
{
    float w[1] = {3}, x[300], got[600];
    make_small(w, 1);
    for (int turn = 0; turn < 60; turn++) {
        int n = 1 + turn * 7 % 300;
        for (int i = 0; i < n; i++)
            x[i] = (float)(i + turn);
        for (int again = 0; again < 1 + turn % 4; again++)
            ck_assert_int_eq(run(x, n, NULL, false, got), 2 * n);
        ck_assert_float_eq(got[n], 6 * (x[0] + 1));
    }
    ck_assert_int_eq(model.recorded_, 60);
    end();
}
END_TEST

/* Plans are for the value that decides. */
START_TEST(test_values_decide)
{
    float x[3] = {1, 2, 3}, got[3];
    make_repeated(2);
    for (int turn = 0; turn < 12; turn++) {
        int64_t times = turn & 3;
        struct td_tensor t = {.data = &times, .dtype = TD_i64, .rank = 0};
        ck_assert_msg(run(x, 3, &t, false, got) == 3, "%s", problem.text);
        ck_assert_float_eq(got[2], (float)(3 << times) + 1);
    }
    ck_assert(model.fixes_ && model.plans_);
    ck_assert_str_eq(model.plans_->refused, "");
    end();
}
END_TEST

/* Results stay while other plans come and go: one lies in the plan that its run has recorded. */
START_TEST(test_results_stay)
{
    float x[3] = {1, 2, 3}, got[3];
    int64_t times = 0;
    struct td_tensor t = {.data = &times, .dtype = TD_i64, .rank = 0};
    struct td_tensor in[2] = {{.data = x, .dtype = TD_f32, .rank = 1, .shape = {3}}, t};
    struct td_model_call call = {.threads = 1, .node = -1};
    struct td_model_results *kept;
    make_repeated(2);
    for (int turn = 0; turn < 3; turn++)
        ck_assert_int_eq(run(x, 3, &t, false, got), 3);
    times = 5;
    ck_assert_int_eq(run(x, 3, &t, false, got), 3);
    ck_assert_int_eq(td_model_run(&model, in, &call, &kept, &problem), 0);
    ck_assert_ptr_ne(td_model_result(kept, 1)->data, &times); /* it is the plan's */
    for (times = 12; times < 60; times++) {
        int64_t twice = times / 2;
        t.data = &twice;
        ck_assert_int_eq(run(x, 3, &t, false, got), 3);
    }
    ck_assert_int_eq(*(const int64_t *)td_model_result(kept, 1)->data, 5);
    td_model_free_results(&kept);
    end();
}
END_TEST

/* A stored tensor is an input of one call, and another one of the next. */
START_TEST(test_stored_input)
{
    float x[2][16], w[16], got[16];
    begin(1);
    int k = constant(w, 16);
    finish(add("reshape(matmul(reshape(a, [4, 4]), reshape(b, [4, 4])), [-1])", 2,
               V(graph_inputs[0], k)));
    for (int i = 0; i < 16; i++)
        ((float *)model.constant[0].tensor.data)[i] = i % 5 == 0; /* the unit matrix */
    for (int turn = 0; turn < 4; turn++) {
        struct td_tensor t = {.data = x[0], .dtype = TD_f32, .rank = 1, .shape = {16}};
        struct td_model_call call = {.threads = 1, .node = -1};
        struct td_model_results *results;
        struct td_weight *weight;
        for (int i = 0; i < 16; i++)
            x[0][i] = (float)(i + turn);
        ck_assert_int_eq(td_weight_create(&weight, &t, NULL), 0);
        ck_assert_int_eq(td_model_run(&model, td_weight_tensor(weight), &call, &results, &problem),
                         0);
        memcpy(got, td_model_result(results, 0)->data, sizeof got);
        ck_assert_int_eq(memcmp(got, x[0], sizeof got), 0);
        td_model_free_results(&results);
        td_weight_unref(&weight);
    }
    end();
}
END_TEST

START_TEST(test_many_calls)
{
    float x[3] = {0}, got[3];
    int64_t times = TD_PLAN_STEPS + 1;
    struct td_tensor t = {.data = &times, .dtype = TD_i64, .rank = 0};
    make_repeated(2);
    for (int turn = 0; turn < 5; turn++)
        ck_assert_int_eq(run(x, 3, &t, false, got), 3);
    ck_assert_msg(strstr(model.plans_->refused, "more calls"), "%s", model.plans_->refused);
    end();
}
END_TEST

START_TEST(test_wrong)
{
    float x[4] = {0}, got[8], w[3] = {1, 2, 3};
    make_small(w, 3);
    ck_assert_int_eq(run(x, 4, NULL, false, got), -EINVAL);
    ck_assert_msg(strstr(problem.text, "node 'it' (formula): mul"), "%s", problem.text);
    end();
    begin(1);
    int later = td_program_value(&model);
    add("a + 1", 1, V(later));
    graph_outputs[0] = later;
    model.graph.n_outputs = 1;
    ck_assert_int_eq(td_program_close(&model, &problem), -EINVAL);
    end();
}
END_TEST

START_TEST(test_stopped)
{
    float x[4] = {0}, got[8], w[4] = {0};
    struct td_stop stop = {.asked = true};
    struct td_tensor in = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {4}};
    struct td_model_call call = {.threads = 1, .node = -1, .stop = &stop};
    struct td_model_results *results;
    make_small(w, 4);
    for (int turn = 0; turn < 3; turn++)
        ck_assert_int_eq(td_model_run(&model, &in, &call, &results, &problem), -ETIMEDOUT);
    ck_assert_ptr_null(results);
    ck_assert_int_eq(run(x, 4, NULL, false, got), 8);
    end();
}
END_TEST

#ifdef _OPENMP
struct crowded { /* a job that has waited for its team, and then runs the model on all of it */
    struct td_job job;
    float *x;
    int threads, err;
    atomic_int done;
};

static void run_crowded(struct td_job *job, struct td_worker *worker)
{
    struct crowded *c = (struct crowded *)job;
    struct td_tensor in = {.data = c->x, .dtype = TD_f32, .rank = 1, .shape = {4}};
    struct td_model_call call = {.threads = 2, .node = -1};
    c->threads = td_worker_threads(worker);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num())
        usleep(200000);
    for (int turn = 0; turn < 5 && !c->err; turn++) {
        struct td_model_results *results;
        c->err = td_model_run(&model, &in, &call, &results, &problem);
        if (!c->err)
            memcpy(c->x, td_model_result(results, 0)->data, 4 * sizeof *c->x);
        td_model_free_results(&results);
    }
    atomic_store(&c->done, 1);
}

/* A run on a crowded team ends on one thread, whatever it began on. */
START_TEST(test_crowded)
{
    float w[4] = {1, 1, 1, 1}, x[4] = {0, 1, 2, 3};
    struct td_topology *topology;
    struct td_pools *pools;
    struct td_pool_config config = td_pool_config_default("all");
    char why[256];
    ck_assert_int_eq(td_topology_create(&topology), 0);
    ck_assert_int_eq(td_pools_create(&pools, topology), 0);
    ck_assert_int_eq(td_pools_add(pools, &config, why, sizeof why), 0);
    struct td_pool *pool = td_pools_find(pools, NULL);
    struct crowded c = {.job.run = run_crowded, .x = x};
    make_small(w, 4);
    ck_assert_int_eq(td_pool_submit(pool, &c.job), 0);
    while (!atomic_load(&c.done))
        usleep(1000);
    ck_assert_msg(!c.err, "%d: %s", c.err, problem.text);
    for (int i = 0; i < 4; i++) /* (x + 1) * 2, five times */
        ck_assert_float_eq(x[i], (float)(32 * i + 62));
    const struct td_plan *plan = model.plans_; /* the youngest */
    ck_assert(plan && plan->threads == 1);
    td_pool_unref(pool);
    td_pools_destroy(pools);
    td_topology_destroy(topology);
    end();
}
END_TEST
#endif

int main(void)
{
    const TTest *const tests[] = {
        test_walk_and_plan, test_folding,      test_chance,       test_other_sizes,
        test_values_decide, test_results_stay, test_stored_input, test_many_calls,
        test_wrong,         test_stopped,
#ifdef _OPENMP
        test_crowded,
#endif
    };
    return td_run_tests("model", tests, sizeof tests / sizeof *tests);
}
