/* kernels/cast: every row that runs here gives the bits that half.h says: for all BF16 and FP16
 * numbers, and for FP32 numbers of every exponent, at both sides of every rounding boundary. */
#include "kernels/elementwise.h"
#include "kernels/half.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <math.h>
#include <stdlib.h>

#define N (1 << 20)
extern const struct td_op td_op_cast;

/* False when the row does not take such a call. */
static bool cast(const struct td_impl *impl, const void *in, enum td_dtype from, void *out,
                 enum td_dtype to, int64_t n)
{
    struct td_tensor tensor = {.data = (void *)in, .dtype = from, .rank = 1, .shape = {n}};
    struct td_value arg[2] = {{.kind = TD_KIND_tensor, .tensor = tensor},
                              {.kind = TD_KIND_dtype, .dtype = to}};
    struct td_tensor result[TD_MAX_OUTS] = {{0}};
    struct td_call call = {.op = &td_op_cast, .n_args = 2, .arg = arg, .out = result, .threads = 1};
    ck_assert_int_eq(td_op_cast.rule(&call), 0);
    if (!(impl->dtypes & from) || !sample_takes(impl, &call))
        return false;
    call.out[0].data = out;
    sample_run(impl, &call);
    return true;
}

static void check_widen(const struct td_impl *impl, enum td_dtype from, float (*one)(uint16_t))
{
    uint16_t *in = malloc(65536 * sizeof *in);
    float *out = malloc(65536 * sizeof *out);
    for (int i = 0; i < 65536; i++)
        in[i] = (uint16_t)i;
    bool took = cast(impl, in, from, out, TD_f32, 65536);
    for (int i = 0; i < 65536 && took; i++)
        if (td_f32_bits(out[i]) != td_f32_bits(one(in[i])))
            ck_abort_msg("%s@%s, %s 0x%04x: 0x%08x", impl->name, td_isa_name(impl->isa),
                         td_dtype_name(from), in[i], td_f32_bits(out[i]));
    free(in);
    free(out);
}

/* The upper 20 bits run through all their values; below come patterns around half a unit of either
 * type. */
static void check_narrow(const struct td_impl *impl, enum td_dtype to, uint16_t (*one)(float))
{
    static const uint32_t low[] = {0, 1, 0x7ff, 0x800, 0x801, 0xfff};
    float *in = malloc(N * sizeof *in);
    uint16_t *out = malloc(N * sizeof *out);
    for (size_t k = 0; k < sizeof low / sizeof *low; k++) {
        for (uint32_t i = 0; i < N; i++)
            in[i] = td_bits_f32(i << 12 | low[k]);
        bool took = cast(impl, in, TD_f32, out, to, N);
        for (int i = 0; i < N && took; i++)
            if (out[i] != one(in[i]))
                ck_abort_msg("%s@%s, %s of 0x%08x: 0x%04x, not 0x%04x", impl->name,
                             td_isa_name(impl->isa), td_dtype_name(to), td_f32_bits(in[i]), out[i],
                             one(in[i]));
    }
    free(in);
    free(out);
}

/* ISA-32: one contract for all levels; every value of the short types, every exponent and rounding
 * boundary of the long one, NaN of both kinds and signs, denormals, both zeros. */
START_TEST(test_bits)
{
    char why[100];
    for (const struct td_impl *impl = td_op_cast.impls; impl->run; impl++)
        if (sample_runnable(impl, why)) {
            check_widen(impl, TD_bf16, td_bf16_to_f32);
            check_widen(impl, TD_f16, td_f16_to_f32);
            check_narrow(impl, TD_bf16, td_f32_to_bf16);
            check_narrow(impl, TD_f16, td_f32_to_f16);
        }
}
END_TEST

/* ISA-31, ISA-27: lengths around whole vectors, with nothing written beside them, at every level of
 * the one source: the hardware's conversion inside the block of AVX512, and what is below. */
