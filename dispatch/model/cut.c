/* Cuts a program into plans where control flow or a size depends on a computed element: a loop's
 * condition, a number of rows. There the plan that is being recorded ends and is run, the element
 * is read, and another plan begins that is valid for this value. So a program becomes a tree of
 * plans, of which a run takes one path: at the end of each plan the value selects the next. For a
 * value that is new, the program is walked once more, past the plans that have run, and recorded
 * from there on.
 *
 * Later plans may use the values that items still refer to where a plan ends. These become the
 * plan's outputs, and keep their memory as long as the tree exists. */
#include "dispatch/plan/plan.h"

#include <assert.h>
#include <errno.h>

/* Makes the recorded tensors that still have references, and the wanted item, plan outputs. */
static int give_out(struct td_walk *walk, const struct td_item *wanted)
{
    struct td_plan *plan = walk->plan;
    size_t most = (size_t)(walk->n_recorded - walk->first_recorded);
    plan->output = td_arena_zalloc(plan->arena, sizeof *plan->output * (most + 1));
    plan->number = td_arena_zalloc(plan->arena, sizeof *plan->number * (most + 1));
    if (!plan->output || !plan->number)
        return -ENOMEM;
    for (int i = walk->first_recorded; i < walk->n_recorded; i++) {
        struct td_recorded *r = &walk->recorded[i];
        if (r->input >= 0 || (!r->block && i + 1 != wanted->recorded))
            continue;
        plan->number[plan->n_outputs] = i;
        plan->output[plan->n_outputs] =
            (struct td_plan_output){.tensor = r->like, .value = r->value};
        r->of = plan;
        r->output = plan->n_outputs++;
    }
    return 0;
}

/* Ends the plan where the item's elements have to be known, and runs it. */
static int end_plan(struct td_walk *walk, const struct td_item *item)
{
    struct td_plan *plan = walk->plan;
    int err = give_out(walk, item);
    const struct td_recorded *r = &walk->recorded[item->recorded - 1];
    plan->wanted = (struct td_plan_wanted){.number = item->recorded,
                                           .input = r->input,
                                           .of = r->of,
                                           .output = r->output,
                                           .offset = td_record_offset(walk, item),
                                           .bytes = td_nbytes(&item->v.tensor)};
    return err ? err : td_plan_finish(walk);
}

/* Begins the next plan, for these values. */
static int begin_plan(struct td_walk *walk, const void *values)
{
    struct td_plan *before = walk->path->plan[walk->path->n - 1];
    if (walk->path->n == TD_PATH_PLANS)
        return td_record_refuse(walk, "values are looked at more often than a plan may");
    if (!(walk->plan = td_plan_create_after(before, values)))
        return -ENOMEM;
    walk->plan->beside = before->after;
    before->after = walk->plan;
    walk->first_recorded = walk->n_recorded;
    return 0;
}

/* Notes which recorded tensors are outputs of the path's plans. */
static void look_up_outputs(struct td_walk *walk)
{
    for (int k = 0; k < walk->path->n; k++) {
        const struct td_plan *plan = walk->path->plan[k];
        for (int i = 0; i < plan->n_outputs; i++) {
            walk->recorded[plan->number[i]].of = plan;
            walk->recorded[plan->number[i]].output = i;
        }
    }
}

const void *td_plan_wanted(const struct td_plan *plan, const struct td_tensor *inputs)
{
    const struct td_plan_wanted *w = &plan->wanted;
    const void *data = w->input >= 0 ? inputs[w->input].data : w->of->output[w->output].tensor.data;
    return (const char *)data + w->offset;
}

int td_record_read(struct td_walk *walk, const struct td_item *item, struct td_tensor *t)
{
    uint64_t from = walk->recorded[item->recorded - 1].from;
    if (*walk->why || walk->root->decides || td_record_is_decided(walk, from))
        return -ECANCELED;
    bool repeats = walk->at < walk->path->n;
    int err = repeats ? 0 : end_plan(walk, item);
    if (err)
        return err;
    const struct td_plan *plan = walk->path->plan[walk->at++];
    assert(plan->wanted.number == item->recorded && plan->wanted.bytes == td_nbytes(t));
    if (walk->at < walk->path->n) { /* a later turn may have overwritten the output */
        t->data = walk->path->plan[walk->at]->values;
        return 0;
    }
    t->data = (void *)td_plan_wanted(plan, walk->inputs);
    if (repeats)
        look_up_outputs(walk);
    return begin_plan(walk, t->data);
}
