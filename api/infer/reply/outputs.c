/* The results of a call: their names, the form in which each goes back, and those that are kept in
 * the server: out= of ATen ({"name":"out","parameters":{"tensor":"NAME"}}) and calls in place. A
 * stored tensor never changes under those who read it: a result is computed beside it and takes its
 * name when it is whole. */
#include "api/access/access.h"
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- stored results ---- */

/* The stored tensor that argument number `place` came from, or NULL. */
static const char *stored_argument(struct td_infer *in, int place, struct td_weight **weight)
{
    const char *called = in->run.handle->schema.param[place].name;
    for (int i = 0; i < in->n_args; i++)
        if (in->stored[i].name &&
            (in->args[i].name ? !strcmp(in->args[i].name, called) : i == place)) {
            *weight = in->stored[i].weight;
            return in->stored[i].name;
        }
    return NULL;
}

/* Result i is to take the name. expected: replaced only while it is still this one; or NULL. */
static int store(struct td_infer *in, int i, const char *name, struct td_weight *expected)
{
    if (!td_tensors_name_is_right(name))
        return td_infer_refuse(
            &in->run.problem, in->output[i].name,
            "parameters.tensor must be letters, digits and . _ - in segments split by /");
    int err = td_access_name(in->req, in->output[i].name, name, &in->run.problem);
    if (err)
        return err;
    for (int k = 0; k < in->n_outputs; k++)
        if (k != i && in->output[k].form == TD_FORM_stored && !strcmp(in->output[k].store, name))
            return td_infer_refuse(&in->run.problem, in->output[i].name,
                                   "parameters.tensor is that of another output, too");
    in->output[i].form = TD_FORM_stored;
    in->output[i].store = name;
    in->output[i].expected = expected;
    return 0;
}

/* As ATen's out: an existing tensor keeps its type, and takes the result's shape. A model's result,
 * whose type is known only when it has run, replaces any. */
static int store_out(struct td_infer *in, int i, const char *name)
{
    struct td_weight *old = td_tensors_find(in->req->service->tensors, name);
    int err = store(in, i, name, NULL);
    if (old && !err && !in->served && td_weight_tensor(old)->dtype != in->out[i].dtype)
        err = in->n_outputs == 1 ? td_run_convert(&in->run, td_weight_tensor(old)->dtype)
                                 : td_infer_refuse(&in->run.problem, in->output[i].name,
                                                   "the stored tensor there is of another type");
    td_weight_unref(&old);
    return err;
}

int td_infer_place_stored(struct td_infer *in)
{
    struct td_tensors *store = in->req->service->tensors;
    for (int i = 0; i < in->n_outputs; i++) {
        struct td_tensor *out = &in->out[i];
        if (in->output[i].form != TD_FORM_stored || td_infer_is_counted(in, i))
            continue;
        int err = td_tensors_make(store, td_access_room(in->req), &in->output[i].made, out);
        if (err)
            return td_tensors_no_room(store, err, "the result", &in->run.problem);
        out->data = td_weight_tensor(in->output[i].made)->data;
    }
    return 0;
}

/* A result whose size is known only now. */
static int store_counted(struct td_infer *in, int i)
{
    struct td_tensors *store = in->req->service->tensors;
    const struct td_tensor *out = &in->out[i];
    int err = td_tensors_make(store, td_access_room(in->req), &in->output[i].made, out);
    if (err)
        return td_tensors_no_room(store, err, "the result", &in->run.problem);
    memcpy(td_weight_tensor(in->output[i].made)->data, out->data, td_nbytes(out));
    return 0;
}

int td_infer_store(struct td_infer *in)
{
    struct td_tensors *store = in->req->service->tensors;
    struct td_tensors_new *list = NULL;
    for (int i = 0; i < in->n_outputs; i++) {
        if (in->output[i].form == TD_FORM_stored && td_infer_is_counted(in, i)) {
            int err = store_counted(in, i);
            if (err)
                return err;
        }
        if (!in->output[i].made)
            continue;
        struct td_tensors_new *one = &in->output[i].entry;
        *one = (struct td_tensors_new){list, in->output[i].store, in->output[i].made,
                                       in->output[i].expected};
        in->output[i].made = NULL; /* put takes it */
        list = one;
    }
    int err = list ? td_tensors_put(store, list) : 0;
    if (err == -EBUSY)
        return td_problem_set(&in->run.problem, EBUSY,
                              "%s: the stored tensor was replaced while the call ran; nothing has "
                              "been changed, send it again",
                              list->name);
    return err < 0 ? td_tensors_no_room(store, err, "the result", &in->run.problem) : 0;
}

