/* api/json/tensor.c and api/json/numbers.cc: the numbers of every type both ways, beside the C
 * library, and the sentences for those that are wrong. */
#include "api/json/json.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_problem problem;

static int decode(const char *text, enum td_dtype dtype, int64_t count, void *out)
{
    struct td_json_span span = {text, strlen(text)};
    *problem.text = 0;
    return td_json_decode(&span, dtype, count, out, "self", &problem);
}

static void refuses(const char *text, enum td_dtype dtype, int64_t count, const char *sentence)
{
    char out[64];
    ck_assert_int_eq(decode(text, dtype, count, out), -EINVAL);
    ck_assert_str_eq(problem.text, sentence);
}

static void encodes(const void *data, enum td_dtype dtype, int64_t n, const char *text)
{
    char out[4096];
    struct td_tensor t = {.data = (void *)data, .dtype = dtype, .rank = 1, .shape = {n}};
    size_t length = td_json_encode(&t, out);
    ck_assert_uint_le(length, td_json_data_bound(&t));
    out[length] = 0;
    ck_assert_str_eq(out, text);
}

/* ---- decoding ---- */

START_TEST(flat_nested_mixed)
{
    static const char *const same[] = {"[1,2,3,4]", "[[1,2],[3,4]]", "[[1,2],3,[[4]]]",
                                       "[[],1,[ 2 ,\n3],[[],[4]]]", " [1.0e0,20e-1,0.3E+1,4] "};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        float f[4] = {0};
        int32_t n[4] = {0};
        ck_assert_int_eq(decode(same[i], TD_f32, 4, f), 0);
        if (i < 4)
            ck_assert_int_eq(decode(same[i], TD_i32, 4, n), 0);
        for (int j = 0; j < 4; j++) {
            ck_assert(f[j] == (float)j + 1);
            ck_assert(i == 4 || n[j] == j + 1);
        }
    }
    ck_assert_int_eq(decode("[]", TD_f32, 0, NULL), 0);
    ck_assert_int_eq(decode("[[],[]]", TD_f32, 0, NULL), 0);
}
END_TEST

START_TEST(malformed_arrays)
{
    static const char *const wrong[] = {"[1,]",   "[,1]",     "[1 1]",  "[1,,1]", "[1[1]]",
                                        "[[1]1]", "[[1][1]]", "[[1],]", "[,]"};
    char out[64];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(decode(wrong[i], TD_f32, 2, out) == -EINVAL, "%s", wrong[i]);
        ck_assert_msg(strstr(problem.text, "self: data is no JSON array behind"), "%s",
                      problem.text);
    }
}
END_TEST

/* What fast_float or strtod would take and JSON does not have. */
START_TEST(malformed_numbers)
{
    static const char *const wrong[] = {
        "01",  "-",   "+1",    ".5",   "1.",    "1.e5",  "-.5", "1e",   "1e+", "nan",        "inf",
        "0x1", "-01", "1.5.5", "null", "\"1\"", "1e5.5", "--1", "-NaN", "1d0", "00000000001"};
    char out[64];
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        for (int dtype = 1; dtype <= TD_f64; dtype <<= 1) {
            char text[64];
            snprintf(text, sizeof text, "[%s]", wrong[i]);
            ck_assert_msg(decode(text, dtype, 1, out) == -EINVAL, "%s as %s", text,
                          td_dtype_name(dtype));
        }
}
END_TEST

START_TEST(sentences)
{
    refuses("[1,2,3,\"x\"]", TD_f32, 4, "self: data[3] is \"x\"; a number is right");
    refuses("[1,2]", TD_f32, 4, "self: data has 2 elements, its shape needs 4");
    refuses("[1,2,3]", TD_f32, 2, "self: data has more elements than the 2 that its shape needs");
    refuses("[1,300]", TD_u8, 2, "self: data[1] is 300; a whole number from 0 to 255 is right");
    refuses("[3.5]", TD_i8, 1, "self: data[0] is 3.5; a whole number from -128 to 127 is right");
    refuses("[9223372036854775808]", TD_i64, 1,
            "self: data[0] is 9223372036854775808; a whole number from -9223372036854775808 to "
            "9223372036854775807 is right");
    refuses("[true,2]", TD_bool, 2, "self: data[1] is 2; true or false is right");
}
END_TEST

