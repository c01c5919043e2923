/* Browsers send what any page asks them to, also to a server on the same machine, and a page's host
 * name can be made to mean that machine's address afterwards (DNS rebinding). The page cannot
 * choose its Origin nor the Host that goes with its name: so these two tell its requests from those
 * that are meant. A container's published port brings loopback's requests from the bridge's
 * address, so names are looked at wherever a connection comes from; a page's name must be one that
 * its owner can have in the public name system, and such names are taken over no network unless
 * they are allowed.
 */
#include "server/http/origin.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

static bool is_under(const char *name, size_t n, const char *domain)
{
    size_t size = strlen(domain);
    return n > size && !strncasecmp(name + n - size, domain, size);
}

/* ".example.com" among the allowed. */
static bool is_under_listed(const char *name, size_t n, const struct td_given *list)
{
    for (int i = 0; i < list->n; i++)
        if (*list->text[i] == '.' && is_under(name, n, list->text[i]))
            return true;
    return false;
}

static bool is_address(const char *name, size_t n)
{
    char text[INET6_ADDRSTRLEN];
    struct in_addr v4;
    if (*name == '[') /* which only an address may be */
        return true;
    if (n >= sizeof text)
        return false;
    memcpy(text, name, n);
    text[n] = 0;
    return inet_pton(AF_INET, text, &v4) == 1;
}

/* The machine's own name, with its domain or without. */
static bool is_own_name(const char *name, size_t n)
{
    char own[256] = "";
    return !gethostname(own, sizeof own - 1) && *own && strlen(own) == n &&
           !strncasecmp(own, name, n);
}

bool td_host_is_ours(const char *host, const struct td_given *allowed)
{
    size_t n = name_length(host);
    return is_loopback(host, n) || is_listed(host, n, allowed) || is_under_listed(host, n, allowed);
}

bool td_host_is_inside(const char *host, const struct td_given *allowed)
{
    /* RFC 6761, 6762, 8375, 9476, ICANN's "internal", and what clusters and home networks use. */
    static const char *const domains[] = {".localhost", ".local",      ".internal", ".svc",
                                          ".test",      ".home.arpa",  ".lan",      ".alt",
                                          ".invalid",   ".localdomain"};
    size_t n = name_length(host);
    if (n && host[n - 1] == '.') /* a name may end in the root */
        n--;
    if (!memchr(host, '.', n) || is_address(host, n) || td_host_is_ours(host, allowed))
        return true;
    for (size_t i = 0; i < sizeof domains / sizeof *domains; i++)
        if (is_under(host, n, domains[i]))
            return true;
    return is_own_name(host, n);
}

bool td_origin_is_ours(const char *origin, const char *host, const struct td_given *allowed)
{
    const char *page = !strncasecmp(origin, "http://", 7)    ? origin + 7
                       : !strncasecmp(origin, "https://", 8) ? origin + 8
                                                             : NULL;
    return (page && host && !strcasecmp(page, host)) || is_listed(origin, strlen(origin), allowed);
}
