/* The pointwise operators in FP32 lanes: rows for FP32, and rows that read and write any mixture of
 * FP32, BF16 and FP16 and compute in FP32. A unit is one vector. */
#define TD_REAL_BITS 32
#include "kernels/formulas.h"
#include "kernels/half.h"
#include "kernels/none.h"
#include "kernels/pointwise/pointwise.h"
#include "kernels/pointwise/truth.h"
#include "kernels/special.h"

/* Of a formula of whole numbers alone no row comes. */
static const V NONE;
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

/* Where operands lie is read once: a result could lie anywhere, for all a compiler knows. */
#define FROM_1 const void *const in0 = in[0];
#define FROM_2 FROM_1 const void *const in1 = in[1];
#define FROM_3 FROM_2 const void *const in2 = in[2];
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

/* What runs before a row's loop and moves i on. Of BF16 alone two vectors at a time are taken, even
 * places apart from odd ones; and what only picks halves does so as they are stored. */
#define AS_EVEN(k) td_even_bf16(td_load_pairs((const uint16_t *)in##k + i))
#define AS_ODD(k) td_odd_bf16(td_load_pairs((const uint16_t *)in##k + i))
#define AHEAD_truth(id, operands, lanes)
#define AHEAD_ratio(id, operands, lanes)
#define AHEAD_pick(id, operands, lanes)                                                            \
    if (all != TD_bool)                                                                            \
        i = pick_halves(n, out, in);
#define AHEAD_same(id, operands, lanes)                                                            \
    if (all != TD_bool && (TD_POINT_##id == TD_POINT_neg || TD_POINT_##id == TD_POINT_abs))        \
        i = sign_halves(n, out, in[0], TD_POINT_##id == TD_POINT_neg);                             \
    for (; all == TD_bf16 && i + 2 * L_LANES <= n; i += 2 * L_LANES) {                             \
        V even, odd;                                                                               \
        {                                                                                          \
            IN_##operands(AS_EVEN, AS_EVEN(0)) even = lanes;                                       \
        }                                                                                          \
        {                                                                                          \
            IN_##operands(AS_ODD, AS_ODD(0)) odd = lanes;                                          \
        }                                                                                          \
        store_pairs((uint16_t *)out + i, even, odd, EXACT(id));                                    \
    }

/* Whether the result is an operand, or 0: of BF16 it is not rounded. */
#define EXACT(id)                                                                                  \
    (TD_POINT_##id == TD_POINT_relu || TD_POINT_##id == TD_POINT_maximum ||                        \
     TD_POINT_##id == TD_POINT_minimum)

TD_INLINE void store_pairs(uint16_t *p, V even, V odd, const bool exact)
{
    td_vu pairs = (td_vu)even >> 16 | (td_vu)odd;
    if (exact)
        memcpy(p, &pairs, sizeof pairs);
    else
        td_store_bf16_pairs(p, even, odd);
}

/* The other sign, or none. */
static int64_t sign_halves(int64_t n, uint16_t *y, const uint16_t *x, bool other)
{
    uint16_t kept = other ? 0xffff : 0x7fff, turned = other ? 0x8000 : 0;
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] & kept) ^ turned;
    return n;
}

static int64_t pick_halves(int64_t n, uint16_t *y, const void *const *in)
{
    const uint8_t *truth = in[0];
    const uint16_t *a = in[1], *b = in[2];
    for (int64_t i = 0; i < n; i++)
        y[i] = (uint16_t)(b[i] ^ ((a[i] ^ b[i]) & -(truth[i] != 0)));
    return n;
}

/* A NaN without the bits that a caller's may have. */
#define PARAM(k) L_c(args->real[k] == args->real[k] ? (float)args->real[k] : NAN)
#define PARAMS                                                                                     \
    V p = PARAM(0), q = PARAM(1), r = PARAM(2);                                                    \
    (void)p, (void)q, (void)r;

/* The type of operands first to last, where that is the call's; else TD_bool. */
static enum td_dtype of_one_type(const struct td_point_args *args, int first, int operands)
{
    for (int k = first; k < operands; k++)
        if (args->from[k] != args->type)
            return TD_bool;
    return args->type;
}

#define FIRST_TYPED_same 0
#define FIRST_TYPED_ratio 0
#define FIRST_TYPED_truth 0
#define FIRST_TYPED_pick 1

/* What takes no longer than its loads has a loop without branches for halves of one type; at 16
 * bytes a vector that were more code than it is worth. */
#define CHEAP(cost) (TD_VBYTES > 16 && (cost) <= 2)
#define ALL(type) type, type, type, type, type

#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    static void id##_f32(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        PARAMS FROM_##operands for (int64_t i = 0; i < n; i += L_LANES)                            \
        {                                                                                          \
            IN_##operands(AS_F32, FIRST_##result(AS_F32)) OUT_F32_##result(lanes);                 \
        }                                                                                          \
    }                                                                                              \
    TD_INLINE void id##_of(const struct td_point_args *args, int64_t n, void *out,                 \
                           const void *const *in, enum td_dtype all, enum td_dtype type,           \
                           enum td_dtype from0, enum td_dtype from1, enum td_dtype from2)          \
    {                                                                                              \
        (void)all, (void)type, (void)from0, (void)from1, (void)from2;                              \
        PARAMS FROM_##operands int64_t i = 0;                                                      \
        AHEAD_##result(id, operands, lanes) for (; i < n; i += L_LANES)                            \
        {                                                                                          \
            IN_##operands(AS_ANY, FIRST_##result(AS_ANY)) OUT_ANY_##result(lanes);                 \
        }                                                                                          \
    }                                                                                              \
    static void id##_any(const struct td_point_args *args, int64_t n, void *out,                   \
                         const void *const *in)                                                    \
    {                                                                                              \
        enum td_dtype one = of_one_type(args, FIRST_TYPED_##result, operands);                     \
        if (CHEAP(cost) && one == TD_bf16)                                                         \
            id##_of(args, n, out, in, ALL(TD_bf16));                                               \
        else if (CHEAP(cost) && one == TD_f16)                                                     \
            id##_of(args, n, out, in, ALL(TD_f16));                                                \
        else                                                                                       \
            id##_of(args, n, out, in, TD_bool, args->type, args->from[0], args->from[1],           \
                    args->from[2]);                                                                \
    }
