/* kernels/vec.h: every store that narrows FP32 to BF16 or FP16 keeps every NaN one, with its sign
 * and upper payload, at every width that runs here; and rounds what stands beside it. */
#include "tests/kernels/narrow.h"

#include "kernels/half.h"
#include "tests/run_tests.h"

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           __builtin_cpu_supports("f16c");
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

static bool has_any(void)
{
    return true;
}

static const struct {
    const char *name;
    bool (*runs)(void);
    narrow_store *const *way;
} levels[] = {
    {"default", has_any, td_narrow_default},
#ifdef NARROW_AVX2
    {"avx2", has_avx2, td_narrow_avx2},
    {"wide", has_avx2, td_narrow_wide},
#endif
#ifdef NARROW_AVX512
    {"avx512", has_avx512, td_narrow_avx512},
#endif
};

static void check(int level, int way, const float *from, bool bf16, const uint16_t *right)
{
    uint16_t to[NARROW_N];
    levels[level].way[way](to, from, bf16);
    for (int i = 0; i < NARROW_N; i++)
        if (to[i] != right[i])
            ck_abort_msg("%s, way %d, %s of 0x%08x: 0x%04x, not 0x%04x", levels[level].name, way,
                         bf16 ? "BF16" : "FP16", td_f32_bits(from[i]), to[i], right[i]);
}

/* By half.h, and of NaN by its bits alone. */
static uint16_t narrowed(float x, bool bf16)
{
    uint32_t u = td_f32_bits(x);
    if ((u & 0x7fffffff) <= 0x7f800000)
        return bf16 ? td_f32_to_bf16(x) : td_f32_to_f16(x);
    return (uint16_t)(bf16 ? u >> 16 | 0x7fc0 : (u >> 16 & 0x8000) | 0x7e00 | (u >> 13 & 0x3ff));
}

/* All NaN of FP32, a prime apart so that both ends of the payload change, numbers beside them. */
static void check_all(int level, int way, bool bf16)
{
    float from[NARROW_N];
    uint16_t right[NARROW_N];
    uint32_t payload = 0x7fffff;
    for (int round = 0; round < 4096; round++) {
        for (int i = 0; i < NARROW_N; i++) {
            uint32_t sign = (uint32_t)(i * 7 + round) << 31;
            bool number = i % 16 == round % 16 && round & 1;
            from[i] = number ? (float)(i + 1) / 3 * (sign ? -1 : 1)
                             : td_bits_f32(sign | 0x7f800000 | payload);
            payload = payload > 4099 ? payload - 4099 : payload - 1;
            payload = payload ? payload : 0x7fffff;
        }
        for (int i = 0; i < NARROW_N; i++)
            right[i] = narrowed(from[i], bf16);
        check(level, way, from, bf16, right);
    }
}

START_TEST(test_nan_stays)
{
    int level = _i / NARROW_WAYS, way = _i % NARROW_WAYS;
    if (!levels[level].runs())
        return;
    check_all(level, way, true);
    check_all(level, way, false);
}
END_TEST

/* The NaN that SLEEF 3.5.1 gives for acosh(0.5), and its kin, one among numbers, in each place. */
START_TEST(test_known)
{
    static const struct {
        uint32_t f32;
        uint16_t bf16, f16;
    } known[] = {{0xffffffff, 0xffff, 0xffff}, {0x7fffffff, 0x7fff, 0x7fff},
                 {0x7f800001, 0x7fc0, 0x7e00}, {0xff800001, 0xffc0, 0xfe00},
                 {0x7fff8000, 0x7fff, 0x7ffc}, {0x7f80ffff, 0x7fc0, 0x7e07}};
    for (size_t level = 0; level < sizeof levels / sizeof *levels; level++)
        for (int way = 0; way < NARROW_WAYS && levels[level].runs(); way++)
            for (size_t k = 0; k < sizeof known / sizeof *known; k++)
                for (int at = 0; at < 2 * NARROW_N; at++) {
                    float from[NARROW_N];
                    uint16_t right[NARROW_N];
                    bool bf16 = at < NARROW_N;
                    for (int i = 0; i < NARROW_N; i++) {
                        bool here = i == at % NARROW_N;
                        from[i] = here ? td_bits_f32(known[k].f32) : 1.5f;
                        right[i] =
                            bf16 ? (here ? known[k].bf16 : 0x3fc0) : (here ? known[k].f16 : 0x3e00);
                    }
                    check((int)level, way, from, bf16, right);
                }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("narrow");
    TCase *tcase = tcase_create("narrow");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_nan_stays, 0,
                        (int)(NARROW_WAYS * sizeof levels / sizeof *levels));
    tcase_add_test(tcase, test_known);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
