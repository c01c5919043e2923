/* Whatever an operator's call computes its step (dispatch/step/step.h) computes again, on other
 * data, elsewhere in memory. */
#include "tests/dispatch/step_test.h"
#include "tests/sample.h"

#include <stdio.h>

static int compared, counted;

/* The step of a sample, on the data of others like it. */
static void judge(const struct td_handle *handle, const char *pattern, enum td_dtype dtype,
                  int threads)
{
    static struct sample s, other;
    static const struct td_sizes sizes = {5, 3, 7};
    char what[300];
    snprintf(what, sizeof what, "%s %s %s", handle->full, pattern, td_dtype_name(dtype));
    int err = sample_init(&s, handle->full, pattern, sizes, dtype, SAMPLE_PLAIN, 1);
    s.run.call.threads = threads;
    struct td_step *step = err ? NULL : step_of(&s.run);
    sample_fini(&s);
    for (uint64_t seed = 2; step && seed < 4; seed++) {
        ck_assert_int_eq(
            sample_init(&other, handle->full, pattern, sizes, dtype, SAMPLE_PLAIN, seed), 0);
        other.run.call.threads = threads;
        aim(step, &other.run);
        select_and_run(&other.run);
        td_run_release(&other.run);
        counted += other.run.call.counted != 0;
        ck_assert_msg(!other.run.error, "%s: %s", what, other.run.problem.text);
        execute_step(step);
        same(&other.run, step, what);
        compared++;
        sample_fini(&other);
    }
    td_step_release(&step);
    arena = td_arena_reset(arena);
}

/* Without a seed, chance is drawn anew each time. */
static bool is_chance(const struct td_handle *handle, const char *pattern)
{
    bool seeded = strstr(handle->full, "generator") && strstr(pattern, "generator=");
    return !seeded && (strstr(handle->full, "rand") || strstr(handle->full, "bernoulli") ||
                       strstr(handle->full, "empty"));
}

START_TEST(test_every_sample)
{
    static const enum td_dtype types[] = {TD_f32, TD_i64};
    sample_start();
    arena = td_arena_create();
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        for (const char *const *p = handle->op->samples; p && *p; p++)
            for (int t = 0; t < 2 && !is_chance(handle, *p); t++)
                judge(handle, *p, types[t], 1 + i % 2);
    }
    ck_assert_msg(compared > 2000 && counted > 4, "%d compared, %d counted", compared, counted);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_sample};
    return td_run_tests("steps", tests, 1);
}