START_TEST(integers)
{
    int64_t big[8];
    ck_assert_int_eq(decode("[9007199254740993,-9007199254740993,9223372036854775807,"
                            "-9223372036854775808,9007199254740993.0,-3.000,1e3,-0]",
                            TD_i64, 8, big),
                     0);
    static const int64_t right[] = {
        9007199254740993, -9007199254740993, INT64_MAX, INT64_MIN, 9007199254740993, -3, 1000, 0};
    ck_assert_mem_eq(big, right, sizeof right);
    encodes(right, TD_i64, 4,
            "[9007199254740993,-9007199254740993,9223372036854775807,-9223372036854775808]");
    static const struct {
        enum td_dtype dtype;
        const char *low, *high, *below, *above;
    } edge[] = {
        {TD_u8, "0", "255", "-1", "256"},
        {TD_i8, "-128", "127", "-129", "128"},
        {TD_i16, "-32768", "32767", "-32769", "32768"},
        {TD_i32, "-2147483648", "2147483647", "-2147483649", "2147483648"},
        {TD_i64, "-9223372036854775808", "9223372036854775807", "-9223372036854775809",
         "9223372036854775808"},
    };
    for (size_t i = 0; i < sizeof edge / sizeof *edge; i++) {
        const char *const bad[] = {
            edge[i].below,          edge[i].above, "1e300", "3.5",  "3.0000001",
            "18446744073709551616", "1e-1",        "NaN",   "true", "99999999999999999999999"};
        char text[64], out[16];
        snprintf(text, sizeof text, "[%s,%s]", edge[i].low, edge[i].high);
        ck_assert_int_eq(decode(text, edge[i].dtype, 2, out), 0);
        encodes(out, edge[i].dtype, 2, text);
        for (size_t j = 0; j < sizeof bad / sizeof *bad; j++) {
            snprintf(text, sizeof text, "[%s]", bad[j]);
            ck_assert_msg(decode(text, edge[i].dtype, 1, out) == -EINVAL, "%s", text);
        }
    }
}
END_TEST

START_TEST(bools)
{
    uint8_t out[4];
    ck_assert_int_eq(decode("[true,false,1,0]", TD_bool, 4, out), 0);
    ck_assert_mem_eq(out, "\1\0\1\0", 4);
    encodes(out, TD_bool, 4, "[true,false,true,false]");
    ck_assert_int_eq(decode("[10]", TD_bool, 1, out), -EINVAL);
    ck_assert_int_eq(decode("[truefalse]", TD_bool, 2, out), -EINVAL);
}
END_TEST

START_TEST(specials)
{
    float f[8];
    double d[6];
    uint16_t h[3];
    ck_assert_int_eq(decode("[NaN,Infinity,-Infinity,-0,-0.0,1e999,-1e999,1e-999]", TD_f32, 8, f),
                     0);
    ck_assert(isnan(f[0]) && f[1] == INFINITY && f[2] == -INFINITY);
    ck_assert(f[3] == 0 && signbit(f[3]) && f[4] == 0 && signbit(f[4]));
    ck_assert(f[5] == INFINITY && f[6] == -INFINITY && f[7] == 0);
    encodes(f, TD_f32, 5, "[\"NaN\",\"Infinity\",\"-Infinity\",-0.0,-0.0]");
    ck_assert_int_eq(decode("[\"NaN\",\"Infinity\",\"-Infinity\"]", TD_f32, 3, f), 0);
    ck_assert(isnan(f[0]) && f[1] == INFINITY && f[2] == -INFINITY);
    ck_assert_int_eq(decode("[\"NaN]", TD_f32, 1, f), -EINVAL);
    ck_assert_int_eq(decode("[\"NaN\"\"]", TD_f32, 1, f), -EINVAL);
    ck_assert_int_eq(decode("[NaN,Infinity,-Infinity]", TD_f16, 3, h), 0);
    ck_assert(h[0] == 0x7e00 && h[1] == 0x7c00 && h[2] == 0xfc00);
    encodes(h, TD_f16, 3, "[\"NaN\",\"Infinity\",\"-Infinity\"]");
    ck_assert_int_eq(decode("[NaN,5e-324,1.7976931348623157e308]", TD_f64, 3, d), 0);
    ck_assert(isnan(d[0]) && d[1] == 0x1p-1074 && d[2] == 0x1.fffffffffffffp1023);
}
END_TEST

