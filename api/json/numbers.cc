/* Number text by fast_float (reading) and dragonbox (shortest printing): several times faster than
 * strtod and printf, and exact both ways. The only C++ of the project; nothing is thrown or
 * allocated here. dragonbox gives digits and exponent; the layout as JSON is ours, since its own
 * printer writes 15E-1 for 1.5. */
#include "api/json/numbers.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <dragonbox/dragonbox.h>
#include <fast_float/fast_float.h>

namespace
{

bool is_digit(const char *at, const char *end)
{
    return at < end && *at >= '0' && *at <= '9';
}

/* Eight characters as a number: the leading digits among them, of which there are *n. Without a
 * branch, since how many there are differs from number to number. A digit's byte has 3 as its upper
 * half, also when 6 is added; then pairs, fours and eights meet. */
uint64_t eight(const char *at, int *n)
{
    const uint64_t high = 0xf0f0f0f0f0f0f0f0, zeros = 0x3030303030303030;
    uint64_t v;
    std::memcpy(&v, at, 8);
    uint64_t others = ((v & high) ^ zeros) | (((v + 0x0606060606060606) & high) ^ zeros);
    int bits = others ? __builtin_ctzll(others) & ~7 : 64;
    *n = bits / 8;
    v = bits ? (v - zeros) << (64 - bits) : 0; /* zeros go before the digits */
    v = v * 10 + (v >> 8);
    return ((v & 0xff000000ff) * (100 + (1000000ull << 32)) +
            ((v >> 16) & 0xff000000ff) * (1 + (10000ull << 32))) >>
           32;
}

/* Goes over digits, that *sum takes up. */
const char *add_digits(const char *at, const char *end, uint64_t *sum)
{
    static const uint32_t tens[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
    for (int n = 8, m = 8; m == 8 && end - at >= 16; at += n + m) {
        uint64_t first = eight(at, &n), second = eight(at + 8, &m);
        second = n < 8 ? 0 : second;
        m = n < 8 ? 0 : m;
        *sum = (*sum * tens[n] + first) * tens[m] + second;
    }
    for (; is_digit(at, end); at++)
        *sum = *sum * 10 + (uint64_t)(*at - '0');
    return at;
}

/* Up to 2^53 and with up to 22 places, one division of two exact doubles is the correctly rounded
 * double (Clinger, 1990). It also rounds correctly to FP32, but when it lies in the middle of two
 * of them, where the division may have put it. */
bool divide(uint64_t digits, ptrdiff_t places, double *value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    *value = (double)digits / tens[places];
    return true;
}

bool divide(uint64_t digits, ptrdiff_t places, float *value)
{
    double x;
    uint64_t bits;
    divide(digits, places, &x);
    std::memcpy(&bits, &x, 8);
    *value = (float)x;
    return (bits & 0x1fffffff) != 0x10000000;
}

/* The form is checked here, since fast_float takes "inf", ".5", "1." and "01", which JSON has not;
 * on the way, most numbers that people write are already read. */
template <class T> const char *parse(const char *text, const char *end, T *value)
{
    static const T sign[] = {1, -1}; /* a branch on it would be guessed wrong every other time */
    const bool negative = text < end && *text == '-';
    const char *whole = text + negative, *fraction = nullptr;
    uint64_t digits = 0;
    const char *at = whole;
    for (; is_digit(at, end); at++) /* mostly one or two */
        digits = digits * 10 + (uint64_t)(*at - '0');
    if (at == whole || (*whole == '0' && at - whole > 1))
        return nullptr;
    if (at < end && *at == '.') {
        fraction = at + 1;
        at = add_digits(fraction, end, &digits);
        if (at == fraction)
            return nullptr;
    }
    const bool exponent = at < end && (*at | 0x20) == 'e';
    if (!exponent && at - whole <= 19 && digits <= 1ull << 53 &&
        divide(digits, fraction ? at - fraction : 0, value)) {
        *value *= sign[negative];
        return at;
    }
    auto result = fast_float::from_chars(text, end, *value);
    if (result.ec != std::errc() && result.ec != std::errc::result_out_of_range)
        return nullptr;
    return exponent && result.ptr == at ? nullptr : result.ptr; /* an e without digits */
}

char *put(char *out, const char *text, size_t n)
{
    std::memcpy(out, text, n);
    return out + n;
}

char *put_zeros(char *out, int n)
{
    return n > 0 ? (char *)std::memset(out, '0', (size_t)n) + n : out;
}

/* Digits and where the point belongs among them: as Python's repr has it, plain from 1e-4 to 1e16
 * and with an exponent outside. */
char *lay_out(const char *digits, int n, int point, char *out)
{
    if (point > 0 && point <= 16) {
        int whole = n < point ? n : point;
        out = put_zeros(put(out, digits, (size_t)whole), point - n);
        if (n == whole)
            return out;
        *out++ = '.';
        return put(out, digits + whole, (size_t)(n - whole));
    }
    if (point <= 0 && point > -4)
        return put(put_zeros(put(out, "0.", 2), -point), digits, (size_t)n);
    *out++ = digits[0];
    if (n > 1) {
        *out++ = '.';
        out = put(out, digits + 1, (size_t)(n - 1));
    }
    *out++ = 'e';
    return std::to_chars(out, out + 8, point - 1).ptr;
}

template <class T> char *print(T value, char *out)
{
    if (std::isnan(value))
        return put(out, "\"NaN\"", 5);
    if (std::isinf(value))
        return value < 0 ? put(out, "\"-Infinity\"", 11) : put(out, "\"Infinity\"", 10);
    if (std::signbit(value))
        *out++ = '-';
    if (value == 0) /* readers that know integers lose the sign of -0 */
        return std::signbit(value) ? put(out, "0.0", 3) : put(out, "0", 1);
    auto decimal = jkj::dragonbox::to_decimal(value, jkj::dragonbox::policy::sign::ignore);
    char digits[24];
    int n = (int)(std::to_chars(digits, digits + sizeof digits, decimal.significand).ptr - digits);
    return lay_out(digits, n, n + decimal.exponent, out);
}

} // namespace

const char *td_parse_f32(const char *text, const char *end, float *value)
{
    return parse(text, end, value);
}

const char *td_parse_f64(const char *text, const char *end, double *value)
{
    return parse(text, end, value);
}

char *td_print_f32(float value, char *out)
{
    return print(value, out);
}

char *td_print_f64(double value, char *out)
{
    return print(value, out);
}

char *td_print_i64(int64_t value, char *out)
{
    return std::to_chars(out, out + TD_NUMBER_ROOM, value).ptr;
}

char *td_print_u64(uint64_t value, char *out)
{
    return std::to_chars(out, out + TD_NUMBER_ROOM, value).ptr;
}