void td_infer_close_gaps(struct td_infer *in)
{
    in->binary_size = 0;
    for (int i = 0; i < in->n_outputs; i++)
        if (in->output[i].form == TD_FORM_binary) {
            in->output[i].offset = in->binary_size;
            in->binary_size += td_streams_bytes(in, i);
        }
}

/* ---- names and forms ---- */

static const char *output_name(struct td_infer *in, int i)
{
    const char *name = in->served ? in->served->output[i].name : td_run_result_name(&in->run, i);
    return name ? name : td_arena_printf(in->req->arena, "out%d", i);
}

static int settle_output(struct td_infer *in, const cJSON *parameters, int i)
{
    const cJSON *binary = td_json_member(parameters, "binary_data"),
                *tensor = td_json_member(parameters, "tensor");
    bool is_binary = binary ? cJSON_IsTrue(binary) : in->binary_output;
    if (binary && !cJSON_IsBool(binary))
        return td_infer_refuse(&in->run.problem, "binary_data", "must be true or false");
    if (tensor && !cJSON_IsString(tensor))
        return td_infer_refuse(&in->run.problem, in->output[i].name,
                               "parameters.tensor must be the name to store the result under");
    bool texts = td_infer_gives_texts(in, i);
    in->output[i].form = is_binary && !texts ? TD_FORM_binary : TD_FORM_json;
    if (texts && (tensor || td_shm_is_meant(parameters)))
        return td_infer_refuse(&in->run.problem, in->output[i].name,
                               "is of texts, which go back in JSON alone");
    if (!!tensor + td_shm_is_meant(parameters) + in->run.in_place > 1)
        return td_infer_refuse(&in->run.problem, in->output[i].name, "can go to one place only");
    if (tensor)
        return store_out(in, i, tensor->valuestring);
    if (!td_shm_is_meant(parameters))
        return 0;
    in->output[i].form = TD_FORM_shared;
    return td_shm_output(&in->shm, in->req, parameters, in->output[i].name, i, in->eval,
                         &in->run.problem);
}

static int wanted_output(struct td_infer *in, const cJSON *item)
{
    static const char *const members[] = {"name", "parameters", NULL};
    static const char *const known[] = {"tensor",
                                        "binary_data",
                                        "shared_memory_region",
                                        "shared_memory_byte_size",
                                        "shared_memory_offset",
                                        NULL};
    const cJSON *name = td_json_member(item, "name"),
                *parameters = td_json_member(item, "parameters");
    int err = td_json_members(item, "outputs", members, &in->run.problem);
    if (err || (err = td_json_members(parameters, "outputs", known, &in->run.problem)))
        return err;
    if (!cJSON_IsString(name))
        return td_infer_refuse(&in->run.problem, "outputs", "every output needs a name");
    for (int i = 0; i < in->n_outputs; i++)
        if (td_infer_is_port(in->output[i].name, name->valuestring))
            return in->output[i].form == TD_FORM_none
                       ? settle_output(in, parameters, i)
                       : td_infer_refuse(&in->run.problem, in->output[i].name,
                                         "is asked for twice");
    bool any = in->n_outputs;
    return td_problem_set(&in->run.problem, EINVAL, "outputs: %s has no '%.60s'; %s%s",
                          td_infer_called(in), name->valuestring,
                          any ? "the first is called " : "here it has none",
                          any ? in->output[0].name : "");
}

int td_infer_begin_outputs(struct td_infer *in)
{
    int n = in->served ? in->served->all_outputs : in->run.call.n_out;
    in->output = td_arena_zalloc(in->req->arena, (size_t)n * sizeof *in->output + 1);
    if (!in->output)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the request");
    in->n_outputs = n;
    if (!in->served)
        in->out = in->run.call.out;
    return 0;
}

