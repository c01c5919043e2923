/* One tensor object of a request: its elements behind the JSON, in it, stored, or in shared memory;
 * and sizes that are unknown. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

bool td_infer_is_port(const char *port, const char *name)
{
    static const char instead[] = "\xef\xbf\xbd"; /* U+FFFD */
    const char *end = port + strlen(port);
    while (port < end) {
        int n = td_utf8_length(port, end);
        const char *right = n ? port : instead;
        size_t size = n ? (size_t)n : sizeof instead - 1;
        if (strncmp(name, right, size) != 0)
            return false;
        name += size;
        port += n ? n : 1;
    }
    return !*name;
}

int td_infer_stored(struct td_infer *in, const cJSON *object, const char *tensor, const char *who,
                    struct td_value *v, struct td_problem *problem)
{
    if (in->n_held == TD_MAX_INPUTS)
        return td_infer_refuse(problem, who, "too many stored tensors");
    struct td_weight *weight = td_tensors_find(in->req->service->tensors, tensor);
    if (!weight)
        return td_problem_set(problem, ENOENT,
                              "%s: no stored tensor '%.100s'; GET /v1/tensors lists them", who,
                              tensor);
    in->held[in->n_held++] = weight;
    in->stored[in->n_args].name = tensor;
    in->stored[in->n_args].weight = weight;
    v->tensor = *td_weight_tensor(weight);
    struct td_tensor said = v->tensor;
    int err = td_json_member(object, "shape") ? td_json_shape(object, &said, who, problem) : 0;
    if (!err && td_json_member(object, "datatype"))
        err = td_json_dtype(object, &said, who, problem);
    if (!err && (said.rank != v->tensor.rank || said.dtype != v->tensor.dtype ||
                 memcmp(said.shape, v->tensor.shape, (size_t)said.rank * sizeof *said.shape)))
        err = td_infer_refuse(problem, who, "shape or datatype differs from the stored tensor's");
    return err;
}

static int binary_input(struct td_infer *in, const cJSON *size, const char *who,
                        struct td_tensor *t, struct td_problem *problem)
{
    size_t bytes = td_nbytes(t), left = in->req->body_size - in->binary_at;
    if (in->req->json_length < 0)
        return td_infer_refuse(problem, who,
                               "binary_data_size needs the header "
                               "Inference-Header-Content-Length");
    if (!cJSON_IsNumber(size) || size->valuedouble != (double)bytes)
        return td_problem_set(
            problem, EINVAL, "%s: binary_data_size is wrong; its shape and datatype need %zu bytes",
            who, bytes);
    if (bytes > left)
        return td_problem_set(problem, EINVAL,
                              "%s: needs %zu binary bytes, but the body has %zu left", who, bytes,
                              left);
    t->data = td_arena_align(in->req->arena, in->req->body + in->binary_at, bytes,
                             td_dtype_size(t->dtype));
    if (!t->data)
        return td_problem_set(problem, ENOMEM, "no memory for %s", who);
    in->binary_at += bytes;
    return 0;
}

/* -1 is an unknown size by itself, a name the same one wherever it stands. */
static int64_t read_unknown(void *arg, const cJSON *size)
{
    struct td_infer *in = arg;
    bool any = cJSON_IsNumber(size) && size->valuedouble == -1 && !td_json_is_float(size);
    bool named =
        cJSON_IsString(size) && *size->valuestring && strlen(size->valuestring) < TD_NAME_SIZE;
    in->open |= any || named;
    if (!named)
        return any ? TD_UNKNOWN : 0;
    int i = 0;
    while (i < in->n_sizes && strcmp(in->size[i], size->valuestring) != 0)
        i++;
    if (i == TD_MAX_UNKNOWNS) /* too many, as will be said */
        return TD_UNKNOWN;
    in->size[i] = size->valuestring;
    in->n_sizes += i == in->n_sizes;
    return TD_UNKNOWN - 1 - i;
}

void td_infer_write_shape(const struct td_infer *in, struct td_writer *w, const struct td_tensor *t)
{
    td_write_open(w, "shape", '[');
    for (int i = 0; i < t->rank; i++)
        if (t->shape[i] < TD_UNKNOWN)
            td_write_str(w, NULL, in->size[TD_UNKNOWN - 1 - t->shape[i]]);
        else
            td_write_int(w, NULL, t->shape[i]);
    td_write_close(w, ']');
}

static const char *const tensor_members[] = {"name", "shape",      "datatype",
                                             "data", "parameters", NULL};
static const char *const tensor_parameters[] = {
    "tensor", "binary_data_size", "shared_memory_region", "shared_memory_byte_size",
    "device", "layout",           "requires_grad",        "shared_memory_offset",
    NULL};

int td_infer_input(struct td_infer *in, const cJSON *object, const char *name, const char *who,
                   struct td_value *v, td_keyset *keys, struct td_problem *problem)
{
    const cJSON *parameters = td_json_member(object, "parameters");
    if (parameters && !cJSON_IsObject(parameters))
        return td_infer_refuse(problem, who, "parameters must be an object");
    if (in->n_args == TD_MAX_INPUTS)
        return td_infer_refuse(problem, who, "too many arguments");
    int err = td_json_members(object, who, tensor_members, problem);
    if (err || (err = td_json_members(parameters, who, tensor_parameters, problem)))
        return err;
    const struct td_model_port *port = in->served && name ? td_infer_find_port(in, name) : NULL;
    if (port && port->texts)
        return td_infer_read_texts(in, object, who, port, &v->tensor, problem);
    const cJSON *tensor = td_json_member(parameters, "tensor"),
                *data = td_json_member(object, "data");
    const cJSON *size = td_json_member(parameters, "binary_data_size");
    bool shared = td_shm_is_meant(parameters);
    bool empty =
        !tensor && !data && !size && !shared && (in->tune || td_infer_is_meta(in, parameters));
    in->shapes_only = in->shapes_only || empty;
    if (!tensor + !data + !size + !shared != 3 && !empty)
        return td_infer_refuse(problem, who,
                               "must have exactly one of data, parameters.binary_data_size, "
                               "parameters.tensor and parameters.shared_memory_region");
    if (tensor && !cJSON_IsString(tensor))
        err =
            td_infer_refuse(problem, who, "parameters.tensor must be the name of a stored tensor");
    else if (tensor)
        err = td_infer_stored(in, object, tensor->valuestring, who, v, problem);
    else if (!(err = td_json_open_shape(object, &v->tensor, who,
                                        empty && !in->served && !in->tune ? read_unknown : NULL, in,
                                        problem)) &&
             !(err = td_json_dtype(object, &v->tensor, who, problem)) && !empty)
        err = shared
                  ? td_shm_input(&in->shm, in->req, parameters, who,
                                 in->eval || in->served || td_op_follows(in->op, name, in->n_args),
                                 &v->tensor, problem)
              : size ? binary_input(in, size, who, &v->tensor, problem)
                     : td_json_data(&in->json, object, &v->tensor, who, in->req->arena, problem);
    if (!err && (size || shared))
        err = td_check_bools(&v->tensor, who, problem);
    return err ? err : td_infer_keys(in, parameters, &v->tensor, who, keys, problem);
}
