/* kernels/levels.c: what the objects of each level were told by the build. These functions return
 * constants, so they are called at every level that was built, whatever this CPU has. And what a
 * library's names say of the levels of its code. */
#include "kernels/level.h"
#include "kernels/onednn/onednn.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdlib.h>
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

/* The level is that of the code, and no type is said to use instructions of another. */
START_TEST(test_library)
{
    static const struct {
        const char *how;
        enum td_isa of[3]; /* FP32, BF16, FP16 */
    } right[] = {
        {"brg:sse41", {TD_ISA_default, TD_ISA_default, TD_ISA_default}},
        {"jit:avx", {TD_ISA_default, TD_ISA_default, TD_ISA_default}},
        {"jit:avx2", {TD_ISA_avx2, TD_ISA_avx2, TD_ISA_avx2}},
        {"brg:avx2_vnni_2", {TD_ISA_avx2, TD_ISA_avx2, TD_ISA_avx2}},
        {"brg:avx512_core", {TD_ISA_avx512, TD_ISA_avx512, TD_ISA_avx512}},
        {"brg:avx512_core_vnni", {TD_ISA_avx512, TD_ISA_avx512, TD_ISA_avx512}},
        {"brg:avx512_core_bf16", {TD_ISA_avx512, TD_ISA_avx512_bf16, TD_ISA_avx512}},
        {"brg_matmul:avx512_core_amx", {TD_ISA_avx512, TD_ISA_amx, TD_ISA_amx}},
        {"brg:avx512_core_amx_fp16", {TD_ISA_avx512, TD_ISA_amx, TD_ISA_amx}},
        {"brg:avx512_core_fp16", {TD_ISA_avx512, TD_ISA_amx, TD_ISA_avx512_fp16}},
    };
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        for (int k = 0; k < 3; k++)
            ck_assert_msg(td_onednn_serves(td_onednn_named(right[i].how),
                                           (enum td_dtype[]){TD_f32, TD_bf16, TD_f16}[k]) ==
                              right[i].of[k],
                          "%s", right[i].how);
    ck_assert_int_eq(td_onednn_named("gemm:jit"), TD_ISAS);
    ck_assert_int_eq(td_onednn_level(NULL, TD_f32), td_onednn_serves(td_onednn_isa(), TD_f32));
    ck_assert_int_eq(td_onednn_level(NULL, TD_DTYPE_none), td_onednn_isa());
}
END_TEST

/* Of what a primitive was made for, whatever else the library may use. */
START_TEST(test_level_of_a_call)
{
    struct sample s;
    struct td_prepared prepared = {0};
    sample_start();
    ck_assert(!sample_init(&s, "linear", "input=[8,16] weight=[4,16]", (struct td_sizes){0}, TD_f32,
                           SAMPLE_PLAIN, 5));
    const struct td_impl *row = s.run.call.op->impls;
    while (!row->library)
        row++;
    ck_assert_ptr_null(row->prepare(&s.run.call, &prepared));
    enum td_isa isa = td_onednn_level(&prepared, TD_f32);
    ck_assert(isa == TD_ISA_default || isa == TD_ISA_avx2 || isa == TD_ISA_avx512);
    td_prepared_release(&prepared);
    sample_fini(&s);
}
END_TEST

/* It computes itself: sums of hundreds in FP32 are not what the reference has from doubles, to
 * which a row goes back where the library fails. Twice: a primitive that is made, and one that is
 * found. */
START_TEST(test_library_computes)
{
    static const char *const convolutions[] = {
        "input=[1,64,20,20] weight=[64,64,3,3] padding=1",
        "input=[1,256,20,20] weight=[64,256,1,1]",
    };
    struct sample s;
    sample_start();
    ck_assert(!sample_init(&s, "conv2d", convolutions[_i], (struct td_sizes){0}, TD_f32,
                           SAMPLE_PLAIN, 5));
    struct td_call *call = &s.run.call;
    const struct td_impl *row = call->op->impls, *ref = row;
    while (!row->library)
        row++;
    while (strcmp(ref->name, "ref") != 0)
        ref++;
    size_t bytes = td_nbytes(&call->out[0]);
    void *want = malloc(bytes);
    sample_run(ref, call);
    memcpy(want, call->out[0].data, bytes);
    for (int turn = 0; turn < 2; turn++) {
        sample_run(row, call);
        ck_assert_int_ne(memcmp(want, call->out[0].data, bytes), 0);
    }
    free(want);
    sample_fini(&s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("levels");
    TCase *tcase = tcase_create("levels");
    tcase_add_test(tcase, test_macros);
    tcase_add_test(tcase, test_lanes);
    tcase_add_test(tcase, test_library);
    tcase_add_test(tcase, test_level_of_a_call);
    tcase_add_loop_test(tcase, test_library_computes, 0, 2);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
