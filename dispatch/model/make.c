/* Records the plans for inputs of given types and shapes by a walk of the program: one, or where
 * control flow depends on values (cut.c) one after another. */
#include "dispatch/call/own.h"
#include "dispatch/plan/plan.h"

#include <errno.h>
#include <stdlib.h>

static const struct td_recorder recorder = {.call = td_record_call, .read = td_record_read};

/* Walks the program. Its outputs become those of the last plan. */
static int record(struct td_walk *walk)
{
    struct td_model *model = walk->model;
    size_t n = (size_t)model->n_inputs + (size_t)model->n_outputs;
    struct td_item *in = calloc(n + 1, sizeof *in), *out = in + model->n_inputs;
    int err = in ? td_walk_begin(walk) : -ENOMEM;
    for (int i = 0; i < model->n_inputs && !err; i++)
        err = td_record_input(walk, i, &in[i]);
    err = err ? err : td_walk_graph(walk, &model->graph, in, out);
    for (int i = 0; i < model->n_outputs && !err; i++)
        if (out[i].v.kind != TD_KIND_tensor)
            err = td_walk_refuse(walk, "output %d is no tensor", i);
    err = err ? err : td_record_outputs(walk, out, model->n_outputs);
    td_walk_end(walk);
    free(in);
    return err ? err : td_plan_finish(walk);
}

/* Frees a plan that was begun and not finished, and unlinks it from its parent. */
static void drop_unfinished(struct td_plan *plan, const struct td_path *path)
{
    struct td_plan *before = path->n ? path->plan[path->n - 1] : NULL;
    if (!plan || !before || plan == before || plan == plan->root)
        return;
    before->after = plan->beside; /* it is the first child */
    td_plan_free(&plan);
}

int td_plan_make(struct td_plan *root, struct td_path *path, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_figures *figures, char *why,
                 struct td_problem *problem)
{
    struct td_walk *walk = calloc(1, sizeof *walk);
    if (!walk)
        return -ENOMEM;
    *walk = (struct td_walk){.model = root->of,
                             .call = call,
                             .problem = problem,
                             .recorder = &recorder,
                             .root = root,
                             .plan = path->n ? NULL : root,
                             .why = why,
                             .path = path,
                             .inputs = inputs};
    walk->figures = *figures;
    td_trials_begin();
    int err = record(walk);
    td_trials_end();
    *figures = walk->figures;
    td_walk_release(walk, 0, NULL, 0);
    td_blocks_free(walk);
    drop_unfinished(walk->plan, path);
    free(walk->recorded);
    free(walk->made);
    free(walk);
    return *why || root->decides ? 0 : err;
}
