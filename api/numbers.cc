/* Number text by fast_float (reading) and dragonbox (shortest printing): several times faster than
 * strtod and printf, and exact both ways. The only C++ of the project; nothing is thrown or
 * allocated here. dragonbox gives digits and exponent; the layout as JSON is ours, since its own
 * printer writes 15E-1 for 1.5. */
#include "api/numbers.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <dragonbox/dragonbox.h>
#include <fast_float/fast_float.h>

namespace
{

template <class T> const char *parse(const char *text, const char *end, T *value)
{
    const char *digits = text + (text < end && *text == '-');
    if (digits == end || *digits < '0' || *digits > '9' ||
        (*digits == '0' && digits + 1 < end && digits[1] >= '0' && digits[1] <= '9'))
        return nullptr; /* JSON has no "inf", ".5", "+1" and "01" */
    auto result = fast_float::from_chars(text, end, *value);
    if (result.ec != std::errc() && result.ec != std::errc::result_out_of_range)
        return nullptr;
    return result.ptr[-1] == '.' ? nullptr : result.ptr;
}

char *put(char *out, const char *text)
{
    size_t n = std::strlen(text);
    std::memcpy(out, text, n);
    return out + n;
}

template <class T> char *print(T value, char *out)
{
    if (!std::isfinite(value))
        return put(out, std::isnan(value) ? "NaN" : value < 0 ? "-Infinity" : "Infinity");
    if (std::signbit(value))
        *out++ = '-';
    if (value == 0) /* -0 keeps its sign, and a fraction so that readers take it as a float */
        return put(out, "0.0");
    auto decimal = jkj::dragonbox::to_decimal(std::abs(value));
    char digits[24];
    int n = (int)(std::to_chars(digits, digits + sizeof digits, decimal.significand).ptr - digits);
    int point = n + decimal.exponent; /* digits before the decimal point */
    if (point > 0 && point <= 16) {
        int whole = n < point ? n : point;
        std::memcpy(out, digits, (size_t)whole);
        out += whole;
        for (int i = n; i < point; i++)
            *out++ = '0';
        *out++ = '.';
        if (n <= point)
            *out++ = '0';
        else {
            std::memcpy(out, digits + point, (size_t)(n - point));
            out += n - point;
        }
        return out;
    }
    if (point <= 0 && point > -4) {
        out = put(out, "0.");
        for (int i = point; i < 0; i++)
            *out++ = '0';
        std::memcpy(out, digits, (size_t)n);
        return out + n;
    }
    *out++ = digits[0];
    if (n > 1) {
        *out++ = '.';
        std::memcpy(out, digits + 1, (size_t)(n - 1));
        out += n - 1;
    }
    *out++ = 'e';
    return std::to_chars(out, out + 8, point - 1).ptr;
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
