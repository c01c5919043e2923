/* Generated loops: each formula bit for bit as its rows have it, over sizes and broadcasts, at both
 * levels; and what becomes of code where there is no memory for it. */
#include "dispatch/call/own.h"
#include "kernels/jit/code.h"
#include "kernels/loops/fused.h"
#include "tests/dispatch/dispatch_test.h"
#include "tests/room.h"

#include <ctype.h>
#include <math.h>
#include <sys/resource.h>

#define MOST 4096

static float data[3][MOST], wanted[MOST], out[MOST];
static float column[7] = {0.5f, -2, 1e30f, 0, -1e-40f, NAN, 7}; /* of as many rows as there are */

static float draw_number(void)
{
    static const float special[] = {0,       -0.0f, 1,      -1, INFINITY, -INFINITY, NAN,  1e-40f,
                                    -1e-40f, 3e38f, -3e38f, 88, -88,      -104,      1e6f, 0.5f};
    return draw(6) ? (float)((int)draw(1 << 20) - (1 << 19)) / (1 << 16)
                   : special[draw(sizeof special / sizeof *special)];
}

static bool alike(float x, float y)
{
    return !memcmp(&x, &y, sizeof x) || (x != x && y != y);
}

/* The expression's calls as td_fusion_make has them, at the level; false: they are not all there.
 */
static bool take(struct td_run *run, const char *level, struct td_fused *calls, int *n)
{
    size_t scratch;
    const struct td_run *part[TD_FUSED_MOST];
    run->forced = level;
    *n = 0;
    if (!run->parts || td_run_select(run, &scratch))
        return false;
    for (struct td_run *p = run->parts; p; p = p->next) {
        struct td_fused *f = &calls[*n];
        if (!td_fused_values(&p->call, p->impl))
            return false;
        *f = (struct td_fused){.call = &p->call, .impl = p->impl};
        memset(f->of, -1, sizeof f->of);
        for (int i = 0; i < p->n_feeds; i++)
            for (int k = 0; k < *n; k++)
                if (part[k] == p->feed[i].of)
                    f->of[p->feed[i].arg] = (signed char)k;
        part[(*n)++] = p;
    }
    return *n > 1;
}

static void run_calls(const struct td_fused *calls, int n, bool generated, float *to)
{
    td_loops_allow(generated);
    calls[n - 1].call->out[0].data = to;
    struct td_fusion *f = td_fusion_make(calls, n, 1, 0, room, NULL);
    ck_assert_int_eq(td_fusion_run(f, NULL), 0);
    td_loops_allow(true);
}

/* Whether the expression has that letter as a name. */
static bool has_name(const char *expr, char name)
{
    for (const char *at = expr; *at; at++)
        if (*at == name && !isalnum((unsigned char)at[1]) && at[1] != '_' &&
            (at == expr || (!isalnum((unsigned char)at[-1]) && at[-1] != '_')))
            return true;
    return false;
}

static const char *const levels[] = {"simd@AVX512", "simd@AVX2"};

/* Of as many elements as looking for code is worth. */
static bool is_generated(const struct td_fused *calls, int n)
{
    struct td_fusion *f = td_fusion_make(calls, n, 1, TD_LOOP_LEAST, room, NULL);
    ck_assert_int_eq(td_fusion_run(f, NULL), 0);
    for (int i = 0; i < MOST; i++)
        if (!alike(out[i], wanted[i]))
            ck_abort_msg("element %d is %a, not %a", i, (double)out[i], (double)wanted[i]);
    return !td_fusion_why_rows(f);
}

static int generated;

/* rows of n elements; a and b lie so, c is a column's or a row's. Counts what could be tried. */
static int try(const char *expr, int rows, int n, bool by_column)
{
    static const struct td_options options = {.alloc = room};
    int tried = 0;
    for (int level = 0; level < 2; level++) {
        struct td_named args[3];
        struct td_fused calls[TD_FUSED_MOST];
        static struct td_run run;
        int n_calls, n_args = 0;
        for (int k = 0; k < 3; k++) {
            static const char *const names[] = {"a", "b", "c"};
            if (!has_name(expr, *names[k]))
                continue;
            args[n_args] = tensor_arg(names[k], data[k], n);
            struct td_tensor *t = &args[n_args++].value.tensor;
            if (rows == 1)
                continue;
            t->rank = 2;
            t->shape[0] = k < 2 ? rows : by_column ? rows : 1;
            t->shape[1] = k == 2 && by_column ? 1 : n;
            t->data = k == 2 && by_column ? column : data[k];
        }
        room_used = 0;
        if (td_run_bind_expr(&run, expr, args, n_args, &options))
            continue;
        if (take(&run, levels[level], calls, &n_calls)) {
            tried++;
            memset(wanted, 1, sizeof wanted);
            memset(out, 1, sizeof out);
            run_calls(calls, n_calls, false, wanted);
            run_calls(calls, n_calls, true, out);
            for (int i = 0; i < MOST; i++)
                if (!alike(out[i], wanted[i]))
                    ck_abort_msg("%s at %s, %d x %d: element %d is %a, not %a (a: %a)", expr,
                                 levels[level], rows, n, i, (double)out[i], (double)wanted[i],
                                 (double)data[0][i]);
            generated += rows * n == MOST && is_generated(calls, n_calls);
        }
        td_run_release(&run);
    }
    return tried;
}

