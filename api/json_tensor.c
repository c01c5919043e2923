/* Tensor data between JSON text and memory. Decoding walks the characters once: brackets only count
 * depth and commas are demanded between values, so flat and nested arrays are one loop; each type
 * has its own element reader, chosen once. */
#include "api/json.h"
#include "api/numbers.h"

#include "kernels/half.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Reads one value at text into element i of out. Returns where it ends, NULL when it is not one;
 * *wrong then says what would be right. */
typedef const char *read_element(const char *text, const char *end, void *out, int64_t i,
                                 enum td_dtype dtype, const char **wrong);

static bool is_word(const char **text, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - *text) < n || memcmp(*text, word, n))
        return false;
    *text += n;
    return true;
}

/* NaN, Infinity, -Infinity: not JSON, but what the protocol's clients write. */
static const char *read_special(const char *text, const char *end, double *x)
{
    if (is_word(&text, end, "NaN"))
        *x = (double)NAN;
    else if (is_word(&text, end, "Infinity"))
        *x = (double)INFINITY;
    else if (is_word(&text, end, "-Infinity"))
        *x = -(double)INFINITY;
    else
        return NULL;
    return text;
}

static const char *read_f32(const char *text, const char *end, void *out, int64_t i,
                            enum td_dtype dtype, const char **wrong)
{
    (void)dtype;
    const char *after = td_parse_f32(text, end, (float *)out + i);
    if (!after) {
        double x = 0;
        after = read_special(text, end, &x);
        ((float *)out)[i] = (float)x;
    }
    *wrong = "a number";
    return after;
}

static const char *read_f64(const char *text, const char *end, void *out, int64_t i,
                            enum td_dtype dtype, const char **wrong)
{
    (void)dtype;
    double x = 0;
    const char *after = td_parse_f64(text, end, &x);
    ((double *)out)[i] = x;
    if (!after)
        after = read_special(text, end, (double *)out + i);
    *wrong = "a number";
    return after;
}

static const char *read_half(const char *text, const char *end, void *out, int64_t i,
                             enum td_dtype dtype, const char **wrong)
{
    float x = 0;
    const char *after = read_f32(text, end, &x, 0, TD_f32, wrong);
    ((uint16_t *)out)[i] = dtype == TD_f16 ? td_f32_to_f16(x) : td_f32_to_bf16(x);
    return after;
}

static const char *read_bool(const char *text, const char *end, void *out, int64_t i,
                             enum td_dtype dtype, const char **wrong)
{
    (void)dtype;
    bool one = is_word(&text, end, "true") || is_word(&text, end, "1");
    *wrong = "true or false";
    if (!one && !is_word(&text, end, "false") && !is_word(&text, end, "0"))
        return NULL;
    ((uint8_t *)out)[i] = one;
    return text;
}

/* A whole number exactly; one with a fraction or exponent through a double. */
static const char *parse_whole(const char *text, const char *end, int64_t *value)
{
    bool negative = text < end && *text == '-';
    const char *at = text + negative;
    uint64_t n = 0;
    const char *digits = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++) {
        if (__builtin_mul_overflow(n, (uint64_t)10, &n) ||
            __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
            return NULL;
    }
    if (at == digits || (*digits == '0' && at - digits > 1))
        return NULL;
    if (at < end && (*at == '.' || *at == 'e' || *at == 'E')) {
        double x;
        at = td_parse_f64(text, end, &x);
        if (!at || x != floor(x) || fabs(x) > 0x1p53)
            return NULL;
        *value = (int64_t)x;
        return at;
    }
    if (n > (uint64_t)INT64_MAX + negative)
        return NULL;
    *value = negative ? (int64_t)(0 - n) : (int64_t)n;
    return at;
}

static const char *read_whole(const char *text, const char *end, void *out, int64_t i,
                              enum td_dtype dtype, const char **wrong)
{
    int64_t x;
    const char *after = parse_whole(text, end, &x);
    if (!after) {
        *wrong = "a whole number of the type's range";
        return NULL;
    }
#define STORE(T, low, high, name)                                                                  \
    if (x < (low) || x > (high)) {                                                                 \
        *wrong = "a whole number of the range of " name;                                           \
        return NULL;                                                                               \
    }                                                                                              \
    ((T *)out)[i] = (T)x;                                                                          \
    return after
    switch (dtype) {
    case TD_u8:
        STORE(uint8_t, 0, UINT8_MAX, "UINT8, 0 to 255");
    case TD_i8:
        STORE(int8_t, INT8_MIN, INT8_MAX, "INT8, -128 to 127");
    case TD_i16:
        STORE(int16_t, INT16_MIN, INT16_MAX, "INT16, -32768 to 32767");
    case TD_i32:
        STORE(int32_t, INT32_MIN, INT32_MAX, "INT32, -2147483648 to 2147483647");
    default:
        ((int64_t *)out)[i] = x;
        return after;
    }
#undef STORE
}

