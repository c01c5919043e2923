/* The cache of bound expressions: what is found bound gives what is bound anew, what an entry's key
 * has, what is not kept, and how much is. */
#include "dispatch/graph/cache.h"
#include "pools/pools.h"
#include "tests/dispatch/dispatch_test.h"

#include <pthread.h>

#define N 600

static float a[N], b[N], out[N], wanted[N];
static struct td_arena *arena;
static struct td_options options = {.alloc = td_alloc_in_arena};

static void begin(void)
{
    start();
    arena = options.alloc_arg = td_arena_create();
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 37 - 18) / 4;
        b[i] = (float)(i % 101) / 8 - 3;
    }
}

static void run_selected(struct td_run *run, void *data)
{
    size_t bytes;
    ck_assert_msg(!td_run_select(run, &bytes), "%s", run->problem.text);
    run->call.out[0].data = data;
    td_run_execute(run, td_arena_alloc(arena, bytes + 64));
    ck_assert_int_eq(run->error, 0);
    td_run_release(run);
}

/* Evaluates it by the cache. Whether it was found there. */
static bool evaluate(const char *expr, const struct td_named *args, int n, void *data)
{
    struct td_expr_entry *entry;
    static struct td_run run;
    long long before = td_expr_count().hits;
    ck_assert_msg(!td_expr_take(&entry, &run, expr, args, n, &options), "%s", run.problem.text);
    run_selected(&run, data);
    td_expr_leave(&entry, &run);
    return td_expr_count().hits > before;
}

static void evaluate_anew(const char *expr, const struct td_named *args, int n, void *data)
{
    static struct td_run run;
    ck_assert_int_eq(td_run_bind_expr(&run, expr, args, n, &options), 0);
    run_selected(&run, data);
}

/* The second call is neither parsed, bound nor selected, and computes with its own data. */
START_TEST(test_found)
{
    static const char *const exprs[] = {"maximum(sigmoid(a * b), b)",
                                        "a",
                                        "a + a * 2",
                                        "softmax(a - b, 0)",
                                        "a[::2].sum() + b",
                                        "where(a > b, a, b) + [1.5]",
                                        "_s = sum(a * b, [0], True); y = _s / 2 + b"};
    begin();
    for (size_t i = 0; i < sizeof exprs / sizeof *exprs; i++) {
        bool two = strchr(exprs[i], 'b') != NULL;
        struct td_named args[] = {tensor_arg("a", a, N), tensor_arg("b", b, N)};
        for (int k = 0; k < 3; k++) {
            args[0].value.tensor.data = k == 1 ? b : a;
            args[1].value.tensor.data = k == 2 ? b : a;
            memset(out, 1, sizeof out);
            memset(wanted, 1, sizeof wanted);
            ck_assert_int_eq(evaluate(exprs[i], args, 1 + two, out), k > 0);
            evaluate_anew(exprs[i], args, 1 + two, wanted);
            ck_assert_mem_eq(out, wanted, sizeof out);
        }
    }
    struct td_expr_entry *entry;
    static struct td_run run;
    struct td_named args[] = {tensor_arg("a", a, N), tensor_arg("b", b, N)};
    ck_assert_int_eq(td_expr_take(&entry, &run, exprs[0], args, 2, &options), 0);
    const struct td_step *step = run.step;
    ck_assert_ptr_nonnull(step);
    run_selected(&run, out);
    ck_assert_ptr_eq(run.step, step);
    run.call.threads = 2; /* another team: selected anew */
    run_selected(&run, out);
    ck_assert_ptr_nonnull(run.step);
    ck_assert_ptr_ne(run.step, step);
    td_expr_leave(&entry, &run);
    size_t bytes = td_expr_count().bytes, most = bytes;
    for (int i = 0; i < 4000; i++) { /* an entry that grows with each selection has an end */
        ck_assert_int_eq(td_expr_take(&entry, &run, exprs[0], args, 2, &options), 0);
        run.call.threads = 1 + i % 2;
        run_selected(&run, out);
        td_expr_leave(&entry, &run);
        most = td_expr_count().bytes > most ? td_expr_count().bytes : most;
        arena = options.alloc_arg = td_arena_reset(arena);
    }
    ck_assert_uint_le(most, bytes + (2 << 20));
    td_expr_forget();
    ck_assert_uint_eq(td_expr_count().bytes, 0);
}
END_TEST

