/* The pointwise operators in FP32 lanes: rows for FP32, and rows that read and write any mixture of
 * FP32, BF16 and FP16 and compute in FP32. A unit is one vector. */
#define TD_REAL_BITS 32
#include "kernels/formulas.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/truth.h"

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

/* Where operands lie and what they are is read once: a result could lie anywhere, for all a
 * compiler knows. */
#define FROM_1 FROM_(0)
#define FROM_2 FROM_1 FROM_(1)
#define FROM_3 FROM_2 FROM_(2)
#define FROM_(k)                                                                                   \
    const void *const in##k = in[k];                                                               \
    const enum td_dtype from##k = args->from[k];                                                   \
    (void)from##k;
#define FIRST_same(get) get(0)
#define FIRST_ratio FIRST_same
#define FIRST_truth FIRST_same
#define FIRST_pick(get) load_truth(in0, i)
#define IN_1(get, first) V a = first;
#define IN_2(get, first) V a = first, b = get(1);
#define IN_3(get, first) V a = first, b = get(1), c = get(2);
#define AS_F32(k) L_load((const float *)in##k + i)
#define AS_ANY(k) load(in##k, i, from##k)
#define OUT_F32_same(v) L_store((float *)out + i, v)
#define OUT_ANY_same(v) store(out, i, type, v)
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
        PARAMS FROM_##operands for (int64_t i = 0; i < n; i += L_LANES)                            \
        {                                                                                          \
            IN_##operands(AS_F32, FIRST_##result(AS_F32)) OUT_F32_##result(lanes);                 \
        }                                                                                          \
    }                                                                                              \
    static void id##_any(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        PARAMS FROM_##operands const enum td_dtype type = args->type;                              \
        (void)type;                                                                                \
        for (int64_t i = 0; i < n; i += L_LANES) {                                                 \
            IN_##operands(AS_ANY, FIRST_##result(AS_ANY)) OUT_ANY_##result(lanes);                 \
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
