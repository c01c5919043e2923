/* Whatever an operator's call computes of dense tensors it computes of the same by strides, bit for
 * bit: by a row that takes them, whether it would be chosen or not, or by way of a dense copy. Sums
 * may be taken in another order, which shows in no sum of whole numbers. */
#include "dispatch/call/own.h"
#include "kernels/pointwise/pointwise.h"
#include "tests/dispatch/step_test.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>

static int compared, taken, copied;

static int init(struct sample *s, const struct td_handle *handle, const char *pattern,
                struct td_sizes sizes, enum td_dtype dtype, int values)
{
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

static void make_whole(struct sample *s)
{
    for (int i = 0; i < s->n_inputs; i++)
        for (int64_t k = 0; s->input[i].dtype == TD_f32 && k < td_numel(&s->input[i]); k++)
            ((float *)s->input[i].data)[k] = roundf(((float *)s->input[i].data)[k]);
}

static bool may_run(const struct td_impl *row, const struct td_call *call)
{
    char why[100];
    return row->dtypes & td_row_dtype(call) && sample_runnable(row, why) && sample_takes(row, call);
}

/* The call with argument k alone by strides; k of n_args: with all. args: room for them. */
static struct td_call lay_alone(const struct sample *dense, const struct sample *strided, int k,
                                struct td_value *args)
{
    struct td_call call = strided->run.call;
    for (int i = 0; i < call.n_args; i++)
        args[i] = (i == k || k == call.n_args ? call : dense->run.call).arg[i];
    call.arg = args;
    return call;
}

/* Measurement may choose any row. */
static void judge_rows(struct sample *dense, struct sample *strided, const char *what)
{
    const struct td_run *run = &strided->run;
    bool converts = run->parts || run->n_casts;
    for (const struct td_impl *row = run->call.op->impls; row->run && !converts; row++) {
        if (!row->strided || !may_run(row, &dense->run.call))
            continue;
        sample_run(row, &dense->run.call);
        for (int k = 0; k <= run->call.n_args; k++) {
            struct td_value args[TD_MAX_ARGS];
            struct td_call call = lay_alone(dense, strided, k, args);
            if (!td_call_count_strides(&call) || !may_run(row, &call))
                continue;
            sample_run(row, &call);
            compare(dense, strided, what);
        }
    }
}

static void judge(const struct td_handle *handle, const char *pattern, struct td_sizes sizes,
                  enum td_dtype dtype, enum sample_layout layout)
{
    static struct sample dense, strided;
    char what[300];
    snprintf(what, sizeof what, "%s %s %s layout %d, m %lld, n %lld", handle->full, pattern,
             td_dtype_name(dtype), layout, (long long)sizes.m, (long long)sizes.n);
    int err = init(&dense, handle, pattern, sizes, dtype, SAMPLE_ALIKE);
    ck_assert_int_eq(err, init(&strided, handle, pattern, sizes, dtype, SAMPLE_NONE | (int)layout));
    if (!err && handle->op->sums)
        make_whole(&dense);
    if (!err) {
        sample_copy_inputs(&strided, &dense);
        judge_rows(&dense, &strided, what);
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
    static const enum sample_layout layouts[] = {SAMPLE_TRANSPOSED, SAMPLE_SLICED,   SAMPLE_STEP_2,
                                                 SAMPLE_BACKWARDS,  SAMPLE_REPEATED, SAMPLE_HEADS};
    sample_start();
    arena = td_arena_create();
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        for (const char *const *p = handle->op->samples; p && *p && !is_chance(handle); p++)
            for (int turn = 0; turn < 12; turn++)
                judge(handle, *p, (struct td_sizes){5, 3, 7}, turn % 2 ? TD_i64 : TD_f32,
                      layouts[turn / 2]);
    }
    ck_assert_msg(compared > 1000 && taken > 300 && copied > 300,
                  "%d compared, %d taken, %d copied", compared, taken, copied);
    td_arena_destroy(arena);
}
END_TEST

/* The call with an operand that broadcasts, and the same with its elements in every place of their
 * rows: input 1, [m,1] and [m,n]. */
static void judge_column(const char *op, const char *column_pattern, const char *dense_pattern,
                         enum td_dtype dtype, struct td_sizes sizes)
{
    static struct sample column, dense;
    size_t size = td_dtype_size(dtype);
    char what[100];
    snprintf(what, sizeof what, "%s %s, %lld rows of %lld", op, td_dtype_name(dtype),
             (long long)sizes.m, (long long)sizes.n);
    ck_assert(!sample_init(&column, op, column_pattern, sizes, dtype, SAMPLE_PLAIN, 3));
    ck_assert(!sample_init(&dense, op, dense_pattern, sizes, dtype, SAMPLE_NONE, 3));
    for (int i = 0; i < column.n_inputs; i += 2)
        memcpy(dense.input[i].data, column.input[i].data, td_nbytes(&column.input[i]));
    for (int64_t i = 0; i < sizes.m * sizes.n; i++)
        memcpy((char *)dense.input[1].data + (size_t)i * size,
               (char *)column.input[1].data + (size_t)(i / sizes.n) * size, size);
    for (const struct td_impl *row = column.run.call.op->impls; row->run; row++)
        if (may_run(row, &column.run.call)) {
            sample_run(row, &dense.run.call);
            sample_run(row, &column.run.call);
            compare(&dense, &column, what);
        }
    sample_fini(&column);
    sample_fini(&dense);
}

static void judge_difference(enum td_dtype dtype, int64_t n)
{
    judge_column("sub.Tensor", "self=[m,n] other=[m,1]", "self=[m,n] other=[m,n]", dtype,
                 (struct td_sizes){n, 7, 0});
}

START_TEST(test_columns_beside_long_and_short_rows)
{
    static const enum td_dtype types[] = {TD_u8, TD_bf16, TD_f32, TD_f64, TD_i32};
    sample_start();
    for (int i = 0; i < 5; i++) {
        for (int64_t n = 2; n < 40; n++)
            judge_difference(types[i], n);
        for (int64_t n = 120; n < 5000; n += n / 3)
            judge_difference(types[i], n);
        for (int64_t n = 127; n < 5000; n = 2 * n + 1)
            judge_difference(types[i], n);
        for (int64_t n = 1; n < 16; n++) /* where a tile is full, the next one begins */
            judge_column("clamp.Tensor", "self=[m,n] min=[m,1] max=[n]",
                         "self=[m,n] min=[m,n] max=[n]", types[i], (struct td_sizes){n, 2048, 0});
    }
}
END_TEST

/* Operands that lie side by side along another dimension are read by squares
 * (pointwise_blocks.c): matrices of all sizes around a square's and a block's, alone, with an
 * operand that stays along rows, one that comes again with each, and one that picks. */
START_TEST(test_squares)
{
    static const enum td_dtype types[] = {TD_u8, TD_bf16, TD_i16, TD_f32, TD_f64, TD_i64};
    static const char *const calls[][2] = {
        {"sub.Tensor", "self=[m,n] other=[m,n]"},
        {"sub.Tensor", "self=[2,m,n] other=[m,n]"},
        {"clamp.Tensor", "self=[m,n] min=[m,1] max=[n]"},
        {"where.self", "condition=[m,n] self=[m,n] other=[m,1]"},
    };
    static const int64_t sizes[] = {3, 4, 5, 8, 15, 17, 31, 33, 65, 140};
    const int n = sizeof sizes / sizeof *sizes;
    sample_start();
    arena = td_arena_create();
    compared = 0;
    for (int i = 0; i < 6; i++)
        for (int c = 0; c < 4; c++)
            for (int k = 0; k < n * n; k++)
                judge(td_registry_find(calls[c][0]), calls[c][1],
                      (struct td_sizes){sizes[k / n], sizes[k % n], 0}, types[i],
                      SAMPLE_TRANSPOSED);
    for (int i = 0; i < 6; i++) /* more columns and rows than a block has */
        judge(td_registry_find("sub.Tensor"), "self=[m,n] other=[m,n]",
              (struct td_sizes){150, 1100, 0}, types[i], SAMPLE_TRANSPOSED);
    ck_assert_int_gt(compared, 6 * 4 * n * n);
    td_arena_destroy(arena);
}
END_TEST

/* Each level's rows have squares turned by that level's instructions, also where elements are whole
 * numbers, whose units are as wide at all levels. */
START_TEST(test_squares_of_the_level)
{
    static const enum td_dtype types[] = {TD_u8, TD_bf16, TD_f32, TD_f64, TD_i64};
    static const char *const ops[] = {"sub.Tensor", "cast"};
    static const char *const patterns[] = {"self=[m,n] other=[m,n]", "self=[m,n] dtype=FP32"};
    int asked = 0;
    sample_start();
    for (int k = 0; k < 10; k++) {
        static struct sample s;
        struct td_point_way way;
        struct td_sizes sizes = {5, 7, 0};
        int err =
            sample_init(&s, ops[k / 5], patterns[k / 5], sizes, types[k % 5], SAMPLE_PLAIN, 1);
        for (const struct td_impl *row = s.run.call.op->impls; !err && row->run; row++) {
            if (strcmp(row->name, "simd") || !may_run(row, &s.run.call))
                continue;
            s.run.call.threads = 0;
            s.run.call.scratch = &way;
            row->run(&s.run.call);
            ck_assert_ptr_eq(way.turn, row->isa == TD_ISA_default ? td_point_turn_default
                                       : row->isa == TD_ISA_avx2  ? td_point_turn_avx2
                                                                  : td_point_turn_avx512);
            asked++;
        }
        sample_fini(&s);
    }
    ck_assert_int_gt(asked, 9);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_every_sample, test_columns_beside_long_and_short_rows,
                                  test_squares, test_squares_of_the_level};
    return td_run_tests("strides", tests, 4);
}
