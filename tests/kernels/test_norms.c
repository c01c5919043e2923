/* Norms of rows, at each level: what becomes of a row has the same bits whether it is there alone
 * or with others, which are computed together; and one of numbers near the type's greatest among
 * them. */
#include "kernels/elementwise.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>
#include <string.h>

#define ROWS 7 /* four, and some more */

static int judged;

/* Row i of the call's, alone, on the results' place. */
static void run_row(const struct td_impl *impl, const struct td_call *call, int i, char *out)
{
    struct td_value arg[TD_MAX_ARGS];
    struct td_tensor result = call->out[0];
    struct td_call one = *call;
    memcpy(arg, call->arg, (size_t)call->n_args * sizeof *arg);
    one.arg = arg;
    one.out = &result;
    size_t bytes = td_nbytes(&result) / ROWS;
    arg[0].tensor.shape[0] = result.shape[0] = 1;
    arg[0].tensor.data = (char *)arg[0].tensor.data + (size_t)i * bytes;
    result.data = out;
    ck_assert_int_eq(sample_run(impl, &one), 0);
}

static void judge(const char *op, const char *pattern, int64_t n, enum td_dtype type, bool wide,
                  const char *level)
{
    struct sample sample;
    static char alone[4 * 2048];
    int err = sample_init(&sample, op, pattern, (struct td_sizes){n, ROWS, 1}, type, SAMPLE_PLAIN,
                          (uint64_t)n);
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    size_t bytes = td_nbytes(&call->out[0]) / ROWS;
    if (wide)
        td_put_real(&call->arg[0].tensor, 2 * n + n / 2, 2e38);
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!(impl->dtypes & type) || !sample_is_simd(impl, call, level))
            continue;
        ck_assert_int_eq(sample_run(impl, call), 0);
        for (int i = 0; i < ROWS; i++) {
            run_row(impl, call, i, alone);
            ck_assert_msg(!memcmp(alone, (char *)call->out[0].data + (size_t)i * bytes, bytes),
                          "%s of %d elements at %s: row %d is another alone", op, (int)n, level, i);
        }
        judged++;
    }
    sample_fini(&sample);
}

START_TEST(test_rows)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    static const enum td_dtype types[] = {TD_f32, TD_bf16, TD_f16};
    static const int64_t sizes[] = {3,  16, 17, 31,  32,  33,  48,  64,   65,
                                    79, 80, 96, 127, 198, 512, 777, 1024, 1025};
    sample_start();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int k = 0; k < 9; k++) {
            const char *level = levels[k % 3];
            bool wide = k < 6 && i % 2;
            judge("rms_norm", "input=[m,n] normalized_shape=[n] weight=[n]", sizes[i], types[k / 3],
                  wide, level);
            judge("layer_norm",
                  i % 3 ? "input=[m,n] normalized_shape=[n] weight=[n] bias=[n]"
                        : "input=[m,n] normalized_shape=[n]",
                  sizes[i], types[k / 3], wide, level);
        }
    ck_assert_int_ge(judged, 18 * 6);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rows};
    return td_run_tests("norms", tests, 1);
}
