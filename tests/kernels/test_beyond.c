/* What is walked in parts where there is much of it, beside a loop, at each level: rows that
 * indices point at, of lengths around those that are copied without a call, more of them than
 * places are found at a time; and results that are larger than the caches, at all places in a line.
 * Operands end where memory does. */
#include "dispatch/call/own.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>
#include <string.h>

static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
static int judged;

/* Runs each level's row; wrong_at says which byte of its result is wrong, -1: none. */
static void judge(const char *op, const char *pattern, enum td_dtype type,
                  int64_t (*wrong_at)(const struct td_call *call))
{
    struct sample sample;
    int err = sample_init(&sample, op, pattern, (struct td_sizes){0}, type, SAMPLE_PLAIN,
                          strlen(pattern));
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++)
        for (int level = 0; level < 3; level++) {
            if (!(impl->dtypes & td_row_dtype(call)) || !sample_is_simd(impl, call, levels[level]))
                continue;
            memset(call->out[0].data, 0x77, td_nbytes(&call->out[0]));
            ck_assert_int_eq(sample_run(impl, call), 0);
            int64_t wrong = wrong_at(call);
            ck_assert_msg(wrong < 0, "%s(%s) of %s at %s: byte %lld differs", op, pattern,
                          td_dtype_name(type), levels[level], (long long)wrong);
            ck_assert_msg(sample_guarded(call->out[0].data, sample.out_bytes[0]), "%s: the guard",
                          pattern);
            judged++;
        }
    sample_fini(&sample);
}

static int64_t index_of(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_i64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];
}

/* index_select of [a,b,c] along dimension 1. */
static int64_t judge_rows(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *index = &call->arg[2].tensor;
    const size_t row = (size_t)self->shape[2] * td_dtype_size(self->dtype);
    const int64_t n = index->shape[0];
    for (int64_t i = 0; i < self->shape[0] * n; i++) {
        int64_t from = i / n * self->shape[1] + index_of(index, i % n);
        if (memcmp((char *)call->out[0].data + (size_t)i * row,
                   (const char *)self->data + (size_t)from * row, row))
            return i * (int64_t)row;
    }
    return -1;
}

START_TEST(test_many_rows)
{
    static const enum td_dtype types[] = {TD_u8, TD_bf16, TD_f32, TD_f64};
    static const int widths[] = {2,  3,  4,  7,  8,   15,  16,  17,  31,
                                 33, 63, 64, 65, 127, 129, 260, 1030};
    char pattern[80];
    sample_start();
    judged = 0;
    for (size_t w = 0; w < sizeof widths / sizeof *widths; w++)
        for (size_t type = 0; type < 4; type++) {
            snprintf(pattern, sizeof pattern, "self=[2,%d,%d] dim=1 index=[%d]:%s<%d", 40 + (int)w,
                     widths[w], w % 3 ? 300 + (int)w : 700, w % 2 ? "i32" : "i64", 40 + (int)w);
            judge("index_select", pattern, types[type], judge_rows);
        }
    ck_assert_int_ge(judged, 17 * 4);
}
END_TEST

static int64_t judge_sub(const struct td_call *call)
{
    const void *a = call->arg[0].tensor.data, *b = call->arg[1].tensor.data;
    const void *out = call->out[0].data;
    for (int64_t i = 0; i < td_numel(&call->out[0]); i++) {
        double real = ((const double *)a)[i] - ((const double *)b)[i];
        int64_t whole = (int64_t)(((const uint64_t *)a)[i] - ((const uint64_t *)b)[i]);
        if (memcmp((const char *)out + 8 * i,
                   call->out[0].dtype == TD_f64 ? (const void *)&real : &whole, 8))
            return 8 * i;
    }
    return -1;
}

static int64_t judge_relu(const struct td_call *call)
{
    const double *a = call->arg[0].tensor.data, *out = call->out[0].data;
    for (int64_t i = 0; i < td_numel(&call->out[0]); i++)
        if (out[i] != (a[i] < 0 ? 0 : a[i]))
            return 8 * i;
    return -1;
}

START_TEST(test_beyond_the_caches)
{
    char pattern[80];
    sample_start();
    judged = 0;
    for (int n = (11 << 18) - 9; n <= 11 << 18; n++) { /* results end with a page */
        snprintf(pattern, sizeof pattern, "self=[%d] other=[%d]", n, n);
        if (n % 3 == 0)
            judge("sub.Tensor", pattern, TD_i64, judge_sub);
        else
            judge("sub.Tensor", pattern, TD_f64, judge_sub);
    }
    judge("relu", "self=[3,1750001]", TD_f64, judge_relu);
    ck_assert_int_ge(judged, 11);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_many_rows, test_beyond_the_caches};
    return td_run_tests("beyond", tests, 2);
}
