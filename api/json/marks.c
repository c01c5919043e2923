/* What cJSON's doubles do not tell of the numbers in a text: whether they were written as floats,
 * and the last digits of long whole ones. */
#include "api/json/marks.h"

#include "api/json/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The next number of a text behind at, and where it ends. */
static const char *next_number(const char *at, const char **end)
{
    while (*at != '-' && (*at < '0' || *at > '9')) {
        if (*at == '"')
            for (at++; *at != '"'; at++)
                at += *at == '\\';
        at++;
    }
    *end = at + strspn(at, "+-.0123456789eE");
    return at;
}

/* Keeps what the double has lost of a whole number; of one that no type holds, nothing. */
static void mark_wide(cJSON *item, const char *number)
{
    bool negative = *number == '-';
    errno = 0;
    unsigned long long far = strtoull(number + negative, NULL, 10);
    if (errno || (negative && far > (uint64_t)INT64_MAX + 1))
        return;
    __int128 exact = negative ? -(__int128)far : (__int128)far;
    item->valueint = (int)(exact - (__int128)item->valuedouble);
    item->type |= TD_JSON_WIDE;
}

/* Tree and text have the numbers in the same order. */
void td_json_mark(cJSON *item, const char **at)
{
    for (; item; item = item->next) {
        if (cJSON_IsNumber(item)) {
            const char *end, *number = next_number(*at, &end);
            if (strcspn(number, ".eE") < (size_t)(end - number))
                item->type |= TD_JSON_FLOAT;
            else if (end - number >= TD_JSON_DIGITS)
                mark_wide(item, number);
            *at = end;
        }
        td_json_mark(item->child, at);
    }
}

bool td_json_whole(const cJSON *item, __int128 *value)
{
    bool wide = cJSON_IsNumber(item) && item->type & TD_JSON_WIDE;
    if (!cJSON_IsNumber(item) || td_json_is_float(item) ||
        !(wide || (item->valuedouble > -0x1p53 && item->valuedouble < 0x1p53)))
        return false;
    *value = (__int128)item->valuedouble + (wide ? item->valueint : 0);
    return true;
}
