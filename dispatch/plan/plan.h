/* Plans: what a model computes of inputs of some types and shapes, as a list of bound calls. They
 * are made before such inputs are first computed with, by a walk that computes nothing of them
 * (record.c). What does not depend on the inputs has become constants, and decisions (which branch,
 * how many times) have been taken. Where one depends on a value, a plan ends, and another one
 * follows for each value that comes (model/cut.c). This folder uses walk/ and program/; passes/
 * change a plan, and model/ makes, keeps and runs plans. */
#ifndef TD_DISPATCH_PLAN_H
#define TD_DISPATCH_PLAN_H

#include "dispatch/step/step.h"
#include "dispatch/walk/walk.h"

#define TD_PLAN_WHY 200     /* bytes of a reason */
#define TD_PLAN_STEPS 65536 /* at most: what loops unrolled becomes no endless list */

struct td_plan_value {     /* a tensor that depends on the inputs */
    struct td_tensor like; /* its data: an address of its own, which is compared only */
    int step, result;      /* which made it; step -1: it is the model's input result, or, beyond
                              these, a value from outside the plan (plan->outer) */
    int first, last; /* the steps from which and to which it is wanted; beyond all: an output */
    bool inside;     /* nobody reads it but those that are computed together with its maker */
    int over;  /* the value in whose place it lies, that of an argument it is made of; or -1 */
    size_t at; /* its place in the plan's memory, bytes */
};

struct td_plan_use {  /* a step's argument that is such a value, or a view of it: by the
                         argument's strides, from the offset on */
    int arg, element; /* of the step's; of a list, else -1 */
    int value;
    size_t offset; /* bytes */
};

struct td_plan_step {               /* a call as it was given, and bound once passes are through */
    const struct td_handle *handle; /* NULL: the step is gone */
    bool in_place;
    const char *node; /* the name of the node that it came from */
    int n_args, n_uses, n_outs;
    struct td_named *arg; /* constants have their data */
    struct td_plan_use *use;
    int value; /* its first result; the others follow */
    struct td_step *made;
    const char *kernel;         /* its row, by name */
    enum td_isa isa;            /* and by level, */
    enum td_dtype compute_type; /* and the type that it is given */
    int64_t ns;                 /* that it took in the last run, over all turns */
    int with; /* the last of those that it is computed together with; -1: it is so alone */
    struct td_fusion *fusion; /* of the last one */
    bool alone;               /* one kernel computes it of its arguments as they are */
    unsigned overwrites;     /* arguments of the call in whose place its first result may be made */
    struct td_weight *taken; /* whose packed form that read; compared only */
};

struct td_plan_pin { /* a stored tensor whose plain elements a step reads, for all that is known */
    int step;        /* -1: it is an output */
    struct td_weight *weight;
    bool packed; /* it was seen to read its packed form alone */
};

struct td_plan_output {
    struct td_tensor tensor; /* where it lies, once the plan has run */
    int value;               /* -1: it is a constant */
    size_t offset;
};

struct td_plan_taken { /* an argument of a step that is a model's input, or a view of one */
    int step;
    const struct td_plan_use *use; /* borrowed */
};

struct td_plan_outer {        /* a value from outside the plan */
    const struct td_plan *of; /* an earlier plan, whose output it is; NULL: data are its elements */
    int output;
    void *data; /* of a tensor that is known when the plan is made, and changes from turn to turn */
};

struct td_plan_wanted { /* the elements that say which plan comes next */
    int number;         /* of what was recorded, and 1 more; 0: none does, the program ends */
    int input;          /* they are in that input of the model, or if -1 */
    const struct td_plan *of;
    int output; /* in that output of a plan */
    size_t offset, bytes;
};

