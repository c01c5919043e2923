/* Replies that never change while the process lives: formatted once at start, sent from the same
 * memory ever after, so that a question about the machine costs no more than a hello-world. */
#include "api/routes/routes.h"

#include <errno.h>
#include <stdlib.h>

struct reply {
    const char *text;
    size_t size;
};

struct fixed {
    struct td_arena *arena;
    struct reply isa, ops;
};

static int format(struct fixed *fixed, struct reply *reply, void (*write)(struct td_writer *w))
{
    struct td_writer w;
    struct td_response res = {0};
    td_write_init(&w, fixed->arena, 16384);
    write(&w);
    int err = td_write_response(&w, &res, 200);
    reply->text = res.body;
    reply->size = res.size;
    return err;
}

int td_fixed_create(struct td_service *service)
{
    struct fixed *fixed = calloc(1, sizeof *fixed);
    service->fixed_ = fixed;
    if (!fixed || !(fixed->arena = td_arena_create()))
        return -ENOMEM;
    int err = format(fixed, &fixed->isa, td_write_isa);
    return err ? err : format(fixed, &fixed->ops, td_write_ops);
}

void td_fixed_destroy(struct td_service *service)
{
    struct fixed *fixed = service->fixed_;
    if (!fixed)
        return;
    td_arena_destroy(fixed->arena);
    free(fixed);
    service->fixed_ = NULL;
}

static int answer(struct reply *reply, struct td_response *res)
{
    res->status = 200;
    res->type = "application/json";
    res->body = reply->text;
    res->size = reply->size;
    res->constant = true;
    return 0;
}

int td_api_isa_get(struct td_request *req, struct td_response *res)
{
    return answer(&((struct fixed *)req->service->fixed_)->isa, res);
}

int td_api_ops_list(struct td_request *req, struct td_response *res)
{
    return answer(&((struct fixed *)req->service->fixed_)->ops, res);
}