static read_element *reader(enum td_dtype dtype)
{
    switch (dtype) {
    case TD_f32:
        return read_f32;
    case TD_f64:
        return read_f64;
    case TD_f16:
    case TD_bf16:
        return read_half;
    case TD_bool:
        return read_bool;
    default:
        return read_whole;
    }
}

static int bad_form(const char *name, int64_t i, struct td_problem *problem)
{
    return td_problem_set(problem, EINVAL,
                          "%s: data is malformed after %lld elements; values, commas and brackets "
                          "are right",
                          name, (long long)i);
}

static int bad_count(const char *name, int64_t count, bool more, struct td_problem *problem)
{
    return td_problem_set(problem, EINVAL, "%s: data has %s elements than the %lld of its shape",
                          name, more ? "more" : "fewer", (long long)count);
}

int td_json_decode(const struct td_span *span, enum td_dtype dtype, int64_t count, void *out,
                   const char *name, struct td_problem *problem)
{
    read_element *read = reader(dtype);
    const char *at = span->text, *end = at + span->length, *wrong = "";
    int64_t i = 0;
    bool value_next = true, first = true; /* what may come: a value or '[' / right behind a '[' */
    while (at < end) {
        switch (*at) {
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            at++;
            continue;
        case '[':
            if (!value_next)
                return bad_form(name, i, problem);
            first = true;
            at++;
            continue;
        case ']':
            if (value_next && !first)
                return bad_form(name, i, problem);
            value_next = first = false;
            at++;
            continue;
        case ',':
            if (value_next)
                return bad_form(name, i, problem);
            value_next = true;
            first = false;
            at++;
            continue;
        default:
            break;
        }
        if (!value_next)
            return bad_form(name, i, problem);
        if (i == count)
            return bad_count(name, count, true, problem);
        const char *after = read(at, end, out, i, dtype, &wrong);
        if (!after)
            return td_problem_set(problem, EINVAL, "%s: data[%lld] is %.*s; right is %s", name,
                                  (long long)i, (int)(end - at < 16 ? end - at : 16), at, wrong);
        at = after;
        i++;
        value_next = first = false;
    }
    return i < count ? bad_count(name, count, false, problem) : 0;
}

/* ---- printing ---- */

size_t td_json_data_bound(const struct td_tensor *t)
{
    static const size_t widest[] = {['b'] = 6, ['u'] = 4, ['i'] = 22, ['f'] = 26};
    return (size_t)td_numel(t) * widest[(int)td_dtype_kind(t->dtype)] + TD_NUMBER_ROOM + 2;
}

static char *print_element(const struct td_tensor *t, int64_t i, char *out)
{
    switch (t->dtype) {
    case TD_f64:
        return td_print_f64(((const double *)t->data)[i], out);
    case TD_f16:
        return td_print_f32(td_f16_to_f32(((const uint16_t *)t->data)[i]), out);
    case TD_bf16:
        return td_print_f32(td_bf16_to_f32(((const uint16_t *)t->data)[i]), out);
    case TD_bool:
        if (((const uint8_t *)t->data)[i]) {
            memcpy(out, "true", 4);
            return out + 4;
        }
        memcpy(out, "false", 5);
        return out + 5;
    case TD_u8:
        return td_print_i64(((const uint8_t *)t->data)[i], out);
    case TD_i8:
        return td_print_i64(((const int8_t *)t->data)[i], out);
    case TD_i16:
        return td_print_i64(((const int16_t *)t->data)[i], out);
    case TD_i32:
        return td_print_i64(((const int32_t *)t->data)[i], out);
    default:
        return td_print_i64(((const int64_t *)t->data)[i], out);
    }
}

size_t td_json_encode(const struct td_tensor *t, char *out)
{
    char *at = out;
    int64_t n = td_numel(t);
    *at++ = '[';
    if (t->dtype == TD_f32) {
        const float *x = t->data;
        for (int64_t i = 0; i < n; i++) {
            at = td_print_f32(x[i], at);
            *at++ = ',';
        }
    } else {
        for (int64_t i = 0; i < n; i++) {
            at = print_element(t, i, at);
            *at++ = ',';
        }
    }
    at -= n > 0;
    *at++ = ']';
    return (size_t)(at - out);
}
