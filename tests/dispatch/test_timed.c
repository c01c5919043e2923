/* Trials by a clock that nothing but their rows moves: how often each row runs, for how long and
 * which one is chosen are exact then. trial.c stands in here, with that clock for the system's. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/rivals.h"
#include "kernels/weight.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#include <math.h>
#include <time.h>

/* ---- the clock, and rows that take what they are told to ---- */

#define ROWS 4
#define COSTS 4
#define TRAPS (-1.0)

static double cpu_ns = 1e6, wall_ns = 5e9;
static double cost[ROWS][COSTS]; /* ns of a row's runs, the last one of all others; or TRAPS */
static int ran[ROWS], ran_threads;
static int away; /* so many runs are kept off the CPU for longer than any may take */
static bool crowded, may_be_short;
static double near_peak_ns, short_ns = TD_SHORT_NS;
static const struct td_impl *table;
static int times_asked;

static int take_time(clockid_t clock, struct timespec *t)
{
    double ns = clock == CLOCK_MONOTONIC ? wall_ns : cpu_ns;
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1e9), .tv_nsec = (long)fmod(ns, 1e9)};
    return 0;
}

static int64_t take_wall(void)
{
    return (int64_t)wall_ns;
}

static bool is_stopped(void)
{
    const struct td_stop *stop = td_stop_obeyed;
    return stop && stop->deadline_ns && wall_ns > (double)stop->deadline_ns;
}

static int run_row(const struct td_impl *row, struct td_call *call)
{
    int i = (int)(row - table);
    double ns = 0, left = INFINITY;
    for (int k = 0; k <= ran[i] && k < COSTS && cost[i][k]; k++)
        ns = cost[i][k];
    ran[i]++;
    ran_threads = call->threads;
    if (away && away--) {
        wall_ns += 1e9;
        return 0;
    }
    if (ns == TRAPS)
        return -EFAULT;
    if (td_stop_obeyed && td_stop_obeyed->deadline_ns && !row->library)
        left = (double)td_stop_obeyed->deadline_ns + 1 - wall_ns;
    ns = ns < left ? ns : left;
    cpu_ns += ns;
    wall_ns += ns;
    return 0;
}

#define clock_gettime take_time
#define td_clock_ns take_wall
#define td_stopped is_stopped
#define td_impl_run run_row
#define td_team_is_crowded() crowded
#define td_timing_near_peak_ns(t) near_peak_ns
#define td_timing_short_ns(t) short_ns
#define td_timing_may_be_short(t) may_be_short
#define td_try_rows td_try_rows_by_this_clock
bool td_try_rows(const struct td_impl *rows, const struct td_call *call, bool asked,
                 struct td_measured *m);

#include "dispatch/choice/trial.c"

/* ---- a call ---- */

/* Never called; but rows of one function are the same row. */
#define RUN(name)                                                                                  \
    static void name(const struct td_call *call)                                                   \
    {                                                                                              \
        (void)call;                                                                                \
    }
RUN(run_a)
RUN(run_b)
RUN(run_c)

static const char *refuses(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    times_asked++;
    return "it takes none";
}

static double each = 1; /* operations an element */

static double flops(const struct td_call *call)
{
    return each * (double)td_numel(&call->out[0]);
}

#define ROW(title, how) .name = (title), .run = (how), .dtypes = TD_ALL
#define OWN(title, how) ROW(title, how), .prepare = takes
static const struct td_impl own[4] = {{OWN("a", run_a)}, {OWN("b", run_b)}, {OWN("ref", toy_run)}};
static const struct td_impl three[5] = {{OWN("a", run_a)},
                                        {OWN("b", run_b)},
                                        {OWN("c", run_c), .rounding = flops},
                                        {OWN("ref", toy_run)}};
static const struct td_impl library[5] = {{OWN("a", run_a)},
                                          {OWN("b", run_b), .library = true},
                                          {OWN("c", run_c)},
                                          {OWN("ref", toy_run)}};
