/* dispatch/graph/infer.c: what is said of a size that is unknown, for chains of calls that round it
 * off or cut it off, holds at every real size. */
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

static struct td_arena *arena;

static const char *const steps[] = {
    "x",
    "max_pool1d(x, 2)",
    "max_pool1d(x, 3, 1)",
    "max_pool1d(max_pool1d(max_pool1d(x, 2), 3), 5)",
    "max_pool1d(max_pool1d(max_pool1d(x, 7), 11), 13)",
    "avg_pool1d(x, [4], [3], [1])",
    "adaptive_avg_pool1d(x, [7])",
    "constant_pad_nd(x, [3, -1])",
    "slice(x, 2, 0, 1000)",
    "slice(x, 2, 5, None, 3)",
    "slice(x, 2, -20)",
    "narrow(x, 2, 100, 200)",
    "cat([x, x, x], 2)",
    "cat([x, slice(x, 2, 0, 4)], 2)",
    "upsample_nearest1d(x, [12])",
    "repeat(x, [1, 1, 2])",
    "unsqueeze(flatten(x), 0) + zeros([1, 1, 1])",
    "flatten(reshape(x, [1, 1, -1, 4]), 2)",
    "sum(x, [2], True)",
    "expand(sum(x, [2], True), [1, 1, 9])",
    "transpose(x, 1, 2)",
};
#define STEPS ((int)(sizeof steps / sizeof *steps))

static int64_t size_at(int i)
{
    static const int64_t far[] = {4095,  4096,    9999,           30029,     30030,          60060,
                                  90091, 1000003, 30030 * 1001LL, 1LL << 31, (1LL << 40) + 1};
    return i < 260 ? i : i < 260 + (int)(sizeof far / sizeof *far) ? far[i - 260] : -1;
}

static struct td_named x_of(int64_t size)
{
    struct td_tensor t = {.dtype = TD_f32, .rank = 3, .shape = {1, 1, size}};
    return (struct td_named){"x", {.kind = TD_KIND_tensor, .tensor = t}, td_keyset_of(TD_KEY_Meta)};
}

/* Whether the results of a call with the size are as they were said to be. */
static bool is_true(const struct td_run *said, const struct td_run *run, int64_t size)
{
    bool right = said->call.n_out == run->call.n_out;
    for (int i = 0; i < run->call.n_out && right; i++) {
        const struct td_tensor *a = &said->call.out[i], *b = &run->call.out[i];
        right = a->rank == b->rank && a->dtype == b->dtype;
        for (int k = 0; k < a->rank && right; k++)
            right =
                a->shape[k] == TD_UNKNOWN || (a->shape[k] < 0 ? size : a->shape[k]) == b->shape[k];
    }
    return right;
}

static int known, right_calls;

static void try_chain(const char *expr, int64_t name)
{
    static struct td_run said, run;
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = arena};
    struct td_named x = x_of(name);
    if (td_run_infer(&said, NULL, expr, &x, 1, &options))
        return; /* for no size tried it is right */
    for (int k = 0; k < said.call.out[0].rank; k++)
        known += said.call.out[0].shape[k] != TD_UNKNOWN;
    for (int i = 0; size_at(i) >= 0; i++) {
        x = x_of(size_at(i));
        options.alloc_arg = arena = td_arena_reset(arena);
        if (td_run_bind_expr(&run, expr, &x, 1, &options))
            continue;
        right_calls++;
        ck_assert_msg(is_true(&said, &run, size_at(i)),
                      "%s of [1,1,?] is said to be of other sizes "
                      "than of [1,1,%lld]",
                      expr, (long long)size_at(i));
    }
}

START_TEST(test_pairs)
{
    char expr[400];
    const char *inner = steps[_i];
    start();
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_Meta), 0);
    known = right_calls = 0;
    for (int outer = 0; outer < STEPS; outer++) {
        arena = td_arena_create();
        const char *last = steps[outer], *from = last;
        char *to = expr;
        for (; *from; from++) /* each x, but that of max and expand, is the inner step */
            if (*from == 'x' && (from == last || strchr("( [", from[-1])) &&
                (!from[1] || strchr(",) ]", from[1])))
                to += sprintf(to, "%s", inner);
            else
                *to++ = *from;
        *to = 0;
        try_chain(expr, TD_UNKNOWN);
        try_chain(expr, TD_UNKNOWN - 1);
        td_arena_destroy(arena);
    }
    td_keys_leave(before);
    ck_assert_int_gt(known, STEPS);
    ck_assert_int_gt(right_calls, 10 * STEPS);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("infer_chains");
    TCase *tcase = tcase_create("infer_chains");
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_pairs, 0, STEPS);
    return td_run_suite(suite);
}
