/* What rows answer when they are asked for a call: their own reasons, and state that lives for as
 * long as whoever asked holds it. */
#include "dispatch_test.h"

#include "kernels/onednn/onednn.h"

#include <math.h>

static struct td_tensor zeros(enum td_dtype dtype, int rank, const int64_t *shape)
{
    struct td_tensor t = {.dtype = dtype, .rank = rank};
    memcpy(t.shape, shape, (size_t)rank * sizeof *shape);
    t.data = heap(NULL, td_nbytes(&t) + 64);
    ck_assert_ptr_nonnull(t.data);
    memset(t.data, 0, td_nbytes(&t));
    return t;
}

#define TENSOR(name, dtype, ...)                                                                   \
    {                                                                                              \
        name,                                                                                      \
        {                                                                                          \
            .kind = TD_KIND_tensor,                                                                \
            .tensor = zeros(dtype, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__}) \
        }                                                                                          \
    }

/* The reason why the first row of that name was not taken, or "chosen". */
static const char *reason(const struct td_run *run, const char *row)
{
    struct td_why why[24];
    int n = td_run_explain(run, why, 24);
    for (int i = 0; i < n; i++)
        if (!strcmp(why[i].impl->name, row) && td_impl_is_usable(why[i].impl))
            return why[i].reason;
    ck_abort_msg("no row %s", row);
}

START_TEST(test_reasons)
{
    struct td_run run;
    start();
    struct td_named conv[] = {TENSOR("input", TD_f32, 1, 2, 3, 3),
                              TENSOR("weight", TD_f32, 2, 2, 70, 70),
                              {"padding", {.kind = TD_KIND_ints, .ints = {{75, 75}, 2}}}};
    ck_assert_int_eq(bind(&run, "conv2d", conv, 3, NULL), 0);
    ck_assert_str_eq(reason(&run, "onednn"), "its padding is wider than its input");
    ck_assert_str_eq(reason(&run, "simd"), "its kernel is much wider than its input");
    ck_assert_str_eq(reason(&run, "ref"), "chosen");

    struct td_named narrow[] = {TENSOR("input", TD_f32, 1, 8, 12, 64),
                                TENSOR("weight", TD_f32, 1, 8, 3, 3)};
    ck_assert_int_eq(bind(&run, "conv2d", narrow, 2, NULL), 0);
    if (td_onednn_isa() >= TD_ISA_avx2)
        ck_assert_str_eq(reason(&run, "onednn"),
                         "its one channel of the result would fill a lane of a register");

    struct td_named linear[] = {TENSOR("input", TD_f32, 3, 0), TENSOR("weight", TD_f32, 4, 0)};
    ck_assert_int_eq(bind(&run, "linear", linear, 2, NULL), 0);
    ck_assert_str_eq(reason(&run, "onednn"), "there is nothing to multiply: not worth a primitive");

    struct td_tensor list[] = {zeros(TD_f32, 1, (int64_t[]){2}), zeros(TD_f64, 1, (int64_t[]){2})};
    struct td_named cat[] = {{"tensors", {.kind = TD_KIND_tensors, .tensors = {list, 2}}}};
    ck_assert_int_eq(bind(&run, "cat", cat, 1, NULL), 0);
    ck_assert_str_eq(reason(&run, "simd"), "its tensors are of several types");
    run.forced = "simd";
    size_t bytes;
    ck_assert_int_eq(td_run_select(&run, &bytes), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "its tensors are of several types; cat has"));

    struct td_named sum[] = {TENSOR("self", TD_f64, 2)};
    ck_assert_int_eq(bind(&run, "sum", sum, 1, NULL), 0);
    ck_assert_str_eq(reason(&run, "simd"), "does not take this type"); /* that of FP32 */
}
END_TEST

/* A call without elements is nobody's: rows are not asked about sizes that mean nothing. */
START_TEST(test_nothing)
{
    struct td_run run;
    size_t bytes;
    start();
    struct td_named mm[] = {TENSOR("self", TD_f32, 0, 5), TENSOR("mat2", TD_f32, 5, 6)};
    ck_assert_int_eq(bind(&run, "mm", mm, 2, NULL), 0);
    run.forced = "onednn";
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    ck_assert_ptr_null(run.prepared.state[0]);
    ck_assert_uint_eq(bytes, 0);
    td_run_execute(&run, NULL);
    td_run_release(&run);
}
END_TEST

static int bind_linear(struct td_run *run, float *x, float *w, float *y, int64_t rows)
{
    struct td_named args[] = {tensor_arg("input", x, 0), tensor_arg("weight", w, 0)};
    args[0].value.tensor.rank = args[1].value.tensor.rank = 2;
    memcpy(args[0].value.tensor.shape, (int64_t[]){rows, 4}, 16);
    memcpy(args[1].value.tensor.shape, (int64_t[]){3, 4}, 16);
    int err = td_run_bind(run, "linear", args, 2, NULL);
    run->call.out[0].data = y;
    run->forced = "onednn";
    return err;
}

/* What select has found stays while 1500 others push it out of the memo, and after the memo is
 * emptied; what only looks makes nothing. */
START_TEST(test_state_is_held)
{
    static float x[1600 * 4], w[3 * 4], y[1600 * 3];
    static struct td_run run, other;
    size_t bytes;
    start();
    for (int i = 0; i < 12; i++)
        x[i] = w[i] = (float)(i + 1);
    ck_assert_int_eq(bind_linear(&run, x, w, y, 2), 0);
    ck_assert(isinf(td_run_cost(&run).most));
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    ck_assert(!isinf(td_run_cost(&run).most));
    void *scratch = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
    for (int64_t rows = 3; rows < 1500; rows++) {
        size_t other_bytes;
        ck_assert_int_eq(bind_linear(&other, x, w, y, rows), 0);
        ck_assert_int_eq(td_run_select(&other, &other_bytes), 0);
        td_run_release(&other);
    }
    td_onednn_forget();
    ck_assert(isinf(td_run_cost(&run).most));
    memset(y, 0, sizeof y);
    td_run_execute(&run, scratch);
    ck_assert_float_eq(y[0], 1 + 4 + 9 + 16);
    ck_assert_float_eq(y[5], 5 * 9 + 6 * 10 + 7 * 11 + 8 * 12);
    td_run_release(&run);
    free(scratch);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("prepare");
    TCase *tcase = tcase_create("prepare");
    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_reasons);
    tcase_add_test(tcase, test_nothing);
    tcase_add_test(tcase, test_state_is_held);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