static const struct td_impl library_first[4] = {
    {OWN("a", run_a), .library = true}, {OWN("b", run_b)}, {OWN("ref", toy_run)}};
static const struct td_impl refused_last[4] = {
    {OWN("a", run_a)},
    {ROW("b", run_b), .library = true, .prepare = refuses},
    {OWN("ref", toy_run)}};

static const struct td_op op = {.schema = "toy_timed(Tensor self) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = own,
                                .flops = flops};
static struct td_value arg;
static struct td_tensor out[TD_MAX_OUTS];
static struct td_call call;
static struct td_measured m;

/* The rows of a table, which take so long, in a call of so many threads. */
static bool try_asked(const struct td_impl *rows, int threads, bool asked, double a, double b,
                      double c)
{
    table = rows;
    memset(ran, 0, sizeof ran);
    const double ns[] = {a, b, c};
    for (int i = 0; i < 3; i++)
        cost[i][0] = ns[i] ? ns[i] : cost[i][0];
    call.threads = threads;
    bool done = td_try_rows(rows, &call, asked, &m);
    memset(cost, 0, sizeof cost);
    return done;
}

static void try(const struct td_impl *rows, int threads, double a, double b, double c)
{
    ck_assert(try_asked(rows, threads, false, a, b, c));
}

static void begin(void)
{
    start();
    arg = (struct td_value){
        .kind = TD_KIND_tensor,
        .tensor = {.dtype = TD_f64, .rank = 2, .shape = {500, 200}, .data = &arg}};
    call = (struct td_call){.op = &op, .n_args = 1, .arg = &arg, .out = out};
    ck_assert(!op.rule(&call));
}

static void ran_so_often(int a, int b)
{
    ck_assert_int_eq(ran[0], a);
    ck_assert_int_eq(ran[1], b);
}

/* The rows take so long, and run so often. */
static void runs(const struct td_impl *rows, int threads, double a, double b, int n_a, int n_b)
{
    try(rows, threads, a, b, 0);
    ran_so_often(n_a, n_b);
}

/* ---- tests ---- */

/* Two runs of each row, then rounds of those that are near enough (JIT-6). */
START_TEST(test_far)
{
    begin();
    runs(own, 1, 30000, 38000, 2, 2); /* 1.27 of the best after a run that is long and precise */
    runs(own, 1, 30000, 37000, 3, 3); /* 1.23, which is far behind once both ran in a round */
    runs(own, 1, 30000, 35000, 3, 3);
    runs(own, 1, 30000, 34000, 5, 5); /* 1.13: three rounds */
    runs(own, 1, 19000, 56000, 3, 3); /* a short run is not precise: up to three times the best */
    runs(own, 1, 19000, 58000, 2, 2);
    runs(own, 1, 20000, 26000, 2, 2); /* but one of 20 us is */
    runs(own, 2, 30000, 89000, 3, 3); /* nor is one of several threads */
    runs(own, 2, 30000, 91000, 2, 2);
    runs(own, 1, 5000, 5200, 2 + 3 * 3, 2 + 3 * 3); /* rounds of 20 us: three runs in each */
}
END_TEST

/* A trial that was asked for has seven rounds, also of rows that are farther behind (JIT-6). */
START_TEST(test_asked)
{
    begin();
    ck_assert(try_asked(own, 2, true, 30000, 44000, 0));
    ran_so_often(9, 9);
    ck_assert(try_asked(own, 2, true, 30000, 46000, 0));
    ran_so_often(3, 3);
    crowded = true;
    ck_assert(try_asked(own, 2, true, 30000, 46000, 0));
    ck_assert_int_eq(ran_threads, 2);
    ck_assert(try_asked(own, 2, false, 30000, 46000, 0)); /* else one thread's time has to do */
    ck_assert_int_eq(ran_threads, 1);
    ran_so_often(2, 2);
}
END_TEST

