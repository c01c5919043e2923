/* Passes over a plan that has been recorded, before its steps are bound: each makes fewer or better
 * steps of those that there are, and notes what it did and what it left, and why. This
 * folder uses plan/, walk/ and program/; model/ has the passes run. */
#ifndef TD_DISPATCH_PASS_H
#define TD_DISPATCH_PASS_H

#include "dispatch/plan/plan.h"

/* Runs all of them, in their order, or those up to plan->root->until. -ENOMEM. */
int td_passes_run(struct td_model *model, struct td_plan *plan);

#define TD_PASS_NAMES 200 /* bytes of all names, in their order, with commas between */
/* How many run up to the one of that name: 0 for "record", which stands for what is there before
 * them; all for NULL; -1: there is none. names: TD_PASS_NAMES bytes. */
int td_passes_until(const char *name, char *names, size_t bytes);

/* One: 0 or -ENOMEM. */
typedef int td_pass_run(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass);
td_pass_run td_pass_clean, td_pass_fold_norm, td_pass_idiom, td_pass_layout, td_pass_post,
    td_pass_views;

/* ---- steps.c ---- */

/* The pass leaves a step as it is, for a reason (a constant text). */
void td_pass_refuse(struct td_model_pass *pass, const struct td_plan_step *step, const char *why);

/* The step's argument that the operator calls so; NULL: it is not given. */
struct td_named *td_step_arg(const struct td_plan_step *step, const char *name);
/* The value that is all of that argument, -1 where it is a constant, or a part of one. */
int td_step_value(const struct td_plan *plan, const struct td_plan_step *step, const char *name);
/* A tensor that is given by name and depends on no input, in FP32; else NULL. */
const struct td_tensor *td_step_constant(const struct td_plan_step *step, const char *name);
/* A number, which may be such a tensor of one element; otherwise where it is neither. */
double td_step_number(const struct td_plan_step *step, const char *name, double otherwise);
bool td_step_is(const struct td_plan_step *step, const char *const *names); /* NULL-ended */
/* Gives the step one more argument, or another: room was left for two. */
void td_step_set(struct td_plan_step *step, const char *name, const struct td_value *value);

/* How many steps and outputs read each value; NULL: no memory. The caller frees it. */
int *td_plan_count_readers(const struct td_plan *plan);

/* Values that others stand for, from an offset on, while a pass goes through the steps in their
 * order: what a step reads is renamed when the pass comes to it, and the outputs at the end. */
struct td_renames {
    struct td_plan *plan;
    struct td_rename {
        int value;
        size_t offset;
    } * now; /* by value */
};
int td_renames_begin(struct td_renames *renames, struct td_plan *plan); /* -ENOMEM */
void td_renames_set(struct td_renames *renames, int old, int now, size_t offset);
void td_renames_step(const struct td_renames *renames, struct td_plan_step *step);
void td_renames_end(struct td_renames *renames); /* after a begin that failed, too */

/* Takes out steps of whose results nobody reads any: how many, or -ENOMEM. */
int td_plan_leave_unread(struct td_plan *plan);

/* ---- derived.c ---- */

/* Constants that passes make of the model's, once for all its plans. */
struct td_derived {
    struct td_derived *next;
    struct td_derived_key { /* compared as bytes, so all that is not wanted is 0 */
        const void *of[6];  /* addresses of what they are made of, of which the first may have */
        int64_t shape[TD_MAX_RANK]; /* several shapes, */
        int64_t transposed;         /* and meanings */
        double number;
    } key;
    struct td_weight *weight[2];
};
/* The one that is there, under the model's lock_; and one more, whose weights it takes. */
const struct td_derived *td_derived_find(const struct td_model *model,
                                         const struct td_derived_key *key);
const struct td_derived *td_derived_add(struct td_model *model, const struct td_derived *derived);
void td_derived_free(struct td_model *model);

#endif
