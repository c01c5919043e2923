/* One run of a model: by a plan, which is made where there is none yet for such inputs, or by a
 * walk where there can be none. */
#include "dispatch/model/pass.h"

#include <errno.h>
#include <stdlib.h>

struct td_model_results {
    struct td_walk walk;  /* holds the results' memory, but for a plan's */
    struct td_plan *plan; /* that has run, with the results; or NULL */
    bool walked;          /* results may lie in the model's constants */
    int n;
    struct td_item item[];
};

/* The program, node by node. */
static int walk_program(struct td_model_results *r, const struct td_tensor *inputs)
{
    struct td_walk *walk = &r->walk;
    struct td_model *model = walk->model;
    struct td_item *in = calloc((size_t)model->n_inputs + 1, sizeof *in);
    int err = in ? td_walk_begin(walk)
                 : td_problem_set(walk->problem, ENOMEM, "no memory for the model's run");
    for (int i = 0; i < model->n_inputs && !err; i++)
        in[i].v = (struct td_value){.kind = TD_KIND_tensor, .tensor = inputs[i]};
    err = err ? err : td_walk_graph(walk, &model->graph, in, r->item);
    for (int i = 0; i < r->n && !err; i++)
        if (r->item[i].v.kind != TD_KIND_tensor)
            err = td_walk_refuse(walk, "output %d is no tensor", i);
    td_walk_end(walk);
    free(in);
    return err;
}

#define NODE_NS 20000 /* that a plan's making takes a node, at most as a rule */

/* Whether the answer would be late if a plan had to be made for it. */
static bool is_late(const struct td_model *model, const struct td_model_call *call)
{
    int64_t deadline = call->stop ? call->stop->deadline_ns : 0;
    return deadline && deadline - td_clock_ns() < (int64_t)model->n_nodes * NODE_NS;
}

/* The plan for these inputs, made where there is none yet; *plan NULL: they are to be walked. What
 * td_plan_compile says. */
static int find_plan(struct td_model *model, const struct td_tensor *inputs,
                     const struct td_model_call *call, struct td_plan **plan,
                     struct td_problem *problem)
{
    bool is_new = true, decides = true;
    int err = 0;
    *plan = NULL;
    while (decides && !call->eager && !is_late(model, call) &&
           (*plan = td_plan_take(model, inputs, call, &is_new)) && is_new) {
        td_model_wake(model);
        err = td_plan_compile(*plan, inputs, call, problem);
        td_model_walked(model);
        decides = (*plan)->decides;
        bool refused = *(*plan)->refused;
        if (err || decides)
            td_plan_drop(model, *plan, inputs, call);
        else
            td_plan_add(model, *plan);
        if (err || decides || refused)
            *plan = NULL;
        if (err == -ENOMEM) { /* for the plan; a walk takes less, and the next plan has room */
            td_model_shed(model);
            err = 0;
        }
    }
    return err;
}

/* What td_model_run says, or -EAGAIN: the team is crowded. */
static int run_once(struct td_model *model, const struct td_tensor *inputs,
                    const struct td_model_call *call, struct td_model_results **results,
                    struct td_problem *problem)
{
    struct td_model_results *r = calloc(1, sizeof *r + sizeof *r->item * (size_t)model->n_outputs);
    *results = NULL;
    if (!r)
        return td_problem_set(problem, ENOMEM, "no memory for the model's run");
    r->walk = (struct td_walk){.model = td_model_ref(model), .call = call, .problem = problem};
    r->n = model->n_outputs;
    const struct td_stop *before = td_stop_obeyed;
    if (call->stop)
        td_stop_obey(call->stop);
    int err = find_plan(model, inputs, call, &r->plan, problem);
    if (!err && r->plan)
        err = td_plan_execute(r->plan, inputs, &r->walk.figures, problem);
    if (err == -ENOMEM && r->plan) { /* for its values side by side; a walk has few at a time */
        td_plan_leave(model, r->plan);
        r->plan = NULL;
        err = 0;
    }
    if (!err && !r->plan) {
        r->walked = true;
        td_model_wake(model);
        err = walk_program(r, inputs);
    }
    td_stop_obey(before);
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
    return results->plan ? &results->plan->output[i].tensor : &results->item[i].v.tensor;
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
    if (r->plan)
        td_plan_leave(r->walk.model, r->plan);
    if (r->walked)
        td_model_walked(r->walk.model);
    td_model_unref(&r->walk.model);
    free(r);
}
