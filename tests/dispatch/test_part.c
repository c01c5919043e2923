/* Parts of calls, on which rows are timed where the whole would take long. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/part.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

static int64_t rows_ran;
static double each = 1e6; /* operations an element */

/* As toy_rule, but the second dimension must be 100: the product's, as it were. */
static int rule_of_100(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    if (self->rank > 1 && self->shape[1] != 100)
        return td_refuse(call, "self: its second dimension must be 100");
    return toy_rule(call);
}

static double flops(const struct td_call *call)
{
    return each * (double)td_numel(&call->out[0]);
}

static void run_rows(const struct td_call *call)
{
    rows_ran = call->arg[0].tensor.shape[0];
    toy_run(call);
}

static const char *takes(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    return NULL;
}

static const struct td_impl rows[] = {
    {.name = "library", .run = run_rows, .dtypes = TD_ALL, .library = true, .prepare = takes},
    {.name = "own", .run = toy_run, .dtypes = TD_ALL, .prepare = takes},
    {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
    {0}};
static const struct td_op op = {.schema = "toy_part(Tensor self) -> Tensor",
                                .rule = rule_of_100,
                                .dtypes = TD_ALL,
                                .impls = rows,
                                .flops = flops};

struct bound {
    struct td_value arg;
    struct td_tensor out[TD_MAX_OUTS];
    struct td_call call;
};

static const struct td_call *bound_to(struct bound *b, int rank, const int64_t *shape, int threads)
{
    *b = (struct bound){.arg = {.kind = TD_KIND_tensor, .tensor = {.dtype = TD_f32, .rank = rank}}};
    memcpy(b->arg.tensor.shape, shape, sizeof *shape * (size_t)rank);
    b->arg.tensor.data = b; /* only compared */
    b->call =
        (struct td_call){.op = &op, .n_args = 1, .threads = threads, .arg = &b->arg, .out = b->out};
    ck_assert(!op.rule(&b->call));
    b->out[0].data = &b->call;
    return &b->call;
}

/* The first dimension whose sizes the rule takes and that is long enough, but never the last; a
 * part has 1e8 operations for each thread, and 24 rows at least. */
START_TEST(test_dimension)
{
    static const struct {
        int rank, threads, d;
        int64_t shape[3], rows;
        double each;
    } cases[] = {
        {3, 1, 0, {50000, 100, 2}, 500, 1e3},   /* 1e10 operations */
        {3, 2, 0, {50000, 100, 2}, 1000, 1e3},  /* as many for each of two */
        {3, 1, 0, {48, 100, 2}, 24, 1e6},       /* 9.6e9: no fewer than 24 */
        {3, 1, 2, {47, 100, 2}, 0, 1e6},        /* fewer than twice 24, and the next is refused */
        {2, 1, 1, {3, 100}, 0, 1e9},            /* the last is none of rows */
        {3, 1, 0, {50000, 100, 2}, 0, 19},      /* 1.9e8: not worth it */
        {3, 1, 0, {50000, 100, 2}, 25000, 20.}, /* 2e8 */
        {1, 1, 0, {50000}, 0, 1e6},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct bound b;
        struct td_part part;
        each = cases[i].each;
        const struct td_call *call = bound_to(&b, cases[i].rank, cases[i].shape, cases[i].threads);
        const struct td_value arg = b.arg;
        const struct td_tensor out = b.out[0];
        ck_assert_int_eq(td_part_of(call, &part), cases[i].rows > 0);
        ck_assert_mem_eq(&b.arg, &arg, sizeof arg);
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
    }
}
END_TEST

/* A stored weight has no rows, and what has two results of other types, or none, no part. */
START_TEST(test_none)
{
    struct bound b;
    struct td_part part;
    each = 1e6;
    const struct td_call *call = bound_to(&b, 3, (const int64_t[]){5000, 100, 2}, 1);
    ck_assert(td_part_of(call, &part));
    b.arg.tensor.weight = (struct td_weight *)(void *)&b;
    ck_assert(!td_part_of(call, &part));
    b.arg.tensor.weight = NULL;
    b.out[0].dtype = TD_f64; /* the rule's is FP32 */
    ck_assert(!td_part_of(call, &part));
    b.out[0].dtype = TD_f32;
    b.call.n_out = 2;
    ck_assert(!td_part_of(call, &part));
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
    ck_assert_int_eq(rows_ran, 24);
    ck_assert_double_eq(m.flops, 1e10);
    ck_assert(td_try_rows(rows, call, true, &m));
    ck_assert_int_eq(rows_ran, 500);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_dimension, test_none, test_trial};
    return td_run_tests("part", tests, sizeof tests / sizeof *tests);
}
