/* Which ISA levels this process may use. Three parties decide each level: CPUID (the CPU), XCR0 and
 * the AMX permission (the operating system), and the compiler (the binary); a cap from outside
 * takes levels away and never adds one. Levels are a set: each is judged by its own needs and its
 * base's.
 *
 * Built with base flags only, or the detection itself could fault. Runs once, in main, before any
 * thread: Linux grants AMX to the threads that come later. */
#include "dispatch/dispatch.h"

#include <cpuid.h>
#include <cpuinfo.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BIT(n) (UINT64_C(1) << (n))
#define XCR0_AVX (BIT(1) | BIT(2))             /* SSE and AVX state */
#define XCR0_AVX512 (BIT(5) | BIT(6) | BIT(7)) /* opmask, upper halves, registers 16 to 31 */
#define XCR0_AMX (BIT(17) | BIT(18))           /* tile configuration and data */

static const struct {
    const char *name;
    uint32_t leaf, subleaf;
    int reg, bit;
} features[TD_FEATURES] = {
#define TD_FEATURE(id, name, leaf, subleaf, reg, bit) {name, leaf, subleaf, reg, bit},
#include "dispatch/cpu/features.def"
#undef TD_FEATURE
};

/* What each level needs beyond its base. */
static const struct {
    enum td_isa base;
    const char *env; /* lower case, as the cap names it */
    uint64_t features;
    uint64_t xcr0;
    bool built;
} needs[TD_ISAS] = {
#define F(id) BIT(TD_FEATURE_##id)
    [TD_ISA_default] = {TD_ISA_default, "default", 0, 0, TD_HAS_default},
    [TD_ISA_avx2] = {TD_ISA_default, "avx2", F(avx) | F(avx2) | F(fma) | F(f16c), XCR0_AVX,
                     TD_HAS_avx2},
    [TD_ISA_avx2_vnni] = {TD_ISA_avx2, "avx2_vnni", F(avx_vnni), 0, TD_HAS_avx2_vnni},
    [TD_ISA_avx512] = {TD_ISA_avx2, "avx512",
                       F(avx512_f) | F(avx512_dq) | F(avx512_bw) | F(avx512_vl), XCR0_AVX512,
                       TD_HAS_avx512},
    [TD_ISA_avx512_vnni] = {TD_ISA_avx512, "avx512_vnni", F(avx512_vnni), 0, TD_HAS_avx512_vnni},
    [TD_ISA_avx512_bf16] = {TD_ISA_avx512_vnni, "avx512_bf16", F(avx512_bf16), 0,
                            TD_HAS_avx512_bf16},
    [TD_ISA_amx] = {TD_ISA_avx512_bf16, "amx", F(amx_tile) | F(amx_int8) | F(amx_bf16), XCR0_AMX,
                    TD_HAS_amx},
    [TD_ISA_avx512_fp16] = {TD_ISA_amx, "avx512_fp16", F(avx512_fp16), 0, TD_HAS_avx512_fp16},
#undef F
};

/* ---- the real machine ---- */

static void native_cpuid(const struct td_cpuid *self, uint32_t leaf, uint32_t subleaf,
                         uint32_t reg[4])
{
    (void)self;
    __cpuid_count(leaf, subleaf, reg[0], reg[1], reg[2], reg[3]);
}