static struct td_named number(const char *name, int64_t i)
{
    return (struct td_named){.name = name, .value = {.kind = TD_KIND_int, .i = i}};
}

/* All that a bound expression follows from. */
START_TEST(test_keys)
{
    begin();
    char how[8] = "tanh";
    struct td_named t = tensor_arg("a", a, 64), two[] = {t, number("n", 2)};
    struct td_named text[] = {t, {.name = "how", .value = {.kind = TD_KIND_str, .str = how}}};
    struct td_named list[] = {t, {.name = "n", .value = {.kind = TD_KIND_ints}}};
    list[1].value.ints.n = 1;
    list[1].value.ints.v[0] = 0;
    ck_assert(!evaluate("a * n", two, 2, out));
    ck_assert(evaluate("a * n", two, 2, out));
    two[1].value.i = 3;
    ck_assert(!evaluate("a * n", two, 2, out));
    ck_assert(out[1] == a[1] * 3);
    two[1].value = (struct td_value){.kind = TD_KIND_float, .f = 2};
    ck_assert(!evaluate("a * n", two, 2, out));
    two[0].value.tensor.shape[0] = 63;
    ck_assert(!evaluate("a * n", two, 2, out));
    two[0].value.tensor =
        (struct td_tensor){.data = a, .dtype = TD_f32, .rank = 2, .shape = {1, 63}};
    ck_assert(!evaluate("a * n", two, 2, out));
    two[0].value.tensor.dtype = TD_i32;
    ck_assert(!evaluate("a * n", two, 2, out));
    ck_assert(!evaluate("gelu(a, approximate=how)", text, 2, out));
    strcpy(how, "none"); /* the first entry has a copy of its text */
    ck_assert(!evaluate("gelu(a, approximate=how)", text, 2, out));
    strcpy(how, "tanh");
    ck_assert(evaluate("gelu(a, approximate=how)", text, 2, out));
    struct td_expr_entry *entry;
    static struct td_run run;
    ck_assert_int_eq(td_expr_take(&entry, &run, "gelu(a, approximate=how)", text, 2, &options), 0);
    strcpy(how, "none");
    ck_assert_str_eq(run.parts->call.arg[1].str, "tanh"); /* explain reads it */
    td_expr_leave(&entry, &run);
    evaluate_anew("gelu(a, approximate='tanh')", &t, 1, wanted);
    ck_assert_mem_eq(out, wanted, 64 * sizeof *out);
    ck_assert(!evaluate("sum(a, n)", list, 2, out));
    ck_assert(evaluate("sum(a, n)", list, 2, out));
    list[1].value.ints.v[0] = -1;
    ck_assert(!evaluate("sum(a, n)", list, 2, out));
    ck_assert(!evaluate("a @ a", &t, 1, out));
    options.autocast = TD_bf16;
    ck_assert(!evaluate("a @ a", &t, 1, out));
    options.autocast = TD_DTYPE_none;
    options.number_type = TD_f64;
    ck_assert(!evaluate("2 + 0.5", NULL, 0, wanted));
    options.number_type = TD_DTYPE_none;
    ck_assert(!evaluate("2 + 0.5", NULL, 0, wanted));
    ck_assert(evaluate("2 + 0.5", NULL, 0, wanted));
    t.keys = td_keyset_of(TD_KEY_PrivateUse1);
    ck_assert(!evaluate("a @ a", &t, 1, out));
    t.keys = 0;
    struct td_key_scope before = td_keys_enter(td_keyset_of(TD_KEY_PrivateUse1), 0);
    ck_assert(!evaluate("a @ a", &t, 1, out));
    td_keys_leave(before);
    ck_assert(evaluate("a @ a", &t, 1, out));
}
END_TEST

