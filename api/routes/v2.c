/* What the server is and what models it has, in the protocol's words. Every operator is a model,
 * called op.NAME; its inputs are the schema's tensors. */
#include "api/infer/infer.h"
#include "api/models/models.h"
#include "api/routes/routes.h"
#include "api/shm/shm.h"
#include "api/web/web.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int td_api_v2_server(struct td_request *req, struct td_response *res)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 2048);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", "tensord");
    td_write_str(&w, "version", TD_VERSION);
    td_write_open(&w, "extensions", '[');
    td_write_str(&w, NULL, "binary_tensor_data");
    td_write_str(&w, NULL, "model_configuration");
    td_write_str(&w, NULL, "parameters");
    td_write_str(&w, NULL, "sequence");
    if (td_shm_is_open(req))
        td_write_str(&w, NULL, "system_shared_memory");
    td_write_close(&w, ']');
    if (td_asks_for(req, "Accept", "application/json")) /* beyond what the protocol says */
        td_write_routes(&w, req->arena, "/v2");
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* What the path's model name stands for: one of the two. */
struct target {
    const struct td_handle *op;
    struct td_served *served; /* a reference */
};

/* 0, or the response says what is wrong. */
static int find(struct td_request *req, struct target *target)
{
    const char *name = req->var[0];
    struct td_problem problem;
    *target = (struct target){NULL};
    if (!strncmp(name, "op.", 3))
        target->op = td_registry_find(name + 3);
    else
        target->served = td_models_find(req->service->models, name);
    if (!target->op && !target->served) {
        int err = td_models_unknown(req->service->models, req->arena, name, &problem);
        return td_api_problem(req, err, "%s", problem.text);
    }
    if (req->var[1] && strcmp(req->var[1], "1") != 0) {
        td_served_unref(&target->served);
        return td_api_problem(req, -ENOENT, "%s has no version '%.20s'; it has 1", name,
                              req->var[1]);
    }
    return 0;
}

/* ---- metadata and configuration ---- */

/* An operator's tensors take many types and any shape; FP32 [-1] stands for them. */
static void write_params(struct td_writer *w, const struct td_param *param, int n, bool config,
                         bool outputs)
{
    for (int i = 0; i < n; i++) {
        bool optional = param[i].has_default || td_type_takes_none(&param[i].type);
        if (param[i].type.base != TD_BASE_Tensor || (param[i].type.list && optional && !outputs))
            continue; /* how many tensors such a list has, a client decides */
        char name[TD_NAME_SIZE + 2];
        snprintf(name, sizeof name, "%s%s", param[i].name,
                 *param[i].name && param[i].type.list ? ".0" : "");
        if (!*name && n == 1 && !param[i].type.list)
            strcpy(name, "out");
        else if (!*name)
            snprintf(name, sizeof name, "out%d", i);
        struct td_model_port port = {.name = name, .dtype = TD_f32, .rank = -1};
        td_write_port(w, &port, config, optional && !outputs);
    }
}

static void write_side(struct td_writer *w, const struct target *of, const char *key, bool config,
                       bool outputs)
{
    const struct td_served *model = of->served;
    td_write_open(w, key, '[');
    if (of->op)
        write_params(w, outputs ? of->op->schema.ret : of->op->schema.param,
                     outputs ? of->op->schema.n_returns : of->op->schema.n_params, config, outputs);
    for (int i = 0; model && i < (outputs ? model->n_outputs : model->n_inputs); i++)
        td_write_port(w, outputs ? &model->output[i] : &model->input[i], config, false);
    td_write_close(w, ']');
}

static const char *platform(const struct target *of)
{
    const char *format = of->op ? "tensord_op" : td_model_format(of->served->model);
    return strcmp(format, "pt2") ? format : "pytorch_pt2";
}

int td_api_v2_model(struct td_request *req, struct td_response *res)
{
    struct target target;
    if (find(req, &target))
        return -ENOENT;
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_open(&w, "versions", '[');
    td_write_str(&w, NULL, "1");
    td_write_close(&w, ']');
    td_write_str(&w, "platform", platform(&target));
    write_side(&w, &target, "inputs", false, false);
    write_side(&w, &target, "outputs", false, true);
    if (target.op) {
        td_write_open(&w, "properties", '{');
        td_write_str(&w, "schema", target.op->op->schema);
        td_write_close(&w, '}');
    }
    td_write_close(&w, '}');
    td_served_unref(&target.served);
    return td_write_response(&w, res, 200);
}