static uint64_t native_xcr0(const struct td_cpuid *self)
{
    uint32_t low, high;
    (void)self;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* Linux enables the 8 KiB of tile data a thread only for processes that ask. */
static bool native_amx_permission(const struct td_cpuid *self)
{
    enum { GET_XCOMP_PERM = 0x1022, REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    uint64_t granted = 0;
    (void)self;
    if (syscall(SYS_arch_prctl, REQ_XCOMP_PERM, TILE_DATA))
        return false;
    return !syscall(SYS_arch_prctl, GET_XCOMP_PERM, &granted) && (granted & BIT(TILE_DATA));
}

const struct td_cpuid td_cpuid_native = {native_cpuid, native_xcr0, native_amx_permission, NULL};

/* ---- detection ---- */

static void read_features(struct td_cpu *cpu, const struct td_cpuid *source)
{
    uint32_t top[4], top7[4] = {0}, top_ext[4], reg[4];
    source->cpuid(source, 0, 0, top);
    source->cpuid(source, 0x80000000, 0, top_ext);
    if (top[0] >= 7)
        source->cpuid(source, 7, 0, top7);
    for (int i = 0; i < TD_FEATURES; i++) {
        uint32_t leaf = features[i].leaf;
        if (leaf > (leaf & 0x80000000 ? top_ext[0] : top[0]) ||
            (leaf == 7 && features[i].subleaf > top7[0]))
            continue; /* a leaf beyond the highest one answers with another leaf's data */
        source->cpuid(source, leaf, features[i].subleaf, reg);
        if (reg[features[i].reg] >> features[i].bit & 1)
            cpu->features |= BIT(i);
    }
    if (top[0] >= 1) {
        source->cpuid(source, 1, 0, reg);
        cpu->osxsave = reg[2] >> 27 & 1;
    }
    if (cpu->osxsave)
        cpu->xcr0 = source->xcr0(source);
}

static bool runs(const struct td_cpu *cpu, enum td_isa level)
{
    if (level == TD_ISA_default)
        return true;
    if (level == TD_ISA_amx && strcmp(cpu->amx_permission, "granted"))
        return false;
    return (cpu->features & needs[level].features) == needs[level].features &&
           (cpu->xcr0 & needs[level].xcr0) == needs[level].xcr0 && runs(cpu, needs[level].base);
}

static enum td_isa highest(unsigned levels)
{
    return (enum td_isa)(31 - __builtin_clz(levels)); /* default is always in */
}

int td_cpu_detect(struct td_cpu *cpu, const struct td_cpuid *source, const char *cap,
                  struct td_problem *problem)
{
    *cpu = (struct td_cpu){.amx_permission = "n/a", .vendor = "", .model = "", .uarch = ""};
    int top = TD_ISAS - 1;
    if (cap && *cap) {
        for (top = 0; top < TD_ISAS && strcmp(cap, needs[top].env); top++)
            ;
        if (top == TD_ISAS)
            return td_problem_set(problem, EINVAL,
                                  "TENSORD_CPU_CAPABILITY: '%.40s' is no level; valid are default, "
                                  "avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx, "
                                  "avx512_fp16",
                                  cap);
        cpu->requested = needs[top].env;
    }
    read_features(cpu, source);
    cpu->os_avx = (cpu->xcr0 & XCR0_AVX) == XCR0_AVX && td_cpu_has(cpu, TD_FEATURE_avx);
    cpu->os_avx2 = cpu->os_avx && td_cpu_has(cpu, TD_FEATURE_avx2);
    cpu->os_avx512 = (cpu->xcr0 & XCR0_AVX512) == XCR0_AVX512;
    cpu->os_amx = (cpu->xcr0 & XCR0_AMX) == XCR0_AMX;
    if (cpu->os_amx && td_cpu_has(cpu, TD_FEATURE_amx_tile))
        cpu->amx_permission = source->amx_permission(source) ? "granted" : "denied";
    for (int level = 0; level < TD_ISAS; level++) {
        cpu->cpu_levels |= (unsigned)runs(cpu, level) << level;
        cpu->binary_levels |= (unsigned)needs[level].built << level;
    }
    cpu->levels = cpu->cpu_levels & cpu->binary_levels & ((2u << top) - 1);
    cpu->highest_cpu = highest(cpu->cpu_levels);
    cpu->highest_binary = highest(cpu->binary_levels);
    cpu->current = highest(cpu->levels);
    return 0;
}

const char *td_cpu_uarch(uint32_t leaf1_eax)
{
    static const struct {
        uint32_t family, first, last, stepping;
        const char *name;
    } known[] = {
#define TD_UARCH(family, first, last, stepping, name) {family, first, last, stepping, name},
#include "dispatch/cpu/uarch.def"
#undef TD_UARCH
    };
    uint32_t stepping = leaf1_eax & 15, model = leaf1_eax >> 4 & 15, family = leaf1_eax >> 8 & 15;
    if (family == 6 || family == 15)
        model |= leaf1_eax >> 12 & 0xf0; /* the extended model */
    if (family == 15)
        family += leaf1_eax >> 20 & 0xff;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].family == family && known[i].first <= model && model <= known[i].last &&
            known[i].stepping <= stepping)
            return known[i].name;
    return NULL;
}

