/* Norms of rows, at each level: what becomes of a row has the same bits whether it is there alone
 * or with others, which are computed together; and one of numbers near the type's greatest among
 * them. And sums of many FP64 numbers, against the reference, which adds in long double. */
#include "kernels/elementwise.h"
#include "tests/distance.h"
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

/* Numbers of mean 0 whose squares are all alike: additions one after the other round the same way,
 * a hundred ulp in all here. */
static void judge_sums(const char *pattern, int64_t n, const char *level)
{
    struct sample got, want;
    const struct td_impl *ref = NULL;
    int64_t where = -1;
    ck_assert_int_eq(sample_init(&want, "native_batch_norm", pattern, (struct td_sizes){n, 1, 1},
                                 TD_f64, SAMPLE_PLAIN, 1),
                     0);
    ck_assert_int_eq(sample_init(&got, "native_batch_norm", pattern, (struct td_sizes){n, 1, 1},
                                 TD_f64, SAMPLE_NONE, 1),
                     0);
    struct td_tensor *input = &want.run.call.arg[0].tensor;
    int64_t turn = input->shape[input->rank - 1] == n ? 1 : input->shape[1];
    for (int64_t i = 0; i < td_numel(input); i++)
        ((double *)input->data)[i] = i / turn % 2 ? 0.123 : -0.123;
    memcpy(got.run.call.arg[0].tensor.data, input->data, td_nbytes(input));
    for (ref = want.run.call.op->impls; ref[1].run; ref++)
        ;
    ck_assert_int_eq(sample_run(ref, &want.run.call), 0);
    for (const struct td_impl *impl = got.run.call.op->impls; impl < ref; impl++) {
        if (!(impl->dtypes & TD_f64) || !sample_is_simd(impl, &got.run.call, level))
            continue;
        ck_assert_int_eq(sample_run(impl, &got.run.call), 0);
        double ulp = distance(&got.run.call.out[2], &want.run.call.out[2], NULL, &where);
        ck_assert_msg(ulp <= 16, "%s at %s: 1 / sqrt(var) of channel %d is %g ulp off", pattern,
                      level, (int)where, ulp);
        judged++;
    }
    sample_fini(&got);
    sample_fini(&want);
}

START_TEST(test_sums)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    sample_start();
    judged = 0;
    for (int i = 0; i < 3; i++) {
        judge_sums("input=[1,2,n] weight=None bias=None running_mean=None running_var=None "
                   "training=True momentum=0.1 eps=1e-05",
                   500000, levels[i]);
        judge_sums("input=[n,9] weight=None bias=None running_mean=None running_var=None "
                   "training=True momentum=0.1 eps=1e-05",
                   200000, levels[i]);
    }
    ck_assert_int_ge(judged, 2);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_rows, test_sums};
    return td_run_tests("norms", tests, 2);
}
