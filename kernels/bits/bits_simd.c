/* linear_bits in vectors of 16 sums: 16 bytes of weight at a time become floats, and meet up to
 * four rows of the input. More rows are the level's product. */
#include "kernels/bits/bits.h"
#include "kernels/vec.h"

#define ROWS TD_BITS_FEW /* of the input, for which a weight is unpacked once */

typedef float sums __attribute__((vector_size(4 * TD_BITS_SUMS)));
typedef uint8_t bytes __attribute__((vector_size(TD_BITS_SUMS)));
typedef int32_t wholes __attribute__((vector_size(4 * TD_BITS_SUMS)));

/* In one instruction, or two, where the level has them; a compiler left alone goes by elements. */
TD_INLINE sums floats(bytes q)
{
    wholes w;
#if defined __AVX512F__
    w = (wholes)_mm512_cvtepu8_epi32((__m128i)q);
#elif defined __AVX2__
    __m256i half[2] = {_mm256_cvtepu8_epi32((__m128i)q),
                       _mm256_cvtepu8_epi32(_mm_srli_si128((__m128i)q, 8))};
    memcpy(&w, half, sizeof w);
#else
    w = __builtin_convertvector(q, wholes);
#endif
    return __builtin_convertvector(w, sums);
}

TD_INLINE sums load(const float *x)
{
    sums v;
    memcpy(&v, x, sizeof v);
    return v;
}

/* A block of one row of weight with rows of the input: each part's sums. */
TD_INLINE void meet(const uint8_t *weight, int64_t block, const bool four, float zero,
                    const float *const *x, const int rows, sums *part)
{
    for (int64_t e = 0; e < block; e += four ? 32 : 16) {
        bytes q;
        memcpy(&q, weight + (four ? e / 2 : e), sizeof q);
        sums low = floats(four ? q & 15 : q) - zero;
        for (int r = 0; r < rows; r++)
            part[r] += load(x[r] + e) * low;
        if (!four)
            continue;
        sums high = floats(q >> 4) - zero;
        for (int r = 0; r < rows; r++)
            part[r] += load(x[r] + e + 16) * high;
    }
}

TD_INLINE float total(sums v)
{
    for (int half = TD_BITS_SUMS / 2; half; half /= 2)
        for (int s = 0; s < half; s++)
            v[s] += v[s + half];
    return v[0];
}

TD_INLINE void dots(const struct td_bits *b, int64_t n, int64_t first, const bool four,
                    const int rows, const float *scratch)
{
    int64_t width = b->blocks * b->block;
    const uint8_t *weight = b->weight + n * width * b->bits / 8;
    const float *x[ROWS] = {scratch};
    sums sum[ROWS] = {{0}};
    for (int64_t i = 0; i < b->blocks; i++) {
        sums part[ROWS] = {{0}};
        for (int r = 0; r < rows; r++)
            x[r] = scratch + (first + r) * width + i * b->block;
        meet(weight + i * b->block * b->bits / 8, b->block, four, td_bits_zero(b, n, i), x, rows,
             part);
        for (int r = 0; r < rows; r++)
            sum[r] += part[r] * b->scale[n * b->blocks + i];
    }
    for (int r = 0; r < rows; r++)
        b->out[(first + r) * b->n + n] = total(sum[r]) + (b->bias ? b->bias[n] : 0);
}

struct work {
    struct td_bits b;
    const float *scratch;
};

static void columns(void *arg, int64_t begin, int64_t end)
{
    const struct work *w = arg;
    const struct td_bits *b = &w->b;
    for (int64_t n = begin; n < end && (n % 64 || !td_stopped()); n++)
        if (b->m == ROWS && b->bits == 4)
            dots(b, n, 0, true, ROWS, w->scratch);
        else
            for (int64_t r = 0; r < b->m; r++)
                if (b->bits == 4)
                    dots(b, n, r, true, 1, w->scratch);
                else
                    dots(b, n, r, false, 1, w->scratch);
}

TD_KERNEL(bits)
{
    struct work w = {td_bits_of(call), call->scratch};
    const struct td_bits *b = &w.b;
    if (td_bits_is_product(b)) {
        struct td_gemm g = td_bits_gemm(call, b);
        TD_NAME(gemm)(&g, call->scratch);
        return;
    }
    int64_t width = b->blocks * b->block;
    float *to = call->scratch;
    for (int64_t m = 0; m < b->m; m++, to += width)
        for (int64_t k = 0; k < width; k++) { /* even elements, then odd ones, of each 32 */
            int64_t at = b->bits == 4 ? k / 32 * 32 + k % 32 / 2 + 16 * (k % 2) : k;
            to[at] = k < b->k ? b->input[m * b->k + k] : 0;
        }
    td_parallel(call->threads, b->n, 1 + 20000 / (1 + b->k * b->m), columns, &w);
}