/* After 1.5 ms, of several threads 3, no further round begins (JIT-6). */
START_TEST(test_end)
{
    begin();
    runs(own, 1, 249000, 249000, 5, 5); /* the rounds begin at 498, 996 and 1494 us */
    runs(own, 1, 251000, 251000, 4, 4);
    runs(own, 2, 499000, 499000, 5, 5);
    runs(own, 2, 501000, 501000, 4, 4);
}
END_TEST

/* A row is stopped after three times the best and half a millisecond, and for a stored tensor a
 * nanosecond a byte; but never later than the caller (JIT-6). */
START_TEST(test_stopped)
{
    struct td_weight *w = NULL;
    static double numbers[500 * 200];
    begin();
    double since = cpu_ns;
    runs(own, 1, 1e6, 3.4e6, 2, 2);
    ck_assert_double_eq(cpu_ns - since, 2 * 1e6 + 2 * 3.4e6);
    since = cpu_ns;
    runs(own, 1, 1e6, 4e6, 2, 1);
    ck_assert_double_eq(cpu_ns - since, 2 * 1e6 + 3.5e6 + 1);
    ck_assert_str_eq(m.row->name, "a");
    struct td_tensor like = arg.tensor;
    like.data = numbers;
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    arg.tensor.weight = w;
    since = cpu_ns;
    try(own, 1, 1e6, 5e6, 0);
    ck_assert_double_eq(cpu_ns - since, 2 * 1e6 + 3.5e6 + sizeof numbers + 1);
    arg.tensor.weight = NULL;
    td_weight_unref(&w);
    struct td_stop stop = {.deadline_ns = (int64_t)wall_ns + 3000000};
    const struct td_stop *before = td_stop_obey(&stop);
    since = wall_ns;
    ck_assert(!try_asked(own, 1, false, 1e6, 5e6, 0));
    ck_assert_ptr_eq(td_stop_obey(before), &stop);
    ck_assert_double_eq(wall_ns - since, 3000001);
}
END_TEST

/* A run that was stopped since others kept it off the CPU is made again, twice (JIT-6). */
START_TEST(test_away)
{
    static struct td_timing t = {.copy.call.threads = 1};
    begin();
    table = own;
    cost[1][0] = 1e6;
    for (int n = 1; n < 4; n++) {
        struct td_rival of = {.row = &own[1]};
        ran[1] = 0;
        away = n;
        double ns = time_limited(&t, &of, 4e6, TRIES);
        ck_assert_int_eq(ran[1], n < 3 ? n + 1 : 3);
        ck_assert_double_eq(ns, n < 3 ? 1e6 : 4e6 + 1);
        ck_assert_ptr_null(td_stop_obeyed);
    }
}
END_TEST

/* A first run that is long is the only one: of a library's row twice as long (JIT-6). */
START_TEST(test_long)
{
    begin();
    runs(own, 1, 3.9e6, 3.9e6, 2, 2);
    runs(own, 1, 4e6, 4e6, 1, 1);
    runs(library_first, 1, 7.9e6, 4e6, 2, 1);
    runs(library_first, 1, 8e6, 4e6, 1, 1);
    ck_assert(try_asked(own, 1, true, 4e6, 4e6, 0));
    ran_so_often(2, 2);
}
END_TEST

/* Rows within 3 % are equal: the first in the table is taken, whichever was timed first (JIT-6). */
START_TEST(test_equal)
{
    begin();
    try(own, 1, 51400, 50000, 0);
    ck_assert_str_eq(m.row->name, "a");
    try(own, 1, 51600, 50000, 0);
    ck_assert_str_eq(m.row->name, "b");
    ck_assert(m.tried[0].row == &own[0] && m.tried[1].row == &own[1]);
    ck_assert_double_eq(m.tried[0].us, 51.6);
    ck_assert_double_eq(m.tried[1].us, 50);
    may_be_short = true; /* the first run is stopped as no short one, and has its turn behind b */
    const double slow_at_first[COSTS] = {1e6, 50000};
    memcpy(cost[0], slow_at_first, sizeof slow_at_first);
    runs(own, 1, 0, 50000, 1 + 5, 5);
    ck_assert_str_eq(m.row->name, "a");
    ck_assert(m.tried[0].row == &own[0] && m.tried[1].row == &own[1]);
}
END_TEST