struct td_plan {
    struct td_plan *next; /* of the model's */
    struct td_model *of;  /* borrowed: of whose room it takes */
    /* The first one that is run, or itself, and those that come next, with their values. */
    struct td_plan *root, *after, *beside;
    void *values; /* for which it comes next */
    /* Whose steps it runs: its own, or those of an earlier plan that was recorded alike; then it
     * has outputs, but neither steps nor values (turns.c). */
    struct td_plan *by;
    uint64_t likeness[2]; /* a hash of what was recorded; 0: of a root */
    int n_more;           /* of one that others run: memory that they compute in, too */
    struct td_workspace **more;
    int turns; /* times that its steps were run in the last run */
    struct td_plan_wanted wanted;
    int *number; /* of each output, as it was recorded; where values are wanted */
    int n_outer, outer_room;
    struct td_plan_outer *outer;
    _Atomic size_t held_bytes; /* of a root: by all their arenas and lists */
    size_t counted;            /* by its own lists */
    struct td_plan *alike;     /* of the model's, with another key in the same bucket */
    uint64_t key;              /* a hash of what the inputs are like, threads and node */
    bool busy;                 /* of a root, as what follows: at work */
    uint64_t used;             /* when, by the model's clock */
    bool grows;                /* more are being made */
    int misses;                /* runs for which more were made */
    int runs;
    int threads, node;
    unsigned traps; /* rows that were barred when it was begun: it may have those that came later */
    /* What the inputs are like; of those that are fixed, the data are copies and part of it. */
    int n_inputs;
    struct td_tensor *input;
    bool *fixed;
    uint64_t large;            /* inputs that cannot be fixed, one bit each */
    char refused[TD_PLAN_WHY]; /* why there are no steps; "": there are */
    uint64_t decides;          /* refused for the values of these inputs, which can be fixed */
    const char *until; /* of a root: the pass after which it is printed, not run; NULL: it is run */
    struct td_arena *arena; /* of all that follows */
    int n_steps, steps_room, n_values, values_room, n_held, held_room, n_outputs;
    struct td_plan_step *step;
    struct td_plan_value *value;
    struct td_block **held; /* of constants */
    struct td_plan_output *output;
    struct td_plan_taken *taken;
    int n_taken;
    struct td_model_pass *pass;
    int n_passes;
    uintptr_t addresses;   /* that values have been given while it was recorded */
    unsigned char *memory; /* where its steps look for values; the workspace's once it has run */
    /* That it has, while it is at work or for good, or by->more's; or NULL. */
    struct td_workspace *workspace;
    size_t bytes, bytes_before; /* of memory, scratch apart; of all values side by side */
    size_t scratch;             /* behind them in memory: what the steps' kernels want */
    int n_folded;               /* calls that became constants */
    uint64_t visits; /* of values and uses while it was closed: so many times what there are */
    int n_pins;
    struct td_plan_pin *pin;
    bool observed; /* a run has shown which of these are none */
};

/* ---- record.c ---- */

/* Of one type and shape. */
bool td_tensor_is_like(const struct td_tensor *a, const struct td_tensor *b);
/* Input i in a set of inputs; those beyond the 63rd share a bit. */
static inline uint64_t td_input_bit(int i)
{
    return UINT64_C(1) << (i < 63 ? i : 63);
}
/* Whether an input is an integer tensor so small that plans may be for its values. */
bool td_input_is_small(const struct td_tensor *input);
bool td_plan_is_for(const struct td_plan *plan, const struct td_tensor *inputs,
                    const struct td_model_call *call);
/* Makes room for one more behind n; false: no memory. */
bool td_grow(void **array, int n, int *room, size_t size);
/* A new value, and a copy of a step, behind those that are there: its number, or -ENOMEM. */
int td_plan_add_value(struct td_plan *plan, const struct td_tensor *like, int step, int result);
int td_plan_add_step(struct td_plan *plan, const struct td_plan_step *step);

/* All of these: 0, -ENOMEM, or -ECANCELED where walk->why says why there can be no plan, or
 * root->decides for the values of which inputs there can be one. */

/* The item becomes one that is recorded, with the tensor's type and shape, and a value of the plan,
 * if there is one: a result of the step, or for step -1 the model's input result. */
int td_record_value(struct td_walk *walk, const struct td_tensor *like, int step, int result,
                    uint64_t from, struct td_item *item);
