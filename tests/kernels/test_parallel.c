/* Tests when kernels/parallel.c splits a loop over threads, and how evenly GEMM plans, attention,
 * convolutions and copies divide their work among them. */
#include "kernels/attention/attention.h"
#include "kernels/convolution/convolution.h"
#include "kernels/gemm/gemm.h"
#include "kernels/kernels.h"
#include "kernels/move/move.h"
#include "tests/run_tests.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define N 1000

static atomic_int seen[N];

static void see(void *arg, int64_t begin, int64_t end)
{
    (void)arg;
    for (int64_t i = begin; i < end; i++)
        seen[i]++;
}

/* Whether this build splits loops at all: without OpenMP it does not. */
static bool has_teams(void)
{
    unsigned before = td_teams_opened();
    td_parallel(2, N, 1, see, NULL);
    memset(seen, 0, sizeof seen);
    return td_teams_opened() != before;
}

static bool opens_team(int64_t grain)
{
    unsigned before = td_teams_opened();
    td_parallel_brief(2, N, grain, see, NULL);
    return td_teams_opened() != before;
}

/* Both functions run each index exactly once, with any number of threads. */
START_TEST(test_each_once)
{
    for (int64_t grain = 1; grain <= 2 * N; grain *= 3)
        for (int threads = 1; threads <= 3; threads++) {
            td_parallel(threads, N, grain, see, NULL);
            td_parallel_brief(threads, N, grain, see, NULL);
            for (int i = 0; i < N; i++)
                ck_assert_int_eq(atomic_exchange(&seen[i], 0), 2);
        }
}
END_TEST

/* td_parallel_brief does not wake sleeping threads for a short loop; it uses the team if another
 * such loop ended less than 0.1 ms before. */
START_TEST(test_brief)
{
    const struct timespec pause = {0, 20000000};
    if (!has_teams()) {
        printf("not tried: this build has no OpenMP\n");
        return;
    }
    nanosleep(&pause, NULL);
    ck_assert(!opens_team(N / 2)); /* threads would have to be woken */
    bool opened = false;
    for (int i = 0; i < 10000 && !opened; i++) /* another program may run between two of them */
        opened = opens_team(N / 2);
    ck_assert(opened);
    nanosleep(&pause, NULL);
    ck_assert(!opens_team(N / 2));     /* the threads sleep again */
    ck_assert(opens_team(N / 16));     /* the loop is long enough to wake the threads */
    ck_assert(!opens_team(N / 2 + 1)); /* the loop is too short for two threads */
    ck_assert(!opens_team(INT64_MAX));
}
END_TEST

/* No thread waits for another that has twice as many rectangles to compute. */
START_TEST(test_products_are_shared)
{
    const int64_t sizes[] = {1, 2, 5, 70, 150, 300, 1000};
    struct td_tensor t = {.dtype = TD_f32};
    for (int threads = 2; threads <= 8; threads++)
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            for (int64_t n = 256; n <= 2048; n += 64) {
                struct td_gemm g = {.m = sizes[k],
                                    .n = n,
                                    .k = 2048,
                                    .step_k = 1,
                                    .step_n = 2048,
                                    .a = &t,
                                    .b = &t,
                                    .out = &t,
                                    .threads = threads};
                struct td_gemm_plan plan;
                td_gemm_plan(&g, false, &plan);
                struct td_gemm_cut cut = td_gemm_cut(&g);
                int64_t most = (plan.items + plan.slots - 1) / plan.slots;
                ck_assert_msg(
                    4 * most * plan.slots < 5 * plan.items + plan.slots || plan.cols <= 32,
                    "%ld x %ld on %d: %ld items", (long)g.m, (long)n, threads, (long)plan.items);
                most = (cut.items + cut.slots - 1) / cut.slots;
                ck_assert_msg(4 * most * cut.slots < 5 * cut.items + cut.slots || cut.cols <= 32,
                              "%ld x %ld on %d, any type: %ld items", (long)g.m, (long)n, threads,
                              (long)cut.items);
            }
}
END_TEST

/* Blocks of attention hold every row once, are about equal, and share evenly as long as they have
 * rows enough. */
