/* The activation behind a library's product, in the result's place: the library's own fused ones
 * make 0 of NaN or NaN of an infinity. Built once, for the lowest level: it is little beside the
 * product. FP16 and BF16 are rounded twice, before and behind it. */
#include "kernels/act_vec.h"
#include "kernels/gemm/gemm.h"
#include "kernels/half.h"

#define RUN 256 /* a multiple of any level's lanes */

static void load(float *x, const struct td_tensor *t, int64_t at, int64_t n)
{
    const uint16_t *half = (const uint16_t *)t->data + at;
    for (int64_t i = 0; i < n; i++)
        x[i] = t->dtype == TD_bf16 ? td_bf16_to_f32(half[i]) : td_f16_to_f32(half[i]);
}

static void store(const float *x, const struct td_tensor *t, int64_t at, int64_t n)
{
    uint16_t *half = (uint16_t *)t->data + at;
    for (int64_t i = 0; i < n; i++)
        half[i] = t->dtype == TD_bf16 ? td_f32_to_bf16(x[i]) : td_f32_to_f16(x[i]);
}

static void some(void *arg, int64_t begin, int64_t end)
{
    const struct td_gemm *g = arg;
    float room[RUN];
    for (int64_t at = begin; at < end; at += RUN) {
        int64_t n = end - at < RUN ? end - at : RUN;
        bool half = g->out->dtype != TD_f32;
        float *x = half ? room : (float *)g->out->data + at;
        if (half)
            load(x, g->out, at, n);
        for (int64_t i = 0; i < n; i += TD_LANES)
            td_store_next(x + i, n - i, td_act_vec(&g->act, td_load_next(x + i, n - i, 0)));
        if (half)
            store(x, g->out, at, n);
    }
}

void TD_NAME(gemm_activate)(const struct td_gemm *g)
{
    struct td_gemm copy = *g;
    td_parallel(g->threads, td_numel(g->out), 16384, some, &copy);
}
