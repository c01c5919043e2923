/* GET /v1/models/{name}/source: a model's plans as programs for people, and with after=PASS the
 * youngest one as it was between two passes. */
#include "api/models/models.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct page {
    const struct td_model *model;
    struct td_writer w;
    bool code; /* with the instructions of its loops */
    int plans;
};

static void write_plan(const struct td_model_plan *plan, void *arg)
{
    struct page *page = arg;
    FILE *to = td_write_file(&page->w);
    if (!to)
        return;
    fputs(page->plans++ ? "\n" : "", to);
    td_model_plan_print(page->model, plan, page->code, to);
    fclose(to);
}

static int reply(struct td_writer *w, struct td_response *res)
{
    int err = td_write_response(w, res, 200);
    if (!err)
        res->type = "text/plain; charset=utf-8";
    return err;
}

static int answer(struct td_request *req, struct td_response *res, struct td_model *model,
                  bool code)
{
    if (td_api_is_bulk(req, 64 * (size_t)td_model_count_nodes(model), 0))
        return td_api_hand_over(req);
    struct page page = {.model = model, .code = code};
    td_write_init(&page.w, req->arena, 4096);
    td_model_visit_plans(model, write_plan, &page);
    static const char none[] = "// no plan yet: the first call makes one for inputs like its own\n";
    char *room = page.plans ? NULL : td_write_room(&page.w, sizeof none - 1);
    if (room)
        td_write_took(&page.w, (size_t)(stpcpy(room, none) - room));
    return reply(&page.w, res);
}

/* Recording computes what depends on no input, so a worker does it. */
static int answer_after(struct td_request *req, struct td_response *res, struct td_model *model,
                        const char *pass)
{
    if (!req->worker)
        return td_api_hand_over(req);
    int64_t ms = req->service->limits.timeout_ms;
    struct td_stop stop = {.deadline_ns = ms ? td_clock_ns() + ms * 1000000 : 0};
    struct td_problem problem = {0};
    struct td_writer w;
    td_write_init(&w, req->arena, 4096);
    FILE *to = td_write_file(&w);
    if (!to)
        return -ENOMEM;
    td_stop_obey(&stop);
    int err = td_model_print_after(model, pass, to, &problem);
    td_stop_obey(NULL);
    fclose(to);
    if (err == -ENOENT)
        return td_api_problem(req, err,
                              "after: the model has no plan yet; its first call makes one");
    if (err)
        return td_api_problem(req, err, "after: %s",
                              *problem.text       ? problem.text
                              : err == -ETIMEDOUT ? "a plan is being made"
                                                  : "no memory for the plan");
    return reply(&w, res);
}

int td_api_models_source(struct td_request *req, struct td_response *res)
{
    const char *after;
    bool assembly;
    int err = td_api_query_flag(req, "asm", &assembly);
    err = err ? err : td_api_query(req, "after", &after);
    if (!err && after && assembly)
        err = td_api_problem(req, -EINVAL,
                             "asm: a plan between passes has no code; asm or after, one "
                             "of them, is right");
    if (err)
        return err;
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    err = after ? answer_after(req, res, served->model, after)
                : answer(req, res, served->model, assembly);
    td_served_unref(&served);
    return err;
}
