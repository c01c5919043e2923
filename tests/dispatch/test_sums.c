/* Reductions that are computed together with what makes their argument give what the same calls
 * give one by one, bit for bit: of all sizes, at each level, in vectors and as generated loops. */
#include "kernels/jit/code.h"
#include "tests/dispatch/dispatch_test.h"
#include "tests/room.h"

#include <math.h>

#define MOST 160000
#define ROWS 3

static float a[MOST], b[MOST], odd[MOST];
static double made[MOST], alone[MOST], got[MOST], kept[MOST]; /* of any type */

static void begin(void)
{
    start();
    for (int i = 0; i < MOST; i++) {
        a[i] = (float)((int)draw(1 << 20) - (1 << 19)) / (1 << 17);
        b[i] = (float)((int)draw(1 << 20) - (1 << 19)) / (1 << 18);
        odd[i] = draw(50) ? a[i] : (float[]){NAN, INFINITY, -INFINITY, -0.0f, 1e-40f}[draw(5)];
    }
}

static const char *const levels[] = {"simd@AVX512", "simd@AVX2", "simd@DEFAULT"};
static int n_fused;
static bool vectors; /* of a level that loops are generated for */

struct shape {
    int rank;
    int64_t size[2];
};

static void place(struct td_tensor *t, const struct shape *shape)
{
    t->rank = shape->rank;
    memcpy(t->shape, shape->size, sizeof shape->size);
}

/* The expression's first result, by the level's rows; false: the machine has none. */
static bool run_expr(struct td_run *run, const char *expr, const struct td_named *args, int n,
                     const char *level, int threads, void *const *out)
{
    static const struct td_options options = {.alloc = room};
    size_t bytes;
    room_used = 0;
    ck_assert_msg(!td_run_bind_expr(run, expr, args, n, &options), "%s: %s", expr,
                  run->problem.text);
    run->forced = level;
    run->call.threads = threads;
    if (td_run_select(run, &bytes)) {
        td_run_release(run);
        return false;
    }
    for (int i = 0; i < run->call.n_out; i++)
        run->call.out[i].data = out[i];
    td_run_execute(run, room(NULL, bytes + 64));
    ck_assert_msg(!run->error, "%s: %s", expr, run->problem.text);
    td_run_release(run);
    return true;
}

static bool alike(const struct td_tensor *t, const void *x, const void *y)
{
    for (int64_t i = 0; i < td_numel(t); i++) {
        size_t size = td_dtype_size(t->dtype);
        const char *p = (const char *)x + i * (int64_t)size,
                   *q = (const char *)y + i * (int64_t)size;
        float f, g;
        memcpy(&f, p, sizeof f);
        memcpy(&g, q, sizeof g);
        if (memcmp(p, q, size) && !(t->dtype == TD_f32 && f != f && g != g))
            return false;
    }
    return true;
}

/* The reduction, a format of its argument, of the expression over x and b. */
static void check(const char *format, const char *of, float *x, const struct shape *shape,
                  int threads)
{
    static struct td_run run;
    struct td_named args[] = {tensor_arg("a", x, 0), tensor_arg("b", b, 0),
                              tensor_arg("t", NULL, 0)};
    char whole[200], sum[200];
    int n = strstr(of, " b") ? 2 : 1;
    place(&args[0].value.tensor, shape);
    place(&args[1].value.tensor, shape);
    ck_assert_ptr_nonnull(format); /* or gcc's sanitizers believe that it may be NULL */
    snprintf(whole, sizeof whole, format, of);
    snprintf(sum, sizeof sum, format, "t");
    for (int level = 0; level < 3; level++) {
        if (!run_expr(&run, of, args, n, levels[level], threads, (void *[]){made}))
            continue;
        vectors |= level < 2;
        args[2].value.tensor = run.call.out[0];
        ck_assert(run_expr(&run, sum, args + 2, 1, levels[level], threads, (void *[]){alone}));
        memset(got, 1, sizeof *got * 1000);
        ck_assert(run_expr(&run, whole, args, n, levels[level], threads, (void *[]){got}));
        struct td_run *last = run.parts;
        while (last->next)
            last = last->next;
        n_fused += last->with >= 0 && last->with == run.parts->with;
        ck_assert_msg(alike(&run.call.out[0], got, alone), "%s at %s of [%d,%d], %d threads", whole,
                      levels[level], (int)shape->size[0], (int)shape->size[1], threads);
    }
}

static const char *const sums[] = {"sum(%s)", "mean(%s)", "amax(%s)", "amin(%s)",
                                   "linalg_vector_norm(%s)"};
static const char *const row_sums[] = {"sum(%s, [-1])", "mean(%s, [-1])", "amax(%s, [-1])",
                                       "amin(%s, [-1])", "linalg_vector_norm(%s, 2, [-1])"};
