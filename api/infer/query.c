/* Parameters of a call in the query of its URL: ?dim=-1&explain=true. They count as if they stood
 * in parameters; a value that is JSON is that, any other a text. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

/* Whether the text is a JSON value by itself: a number, true, [1,2], "x". */
static bool is_json(const char *text)
{
    struct td_json json;
    struct td_problem problem;
    td_json_init(&json);
    bool right = *text && !td_json_parse(&json, text, strlen(text), 8, &problem);
    td_json_free(&json);
    return right;
}

/* The query as the text of a JSON object. -EINVAL, -ENOMEM. */
static int write_object(struct td_infer *in, struct td_writer *w, struct td_problem *problem)
{
    td_write_init(w, in->req->arena, 256);
    td_write_open(w, NULL, '{');
    for (const char *at = in->req->query; *at; at += strcspn(at, "&"), at += *at == '&') {
        size_t n = strcspn(at, "=&");
        char *name = td_api_unescape(in->req->arena, at, n);
        const char *from = at + n + (at[n] == '=');
        char *value = td_api_unescape(in->req->arena, from, strcspn(from, "&"));
        if (!name || !value)
            return td_infer_refuse(problem, "query", "holds a malformed escape");
        if (!*name || !strcmp(name, "pretty"))
            continue;
        td_write_key(w, name);
        if (is_json(value))
            td_write_raw(w, NULL, value, strlen(value));
        else if (at[n] != '=') /* ?explain */
            td_write_bool(w, NULL, true);
        else
            td_write_str(w, NULL, value);
    }
    td_write_close(w, '}');
    return w->failed ? td_problem_set(problem, ENOMEM, "no memory for the query") : 0;
}

int td_infer_parse_query(struct td_infer *in, struct td_problem *problem)
{
    struct td_writer w;
    if (!*in->req->query)
        return 0;
    int err = write_object(in, &w, problem);
    in->asked = err ? NULL : td_arena_zalloc(in->req->arena, sizeof *in->asked);
    if (!err && !in->asked)
        err = td_problem_set(problem, ENOMEM, "no memory for the query");
    if (!err)
        err = td_json_parse(in->asked, w.text, w.length, 8, problem);
    return err;
}

int td_infer_read_query(struct td_infer *in, struct td_problem *problem)
{
    if (!in->asked)
        return 0;
    int err = td_infer_key_defaults(in, in->asked->root, problem);
    for (const cJSON *item = err ? NULL : in->asked->root->child; item && !err; item = item->next)
        err = td_infer_read_parameter(in, item, problem);
    return err;
}