static void begin(void)
{
    start();
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < MOST; i++)
            data[k][i] = draw_number();
}

/* Every operator that is pointwise, with what numbers its parameters take. IND-16 */
START_TEST(test_formulas)
{
    static const char *const forms[] = {"-%s(a)",
                                        "-%s(a, b)",
                                        "-%s(a, b, c)",
                                        "-%s(a, 0.75)",
                                        "-%s(a, -1, 2)",
                                        "-%s(a, b, 0.5)",
                                        "-%s(a, 1, 20.)",
                                        "-%s(a, 1, 2, 3)",
                                        "where(%s(a, b), a, b)",
                                        "where(%s(a), a, b)"};
    int tried = 0;
    begin();
    for (int i = 0; td_ops[i]; i++) {
        char name[64], expr[128];
        size_t length = strcspn(td_ops[i]->schema, ".(");
        if (!td_is_pointwise(td_ops[i]))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)length, td_ops[i]->schema);
        for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
            snprintf(expr, sizeof expr, forms[f], name);
            tried += try(expr, 1, MOST, false) + try(expr, 7, 131, true) + try(expr, 7, 131, false);
        }
    }
    ck_assert_int_ge(tried, 500);
    ck_assert_int_ge(generated, 150);
}
END_TEST

START_TEST(test_sizes)
{
    static const char *const chains[] = {"relu(a*b+c)*sigmoid(a)", "exp(a) / (c + 1)",
                                         "where(a > b, a * c, tanh(b))",
                                         "clamp(a + 2.5, -1, 6) * c"};
    begin();
    for (int k = 0; k < 4; k++)
        for (int n = 1; n < 130; n++) {
            try(chains[k], 1, n, false);
            try(chains[k], 3, n, false);
            try(chains[k], 3, n, true);
        }
}
END_TEST

/* ---- one call ---- */

static void run_alone(const char *expr, const char *level, struct td_named *args, bool allowed,
                      float *to)
{
    static const struct td_options options = {.alloc = room};
    static struct td_run run;
    size_t scratch;
    room_used = 0;
    ck_assert_int_eq(td_run_bind_expr(&run, expr, args, 2, &options), 0);
    struct td_run *one = run.parts ? run.parts : &run;
    ck_assert_ptr_null(one->next);
    run.forced = level;
    ck_assert_int_eq(td_run_select(&run, &scratch), 0);
    td_loops_allow(allowed);
    one->call.out[0].data = to;
    one->call.threads = 1;
    one->impl->run(&one->call);
    td_loops_allow(true);
    td_run_release(&run);
}

/* The operand's element for the result's number i. */
static float element(const struct td_tensor *t, const int64_t *size, int64_t i)
{
    int64_t at = 0, step = 1;
    for (int d = t->rank - 1; d >= 0; i /= size[d--]) {
        at += t->shape[d] == 1 ? 0 : i % size[d] * step;
        step *= t->shape[d];
    }
    return ((const float *)t->data)[at];
}

static float sum(float a, float b)
{
    return a + b;
}

static float quotient(float a, float b)
{
    return a / b;
}

static float largest(float a, float b)
{
    return a != a || a > b ? a : b;
}

static const struct {
    const char *expr;
    float (*judge)(float a, float b);
} pairs[] = {{"a + b", sum}, {"a / b", quotient}, {"maximum(a, b)", largest}};

static void judge(int pair, const char *level, struct td_named *args)
{
    const struct td_tensor *a = &args[0].value.tensor, *b = &args[1].value.tensor;
    int64_t size[3], n = 1;
    for (int d = 0; d < 3; d++)
        n *= size[d] = a->shape[d] > b->shape[d] ? a->shape[d] : b->shape[d];
    memset(out, 1, sizeof out);
    memset(wanted, 1, sizeof wanted);
    run_alone(pairs[pair].expr, level, args, true, out);
    run_alone(pairs[pair].expr, level, args, false, wanted);
    for (int64_t i = 0; i < n; i++) {
        float right = pairs[pair].judge(element(a, size, i), element(b, size, i));
        bool zeros = right == 0 && out[i] == 0; /* the larger of zeros is either */
        ck_assert_msg(alike(out[i], right) || zeros, "%s at %s, rows of %d: %d is %a, not %a",
                      pairs[pair].expr, level, (int)size[2], (int)i, (double)out[i], (double)right);
    }
    for (int i = 0; i < MOST; i++)
        ck_assert(alike(out[i], wanted[i]));
}

/* Of operands that broadcast against each other a loop is generated, but where there are few
 * elements or rows are short, and where the same row comes again and again. IND-27 */
