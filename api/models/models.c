/* The routes of models: a file as the body, listings, removal. Reading a file takes from
 * milliseconds to seconds, so a worker does it. */
#include "api/models/models.h"
#include "api/access/access.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void td_write_port(struct td_writer *w, const struct td_model_port *port, bool config,
                   bool optional)
{
    char type[TD_NAME_SIZE];
    const char *name = port->texts   ? config ? "STRING" : "BYTES"
                       : port->dtype ? td_dtype_name(port->dtype)
                                     : "";
    snprintf(type, sizeof type, "%s%s", config && *name ? "TYPE_" : "", name);
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", port->name);
    td_write_str(w, config ? "data_type" : "datatype", type);
    td_write_open(w, config ? "dims" : "shape", '[');
    for (int d = 0; d < port->rank; d++)
        td_write_int(w, NULL, port->shape[d]);
    if (port->rank < 0)
        td_write_int(w, NULL, -1);
    td_write_close(w, ']');
    if (optional)
        td_write_bool(w, "optional", true);
    td_write_close(w, '}');
}

static void write_ports(struct td_writer *w, const char *key, const struct td_model_port *port,
                        int n)
{
    td_write_open(w, key, '[');
    for (int i = 0; i < n; i++)
        td_write_port(w, &port[i], false, false);
    td_write_close(w, ']');
}

static void write_kept(struct td_writer *w, const struct td_served *served,
                       const struct td_kept *kept)
{
    const struct td_model_port port = td_kept_port(served, kept);
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", kept->name);
    td_write_str(w, "datatype", td_dtype_name(port.dtype));
    td_write_open(w, "shape", '[');
    for (int d = 0; d < port.rank; d++)
        td_write_int(w, NULL, port.shape[d]);
    td_write_close(w, ']');
    if (kept->initial.data)
        td_write_int(w, "bytes", (int64_t)td_nbytes(&kept->initial));
    td_write_str(w, "kind", td_keeping_name(kept->kind));
    td_write_str(w, "from", kept->from);
    if (kept->output >= 0 && kept->output < served->n_outputs)
        td_write_str(w, "output", served->output[kept->output].name);
    if (kept->grows >= 0)
        td_write_int(w, "grows", kept->grows);
    if (kept->kind == TD_KEEP_context) {
        td_write_int(w, "dim", kept->dim);
        td_write_int(w, "keep", kept->keep);
    }
    td_write_close(w, '}');
}

static void write_derived(struct td_writer *w, const struct td_served *served)
{
    bool open = false;
    for (int i = 0; i < served->n_inputs; i++) {
        if (!served->derives[i])
            continue;
        if (!open)
            td_write_open(w, "derived", '[');
        open = true;
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", served->input[i].name);
        td_write_str(w, "as", td_derived_name(served->derives[i]));
        td_write_str(w, "from", served->derives_said[i] ? "settings" : "name");
        td_write_close(w, '}');
    }
    if (open)
        td_write_close(w, ']');
}

static bool is_kept(const struct td_served *served, const char *input)
{
    bool kept = false;
    for (int i = 0; i < served->n_states; i++)
        kept = kept || !strcmp(served->input[served->state[i].input].name, input);
    return kept;
}