/* What is another whenever it runs, what is asked for by name, and what is not a dense tensor. */
START_TEST(test_not_kept)
{
    begin();
    struct td_named t = tensor_arg("a", a, 4), list = {.name = "l"};
    static float first[4], second[4];
    int64_t stride = 2;
    struct td_tensor elements[] = {t.value.tensor, t.value.tensor};
    for (int i = 0; i < 2; i++)
        ck_assert(!evaluate("a + rand([4])", &t, 1, i ? second : first));
    ck_assert(memcmp(first, second, sizeof first) != 0);
    for (int i = 0; i < 2; i++)
        ck_assert(!evaluate("masked_select(a, a < -4)", &t, 1, out));
    list.value = (struct td_value){.kind = TD_KIND_tensors, .tensors = {elements, 2}};
    for (int i = 0; i < 2; i++)
        ck_assert(!evaluate("cat(l, 0)", &list, 1, out));
    t.value.tensor.stride = &stride;
    for (int i = 0; i < 2; i++)
        ck_assert(!evaluate("a * 2", &t, 1, out));
    t.value.tensor.stride = NULL;
    struct td_expr_entry *entry;
    static struct td_run run;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(td_expr_take(&entry, &run, "a * 3", &t, 1, &options), 0);
        run.forced = "ref";
        run_selected(&run, out);
        ck_assert_str_eq(run.impl->name, "ref");
        td_expr_leave(&entry, &run);
    }
    ck_assert(!evaluate("a * 3", &t, 1, out));
    ck_assert_int_eq(td_expr_take(&entry, &run, "a * rleu(a)", &t, 1, &options), -EINVAL);
    ck_assert_ptr_null(entry);
    ck_assert_int_eq(td_expr_take(&entry, &run, "a * 5", &t, 1, &options), 0);
    td_expr_leave(&entry, &run); /* it has not run */
    ck_assert(!evaluate("a * 5", &t, 1, out));
}
END_TEST

/* A result that is converted for its place is not that of the entry. */
START_TEST(test_converted)
{
    struct td_expr_entry *entry;
    static struct td_run run;
    static double wide[4];
    begin();
    struct td_named t = tensor_arg("a", a, 4);
    evaluate("a * 2", &t, 1, out);
    ck_assert_int_eq(td_expr_take(&entry, &run, "a * 2", &t, 1, &options), 0);
    ck_assert_ptr_nonnull(run.step);
    ck_assert_int_eq(td_run_convert(&run, TD_f64), 0);
    run_selected(&run, wide);
    td_expr_leave(&entry, &run);
    for (int i = 0; i < 4; i++)
        ck_assert_double_eq(wide[i], (double)(a[i] * 2));
    ck_assert(!evaluate("a * 2", &t, 1, out));
    ck_assert_mem_eq(&out[3], &(float){a[3] * 2}, sizeof *out);
}
END_TEST

/* Another kernel for an operator: what was bound before is bound anew. */
START_TEST(test_registered)
{
    static const struct td_kernel_def def = {
        .key = TD_KEY_CPU, .rows = toy_rows, .origin = TD_HERE};
    struct td_registration *made;
    struct td_problem problem;
    begin();
    struct td_named t = tensor_arg("a", a, 4);
    ck_assert(!evaluate("neg(a)", &t, 1, out));
    ck_assert(evaluate("neg(a)", &t, 1, out));
    ck_assert(out[0] == -a[0]);
    ck_assert_msg(!td_register("neg", &def, &made, &problem), "%s", problem.text);
    ck_assert(!evaluate("neg(a)", &t, 1, out));
    ck_assert(out[0] == 2 * a[0]);
    td_unregister(&made);
    ck_assert(!evaluate("neg(a)", &t, 1, out));
    ck_assert(out[0] == -a[0]);
}
END_TEST

/* Thousands of expressions take no more than the cache may have; and none, when memory is wanted.
 */
