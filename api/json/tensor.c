/* Tensor data between JSON text and memory. Decoding walks the characters once: commas are demanded
 * between values and brackets are taken wherever a value or its end may stand, so flat and nested
 * arrays are one loop. That loop is compiled once a type, with the type's reader inlined: a call
 * through a pointer for every element would cost a third of the speed. */
#include "api/json/json.h"
#include "api/json/numbers.h"

#include "kernels/half.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

/* ---- reading one element ---- */

/* Reads the value at text into element i of out. Returns where it ends, NULL when it is not one of
 * the type. */
typedef const char *read_element(const char *text, const char *end, void *out, int64_t i,
                                 enum td_dtype dtype);

INLINE bool is_word(const char **text, const char *end, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(end - *text) < n || memcmp(*text, word, n))
        return false;
    *text += n;
    return true;
}

/* "NaN", "Infinity", "-Infinity": as strings, which is JSON, or bare, which clients write too. */
static const char *read_special(const char *text, const char *end, double *x)
{
    bool quoted = *text == '"';
    text += quoted;
    if (is_word(&text, end, "NaN"))
        *x = (double)NAN;
    else if (is_word(&text, end, "Infinity"))
        *x = (double)INFINITY;
    else if (is_word(&text, end, "-Infinity"))
        *x = -(double)INFINITY;
    else
        return NULL;
    return !quoted || is_word(&text, end, "\"") ? text : NULL;
}

INLINE const char *read_f32(const char *text, const char *end, void *out, int64_t i,
                            enum td_dtype dtype)
{
    (void)dtype;
    const char *after = td_parse_f32(text, end, (float *)out + i);
    if (__builtin_expect(!after, 0)) {
        double x = 0;
        after = read_special(text, end, &x);
        ((float *)out)[i] = (float)x;
    }
    return after;
}

INLINE const char *read_f64(const char *text, const char *end, void *out, int64_t i,
                            enum td_dtype dtype)
{
    (void)dtype;
    const char *after = td_parse_f64(text, end, (double *)out + i);
    return after ? after : read_special(text, end, (double *)out + i);
}

INLINE const char *read_half(const char *text, const char *end, void *out, int64_t i,
                             enum td_dtype dtype)
{
    double x = 0;
    const char *after = read_f64(text, end, &x, 0, TD_f64);
    float f = td_f64_to_odd(x);
    ((uint16_t *)out)[i] = dtype == TD_f16 ? td_f32_to_f16(f) : td_f32_to_bf16(f);
    return after;
}

INLINE const char *read_bool(const char *text, const char *end, void *out, int64_t i,
                             enum td_dtype dtype)
{
    (void)dtype;
    bool one = is_word(&text, end, "true") || is_word(&text, end, "1");
    if (!one && !is_word(&text, end, "false") && !is_word(&text, end, "0"))
        return NULL;
    ((uint8_t *)out)[i] = one;
    return text;
}

INLINE bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* 3, 3.0 or 3e2: the sign, and how far from 0. With an exponent it goes through a double, which is
 * exact as far as 2^53. */
static const char *read_whole(const char *text, const char *end, bool *negative, uint64_t *value)
{
    bool over = false;
    *negative = *text == '-';
    const char *digits = text + *negative, *at = digits;
    uint64_t n = 0;
    for (; at < end && is_digit(*at); at++)
        over |= __builtin_mul_overflow(n, (uint64_t)10, &n) ||
                __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n);
    if (at == digits || (*digits == '0' && at - digits > 1))
        return NULL;
    if (at + 1 < end && at[0] == '.' && at[1] == '0')
        for (at++; at < end && *at == '0'; at++)
            ;
    if (at < end && (*at == '.' || is_digit(*at) || (*at | 0x20) == 'e')) {
        double x;
        at = td_parse_f64(text, end, &x);
        *value = at && fabs(x) <= 0x1p53 ? (uint64_t)td_size_of_real(fabs(x)) : 0;
        return at && (double)*value == fabs(x) ? at : NULL;
    }
    *value = n;
    return over ? NULL : at;
}

/* How far from 0 a whole type goes, and that below it. */
INLINE uint64_t most(enum td_dtype dtype, uint64_t *below)
{
    bool sign = td_dtype_kind(dtype) == 'i';
    uint64_t above = UINT64_MAX >> (64 - 8 * td_dtype_size(dtype) + sign);
    *below = sign ? above + 1 : 0;
    return above;
}

INLINE const char *read_int(const char *text, const char *end, void *out, int64_t i,
                            enum td_dtype dtype)
{
    bool negative;
    uint64_t x = 0, below, above = most(dtype, &below);
    const char *after = read_whole(text, end, &negative, &x);
    if (x > (negative ? below : above))
        return NULL;
    x = negative ? 0 - x : x;
    switch (td_dtype_size(dtype)) {
    case 1:
        ((uint8_t *)out)[i] = (uint8_t)x;
        break;
    case 2:
        ((uint16_t *)out)[i] = (uint16_t)x;
        break;
    case 4:
        ((uint32_t *)out)[i] = (uint32_t)x;
        break;
    default:
        ((uint64_t *)out)[i] = x;
    }
    return after;
}

/* ---- reading an array ---- */

struct decode {
    const char *at, *end;
    int64_t i, count; /* elements read, and wanted */
};

enum { DONE, BAD_FORM, BAD_VALUE, TOO_MANY };

