/* A model's inputs by their names, and what is said of these. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* "x FP32 [-1,3], mask INT64 []", as far as a sentence takes it. */
const char *td_infer_list_ports(const struct td_infer *in)
{
    static const size_t room = 400;
    char *text = td_arena_zalloc(in->req->arena, room);
    size_t n = 0;
    for (int i = 0; text && i < in->served->n_inputs && n < room; i++) {
        const struct td_model_port *port = &in->served->input[i];
        n += (size_t)snprintf(text + n, room - n, "%s%.60s %s [%s", i ? ", " : "", port->name,
                              port->texts ? "BYTES" : td_dtype_name(port->dtype),
                              port->rank < 0 ? "..." : "");
        for (int d = 0; d < port->rank && n < room; d++)
            n += (size_t)snprintf(text + n, room - n, "%s%lld", d ? "," : "",
                                  (long long)port->shape[d]);
        if (n < room)
            n += (size_t)snprintf(text + n, room - n, "]");
    }
    return text && n ? text : "none";
}

const struct td_model_port *td_infer_find_port(const struct td_infer *in, const char *name)
{
    for (int i = 0; i < in->served->n_inputs; i++)
        if (td_infer_is_port(in->served->input[i].name, name))
            return &in->served->input[i];
    return NULL;
}

int td_infer_no_port(const struct td_infer *in, const char *name, struct td_problem *problem)
{
    int n = in->served->n_inputs;
    const char **names = td_arena_alloc(in->req->arena, (size_t)n * sizeof *names + 1);
    for (int i = 0; i < n && names; i++)
        names[i] = in->served->input[i].name;
    const char *near = names ? td_nearest(name, names, n) : NULL;
    return td_problem_set(problem, EINVAL, "inputs: %.80s has no '%.60s'; %s%.60s%sits inputs: %s",
                          in->model, name, near ? "the nearest is " : "", near ? near : "",
                          near ? "; " : "", td_infer_list_ports(in));
}