START_TEST(test_bounded)
{
    char expr[64];
    begin();
    struct td_named t = tensor_arg("a", a, 4);
    size_t before = td_memory.used, most = 0;
    for (int i = 0; i < 6000; i++) {
        snprintf(expr, sizeof expr, "relu(a * %d) + sum(exp(a) - %d)", i, i);
        arena = options.alloc_arg = td_arena_reset(arena);
        ck_assert(!evaluate(expr, &t, 1, out));
        size_t used = td_memory.used - before;
        most = used > most ? used : most;
    }
    ck_assert_uint_gt(td_expr_count().evicted, 1000);
    ck_assert_uint_le(td_expr_count().bytes, 32 << 20);
    ck_assert_uint_le(most, (32 << 20) + (1 << 20));
    ck_assert(evaluate(expr, &t, 1, out)); /* the youngest are there */
    ck_assert(!evaluate("relu(a * 0) + sum(exp(a) - 0)", &t, 1, out));
    td_expr_watch_memory();
    td_memory.limit = td_memory.used + 4096;
    arena = options.alloc_arg = td_arena_reset(arena);
    ck_assert_ptr_nonnull(td_arena_alloc(arena, 60 << 10));
    ck_assert_uint_eq(td_expr_count().bytes, 0);
    td_memory.limit = SIZE_MAX;
}
END_TEST

#define THREADS 4

static void *evaluate_often(void *arg)
{
    static const char *const exprs[] = {"relu(x * y) - sigmoid(y)", "x * y + 1", "sum(x, [0]) + y"};
    float x[64], y[64], got[64], right[64], scale = (float)(1 + *(int *)arg);
    struct td_arena *own = td_arena_create();
    struct td_run *run = td_arena_alloc(own, sizeof *run);
    struct td_options in_own = {.alloc = td_alloc_in_arena, .alloc_arg = own};
    for (int i = 0; i < 64; i++) {
        x[i] = scale * (float)i;
        y[i] = scale - (float)i;
    }
    struct td_named args[] = {tensor_arg("x", x, 64), tensor_arg("y", y, 64)};
    void *scratch = td_arena_alloc(own, 1 << 16);
    for (int i = 0; i < 600; i++) {
        struct td_expr_entry *entry;
        size_t bytes;
        for (int k = 0; k < 2; k++) {
            const char *expr = exprs[i % 3];
            int err = k ? td_expr_take(&entry, run, expr, args, 2, &in_own)
                        : td_run_bind_expr(run, expr, args, 2, &in_own);
            ck_assert(!err && !td_run_select(run, &bytes) && bytes <= 1 << 16);
            run->call.out[0].data = k ? got : right;
            td_run_execute(run, scratch);
            td_run_release(run);
        }
        td_expr_leave(&entry, run);
        ck_assert_mem_eq(got, right, sizeof got);
        if (i % 100 == 99) {
            td_arena_destroy(own);
            own = in_own.alloc_arg = td_arena_create();
            run = td_arena_alloc(own, sizeof *run);
            scratch = td_arena_alloc(own, 1 << 16);
        }
        if (i == 300)
            td_expr_forget();
    }
    td_arena_destroy(own);
    return NULL;
}

/* Threads that evaluate one expression at a time have an entry each. */
START_TEST(test_threads)
{
    pthread_t thread[THREADS];
    int number_of[THREADS];
    struct td_expr_entry *entry[2];
    static struct td_run run[2];
    begin();
    struct td_named t = tensor_arg("a", a, 4);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(td_expr_take(&entry[i], &run[i], "a - 7", &t, 1, &options), 0);
    ck_assert_ptr_ne(entry[0], entry[1]);
    for (int i = 0; i < 2; i++)
        run_selected(&run[i], out);
    for (int i = 0; i < 2; i++)
        td_expr_leave(&entry[i], &run[i]);
    long long hits = td_expr_count().hits;
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(td_expr_take(&entry[i], &run[i], "a - 7", &t, 1, &options), 0);
    ck_assert_int_eq(td_expr_count().hits, hits + 2);
    for (int i = 0; i < 2; i++)
        td_expr_leave(&entry[i], &run[i]);
    for (int i = 0; i < THREADS; i++) {
        number_of[i] = i;
        ck_assert_int_eq(pthread_create(&thread[i], NULL, evaluate_often, &number_of[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    ck_assert_int_gt(td_expr_count().hits, hits + THREADS * 300);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_found,      test_keys,    test_not_kept, test_converted,
                                  test_registered, test_bounded, test_threads};
    return td_run_tests("expr_cache", tests, sizeof tests / sizeof *tests);
}
