/* What the files of the channels-last pass share. The twin of a value is the same tensor with
 * channels last, dimensions n, h, w, c. Internal to the pass. */
#ifndef TD_DISPATCH_PASS_LAYOUT_H
#define TD_DISPATCH_PASS_LAYOUT_H

#include "dispatch/passes/passes.h"

struct layout {
    struct td_plan *plan;
    struct td_plan_step *old; /* the steps before the pass; the plan has the new ones */
    int n_old, room;          /* room: elements of twin, plain and now */
    int *twin;                /* by value: its twin; -1: none */
    bool *plain;              /* by value: a step makes the value itself, not only its twin */
    int *now;                 /* by value: the value that replaces it */
    const struct td_handle *permute, *conv, *linear, *mean;
};

static inline const struct td_tensor *td_like(const struct layout *l, int value)
{
    return &l->plan->value[value].like;
}

/* Whether images have one pixel each: their elements have the same order in both layouts. */
static inline bool td_is_pixel(const struct td_tensor *t)
{
    return (t->rank == 4 || (t->rank == 3 && t->shape[0] > 1)) && t->shape[t->rank - 1] == 1 &&
           t->shape[t->rank - 2] == 1;
}

/* ---- layout_values.c ---- */

/* Grows twin, plain and now to all values of the plan. -ENOMEM. */
int td_layout_follow(struct layout *l);
/* Makes sure that a step makes the value itself, for a use of *value: appends a permute of the twin
 * if none does; if it has one pixel, the use becomes one of the twin instead. -ENOMEM. */
int td_layout_need_plain(struct layout *l, int *value, const char *node);

/* Whether the use is of the whole value in its own shape, not of a view. */
bool td_layout_is_whole(const struct layout *l, const struct td_plan_use *use,
                        const struct td_tensor *as);
/* The value's twin; appends a permute that makes it if there is none. -ENOMEM. */
int td_layout_twin(struct layout *l, int value, const char *node);
/* Appends a step to the new ones, as it is, or so that it makes only the twin of its (first)
 * result. -ENOMEM. */
int td_layout_append(struct layout *l, const struct td_plan_step *step);
int td_layout_give_twin(struct layout *l, struct td_plan_step *step);

/* ---- layout_steps.c ---- */

/* Whether the step is a convolution that can run with channels last. */
bool td_layout_is_conv(const struct layout *l, const struct td_plan_step *step);
/* Appends the step with channels last, if it can run so: 1, or 0 if it cannot and nothing is
 * appended; -ENOMEM. */
int td_layout_turn(struct layout *l, struct td_plan_step *step);

#endif
