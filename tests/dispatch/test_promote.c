/* dispatch/call/promote.c: the common type of mixed arguments. */
#include "dispatch/dispatch.h"
#include "tests/dispatch/dispatch_test.h"

/* DSP-35: types of mixed arguments, as ATen promotes them. */
START_TEST(test_promotion)
{
    static const enum td_dtype types[] = {TD_bool, TD_u8,  TD_i8,   TD_i16, TD_i32,
                                          TD_i64,  TD_f16, TD_bf16, TD_f32, TD_f64};
    static const char *const want[] = {/* upper triangle, row by row, by first letters */
                                       "b u c s i l h B f d",
                                       "u s s i l h B f d",
                                       "c s i l h B f d",
                                       "s i l h B f d",
                                       "i l h B f d",
                                       "l h B f d",
                                       "h f f d",
                                       "B f d",
                                       "f d",
                                       "d"};
    const char letters[] = "bucsilhBfd";
    for (int i = 0; i < 10; i++)
        for (int k = i; k < 10; k++) {
            enum td_dtype got = td_promote_types(types[i] | types[k], 0, 0);
            char letter = want[i][2 * (k - i)];
            ck_assert_int_eq(got, types[strchr(letters, letter) - letters]);
            /* A tensor without dimensions counts only across categories. */
            bool lower = td_dtype_kind(types[i]) == td_dtype_kind(types[k]) || types[k] > TD_i64;
            if (lower && i < k && types[i] <= TD_i64 && types[k] <= TD_i64 && i)
                ck_assert_int_eq(td_promote_types(types[i], types[k], 0), types[i]);
        }
    ck_assert_int_eq(td_promote_types(TD_i32, 0, TD_f64), TD_f32); /* a plain 0.5 */
    ck_assert_int_eq(td_promote_types(TD_f16, 0, TD_f64), TD_f16);
    ck_assert_int_eq(td_promote_types(TD_u8, 0, TD_i64), TD_u8);
    ck_assert_int_eq(td_promote_types(TD_bool, 0, TD_i64), TD_i64);
}
END_TEST

/* The wide unsigned types have a common one with floats alone, as PyTorch has it. */
START_TEST(test_wide_unsigned)
{
    static const enum td_dtype narrow[] = {TD_bool, TD_u8,  TD_i8,   TD_i16, TD_i32,
                                           TD_i64,  TD_f16, TD_bf16, TD_f32, TD_f64};
    static const enum td_dtype wide[] = {TD_u16, TD_u32, TD_u64};
    for (int w = 0; w < 3; w++) {
        for (int i = 0; i < 10; i++) {
            enum td_dtype real = narrow[i] & TD_FLOATS ? narrow[i] : TD_DTYPE_none;
            ck_assert_int_eq(td_promote_types(wide[w] | narrow[i], 0, 0), real);
            ck_assert_int_eq(td_promote_types(wide[w], narrow[i], 0),
                             narrow[i] & TD_FLOATS ? narrow[i] : wide[w]);
            ck_assert_int_eq(td_promote_types(narrow[i], wide[w], 0),
                             i ? narrow[i] : TD_DTYPE_none);
        }
        ck_assert_int_eq(td_promote_types(wide[w] | wide[(w + 1) % 3], 0, 0), TD_DTYPE_none);
        ck_assert_int_eq(td_promote_types(wide[w], wide[(w + 1) % 3], 0), wide[w]);
        ck_assert_int_eq(td_promote_types(wide[w], 0, TD_i64), wide[w]);
        ck_assert_int_eq(td_promote_types(wide[w], 0, TD_f64), TD_f32);
        ck_assert_int_eq(td_promote_types(wide[w] | TD_f16 | TD_i8, 0, 0), TD_f16);
        /* A float of another shape decides nothing about the others. */
        ck_assert_int_eq(td_promote_types(wide[w] | TD_i8, TD_f32, 0), TD_DTYPE_none);
        ck_assert_int_eq(td_promote_types(TD_f32, wide[w] | TD_i8, 0), TD_DTYPE_none);
    }
}
END_TEST

/* What has no common type is refused with a sentence, whichever stands first. */
START_TEST(test_mixtures)
{
    static char data[16];
    struct td_run run;
    start();
    for (int turn = 0; turn < 2; turn++) {
        struct td_named args[] = {tensor_arg("self", (float *)(void *)data, 2),
                                  tensor_arg("other", (float *)(void *)data, 2)};
        args[turn].value.tensor.dtype = TD_u16;
        args[!turn].value.tensor.dtype = TD_i32;
        ck_assert_int_eq(bind(&run, "add", args, 2, NULL), -EINVAL);
        ck_assert_ptr_nonnull(strstr(run.problem.text, "UINT16 and INT32 have no common type"));
        args[!turn].value.tensor.dtype = TD_f16;
        ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
        ck_assert_int_eq(run.call.out[0].dtype, TD_f16);
        args[!turn].value.tensor.dtype = TD_u16;
        ck_assert_int_eq(bind(&run, "add", args, 2, NULL), 0);
        ck_assert_int_eq(run.call.out[0].dtype, TD_u16);
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_promotion, test_wide_unsigned, test_mixtures};
    return td_run_tests("promote", tests, sizeof tests / sizeof *tests);
}
