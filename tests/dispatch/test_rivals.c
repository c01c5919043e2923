/* Which rows are timed for a call, and which are not even asked whether they take it. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/peaks.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#include <time.h>

static int asked, own_us, own_ran, library_us = 100;
static double peak_s; /* what the call takes at the CPU's peak; 0: next to nothing */

static void work(const struct td_call *call, int us)
{
    for (clock_t begin = clock(); clock() - begin < us && !td_stopped();)
        ;
    toy_run(call);
}

static void short_own(const struct td_call *call)
{
    (void)call;
}

static void own(const struct td_call *call)
{
    own_ran++;
    work(call, own_us);
}

static void other(const struct td_call *call)
{
    work(call, own_us);
}

static void library(const struct td_call *call)
{
    work(call, library_us);
}

static const char *takes_and_leads(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call;
    prepared->leads = true;
    return NULL;
}

static const char *takes_asked(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    asked++;
    return NULL;
}

static const char *refuses(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    asked++;
    return "it takes none";
}

static double flops(const struct td_call *call)
{
    return peak_s > 0 ? td_peaks_glance() * peak_s : (double)td_numel(&call->out[0]);
}

#define OWN(title, how)                                                                            \
    {                                                                                              \
        .name = (title), .run = (how), .dtypes = TD_ALL, .prepare = takes                          \
    }
#define LIBRARY(answer)                                                                            \
    {                                                                                              \
        .name = "library", .run = library, .dtypes = TD_ALL, .library = true, .prepare = (answer)  \
    }
#define REF                                                                                        \
    {                                                                                              \
        .name = "ref", .run = toy_run, .dtypes = TD_ALL                                            \
    }

static const struct td_impl rows[] = {OWN("own", own), REF, {0}};
static const struct td_op op = {.schema = "toy_rival(Tensor self) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};
static struct td_problem problem;
static struct td_options options;
static struct td_run run;
static struct td_measured m;

static void bind_rival(void)
{
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    struct td_tensor self = {.dtype = TD_f32, .rank = 1, .shape = {100}};
    struct td_named arg = {.value = {.kind = TD_KIND_tensor, .tensor = self}};
    options = (struct td_options){.alloc = td_alloc_in_arena, .alloc_arg = td_arena_create()};
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_rival", &def, NULL, &problem), 0);
    ck_assert_int_eq(td_run_bind(&run, "toy_rival", &arg, 1, &options), 0);
    run.call.threads = 1;
}

/* Tries the rows until n of them are timed: an interrupt makes a short one look longer. */
static void try_until(const struct td_impl *some, int n)
{
    m.n = 0;
    for (int i = 0; i < 20 && m.n != n; i++) {
        asked = own_ran = 0;
        ck_assert(td_try_rows(some, &run.call, false, &m));
    }
    ck_assert_int_eq(m.n, n);
}

/* Behind one of ours that takes no longer than to call a library, nothing is timed. */
START_TEST(test_not_asked)
{
    const struct td_impl is_short[] = {
        OWN("short", short_own), LIBRARY(takes_asked), OWN("short", short_own), REF, {0}};
    const struct td_impl is_behind[] = {LIBRARY(takes_asked), OWN("short", short_own), REF, {0}};
    const struct td_impl leader = {
        .name = "own", .run = own, .dtypes = TD_ALL, .prepare = takes_and_leads};
    const struct td_impl leads[] = {leader, LIBRARY(takes_asked), OWN("behind", other), REF, {0}};
    const struct td_impl beside[] = {leader, OWN("other", other), LIBRARY(takes_asked), REF, {0}};
    const struct td_impl before[] = {OWN("own", own), LIBRARY(takes_asked), REF, {0}};
    const struct td_impl *const shorts[] = {is_short, is_behind};
    bind_rival();
    for (int k = 0; k < 2; k++) {
        try_until(shorts[k], 1);
        ck_assert_str_eq(m.row->name, "short");
        ck_assert_int_eq(asked, 0);
    }
    own_us = 100;
    try_until(leads, 1); /* it says so: the library is not asked at all, nor what is behind it */
    ck_assert_str_eq(m.row->name, "own");
    ck_assert_int_eq(own_ran, 0);
    ck_assert_int_eq(asked, 0);
    ck_assert(td_try_rows(leads, &run.call, true, &m)); /* but where a client asked, all are */
    ck_assert_int_eq(m.n, 3);
    try_until(beside, 2); /* and what stands before the library is timed */
    ck_assert_int_eq(asked, 0);
    try_until(before, 2); /* to stand before it is not enough */
    ck_assert_int_gt(asked, 0);
    asked = 0;
    ck_assert(td_try_rows(is_short, &run.call, true, &m));
    ck_assert_int_eq(m.n, 2);
    ck_assert_int_eq(asked, 1);
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* A row of a few microseconds leaves the library unasked, but not our other rows. */
START_TEST(test_short_but_not_least)
{
    const struct td_impl two[] = {
        OWN("own", own), LIBRARY(takes_asked), OWN("other", other), OWN("own", own), REF, {0}};
    bind_rival();
    own_us = 4;
    try_until(two, 2);
    ck_assert_int_eq(asked, 0);
    own_us = 1000;
    ck_assert(td_try_rows(two, &run.call, false, &m));
    ck_assert_int_gt(asked, 0);
    asked = 0;
    ck_assert_str_eq(m.row->name, "library");
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* A row that is stopped, since it proves not to be short before any other has run, has its turn
 * behind the others, and is used where those take no call. */
START_TEST(test_put_off)
{
    const struct td_impl beside[] = {
        LIBRARY(refuses), OWN("own", own), OWN("short", short_own), REF, {0}};
    const struct td_impl lone[] = {LIBRARY(refuses), OWN("own", own), OWN("own", own), REF, {0}};
    const struct td_impl slow[] = {LIBRARY(takes_asked), OWN("own", own), REF, {0}};
    bind_rival();
    own_us = 2000;
    ck_assert(td_try_rows(beside, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "short");
    asked = 0;
    ck_assert(td_try_rows(lone, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "own");
    ck_assert_int_gt(asked, 0);
    asked = 0;
    ck_assert_int_eq(m.n, 1);
    library_us = 1000;
    ck_assert(td_try_rows(slow, &run.call, false, &m));
    ck_assert_str_eq(m.row->name, "library");
    td_arena_destroy(options.alloc_arg);
}
END_TEST

/* Where ours take less than a library's first run, even at a tenth of the peak, ours are timed
 * before a library that the table has first, which may prove not to be worth it (JIT-6). */
START_TEST(test_light)
{
    const struct td_impl first[] = {LIBRARY(takes_asked), OWN("own", own), REF, {0}};
    bind_rival();
    own_us = 31;
    library_us = 100;
    peak_s = 30e-6;
    try_until(first, 1);
    ck_assert_int_eq(asked, 0);
    own_us = 3000;
    library_us = 210;
    peak_s = 230e-6; /* at a tenth, 2.3 ms; the library comes near it, so ours is not timed */
    try_until(first, 1);
    ck_assert_str_eq(m.row->name, "library");
    ck_assert_int_eq(own_ran, 0);
    peak_s = 0;
    td_arena_destroy(options.alloc_arg);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_not_asked, test_short_but_not_least, test_put_off,
                                  test_light};
    return td_run_tests("rivals", tests, sizeof tests / sizeof *tests);
}
