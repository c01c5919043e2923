/* A call whose body is a .npy file: its only tensor, everything else is left to the defaults, or
 * stands in the query; and a reply that is one. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

/* As which argument. NULL: problem says why there is none. */
static const char *name_of(const struct td_infer *in, struct td_problem *problem)
{
    const struct td_handle *h = in->served ? NULL : td_registry_find(in->op);
    bool one = h && strcmp(in->op, h->schema.name) != 0;
    if (in->served && in->served->n_inputs == 1)
        return in->served->input[0].name;
    if (in->served) {
        td_problem_set(problem, EINVAL,
                       "the body: a .npy is one tensor, and %.80s has the inputs %s", in->model,
                       td_infer_list_ports(in));
        return NULL;
    }
    for (; h; h = one ? NULL : h->next)
        if (h->schema.n_params && h->schema.param[0].type.base == TD_BASE_Tensor &&
            !h->schema.param[0].type.list)
            return h->schema.param[0].name;
    td_problem_set(problem, EINVAL,
                   "the body: a .npy is one tensor, which %.80s does not begin with", in->op);
    return NULL;
}

int td_infer_read_npy(struct td_infer *in, struct td_problem *problem)
{
    struct td_value v = {.kind = TD_KIND_tensor};
    td_keyset keys = 0;
    if (!in->served && !td_registry_find(in->op))
        return td_problem_set(problem, ENOENT,
                              "no operator '%.60s'; GET /v1/ops lists what there is", in->op);
    const char *name = name_of(in, problem);
    const struct td_model_port *port = in->served && name ? td_infer_find_port(in, name) : NULL;
    if (port && port->texts)
        return td_infer_refuse(problem, name, "takes texts, which a .npy has not; JSON is right");
    int err = name ? td_read_npy(in->req, &v.tensor, problem) : -EINVAL;
    in->brief = true;
    in->typed = true;
    if (err)
        return err;
    v.tensor.data = td_arena_align(in->req->arena, v.tensor.data, td_nbytes(&v.tensor),
                                   td_dtype_size(v.tensor.dtype));
    if (!v.tensor.data)
        return td_problem_set(problem, ENOMEM, "no memory for %s", name);
    err = td_check_bools(&v.tensor, name, problem);
    if (!err)
        err = td_infer_keys(in, NULL, &v.tensor, name, &keys, problem);
    return err ? err : td_infer_add(in, name, &v, keys, problem);
}

int td_infer_check_npy(struct td_infer *in)
{
    char head[TD_NPY_HEAD];
    int n = 0, last = 0;
    for (int i = 0; i < in->n_outputs; i++)
        if (in->output[i].form == TD_FORM_binary ||
            (in->output[i].form == TD_FORM_json && td_infer_gives_texts(in, i))) {
            n++;
            last = i;
        }
    if (n != 1 || in->streams.apart)
        return td_problem_set(
            &in->run.problem, EINVAL,
            "Accept: a .npy is one tensor, and %.80s gives %d; outputs can name one",
            td_infer_called(in), n);
    if (td_infer_gives_texts(in, last))
        return td_problem_set(&in->run.problem, EINVAL, "Accept: a .npy has no texts");
    if (in->out[last].dtype && !td_npy_head(&in->out[last], head))
        return td_problem_set(&in->run.problem, EINVAL, "Accept: a .npy has no %s",
                              td_dtype_name(in->out[last].dtype));
    return 0;
}
