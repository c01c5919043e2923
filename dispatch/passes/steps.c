/* Functions that passes share: finding a step's arguments by name, counting uses of values, and
 * replacing values. */
#include "dispatch/passes/passes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void td_pass_refuse(struct td_model_pass *pass, const struct td_plan_step *step, const char *why)
{
    if (pass->n_refused < TD_MODEL_REFUSED) {
        pass->refused[pass->n_refused].node = step->node;
        pass->refused[pass->n_refused].why = why;
    }
    pass->n_refused++;
}

/* ---- steps ---- */

/* The index of the argument with this name, or -1. */
static int find_arg(const struct td_plan_step *step, const char *name)
{
    const struct td_schema *schema = &step->handle->schema;
    for (int i = 0; i < step->n_args; i++) {
        const char *is = step->arg[i].name ? step->arg[i].name : schema->param[i].name;
        if (!strcmp(is, name))
            return i;
    }
    return -1;
}

struct td_named *td_step_arg(const struct td_plan_step *step, const char *name)
{
    int i = find_arg(step, name);
    return i < 0 ? NULL : &step->arg[i];
}

struct td_tensor *td_step_tensor(const struct td_plan_step *step, const struct td_plan_use *use)
{
    struct td_value *v = &step->arg[use->arg].value;
    return use->element < 0 ? &v->tensor : &v->tensors.v[use->element];
}

int td_step_value(const struct td_plan *plan, const struct td_plan_step *step, const char *name)
{
    int i = find_arg(step, name);
    const struct td_plan_use *use = i < 0 ? NULL : td_step_use(step, i, -1);
    if (!use || use->offset)
        return -1;
    const struct td_tensor *t = &step->arg[i].value.tensor;
    return !t->stride && td_tensor_is_like(t, &plan->value[use->value].like) ? use->value : -1;
}

const struct td_tensor *td_step_constant(const struct td_plan_step *step, const char *name)
{
    int i = find_arg(step, name);
    if (i < 0 || td_step_use(step, i, -1) || step->arg[i].value.kind != TD_KIND_tensor)
        return NULL;
    const struct td_tensor *t = &step->arg[i].value.tensor;
    return t->dtype == TD_f32 ? t : NULL;
}

double td_step_number(const struct td_plan_step *step, const char *name, double otherwise)
{
    const struct td_tensor *t = td_step_constant(step, name);
    if (t && td_numel(t) == 1)
        return (double)*(const float *)t->data;
    const struct td_named *arg = td_step_arg(step, name);
    return arg && td_is_number(&arg->value) ? td_scalar(&arg->value) : otherwise;
}

bool td_step_is(const struct td_plan_step *step, const char *const *names)
{
    for (; step->handle && *names; names++)
        if (!strcmp(step->handle->schema.name, *names))
            return true;
    return false;
}

void td_step_set(struct td_plan_step *step, const char *name, const struct td_value *value)
{
    int i = find_arg(step, name);
    if (i < 0) {
        i = step->n_args++;
        step->arg[i].name = name;
        step->arg[i].keys = 0;
    }
    step->arg[i].value = *value;
}

/* ---- values ---- */

int *td_plan_count_readers(const struct td_plan *plan)
{
    int *readers = calloc((size_t)plan->n_values + 1, sizeof *readers);
    for (int s = 0; s < plan->n_steps && readers; s++)
        for (int k = 0; plan->step[s].handle && k < plan->step[s].n_uses; k++)
            readers[plan->step[s].use[k].value]++;
    for (int i = 0; i < plan->n_outputs && readers; i++)
        if (plan->output[i].value >= 0)
            readers[plan->output[i].value]++;
    return readers;
}

int td_plan_find_readers(const struct td_plan *plan, struct td_plan_readers *readers)
{
    readers->n = td_plan_count_readers(plan);
    readers->step = calloc((size_t)plan->n_values + 1, sizeof *readers->step);
    if (!readers->n || !readers->step)
        return -ENOMEM;
    for (int s = 0; s < plan->n_steps; s++)
        for (int k = 0; plan->step[s].handle && k < plan->step[s].n_uses; k++)
            readers->step[plan->step[s].use[k].value] = s;
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0)
            readers->step[plan->output[i].value] = -1;
    return 0;
}

void td_plan_free_readers(struct td_plan_readers *readers)
{
    free(readers->n);
    free(readers->step);
}

int td_renames_begin(struct td_renames *renames, struct td_plan *plan)
{
    renames->plan = plan;
    renames->now = calloc((size_t)plan->n_values + 1, sizeof *renames->now);
    for (int i = 0; i < plan->n_values && renames->now; i++)
        renames->now[i].value = i;
    return renames->now ? 0 : -ENOMEM;
}

void td_renames_set(struct td_renames *renames, int old, int now, size_t offset)
{
    renames->now[old] = (struct td_rename){now, offset};
}

static void rename_value(const struct td_renames *renames, int *value, size_t *offset)
{
    const struct td_rename *now = &renames->now[*value];
    *value = now->value;
    *offset += now->offset;
    renames->plan->visits++;
}

void td_renames_step(const struct td_renames *renames, struct td_plan_step *step)
{
    for (int k = 0; step->handle && k < step->n_uses; k++)
        rename_value(renames, &step->use[k].value, &step->use[k].offset);
}

void td_renames_end(struct td_renames *renames)
{
    struct td_plan *plan = renames->plan;
    for (int i = 0; i < plan->n_outputs && renames->now; i++)
        if (plan->output[i].value >= 0)
            rename_value(renames, &plan->output[i].value, &plan->output[i].offset);
    free(renames->now);
    renames->now = NULL;
}

int td_plan_leave_unread(struct td_plan *plan)
{
    int left = 0;
    int *readers = td_plan_count_readers(plan);
    for (int s = plan->n_steps - 1; s >= 0 && readers; s--) {
        struct td_plan_step *step = &plan->step[s];
        int read = !step->handle;
        for (int i = 0; i < step->n_outs; i++)
            read += readers[step->value + i];
        if (read)
            continue;
        for (int k = 0; k < step->n_uses; k++)
            readers[step->use[k].value]--;
        step->handle = NULL;
        left++;
    }
    left = readers ? left : -ENOMEM;
    free(readers);
    return left;
}
