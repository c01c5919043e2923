/* dispatch/cpu/cpu.c on recorded CPUs: what detection makes of CPUID and XCR0 as Haswell,
 * Skylake-SP, Cascade Lake, Cooper Lake, Sapphire Rapids, Alder Lake, Zen 4, Knights Landing and
 * Mill and a CPU before AVX report them. The words are put together from the bit numbers of Intel's
 * and AMD's manuals, independently of features.def, so that a wrong number there shows. */
#include "tests/dispatch/dispatch_test.h"

#define B(n) (UINT32_C(1) << (n))

struct machine {
    const char *name;
    uint32_t top, top7; /* highest leaf, highest subleaf of 7 */
    uint32_t leaf1_ecx, leaf7_ebx, leaf7_ecx, leaf7_edx, leaf71_eax;
    uint64_t xcr0;
    bool amx_permission;
    unsigned levels; /* what is to come of it */
    enum td_isa highest;
    const char *permission;
    uint32_t leaf72_edx;
    uint32_t top_ext; /* highest extended leaf; 0: 0x80000008 */
};

enum {
    SSE_ALL = B(0) | B(9) | B(19) | B(20) | B(25) | B(26), /* sse3 ... sse4.2, aes, xsave */
    AVX_ALL = SSE_ALL | B(27) | B(28) | B(12) | B(29),     /* osxsave, avx, fma, f16c */
    AVX2 = B(5),
};
#define SKX_EBX (AVX2 | B(16) | B(17) | B(28) | B(30) | B(31)) /* f, dq, cd, bw, vl */
#define AMX_EDX (B(22) | B(24) | B(25))

#define L(level) (1u << TD_ISA_##level)
#define TO_AVX2 (L(default) | L(avx2))
#define TO_AVX512 (TO_AVX2 | L(avx512))
#define TO_BF16 (TO_AVX512 | L(avx512_vnni) | L(avx512_bf16))

/* Levels are a set; CPU and system both have a word in it. */
static const struct machine machines[] = {
    {"before AVX", 6, 0, SSE_ALL, 0, 0, 0, 0, 0, false, L(default), TD_ISA_default, "n/a"},
    {"Haswell", 13, 0, AVX_ALL, AVX2, 0, 0, 0, 0x7, false, TO_AVX2, TD_ISA_avx2, "n/a"},
    {"Haswell, system without AVX", 13, 0, AVX_ALL, AVX2, 0, 0, 0, 0x3, false, L(default),
     TD_ISA_default, "n/a"},
    {"Haswell, system without XSAVE", 13, 0, AVX_ALL & ~B(27), AVX2, 0, 0, 0, 0x7, false,
     L(default), TD_ISA_default, "n/a"},
    {"Alder Lake", 32, 1, AVX_ALL, AVX2, 0, 0, B(4), 0x7, false, TO_AVX2 | L(avx2_vnni),
     TD_ISA_avx2_vnni, "n/a"},
    {"Skylake-SP", 22, 0, AVX_ALL, SKX_EBX, 0, 0, 0, 0xe7, false, TO_AVX512, TD_ISA_avx512, "n/a"},
    {"Skylake-SP, system without AVX-512", 22, 0, AVX_ALL, SKX_EBX, 0, 0, 0, 0x7, false, TO_AVX2,
     TD_ISA_avx2, "n/a"},
    {"Knights Landing", 13, 0, AVX_ALL, AVX2 | B(16) | B(26) | B(27) | B(28), B(0), 0, 0, 0xe7,
     false, TO_AVX2, TD_ISA_avx2, "n/a"}, /* f, cd, pf and er alone */
    {"Knights Mill", 13, 0, AVX_ALL, AVX2 | B(16) | B(26) | B(27) | B(28), B(0) | B(14),
     B(2) | B(3), 0, 0xe7, false, TO_AVX2, TD_ISA_avx2, "n/a"},
    {"Cascade Lake", 22, 0, AVX_ALL, SKX_EBX, B(11), 0, 0, 0xe7, false, TO_AVX512 | L(avx512_vnni),
     TD_ISA_avx512_vnni, "n/a"},
    {"Cooper Lake", 22, 1, AVX_ALL, SKX_EBX, B(11), 0, B(5), 0xe7, false, TO_BF16,
     TD_ISA_avx512_bf16, "n/a"},
    {"Zen 4", 16, 1, AVX_ALL, SKX_EBX, B(11), 0, B(5), 0xe7, false, TO_BF16, TD_ISA_avx512_bf16,
     "n/a"},
    {"Sapphire Rapids", 32, 1, AVX_ALL, SKX_EBX, B(11), AMX_EDX | B(23), B(4) | B(5), 0x602e7, true,
     TO_BF16 | L(avx2_vnni) | L(amx) | L(avx512_fp16), TD_ISA_avx512_fp16, "granted"},
    {"Sapphire Rapids, system without AMX", 32, 1, AVX_ALL, SKX_EBX, B(11), AMX_EDX | B(23),
     B(4) | B(5), 0xe7, true, TO_BF16 | L(avx2_vnni), TD_ISA_avx512_bf16, "n/a"},
    {"Sapphire Rapids, permission refused", 32, 1, AVX_ALL, SKX_EBX, B(11), AMX_EDX | B(23),
     B(4) | B(5), 0x602e7, false, TO_BF16 | L(avx2_vnni), TD_ISA_avx512_bf16, "denied"},
};
#define W(member) offsetof(struct machine, member)
#define MACHINES (sizeof machines / sizeof *machines)

