/* One run of a model: by a plan that is there, else by a walk, of which a plan may be recorded. */
#include "dispatch/model/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

struct td_model_results {
    struct td_walk walk;  /* holds the results' memory, but for a plan's */
    struct td_plan *plan; /* that has run, or is recorded: results may lie in it; or NULL */
    bool walked;          /* results may lie in the model's constants */
    bool failed;          /* there are none */
    int n;
    struct td_item item[];
};

/* The program, node by node; a plan is recorded where the walk has one. */
static int walk_program(struct td_model_results *r, const struct td_tensor *inputs)
{
    struct td_walk *walk = &r->walk;
    struct td_model *model = walk->model;
    struct td_item *in = calloc((size_t)model->n_inputs + 1, sizeof *in);
    int err = in ? td_walk_begin(walk)
                 : td_problem_set(walk->problem, ENOMEM, "no memory for the model's run");
    for (int i = 0; i < model->n_inputs && !err; i++) {
        bool fixed = walk->plan && walk->plan->fixed[i];
        in[i].v = (struct td_value){.kind = TD_KIND_tensor,
                                    .tensor = fixed ? walk->plan->input[i] : inputs[i]};
        err = walk->plan ? td_record_input(walk->plan, i, &in[i]) : 0;
    }
    err = err ? err : td_walk_graph(walk, &model->graph, in, r->item);
    for (int i = 0; i < r->n && !err; i++)
        if (r->item[i].v.kind != TD_KIND_tensor)
            err = td_walk_refuse(walk, "output %d is no tensor", i);
    if (!err && walk->plan)
        err = td_record_outputs(walk, r->item, r->n);
    td_walk_end(walk);
    free(in);
    return err;
}

/* A plan without steps that says why; NULL: no memory. */
static struct td_plan *say_why(struct td_plan *refused, const char *why)
{
    const struct td_model_call call = {.threads = refused->threads, .node = refused->node};
    uint64_t fix = 0;
    for (int i = 0; i < refused->n_inputs; i++)
        fix |= refused->fixed[i] ? td_input_bit(i) : 0;
    struct td_plan *plan = td_plan_create(refused->of, refused->input, &call, fix);
    if (plan)
        snprintf(plan->refused, sizeof plan->refused, "%.199s", why);
    return plan;
}

/* What was recorded becomes one of the model's plans, or the reason why there is none, which is no
 * failure of the run. That takes as long as some walks do: it is done once nobody waits for the
 * results any more. */
static void close_plan(struct td_model *model, struct td_plan *plan)
{
    struct td_problem problem;
    const char *why = plan->refused;
    int err = *why ? 0 : td_passes_run(model, plan);
    if (!err && !*why) {
        err = td_plan_close(plan, &problem);
        why = err && err != -ENOMEM ? problem.text : why;
    }
    if (!err)
        err = *why ? 0 : td_plan_pin(model, plan);
    if (!err && !*why)
        err = td_plan_count(plan);
    struct td_plan *instead = *why ? say_why(plan, why) : NULL;
    if (instead)
        td_plan_free(&plan);
    if (instead || (!err && !*why))
        td_plan_add(model, instead ? instead : plan);
    else
        td_plan_drop(model, plan, true);
}

/* What td_model_run says, or -EAGAIN: the team is crowded. */
static int run_once(struct td_model *model, const struct td_tensor *inputs,
                    const struct td_model_call *call, struct td_model_results **results,
                    struct td_problem *problem)
{
    struct td_model_results *r = calloc(1, sizeof *r + sizeof *r->item * (size_t)model->n_outputs);
    bool is_new = false;
    *results = NULL;
    if (!r)
        return td_problem_set(problem, ENOMEM, "no memory for the model's run");
    r->walk = (struct td_walk){.model = td_model_ref(model), .call = call, .problem = problem};
    r->n = model->n_outputs;
    struct td_plan *plan = call->eager ? NULL : td_plan_take(model, inputs, call, &is_new);
    const struct td_stop *before = td_stop_obeyed;
    if (call->stop)
        td_stop_obey(call->stop);
    r->plan = plan;
    r->walk.plan = is_new ? plan : NULL;
    r->walked = is_new || !plan;
    if (r->walked)
        td_model_wake(model);
    int err = plan && !is_new ? td_plan_execute(plan, inputs, &r->walk.figures, problem)
                              : walk_program(r, inputs);
    if (is_new && !err && plan->decides)
        td_plans_fix(model, plan->decides, inputs, call);
    td_stop_obey(before);
    r->failed = err;
    if (err)
        td_model_free_results(&r);
    *results = r;
    return err;
}

int td_model_run(struct td_model *model, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_results **results,
                 struct td_problem *problem)
{
    int err = run_once(model, inputs, call, results, problem);
    if (err != -EAGAIN)
        return err;
    struct td_model_call alone = *call; /* soon, when the others come and go for milliseconds */
    alone.threads = 1;
    return run_once(model, inputs, &alone, results, problem);
}

const struct td_tensor *td_model_result(const struct td_model_results *results, int i)
{
    return results->plan && !results->walk.plan ? &results->plan->output[i].tensor
                                                : &results->item[i].v.tensor;
}

void td_figures_count(struct td_model_figures *figures, enum td_isa isa, enum td_dtype compute_type)
{
    figures->isa = isa > figures->isa ? isa : figures->isa;
    if (!figures->calls)
        figures->compute_type = compute_type;
    else if (figures->compute_type != compute_type)
        figures->compute_type = TD_DTYPE_none;
    figures->calls++;
}

struct td_model_figures td_model_figures(const struct td_model_results *results)
{
    return results->walk.figures;
}

void td_model_free_results(struct td_model_results **results)
{
    struct td_model_results *r = *results;
    *results = NULL;
    if (!r)
        return;
    td_walk_release(&r->walk, 0, NULL, 0);
    td_blocks_free(&r->walk);
    free(r->walk.made);
    if (r->plan && !r->walk.plan)
        td_plan_leave(r->walk.model, r->plan);
    else if (r->plan && (r->failed || r->plan->decides || r->plan->starved))
        td_plan_drop(r->walk.model, r->plan, r->plan->starved);
    else if (r->plan)
        close_plan(r->walk.model, r->plan);
    if (r->walked)
        td_model_walked(r->walk.model);
    td_model_unref(&r->walk.model);
    free(r);
}
