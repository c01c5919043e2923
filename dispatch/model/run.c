/* Runs a model: by a plan, which is made if there is none yet for such inputs, or by a walk of the
 * program if no plan can be made. */
#include "dispatch/passes/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct td_model_results {
    struct td_walk walk;  /* owns the results' memory if there is no plan */
    struct td_plan *plan; /* the first that has run, left when the results are freed; or NULL */
    struct td_path path;  /* it and those that followed; the outputs of the last are the results */
    bool walked;          /* the program was walked, so results may lie in the model's constants */
    int n;
    struct td_item item[];
};

static void leave_plans(struct td_model_results *r)
{
    if (r->plan)
        td_plan_leave(r->walk.model, r->plan, &r->path);
    r->plan = NULL;
}

/* Runs the program node by node, without a plan. */
static int walk_program(struct td_model_results *r, const struct td_tensor *inputs)
{
    struct td_walk *walk = &r->walk;
    struct td_model *model = walk->model;
    struct td_item *in = calloc((size_t)model->n_inputs + 1, sizeof *in);
    int err = in ? td_walk_begin(walk) : td_walk_no_room(walk, "the model's run");
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

#define NODE_NS 20000 /* that making a plan takes for each node, as a rule at most */

/* Whether the run might miss its deadline if a plan had to be made. */
static bool is_late(const struct td_model *model, const struct td_model_call *call)
{
    int64_t deadline = call->stop ? call->stop->deadline_ns : 0;
    return deadline && deadline - td_clock_ns() < (int64_t)model->n_nodes * NODE_NS;
}

/* Makes and runs a plan for such inputs, or the plans that follow the path's. *walks: no plan can
 * be made, so the caller walks the program. What td_plan_make returns. */
static int make(struct td_model_results *r, struct td_plan *root, const struct td_tensor *inputs,
                bool *walks)
{
    struct td_walk *walk = &r->walk;
    struct td_model *model = walk->model;
    bool is_new = !r->path.n;
    char why[TD_PLAN_WHY] = "";
    td_model_wake(model);
    int err = td_plan_make(root, &r->path, inputs, walk->call, &walk->figures, why, walk->problem);
    td_model_walked(model);
    *walks = *why || err == -ENOMEM; /* a walk needs less memory */
    if (!is_new)
        td_plan_end_more(model, root, why);
    else if (err || root->decides) {
        r->plan = NULL;
        r->path.n = 0;
        td_plan_drop(model, root, inputs, walk->call);
    } else {
        memcpy(root->refused, why, sizeof why);
        if (*why)
            td_plan_clear(root);
        r->plan = *why ? NULL : root;
        r->path.n = *why ? 0 : r->path.n;
        td_plan_add(model, root);
    }
    if (err == -ENOMEM)
        td_model_shed(model);
    return *walks ? 0 : err;
}

/* Runs r->plan and those that follow it; makes these if there are none for the computed values. */
static int run_plans(struct td_model_results *r, const struct td_tensor *inputs, bool *walks)
{
    struct td_walk *walk = &r->walk;
    struct td_plan *plan = r->plan;
    int err = 0;
    while (plan && !err) {
        err = td_plan_execute(plan, inputs, &walk->figures, walk->problem);
        err = err ? err : td_path_add(&r->path, plan);
        if (err || !plan->wanted.number)
            break;
        plan = td_plan_next(plan, inputs);
    }
    *walks = err == -ENOMEM || (!plan && !td_plan_begin_more(walk->model, r->plan));
    if (*walks)
        return 0;
    return plan || err ? err : make(r, r->plan, inputs, walks);
}

/* Runs by plans. *walks: there can be none for such inputs, so the caller walks the program. */
static int run_planned(struct td_model_results *r, const struct td_tensor *inputs, bool *walks)
{
    struct td_model *model = r->walk.model;
    const struct td_model_call *call = r->walk.call;
    bool is_new, decides;
    int err = 0;
    do {
        struct td_plan *plan =
            call->eager || is_late(model, call) ? NULL : td_plan_take(model, inputs, call, &is_new);
        *walks = !plan;
        if (!plan)
            return 0;
        r->plan = is_new ? NULL : plan;
        err = is_new ? make(r, plan, inputs, walks) : run_plans(r, inputs, walks);
        decides = is_new && !r->plan && !err && !*walks;
    } while (decides);
    return err;
}

/* Runs the model once: what td_model_run returns, or -EAGAIN: others use the team's CPUs. */
static int run_once(struct td_model *model, const struct td_tensor *inputs,
                    const struct td_model_call *call, struct td_model_results **results,
                    struct td_problem *problem)
{
    struct td_model_results *r = calloc(1, sizeof *r + sizeof *r->item * (size_t)model->n_outputs);
    bool walks;
    *results = NULL;
    if (!r)
        return td_problem_set(problem, ENOMEM, "no memory for the model's run");
    r->walk = (struct td_walk){.model = td_model_ref(model), .call = call, .problem = problem};
    r->n = model->n_outputs;
    const struct td_stop *before = td_stop_obeyed;
    if (call->stop)
        td_stop_obey(call->stop);
    int err = run_planned(r, inputs, &walks);
    if (!err && walks) {
        leave_plans(r);
        r->walk.figures = (struct td_model_figures){0};
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
    struct td_model_call alone = *call; /* at once: others may use the CPUs for milliseconds */
    alone.threads = 1;
    return run_once(model, inputs, &alone, results, problem);
}

const struct td_tensor *td_model_result(const struct td_model_results *results, int i)
{
    return results->plan ? &results->path.plan[results->path.n - 1]->output[i].tensor
                         : &results->item[i].v.tensor;
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
    leave_plans(r);
    free(r->path.plan);
    if (r->walked)
        td_model_walked(r->walk.model);
    td_model_unref(&r->walk.model);
    free(r);
}
