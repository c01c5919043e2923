/* Names of outputs, and states as ports. What a stored tensor holds is an input, in place of a
 * constant, and what becomes of it an output; both stand behind the file's own. What becomes of an
 * input of the user's that the graph writes is an output, too. */
#include "dispatch/pt2/ports.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static bool is_taken(const struct td_pt2_ports *p, const char *name)
{
    for (int i = 0; i < p->n_out; i++)
        if (!strcmp(p->out[i].name, name))
            return true;
    return false;
}

char *td_pt2_output_name(struct td_pt2_ports *p, const char *name)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%.240s", name);
    for (int more = p->n_out; !n || is_taken(p, text); more++)
        n = snprintf(text, sizeof text, "%.200s.%d", *name ? name : "output", more);
    return td_program_text(p->graph->pt2->model, text, (size_t)n);
}

/* A state between two ports; its output is made here, a stored one's input as well. */
static int add_state(struct td_pt2_ports *p, struct td_pt2_value *value, const char *name,
                     const struct td_model_port *like, int becomes)
{
    struct td_model *model = p->graph->pt2->model;
    struct td_model_state *s = &model->state[model->n_states++];
    p->output[p->n_out] = becomes;
    p->out[p->n_out] = *like;
    p->out[p->n_out].name = td_pt2_output_name(p, name);
    *s = (struct td_model_state){
        .name = p->out[p->n_out].name, .output = p->n_out, .grows = -1, .from = "input"};
    for (int i = 0; i < p->n_in && !value->stored; i++)
        if (p->name[i].value == value)
            s->input = i;
    model->n_hidden_out++;
    p->n_out++;
    return s->name ? 0 : td_pt2_no_memory(p->graph->pt2);
}

/* What a stored tensor holds becomes an input, which the program had as a constant. */
static int stored_state(struct td_pt2_ports *p, struct td_pt2_value *value)
{
    struct td_model *model = p->graph->pt2->model;
    struct td_constant *initial = &model->initial[model->n_states];
    if (td_program_take_out(model, value->loaded, initial))
        return td_problem_set(p->graph->pt2->problem, EINVAL, "'%.80s' is state in two ways",
                              value->stored->string);
    struct td_model_port *port = &p->in[p->n_in];
    *port = (struct td_model_port){.dtype = initial->tensor.dtype, .rank = initial->tensor.rank};
    memcpy(port->shape, initial->tensor.shape, sizeof port->shape);
    int err = add_state(p, value, value->stored->string, port, value->becomes);
    struct td_model_state *s = &model->state[model->n_states - 1];
    port->name = s->name;
    p->input[p->n_in] = value->loaded;
    s->input = p->n_in++;
    s->from = value->kind;
    s->needed = true;
    s->initial = initial->tensor;
    s->initial.weight = NULL; /* no weight: it is another in each call */
    model->n_hidden_in++;
    return err;
}

/* An input that the graph writes, by its nodes or by the signature. */
static int written_input(struct td_pt2_ports *p, int i)
{
    struct td_pt2_value *value = p->name[i].value;
    int number = value->becomes, err = 0;
    bool is_tensor = p->input[i] == p->given[i], said = number >= 0;
    if (!is_tensor || !(said || value->version))
        return 0;
    err = said ? 0 : td_pt2_current(p->graph, value, &number);
    return err ? err : add_state(p, value, p->in[i].name, &p->in[i], number);
}

int td_pt2_add_states(struct td_pt2_ports *p)
{
    struct td_pt2_graph *graph = p->graph;
    struct td_model *model = graph->pt2->model;
    struct td_pt2_value **state;
    int n, err = td_pt2_find_states(graph, p->output, p->n_out, &state, &n), users = p->n_in;
    size_t most = (size_t)n + (size_t)users;
    if (err)
        return err;
    model->state = td_program_alloc(model, most * sizeof *model->state);
    model->initial = td_program_alloc(model, most * sizeof *model->initial);
    if (!model->state || !model->initial)
        return td_pt2_no_memory(graph->pt2);
    for (int i = 0; i < n && !err; i++)
        err = stored_state(p, state[i]);
    for (int i = 0; i < users && !err; i++)
        err = written_input(p, i);
    return err;
}
