/* Sizes that no memory could hold, in every operator: the sample patterns with their tensors' sizes
 * replaced by hostile ones. What dispatch lets through can be counted, argument by argument and
 * result by result, and is computed at once where it is small, whatever stands beside its 0. */
#include "kernels/sizes.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 60  /* of other sizes, for each pattern and type */
#define SECONDS 20 /* for one call, which takes microseconds */

static const int64_t hostile[] = {0,         0,         1,         2,         3,
                                  1LL << 31, 1LL << 32, 1LL << 40, 1LL << 61, INT64_MAX};
#define N_HOSTILE (sizeof hostile / sizeof *hostile)

static char current[1300];

static void on_signal(int number)
{
    const char *what = number == SIGALRM ? "still computing: " : "crashed: ";
    (void)!write(2, what, strlen(what));
    (void)!write(2, current, strlen(current));
    _exit(1);
}

/* The pattern with the numbers between brackets replaced; the same by the same, so that what has to
 * agree goes on agreeing. */
static void stretch(const char *pattern, unsigned seed, char *to, size_t size)
{
    size_t n = 0;
    bool inside = false;
    while (*pattern && n + 24 < size) {
        inside = *pattern == '[' || (inside && *pattern != ']');
        if (!inside || !isdigit((unsigned char)*pattern) || pattern[-1] == '-') {
            to[n++] = *pattern++;
            continue;
        }
        char *end;
        unsigned long was = strtoul(pattern, &end, 10);
        int64_t now = hostile[(was * 7919 + seed * 104729 + was * seed) % N_HOSTILE];
        n += (size_t)snprintf(to + n, size - n, "%lld", (long long)(seed % 3 ? now : (int64_t)was));
        pattern = end;
    }
    to[n] = 0;
}

static void judge(struct sample *s)
{
    const struct td_call *call = &s->run.call;
    size_t bytes;
    for (int i = 0; i < call->n_args; i++)
        ck_assert_msg(call->arg[i].kind != TD_KIND_tensor || td_fits(&call->arg[i].tensor),
                      "argument %d of %s", i, current);
    for (int i = 0; i < call->n_out; i++)
        ck_assert_msg(td_fits(&call->out[i]), "result %d of %s", i, current);
    if (td_run_select(&s->run, &bytes))
        return;
    void *scratch = bytes > 1 << 28 ? NULL : aligned_alloc(64, bytes + 64);
    alarm(SECONDS);
    if (scratch)
        td_run_execute(&s->run, scratch);
    alarm(0);
    td_run_release(&s->run);
    free(scratch);
}

static int walk(const struct td_op *op, const char *pattern, enum td_dtype dtype)
{
    char name[100], stretched[1000];
    int taken = 0;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(op->schema, "("), op->schema);
    for (unsigned seed = 0; seed < ROUNDS; seed++) {
        struct td_sizes sizes = {hostile[seed % N_HOSTILE], hostile[seed / 3 % N_HOSTILE],
                                 hostile[seed / 7 % N_HOSTILE]};
        struct sample s;
        stretch(pattern, seed, stretched, sizeof stretched);
        snprintf(current, sizeof current, "%s(%s) of %s, n=%lld m=%lld k=%lld\n", name, stretched,
                 td_dtype_name(dtype), (long long)sizes.n, (long long)sizes.m, (long long)sizes.k);
        int err = sample_init(&s, name, stretched, sizes, dtype, SAMPLE_PLAIN, seed);
        if (!err)
            judge(&s);
        taken += !err;
        sample_fini(&s);
    }
    return taken;
}

START_TEST(test_all_operators)
{
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    sample_start();
    for (const struct td_op *const *op = td_ops; *op; op++) {
        int taken = 0;
        for (int i = 0; (*op)->samples[i]; i++)
            for (int k = 0; k < TD_DTYPES; k++)
                if ((*op)->dtypes >> k & 1)
                    taken += walk(*op, (*op)->samples[i], 1 << k);
        ck_assert_msg(taken > 10, "%s: hardly any of its calls are taken", (*op)->schema);
    }
}
END_TEST

/* add of two stored UINT8 tensors without elements, and the sum of what they gave: 2^65 bytes. */
START_TEST(test_widened)
{
    struct td_run run;
    struct td_named args[] = {
        {.name = "self",
         .value = {.kind = TD_KIND_tensor,
                   .tensor = {.dtype = TD_u8, .rank = 3, .shape = {1LL << 31, 1LL << 31, 0}}}},
        {.name = "dim", .value = {.kind = TD_KIND_ints, .ints = {.v = {2}, .n = 1}}},
    };
    sample_start();
    ck_assert_int_eq(td_run_bind(&run, "sum", args, 2, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "too large to be counted"));
    args[1] = (struct td_named){
        .name = "other",
        .value = {.kind = TD_KIND_tensor, .tensor = {.dtype = TD_f64, .rank = 1, .shape = {1}}}};
    ck_assert_int_eq(td_run_bind(&run, "add", args, 2, NULL), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "self: converted to FP64"));
}
END_TEST

START_TEST(test_products)
{
    int64_t to = 0;
    ck_assert(td_size_times(3, -4, &to) && to == -12);
    ck_assert(!td_size_times(1LL << 32, 1LL << 32, &to) && to == INT64_MAX); /* would wrap to 0 */
    ck_assert(!td_size_times(INT64_MIN, 2, &to) && to == INT64_MIN);
    ck_assert(!td_size_times(INT64_MIN, -1, &to) && to == INT64_MAX);
    ck_assert(td_size_plus(INT64_MAX, INT64_MIN, &to) && to == -1);
    ck_assert(!td_size_plus(INT64_MAX, 1, &to) && to == INT64_MAX);
    ck_assert(!td_size_plus(INT64_MIN, -1, &to) && to == INT64_MIN);
    ck_assert(td_size_minus(INT64_MIN, -1, &to) && to == INT64_MIN + 1);
    ck_assert(!td_size_minus(0, INT64_MIN, &to) && to == INT64_MAX);
    ck_assert(!td_size_minus(-2, INT64_MAX, &to) && to == INT64_MIN);
    ck_assert_int_eq(td_size_windows(7, 2, 3, 2), 4);
    ck_assert_int_eq(td_size_windows(7, 0, 8, 1), 0);
    ck_assert_int_eq(td_size_windows(INT64_MAX, 2, 1, 1), INT64_MAX);
}
END_TEST

START_TEST(test_reals)
{
    static const struct {
        double x;
        int64_t size, index; /* of 10 elements */
    } cases[] = {{NAN, 0, 0},
                 {INFINITY, INT64_MAX, 9},
                 {-INFINITY, INT64_MIN, 0},
                 {1e300, INT64_MAX, 9},
                 {-1e300, INT64_MIN, 0},
                 {0x1p63, INT64_MAX, 9},
                 {-0x1p63, INT64_MIN, 0},
                 {8.9, 8, 8},
                 {-0.9, 0, 0},
                 {9.1, 9, 9},
                 {10, 10, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(td_size_of_real(cases[i].x), cases[i].size);
        ck_assert_int_eq(td_index_of_real(cases[i].x, 9), cases[i].index);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("sizes");
    TCase *tcase = tcase_create("sizes");
    tcase_set_timeout(tcase, 250);
    tcase_add_test(tcase, test_all_operators);
    tcase_add_test(tcase, test_widened);
    tcase_add_test(tcase, test_products);
    tcase_add_test(tcase, test_reals);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
