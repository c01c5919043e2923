/* linear_bits of a few rows of input: every row of the table gives the reference's bits, and so
 * does one row of input beside others. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT = 2 }; /* the argument */

static const char *const patterns[] = {
    "weight=[37,3,16] scales=[37,3]:f32 input=[%d,96]:f32",
    "weight=[37,3,16] scales=[37,3]:f32 input=[%d,70]:f32 zero_points=[37,2]",
    "weight=[37,2,64] scales=[37,2]:f32 input=[%d,128]:f32 bits=8",
    "weight=[37,5,32] scales=[37,5]:f32 input=[%d,150]:f32 zero_points=[37,5] bits=8",
};

START_TEST(test_few_rows)
{
    int vectors = 0;
    for (int m = 1; m <= 4; m++) {
        struct sample s;
        char pattern[200], why[100];
        snprintf(pattern, sizeof pattern, patterns[_i], m);
        sample_start();
        ck_assert_int_eq(
            sample_init(&s, "linear_bits", pattern, (struct td_sizes){0}, TD_u8, SAMPLE_PLAIN, 7),
            0);
        struct td_call *call = &s.run.call;
        const struct td_impl *ref = call->op->impls;
        size_t bytes = td_nbytes(&call->out[0]);
        char *right = malloc(bytes);
        while (ref[1].run)
            ref++;
        sample_run(ref, call);
        memcpy(right, call->out[0].data, bytes);
        for (const struct td_impl *i = call->op->impls; i < ref; i++) {
            if (!sample_runnable(i, why))
                continue;
            memset(call->out[0].data, 0xff, bytes);
            sample_run(i, call);
            ck_assert_msg(!memcmp(call->out[0].data, right, bytes), "%s of %d rows", i->name, m);
            vectors++;
        }
        /* The first row alone. */
        struct td_tensor *input = &call->arg[INPUT].tensor, *out = &call->out[0];
        input->shape[0] = out->shape[0] = 1;
        for (const struct td_impl *i = call->op->impls; i->run; i++)
            if (sample_runnable(i, why)) {
                sample_run(i, call);
                ck_assert_msg(!memcmp(out->data, right, td_nbytes(out)), "%s beside %d", i->name,
                              m);
            }
        free(right);
        sample_fini(&s);
    }
    ck_assert_int_ge(vectors, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("bits");
    TCase *tcase = tcase_create("bits");
    tcase_add_loop_test(tcase, test_few_rows, 0, sizeof patterns / sizeof *patterns);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
