/* How fast a level's instructions can be at best: loops that do nothing but multiply-adds, on
 * registers, and loads. Compiled once per level. What they reach is what a kernel's time is
 * compared with (the roofline model; Williams, Waterman and Patterson, 2009). */
#include "kernels/lanes.h"
#include "kernels/level.h"

#define CHAINS 12 /* multiply-adds on their way at once: more than 2 a cycle of 5 cycles each */

#if defined __AVX512F__
typedef __m512d doubles;
#define FMA_F64(a, b, c) _mm512_fmadd_pd(a, b, c)
#elif TD_VBYTES == 32
typedef __m256d doubles;
#define FMA_F64(a, b, c) _mm256_fmadd_pd(a, b, c)
#else
typedef double doubles __attribute__((vector_size(TD_VBYTES)));
#define FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

/* What stays after each loop, so that none of it can be left out. */
static _Thread_local volatile float rest;

/* CHAINS sums s of the vector type, each changed by next in every round; so many operations. */
#define CHAINED(type, operations, next)                                                            \
    type sum[CHAINS], a, b;                                                                        \
    memset(&a, 0, sizeof a);                                                                       \
    memset(&b, 0, sizeof b);                                                                       \
    memset(sum, 0, sizeof sum);                                                                    \
    __asm__ volatile("" : "+m"(a), "+m"(b));                                                       \
    for (int64_t r = 0; r < rounds; r++) {                                                         \
        _Pragma("GCC unroll 12") for (int i = 0; i < CHAINS; i++)                                  \
        {                                                                                          \
            type s = sum[i];                                                                       \
            sum[i] = next;                                                                         \
        }                                                                                          \
    }                                                                                              \
    float first;                                                                                   \
    for (int i = 0; i < CHAINS; i++) {                                                             \
        memcpy(&first, &sum[i], sizeof first);                                                     \
        rest = first;                                                                              \
    }                                                                                              \
    return (double)rounds * CHAINS * (operations);

static double operate_f32(int64_t rounds)
{
    CHAINED(V, 2 * L_LANES, L_fma(a, b, s))
}

static double operate_f64(int64_t rounds)
{
    CHAINED(doubles, 2 * TD_VBYTES / 8, FMA_F64(a, b, s))
}

#if defined __AMX_TILE__

struct shape { /* of the tile registers, as LDTILECFG reads it */
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

/* Four tiles of sums, 16 x 16; each round adds a product of depth 64 bytes to each. */
#define TILED(operations, multiply)                                                                \
    struct shape shape = {.palette = 1};                                                           \
    for (int i = 0; i < 8; i++) {                                                                  \
        shape.bytes[i] = 64;                                                                       \
        shape.rows[i] = 16;                                                                        \
    }                                                                                              \
    __asm__ volatile("" ::"m"(shape));                                                             \
    _tile_loadconfig(&shape);                                                                      \
    _tile_zero(4);                                                                                 \
    _tile_zero(5);                                                                                 \
    for (int64_t r = 0; r < rounds; r++) {                                                         \
        multiply(0, 4, 5);                                                                         \
        multiply(1, 4, 5);                                                                         \
        multiply(2, 4, 5);                                                                         \
        multiply(3, 4, 5);                                                                         \
    }                                                                                              \
    _tile_release();                                                                               \
    return (double)rounds * 4 * (operations);

static double operate_bf16(int64_t rounds)
{
    TILED(2 * 16 * 16 * 32, _tile_dpbf16ps)
}

static double operate_i8(int64_t rounds)
{
    TILED(2 * 16 * 16 * 64, _tile_dpbssd)
}

#else

static double operate_bf16(int64_t rounds)
{
#if defined __AVX512BF16__
    CHAINED(__m512, 2 * 32, _mm512_dpbf16_ps(s, (__m512bh)a, (__m512bh)b))
#else
    (void)rounds;
    return 0;
#endif
}

static double operate_i8(int64_t rounds)
{
#if defined __AVX512VNNI__
    CHAINED(__m512i, 2 * 64, _mm512_dpbusd_epi32(s, a, b))
#elif defined __AVXVNNI__
    CHAINED(__m256i, 2 * 32, _mm256_dpbusd_avx_epi32(s, a, b))
#else
    (void)rounds;
    return 0;
#endif
}

#endif

double TD_NAME(level_operate)(enum td_dtype type, int64_t rounds);
double TD_NAME(level_operate)(enum td_dtype type, int64_t rounds)
{
    return type == TD_f32    ? operate_f32(rounds)
           : type == TD_f64  ? operate_f64(rounds)
           : type == TD_bf16 ? operate_bf16(rounds)
           : type == TD_i8   ? operate_i8(rounds)
                             : 0;
}

double TD_NAME(level_load)(const void *data, size_t bytes, int64_t rounds);
double TD_NAME(level_load)(const void *data, size_t bytes, int64_t rounds)
{
    enum { AT_ONCE = 8 };
    size_t n = bytes / sizeof(td_vu) / AT_ONCE * AT_ONCE;
    td_vu sum[AT_ONCE] = {{0}};
    const td_vu *v = data;
    for (int64_t r = 0; r < rounds; r++) {
        for (size_t k = 0; k < n; k += AT_ONCE)
            _Pragma("GCC unroll 8") for (int i = 0; i < AT_ONCE; i++) sum[i] |= v[k + (size_t)i];
        __asm__ volatile("" ::: "memory");
    }
    for (int i = 0; i < AT_ONCE; i++)
        rest = (float)sum[i][0];
    return (double)rounds * (double)(n * sizeof(td_vu));
}
