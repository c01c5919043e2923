/* Transposes at each level, beside a loop: sides shorter and longer than squares and blocks of
 * these, few rows or columns beside many, with a few elements behind, and rows as far apart as sets
 * of the cache repeat. Operands end where memory does. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>
#include <string.h>

static int judged;

static void judge(int cols, int rows, enum td_dtype type, const char *level)
{
    char pattern[80];
    struct sample sample;
    snprintf(pattern, sizeof pattern, "self=[2,%d,%d] dim0=1 dim1=2", cols, rows);
    int err = sample_init(&sample, "transpose.int", pattern, (struct td_sizes){0}, type,
                          SAMPLE_BITS, (uint64_t)(cols + rows));
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    const size_t size = td_dtype_size(type);
    const char *in = call->arg[0].tensor.data, *out = call->out[0].data;
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!sample_is_simd(impl, call, level))
            continue;
        memset(call->out[0].data, 0x77, td_nbytes(&call->out[0]));
        ck_assert_int_eq(sample_run(impl, call), 0);
        for (int i = 0; i < 2 * rows * cols; i++) {
            int from = i / cols / rows * rows * cols + i % cols * rows + i / cols % rows;
            ck_assert_msg(!memcmp(out + (size_t)i * size, in + (size_t)from * size, size),
                          "%s of %s at %s: element %d differs", pattern, td_dtype_name(type), level,
                          i);
        }
        judged++;
    }
    sample_fini(&sample);
}

/* IND-29 */
START_TEST(test_transposes)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    static const enum td_dtype types[] = {TD_u8, TD_bf16, TD_f32, TD_i64};
    static const int sizes[][2] = {
        {1, 300},  {5, 70},   {9, 33},    {15, 15},    {16, 256},  {17, 17},   {20, 1000},
        {23, 255}, {63, 257}, {65, 2100}, {130, 260},  {300, 31},  {1100, 40}, {512, 270},
        {600, 15}, {33, 436}, {24, 24},   {1024, 300}, {48, 1024}, {2, 301},   {3, 70},
        {4, 4100}, {5, 300},  {6, 1030},  {7, 333},    {8, 1100},  {12, 1100}, {13, 50},
        {301, 2},  {4200, 3}, {1000, 4},  {333, 5},    {700, 6},   {900, 7}};
    sample_start();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t level = 0; level < 3; level++)
            for (size_t type = 0; type < 4; type++)
                if (types[type] == TD_f32 || i % 3 == level)
                    judge(sizes[i][0], sizes[i][1], types[type], levels[level]);
    ck_assert_int_ge(judged, 34 * 2);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_transposes};
    return td_run_tests("transposes", tests, 1);
}
