/* A model's ports, and its states: tensors that one run leaves for the next. */
#include "dispatch/model/model.h"
#include "dispatch/program/program.h"

#include <errno.h>
#include <stdio.h>

int td_model_inputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->input;
    return model->n_inputs - model->n_hidden_in;
}

int td_model_outputs(const struct td_model *model, const struct td_model_port **ports)
{
    *ports = model->output;
    return model->n_outputs - model->n_hidden_out;
}

int td_model_all_inputs(const struct td_model *model)
{
    return model->n_inputs;
}

int td_model_all_outputs(const struct td_model *model)
{
    return model->n_outputs;
}

int td_model_states(const struct td_model *model, const struct td_model_state **states)
{
    *states = model->state;
    return model->n_states;
}

void td_model_begin_states(const struct td_model *model, struct td_tensor *inputs)
{
    for (int i = 0; i < model->n_states; i++)
        if (model->state[i].needed)
            inputs[model->state[i].input] = model->state[i].initial;
}

const char *td_model_unpaired(const struct td_model *model, int i, const char **why)
{
    if (i >= model->n_unpaired)
        return NULL;
    *why = model->unpaired[i].why;
    return model->unpaired[i].name;
}

/* ---- checking ---- */

/* "[?, 3, 224]" */
static void write_shape(char *text, size_t size, const int64_t *shape, int rank)
{
    size_t at = (size_t)snprintf(text, size, "[");
    for (int d = 0; d < rank && at < size; d++)
        at += (size_t)(shape[d] < 0 ? snprintf(text + at, size - at, "%s?", d ? ", " : "")
                                    : snprintf(text + at, size - at, "%s%lld", d ? ", " : "",
                                               (long long)shape[d]));
    if (at < size)
        snprintf(text + at, size - at, "]");
}

static bool has_shape(const struct td_model_port *port, const struct td_tensor *t)
{
    bool right = port->rank < 0 || port->rank == t->rank;
    for (int d = 0; d < port->rank && right; d++)
        right = port->shape[d] < 0 || port->shape[d] == t->shape[d];
    return right;
}

int td_model_check_port(const struct td_model_port *port, const struct td_tensor *t,
                        struct td_problem *problem)
{
    char is[200], right[200];
    if (port->dtype && t->dtype != port->dtype)
        return td_problem_set(problem, EINVAL, "%.80s: must be %s, but is %s", port->name,
                              td_dtype_name(port->dtype), td_dtype_name(t->dtype));
    if (has_shape(port, t))
        return 0;
    write_shape(right, sizeof right, port->shape, port->rank);
    write_shape(is, sizeof is, t->shape, t->rank);
    return td_problem_set(problem, EINVAL, "%.80s: must have the shape %s, but has %s", port->name,
                          right, is);
}

int td_model_check(const struct td_model *model, const struct td_tensor *inputs, int n,
                   struct td_problem *problem)
{
    if (n != model->n_inputs)
        return td_problem_set(problem, EINVAL, "inputs: the model has %d, but %d were given",
                              model->n_inputs, n);
    int err = 0;
    for (int i = 0; i < n && !err; i++)
        err = td_model_check_port(&model->input[i], &inputs[i], problem);
    return err;
}