static int beyond, asked_xcr0, asked_permission;

static void recorded_cpuid(const struct td_cpuid *self, uint32_t leaf, uint32_t subleaf,
                           uint32_t reg[4])
{
    const struct machine *m = self->data;
    memset(reg, 0, 16);
    if (leaf == 0)
        reg[0] = m->top;
    else if (leaf == 0x80000000)
        reg[0] = m->top_ext ? m->top_ext : 0x80000008;
    else if (leaf > 0x80000000 && m->top_ext && leaf > m->top_ext)
        beyond++, memset(reg, 0xff, 16);
    else if (leaf == 0x80000001)
        reg[2] = B(8);
    else if (leaf > m->top && leaf < 0x80000000)
        beyond++, memset(reg, 0xff, 16); /* as CPUs do: something else's data */
    else if (leaf == 1)
        reg[2] = m->leaf1_ecx, reg[3] = B(23) | B(25) | B(26);
    else if (leaf == 7 && subleaf == 0)
        reg[0] = m->top7, reg[1] = m->leaf7_ebx, reg[2] = m->leaf7_ecx, reg[3] = m->leaf7_edx;
    else if (leaf == 7 && subleaf <= m->top7)
        reg[0] = subleaf == 1 ? m->leaf71_eax : 0, reg[3] = subleaf == 2 ? m->leaf72_edx : 0;
    else if (leaf == 7)
        beyond++, memset(reg, 0xff, 16);
}

static uint64_t recorded_xcr0(const struct td_cpuid *self)
{
    asked_xcr0++;
    return ((const struct machine *)self->data)->xcr0;
}

static bool recorded_permission(const struct td_cpuid *self)
{
    asked_permission++;
    return ((const struct machine *)self->data)->amx_permission;
}

static struct td_cpu detect(const struct machine *m, const char *cap)
{
    struct td_cpuid source = {recorded_cpuid, recorded_xcr0, recorded_permission, m};
    struct td_problem problem;
    struct td_cpu cpu;
    ck_assert_msg(!td_cpu_detect(&cpu, &source, cap, &problem), "%s", problem.text);
    return cpu;
}

static const struct machine *machine_named(const char *name)
{
    const struct machine *m = machines;
    while (strcmp(m->name, name))
        ck_assert(++m < machines + MACHINES);
    return m;
}

/* ISA-2, ISA-4, ISA-7, ISA-8, ISA-9, ISA-11, ISA-12, ISA-35: each machine's levels, whatever the
 * cap. */
START_TEST(test_machines)
{
    for (size_t i = 0; i < MACHINES; i++) {
        const struct machine *m = &machines[i];
        beyond = asked_xcr0 = asked_permission = 0;
        struct td_cpu cpu = detect(m, NULL);
        ck_assert_msg(cpu.cpu_levels == m->levels, "%s: %#x", m->name, cpu.cpu_levels);
        ck_assert_msg(cpu.highest_cpu == m->highest, "%s", m->name);
        ck_assert_uint_eq(cpu.levels, cpu.cpu_levels & cpu.binary_levels);
        ck_assert_str_eq(cpu.amx_permission, m->permission);
        ck_assert_int_eq(beyond, 0);
        ck_assert_int_eq(asked_xcr0, (m->leaf1_ecx & B(27)) != 0); /* XGETBV faults else */
        ck_assert_int_eq(asked_permission, strcmp(m->permission, "n/a") != 0);
        for (int level = 0; level < TD_ISAS; level++) {
            char missing[200];
            td_cpu_missing(&cpu, (enum td_isa)level, missing, sizeof missing);
            bool there = m->levels >> level & 1;
            ck_assert_msg(there == !*missing, "%s, %s: %s", m->name,
                          td_isa_name((enum td_isa)level), missing);
        }
    }
}
END_TEST

