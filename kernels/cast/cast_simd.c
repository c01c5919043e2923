/* Conversion between all pairs of types, vector form: bit for bit what half.h and the reference
 * say, at every level. Numbers of native types go through plain loops, which the compiler turns
 * into the level's vectors; BF16 and FP16 as FP32 through a small tile, which a source with more
 * digits enters rounded to odd, so that the result is rounded once, or straight where that is
 * short. FP16 by the conversion instruction from AVX2 on, which follows the same rules; before, and
 * for BF16 below AVX512_BF16, in integers. That level's own instruction flushes denormals, so that
 * a vector which holds one is done in integers there too. */
#include "kernels/cast/cast.h"
#include "kernels/lines.h"
#include "kernels/pointwise/pointwise.h"

#define TILE 512 /* elements */
typedef uint16_t half;

/* ---- FP32 and the half types ---- */

static td_vh f32_to_bf16(td_vf x)
{
#ifdef __AVX512BF16__
    enum { DENORMAL = 0x20 };
    if (__builtin_expect(!_mm512_fpclass_ps_mask((__m512)x, DENORMAL), 1))
        return (td_vh)_mm512_cvtneps_pbh((__m512)x);
#endif
    return td_narrow_bf16(x);
}

TD_INLINE void narrow(int64_t n, half *y, const float *x, td_vh (*f)(td_vf))
{
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h = f(td_load(x + i));
        memcpy(y + i, &h, sizeof h);
    }
    if (i < n) {
        td_vh h = f(td_load_n(x + i, n - i, 0));
        td_copy_few(y + i, &h, n - i, sizeof *y);
    }
}

/* ---- native types ---- */

typedef uint8_t t_truth;
typedef uint8_t t_u8;
typedef int8_t t_i8;
typedef int16_t t_i16;
typedef int32_t t_i32;
typedef int64_t t_i64;
typedef uint16_t t_u16;
typedef uint32_t t_u32;
typedef float t_f32;
typedef double t_f64;

#define GET_truth(x) ((x) != 0)
#define GET_u8(x) (x)
#define GET_i8(x) (x)
#define GET_i16(x) (x)
#define GET_i32(x) (x)
#define GET_i64(x) (x)
#define GET_u16(x) (x)
#define GET_u32(x) (x)
#define GET_f32(x) (x)
#define GET_f64(x) (x)
#define PUT_truth(x) ((x) != 0)
#define PUT_i8(x) ((int8_t)(x))
#define PUT_i16(x) ((int16_t)(x))
#define PUT_i32(x) ((int32_t)(x))
#define PUT_i64(x) ((int64_t)(x))
#define PUT_f32(x) ((float)(x))
#define PUT_f64(x) ((double)(x))

static inline int64_t real_to_whole(double x)
{
    return x >= 0x1p63 ? INT64_MAX : x >= -0x1p63 ? (int64_t)x : INT64_MIN;
}

#define LOOP(from, to)                                                                             \
    static void from##_to_##to(int64_t n, void *out, const void *in)                               \
    {                                                                                              \
        const t_##from *x = in;                                                                    \
        t_##to *y = out;                                                                           \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = PUT_##to(GET_##from(x[i]));                                                     \
    }
/* From 2^31 on, or NaN: told by the bits, since a comparison of numbers may trap, and is a branch.
 */
#define FAR_f32(x) ((td_f32_bits(x) & 0x7fffffff) >= 0x4f000000)
#define FAR_f64(x) ((f64_bits(x) & INT64_MAX) >= INT64_C(0x41e0000000000000))

