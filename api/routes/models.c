/* What the server is and what models it has, in the protocol's words. Every operator is a model,
 * called op.NAME; its inputs are the schema's tensors. */
#include "api/infer/infer.h"
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
    td_write_str(&w, NULL, "parameters");
    if (td_shm_is_open(req))
        td_write_str(&w, NULL, "system_shared_memory");
    td_write_close(&w, ']');
    if (td_asks_for(req, "Accept", "application/json")) /* beyond what the protocol says */
        td_write_routes(&w, req->arena, "/v2");
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* The operator behind the path's model name, or NULL with the problem in the response. */
static const struct td_handle *find_model(struct td_request *req)
{
    const char *name = req->var[0];
    const struct td_handle *handle = !strncmp(name, "op.", 3) ? td_registry_find(name + 3) : NULL;
    if (!handle)
        td_api_problem(req, -ENOENT,
                       "no model '%.80s'; operators are models called op.NAME, as in "
                       "op.add",
                       name);
    else if (req->var[1] && strcmp(req->var[1], "1")) {
        td_api_problem(req, -ENOENT, "%s has no version '%.20s'; it has 1", name, req->var[1]);
        handle = NULL;
    }
    return handle;
}

static void write_io(struct td_writer *w, const char *key, const struct td_param *param, int n,
                     bool outputs)
{
    td_write_open(w, key, '[');
    for (int i = 0; i < n; i++) {
        if (param[i].type.base != TD_BASE_Tensor)
            continue;
        char name[TD_NAME_SIZE + 2];
        snprintf(name, sizeof name, "%s%s", param[i].name,
                 *param[i].name && param[i].type.list ? ".0" : "");
        if (!*name && n == 1 && !param[i].type.list)
            strcpy(name, "out");
        else if (!*name)
            snprintf(name, sizeof name, "out%d", i);
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", name);
        td_write_str(w, "datatype", "FP32");
        td_write_open(w, "shape", '[');
        td_write_int(w, NULL, -1);
        td_write_close(w, ']');
        if (!outputs && (param[i].has_default || td_type_takes_none(&param[i].type)))
            td_write_bool(w, "optional", true);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

int td_api_v2_model(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = find_model(req);
    if (!handle)
        return -ENOENT;
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_open(&w, "versions", '[');
    td_write_str(&w, NULL, "1");
    td_write_close(&w, ']');
    td_write_str(&w, "platform", "tensord_op");
    write_io(&w, "inputs", handle->schema.param, handle->schema.n_params, false);
    write_io(&w, "outputs", handle->schema.ret, handle->schema.n_returns, true);
    td_write_open(&w, "properties", '{');
    td_write_str(&w, "schema", handle->op->schema);
    td_write_close(&w, '}');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_v2_model_ready(struct td_request *req, struct td_response *res)
{
    if (!find_model(req))
        return -ENOENT;
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

int td_api_v2_infer(struct td_request *req, struct td_response *res)
{
    (void)res;
    if (!find_model(req))
        return -ENOENT;
    return td_api_infer(req, req->var[0] + 3, req->var[0]);
}
