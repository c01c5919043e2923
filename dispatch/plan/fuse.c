/* Fusion of pointwise steps that have one shape and follow one another, and of a reduction behind
 * them: they are computed tile by tile, so that intermediate values never leave the cache. */
#include "dispatch/plan/plan.h"
#include "dispatch/step/own.h"

#include <errno.h>
#include <string.h>

/* The step's unit (a kernel with its call) if it has just one; NULL: it has several or none. */
static const struct unit *unit_of(const struct td_plan_step *step)
{
    const struct unit *u = step->made->unit;
    return step->made->n_units == 1 && !u->fused && u->impl ? u : NULL;
}

/* Whether the step uses that value whole and in its own shape. */
static bool reads_whole(const struct td_plan *plan, const struct td_plan_step *step,
                        const struct td_plan_use *use)
{
    const struct td_tensor *t = &step->arg[use->arg].value.tensor;
    return use->element < 0 && !use->offset && !t->stride &&
           td_fuser_has_shape(&plan->value[use->value].like, t);
}

/* The group of the step that makes its one argument. */
static int maker_of(const struct td_plan *plan, const struct td_plan_step *step)
{
    const struct td_plan_use *use = &step->use[0];
    int maker = step->n_uses == 1 ? plan->value[use->value].step : -1;
    return maker >= 0 && reads_whole(plan, step, use) ? plan->step[maker].with : -1;
}

void td_plan_group(struct td_plan *plan)
{
    struct td_fuser f;
    f.next_only = true;
    f.n_open = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        struct td_plan_step *step = &plan->step[s];
        const struct unit *u = step->handle ? unit_of(step) : NULL;
        step->with = -1;
        for (int k = 0; u && k < step->n_uses; k++) {
            int maker = plan->value[step->use[k].value].step;
            if (maker >= 0 && !reads_whole(plan, step, &step->use[k]))
                td_fuser_close(&f, plan->step[maker].with);
        }
        if (u && td_fuser_reduce(&f, s, &step->with, &u->call, u->impl, maker_of(plan, step)))
            continue;
        if (u)
            td_fuser_place(&f, s, &step->with, &u->call, u->impl);
        else if (step->handle)
            td_fuser_end(&f);
    }
    td_fuser_end(&f);
}

/* The first step of the group that ends with the step last. */
static int first_of(const struct td_plan *plan, int last)
{
    int first = last;
    while (first > 0 && (!plan->step[first - 1].handle || plan->step[first - 1].with == last))
        first--;
    return first;
}

/* The bytes of what stays in the cache among those that the step reads and makes. */
static double inside_bytes(const struct td_plan *plan, const struct td_plan_step *step)
{
    double bytes = 0;
    for (int i = 0; i < step->n_uses; i++) {
        const struct td_plan_value *value = &plan->value[step->use[i].value];
        bytes += value->inside ? (double)td_nbytes(&value->like) : 0;
    }
    for (int i = 0; i < step->n_outs; i++) {
        const struct td_plan_value *value = &plan->value[step->value + i];
        bytes += value->inside ? (double)td_nbytes(&value->like) : 0;
    }
    return bytes;
}

struct td_work td_plan_work(const struct td_plan *plan, int last)
{
    struct td_work all = {0, 0};
    for (int s = first_of(plan, last); s <= last; s++) {
        const struct td_plan_step *step = &plan->step[s];
        if (!step->handle)
            continue;
        struct td_work work = td_step_work(step->made);
        all.operations += work.operations;
        all.bytes += work.bytes - inside_bytes(plan, step);
    }
    return all;
}

int td_plan_fuse(struct td_plan *plan, int last)
{
    struct td_fused call[TD_FUSED_MOST];
    int of[TD_FUSED_MOST], n = 0;
    for (int s = first_of(plan, last); s <= last; s++) {
        const struct td_plan_step *step = &plan->step[s];
        if (!step->handle)
            continue;
        call[n].call = &step->made->unit->call;
        call[n].impl = step->made->unit->impl;
        memset(call[n].of, -1, sizeof call[n].of);
        for (int i = 0; i < step->n_uses; i++)
            for (int k = 0; k < n; k++)
                if (of[k] == plan->value[step->use[i].value].step)
                    call[n].of[td_plan_argument(step, step->use[i].arg)] = (signed char)k;
        of[n++] = s;
    }
    struct td_fusion **fusion = &plan->step[last].fusion;
    *fusion = td_fusion_make(call, n, plan->threads, 0, td_alloc_in_arena, plan->arena);
    return *fusion ? 0 : -ENOMEM;
}