TD_INLINE int64_t f64_bits(double x)
{
    int64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Of real numbers that all fit an INT32 the conversion has an instruction at every level. */
#define WHOLE_LOOP(from, to)                                                                       \
    static void from##_to_##to(int64_t n, void *out, const void *in)                               \
    {                                                                                              \
        const t_##from *x = in;                                                                    \
        t_##to *y = out;                                                                           \
        int far = 0;                                                                               \
        for (int64_t i = 0; i < n; i++)                                                            \
            far |= FAR_##from(x[i]);                                                               \
        if (far)                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = PUT_##to(real_to_whole((double)x[i]));                                      \
        else                                                                                       \
            for (int64_t i = 0; i < n; i++)                                                        \
                y[i] = PUT_##to((int32_t)x[i]);                                                    \
    }
#define LOOPS_OF_WHOLE(from, TO_REAL)                                                              \
    LOOP(from, truth)                                                                              \
    LOOP(from, i8)                                                                                 \
    LOOP(from, i16) LOOP(from, i32) LOOP(from, i64) TO_REAL(from, f32) TO_REAL(from, f64)
#define LOOPS_OF_REAL(from)                                                                        \
    LOOP(from, truth)                                                                              \
    WHOLE_LOOP(from, i8)                                                                           \
    WHOLE_LOOP(from, i16)                                                                          \
    WHOLE_LOOP(from, i32) WHOLE_LOOP(from, i64) LOOP(from, f32) LOOP(from, f64)

/* INT64 that all fit an INT32, as most do, have an instruction before AVX512DQ, too. */
static bool is_near(const int64_t *x, int64_t n)
{
    uint64_t far = 0;
    for (int64_t i = 0; i < n; i++)
        far |= ((uint64_t)x[i] + (UINT64_C(1) << 31)) >> 32;
    return !far && TD_VBYTES < 64;
}

#define NEAR_LOOP(from, to)                                                                        \
    static void from##_to_##to(int64_t n, void *out, const void *in)                               \
    {                                                                                              \
        const int64_t *x = in;                                                                     \
        t_##to *y = out;                                                                           \
        bool near = is_near(x, n);                                                                 \
        for (int64_t i = 0; near && i < n; i++)                                                    \
            y[i] = PUT_##to((int32_t)x[i]);                                                        \
        for (int64_t i = 0; !near && i < n; i++)                                                   \
            y[i] = PUT_##to(x[i]);                                                                 \
    }

LOOPS_OF_WHOLE(truth, LOOP)
LOOPS_OF_WHOLE(u8, LOOP)
LOOPS_OF_WHOLE(i8, LOOP)
LOOPS_OF_WHOLE(i16, LOOP)
LOOPS_OF_WHOLE(i32, LOOP)
LOOPS_OF_WHOLE(i64, NEAR_LOOP)
LOOPS_OF_REAL(f32)
LOOPS_OF_REAL(f64)
LOOP(u16, i32)
LOOP(u32, i64)

/* ---- FP32 rounded to odd: cut off, then 1 in the last place where that took anything ---- */

static void f64_to_odd(int64_t n, void *out, const void *in)
{
    td_line_to_odd(out, in, n);
}

/* Whole numbers that have more digits than the real type are made odd before. */
static void i32_to_odd(int64_t n, void *out, const void *in)
{
    const int32_t *x = in;
    float *y = out;
    for (int64_t i = 0; i < n; i++) {
        uint32_t more = (uint32_t)x[i] + 0x1000000 > 0x2000000 ? 0xff : 0;
        uint32_t kept = (uint32_t)x[i] & ~more, lost = (uint32_t)x[i] & more;
        y[i] = (float)(int32_t)(kept | ((lost + more) & 0x100));
    }
}

static void i64_to_odd(int64_t n, void *out, const void *in)
{
    const int64_t *x = in;
    double wide[TILE];
    int32_t near[TILE];
    if (is_near(x, n)) {
        i64_to_i32(n, near, in);
        return i32_to_odd(n, out, near);
    }
    for (int64_t i = 0; i < n; i++) {
        uint64_t more = (uint64_t)x[i] + (UINT64_C(1) << 53) > UINT64_C(1) << 54 ? 0xfff : 0;
        uint64_t kept = (uint64_t)x[i] & ~more, lost = (uint64_t)x[i] & more;
        wide[i] = (double)(int64_t)(kept | ((lost + more) & 0x1000));
    }
    f64_to_odd(n, out, wide);
}

/* To each native type in the order of dtype.def, and to FP32 on the way to a half type. */
#define TO_ALL(from, odd, ...)                                                                     \
    {                                                                                              \
        from##_to_truth, from##_to_i8, from##_to_i8, from##_to_i16, from##_to_i32, from##_to_i64,  \
            odd, odd, from##_to_f32, from##_to_f64, __VA_ARGS__                                    \
    }
static td_convert_run *const loops[TD_DTYPES][TD_DTYPES] = {
    [TD_DTYPE_INDEX_bool] = TO_ALL(truth, truth_to_f32),
    [TD_DTYPE_INDEX_u8] = TO_ALL(u8, u8_to_f32),
    [TD_DTYPE_INDEX_i8] = TO_ALL(i8, i8_to_f32),
    [TD_DTYPE_INDEX_i16] = TO_ALL(i16, i16_to_f32),
    [TD_DTYPE_INDEX_i32] = TO_ALL(i32, i32_to_odd),
    [TD_DTYPE_INDEX_i64] = TO_ALL(i64, i64_to_odd),
    [TD_DTYPE_INDEX_f32] = TO_ALL(f32, NULL, [TD_DTYPE_INDEX_u64] = td_f32_to_u64_run),
    [TD_DTYPE_INDEX_f64] = TO_ALL(f64, f64_to_odd, [TD_DTYPE_INDEX_u64] = td_f64_to_u64_run),
    [TD_DTYPE_INDEX_u16] = {[TD_DTYPE_INDEX_i32] = u16_to_i32},
    [TD_DTYPE_INDEX_u32] = {[TD_DTYPE_INDEX_i64] = u32_to_i64},
    [TD_DTYPE_INDEX_u64] = {[TD_DTYPE_INDEX_f16] = td_u64_to_short_run,
                            [TD_DTYPE_INDEX_bf16] = td_u64_to_short_run,
                            [TD_DTYPE_INDEX_f32] = td_u64_to_f32_run,
                            [TD_DTYPE_INDEX_f64] = td_u64_to_f64_run},
};

/* ---- from and to halves without a tile between ---- */

#define HALF (TD_bf16 | TD_f16)
#define MAGNITUDE 0x7fff

static void half_to_truth(int64_t n, uint8_t *y, const half *x)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = (x[i] & MAGNITUDE) != 0;
}