/* ISA-2: a machine that has all levels loses one bit, and each level that needs it, by name. */
START_TEST(test_halves)
{
#define AVX512_UP (L(avx512) | L(avx512_vnni) | BF16_UP)
#define BF16_UP (L(avx512_bf16) | L(amx) | L(avx512_fp16))
#define AMX_UP (L(amx) | L(avx512_fp16))
    static const struct {
        size_t word; /* of struct machine */
        int bit;
        unsigned gone;
        const char *missing;
    } bits[] = {
        {W(leaf1_ecx), 12, ~L(default), "fma"},
        {W(leaf1_ecx), 28, ~L(default), "avx"},
        {W(leaf1_ecx), 29, ~L(default), "f16c"},
        {W(leaf7_ebx), 5, ~L(default), "avx2"},
        {W(xcr0), 1, ~L(default), "os: xcr0[2:1]"},
        {W(xcr0), 2, ~L(default), "os: xcr0[2:1]"},
        {W(leaf71_eax), 4, L(avx2_vnni), "avx_vnni"},
        {W(leaf7_ebx), 16, AVX512_UP, "avx512_f"},
        {W(leaf7_ebx), 17, AVX512_UP, "avx512_dq"},
        {W(leaf7_ebx), 30, AVX512_UP, "avx512_bw"},
        {W(leaf7_ebx), 31, AVX512_UP, "avx512_vl"},
        {W(xcr0), 5, AVX512_UP, "os: xcr0[7:5]"},
        {W(xcr0), 6, AVX512_UP, "os: xcr0[7:5]"},
        {W(xcr0), 7, AVX512_UP, "os: xcr0[7:5]"},
        {W(leaf7_ecx), 11, L(avx512_vnni) | BF16_UP, "avx512_vnni"},
        {W(leaf71_eax), 5, BF16_UP, "avx512_bf16"},
        {W(leaf7_edx), 22, AMX_UP, "amx_bf16"},
        {W(leaf7_edx), 25, AMX_UP, "amx_int8"},
        {W(xcr0), 17, AMX_UP, "os: xcr0[18:17]"},
        {W(xcr0), 18, AMX_UP, "os: xcr0[18:17]"},
        {W(leaf7_edx), 24, AMX_UP, "amx_tile"},
        {W(leaf7_edx), 23, L(avx512_fp16), "avx512_fp16"},
    };
    const struct machine *whole = machine_named("Sapphire Rapids");
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        struct machine m = *whole;
        uint32_t word; /* of XCR0 the lower half */
        memcpy(&word, (char *)&m + bits[i].word, sizeof word);
        ck_assert(word & B(bits[i].bit));
        word &= ~B(bits[i].bit);
        memcpy((char *)&m + bits[i].word, &word, sizeof word);
        struct td_cpu cpu = detect(&m, NULL);
        ck_assert_msg(cpu.cpu_levels == (whole->levels & ~bits[i].gone), "without %s: %#x",
                      bits[i].missing, cpu.cpu_levels);
        for (int level = 0; level < TD_ISAS; level++) {
            char missing[200];
            td_cpu_missing(&cpu, (enum td_isa)level, missing, sizeof missing);
            ck_assert_str_eq(missing, bits[i].gone >> level & 1 ? bits[i].missing : "");
        }
    }
}
END_TEST

/* ISA-30: a cap takes the levels above it away, adds none, and the highest left is current. */
START_TEST(test_caps)
{
    static const char *const caps[] = {"default",     "avx2",        "avx2_vnni", "avx512",
                                       "avx512_vnni", "avx512_bf16", "amx",       "avx512_fp16"};
    for (size_t i = 0; i < MACHINES; i++) {
        struct td_cpu free = detect(&machines[i], "");
        ck_assert_ptr_null(free.requested);
        for (int top = 0; top < TD_ISAS; top++) {
            struct td_cpu cpu = detect(&machines[i], caps[top]);
            ck_assert_str_eq(cpu.requested, caps[top]);
            ck_assert_uint_eq(cpu.levels, free.levels & ((2u << top) - 1));
            ck_assert(cpu.levels >> cpu.current & 1); /* never one that cannot run */
            ck_assert_int_le(cpu.current, top);
            ck_assert_uint_eq(cpu.cpu_levels, free.cpu_levels); /* the CPU is what it is */
        }
    }
    /* The numeric order would let Skylake run AVX2_VNNI under this cap. */
    ck_assert_int_eq(detect(machine_named("Skylake-SP"), "avx2_vnni").current, TD_ISA_avx2);
    static const char *const wrong[] = {"AVX2", "avx", " avx2",       "avx2 ",
                                        "0",    "sse", "avx512_fp16x"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct td_cpuid source = {recorded_cpuid, recorded_xcr0, recorded_permission, machines};
        struct td_problem problem;
        struct td_cpu cpu;
        ck_assert_int_eq(td_cpu_detect(&cpu, &source, wrong[i], &problem), -EINVAL);
        ck_assert_ptr_nonnull(strstr(problem.text, "avx512_bf16"));
    }
}
END_TEST

