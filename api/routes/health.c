/* Whether the server is alive and ready, in the protocol's words. */
#include "api/routes/routes.h"

#include <stdio.h>
#include <time.h>

int td_api_v2_live(struct td_request *req, struct td_response *res)
{
    (void)req;
    return td_api_text(res, 200, NULL, "{\"live\":true}\n");
}

int td_api_find_hindrance(struct td_request *req, struct td_hung *hung, int max, char *why,
                          size_t size)
{
    int n = td_pools_hung(req->service->pools, hung, max);
    *why = 0;
    if (req->service->front.draining)
        snprintf(why, size, "the server is draining");
    else if (req->service->front.starting)
        snprintf(
            why, size,
            "the server is starting: it does not listen on all its addresses yet, or loads models");
    else if (n)
        td_hung_describe(hung, why, size);
    return n;
}

static void write_hung(struct td_writer *w, const struct td_hung *hung, int n)
{
    td_write_open(w, "hung", '[');
    for (int i = 0; i < n; i++) {
        time_t since = time(NULL) - hung[i].for_ns / 1000000000;
        struct tm utc;
        char text[32];
        strftime(text, sizeof text, "%FT%TZ", gmtime_r(&since, &utc));
        td_write_open(w, NULL, '{');
        td_write_str(w, "pool", hung[i].pool);
        td_write_int(w, hung[i].is_seat ? "http_thread" : "worker", hung[i].index);
        td_write_str(w, "operator", hung[i].what);
        td_write_str(w, "since", text);
        td_write_int(w, "seconds", hung[i].for_ns / 1000000000);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

int td_api_v2_ready(struct td_request *req, struct td_response *res)
{
    struct td_hung hung[16];
    struct td_writer w;
    char why[256];
    int n = td_api_find_hindrance(req, hung, 16, why, sizeof why);
    if (!*why)
        return td_api_text(res, 200, NULL, "{\"live\":true,\"ready\":true}\n");
    res->header[0] = (struct td_header){"Retry-After", "1"};
    td_write_init(&w, req->arena, 512);
    td_write_open(&w, NULL, '{');
    td_write_bool(&w, "live", true);
    td_write_bool(&w, "ready", false);
    td_write_str(&w, "error", why);
    if (n)
        write_hung(&w, hung, n);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 503);
}
