/* The pointwise operators in FP32 lanes: rows for FP32, and rows that read and write any mixture of
 * FP32, BF16 and FP16 and compute in FP32. A unit is one vector. */
#define TD_REAL_BITS 32
#include "kernels/formulas.h"
#include "kernels/pointwise/pointwise.h"

/* Formulas of whole numbers alone stand in for none here. */
#pragma GCC diagnostic ignored "-Wunused-variable"

/* An operand's next vector, whatever it is stored as. The branch is the same for the whole row. */
TD_INLINE V load(const void *p, int64_t i, enum td_dtype from)
{
    td_vh h;
    if (from == TD_f32)
        return L_load((const float *)p + i);
    memcpy(&h, (const uint16_t *)p + i, sizeof h);
    return from == TD_bf16 ? td_widen_bf16(h) : td_widen_f16(h);
}

TD_INLINE void store(void *p, int64_t i, enum td_dtype to, V v)
{
    td_vh h = to == TD_bf16 ? td_narrow_bf16(v) : td_narrow_f16(v);
    memcpy((uint16_t *)p + i, &h, sizeof h);
}

TD_INLINE void store_truth(void *p, int64_t i, VM m)
{
#ifdef TD_LANES_512
    _mm_storeu_si128((__m128i *)((char *)p + i), _mm_maskz_set1_epi8(m, 1));
#else
    typedef uint8_t bytes __attribute__((vector_size(TD_LANES)));
    bytes b = __builtin_convertvector((VU)m & 1, bytes);
    memcpy((char *)p + i, &b, sizeof b);
#endif
}

#define IN_1(get) V a = get(0);
#define IN_2(get) V a = get(0), b = get(1);
#define IN_3(get) V a = get(0), b = get(1), c = get(2);
#define AS_F32(k) L_load((const float *)in[k] + i)
#define AS_ANY(k) load(in[k], i, args->from[k])
#define OUT_F32_same(v) L_store((float *)out + i, v)
#define OUT_ANY_same(v) store(out, i, args->type, v)
#define OUT_F32_pick OUT_F32_same
#define OUT_F32_ratio OUT_F32_same
#define OUT_ANY_pick OUT_ANY_same
#define OUT_ANY_ratio OUT_ANY_same
#define OUT_F32_truth(m) store_truth(out, i, m)
#define OUT_ANY_truth(m) store_truth(out, i, m)

#define PARAMS                                                                                     \
    V p = L_c((float)args->real[0]), q = L_c((float)args->real[1]), r = L_c((float)args->real[2]); \
    (void)p, (void)q, (void)r;

#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    static void id##_f32(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        PARAMS                                                                                     \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            IN_##operands(AS_F32) OUT_F32_##result(lanes);                                         \
        }                                                                                          \
    }                                                                                              \
    static void id##_any(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        PARAMS                                                                                     \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            IN_##operands(AS_ANY) OUT_ANY_##result(lanes);                                         \
        }                                                                                          \
    }
#include "kernels/pointwise/pointwise.def"

static td_point_row *const rows[TD_POINTS][2] = {
#define TD_POINT(id, ...) {id##_f32, id##_any},
#include "kernels/pointwise/pointwise.def"
};

td_point_row *TD_NAME(point_row)(enum td_point point)
{
    return rows[point][0];
}

TD_KERNEL(pointwise_f32)
{
    td_pointwise(call, rows[td_point_of(call)][td_point_type(call) != TD_f32], L_LANES);
}
