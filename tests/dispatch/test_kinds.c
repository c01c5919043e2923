/* Kinds of calls: which calls are of one, and which kinds stay. */
#include "dispatch/choice/kinds.h"
#include "dispatch/choice/tune.h"
#include "kernels/weight.h"
#include "tests/dispatch/dispatch_test.h"

static const struct td_op op = {.schema = "toy_kinds(Tensor self, int mode=0) -> Tensor",
                                .rule = toy_rule,
                                .dtypes = TD_ALL,
                                .impls = toy_rows};

struct kind {
    int64_t n, mode;
    int threads;
    struct td_weight *stored; /* or NULL */
    enum td_dtype type;       /* FP32 if 0 */
};

static uint64_t signature(const struct kind *k)
{
    static struct td_run run;
    static float x[1];
    struct td_named args[] = {tensor_arg("self", x, k->n),
                              {"mode", {.kind = TD_KIND_int, .i = k->mode}}};
    args[0].value.tensor.dtype = k->type ? k->type : TD_f32;
    args[0].value.tensor.weight = k->stored;
    ck_assert_int_eq(td_run_bind(&run, "toy_kinds", args, 2, NULL), 0);
    run.call.threads = k->threads;
    return td_kind_signature(&run.call);
}

/* Sizes in the same octave are of one kind, up to 32 in the same half, and of stored tensors; small
 * ones, attributes, types, threads and stored tensors are not (JIT-9). */
START_TEST(test_kinds)
{
    struct td_weight *w = NULL;
    struct td_problem problem = {0};
    const struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = toy_rows, .origin = TD_HERE};
    static float numbers[100];
    struct td_tensor like = tensor_arg("self", numbers, 100).value.tensor;
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    const struct kind of[] = {
        {.n = 100},
        {.n = 63},
        {.n = 200},
        {.n = 17},
        {.n = 16},
        {.n = 31},
        {.n = 7},
        {.n = 8},
        {.n = 100, .mode = 1},
        {.n = 100, .threads = 2},
        {.n = 100, .stored = w},
        {.n = 90, .stored = w},
        {.n = 112, .stored = w},
        {.n = 100, .type = TD_i32},
    };
    start();
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy_kinds", &def, NULL, &problem), 0);
    for (int64_t n = 64; n < 128; n++)
        ck_assert_uint_eq(signature(&(struct kind){n}), signature(of));
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_msg(signature(&of[i]) != signature(&of[k]), "%zu and %zu", k, i);
    td_weight_unref(&w);
}
END_TEST

/* Of kinds of one set, whichever is used stays, whatever is added. */
START_TEST(test_kinds_in_use_stay)
{
    struct td_measured m = {.row = toy_rows}, found;
    const uint64_t in_use = 512 * 1000 + 1;
    for (uint64_t i = 0; i < 100; i++) {
        ck_assert(td_kind_may_add(in_use));
        td_kind_add(in_use + 512 * i, &m, 0);
        ck_assert_ptr_eq(td_kind_row(in_use, false), toy_rows);
        ck_assert_ptr_eq(td_kind_row(in_use + 512 * i, false), toy_rows);
    }
    ck_assert(td_kind_copy(in_use + 512 * 99, &found) && found.row == toy_rows);
    ck_assert(!td_kind_copy(in_use + 512 * 50, &found));
    ck_assert_int_eq(td_tuned().kinds, 8);
    ck_assert_int_eq(td_tuned().evicted, 92);
    td_kind_add(in_use + 512 * 100, &m, INT64_C(1000000000000)); /* it took long */
    ck_assert(!td_kind_may_add(in_use));
    ck_assert(td_kind_may_add(in_use + 2));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("kinds");
    TCase *tcase = tcase_create("kinds");
    tcase_add_test(tcase, test_kinds);
    tcase_add_test(tcase, test_kinds_in_use_stay);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