/* Names for people; the levels do not depend on them. */
static void read_names(struct td_cpu *cpu)
{
    uint32_t reg[4];
    td_cpuid_native.cpuid(&td_cpuid_native, 0, 0, reg);
    memcpy(cpu->names_, &reg[1], 4);
    memcpy(cpu->names_ + 4, &reg[3], 4);
    memcpy(cpu->names_ + 8, &reg[2], 4);
    cpu->vendor = cpu->names_;
    td_cpuid_native.cpuid(&td_cpuid_native, 1, 0, reg);
    snprintf(cpu->names_ + 16, sizeof cpu->names_ - 16, "CPUID 1: 0x%08x", reg[0]);
    cpu->uarch = td_cpu_uarch(reg[0]) ? td_cpu_uarch(reg[0]) : cpu->names_ + 16;
    if (!cpuinfo_initialize())
        return;
    cpu->model = cpuinfo_get_package(0)->name;
    cpu->cores = (int)cpuinfo_get_cores_count();
    cpu->threads = (int)cpuinfo_get_processors_count();
    const struct cpuinfo_cache *cache[] = {cpuinfo_get_l1d_cache(0), cpuinfo_get_l2_cache(0),
                                           cpuinfo_get_l3_cache(0)};
    for (int i = 0; i < 3; i++)
        cpu->cache[i] = cache[i] ? cache[i]->size : 0;
}

/* What PyTorch's variable asks for, where nothing else does. */
static const char *cap_of_aten(void)
{
    const char *said = getenv("ATEN_CPU_CAPABILITY");
    if (!said || !*said)
        return NULL;
    for (int level = 0; level < TD_ISAS; level++)
        if (!strcmp(needs[level].env, said))
            return said;
    fprintf(stderr,
            "tensord: ATEN_CPU_CAPABILITY: ignoring invalid value '%.40s'; valid are default, "
            "avx2, avx2_vnni, avx512, avx512_vnni, avx512_bf16, amx, avx512_fp16\n",
            said);
    return NULL;
}

static struct td_cpu process_cpu;

static int init(const char *cap, struct td_problem *problem)
{
    const char *ours = getenv("TENSORD_CPU_CAPABILITY"), *source = "cpu_capability";
    if (!cap || !*cap) {
        cap = cap_of_aten();
        source = "ATEN_CPU_CAPABILITY";
    } else if (ours && !strcmp(ours, cap)) {
        source = "TENSORD_CPU_CAPABILITY";
    }
    struct td_cpu cpu;
    int err = td_cpu_detect(&cpu, &td_cpuid_native, cap, problem);
    if (err)
        return err;
    process_cpu = cpu;
    process_cpu.source = cpu.requested ? source : NULL;
    read_names(&process_cpu);
    const char *apart = getenv("TENSORD_NOT_SYNC_ONEDNN_ISA");
    bool told = cpu.requested && !(apart && !strcmp(apart, "1"));
    err = told ? td_onednn_cap(cpu.current) : 0;
    return err ? td_problem_set(problem, -err, "oneDNN does not take the cap: %s", strerror(-err))
               : 0;
}

int td_cpu_init(const char *cap, struct td_problem *problem)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool known;
    pthread_mutex_lock(&lock);
    int err = known ? 0 : init(cap, problem);
    known = known || !err;
    pthread_mutex_unlock(&lock);
    return err;
}

const struct td_cpu *td_cpu(void)
{
    return &process_cpu;
}

/* ---- questions ---- */

const struct td_level *td_cpu_level(const struct td_cpu *cpu)
{
    const struct td_level *level = td_levels;
    while (level->name && level->isa != cpu->current)
        level++;
    return level->name ? level : NULL;
}

bool td_cpu_has(const struct td_cpu *cpu, enum td_feature feature)
{
    return cpu->features >> feature & 1;
}

const char *td_feature_name(enum td_feature feature)
{
    return features[feature].name;
}

static void append(char *text, size_t size, const char *word)
{
    size_t n = strlen(text);
    snprintf(text + n, size - n, "%s%s", n ? ", " : "", word);
}

void td_cpu_missing(const struct td_cpu *cpu, enum td_isa level, char *text, size_t size)
{
    if (level == TD_ISA_default) {
        *text = 0;
        return;
    }
    td_cpu_missing(cpu, needs[level].base, text, size);
    for (int i = 0; i < TD_FEATURES; i++)
        if (needs[level].features & ~cpu->features & BIT(i))
            append(text, size, features[i].name);
    if ((cpu->xcr0 & needs[level].xcr0) != needs[level].xcr0)
        append(text, size,
               level == TD_ISA_amx      ? "os: xcr0[18:17]"
               : level == TD_ISA_avx512 ? "os: xcr0[7:5]"
                                        : "os: xcr0[2:1]");
    if (level == TD_ISA_amx && !strcmp(cpu->amx_permission, "denied"))
        append(text, size, "os: amx permission denied");
}
