/* Parts of calls, on which rows are timed where the whole would take long. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/part.h"
#include "dispatch/choice/peaks.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#include <time.h>

static int64_t rows_ran;
static double each = 1e6;       /* operations an element */
static bool any, counts, lists; /* the rule takes any second dimension; counts; makes a list */
static bool two;                /* it makes two results, of which the second is of FP64 */
static double fixed = -1;       /* operations of any call, where it is not negative */
static int64_t least;           /* rows of which there are to be so many for any operations */
static struct td_problem problem;

/* As toy_rule, but the second dimension must be 100: the product's, as it were. */
static int rule_of_100(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    if (self->rank > 1 && self->shape[1] != 100 && !any)
        return td_refuse(call, "self: its second dimension must be 100");
    call->counted = counts;
    int err = toy_rule(call);
    call->out[0].rank -= lists;
    if (two) {
        call->out[call->n_out] = call->out[0];
        call->out[call->n_out++].dtype = TD_f64;
    }
    return err;
}

static double flops(const struct td_call *call)
{
    if (call->arg[0].tensor.shape[0] < least)
        return 0;
    return fixed < 0 ? each * (double)td_numel(&call->out[0]) : fixed;
}

static void run_rows(const struct td_call *call)
{
    rows_ran = call->arg[0].tensor.shape[0];
    toy_run(call);
}

static const struct td_impl rows[] = {
    {.name = "library", .run = run_rows, .dtypes = TD_ALL, .library = true, .prepare = takes},
    {.name = "own", .run = toy_run, .dtypes = TD_ALL, .prepare = takes},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_part(Tensor self, int mode) -> Tensor",
                                .rule = rule_of_100,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};

struct bound {
    struct td_value arg[2];
    struct td_tensor out[TD_MAX_OUTS];
    struct td_call call;
};

static const struct td_call *bound_to(struct bound *b, int rank, const int64_t *shape, int threads)
{
    *b = (struct bound){.arg = {{.kind = TD_KIND_tensor, .tensor = {.dtype = TD_f32, .rank = rank}},
                                {.kind = TD_KIND_int, .i = 7}}};
    memcpy(b->arg[0].tensor.shape, shape, sizeof *shape * (size_t)rank);
    b->arg[0].tensor.data = b; /* only compared */
    b->call =
        (struct td_call){.op = &op, .n_args = 2, .threads = threads, .arg = b->arg, .out = b->out};
    ck_assert(!op.rule(&b->call));
    b->out[0].data = &b->call;
    b->call.problem = &problem;
    return &b->call;
}

/* The first dimension whose sizes the rule takes and that is long enough, but never the last; a
 * part has 2e7 operations for each thread, and 8 of that dimension and 64 rows at least (JIT-6). */
