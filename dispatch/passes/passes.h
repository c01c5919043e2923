/* Optimization passes. They run over a recorded plan before its steps are bound; each rewrites
 * steps to fewer or faster ones, counts these, and notes steps that it left alone, and why. This
 * folder uses plan/, walk/ and program/; model/ runs the passes. */
#ifndef TD_DISPATCH_PASS_H
#define TD_DISPATCH_PASS_H

#include "dispatch/plan/plan.h"

/* Runs the passes in order, all or up to plan->root->until. -ENOMEM. */
int td_passes_run(struct td_model *model, struct td_plan *plan);

/* The number of passes that run up to and with the named one: 0 for "record", the plan before all
 * passes; all for NULL; -1: there is no such pass. */
int td_passes_until(const char *name);

#define TD_PASS_NAMES 200 /* bytes of all names, separated by commas */
/* Writes the names that td_passes_until takes. */
void td_passes_list(char names[TD_PASS_NAMES]);

/* Runs a pass: 0 or -ENOMEM. */
typedef int td_pass_run(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass);
td_pass_run td_pass_clean, td_pass_fold_norm, td_pass_idiom, td_pass_layout, td_pass_product,
    td_pass_post, td_pass_views;

/* ---- steps.c ---- */

/* Notes that the pass leaves a step as it is, and why (a constant text). */
void td_pass_refuse(struct td_model_pass *pass, const struct td_plan_step *step, const char *why);

/* The step's argument for the operator's parameter of that name; NULL: it is not given. */
struct td_named *td_step_arg(const struct td_plan_step *step, const char *name);
/* The tensor by which the step sees the value that it uses. */
struct td_tensor *td_step_tensor(const struct td_plan_step *step, const struct td_plan_use *use);
/* The value that this argument is; -1 if it is a constant, or only a view of a value. */
int td_step_value(const struct td_plan *plan, const struct td_plan_step *step, const char *name);
/* The argument of that name if it is a constant tensor in FP32; else NULL. */
const struct td_tensor *td_step_constant(const struct td_plan_step *step, const char *name);
/* The number that the argument is, also as such a tensor of one element; otherwise if it is
 * neither. */
double td_step_number(const struct td_plan_step *step, const char *name, double otherwise);
bool td_step_is(const struct td_plan_step *step, const char *const *names); /* any of these */
/* Sets or adds an argument; recording left room for two more. */
void td_step_set(struct td_plan_step *step, const char *name, const struct td_value *value);

/* The number of uses of each value, by steps and outputs; NULL: no memory. The caller frees it. */
int *td_plan_count_readers(const struct td_plan *plan);

struct td_plan_readers { /* by value */
    int *n;              /* the number of its uses, by steps and outputs */
    int *step;           /* the last that uses it; -1: an output does */
};
int td_plan_find_readers(const struct td_plan *plan, struct td_plan_readers *readers); /* -ENOMEM */
void td_plan_free_readers(struct td_plan_readers *readers); /* also after a find that failed */

/* Replacements of values by others (at an offset, in bytes), for a pass that goes through the steps
 * in order: the uses of each step are replaced when the pass reaches it, and the outputs at the
 * end. */
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
void td_renames_end(struct td_renames *renames); /* also after a begin that failed */

/* Dead code elimination: removes steps without uses of any result; how many, or -ENOMEM. */
int td_plan_leave_unread(struct td_plan *plan);

/* ---- derived.c ---- */

/* Constants that passes compute from the model's constants, once for all its plans. */
struct td_derived {
    struct td_derived *next;
    struct td_derived_key {         /* compared as bytes; members that are not used are 0 */
        const void *of[6];          /* the data of the constants that they are computed from */
        int64_t shape[TD_MAX_RANK]; /* the shape that of[0] has there */
        int64_t transposed;         /* 1: it is a transposed convolution's */
        double number;
    } key;
    struct td_weight *weight[2];
};
/* Finds the derived constants with this key, or NULL; or adds some, with the references to their
 * weights: NULL: no memory. With the model's lock_ held. */
const struct td_derived *td_derived_find(const struct td_model *model,
                                         const struct td_derived_key *key);
const struct td_derived *td_derived_add(struct td_model *model, const struct td_derived *derived);
void td_derived_free(struct td_model *model);

#endif
