/* GET /v1/access: the name, scopes and limits of the client's token. */
#include "api/access/table.h"
#include "api/request/request.h"

#include <stdio.h>
#include <time.h>

static void write_limits(struct td_writer *w, const struct td_token *token)
{
    const struct td_token_limits *limits = &token->limits;
    const struct td_account *account = token->account;
    td_write_open(w, "limits", '{');
    if (limits->rate)
        td_write_int(w, "rate", limits->rate);
    if (limits->flight)
        td_write_int(w, "flight_bytes", (int64_t)limits->flight);
    if (limits->memory)
        td_write_int(w, "memory_bytes", (int64_t)limits->memory);
    if (limits->store)
        td_write_int(w, "store_bytes", (int64_t)limits->store);
    if (limits->pools)
        td_write_int(w, "pools", limits->pools);
    td_write_close(w, '}');
    td_write_open(w, "used", '{');
    td_write_int(w, "requests", account->requests);
    td_write_int(w, "flight_bytes", (int64_t)account->flight.used);
    td_write_int(w, "memory_bytes", (int64_t)account->memory.used);
    td_write_int(w, "store_bytes", (int64_t)account->store.used);
    td_write_close(w, '}');
}

static void write_token(struct td_writer *w, const struct td_token *token)
{
    char text[40];
    struct tm utc;
    time_t expires = (time_t)token->expires_s;
    td_write_str(w, "name", token->account->name);
    if (*token->prefix)
        td_write_str(w, "prefix", token->prefix);
    if (expires) {
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&expires, &utc));
        td_write_str(w, "expires", text);
    }
    write_limits(w, token);
}

int td_api_access_get(struct td_request *req, struct td_response *res)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 512);
    td_write_open(&w, NULL, '{');
    td_write_bool(&w, "tokens", req->service->access != NULL);
    td_write_bool(&w, "insecure", req->service->insecure);
    td_write_open(&w, "sandbox", '{');
    td_write_bool(&w, "files", req->service->sandbox.files);
    td_write_bool(&w, "system_calls", req->service->sandbox.calls);
    td_write_close(&w, '}');
    td_write_open(&w, "scopes", '[');
    for (int scope = TD_SCOPE_read; scope < TD_SCOPES; scope++)
        if (td_access_may(req, scope))
            td_write_str(&w, NULL, td_access_scope_name(scope));
    td_write_close(&w, ']');
    if (req->token)
        write_token(&w, req->token);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}
