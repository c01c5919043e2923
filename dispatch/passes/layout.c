/* Convolutions run with channels last, and what is between them goes along: libraries compute these
 * without rearranging anything. A value then has a twin, which is the same with its dimensions in
 * the order n, h, w, c; whoever wants the one where only the other is there gets it by a permute.
 */
#include "dispatch/passes/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct td_tensor last_of(const struct td_tensor *t)
{
    struct td_tensor last = *t;
    last.shape[1] = t->shape[2];
    last.shape[2] = t->shape[3];
    last.shape[3] = t->shape[1];
    last.weight = NULL;
    return last;
}

/* ---- values and steps ---- */

/* Has arrays tell of all values that there are. */
static int follow(struct layout *l)
{
    int n = l->plan->n_values;
    if (n <= l->room)
        return 0;
    int room = 2 * n;
    int *twin = realloc(l->twin, sizeof *twin * (size_t)room);
    if (twin)
        l->twin = twin;
    bool *plain = realloc(l->plain, sizeof *plain * (size_t)room);
    if (plain)
        l->plain = plain;
    int *now = realloc(l->now, sizeof *now * (size_t)room);
    if (now)
        l->now = now;
    if (!twin || !plain || !now)
        return -ENOMEM;
    for (int i = l->room; i < room; i++) {
        l->twin[i] = -1;
        l->plain[i] = true;
        l->now[i] = i;
    }
    l->room = room;
    return 0;
}

/* A new value of that type and shape; -ENOMEM. */
static int new_value(struct layout *l, const struct td_tensor *t)
{
    int value = td_plan_add_value(l->plan, t, -1, 0);
    int err = value < 0 ? value : follow(l);
    return err ? err : value;
}

/* Puts a step behind those that are there; its results are made by it then. */
int td_layout_append(struct layout *l, const struct td_plan_step *step)
{
    int s = td_plan_add_step(l->plan, step);
    for (int i = 0; s >= 0 && i < step->n_outs; i++)
        l->plan->value[step->value + i].step = s;
    return s < 0 ? s : 0;
}

static int append_permute(struct layout *l, int from, int to, bool last, const char *node)
{
    static const int64_t orders[2][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}};
    struct td_plan_step step = {
        .handle = l->permute, .node = node, .n_args = 2, .n_uses = 1, .n_outs = 1, .value = to};
    step.arg = td_arena_zalloc(l->plan->arena, 2 * sizeof *step.arg);
    step.use = td_arena_zalloc(l->plan->arena, sizeof *step.use);
    if (!step.arg || !step.use)
        return -ENOMEM;
    step.arg[0].value = (struct td_value){.kind = TD_KIND_tensor, .tensor = *td_like(l, from)};
    step.arg[1].value = (struct td_value){.kind = TD_KIND_ints, .ints = {.n = 4}};
    memcpy(step.arg[1].value.ints.v, orders[last], sizeof orders[last]);
    *step.use = (struct td_plan_use){.arg = 0, .element = -1, .value = from};
    return td_layout_append(l, &step);
}

/* Has the value itself be there, for one that reads it as *value: of one pixel the twin is as good.
 */
static int need_plain(struct layout *l, int *value, const char *node)
{
    int v = *value;
    if (l->plain[v])
        return 0;
    if (td_is_pixel(td_like(l, v))) {
        *value = l->twin[v];
        return 0;
    }
    l->plain[v] = true;
    return append_permute(l, l->twin[v], v, false, node);
}

int td_layout_twin(struct layout *l, int value, const char *node)
{
    if (l->twin[value] >= 0)
        return l->twin[value];
    struct td_tensor last = last_of(td_like(l, value));
    int twin = new_value(l, &last);
    int err = twin < 0 ? twin : append_permute(l, value, twin, true, node);
    if (!err)
        l->twin[value] = twin;
    return err ? err : twin;
}

/* The step's result is made as its twin alone. */
int td_layout_give_twin(struct layout *l, struct td_plan_step *step)
{
    struct td_tensor last = last_of(td_like(l, step->value));
    int value = step->value, twin = new_value(l, &last);
    if (twin < 0)
        return twin;
    l->twin[value] = twin;
    l->plain[value] = false;
    step->value = twin;
    return td_layout_append(l, step);
}

bool td_layout_is_whole(const struct layout *l, const struct td_plan_use *use,
                        const struct td_tensor *as)
{
    return !use->offset && td_tensor_is_like(td_like(l, use->value), as);
}

/* A permute from one order to the other is but another name; 1: to channels last, 2: from it. */
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

static int stay(struct layout *l, const struct td_plan_step *step)
{
    int err = 0;
    for (int k = 0; k < step->n_uses && !err; k++)
        err = need_plain(l, &step->use[k].value, step->node);
    return err ? err : td_layout_append(l, step);
}

/* Where a step of the old ones goes: a permute away, most as they are, the others turned. */
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

static bool has_conv(const struct layout *l)
{
    for (int s = 0; s < l->plan->n_steps; s++)
        if (l->plan->step[s].handle && td_layout_is_conv(l, &l->plan->step[s]))
            return true;
    return false;
}

int td_pass_layout(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    (void)model;
    struct layout l = {.plan = plan,
                       .permute = td_registry_find("permute"),
                       .conv = td_registry_find("conv2d_channels_last"),
                       .mean = td_registry_find("mean.dim")};
    int err = 0;
    if (has_conv(&l)) {
        err = follow(&l);
        l.old = plan->step;
        l.n_old = plan->n_steps;
        plan->step = NULL;
        plan->n_steps = plan->steps_room = 0;
        for (int s = 0; s < l.n_old && !err; s++)
            err = l.old[s].handle ? place(&l, &l.old[s], pass) : 0;
        for (int i = 0; i < plan->n_outputs && !err; i++) {
            int *value = &plan->output[i].value;
            *value = *value < 0 ? -1 : l.now[*value];
            err = *value < 0 ? 0 : need_plain(&l, value, "");
        }
        free(l.old);
    }
    free(l.twin);
    free(l.plain);
    free(l.now);
    return err;
}