START_TEST(test_dimension)
{
    static const struct {
        int rank, threads, d;
        int64_t shape[3], rows;
        double each;
    } cases[] = {
        {3, 1, 0, {50000, 100, 2}, 100, 1e3},  /* 1e10 operations */
        {3, 2, 0, {50000, 100, 2}, 200, 1e3},  /* as many for each of two */
        {3, 1, 0, {48, 100, 2}, 8, 1e6},       /* 9.6e9: no fewer than 8 */
        {3, 1, 2, {15, 100, 2}, 0, 1e6},       /* fewer than twice 8, and the next is refused */
        {2, 1, 0, {128, 100}, 64, 1e8},        /* no fewer than 64 rows in all */
        {2, 1, 0, {127, 100}, 0, 1e8},         /* fewer than twice 64 */
        {2, 1, 1, {3, 100}, 0, 1e9},           /* the last is none of rows */
        {3, 1, 0, {50000, 100, 2}, 0, 5.9},    /* 5.9e7: not worth it */
        {3, 1, 0, {50000, 100, 2}, 16666, 6.}, /* 6e7 */
        {1, 1, 0, {50000}, 0, 1e6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bound b;
        struct td_part part;
        each = cases[i].each;
        const struct td_call *call = bound_to(&b, cases[i].rank, cases[i].shape, cases[i].threads);
        const struct td_value arg = b.arg[0];
        const struct td_tensor out = b.out[0];
        ck_assert_int_eq(td_part_of(call, &part), cases[i].rows > 0);
        ck_assert_mem_eq(b.arg, &arg, sizeof arg);
        ck_assert_mem_eq(&b.out[0], &out, sizeof out);
        if (!cases[i].rows)
            continue;
        for (int d = 0; d < cases[i].rank; d++) {
            int64_t wanted = d == cases[i].d ? cases[i].rows : cases[i].shape[d];
            ck_assert_int_eq(part.call.arg[0].tensor.shape[d], wanted);
            ck_assert_int_eq(part.call.out[0].shape[d], wanted);
        }
        double times = (double)cases[i].shape[cases[i].d] / (double)cases[i].rows;
        ck_assert_double_eq_tol(part.times, times, 1e-9);
        ck_assert_ptr_eq(part.call.problem, NULL);
        ck_assert_mem_eq(&part.call.arg[1], &b.arg[1], sizeof b.arg[1]);
    }
}
END_TEST

/* Rows of the second dimension, where the first has too few and the rule takes them; the part is
 * dense, and a refusal by its rule leaves the call's problem empty (JIT-6). */
START_TEST(test_second)
{
    static const int64_t strides[] = {7, 7, 7};
    struct bound b;
    struct td_part part;
    each = 1e5;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){3, 100, 20}, 1);
    *problem.text = 0;
    ck_assert(!td_part_of(call, &part));
    ck_assert_int_eq(*problem.text, 0);
    any = true;
    call = bound_to(&b, 3, (const int64_t[]){2, 5000, 20}, 1); /* 2e10 operations */
    b.arg[0].tensor.stride = strides;
    ck_assert(td_part_of(call, &part));
    ck_assert_ptr_null(part.call.arg[0].tensor.stride);
    ck_assert_ptr_eq(b.arg[0].tensor.stride, strides);
    ck_assert_int_eq(part.call.arg[0].tensor.shape[0], 2);
    ck_assert_int_eq(part.call.arg[0].tensor.shape[1], 32); /* 64 rows in all */
    any = false;
}
END_TEST

/* Of two dimensions, where few of the first take long too; the last stays (JIT-6). */
START_TEST(test_both)
{
    static const int64_t few[] = {8, 32, 20}; /* 256 rows */
    struct bound b;
    struct td_part part;
    each = 1e5;
    any = true;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){500, 300, 20}, 1);
    ck_assert(td_part_of(call, &part));
    for (int d = 0; d < 3; d++) {
        ck_assert_int_eq(part.call.arg[0].tensor.shape[d], few[d]);
        ck_assert_int_eq(part.call.out[0].shape[d], few[d]);
    }
    ck_assert_double_eq_tol(part.times, 500. * 300 / 256, 1e-6);
    each = 40; /* 1.2e8 operations: one dimension is enough */
    call = bound_to(&b, 3, (const int64_t[]){500, 300, 20}, 1);
    ck_assert(td_part_of(call, &part));
    ck_assert_int_eq(part.call.arg[0].tensor.shape[0], 83);
    ck_assert_int_eq(part.call.arg[0].tensor.shape[1], 300);
    any = false;
}
END_TEST

/* No part of what has as many operations whatever its rows are, or none, nor of what counts what
 * it finds (JIT-6). */
START_TEST(test_no_less)
{
    struct bound b;
    struct td_part part;
    each = 1e5;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){500, 100, 2}, 1);
    ck_assert(td_part_of(call, &part));
    fixed = 1e10;
    ck_assert(!td_part_of(call, &part));
    fixed = -1;
    least = 500;
    ck_assert(!td_part_of(call, &part));
    least = 0;
    counts = true;
    ck_assert(!td_part_of(call, &part));
    counts = false;
    b.call.counted = true;
    ck_assert(!td_part_of(call, &part));
    b.call.counted = false;
    lists = true;
    ck_assert(!td_part_of(call, &part));
    lists = false;
    ck_assert(td_part_of(call, &part));
    fixed = 1e10; /* of which others have as many without an element of the first */
    ck_assert(!td_part_of(bound_to(&b, 3, (const int64_t[]){0, 100, 2}, 1), &part));
    any = true;
    ck_assert(!td_part_of(bound_to(&b, 3, (const int64_t[]){500, 0, 2}, 1), &part));
    any = false;
    fixed = -1;
}
END_TEST