/* Correct rounding where a detour through FP64, or FP32, would round twice. */
START_TEST(rounds_once)
{
    float f[4];
    uint16_t h[3];
    /* just above, at and just below the middle of 1 and 1 + 2^-23; then one beyond FP64's digits */
    ck_assert_int_eq(decode("[1.00000005960464484,1.000000059604644775390625,1.0000000596046447,"
                            "1.00000005960464477539062500000000000000000001]",
                            TD_f32, 4, f),
                     0);
    ck_assert(f[0] == 1 + 0x1p-23f && f[1] == 1 && f[2] == 1 && f[3] == 1 + 0x1p-23f);
    /* the middle of 1 and 1 + 2^-10 plus 2^-40, which FP32 would lose; then for BF16 */
    ck_assert_int_eq(decode("[1.00048828125090949,1.00048828125,0.99999999]", TD_f16, 3, h), 0);
    ck_assert(h[0] == 0x3c01 && h[1] == 0x3c00 && h[2] == 0x3c00);
    ck_assert_int_eq(decode("[1.00390625000000001e0,1.00390625,1.00390625090949]", TD_bf16, 3, h),
                     0);
    ck_assert(h[1] == 0x3f80 && h[2] == 0x3f81);
}
END_TEST

START_TEST(plain_forms)
{
    static const float f[] = {1.5f,  3,      0,        -0.25f,    1e-7f,         0.0001f,
                              1e16f, 1e-45f, 16777216, 123456.7f, 3.4028235e38f, 1e10f};
    encodes(f, TD_f32, 12,
            "[1.5,3,0,-0.25,1e-7,0.0001,1e16,1e-45,16777216,123456.7,3.4028235e38,10000000000]");
    static const double d[] = {0.1, 1.0 / 3, 1e22, 9007199254740993.0, 2.2250738585072014e-308};
    encodes(d, TD_f64, 5, "[0.1,0.3333333333333333,1e22,9007199254740992,2.2250738585072014e-308]");
    encodes(NULL, TD_f32, 0, "[]");
}
END_TEST

/* ---- both ways ---- */

static uint64_t next(uint64_t *state) /* xorshift64* */
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1d;
}

/* strtof and strtod are the judges of what we print; the decoder must agree with both. NaNs have
 * one text only, so they are skipped. */
static void round_trips(enum td_dtype dtype, int64_t n, const uint64_t *bits, uint64_t seed)
{
    struct td_tensor t = {.dtype = dtype, .rank = 1, .shape = {n}};
    size_t size = td_dtype_size(dtype);
    char *first = malloc((size_t)n * size), *second = malloc((size_t)n * size);
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = bits ? bits[i] : next(&seed) >> (64 - 8 * size);
        memcpy(first + (size_t)i * size, &x, size);
        double value = dtype == TD_f64   ? ((double *)(void *)first)[i]
                       : dtype == TD_f32 ? (double)((float *)(void *)first)[i]
                                         : 0;
        bool nan = dtype == TD_f16    ? (x & 0x7fff) > 0x7c00
                   : dtype == TD_bf16 ? (x & 0x7fff) > 0x7f80
                                      : isnan(value);
        if (nan || (dtype == TD_bool && x > 1))
            memset(first + (size_t)i * size, 0, size);
    }
    t.data = first;
    char *text = malloc(td_json_data_bound(&t));
    struct td_json_span span = {text, td_json_encode(&t, text)};
    ck_assert_uint_le(span.length, td_json_data_bound(&t));
    ck_assert_int_eq(td_json_decode(&span, dtype, n, second, "x", &problem), 0);
    ck_assert_int_eq(memcmp(first, second, (size_t)n * size), 0);
    char *at = text;
    int64_t wrong = 0; /* an assertion writes to libcheck's pipe: too slow for every element */
    for (int64_t i = 0; i < n && dtype >= TD_f32; i++) {
        float f = 0;
        double d = 0;
        if (dtype == TD_f32)
            f = strtof(at + 1, &at);
        else
            d = strtod(at + 1, &at);
        const void *read = dtype == TD_f32 ? (void *)&f : (void *)&d;
        wrong += memcmp(read, first + (size_t)i * size, size) != 0;
    }
    ck_assert_int_eq(wrong, 0);
    free(text);
    free(second);
    free(first);
}

