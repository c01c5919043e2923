/* dispatch/cpu/cpu.c on the machine that runs the test: what it says is what Linux and cpuinfo say.
 */
#include "tests/dispatch/dispatch_test.h"

#include <cpuinfo.h>
#include <pthread.h>

static void *init_again(void *cap)
{
    struct td_problem problem;
    ck_assert_int_eq(td_cpu_init(cap, &problem), 0);
    return (void *)td_cpu()->requested;
}

/* ISA-12: detected once, whoever asks; a later cap changes nothing. */
START_TEST(test_once)
{
    pthread_t threads[8];
    void *seen[8];
    char *caps[] = {"default", "avx2"};
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&threads[i], NULL, init_again, caps[i % 2]), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], &seen[i]);
    for (int i = 0; i < 8; i++)
        ck_assert_ptr_eq(seen[i], seen[0]);
    ck_assert_ptr_eq(init_again(NULL), seen[0]);
    ck_assert(!strcmp(seen[0], "default") || !strcmp(seen[0], "avx2"));
}
END_TEST

/* ISA-14: what CPUID says here is what cpuinfo says, which reads it by itself. */
START_TEST(test_cpuinfo)
{
    start();
    ck_assert(cpuinfo_initialize());
    const struct td_cpu *cpu = td_cpu();
    const struct {
        enum td_feature feature;
        bool os, theirs; /* whether the system saves the registers; what cpuinfo says of both */
    } pairs[] = {
        {TD_FEATURE_mmx, true, cpuinfo_has_x86_mmx()},
        {TD_FEATURE_sse, true, cpuinfo_has_x86_sse()},
        {TD_FEATURE_sse2, true, cpuinfo_has_x86_sse2()},
        {TD_FEATURE_sse3, true, cpuinfo_has_x86_sse3()},
        {TD_FEATURE_ssse3, true, cpuinfo_has_x86_ssse3()},
        {TD_FEATURE_sse4_1, true, cpuinfo_has_x86_sse4_1()},
        {TD_FEATURE_sse4_2, true, cpuinfo_has_x86_sse4_2()},
        {TD_FEATURE_aes_ni, true, cpuinfo_has_x86_aes()},
        {TD_FEATURE_sha, true, cpuinfo_has_x86_sha()},
        {TD_FEATURE_avx, cpu->os_avx, cpuinfo_has_x86_avx()},
        {TD_FEATURE_avx2, cpu->os_avx, cpuinfo_has_x86_avx2()},
        {TD_FEATURE_f16c, cpu->os_avx, cpuinfo_has_x86_f16c()},
        {TD_FEATURE_fma, cpu->os_avx, cpuinfo_has_x86_fma3()},
        {TD_FEATURE_avx512_f, cpu->os_avx512, cpuinfo_has_x86_avx512f()},
        {TD_FEATURE_avx512_bw, cpu->os_avx512, cpuinfo_has_x86_avx512bw()},
        {TD_FEATURE_avx512_dq, cpu->os_avx512, cpuinfo_has_x86_avx512dq()},
        {TD_FEATURE_avx512_vl, cpu->os_avx512, cpuinfo_has_x86_avx512vl()},
        {TD_FEATURE_avx512_vnni, cpu->os_avx512, cpuinfo_has_x86_avx512vnni()},
        {TD_FEATURE_avx512_bf16, cpu->os_avx512, cpuinfo_has_x86_avx512bf16()},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        ck_assert_msg((td_cpu_has(cpu, pairs[i].feature) && pairs[i].os) == pairs[i].theirs, "%s",
                      td_feature_name(pairs[i].feature));
    ck_assert_int_eq(cpu->threads, (int)cpuinfo_get_processors_count());
}
END_TEST

/* ISA-14: what CPUID says here is what Linux says. */
START_TEST(test_this_machine)
{
    static const char *const pairs[][2] = {
        {"avx2", "avx2"},         {"avx", "avx"},           {"fma", "fma"},
        {"f16c", "f16c"},         {"avx512_f", "avx512f"},  {"avx512_vnni", "avx512_vnni"},
        {"avx_vnni", "avx_vnni"}, {"amx_tile", "amx_tile"}, {"avx512_bf16", "avx512_bf16"},
        {"sha", "sha_ni"},        {"sse4_2", "sse4_2"},     {"aes_ni", "aes"},
    };
    char line[8192] = "", vendor[16] = "";
    FILE *file = fopen("/proc/cpuinfo", "re");
    ck_assert_ptr_nonnull(file);
    while (fgets(line, sizeof line, file) && strncmp(line, "flags", 5))
        sscanf(line, "vendor_id : %15s", vendor);
    fclose(file);
    ck_assert(!strncmp(line, "flags", 5));
    line[strcspn(line, "\n")] = ' ';
    start();
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char word[32];
        int f = 0;
        snprintf(word, sizeof word, " %s ", pairs[i][1]);
        while (strcmp(td_feature_name((enum td_feature)f), pairs[i][0]))
            ck_assert_int_lt(++f, TD_FEATURES);
        ck_assert_msg(td_cpu_has(td_cpu(), (enum td_feature)f) == (strstr(line, word) != NULL),
                      "%s", pairs[i][0]);
    }
    ck_assert_str_eq(td_cpu()->vendor, vendor);
    ck_assert_int_gt(td_cpu()->cores, 0);
    ck_assert_ptr_nonnull(td_cpu()->model);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_once, test_cpuinfo, test_this_machine};
    return td_run_tests("machine", tests, sizeof tests / sizeof *tests);
}