/* ISA-8, ISA-10: XCR0 0x602e7 is x87, SSE, AVX, the three of AVX-512, PKRU, the two of AMX. */
START_TEST(test_xcr0)
{
    static const struct {
        uint64_t xcr0;
        bool avx, avx512, amx;
    } cases[] = {{0x602e7, true, true, true},  {0xe7, true, true, false},
                 {0x7, true, false, false},    {0x67, true, false, false},
                 {0x602e3, false, true, true}, {0, false, false, false}};
    struct machine m = *machine_named("Sapphire Rapids");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        m.xcr0 = cases[i].xcr0;
        struct td_cpu cpu = detect(&m, NULL);
        ck_assert_int_eq(cpu.os_avx, cases[i].avx);
        ck_assert_int_eq(cpu.os_avx2, cases[i].avx);
        ck_assert_int_eq(cpu.os_avx512, cases[i].avx512);
        ck_assert_int_eq(cpu.os_amx, cases[i].amx);
        ck_assert_uint_eq(cpu.xcr0, cases[i].xcr0);
    }
    m.xcr0 = 7; /* os_avx and os_avx2 need their CPUID bit as well */
    m.leaf7_ebx &= ~AVX2;
    ck_assert(!detect(&m, NULL).os_avx2);
    ck_assert(detect(&m, NULL).os_avx);
}
END_TEST

/* ISA-1: the names, and both odd ones. */
START_TEST(test_names)
{
    static const char *const names[] = {"DEFAULT",     "AVX2",        "AVX2_VNNI", "AVX512",
                                        "AVX512_VNNI", "AVX512_BF16", "AMX",       "AVX512_FP16"};
    ck_assert_int_eq(TD_ISAS, 8);
    for (int i = 0; i < TD_ISAS; i++)
        ck_assert_str_eq(td_isa_name((enum td_isa)i), names[i]);
    ck_assert_str_eq(td_isa_name(TD_ISAS), "OutOfBoundaryLevel");
    ck_assert_str_eq(td_isa_name((enum td_isa)99), "WrongLevel");
    ck_assert_str_eq(td_isa_name((enum td_isa) - 1), "WrongLevel");
}
END_TEST

