/* Whatever an operator's call computes of dense tensors it computes of the same by strides, bit for
 * bit: by a row that takes them, or by way of a dense copy. */
#include "tests/dispatch/step_test.h"
#include "tests/sample.h"

#include <stdio.h>

static int compared, taken, copied;

static int init(struct sample *s, const struct td_handle *handle, const char *pattern,
                enum td_dtype dtype, int values)
{
    static const struct td_sizes sizes = {5, 3, 7};
    int err = sample_init(s, handle->full, pattern, sizes, dtype, (enum sample_values)values, 1);
    s->run.options = options;
    return err;
}

static void compare(const struct sample *dense, const struct sample *strided, const char *what)
{
    for (int i = 0; i < dense->run.call.n_out; i++) {
        const struct td_tensor *a = &dense->run.call.out[i], *b = &strided->run.call.out[i];
        ck_assert_msg(!memcmp(a->data, b->data, td_nbytes(a)), "%s: result %d", what, i);
    }
    ck_assert_msg(sample_is_laid(strided), "%s: wrote to an input", what);
    compared++;
}

static void judge(const struct td_handle *handle, const char *pattern, enum td_dtype dtype,
                  enum sample_layout layout)
{
    static struct sample dense, strided;
    char what[300];
    snprintf(what, sizeof what, "%s %s %s layout %d", handle->full, pattern, td_dtype_name(dtype),
             layout);
    int err = init(&dense, handle, pattern, dtype, SAMPLE_ALIKE);
    ck_assert_int_eq(err, init(&strided, handle, pattern, dtype, SAMPLE_NONE | (int)layout));
    if (!err) {
        sample_copy_inputs(&strided, &dense);
        select_and_run(&dense.run);
        td_run_release(&dense.run);
        select_and_run(&strided.run);
        ck_assert_msg(!strided.run.error, "%s: %s", what, strided.run.problem.text);
        (strided.run.impl->strided && !strided.run.prepared.dense ? taken++ : copied++);
        td_run_release(&strided.run);
        compare(&dense, &strided, what);
    }
    sample_fini(&dense);
    sample_fini(&strided);
    arena = td_arena_reset(arena);
}

/* Without a seed, chance is drawn anew each time. */
static bool is_chance(const struct td_handle *handle)
{
    return strstr(handle->full, "rand") || strstr(handle->full, "bernoulli") ||
           strstr(handle->full, "empty");
}

START_TEST(test_every_sample)
{
    static const enum sample_layout layouts[] = {SAMPLE_TRANSPOSED, SAMPLE_SLICED, SAMPLE_STEP_2,
                                                 SAMPLE_BACKWARDS, SAMPLE_REPEATED};
    sample_start();
    arena = td_arena_create();
    for (int i = 0, turn = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        for (const char *const *p = handle->op->samples; p && *p && !is_chance(handle); p++)
            for (int t = 0; t < 2; t++, turn++)
                judge(handle, *p, t ? TD_i64 : TD_f32, layouts[turn % 5]);
    }
    ck_assert_msg(compared > 1000 && taken > 300 && copied > 300,
                  "%d compared, %d taken, %d copied", compared, taken, copied);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_sample};
    return td_run_tests("strides", tests, 1);
}
