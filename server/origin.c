/* Browsers send what any page asks them to, also to a server on the same machine, and a page's host
 * name can be made to mean 127.0.0.1 afterwards (DNS rebinding). The page cannot choose its Origin
 * nor the Host that goes with its name: so these two tell its requests from those that are meant.
 */
#include "server/origin.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

static bool is_name(unsigned char c)
{
    static const bool other[256] = {
        ['-'] = 1, ['.'] = 1, ['_'] = 1, ['~'] = 1,  ['%'] = 1, ['!'] = 1, ['$'] = 1, ['&'] = 1,
        ['('] = 1, [')'] = 1, ['*'] = 1, ['\''] = 1, ['+'] = 1, [','] = 1, [';'] = 1, ['='] = 1};
    return (unsigned)(c | 0x20) - 'a' < 26 || (unsigned)c - '0' < 10 || other[c];
}

/* Bytes of the host before its port; 0 when it is none. */
static size_t name_length(const char *text)
{
    size_t n = 0;
    if (*text == '[') {
        n = strspn(text + 1, "0123456789abcdefABCDEF:.") + 2;
        return text[n - 1] == ']' ? n : 0;
    }
    while (is_name((unsigned char)text[n]))
        n++;
    return n;
}

bool td_host_is_right(const char *text)
{
    size_t n = name_length(text);
    if (!n || (text[n] && text[n] != ':'))
        return false;
    return !text[n] || !text[n + 1 + strspn(text + n + 1, "0123456789")];
}

static bool is_loopback(const char *name, size_t n)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    struct in6_addr v6;
    bool bracketed = *name == '[';
    if (bracketed) {
        name++;
        n -= 2;
    }
    if (n >= sizeof text)
        return false;
    memcpy(text, name, n);
    text[n] = 0;
    if (bracketed)
        return inet_pton(AF_INET6, text, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
    return !strcasecmp(text, "localhost") ||
           (inet_pton(AF_INET, text, &v4) == 1 && ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET);
}

static bool is_listed(const char *text, size_t n, const struct td_given *list)
{
    for (int i = 0; i < list->n; i++)
        if (!strcmp(list->text[i], "*") ||
            (strlen(list->text[i]) == n && !strncasecmp(list->text[i], text, n)))
            return true;
    return false;
}

bool td_host_is_ours(const char *host, const struct td_given *allowed)
{
    size_t n = name_length(host);
    return is_loopback(host, n) || is_listed(host, n, allowed);
}

bool td_origin_is_ours(const char *origin, const char *host, const struct td_given *allowed)
{
    const char *page = !strncasecmp(origin, "http://", 7)    ? origin + 7
                       : !strncasecmp(origin, "https://", 8) ? origin + 8
                                                             : NULL;
    return (page && host && !strcasecmp(page, host)) || is_listed(origin, strlen(origin), allowed);
}