/* ISA-13, ISA-16: each feature by the bit that the manual gives it, alone. */
START_TEST(test_features)
{
    static const struct {
        const char *name;
        size_t word; /* of struct machine */
        int bit;
    } bits[] = {
        {"sse3", W(leaf1_ecx), 0},
        {"ssse3", W(leaf1_ecx), 9},
        {"fma", W(leaf1_ecx), 12},
        {"sse4_1", W(leaf1_ecx), 19},
        {"sse4_2", W(leaf1_ecx), 20},
        {"aes_ni", W(leaf1_ecx), 25},
        {"xsave", W(leaf1_ecx), 26},
        {"avx", W(leaf1_ecx), 28},
        {"f16c", W(leaf1_ecx), 29},
        {"avx2", W(leaf7_ebx), 5},
        {"avx512_f", W(leaf7_ebx), 16},
        {"avx512_dq", W(leaf7_ebx), 17},
        {"avx512_ifma", W(leaf7_ebx), 21},
        {"avx512_pf", W(leaf7_ebx), 26},
        {"avx512_er", W(leaf7_ebx), 27},
        {"avx512_cd", W(leaf7_ebx), 28},
        {"sha", W(leaf7_ebx), 29},
        {"avx512_bw", W(leaf7_ebx), 30},
        {"avx512_vl", W(leaf7_ebx), 31},
        {"prefetchwt1", W(leaf7_ecx), 0},
        {"avx512_vbmi", W(leaf7_ecx), 1},
        {"avx512_vbmi2", W(leaf7_ecx), 6},
        {"avx512_vpclmul", W(leaf7_ecx), 10},
        {"avx512_vnni", W(leaf7_ecx), 11},
        {"avx512_bitalg", W(leaf7_ecx), 12},
        {"avx512_vpopcntdq", W(leaf7_ecx), 14},
        {"avx512_4vnniw", W(leaf7_edx), 2},
        {"avx512_4fmaps", W(leaf7_edx), 3},
        {"avx512_vp2intersect", W(leaf7_edx), 8},
        {"amx_bf16", W(leaf7_edx), 22},
        {"avx512_fp16", W(leaf7_edx), 23},
        {"amx_tile", W(leaf7_edx), 24},
        {"amx_int8", W(leaf7_edx), 25},
        {"avx_vnni", W(leaf71_eax), 4},
        {"avx512_bf16", W(leaf71_eax), 5},
        {"amx_fp16", W(leaf71_eax), 21},
        {"mcdt_no", W(leaf72_edx), 5},
    };
    ck_assert_int_eq(TD_FEATURES_LISTED, 39);
    ck_assert_uint_eq(sizeof bits / sizeof *bits,
                      39 + 2 - 4); /* mmx, sse, sse2, prefetchw: always here */
    for (size_t i = 0; i < sizeof bits / sizeof *bits; i++) {
        struct machine m = {.top = 7, .top7 = 2};
        uint32_t word = B(bits[i].bit);
        memcpy((char *)&m + bits[i].word, &word, sizeof word);
        struct td_cpu cpu = detect(&m, NULL);
        int found = 0;
        for (int f = 0; f < TD_FEATURES; f++) {
            const char *name = td_feature_name((enum td_feature)f);
            bool always = !strcmp(name, "mmx") || !strcmp(name, "sse") || !strcmp(name, "sse2") ||
                          !strcmp(name, "prefetchw");
            bool want = always || !strcmp(name, bits[i].name);
            found += want && !always;
            ck_assert_msg(td_cpu_has(&cpu, (enum td_feature)f) == want, "%s bit %d: %s",
                          bits[i].name, bits[i].bit, name);
        }
        ck_assert_msg(found == 1, "%s is no feature", bits[i].name);
    }
}
END_TEST

/* ISA-12: no leaf is read beyond what the CPU has, basic, sub- or extended. */
START_TEST(test_leaves)
{
    struct machine m = machines[MACHINES - 1];
    for (m.top = 0; m.top < 9; m.top++)
        for (m.top7 = 0; m.top7 < 3; m.top7++)
            for (m.top_ext = 0x80000000; m.top_ext < 0x80000003; m.top_ext++) {
                beyond = 0;
                struct td_cpu cpu = detect(&m, NULL);
                ck_assert_int_eq(beyond, 0);
                ck_assert_int_eq(td_cpu_has(&cpu, TD_FEATURE_sse), m.top >= 1);
                ck_assert_int_eq(td_cpu_has(&cpu, TD_FEATURE_avx2), m.top >= 7);
                ck_assert_int_eq(td_cpu_has(&cpu, TD_FEATURE_avx_vnni), m.top >= 7 && m.top7 >= 1);
                ck_assert_int_eq(td_cpu_has(&cpu, TD_FEATURE_prefetchw), m.top_ext > 0x80000000);
            }
}
END_TEST

/* Names of microarchitectures, by leaf 1 of real ones. */
START_TEST(test_uarch)
{
    static const struct {
        uint32_t leaf1;
        const char *name;
    } known[] = {
        {0x000306c3, "Haswell"},
        {0x00050654, "Skylake-SP"},
        {0x00050657, "Cascade Lake"},
        {0x0005065b, "Cooper Lake"},
        {0x000606a6, "Ice Lake"},
        {0x00090672, "Alder Lake"},
        {0x000806f8, "Sapphire Rapids"},
        {0x000c06f2, "Emerald Rapids"},
        {0x00800f12, "Zen"},
        {0x00830f10, "Zen 2"},
        {0x00a20f10, "Zen 3"},
        {0x00a60f12, "Zen 4"},
        {0x00b40f40, "Zen 5"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *name = td_cpu_uarch(known[i].leaf1);
        ck_assert_msg(name && !strcmp(name, known[i].name), "%#x: %s", known[i].leaf1, name);
    }
    ck_assert_ptr_null(td_cpu_uarch(0x000006f0)); /* before AVX */
    ck_assert_ptr_null(td_cpu_uarch(0));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_machines, test_halves,   test_caps,   test_xcr0,
                                  test_names,    test_features, test_leaves, test_uarch};
    return td_run_tests("cpu", tests, sizeof tests / sizeof *tests);
}
