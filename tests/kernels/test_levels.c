/* kernels/levels.c: what the objects of each level were told by the build. These functions return
 * constants, so they are called at every level that was built, whatever this CPU has. */
#include "kernels/level.h"
#include "tests/run_tests.h"

#include <string.h>

/* ISA-19: CPU_CAPABILITY_x of the level and of those below it in the same width family: the 64-byte
 * levels never see AVX2's, since their vectors are of another size. */
START_TEST(test_macros)
{
    static const char *const want[TD_ISAS] = {
        [TD_ISA_default] = " DEFAULT",
        [TD_ISA_avx2] = " AVX2",
        [TD_ISA_avx2_vnni] = " AVX2 AVX2_VNNI",
        [TD_ISA_avx512] = " AVX512",
        [TD_ISA_avx512_vnni] = " AVX512 AVX512_VNNI",
        [TD_ISA_avx512_bf16] = " AVX512 AVX512_VNNI AVX512_BF16",
        [TD_ISA_amx] = " AVX512 AVX512_VNNI AVX512_BF16 AMX",
        [TD_ISA_avx512_fp16] = " AVX512 AVX512_VNNI AVX512_BF16 AMX AVX512_FP16",
    };
    int n = 0;
    for (const struct td_level *level = td_levels; level->name; level++, n++) {
        ck_assert_str_eq(level->macros(), want[level->isa]);
        ck_assert_str_eq(level->name(), td_isa_name(level->isa));
    }
    ck_assert_int_ge(n, 2);
}
END_TEST

/* ISA-33: lanes of one vector. */
START_TEST(test_lanes)
{
    for (const struct td_level *level = td_levels; level->name; level++) {
        int bytes = level->isa == TD_ISA_default ? 16 : level->isa < TD_ISA_avx512 ? 32 : 64;
        for (int size = 1; size <= 16; size *= 2)
            ck_assert_int_eq(level->lanes((size_t)size), bytes / size);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("levels");
    TCase *tcase = tcase_create("levels");
    tcase_add_test(tcase, test_macros);
    tcase_add_test(tcase, test_lanes);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