/* Whether output i is state that nobody has asked for by its name. */
static bool is_kept(const struct td_infer *in, int i)
{
    const struct td_served *served = in->served;
    return served && (i >= served->n_outputs || (in->session.session && served->state_out[i] >= 0));
}

static int settle_in_place(struct td_infer *in, int i)
{
    struct td_weight *weight;
    int place = td_run_place(&in->run, i);
    if (place < 0) {
        in->output[i].form = TD_FORM_none;
        return 0;
    }
    const char *name = stored_argument(in, place, &weight);
    return name ? store(in, i, name, weight)
                : td_infer_refuse(
                      &in->run.problem, in->run.handle->schema.param[place].name,
                      "in place it must be a stored tensor: {\"parameters\":{\"tensor\":NAME}}");
}

int td_infer_outputs(struct td_infer *in)
{
    const cJSON *item;
    bool all = !in->outputs || !cJSON_GetArraySize(in->outputs);
    int err = td_infer_begin_outputs(in);
    if (err)
        return err;
    if (in->meta)
        td_run_hide_counted(&in->run);
    for (int i = 0; i < in->n_outputs; i++) {
        in->output[i].name = output_name(in, i);
        if (!in->output[i].name)
            return td_problem_set(&in->run.problem, ENOMEM, "no memory");
        in->output[i].form = !all || is_kept(in, i)                              ? TD_FORM_none
                             : in->binary_output && !td_infer_gives_texts(in, i) ? TD_FORM_binary
                                                                                 : TD_FORM_json;
    }
    cJSON_ArrayForEach(item, in->outputs)
    {
        if ((err = wanted_output(in, item)))
            return err;
    }
    for (int i = 0; in->meta && i < in->n_outputs; i++) /* shapes only */
        in->output[i].form = in->output[i].form == TD_FORM_none ? TD_FORM_none : TD_FORM_json;
    for (int i = 0; in->run.in_place && !in->meta && i < in->n_outputs && !err; i++)
        err = settle_in_place(in, i);
    return err;
}

/* ---- what the reply says of them ---- */

/* Result i, or what one part has of it: t, called name. */
static void write_result(struct td_infer *in, struct td_writer *w, int i, const char *name,
                         const struct td_tensor *t)
{
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_str(w, "datatype", td_infer_type_name(in, i));
    td_infer_write_shape(in, w, t);
    if (td_infer_gives_texts(in, i) && !in->meta) {
        td_write_open(w, "data", '[');
        td_infer_write_texts(in, w, t, false);
        td_write_close(w, ']');
    } else if (in->output[i].form == TD_FORM_binary) {
        td_write_open(w, "parameters", '{');
        td_write_int(w, "binary_data_size", (int64_t)td_nbytes(t));
        td_write_close(w, '}');
    } else if (in->output[i].form == TD_FORM_stored) {
        td_write_open(w, "parameters", '{');
        td_write_str(w, "tensor", in->output[i].store);
        td_write_close(w, '}');
    } else if (!in->meta && in->output[i].form != TD_FORM_shared) {
        td_write_data(w, t);
    }
    td_write_close(w, '}');
}

static void write_output(struct td_infer *in, struct td_writer *w, int i)
{
    char name[TD_NAME_SIZE + 16];
    struct td_tensor part;
    if (!in->streams.apart)
        write_result(in, w, i, in->output[i].name, &in->out[i]);
    for (int k = 0; k < in->streams.parts && in->streams.apart; k++) {
        snprintf(name, sizeof name, "%s[%d]", in->output[i].name, k);
        td_streams_result(in, i, k, &part);
        write_result(in, w, i, name, &part);
    }
}

void td_infer_write_front(struct td_infer *in, struct td_writer *w)
{
    if (in->brief) {
        td_infer_write_brief(in, w);
        return;
    }
    td_write_open(w, NULL, '{');
    td_write_str(w, "model_name", in->model);
    td_write_str(w, "model_version", "1");
    if (in->id)
        td_write_str(w, "id", in->id);
    td_write_open(w, "outputs", '[');
    for (int i = 0; i < in->n_outputs; i++)
        if (in->output[i].form != TD_FORM_none)
            write_output(in, w, i);
    td_write_close(w, ']');
}