/* The item for input i. */
int td_record_input(struct td_walk *walk, int i, struct td_item *item);
/* The walk's call of these arguments, which is bound. If they depend on an input it becomes a step
 * (*recorded) with these results; else it is to be computed. chance: it draws some. */
int td_record_call(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                   struct td_item *result, bool *recorded);
int td_record_outputs(struct td_walk *walk, const struct td_item *item, int n);
int td_record_refuse(struct td_walk *walk, const char *why);
/* Whether all these inputs are small, so that plans can be for their values, before one has run. */
bool td_record_is_decided(struct td_walk *walk, uint64_t from);
/* Bytes from where the item's tensor begins to what it is a view of. */
size_t td_record_offset(const struct td_walk *walk, const struct td_item *item);

/* The call's argument behind a step's own. */
int td_plan_argument(const struct td_plan_step *step, int arg);
/* The use by which it has argument arg, or that element of it (-1: the argument itself), from
 * another; NULL: it has not. */
struct td_plan_use *td_step_use(const struct td_plan_step *step, int arg, int element);

/* ---- model/cut.c ---- */

#define TD_PATH_PLANS 4096 /* one after the other, at most */

/* The elements of a recorded item are wanted: t, which is like it, gets its data. What the record's
 * functions say; also -EINVAL, -ETIMEDOUT, -EAGAIN of the plan that is run for it. */
int td_record_read(struct td_walk *walk, const struct td_item *item, struct td_tensor *t);
/* Where the elements lie that say what comes after the plan, which has run on these inputs. */
const void *td_plan_wanted(const struct td_plan *plan, const struct td_tensor *inputs);

/* ---- model/compile.c, model/make.c ---- */

/* A plan without steps for such inputs, and for the values of those small ones that fix has; and
 * one that comes after another for these values. NULL when there is no memory. */
struct td_plan *td_plan_create(struct td_model *model, const struct td_tensor *inputs,
                               const struct td_model_call *call, uint64_t fix);
struct td_plan *td_plan_create_after(struct td_plan *before, const void *values);
void td_plan_clear(struct td_plan *plan); /* of all but what its inputs are like */
void td_plan_free(struct td_plan **plan); /* with all that come after it */
int td_path_add(struct td_path *path, struct td_plan *plan); /* -ENOMEM */
/* Has the passes go over what the walk has recorded, binds the steps, gives values their places,
 * and runs it. What td_plan_execute says, -ENOMEM; -ECANCELED: walk->why says why there is none, or
 * it was made to be printed (root->until). */
int td_plan_finish(struct td_walk *walk);
/* Makes the plans for inputs behind those of the path, which have run, or of root, which
 * td_plan_create gave, and runs them; they are added to the path. 0 also where there can be none:
 * then why, TD_PLAN_WHY bytes of which the first is 0, says so, or root->decides for the values of
 * which inputs they can be. -EINVAL: the inputs do not fit the program (problem names the node),
 * -ENOMEM, -ETIMEDOUT, -EAGAIN. */
int td_plan_make(struct td_plan *root, struct td_path *path, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_figures *figures, char *why,
                 struct td_problem *problem);

/* ---- turns.c ---- */

/* Compares the recorded plan with earlier plans of the walk's path. If one of these has the same
 * calls, the plan gives up its own steps and shares those (plan->by). -ENOMEM. */
int td_plan_find_turn(struct td_walk *walk);

/* ---- workspace.c ---- */

struct td_workspace {          /* memory that a plan computes in, one run at a time */
    struct td_workspace *next; /* of the model's that are idle, the last one used first */
    size_t bytes;
    _Alignas(64) unsigned char data[];
};
/* One of the model's with at least so many bytes, idle or new; NULL: there is no memory. */
struct td_workspace *td_workspace_take(struct td_model *model, size_t bytes);
/* Gives it to the others, or back; nulls the pointer, NULL is fine. */
void td_workspace_leave(struct td_model *model, struct td_workspace **workspace);
void td_workspace_free(struct td_model *model, struct td_workspace **workspace);
void td_workspaces_free(struct td_model *model); /* those that are idle */
/* Bytes that a plan takes beside these, from its model's room, and its root counts: 0, or what that
 * says. */