/* As Triton configures models, as far as its clients look: shapes are whole, a batch among their
 * dimensions. */
int td_api_v2_model_config(struct td_request *req, struct td_response *res)
{
    struct target target;
    if (find(req, &target))
        return -ENOENT;
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_str(&w, "platform", platform(&target));
    td_write_str(&w, "backend", "tensord");
    td_write_int(&w, "max_batch_size", 0);
    write_side(&w, &target, "input", true, false);
    write_side(&w, &target, "output", true, true);
    td_write_open(&w, "version_policy", '{');
    td_write_open(&w, "latest", '{');
    td_write_int(&w, "num_versions", 1);
    td_write_close(&w, '}');
    td_write_close(&w, '}');
    td_write_open(&w, "instance_group", '[');
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_str(&w, "kind", "KIND_CPU");
    td_write_int(&w, "count", 1);
    td_write_close(&w, '}');
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    td_served_unref(&target.served);
    return td_write_response(&w, res, 200);
}

int td_api_v2_model_ready(struct td_request *req, struct td_response *res)
{
    struct target target;
    if (find(req, &target))
        return -ENOENT;
    td_served_unref(&target.served);
    struct td_writer w;
    struct td_hung hung;
    char why[256];
    td_api_find_hindrance(req, &hung, 1, why, sizeof why);
    bool ready = !*why;
    td_write_init(&w, req->arena, 256);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_bool(&w, "ready", ready);
    td_write_close(&w, '}');
    return td_write_response(&w, res, ready ? 200 : 503);
}

/* A body of the index may be left out, and can ask for the models that are ready, as all are. */
static int judge_index(struct td_request *req)
{
    struct td_json json;
    struct td_problem problem;
    if (!req->body_size)
        return 0;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, &problem);
    const cJSON *ready = td_json_member(json.root, "ready");
    if (!err && (!cJSON_IsObject(json.root) || (ready && !cJSON_IsBool(ready))))
        err = td_problem_set(&problem, EINVAL,
                             "the body: must be an object, whose ready, if it is there, is true or "
                             "false");
    td_json_free(&json);
    return err ? td_api_problem(req, err, "%s", problem.text) : 0;
}

#define INDEXED 50 /* bytes of a model's text, about */

/* The models, for clients that look for them in a repository. */
int td_api_v2_index(struct td_request *req, struct td_response *res)
{
    struct td_models *models = req->service->models;
    struct td_models_listed *list;
    struct td_writer w;
    const char *text;
    size_t size;
    uint64_t changes;
    int err = judge_index(req);
    if (err)
        return err;
    if (td_models_index(models, req->arena, &text, &size, &changes)) {
        td_api_text(res, 200, NULL, text);
        res->size = size;
        return 0;
    }
    if (td_api_is_bulk(req, INDEXED * (size_t)td_models_count(models), 0))
        return td_api_hand_over(req);
    int n = td_models_list(models, req->arena, &list);
    if (n < 0)
        return td_api_problem(req, n, "no memory for the list");
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '[');
    for (int i = 0; i < n; i++) {
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "name", list[i].name);
        td_write_str(&w, "version", "1");
        td_write_str(&w, "state", "READY");
        td_write_close(&w, '}');
        td_served_unref(&list[i].served);
    }
    td_write_close(&w, ']');
    err = td_write_response(&w, res, 200);
    if (!err)
        td_models_keep_index(models, res->body, res->size, changes);
    return err;
}

int td_api_v2_infer(struct td_request *req, struct td_response *res)
{
    (void)res;
    struct target target;
    if (find(req, &target))
        return -ENOENT;
    return target.op ? td_api_infer(req, req->var[0] + 3, req->var[0])
                     : td_api_infer_model(req, target.served, req->var[0], false);
}

int td_api_models_run(struct td_request *req, struct td_response *res)
{
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    (void)res;
    return served ? td_api_infer_model(req, served, req->var[0], true) : td_api_no_model(req);
}
