/* What the files of the pass share: values with their twins, and the steps that go along.
 * Internal to the pass. */
#ifndef TD_DISPATCH_PASS_LAYOUT_H
#define TD_DISPATCH_PASS_LAYOUT_H

#include "dispatch/passes/passes.h"

struct layout {
    struct td_plan *plan;
    struct td_plan_step *old; /* as they were; the plan's own are the new ones */
    int n_old, room;          /* of values that twin and plain tell of */
    int *twin;                /* by value; -1: none */
    bool *plain;              /* the value itself is there */
    int *now;                 /* the value that stands for it */
    const struct td_handle *permute, *conv, *mean;
};

static inline const struct td_tensor *td_like(const struct layout *l, int value)
{
    return &l->plan->value[value].like;
}

/* One pixel, for all images or each: its channels lie in the same order either way. */
static inline bool td_is_pixel(const struct td_tensor *t)
{
    return (t->rank == 4 || (t->rank == 3 && t->shape[0] > 1)) && t->shape[t->rank - 1] == 1 &&
           t->shape[t->rank - 2] == 1;
}

/* ---- layout_values.c ---- */

/* Has arrays tell of all values that there are. -ENOMEM. */
int td_layout_follow(struct layout *l);
/* Has the value itself be there, for one that reads it as *value: of one pixel the twin is as good.
 * -ENOMEM. */
int td_layout_need_plain(struct layout *l, int *value, const char *node);

/* Whether the use is all of its value, in its shape. */
bool td_layout_is_whole(const struct layout *l, const struct td_plan_use *use,
                        const struct td_tensor *as);
/* The value's twin, if need be made of it; -ENOMEM. */
int td_layout_twin(struct layout *l, int value, const char *node);
/* Puts a step behind those that are there: as it is, or with its result as its twin alone. -ENOMEM.
 */
int td_layout_append(struct layout *l, const struct td_plan_step *step);
int td_layout_give_twin(struct layout *l, struct td_plan_step *step);

/* ---- layout_steps.c ---- */

/* The step is a convolution that can be turned. */
bool td_layout_is_conv(const struct layout *l, const struct td_plan_step *step);
/* Turns the step, where it goes along, and puts it behind those that are there: 1, or 0 where it
 * does not; -ENOMEM. */
int td_layout_turn(struct layout *l, struct td_plan_step *step);

#endif
