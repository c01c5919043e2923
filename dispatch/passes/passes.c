/* The list of passes, in order, and the first of them: it removes steps that change nothing. */
#include "dispatch/passes/passes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    td_pass_run *run;
} passes[] = {
    {"clean", td_pass_clean},      {"fold_batch_norm", td_pass_fold_norm},
    {"idioms", td_pass_idiom},     {"channels_last", td_pass_layout},
    {"products", td_pass_product}, {"post_ops", td_pass_post},
    {"views", td_pass_views},
};

#define PASSES ((int)(sizeof passes / sizeof *passes))

int td_passes_until(const char *name)
{
    int until = !name ? PASSES : !strcmp(name, "record") ? 0 : -1;
    for (int i = 0; i < PASSES && name; i++)
        until = !strcmp(name, passes[i].name) ? i + 1 : until;
    return until;
}

void td_passes_list(char names[TD_PASS_NAMES])
{
    int n = snprintf(names, TD_PASS_NAMES, "record");
    for (int i = 0; i < PASSES; i++)
        n += snprintf(names + n, TD_PASS_NAMES - (size_t)n, ", %s", passes[i].name);
}

int td_passes_run(struct td_model *model, struct td_plan *plan)
{
    int n = td_passes_until(plan->root->until), err = 0;
    plan->pass = td_arena_zalloc(plan->arena, sizeof *plan->pass * (size_t)(n + 1));
    if (!plan->pass)
        return -ENOMEM;
    for (int i = 0; i < n && !err; i++) {
        plan->pass[i].name = passes[i].name;
        plan->n_passes = i + 1;
        err = passes[i].run(model, plan, &plan->pass[i]);
    }
    return err;
}

/* ---- clean ---- */

/* Operators whose result has the elements of self if it has its type and number of elements. */
static const char *const same[] = {
    "clone",   "contiguous", "alias",           "detach",     "dropout",     "to",     "_to_copy",
    "cast",    "type_as",    "lift_fresh_copy", "alias_copy", "detach_copy", "expand", "view",
    "reshape", NULL};

static bool changes_nothing(const struct td_plan *plan, const struct td_plan_step *step)
{
    const struct td_plan_use *use = td_step_use(step, 0, -1);
    if (!td_step_is(step, same) || step->n_outs != 1 || !use)
        return false;
    const struct td_tensor *in = &step->arg[0].value.tensor, *out = &plan->value[step->value].like;
    return in->dtype == out->dtype && td_numel(in) == td_numel(out);
}

int td_pass_clean(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    struct td_renames renames;
    int err = td_renames_begin(&renames, plan);
    (void)model;
    for (int s = 0; s < plan->n_steps && !err; s++) {
        struct td_plan_step *step = &plan->step[s];
        td_renames_step(&renames, step);
        if (!changes_nothing(plan, step))
            continue;
        const struct td_plan_use *use = td_step_use(step, 0, -1);
        td_renames_set(&renames, step->value, use->value, use->offset);
        step->handle = NULL;
        pass->done++;
    }
    td_renames_end(&renames);
    if (err)
        return err;
    int left = td_plan_leave_unread(plan);
    pass->done += left > 0 ? left : 0;
    return left < 0 ? left : 0;
}