START_TEST(test_lengths)
{
    enum { MOST = 80, GUARD = 0x5aa5 };
    float in[MOST];
    uint16_t out[MOST + 2];
    char why[100];
    for (int i = 0; i < MOST; i++)
        in[i] = (float)i * 1.001f - 20;
    for (const struct td_impl *impl = td_op_cast.impls; impl->run; impl++) {
        if (!sample_runnable(impl, why))
            continue;
        for (int n = 0; n <= MOST; n++) {
            for (int i = 0; i < MOST + 2; i++)
                out[i] = GUARD;
            ck_assert(cast(impl, in, TD_f32, out + 1, TD_bf16, n));
            for (int i = 0; i < MOST + 2; i++)
                ck_assert_uint_eq(out[i], i >= 1 && i <= n ? td_f32_to_bf16(in[i - 1]) : GUARD);
        }
    }
}
END_TEST

/* ISA-32: half.h itself, against values written down from IEEE 754. */
START_TEST(test_known)
{
    static const struct {
        uint32_t f32;
        uint16_t f16, bf16;
    } known[] = {
        {0x3f800000, 0x3c00, 0x3f80}, /* 1 */
        {0xc0490fdb, 0xc248, 0xc049}, /* -pi */
        {0x477fe000, 0x7bff, 0x4780}, /* 65504, FP16's greatest */
        {0x477fefff, 0x7bff, 0x4780}, /* just below 65520 */
        {0x477ff000, 0x7c00, 0x4780}, /* 65520 is infinite */
        {0x33800000, 0x0001, 0x3380}, /* 2^-24, FP16's least */
        {0x33000000, 0x0000, 0x3300}, /* 2^-25: a tie, to even */
        {0x33000001, 0x0001, 0x3300}, /* just above */
        {0x3f804000, 0x3c02, 0x3f80}, /* 1 + 2^-9: exact in FP16, below half in BF16 */
        {0x3f808000, 0x3c04, 0x3f80}, /* 1 + 2^-8: BF16's tie, to even */
        {0x3f818000, 0x3c0c, 0x3f82}, /* 1 + 3 * 2^-8: its tie, to even upwards */
        {0x7f7fffff, 0x7c00, 0x7f80}, /* FP32's greatest */
        {0x00000001, 0x0000, 0x0000}, /* its least */
        {0x00018000, 0x0000, 0x0002}, /* a denormal of BF16, a tie */
        {0x80000000, 0x8000, 0x8000}, /* -0 */
        {0xff800000, 0xfc00, 0xff80}, /* -inf */
        {0x7f800001, 0x7e00, 0x7fc0}, /* a signalling NaN becomes quiet */
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        ck_assert_uint_eq(td_f32_to_f16(td_bits_f32(known[i].f32)), known[i].f16);
        ck_assert_uint_eq(td_f32_to_bf16(td_bits_f32(known[i].f32)), known[i].bf16);
    }
}
END_TEST

/* The nearest number of a type of so many digits (FP16 within its range), by long doubles, which
 * hold an INT64. */
static long double nearest(long double x, int digits)
{
    int e = 0;
    if (x == 0)
        return x;
    frexpl(x, &e);
    return ldexpl(rintl(ldexpl(x, digits - e)), e - digits);
}

static void check_rounding(const struct td_impl *impl, const void *in, enum td_dtype from,
                           enum td_dtype to, long double right)
{
    enum { MANY = 17 }; /* a vector of the widest and one */
    size_t size = td_dtype_size(from);
    uint64_t many[MANY], out[MANY];
    struct td_tensor t = {.data = out, .dtype = to};
    for (size_t i = 0; i < MANY; i++)
        memcpy((char *)many + i * size, in, size);
    if (cast(impl, many, from, out, to, MANY))
        for (int64_t i = 0; i < MANY; i++)
            ck_assert_ldouble_eq((long double)td_get_real(&t, i), right);
}

/* One rounding and not two: numbers just beside the middle between two of the result's type, which
 * a type in between would take for the middle. */