static const char *const chains[] = {"relu(a * 2 + 1)",    "abs(a) - b", "exp(a) * b + 1",
                                     "where(a > b, a, b)", "-a",         "a * 0"}; /* with -0 */

/* IND-42 */
START_TEST(test_sizes)
{
    static const int more[] = {1000, 2049, 4097, 5001, 9999, 131073, 150001};
    begin();
    for (int n = 0; n < 137; n++) {
        int size = n < 130 ? n : more[n - 130];
        const struct shape line = {1, {size}}, rows = {2, {ROWS, size}};
        /* Large sizes take each reduction of each chain: few of them detect lanes beyond a row. */
        int all = n < 130 ? 5 : 30;
        for (int i = 0; i < all; i++) {
            int k = i % 5;
            const char *chain = chains[(n + k + i / 5) % 6];
            if (size || (k != 2 && k != 3)) /* of nothing there is no largest */
                check(sums[k], chain, n % 2 ? odd : a, &line, 1 + n % 2);
            if (size && size * ROWS <= MOST)
                check(row_sums[k], chain, n % 3 ? odd : a, &rows, 1 + n % 2);
        }
    }
    ck_assert_int_gt(n_fused, 1200);
    int sum_up = 0;
    struct td_loop_view view;
    for (int i = 0; td_loop_at(i, &view); i++)
        for (int s = 0; s < view.n_steps; s++)
            sum_up += view.step[s].op == TD_LOOP_total;
    ck_assert(sum_up > 0 || !vectors);
}
END_TEST

/* Rows too many for one tile, and all folds: with two totals, wide ones, whole numbers. IND-42 */
START_TEST(test_folds)
{
    static const char *const all[] = {
        "prod(%s, -1)",  "argmax(%s, -1)",           "argmin(%s, -1)",
        "var(%s, [-1])", "logsumexp(%s, [-1])",      "any(%s, -1)",
        "all(%s, -1)",   "count_nonzero(%s, -1)",    "nansum(%s, [-1])",
        "std(%s, [-1])", "sum(%s, [-1], dtype=FP32)"};
    static const char *const of[] = {"relu(a * 2)",
                                     "(a * 9).to(INT64)",
                                     "(a * 9).to(UINT8) + 1",
                                     "a.to(FP64) * 2",
                                     "a.to(BF16) * b.to(BF16)",
                                     "a.to(FP16) + 1",
                                     "a > b",
                                     "exp(a * 0.1)"}; /* whose products are numbers */
    static const struct shape shapes[] = {
        {2, {300, 77}}, {2, {900, 5}}, {2, {2, 6001}}, {2, {300, 33}}, {2, {303, 64}}};
    begin();
    for (int k = 0; k < 11; k++)
        for (int i = 0; i < 8; i++)
            for (int s = 0; s < 5; s++) {
                bool real = (k >= 3 && k < 5) || k == 9;   /* only of these */
                bool truth = i == 6 && (k == 1 || k == 2); /* and these of no truth */
                if (!truth && (!real || i == 0 || i == 7 || (i > 2 && i < 6)))
                    check(all[k], of[i], a, &shapes[s], 1 + s % 2);
            }
    ck_assert_int_gt(n_fused, 300);
}
END_TEST

/* A result that nobody reads has a place all the same. */
START_TEST(test_unread)
{
    static struct td_run run;
    struct td_named args[] = {tensor_arg("a", a, 5001)};
    begin();
    ck_assert(run_expr(&run, "_s = sum(a * 2); y = a + 1", args, 1, NULL, 1, (void *[]){got}));
    ck_assert_int_eq(run.call.n_out, 1);
    for (int i = 0; i < 5001; i++)
        ck_assert(((const float *)got)[i] == a[i] + 1);
}
END_TEST

/* What others read is written all the same. IND-42 */
START_TEST(test_kept)
{
    static struct td_run run;
    struct td_named args[] = {tensor_arg("a", a, 5001), tensor_arg("b", b, 5001)};
    begin();
    ck_assert(run_expr(&run, "relu(a * 2)", args, 1, NULL, 1, (void *[]){made}));
    args[1].value.tensor.data = made;
    ck_assert(run_expr(&run, "sum(b)", args + 1, 1, NULL, 1, (void *[]){alone}));
    ck_assert(
        run_expr(&run, "t = relu(a * 2); s = sum(t)", args, 1, NULL, 1, (void *[]){kept, got}));
    ck_assert_int_eq(run.parts->with, 2);
    ck_assert(run.parts->next->kept || run.parts->next->gives[0]);
    ck_assert_mem_eq(kept, made, 5001 * sizeof(float));
    ck_assert_mem_eq(got, alone, sizeof(float));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_sizes, test_folds, test_unread, test_kept};
    return td_run_tests("sums", tests, sizeof tests / sizeof *tests);
}
