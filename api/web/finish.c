/* What a client may ask of every response, whichever route has made it: JSON to be read by people
 * (?pretty), and a problem as one line of text (Accept: text/plain). */
#include "api/request/request.h"
#include "api/web/web.h"

#include <errno.h>
#include <string.h>

#define LONGEST (128 << 10) /* bytes that are set anew: it is an HTTP thread's time */
#define COLUMNS 100
#define INDENT 2

/* ---- ?pretty ---- */

/* Behind the string, or whatever other value without parts, that begins there. */
static const char *skip_scalar(const char *at, const char *end)
{
    bool quoted = at < end && *at == '"';
    for (at += quoted; at < end; at++) {
        if (quoted && *at == '\\')
            at++;
        else if (quoted ? *at == '"' : strchr(",:]}", *at) != NULL)
            break;
    }
    return at < end ? at + quoted : end;
}

static bool opens(char c)
{
    return c == '{' || c == '[';
}

static bool closes(char c)
{
    return c == '}' || c == ']';
}

/* Whether the array or object that begins there goes into so many columns. */
static bool fits(const char *at, const char *end, int columns)
{
    int depth = 0;
    while (at < end && columns > 0) {
        const char *from = at;
        depth += opens(*at) - closes(*at);
        columns -= *at == ',' || *at == ':';
        at = strchr("{}[],:", *at) ? at + 1 : skip_scalar(at, end);
        columns -= (int)(at - from);
        if (!depth)
            return columns >= 0;
    }
    return false;
}

struct pretty {
    struct td_writer w;
    int column;
};

static void put(struct pretty *p, const char *text, size_t n)
{
    char *room = td_write_room(&p->w, n);
    if (!room)
        return;
    memcpy(room, text, n);
    td_write_took(&p->w, n);
    p->column += (int)n;
}

static void new_line(struct pretty *p, int depth)
{
    put(p, "\n", 1);
    p->column = 0;
    for (int i = 0; i < depth; i++)
        put(p, "        ", INDENT);
}

/* One value; compact JSON goes in, as the server writes it. What is behind it. depth: of the line's
 * indentation; flat: the value has its line's rest for itself. */
static const char *set_value(struct pretty *p, const char *at, const char *end, int depth,
                             bool flat)
{
    if (at >= end || !opens(*at)) {
        const char *next = at < end ? skip_scalar(at, end) : end;
        put(p, at, (size_t)(next - at));
        return next;
    }
    char open = *at;
    flat = flat || fits(at, end, COLUMNS - p->column - 1);
    put(p, at++, 1);
    for (bool first = true; at < end && !closes(*at); first = false) {
        if (!first) {
            put(p, ",", 1);
            at++;
        }
        const char *next = skip_scalar(at, end);
        bool number = open == '[' && !opens(*at);
        bool fills = number && !first && p->column + (next - at) < COLUMNS;
        if (!flat && !fills)
            new_line(p, depth + 1);
        else if (!first)
            put(p, " ", 1);
        if (open == '{') {
            put(p, at, (size_t)(next - at));
            put(p, ": ", 2);
            at = next + 1;
        }
        at = set_value(p, at, end, depth + 1, flat);
    }
    if (!flat)
        new_line(p, depth);
    put(p, at, at < end);
    return at < end ? at + 1 : end;
}

static bool is_json(const struct td_response *res)
{
    const char *type = res->type;
    return type && (!strcmp(type, "application/json") || !strcmp(type, "application/problem+json"));
}

static void set_pretty(struct td_request *req, struct td_response *res)
{
    struct pretty p = {.column = 0};
    const char *text = res->body, *end = text + res->size;
    while (end > text && end[-1] == '\n')
        end--;
    td_write_init(&p.w, req->arena, 2 * res->size + 256);
    set_value(&p, text, end, 0, false);
    put(&p, "\n", 1);
    if (p.w.failed) /* it stays as it was */
        return;
    res->body = p.w.text;
    res->size = p.w.length;
    res->constant = false;
}

/* ---- Accept: text/plain ---- */

static bool wants_text(struct td_request *req)
{
    return req->header && td_asks_for(req, "Accept", "text/plain") &&
           !td_asks_for(req, "Accept", "application/json") &&
           !td_asks_for(req, "Accept", "application/problem+json");
}

/* The title and the sentence, which JSON has twice. */
static void set_text(struct td_request *req, struct td_response *res)
{
    struct td_json json;
    struct td_problem problem;
    td_json_init(&json);
    if (!td_json_parse(&json, res->body, res->size, req->service->limits.json_depth, &problem)) {
        const cJSON *title = td_json_member(json.root, "title"),
                    *detail = td_json_member(json.root, "detail");
        char *text =
            cJSON_IsString(title) && cJSON_IsString(detail)
                ? td_arena_printf(req->arena, "%s: %s\n", title->valuestring, detail->valuestring)
                : NULL;
        if (text) {
            res->type = "text/plain; charset=utf-8";
            res->body = text;
            res->size = strlen(text);
            res->constant = false;
        }
    }
    td_json_free(&json);
}

void td_api_finish(struct td_request *req)
{
    struct td_response *res = &req->response;
    if (res->problem && is_json(res) && wants_text(req))
        set_text(req, res);
    else if (*req->query && res->size && res->size <= LONGEST && is_json(res) &&
             td_api_query_has_flag(req, "pretty"))
        set_pretty(req, res);
}