START_TEST(test_broadcasts)
{
    static const struct {
        int64_t a[3], b[3];
        bool generated;
    } shapes[] = {
        {{1, 64, 64}, {1, 64, 1}, true},     {{1, 128, 32}, {1, 128, 1}, true},
        {{16, 1, 16}, {16, 16, 1}, true},    {{1, 64, 1}, {1, 1, 64}, true},
        {{4, 16, 64}, {4, 1, 64}, true},     {{1, 41, 99}, {1, 41, 1}, false},
        {{8, 256, 2}, {8, 1, 2}, false},     {{7, 195, 3}, {7, 1, 3}, false},
        {{2, 151, 13}, {2, 1, 13}, false},   {{1, 512, 8}, {1, 512, 1}, false},
        {{1, 1365, 3}, {1, 1365, 1}, false}, {{1, 256, 16}, {1, 1, 16}, false},
    };
    begin();
    bool has[] = {td_cpu()->levels >> TD_ISA_avx512 & 1, td_cpu()->levels >> TD_ISA_avx2 & 1};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int k = 0; k < 6; k++) {
            if (!has[k % 2])
                continue;
            struct td_named args[] = {tensor_arg("a", data[0], 1), tensor_arg("b", data[1], 1)};
            long long had = td_loops().made;
            for (int i = 0; i < 2; i++) {
                args[i].value.tensor.rank = 3;
                memcpy(args[i].value.tensor.shape, i ? shapes[s].b : shapes[s].a,
                       sizeof shapes[s].a);
            }
            judge(k / 2, levels[k % 2], args);
            ck_assert_msg(shapes[s].generated || td_loops().made == had, "shapes %zu", s);
        }
    /* b still, a still, neither: each with three operators */
    ck_assert_int_eq(td_loops().made, 3 * 3 * (has[0] + has[1]));
}
END_TEST

/* ---- memory ---- */

static void tell_double(struct td_loop *l, const void *arg)
{
    (void)arg;
    l->n_streams = 0;
    int from = td_loop_stream(l, false), to = td_loop_stream(l, false);
    int x = td_loop_node(l, TD_LOOP_load, from, -1, -1, -1);
    td_loop_node(l, TD_LOOP_store, to, td_loop_node(l, TD_LOOP_add, 0, x, x, -1), -1, -1);
}

static void tell_nothing(struct td_loop *l, const void *arg)
{
    (void)arg;
    l->why = "there is nothing to do";
}

START_TEST(test_kept)
{
    const char *why;
    char line[400];
    int key = 1;
    start();
    td_loop_code *code = td_loop_for(&key, sizeof key, false, tell_double, NULL, &why);
    ck_assert_ptr_nonnull(code);
    ck_assert_ptr_eq(td_loop_for(&key, sizeof key, false, NULL, NULL, &why), code);
    FILE *maps = fopen("/proc/self/maps", "r");
    int views = 0;
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "tensord-loops")) {
            views++;
            ck_assert_msg(!strstr(line, "rwx"), "%s", line);
            ck_assert(strstr(line, " rw-s ") || strstr(line, " r-xs "));
        }
    fclose(maps);
    ck_assert_int_eq(views, 2);
    for (key = 2; key <= TD_LOOP_KEPT; key++)
        ck_assert_ptr_null(td_loop_for(&key, sizeof key, false, tell_nothing, NULL, &why));
    ck_assert_str_eq(why, "there is nothing to do");
    ck_assert_ptr_null(td_loop_for(&key, sizeof key, false, tell_double, NULL, &why));
    ck_assert_str_eq(why, "no further loop can be kept");
    struct td_loops all = td_loops();
    ck_assert_int_eq(all.kept, TD_LOOP_KEPT);
    ck_assert_uint_gt(all.bytes, 0);
    ck_assert_int_eq(all.made, 1);
    ck_assert_int_eq(all.none, TD_LOOP_KEPT - 1);
    ck_assert_int_eq(all.full, 1);
    key = 1;
    td_loops_allow(false);
    ck_assert_ptr_null(td_loop_for(&key, sizeof key, false, tell_double, NULL, &why));
    td_loops_allow(true);
    ck_assert_ptr_eq(td_loop_for(&key, sizeof key, false, NULL, NULL, &why), code);
}
END_TEST

/* Then rows serve, as they do where there is no code. */
START_TEST(test_no_memory)
{
    const struct rlimit none = {0, 0};
    struct rlimit were;
    const char *why;
    int key = 1;
    begin();
    getrlimit(RLIMIT_NOFILE, &were);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &(struct rlimit){none.rlim_cur, were.rlim_max}), 0);
    ck_assert_ptr_null(td_loop_for(&key, sizeof key, false, tell_double, NULL, &why));
    ck_assert_str_eq(why, "the system gives no memory for code");
    setrlimit(RLIMIT_NOFILE, &were);
    try("relu(a*b+c)*sigmoid(a)", 1, 1000, false);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_formulas, test_sizes, test_broadcasts, test_kept,
                                  test_no_memory};
    return td_run_tests("loops", tests, sizeof tests / sizeof *tests);
}
