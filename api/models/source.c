/* GET /v1/models/{name}/source: a model's plans as programs for people. */
#include "api/models/models.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct page {
    const struct td_model *model;
    struct td_writer w;
    int plans;
};

static ssize_t write_text(void *arg, const char *text, size_t size)
{
    struct td_writer *w = arg;
    char *room = td_write_room(w, size);
    if (!room)
        return 0;
    memcpy(room, text, size);
    td_write_took(w, size);
    return (ssize_t)size;
}

static void write_plan(const struct td_model_plan *plan, void *arg)
{
    struct page *page = arg;
    FILE *to = fopencookie(&page->w, "w", (cookie_io_functions_t){.write = write_text});
    if (!to) {
        page->w.failed = true;
        return;
    }
    fputs(page->plans++ ? "\n" : "", to);
    td_model_plan_print(page->model, plan, to);
    fclose(to);
}

static int answer(struct td_request *req, struct td_response *res, struct td_model *model)
{
    if (td_api_is_bulk(req, 64 * (size_t)td_model_count_nodes(model), 0))
        return td_api_hand_over(req);
    struct page page = {.model = model};
    td_write_init(&page.w, req->arena, 4096);
    td_model_visit_plans(model, write_plan, &page);
    static const char none[] = "// no plan yet: inputs of one type and shape must come twice\n";
    if (!page.plans)
        write_text(&page.w, none, sizeof none - 1);
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
    if (assembly && strcmp(assembly, "0") != 0)
        err =
            td_api_problem(req, -ENOSYS,
                           "asm: no machine code is made for a model: its calls run the rows that "
                           "the source names, a tile at a time where they are together");
    else
        err = answer(req, res, served->model);
    td_served_unref(&served);
    return err;
}
