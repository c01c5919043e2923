/* GET /v1/models/{name}/source: a model's plans as programs for people. */
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

static int answer(struct td_request *req, struct td_response *res, struct td_model *model,
                  bool code)
{
    if (td_api_is_bulk(req, 64 * (size_t)td_model_count_nodes(model), 0))
        return td_api_hand_over(req);
    struct page page = {.model = model, .code = code};
    td_write_init(&page.w, req->arena, 4096);
    td_model_visit_plans(model, write_plan, &page);
    static const char none[] = "// no plan yet: inputs of one type and shape must come twice\n";
    char *room = page.plans ? NULL : td_write_room(&page.w, sizeof none - 1);
    if (room)
        td_write_took(&page.w, (size_t)(stpcpy(room, none) - room));
    int err = td_write_response(&page.w, res, 200);
    if (!err)
        res->type = "text/plain; charset=utf-8";
    return err;
}

int td_api_models_source(struct td_request *req, struct td_response *res)
{
    const char *assembly;
    int err = td_api_query(req, "asm", &assembly);
    if (err)
        return err;
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    err = answer(req, res, served->model, assembly && strcmp(assembly, "0") != 0);
    td_served_unref(&served);
    return err;
}