/* What a session of the model would hold. */
static void write_states(struct td_writer *w, const struct td_served *served)
{
    const char *why, *name;
    td_write_open(w, "state", '[');
    for (int i = 0; i < served->n_states; i++)
        write_kept(w, served, &served->state[i]);
    td_write_close(w, ']');
    if (served->n_states) {
        write_derived(w, served);
        td_write_int(w, "sessions", served->file->sessions);
    }
    if (!td_model_unpaired(served->model, 0, &why))
        return;
    td_write_open(w, "unpaired", '[');
    for (int i = 0; (name = td_model_unpaired(served->model, i, &why)); i++) {
        if (is_kept(served, name))
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", name);
        td_write_str(w, "why", why);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

static void write_model(struct td_writer *w, const char *name, const struct td_served *served)
{
    const struct td_model *model = served->model;
    const char *why;
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_str(w, "format", td_model_format(model));
    td_write_int(w, "bytes", (int64_t)(served->bytes + td_model_bytes(model)));
    td_write_int(w, "file_bytes", (int64_t)served->file_bytes);
    td_write_int(w, "nodes", td_model_count_nodes(model));
    td_write_us(w, "load_us", served->load_ns);
    td_write_int(w, "calls", served->calls);
    td_write_us(w, "compute_us", served->compute_ns);
    write_ports(w, "inputs", served->input, served->n_inputs);
    write_ports(w, "outputs", served->output, served->n_outputs);
    if (served->n_states || td_model_unpaired(served->model, 0, &why))
        write_states(w, served);
    td_write_close(w, '}');
}

#define LISTED 1000 /* bytes of a model's text, about */

int td_api_models_list(struct td_request *req, struct td_response *res)
{
    struct td_models *models = req->service->models;
    const struct td_budget *budget = td_tensors_budget(req->service->tensors);
    struct td_models_listed *list;
    struct td_writer w;
    if (td_api_is_bulk(req, LISTED * (size_t)td_models_count(models), 0))
        return td_api_hand_over(req);
    int n = td_models_list(models, req->arena, &list);
    if (n < 0)
        return td_api_problem(req, n, "no memory for the list");
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "models", '[');
    for (int i = 0; i < n; i++) {
        write_model(&w, list[i].name, list[i].served);
        td_served_unref(&list[i].served);
    }
    td_write_close(&w, ']');
    td_write_open(&w, "store", '{');
    td_write_int(&w, "bytes", (int64_t)budget->used);
    td_write_int(&w, "limit_bytes", (int64_t)budget->limit);
    td_write_close(&w, '}');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_no_model(struct td_request *req)
{
    struct td_problem problem;
    int err = td_models_unknown(req->service->models, req->arena, req->var[0], &problem);
    return td_api_problem(req, err, "%s", problem.text);
}

/* Takes the reference. */
static int answer(struct td_request *req, struct td_response *res, struct td_served *served,
                  int status)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    write_model(&w, req->var[0], served);
    td_served_unref(&served);
    return td_write_response(&w, res, status);
}

int td_api_models_get(struct td_request *req, struct td_response *res)
{
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    return served ? answer(req, res, served, 200) : td_api_no_model(req);
}

int td_api_models_delete(struct td_request *req, struct td_response *res)
{
    struct td_problem problem;
    int err = td_access_name(req, "the model", req->var[0], &problem);
    if (err)
        return td_api_problem(req, err, "%s", problem.text);
    if (td_models_remove(req->service->models, req->var[0]))
        return td_api_no_model(req);
    res->status = 204;
    return 0;
}

int td_api_models_put(struct td_request *req, struct td_response *res)
{
    struct td_problem problem;
    const char *sessions;
    if (!td_models_name_is_right(req->var[0]))
        return td_api_problem(req, -EINVAL,
                              "'%.60s': a model's name is letters, digits and . _ -, at most 200, "
                              "and does not begin with op., which operators do",
                              req->var[0]);
    int err = td_access_name(req, "the model", req->var[0], &problem);
    if (err)
        return td_api_problem(req, err, "%s", problem.text);
    if ((err = td_api_query(req, "sessions", &sessions)))
        return err;
    if (sessions && strcmp(sessions, "end") != 0 && strcmp(sessions, "keep") != 0)
        return td_api_problem(req, -EINVAL,
                              "sessions: must be end (those of a file before this one) or keep");
    if (!req->body_size)
        return td_api_problem(req, -EINVAL,
                              "the body is empty; it must be an ONNX file or a PyTorch archive "
                              "(.pt2), as curl -T FILE sends it");
    if (!req->worker)
        return td_api_hand_over(req);
    const struct td_model_file file = {req->body, req->body_size, req->arena, req->beside};
    struct td_served *served;
    int status = td_models_load(req->service->models, td_access_room(req), req->var[0], &file,
                                &served, &problem);
    if (status < 0)
        return td_api_problem(req, status, "%s", problem.text);
    if (sessions && !strcmp(sessions, "end"))
        td_models_end_old(req->service->models, req->var[0]);
    return answer(req, res, served, status);
}
