/* Percent-escapes of a request's path and query, undone; and its media type. */
#include "api/request/request.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

char *td_api_unescape(struct td_arena *arena, const char *text, size_t n)
{
    char *out = td_arena_alloc(arena, n + 1);
    size_t k = 0;
    for (size_t i = 0; out && i < n; i++) {
        if (text[i] != '%') {
            out[k++] = text[i];
            continue;
        }
        char hex[3] = {0};
        if (i + 2 < n)
            memcpy(hex, text + i + 1, 2);
        if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]) ||
            !strcmp(hex, "00"))
            return NULL;
        out[k++] = (char)strtol(hex, NULL, 16);
        i += 2;
    }
    if (out)
        out[k] = 0;
    return out;
}

bool td_api_is_type(const struct td_request *req, const char *type)
{
    size_t n = strlen(type);
    return req->content_type && !strncasecmp(req->content_type, type, n) &&
           strchr("; ", req->content_type[n]);
}

bool td_api_is_json(const struct td_request *req)
{
    return !req->content_type || td_api_is_type(req, "application/json") ||
           td_api_is_type(req, "application/octet-stream") ||
           td_api_is_type(req, "application/x-www-form-urlencoded"); /* curl's word for -d */
}

/* Whether the query has the parameter. *value: its value, or NULL where an escape is malformed. */
static bool find(struct td_request *req, const char *name, const char **value)
{
    size_t n = strlen(name);
    *value = NULL;
    for (const char *at = req->query; *at; at += strcspn(at, "&"), at += *at == '&') {
        if (strncmp(at, name, n) || !strchr("=&", at[n]))
            continue;
        const char *from = at + n + (at[n] == '=');
        *value = td_api_unescape(req->arena, from, strcspn(from, "&"));
        return true;
    }
    return false;
}

int td_api_query(struct td_request *req, const char *name, const char **value)
{
    if (find(req, name, value) && !*value)
        return td_api_problem(req, -EINVAL, "%s: holds a malformed escape", name);
    return 0;
}

int td_api_query_number(struct td_request *req, const char *name, long long least, long long most,
                        long long otherwise, long long *number)
{
    const char *text;
    int err = td_api_query(req, name, &text);
    *number = otherwise;
    if (err || !text)
        return err;
    errno = 0;
    *number = strtoll(text, NULL, 10);
    if (!*text || text[strspn(text, "0123456789")] || errno || *number < least || *number > most)
        return td_api_problem(req, -EINVAL,
                              "%s: '%.20s' is not right; a whole number from %lld to "
                              "%lld is",
                              name, text, least, most);
    return 0;
}

/* 1 or 0, or -EINVAL where the text is no flag's. */
static int flag_of(const char *text)
{
    static const char *const right[] = {"", "true", "1", "false", "0"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(text, right[i]))
            return i < 3;
    return -EINVAL;
}

int td_api_query_flag(struct td_request *req, const char *name, bool *flag)
{
    const char *value;
    int err = td_api_query(req, name, &value);
    int is = value ? flag_of(value) : 0;
    *flag = is > 0;
    return err || is >= 0
               ? err
               : td_api_problem(req, is, "%s: must be true or false, or stand alone", name);
}

bool td_api_query_has_flag(struct td_request *req, const char *name)
{
    const char *value;
    return find(req, name, &value) && value && flag_of(value) > 0;
}
