/* Responses in the forms that all handlers use: a JSON text that was written, a constant one, and
 * what is wrong, which has one form (RFC 9457) whoever says it. */
#include "api/request/request.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int td_write_response(struct td_writer *w, struct td_response *res, int status)
{
    char *end = td_write_room(w, 1);
    if (end) {
        *end = '\n';
        td_write_took(w, 1);
    }
    if (w->failed)
        return -ENOMEM;
    res->status = status;
    res->type = "application/json";
    res->body = w->text;
    res->size = w->length;
    return 0;
}

static const struct {
    int error, status;
    const char *type, *title;
} problems[] = {
#define TD_PROBLEM(error, status, type, title) {error, status, type, title},
#include "api/request/problems.def"
#undef TD_PROBLEM
};

/* What a library or the system says may be any errno: what has no row is the server's failure. */
static size_t problem_row(int error)
{
    size_t row = 0, internal = 0, n = sizeof problems / sizeof *problems;
    for (size_t i = 0; i < n; i++)
        if (problems[i].error == EIO)
            internal = i;
    while (row < n && problems[row].error != -error)
        row++;
    return row < n ? row : internal;
}

void td_api_problem_begin(struct td_request *req, struct td_writer *w, int error,
                          const char *detail)
{
    size_t row = problem_row(error);
    char type[64];
    snprintf(type, sizeof type, "/problems/%s", problems[row].type);
    td_write_init(w, req->arena, 512);
    td_write_open(w, NULL, '{');
    td_write_str(w, "type", type);
    td_write_str(w, "title", problems[row].title);
    td_write_int(w, "status", problems[row].status);
    td_write_str(w, "detail", detail);
    td_write_str(w, "error", detail);
}

int td_api_problem_end(struct td_request *req, struct td_writer *w, int error)
{
    struct td_response *res = &req->response;
    td_write_close(w, '}');
    *res = (struct td_response){0};
    if (td_write_response(w, res, problems[problem_row(error)].status))
        td_api_text(res, 503, NULL, "{\"status\":503,\"error\":\"out of memory\"}\n");
    res->type = "application/problem+json";
    res->problem = problems[problem_row(error)].type;
    if (error == -EKEYREJECTED)
        res->header[0] = (struct td_header){
            "WWW-Authenticate", "Bearer realm=\"tensord\", error=\"insufficient_scope\""};
    if (res->status == 429 || res->status == 503)
        res->header[0] = (struct td_header){"Retry-After", "1"};
    return error;
}

static void add_figures(char *detail, size_t size)
{
    size_t n = strlen(detail), limit = td_memory.limit;
    if (limit < SIZE_MAX)
        snprintf(detail + n, size - n, "; %zu of the %zu bytes of --memory are in use",
                 (size_t)td_memory.used, limit);
}

int td_api_problem(struct td_request *req, int error, const char *format, ...)
{
    char detail[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    if (error == -ENOMEM)
        add_figures(detail, sizeof detail);
    struct td_writer w;
    td_api_problem_begin(req, &w, error, detail);
    return td_api_problem_end(req, &w, error);
}

int td_api_text(struct td_response *res, int status, const char *type, const char *text)
{
    res->status = status;
    res->type = type ? type : "application/json";
    res->body = text;
    res->size = strlen(text);
    return 0;
}
