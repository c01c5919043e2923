/* What the tests of steps share: a step of a run, and a look at whether both compute the same. */
#ifndef TD_STEP_TEST_H
#define TD_STEP_TEST_H

#include "dispatch/step/step.h"
#include "pools/pools.h"
#include "tests/run_tests.h"

#include <string.h>

static struct td_arena *arena;

static inline void *take(void *arg, size_t bytes)
{
    (void)arg;
    return td_arena_alloc(arena, bytes);
}

static const struct td_options options = {.alloc = take};

static inline void select_and_run(struct td_run *run)
{
    size_t bytes;
    ck_assert_msg(!td_run_select(run, &bytes), "%s", run->problem.text);
    td_run_execute(run, td_arena_alloc(arena, bytes + 64));
}

static inline struct td_step *step_of(struct td_run *run)
{
    struct td_step *step;
    size_t bytes;
    ck_assert_msg(!td_run_select(run, &bytes), "%s", run->problem.text);
    ck_assert_int_eq(td_step_make(&step, run, take, NULL), 0);
    td_run_release(run);
    return step;
}

/* Points the step at the data of another run of the same call, and at memory for its results. */
static inline void aim(struct td_step *step, const struct td_run *run)
{
    const struct td_tensor *result;
    for (int i = 0; i < run->call.n_args; i++) {
        const struct td_value *v = &run->call.arg[i];
        if (v->kind == TD_KIND_tensor)
            td_step_set_input(step, i, -1, td_run_input(run, i));
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            td_step_set_input(step, i, k, v->tensors.v[k].data);
    }
    for (int i = 0; (result = td_step_result(step, i)); i++)
        td_step_set_result(step, i, td_arena_alloc(arena, td_nbytes(&run->call.out[i]) + 64));
}

static inline void execute_step(struct td_step *step)
{
    struct td_problem problem;
    void *scratch = td_arena_alloc(arena, td_step_scratch(step)); /* elsewhere each time */
    ck_assert_msg(!td_step_execute(step, scratch, &problem), "%s", problem.text);
}

/* The executed run's results are the step's. */
static inline void same(const struct td_run *run, const struct td_step *step, const char *what)
{
    for (int i = 0; i < run->call.n_out; i++) {
        const struct td_tensor *want = &run->call.out[i], *got = td_step_result(step, i);
        ck_assert_msg(got && got->dtype == want->dtype && got->rank == want->rank &&
                          !memcmp(got->shape, want->shape, (size_t)want->rank * 8),
                      "%s: result %d is of another shape", what, i);
        ck_assert_msg(!memcmp(got->data, want->data, td_nbytes(want)), "%s: result %d differs",
                      what, i);
    }
    ck_assert_ptr_null(td_step_result(step, run->call.n_out));
}

#endif
