/* A quantized b (struct td_gemm_quantized): panels of its numbers, and FP32 of them where rows of a
 * meet one. */
#ifndef TD_KERNELS_GEMM_QUANTIZED_H
#define TD_KERNELS_GEMM_QUANTIZED_H

#include "kernels/gemm/gemm_rect.h"

/* k rows of b's numbers, from row p and column j on, as a panel of TD_NR columns, 0 beyond n. */
static void td_gemm_numbers(const struct td_gemm *g, int64_t p, int64_t k, int64_t j, int8_t *to)
{
    int64_t cols = g->n - j < TD_NR ? g->n - j : TD_NR;
    if (cols < TD_NR)
        memset(to, 0, (size_t)(k * TD_NR));
    g->quantized->numbers(g, p, k, j, cols, to, TD_NR);
}

/* td_weight_fill: the same of all panels. */
static int td_gemm_fill_numbers(void *packed, const struct td_tensor *plain, void *arg)
{
    const struct td_gemm *g = arg;
    int8_t *to = packed;
    (void)plain; /* is b */
    for (int64_t j = 0; j < g->n; j += TD_NR, to += g->k * TD_NR)
        td_gemm_numbers(g, 0, g->k, j, to);
    return 0;
}

/* In one instruction where the level has it; a compiler left alone goes by elements. */
TD_INLINE td_vf td_gemm_load_i8(const int8_t *p)
{
#if defined __AVX512F__
    __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    return (td_vf)_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(x));
#elif TD_VBYTES == 32
    __m128i x = _mm_loadl_epi64((const __m128i *)(const void *)p);
    return (td_vf)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(x));
#else
    td_vf v;
    for (int i = 0; i < TD_LANES; i++)
        v[i] = (float)p[i];
    return v;
#endif
}

struct td_scales { /* of a panel's columns, for one block */
    td_vf scale[2], zero[2];
};

static struct td_scales td_gemm_scales(const struct td_gemm *g, int64_t at, int64_t j)
{
    float scale[TD_NR] = {0}, zero[TD_NR] = {0};
    struct td_scales s;
    g->quantized->scales(g, at, j, g->n - j < TD_NR ? g->n - j : TD_NR, scale, zero);
    for (int v = 0; v < 2; v++) {
        s.scale[v] = td_load(scale + v * TD_LANES);
        s.zero[v] = td_load(zero + v * TD_LANES);
    }
    return s;
}

/* k rows of a panel's numbers as FP32. */
TD_INLINE void td_panel_scale(const int8_t *from, int64_t k, const struct td_scales *s,
                              const bool zeros, float *to)
{
    for (int64_t i = 0; i < k * TD_NR; i += TD_NR)
#pragma GCC unroll 2
        for (int v = 0; v < 2; v++) {
            td_vf x = td_gemm_load_i8(from + i + v * TD_LANES);
            td_store(to + i + v * TD_LANES, (zeros ? x - s->zero[v] : x) * s->scale[v]);
        }
}

/* k rows of a panel in FP32, from row p and the rectangle's column j on. */
static void td_rect_scale(const struct td_rect *r, int64_t p, int64_t k, int64_t j, float *to)
{
    const struct td_gemm *g = r->g;
    int8_t few[TD_GEMM_DEPTH * TD_NR];
    const int8_t *from = few;
    if (r->numbers)
        from = r->numbers + (r->j + j) * g->k + p * TD_NR;
    else
        td_gemm_numbers(g, p, k, r->j + j, few);
    for (int64_t i = 0; i < k * TD_NR && r->numbers; i += 64) /* the panel that follows */
        __builtin_prefetch(from + g->k * TD_NR + i, 0, 2);
    for (int64_t last = p + k, n; p < last; p += n, from += n * TD_NR, to += n * TD_NR) {
        int64_t block = p / g->block;
        struct td_scales s = td_gemm_scales(g, block, r->j + j);
        n = (block + 1) * g->block < last ? (block + 1) * g->block - p : last - p;
        if (g->quantized->has_zeros)
            td_panel_scale(from, n, &s, true, to);
        else
            td_panel_scale(from, n, &s, false, to);
    }
}

#endif