int td_plan_charge(struct td_plan *plan, size_t bytes);
void td_plan_give(struct td_plan *plan, size_t bytes);
struct td_arena *td_plan_arena(struct td_plan *plan); /* of such bytes; NULL: there are none */

/* ---- plan.c ---- */

/* Once all is recorded: binds the steps, and gives values their places. -ENOMEM, or what binding
 * says; problem names the node. */
int td_plan_close(struct td_plan *plan, struct td_problem *problem);
/* Runs it. 0, -EINVAL, -ENOMEM, -ETIMEDOUT. The results lie in its workspace, or in inputs, until
 * it is left. */
int td_plan_execute(struct td_plan *plan, const struct td_tensor *inputs,
                    struct td_model_figures *figures, struct td_problem *problem);

struct td_binding { /* what steps are bound in, one after the other */
    struct td_plan *plan;
    struct td_arena *once;
    struct td_run run;
};
struct td_binding *td_binding_create(struct td_plan *plan); /* NULL: no memory */
void td_binding_free(struct td_binding **binding);          /* nulls the pointer; NULL is fine */
/* The step as its run, until the next one. What td_run_bind gives back. */
int td_binding_bind(struct td_binding *binding, const struct td_plan_step *step);

/* ---- place.c ---- */

/* Gives the values of steps that are bound and grouped their places, and counts the bytes. -ENOMEM.
 */
int td_plan_place(struct td_plan *plan);

/* ---- rest.c ---- */

/* Pins what the steps of a closed plan read. -ENOMEM. Then unpins what its first run has shown to
 * be read as packed forms alone; and at its end the rest. */
int td_plan_pin(const struct td_model *model, struct td_plan *plan);
void td_plan_unpin_taken(struct td_plan *plan);
void td_plan_unpin(struct td_plan *plan);
/* Has the model's weights awake, until td_model_walked. */
void td_model_wake(struct td_model *model);
void td_model_walked(struct td_model *model);
/* A plan has run: its weights may rest. With the model's lock_ held. */
void td_model_rest(struct td_model *model);

/* ---- fuse.c ---- */

/* Of steps that are bound, finds those that are computed together; and once all data are where they
 * will be, and inputs' anywhere apart, works out how those are that end with the step last.
 * -ENOMEM. */
void td_plan_group(struct td_plan *plan);
int td_plan_fuse(struct td_plan *plan, int last);

/* ---- model/plans.c ---- */

/* The plan of the model for such inputs that is free, which the caller leaves; or a new one to be
 * made (*is_new), which is then added or dropped. NULL: the program is to be walked, since there
 * can be no plan, another thread is making one, or it would be for values that have not come
 * before. */
struct td_plan *td_plan_take(struct td_model *model, const struct td_tensor *inputs,
                             const struct td_model_call *call, bool *is_new);
/* A plan is made: it is the model's, and the caller's until it is left, or, refused, nobody's. */
void td_plan_add(struct td_model *model, struct td_plan *plan);
/* It has not come to that; where it says of which inputs' values it can be, the model's plans are
 * for these from now on, and one for those that came may be taken at once. */
void td_plan_drop(struct td_model *model, struct td_plan *plan, const struct td_tensor *inputs,
                  const struct td_model_call *call);
/* The one that comes next for what a plan has computed; NULL: there is none yet. */
struct td_plan *td_plan_next(struct td_plan *plan, const struct td_tensor *inputs);
/* Whether the caller may make more of a root's plans, which it ends, too. False: another thread
 * makes some, or the values are ever new. why: there will be none, or "". */
bool td_plan_begin_more(struct td_model *model, struct td_plan *root);
void td_plan_end_more(struct td_model *model, struct td_plan *root, const char *why);
/* After a run, whose path is a root's. */
void td_plan_leave(struct td_model *model, struct td_plan *root, struct td_path *path);
void td_plans_free(struct td_model *model);
struct td_model_plan td_plan_shown(const struct td_plan *plan); /* what listings have of it */

#endif