static void truth_to_half(int64_t n, half *y, const uint8_t *x, half one)
{
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] ? one : 0;
}

/* Each of these takes whole vectors, and says how many elements that were. */
TD_INLINE int64_t half_to_half(int64_t n, half *y, const half *x, td_vf (*f)(td_vh),
                               td_vh (*g)(td_vf))
{
    int64_t i = 0;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h;
        memcpy(&h, x + i, sizeof h);
        h = g(f(h));
        memcpy(y + i, &h, sizeof h);
    }
    return i;
}

/* None where one's magnitude is far or more, which may not fit. */
TD_INLINE int64_t half_to_i32(int64_t n, int32_t *y, const half *x, td_vf (*f)(td_vh), half far)
{
    int beyond = 0;
    for (int64_t i = 0; i < n; i++)
        beyond |= (x[i] & MAGNITUDE) >= far;
    int64_t i = beyond ? n : 0;
    for (; i + TD_LANES <= n; i += TD_LANES) {
        td_vh h;
        memcpy(&h, x + i, sizeof h);
        td_vi v = __builtin_convertvector(f(h), td_vi);
        memcpy(y + i, &v, sizeof v);
    }
    return beyond ? 0 : i;
}

#ifdef __AVX512DQ__
/* FP32 rounded to odd in a register. */
#define CUT (_MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC)
#define CUT_TWICE(x) (td_vf) _mm512_insertf32x8(_mm512_castps256_ps512(x(0)), x(8), 1)
#define CUT_F64(k) cut_f64(_mm512_loadu_pd((const double *)x + i + k))
#define CUT_I64(k) cut_i64(_mm512_loadu_si512((const int64_t *)x + i + k))
#define CUT_I32 cut_i32(_mm512_loadu_si512((const int32_t *)x + i))

TD_INLINE __m256 cut_f64(__m512d x)
{
    __m256 cut = _mm512_cvt_roundpd_ps(x, CUT);
    __mmask8 lost = _mm512_cmp_pd_mask(_mm512_cvtps_pd(cut), x, _CMP_NEQ_OQ);
    return _mm256_mask_or_ps(cut, lost, cut, (__m256)_mm256_set1_epi32(1));
}

TD_INLINE __m256 cut_i64(__m512i x)
{
    __m256 cut = _mm512_cvt_roundepi64_ps(x, CUT);
    __mmask8 lost = _mm512_cmpneq_epi64_mask(_mm512_cvttps_epi64(cut), x);
    return _mm256_mask_or_ps(cut, lost, cut, (__m256)_mm256_set1_epi32(1));
}

TD_INLINE td_vf cut_i32(__m512i x)
{
    __m512 cut = _mm512_cvt_roundepi32_ps(x, CUT);
    __mmask16 lost = _mm512_cmpneq_epi32_mask(_mm512_cvttps_epi32(cut), x);
    return (td_vf)_mm512_mask_or_ps(cut, lost, cut, (__m512)_mm512_set1_epi32(1));
}