START_TEST(test_attention_is_shared)
{
    for (int threads = 1; threads <= 8; threads++)
        for (int64_t heads = 1; heads <= 16; heads++)
            for (int64_t rows = 1; rows <= 1500; rows += rows < 300 ? 1 : 37) {
                struct td_attention a = {
                    .heads = heads, .rows = rows, .keys = 512, .depth = 128, .width = 128};
                struct td_attention_cut cut = td_attention_cut(&a, threads);
                int64_t last = rows - (cut.blocks - 1) * cut.rows;
                int64_t most = (cut.items + cut.slots - 1) / cut.slots;
                ck_assert_int_eq(cut.items, heads * cut.blocks);
                ck_assert_int_le(cut.rows, TD_ATTENTION_ROWS);
                ck_assert_int_le(last, cut.rows);
                ck_assert_int_ge(last, cut.rows - 12 * cut.blocks);
                ck_assert_msg(last > 0 && (cut.rows <= 48 || 4 * most * cut.slots <= 5 * cut.items),
                              "%ld heads of %ld rows on %d threads: %ld items", (long)heads,
                              (long)rows, threads, (long)cut.items);
            }
}
END_TEST

/* Strips of a convolution whose rows are laid out hold every row once, are about equal, and no
 * thread has more than 5/4 of its part of the rows, but for one of each strip (IND-40). */
START_TEST(test_strips_are_shared)
{
    int shared = 0;
    for (int threads = 1; threads <= 5; threads++)
        for (int64_t height = 1; height <= 130; height++)
            for (int64_t images = 1; images <= 500; images = images == 3 ? 500 : images + 1) {
                struct td_tensor in = {.dtype = TD_f32}, out = {.dtype = TD_f32, .rank = 4};
                struct td_conv c = {.input = &in, .weight = &in, .out = &out, .dims = 2};
                c.images = images;
                c.groups = 1;
                c.in_channels = 8;
                c.out_channels = 128;
                memcpy(out.shape, (int64_t[]){images, 128, height, 64}, 4 * sizeof(int64_t));
                for (int d = 0; d < 2; d++) {
                    c.in[d] = c.size[d] = d ? 64 : height;
                    c.kernel[d] = 3;
                    c.stride[d] = c.dilation[d] = c.padding[d] = 1;
                }
                struct td_laid cut;
                ck_assert(td_conv_cut_laid(&c, threads, &cut));
                int64_t last = height - (cut.strips - 1) * cut.strip;
                ck_assert(last > 0 && last <= cut.strip && cut.strip < 64);
                ck_assert_int_ge(last, cut.strip - cut.strips);
                ck_assert_int_le(cut.slots, threads);
                int64_t strips = (images * cut.strips + cut.slots - 1) / cut.slots;
                int64_t ideal = (images * height + cut.slots - 1) / cut.slots;
                ck_assert_msg(4 * strips * cut.strip <= 5 * ideal + 4 * strips,
                              "%ld rows of %ld images on %d: %ld strips", (long)height,
                              (long)images, threads, (long)cut.strips);
                shared += cut.slots > 1;
                if (images == 500) /* no more than a cache needs: each lays out rows again */
                    ck_assert_int_le(cut.strips, (height + 61) / 62);
            }
    ck_assert_int_gt(shared, 1000);
}
END_TEST

/* Copies of one long run, and of a few, are shared, and none loses an element. */
START_TEST(test_long_copies_are_shared)
{
    enum { ROWS = 3, COLS = 100003, APART = COLS + 5 };
    static uint16_t from[ROWS * APART], to[ROWS * COLS];
    const bool teams = has_teams();
    td_move_piece_run *const move[] = {TD_IF_default(td_move_piece_default, ) NULL};
    if (!move[0]) {
        printf("not tried: this build has no kernels but the reference\n");
        return;
    }
    for (int i = 0; i < ROWS * APART; i++)
        from[i] = (uint16_t)(i * 7919);
    for (int rows = 1; rows <= ROWS; rows += ROWS - 1)
        for (int threads = 1; threads <= 4; threads++) {
            struct td_tensor in = {.data = from, .dtype = TD_bf16},
                             out = {.data = to, .dtype = TD_bf16};
            struct td_piece piece = {
                .box = {.from = &in, .rank = 2, .shape = {rows, COLS}, .stride = {APART, 1}},
                .out = &out,
                .stride = {COLS, 1}};
            unsigned before = td_teams_opened();
            memset(to, 0, sizeof to);
            move[0](&piece, threads);
            ck_assert_int_eq(td_teams_opened() - before, teams && threads > 1);
            for (int i = 0; i < rows; i++)
                ck_assert(!memcmp(to + i * COLS, from + i * APART, COLS * sizeof *to));
        }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_each_once,           test_brief,
                                  test_products_are_shared, test_attention_is_shared,
                                  test_strips_are_shared,   test_long_copies_are_shared};
    return td_run_tests("parallel", tests, sizeof tests / sizeof *tests);
}