/* Of a row's rounds the fastest counts; one that traps is out, whenever it does (JIT-6). */
START_TEST(test_rounds)
{
    static const double slower[COSTS] = {30000, 30000, 60000}, faster[] = {40000, 33500, 20000, 0},
                        traps[COSTS] = {TRAPS}, traps_late[COSTS] = {30000, 30000, TRAPS};
    begin();
    memcpy(cost[1], slower, sizeof slower);
    try(own, 1, 33000, 0, 0);
    ck_assert_str_eq(m.row->name, "b");
    ck_assert_double_eq(m.tried[1].us, 30);
    memcpy(cost[1], faster, sizeof faster);
    try(own, 1, 30000, 0, 0);
    ck_assert_str_eq(m.row->name, "b");
    ck_assert_double_eq(m.tried[1].us, 20);
    memcpy(cost[1], traps, sizeof traps);
    try(own, 1, 30000, 0, 0);
    ck_assert_str_eq(m.row->name, "a");
    ck_assert_double_eq(m.tried[1].us, 0);
    memcpy(cost[1], traps_late, sizeof traps_late);
    try(own, 1, 33000, 0, 0);
    ck_assert_str_eq(m.row->name, "a");
    ck_assert_double_eq(m.tried[1].us, 0);
}
END_TEST

/* Behind a row near the peak those are timed that multiply less; behind a short one no library's,
 * and behind a very short one none (JIT-6). */
START_TEST(test_left_out)
{
    begin();
    try(three, 1, 30000, 30000, 30000);
    ck_assert_int_eq(m.n, 3);
    near_peak_ns = 30000;
    try(three, 1, 30000, 30000, 30000);
    ck_assert_int_eq(m.n, 2);
    ck_assert_str_eq(m.tried[1].row->name, "c");
    ck_assert_int_eq(ran[1], 0);
    near_peak_ns = 29999;
    try(three, 1, 30000, 30000, 30000);
    ck_assert_int_eq(m.n, 3);
    near_peak_ns = 0;
    short_ns = 8000;
    try(library, 1, 8001, 8001, 8001);
    ck_assert_int_eq(m.n, 3);
    try(library, 1, 8000, 8000, 8000);
    ck_assert_int_eq(m.n, 2);
    ck_assert_str_eq(m.tried[1].row->name, "c");
    try(library, 1, 2000, 2000, 2000);
    ck_assert_int_eq(m.n, 1);
    ck_assert_int_eq(ran[2], 0);
    ck_assert(try_asked(library, 1, true, 2000, 2000, 2000) && m.n == 3);
}
END_TEST

/* A library's row behind one of ours is asked when its turn comes, and never run where it refuses
 * (JIT-6). */
START_TEST(test_asked_later)
{
    begin();
    runs(refused_last, 1, 2000, 30000, 2, 0); /* behind a short one it is not even asked */
    ck_assert_int_eq(times_asked, 0);
    runs(refused_last, 1, 30000, 30000, 2, 0);
    ck_assert_int_eq(times_asked, 1);
    ck_assert_int_eq(m.n, 1);
}
END_TEST

/* What a part took is told as what the whole takes (JIT-6). */
START_TEST(test_times)
{
    begin();
    each = 1e5; /* 1e10 operations, of which 64 rows are a part */
    try(own, 1, 30000, 40000, 0);
    ck_assert_double_eq_tol(m.tried[1].us, 40 * 500. / 64, 1e-9);
    ck_assert(try_asked(own, 1, true, 30000, 40000, 0));
    ck_assert_double_eq(m.tried[1].us, 40);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_far,      test_asked,       test_end,   test_stopped,
                                  test_away,     test_long,        test_equal, test_rounds,
                                  test_left_out, test_asked_later, test_times};
    return td_run_tests("timed", tests, sizeof tests / sizeof *tests);
}