#define CUT_LOOP(cut)                                                                              \
    for (; i + TD_LANES <= n; i += TD_LANES) {                                                     \
        td_vh h = f(cut);                                                                          \
        memcpy(y + i, &h, sizeof h);                                                               \
    }
TD_INLINE int64_t cut_to_half(int64_t n, half *y, const void *x, enum td_dtype from,
                              td_vh (*f)(td_vf))
{
    int64_t i = 0;
    if (from == TD_i32)
        CUT_LOOP(CUT_I32)
    else if (from == TD_i64)
        CUT_LOOP(CUT_TWICE(CUT_I64))
    else
        CUT_LOOP(CUT_TWICE(CUT_F64))
    return i;
}
#endif

/* How many elements were converted; 0 where that is not done here. */
static int64_t straight(int64_t n, void *out, enum td_dtype to, const void *in, enum td_dtype from)
{
    if (from == TD_bool && to & HALF)
        return truth_to_half(n, out, in, to == TD_bf16 ? 0x3f80 : 0x3c00), n;
#ifdef __AVX512DQ__
    if (from & (TD_f64 | TD_i64 | TD_i32) && to & HALF)
        return to == TD_f16 ? cut_to_half(n, out, in, from, td_narrow_f16)
                            : cut_to_half(n, out, in, from, f32_to_bf16);
#endif
    if (!(from & HALF))
        return 0;
    if (to == TD_bool)
        return half_to_truth(n, out, in), n;
    if (to & HALF)
        return to == TD_f16 ? half_to_half(n, out, in, td_widen_bf16, td_narrow_f16)
                            : half_to_half(n, out, in, td_widen_f16, f32_to_bf16);
    if (to != TD_i32)
        return 0;
    return from == TD_bf16 ? half_to_i32(n, out, in, td_widen_bf16, 0x4f00)
                           : half_to_i32(n, out, in, td_widen_f16, 0x7c00);
}

/* ---- all of them ---- */

static void convert_tile(int64_t n, void *out, enum td_dtype to, const void *in, enum td_dtype from)
{
    float wide[TILE], odd[TILE];
    int64_t whole[TILE];
    if (from & HALF) {
        float *y = to == TD_f32 ? out : wide;
        td_line_widen(y, in, n, from);
        if (to == TD_f32)
            return;
        in = wide;
        from = TD_f32;
    }
    if (from & (TD_u16 | TD_u32)) {
        enum td_dtype wider = from == TD_u16 ? TD_i32 : TD_i64;
        loops[__builtin_ctz(from)][__builtin_ctz(wider)](n, whole, in);
        in = whole;
        from = wider;
    }
    if (!loops[__builtin_ctz(from)][__builtin_ctz(to)] && !(from == TD_f32 && to & HALF)) {
        from = td_dtype_signed(from); /* the bits are the same */
        to = td_dtype_signed(to);
    }
    td_convert_run *run = loops[__builtin_ctz(from)][__builtin_ctz(to)];
    if (!(to & HALF)) {
        run(n, out, in);
        return;
    }
    if (run) {
        run(n, odd, in);
        in = odd;
    }
    if (to == TD_bf16)
        narrow(n, out, in, f32_to_bf16);
    else
        narrow(n, out, in, td_narrow_f16);
}

td_convert TD_NAME(convert);
void TD_NAME(convert)(int64_t n, void *out, enum td_dtype to, const void *in, enum td_dtype from)
{
    size_t size_to = td_dtype_size(to), size_from = td_dtype_size(from);
    if (from == to) {
        if (out != in)
            memmove(out, in, (size_t)n * size_to);
        return;
    }
    for (int64_t i = 0; i < n; i += TILE) {
        int64_t left = n - i < TILE ? n - i : TILE;
        char *y = (char *)out + (size_t)i * size_to;
        const char *x = (const char *)in + (size_t)i * size_from;
        int64_t done = straight(left, y, to, x, from);
        if (done < left)
            convert_tile(left - done, y + (size_t)done * size_to, to, x + (size_t)done * size_from,
                         from);
    }
}

static void row(const struct td_point_args *args, int64_t n, void *out, const void *const *in)
{
    TD_NAME(convert)(n, out, args->to, in[0], args->from[0]);
}

TD_KERNEL(cast)
{
    td_pointwise(call, &(struct td_point_way){row, 1, TD_POINT_TURN});
    if (call->n_out > 1) /* a mask that lets all through */
        memset(call->out[1].data, 1, td_nbytes(&call->out[1]));
}