START_TEST(round_trip_random)
{
    round_trips(TD_f32, 1000000, NULL, 1);
    round_trips(TD_f64, 1000000, NULL, 2);
    round_trips(TD_i64, 100000, NULL, 3);
    round_trips(TD_i32, 100000, NULL, 4);
}
END_TEST

START_TEST(round_trip_all)
{
    static uint64_t bits[65536];
    for (int i = 0; i < 65536; i++)
        bits[i] = (uint64_t)i;
    round_trips(TD_f16, 65536, bits, 0);
    round_trips(TD_bf16, 65536, bits, 0);
    round_trips(TD_i16, 65536, bits, 0);
    round_trips(TD_i8, 256, bits, 0);
    round_trips(TD_u8, 256, bits, 0);
    round_trips(TD_bool, 2, bits, 0);
}
END_TEST

/* Decimal texts of every length and place of the point, beside the C library. */
START_TEST(reads_as_strtod_does)
{
    uint64_t state = 5;
    for (int i = 0; i < 300000; i++) {
        char text[80], *end;
        char *at = text + sprintf(text, "[%s", next(&state) & 1 ? "-" : "");
        int whole = 1 + (int)(next(&state) % 20), places = (int)(next(&state) % 26);
        if (next(&state) % 2)
            whole = 1;
        for (int j = 0; j < whole; j++)
            *at++ = (char)('0' + (whole > 1 && !j ? 1 + next(&state) % 9 : next(&state) % 10));
        for (int j = 0; j < places; j++) {
            if (!j)
                *at++ = '.';
            *at++ = (char)('0' + next(&state) % 10);
        }
        if (next(&state) % 4 == 0)
            at += sprintf(at, "e%d", (int)(next(&state) % 700) - 350);
        strcpy(at, "]");
        float f = 0;
        double d = 0;
        int err = decode(text, TD_f32, 1, &f) | decode(text, TD_f64, 1, &d);
        float right_f = strtof(text + 1, &end);
        double right_d = strtod(text + 1, &end);
        if (err || memcmp(&f, &right_f, sizeof f) || memcmp(&d, &right_d, sizeof d))
            ck_abort_msg("%s: FP32 %a is %a, FP64 %a is %a; %s", text, (double)f, (double)right_f,
                         d, right_d, problem.text);
    }
}
END_TEST

/* 16 digits beside the middle of two FP32: as a double most are the middle itself, and which side
 * they lie on is lost. */
START_TEST(reads_middles_as_strtof_does)
{
    uint64_t state = 6;
    int middles = 0;
    for (int i = 0; i < 100000; i++) {
        char text[32];
        float low = 4 + (float)(next(&state) >> 42) * 0x1p-21f, f = 0;
        double middle = (double)low + 0x1p-22;
        snprintf(text, sizeof text, "[%.15f]", middle);
        float right = strtof(text + 1, NULL);
        middles += strtod(text + 1, NULL) == middle;
        if (decode(text, TD_f32, 1, &f) || f != right)
            ck_abort_msg("%s: %a is %a; %s", text, (double)f, (double)right, problem.text);
    }
    ck_assert_int_gt(middles, 10000);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_tensor");
    TCase *tests = tcase_create("json_tensor");
    tcase_add_test(tests, flat_nested_mixed);
    tcase_add_test(tests, malformed_arrays);
    tcase_add_test(tests, malformed_numbers);
    tcase_add_test(tests, sentences);
    tcase_add_test(tests, integers);
    tcase_add_test(tests, bools);
    tcase_add_test(tests, specials);
    tcase_add_test(tests, rounds_once);
    tcase_add_test(tests, plain_forms);
    tcase_add_test(tests, round_trip_random);
    tcase_add_test(tests, round_trip_all);
    tcase_add_test(tests, reads_as_strtod_does);
    tcase_add_test(tests, reads_middles_as_strtof_does);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return td_run_suite(suite);
}