/* A stored weight has no rows, and what has two results of other types, or none, no part (JIT-6).
 */
START_TEST(test_none)
{
    struct bound b;
    struct td_part part;
    each = 1e6;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){5000, 100, 2}, 1);
    ck_assert(td_part_of(call, &part));
    b.arg[0].tensor.weight = (struct td_weight *)(void *)&b;
    ck_assert(!td_part_of(call, &part));
    b.arg[0].tensor.weight = NULL;
    b.out[0].dtype = TD_f64; /* the rule's is FP32 */
    ck_assert(!td_part_of(call, &part));
    b.out[0].dtype = TD_f32;
    b.call.n_out = 2;
    ck_assert(!td_part_of(call, &part));
    two = true;
    call = bound_to(&b, 3, (const int64_t[]){5000, 100, 2}, 1);
    ck_assert(td_part_of(call, &part));
    ck_assert_int_eq(part.call.out[1].dtype, TD_f64);
    ck_assert_int_lt(part.call.out[1].shape[0], 5000);
    b.out[1].dtype = TD_f32;
    ck_assert(!td_part_of(call, &part));
    two = false;
}
END_TEST

/* A trial runs the part and tells the time of the whole; one that was asked for runs the whole. */
START_TEST(test_trial)
{
    struct bound b;
    struct td_measured m;
    start();
    each = 1e5;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){500, 100, 2}, 1);
    ck_assert(td_try_rows(rows, call, false, &m));
    ck_assert_int_eq(rows_ran, 8);
    ck_assert_double_eq(m.flops, 1e10);
    ck_assert(td_try_rows(rows, call, true, &m));
    ck_assert_int_eq(rows_ran, 500);
}
END_TEST

static int library_asked;
static double most = 6e7; /* operations of a call that the first row leads */

static const char *takes_asked(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    library_asked++;
    return NULL;
}

static const char *leads_below(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->leads = flops(call) < most;
    return NULL;
}

/* Takes half as long again as the CPU's peak would. */
static void spin(const struct td_call *call)
{
    double s = 1.5 * flops(call) / td_peaks_glance();
    for (clock_t begin = clock(); clock() - begin < s * CLOCKS_PER_SEC;)
        ;
    toy_run(call);
}

/* A row that leads a part may not lead the whole: a library is asked behind it (JIT-6). */
START_TEST(test_leads)
{
    static const struct td_impl led[] = {
        {.name = "own", .run = spin, .dtypes = TD_ALL, .prepare = leads_below},
        {.name = "library",
         .run = run_rows,
         .dtypes = TD_ALL,
         .library = true,
         .prepare = takes_asked},
        {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
        {0}};
    struct bound b;
    struct td_measured m;
    start();
    each = 590; /* 5.9e7 operations: timed as it is */
    ck_assert(td_try_rows(led, bound_to(&b, 3, (const int64_t[]){500, 100, 2}, 1), false, &m));
    ck_assert_int_eq(m.n, 1);
    ck_assert_int_eq(library_asked, 0);
    each = 600;
    most = 1e9; /* the whole, too */
    ck_assert(td_try_rows(led, bound_to(&b, 3, (const int64_t[]){500, 100, 2}, 1), false, &m));
    ck_assert_int_eq(library_asked, 0);
    most = 6e7;
    for (int i = 0; i < 20 && !library_asked; i++) /* the peak may have been measured too low */
        ck_assert(td_try_rows(led, bound_to(&b, 3, (const int64_t[]){500, 100, 2}, 1), false, &m));
    ck_assert_int_eq(library_asked, 1);
    ck_assert_int_eq(m.n, 2);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_dimension, test_second, test_both, test_no_less,
                                  test_none,      test_trial,  test_leads};
    return td_run_tests("part", tests, sizeof tests / sizeof *tests);
}