#include "kernels/pointwise/pointwise.def"

/* ---- halves of one type beside an operand that stays along a row ---- */

/* From i on whole pairs of vectors of BF16, for results of their type. */
#define PAIRS_truth(id, lanes)
#define PAIRS_ratio(id, lanes)
#define PAIRS_pick(id, lanes)
#define PAIRS_same(id, lanes)                                                                      \
    for (; type == TD_bf16 && i + 2 * L_LANES <= still->n; i += 2 * L_LANES) {                     \
        const td_vu pairs = td_load_pairs(x + i);                                                  \
        V even, odd;                                                                               \
        {                                                                                          \
            BOTH(td_even_bf16(pairs)) even = lanes;                                                \
        }                                                                                          \
        {                                                                                          \
            BOTH(td_odd_bf16(pairs)) odd = lanes;                                                  \
        }                                                                                          \
        store_pairs((uint16_t *)out + i, even, odd, EXACT(id));                                    \
    }
#define BOTH(moving)                                                                               \
    const V v = moving, a = side ? v : kept, b = side ? kept : v;                                  \
    (void)a, (void)b;

#define SIZE_same 2
#define SIZE_ratio 2
#define SIZE_truth 1
#define STILL_1(id, result, lanes)
#define STILL_3(id, result, lanes)
#define STILL_2(id, result, lanes)                                                                 \
    TD_INLINE void id##_beside(const struct td_point_args *args,                                   \
                               const struct td_point_still *still, char *out,                      \
                               const void *const *in, int side, enum td_dtype type)                \
    {                                                                                              \
        const uint16_t *one = in[side], *x = in[1 - side];                                         \
        PARAMS for (int64_t row = 0; row < still->rows; row++)                                     \
        {                                                                                          \
            const V kept = L_c(type == TD_bf16 ? td_bf16_to_f32(*one) : td_f16_to_f32(*one));      \
            int64_t i = 0;                                                                         \
            PAIRS_##result(id, lanes) for (; i < still->n; i += L_LANES)                           \
            {                                                                                      \
                i = i + L_LANES <= still->n ? i : still->n - L_LANES;                              \
                BOTH(load(x, i, type))                                                             \
                OUT_ANY_##result(lanes);                                                           \
            }                                                                                      \
            one += still->step[side];                                                              \
            x += still->step[1 - side];                                                            \
            out += still->n * SIZE_##result;                                                       \
        }                                                                                          \
    }                                                                                              \
    BESIDE(id, first, 0)                                                                           \
    BESIDE(id, second, 1)
#define BESIDE(id, name, side)                                                                     \
    static void id##_##name(const struct td_point_args *args, const struct td_point_still *still,  \
                            void *out, const void *const *in)                                      \
    {                                                                                              \
        if (args->type == TD_bf16)                                                                 \
            id##_beside(args, still, out, in, side, TD_bf16);                                      \
        else                                                                                       \
            id##_beside(args, still, out, in, side, TD_f16);                                       \
    }
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    STILL_##operands(id, result, lanes)
#include "kernels/pointwise/pointwise.def"

static td_point_still_rows *const still_rows[TD_POINTS][2] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    TD_POINT_STILL_##operands(id, cost, lanes),
#include "kernels/pointwise/pointwise.def"
};

/* Whether both operands are tensors of the call's type, one of 16 bits. */
static bool has_halves(const struct td_call *call)
{
    const char *operands = ((const struct td_pointwise *)call->op->family)->operands;
    enum td_dtype type = td_point_type(call);
    bool all = type == TD_bf16 || type == TD_f16;
    for (int k = 0; k < 2 && operands[k]; k++) {
        const struct td_value *v = &call->arg[operands[k] - '0'];
        all = all && v->kind == TD_KIND_tensor && v->tensor.dtype == type;
    }
    return all;
}

static td_point_row *const rows[TD_POINTS][2] = {
#define TD_POINT(id, operands, result, cost, judge, whole, lanes)                                  \
    {TD_MEANT(lanes) ? id##_f32 : NULL, TD_MEANT(lanes) ? id##_any : NULL},
#include "kernels/pointwise/pointwise.def"
};

td_point_row *TD_NAME(point_row)(enum td_point point)
{
    return rows[point][0];
}

TD_KERNEL(pointwise_f32)
{
    static td_point_still_rows *const none[2];
    enum td_point point = td_point_of(call);
    td_point_row *row = rows[point][td_point_type(call) != TD_f32];
    td_pointwise_still(call, &(struct td_point_way){row, L_LANES, TD_POINT_TURN},
                       has_halves(call) ? still_rows[point] : none);
}