static void check_one_rounding(const struct td_impl *impl)
{
    static const struct {
        enum td_dtype dtype;
        int digits, shift; /* the number's leading bits come to lie there */
    } types[] = {{TD_f32, 24, 60}, {TD_f64, 53, 62}, {TD_bf16, 8, 60}, {TD_bf16, 8, 53},
                 {TD_bf16, 8, 30}, {TD_bf16, 8, 24}, {TD_f16, 11, 15}, {TD_f16, 11, 14}};
    for (size_t k = 0; k < sizeof types / sizeof *types; k++)
        for (int64_t n = 0; n < 64; n++)
            for (int beside = -1; beside <= 1; beside++) {
                enum td_dtype to = types[k].dtype;
                int digits = types[k].digits, shift = types[k].shift;
                int64_t lead = (INT64_C(1) << (digits - 1)) + n;
                int64_t whole =
                    (lead << (shift - digits + 1)) + (INT64_C(1) << (shift - digits)) + beside;
                whole = n & 1 ? -whole : whole;
                int32_t small = (int32_t)whole;
                double real = (double)whole + (shift < 50 ? beside * 0x1p-12 : 0);
                long double right = nearest((long double)whole, digits);
                check_rounding(impl, &whole, TD_i64, to, right);
                if (small == whole)
                    check_rounding(impl, &small, TD_i32, to, right);
                check_rounding(impl, &real, TD_f64, to, nearest((long double)real, digits));
            }
}

START_TEST(test_one_rounding)
{
    char why[100];
    for (const struct td_impl *impl = td_op_cast.impls; impl->run; impl++)
        if (sample_runnable(impl, why))
            check_one_rounding(impl);
}
END_TEST

/* Every pair of types, on numbers at both sides of what the types hold, and lengths around tiles:
 * each row has the reference's bits. */
START_TEST(test_all_pairs)
{
    enum { MOST = 1100 };
    static const double edges[] = {0,       0.5,    1,     127,   128,    255,      256,
                                   32767.5, 32768,  65504, 65520, 0x1p31, 0x1p32,   0x1p53,
                                   0x1p63,  0x1p64, 1e30,  1e-40, 1e300,  INFINITY, NAN};
    static const int lengths[] = {1, 15, 17, 511, 512, 513, MOST};
    static uint64_t in[MOST], want[MOST], got[MOST];
    const struct td_impl *ref = td_op_cast.impls;
    char why[100];
    while (ref[1].run)
        ref++;
    for (int pair = 0; pair < TD_DTYPES * TD_DTYPES; pair++) {
        enum td_dtype from = 1 << pair / TD_DTYPES, to = 1 << pair % TD_DTYPES;
        struct td_tensor t = {.data = in, .dtype = from};
        for (int far = 0; far < 2; far++) {
            for (int i = 0; i < MOST; i++) {
                double x = edges[(size_t)i % (sizeof edges / sizeof *edges)] + i / 21 * 1.75;
                x = far ? x : (i - 500) * 0.37;
                td_put_real(&t, i, i & 1 ? -x : x);
            }
            for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
                memset(want, 0x5a, sizeof want);
                cast(ref, in, from, want, to, lengths[k]);
                for (const struct td_impl *impl = td_op_cast.impls; impl < ref; impl++) {
                    memset(got, 0x5a, sizeof got);
                    if (sample_runnable(impl, why) && cast(impl, in, from, got, to, lengths[k]) &&
                        memcmp(got, want, sizeof got))
                        ck_abort_msg("%s@%s, %d of %s to %s", impl->name, td_isa_name(impl->isa),
                                     lengths[k], td_dtype_name(from), td_dtype_name(to));
                }
            }
        }
    }
}
END_TEST

int main(void)
{
    sample_start();
    Suite *suite = suite_create("cast");
    TCase *tc = tcase_create("cast");
    tcase_add_test(tc, test_bits);
    tcase_add_test(tc, test_lengths);
    tcase_add_test(tc, test_known);
    tcase_add_test(tc, test_one_rounding);
    tcase_add_test(tc, test_all_pairs);
    tcase_set_timeout(tc, 60);
    suite_add_tcase(suite, tc);
    return td_run_suite(suite);
}
