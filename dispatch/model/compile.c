/* From a program and the types and shapes of inputs to a plan that runs: a walk that computes
 * nothing of the inputs records the calls, passes change them, and what is left is bound and
 * placed. It takes some microseconds a node, so it is done when such inputs first come, and they
 * are computed by it. */
#include "dispatch/model/pass.h"

#include <errno.h>
#include <stdlib.h>

/* The walk's outputs are the plan's. */
static int record(struct td_walk *walk, const struct td_tensor *inputs)
{
    struct td_model *model = walk->model;
    size_t n = (size_t)model->n_inputs + (size_t)model->n_outputs;
    struct td_item *in = calloc(n + 1, sizeof *in), *out = in + model->n_inputs;
    int err = in ? td_walk_begin(walk) : -ENOMEM;
    for (int i = 0; i < model->n_inputs && !err; i++)
        err = td_record_input(walk->plan, i, &inputs[i], &in[i]);
    err = err ? err : td_walk_graph(walk, &model->graph, in, out);
    for (int i = 0; i < model->n_outputs && !err; i++)
        if (out[i].v.kind != TD_KIND_tensor)
            err = td_walk_refuse(walk, "output %d is no tensor", i);
    err = err ? err : td_record_outputs(walk, out, model->n_outputs);
    td_walk_end(walk);
    free(in);
    return err;
}

static int record_program(struct td_plan *plan, const struct td_tensor *inputs,
                          const struct td_model_call *call, struct td_problem *problem)
{
    struct td_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    walk->model = plan->of;
    walk->call = call;
    walk->problem = problem;
    walk->plan = plan;
    int err = record(walk, inputs);
    td_walk_release(walk, 0, NULL, 0);
    td_blocks_free(walk);
    free(walk->made);
    free(walk);
    return err;
}

/* What cannot be bound in the plan could be in the walk: there is no plan, for that reason. */
static int close(struct td_plan *plan, struct td_problem *problem)
{
    int err = td_passes_run(plan->of, plan);
    if (err)
        return err;
    err = td_plan_close(plan, problem);
    if (err == -EINVAL || err == -ENOSYS) {
        snprintf(plan->refused, sizeof plan->refused, "%.199s", problem->text);
        return -ECANCELED;
    }
    err = err ? err : td_plan_pin(plan->of, plan);
    return err ? err : td_plan_count(plan);
}

int td_plan_compile(struct td_plan *plan, const struct td_tensor *inputs,
                    const struct td_model_call *call, struct td_problem *problem)
{
    int err = record_program(plan, inputs, call, problem);
    err = err ? err : close(plan, problem);
    return *plan->refused ? 0 : err;
}