INLINE int decode(struct decode *d, void *out, enum td_dtype dtype, read_element *read)
{
    const char *at = d->at, *end = d->end;
    int64_t i = 0, count = d->count;
    bool value_next = true, first = true; /* a value or '[' may come; we are right behind a '[' */
    int wrong = DONE;
    for (; at < end && !wrong;) {
        switch (*at) {
        case ' ':
        case '\n':
        case '\r':
        case '\t':
            at++;
            break;
        case '[':
            wrong = value_next ? DONE : BAD_FORM;
            first = true;
            at++;
            break;
        case ']':
            wrong = value_next && !first ? BAD_FORM : DONE;
            value_next = first = false;
            at++;
            break;
        case ',':
            wrong = value_next ? BAD_FORM : DONE;
            value_next = true;
            first = false;
            at++;
            break;
        default: {
            const char *after = NULL;
            if (!value_next)
                wrong = BAD_FORM;
            else if (i == count)
                wrong = TOO_MANY;
            else if (!(after = read(at, end, out, i, dtype)))
                wrong = BAD_VALUE;
            else {
                at = after;
                i++;
                value_next = first = false;
            }
        }
        }
    }
    d->at = at;
    d->i = i;
    return wrong;
}

static int decode_as(struct decode *d, void *out, enum td_dtype dtype)
{
    switch (dtype) {
    case TD_f32:
        return decode(d, out, dtype, read_f32);
    case TD_f64:
        return decode(d, out, dtype, read_f64);
    case TD_f16:
    case TD_bf16:
        return decode(d, out, dtype, read_half);
    case TD_bool:
        return decode(d, out, dtype, read_bool);
    default:
        return decode(d, out, dtype, read_int);
    }
}

/* Bytes of the value at text as far as an error quotes it. */
static int quoted(const char *text, const char *end)
{
    int n = 1;
    bool string = *text == '"';
    while (n < 24 && n < end - text &&
           (string ? text[n - 1] != '"' || n == 1 : !strchr(" \n\r\t,[]", text[n])))
        n++;
    return n;
}

static int bad_value(const struct decode *d, enum td_dtype dtype, const char *name,
                     struct td_problem *problem)
{
    char right[80] = "a number";
    if (dtype == TD_bool) {
        strcpy(right, "true or false");
    } else if (td_dtype_kind(dtype) != 'f') {
        uint64_t below, above = most(dtype, &below);
        snprintf(right, sizeof right, "a whole number from %s%llu to %llu", below ? "-" : "",
                 (unsigned long long)below, (unsigned long long)above);
    }
    return td_problem_set(problem, EINVAL, "%s: data[%lld] is %.*s; %s is right", name,
                          (long long)d->i, quoted(d->at, d->end), d->at, right);
}

int td_json_decode(const struct td_json_span *span, enum td_dtype dtype, int64_t count, void *out,
                   const char *name, struct td_problem *problem)
{
    struct decode d = {span->text, span->text + span->length, 0, count};
    switch (decode_as(&d, out, dtype)) {
    case BAD_VALUE:
        return bad_value(&d, dtype, name, problem);
    case BAD_FORM:
        return td_problem_set(problem, EINVAL,
                              "%s: data is no JSON array behind %lld elements; values, brackets "
                              "and commas between them are right",
                              name, (long long)d.i);
    case TOO_MANY:
        return td_problem_set(problem, EINVAL,
                              "%s: data has more elements than the %lld that its shape needs", name,
                              (long long)count);
    default:
        break;
    }
    if (d.i < count)
        return td_problem_set(problem, EINVAL, "%s: data has %lld elements, its shape needs %lld",
                              name, (long long)d.i, (long long)count);
    return 0;
}

/* ---- printing ---- */

size_t td_json_data_bound(const struct td_tensor *t)
{
    /* by bytes an element, comma included: false, -128 | -32768 | -2147483648 or -1.2345678e-38
     * or -1234567890123456 | -2.2250738585072014e-308; a half type prints as an FP32 */
    static const size_t widest[] = {[1] = 6, [2] = 7, [4] = 18, [8] = 25};
    size_t size = td_dtype_size(t->dtype);
    bool half = t->dtype == TD_f16 || t->dtype == TD_bf16;
    return (size_t)td_numel(t) * widest[half ? 4 : size] + TD_NUMBER_ROOM + 2;
}

INLINE char *print_element(const void *data, int64_t i, enum td_dtype dtype, char *out)
{
    switch (dtype) {
    case TD_f64:
        return td_print_f64(((const double *)data)[i], out);
    case TD_f32:
        return td_print_f32(((const float *)data)[i], out);
    case TD_f16:
        return td_print_f32(td_f16_to_f32(((const uint16_t *)data)[i]), out);
    case TD_bf16:
        return td_print_f32(td_bf16_to_f32(((const uint16_t *)data)[i]), out);
    case TD_bool:
        if (((const uint8_t *)data)[i])
            return (char *)memcpy(out, "true", 4) + 4;
        return (char *)memcpy(out, "false", 5) + 5;
    case TD_u8:
        return td_print_i64(((const uint8_t *)data)[i], out);
    case TD_i8:
        return td_print_i64(((const int8_t *)data)[i], out);
    case TD_i16:
        return td_print_i64(((const int16_t *)data)[i], out);
    case TD_i32:
        return td_print_i64(((const int32_t *)data)[i], out);
    case TD_u16:
        return td_print_i64(((const uint16_t *)data)[i], out);
    case TD_u32:
        return td_print_i64(((const uint32_t *)data)[i], out);
    case TD_u64:
        return td_print_u64(((const uint64_t *)data)[i], out);
    default:
        return td_print_i64(((const int64_t *)data)[i], out);
    }
}

size_t td_json_encode(const struct td_tensor *t, char *out)
{
    char *at = out;
    int64_t n = td_numel(t);
    *at++ = '[';
    for (int64_t i = 0; i < n; i++) {
        at = print_element(t->data, i, t->dtype, at);
        *at++ = ',';
    }
    at -= n > 0;
    *at++ = ']';
    return (size_t)(at - out);
}
