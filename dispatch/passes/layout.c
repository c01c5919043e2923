/* Converts convolutions, and the steps between them that can be, to channels last, which libraries
 * compute without rearranging data. A value then has a twin: the same tensor with its dimensions in
 * the order n, h, w, c. A step that needs the one where only the other is computed gets it by a
 * permute. */
#include "dispatch/passes/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether a permute only makes a value of its twin or the other way round, so that it can be
 * removed: 1: to channels last, 2: from it; else 0. */
static int is_permute(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *use = td_step_use(step, 0, -1);
    const struct td_named *dims = td_step_arg(step, "dims");
    if (step->handle != l->permute || !use ||
        !td_layout_is_whole(l, use, &step->arg[0].value.tensor) || !dims ||
        dims->value.kind != TD_KIND_ints || dims->value.ints.n != 4)
        return 0;
    const int64_t *v = dims->value.ints.v;
    if (v[0] == 0 && v[1] == 2 && v[2] == 3 && v[3] == 1)
        return l->twin[use->value] >= 0;
    return v[0] == 0 && v[1] == 3 && v[2] == 1 && v[3] == 2 && l->plain[use->value] ? 2 : 0;
}

/* Appends a step as it is, with the values that it uses in the plain layout. */
static int stay(struct layout *l, const struct td_plan_step *step)
{
    int err = 0;
    for (int k = 0; k < step->n_uses && !err; k++)
        err = td_layout_need_plain(l, &step->use[k].value, step->node);
    return err ? err : td_layout_append(l, step);
}

/* Takes over an old step: a permute between twins is removed, a step that can have channels last is
 * turned, and all others are appended as they are. */
static int place(struct layout *l, struct td_plan_step *step, struct td_model_pass *pass)
{
    for (int k = 0; k < step->n_uses; k++, l->plan->visits++)
        step->use[k].value = l->now[step->use[k].value];
    int permute = is_permute(l, step);
    pass->done++;
    if (permute) {
        int from = step->use[0].value, to = step->value;
        l->twin[to] = permute == 2 ? from : l->twin[to];
        l->plain[to] = permute == 2 ? false : l->plain[to];
        l->now[to] = permute == 1 ? l->twin[from] : to;
        return 0;
    }
    int err = td_layout_turn(l, step);
    if (err)
        return err < 0 ? err : 0;
    pass->done--;
    return stay(l, step);
}

/* Whether a convolution can be turned, or has been written with channels last. */
static bool has_conv(const struct layout *l)
{
    const struct td_handle *last = td_registry_find("qlinear_conv"),
                           *real = td_registry_find("conv_integer_to_float");
    for (int s = 0; s < l->plan->n_steps; s++) {
        const struct td_plan_step *step = &l->plan->step[s];
        if (step->handle &&
            (step->handle == last || step->handle == real || td_layout_is_conv(l, step)))
            return true;
    }
    return false;
}

int td_pass_layout(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    (void)model;
    struct layout l = {.plan = plan,
                       .permute = td_registry_find("permute"),
                       .conv = td_registry_find("conv2d_channels_last"),
                       .linear = td_registry_find("linear"),
                       .mean = td_registry_find("mean.dim")};
    int err = 0;
    if (has_conv(&l)) {
        err = td_layout_follow(&l);
        l.old = plan->step;
        l.n_old = plan->n_steps;
        plan->step = NULL;
        plan->n_steps = plan->steps_room = 0;
        for (int i = 0; i < plan->n_values; i++) {
            struct td_plan_value *v = &plan->value[i];
            if (v->step >= 0 && !l.old[v->step].handle) /* of a removed step, and of no use */
                v->result = -1;
            v->step = -1;
        }
        for (int s = 0; s < l.n_old && !err; s++)
            err = l.old[s].handle ? place(&l, &l.old[s], pass) : 0;
        for (int i = 0; i < plan->n_outputs && !err; i++) {
            int *value = &plan->output[i].value;
            *value = *value < 0 ? -1 : l.now[*value];
            err = *value < 0 ? 0 : td_layout_need_plain(&l, value, "");
        }
        free(l.old);
    }
    free(l.twin);
    free(l.plain);
    free(l.now);
    return err;
}
