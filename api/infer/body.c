/* What a right body looks like, for people who have sent something else: in the sentence that
 * refuses it. */
#include "api/infer/call.h"
#include "api/openapi/openapi.h"

#include <errno.h>

#define LONGEST 240 /* bytes of an example */
#define ELEMENTS 16 /* of a tensor in it */

/* A model's inputs, as zeros; sizes that may be any are 1. False: they are too much, or texts. */
static bool write_inputs(const struct td_infer *in, struct td_writer *w)
{
    int64_t zeros[ELEMENTS] = {0};
    td_write_open(w, NULL, '{');
    for (int i = 0; i < in->served->n_inputs; i++) {
        const struct td_model_port *port = &in->served->input[i];
        struct td_tensor t = {.dtype = TD_i64, .rank = port->rank, .data = zeros};
        int64_t n = 1;
        for (int d = 0; d < port->rank && n <= ELEMENTS; d++) {
            t.shape[d] = port->shape[d] < 0 ? 1 : port->shape[d];
            n = t.shape[d] <= ELEMENTS ? n * t.shape[d] : ELEMENTS + 1;
        }
        if (port->texts || port->rank < 0 || n > ELEMENTS)
            return false;
        td_write_key(w, port->name);
        td_infer_write_plain(w, &t);
    }
    td_write_close(w, '}');
    return true;
}

/* NULL: there is none that a sentence can have. */
static const char *example_of(const struct td_infer *in)
{
    const struct td_handle *handle = in->eval || in->served ? NULL : td_op_meant(in->op);
    struct td_writer w;
    if (in->eval)
        return "{\"expr\":\"2 * x + 1\",\"x\":[1,2,3]}";
    td_write_init(&w, in->req->arena, 256);
    bool any =
        in->served ? write_inputs(in, &w) : handle && td_openapi_example(&w, NULL, handle, true);
    return any && !w.failed && w.length <= LONGEST
               ? td_arena_strdup(in->req->arena, w.text, w.length)
               : NULL;
}

int td_infer_refuse_body(const struct td_infer *in, const char *what, struct td_problem *problem)
{
    const char *example = example_of(in);
    if (!example && in->served)
        return td_problem_set(problem, EINVAL,
                              "%.300s must be a JSON object with the inputs %.400s", what,
                              td_infer_list_ports(in));
    return td_problem_set(problem, EINVAL, "%.300s must be a JSON object%s%s", what,
                          example ? ", such as " : " with the operator's arguments by their names",
                          example ? example : "");
}

int td_infer_parse(struct td_infer *in, struct td_problem *problem)
{
    struct td_request *req = in->req;
    size_t length = req->json_length >= 0 ? (size_t)req->json_length : req->body_size;
    in->shm.n_in = in->shm.n_out = 0;
    in->file =
        in->ours && !in->eval && (td_is_npy(req) || td_api_is_type(req, "application/x-npy"));
    if (in->file) {
        in->binary_at = req->body_size;
        return td_json_parse(&in->json, "{}", 2, 2, problem);
    }
    if (!length && in->ours)
        return td_infer_refuse_body(in, "the body is empty; it", problem);
    if (!length)
        return td_infer_refuse(problem, "the body", "is empty; it must be an object with inputs");
    in->binary_at = length;
    int err = td_json_cache_parse(req->service->json_cache, &in->json, req->body, length, problem);
    if (err != -EINVAL || !in->ours)
        return err;
    const char *what = td_arena_printf(req->arena, "%s; the body", problem->text);
    return what ? td_infer_refuse_body(in, what, problem) : err;
}
