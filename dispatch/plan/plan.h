/* Plans. A plan is the list of bound operator calls (steps) that a model makes for inputs of given
 * types and shapes. It is recorded when such inputs first come, by a walk of the program that
 * computes nothing that depends on the inputs (record.c). Everything else is constant-folded, and
 * branches and loop counts are resolved. Where control flow depends on a computed value, the plan
 * ends, and another plan follows for each value that occurs (model/cut.c). This folder uses walk/
 * and program/; passes/ change a plan, and model/ makes, keeps and runs plans. */
#ifndef TD_DISPATCH_PLAN_H
#define TD_DISPATCH_PLAN_H

#include "dispatch/step/step.h"
#include "dispatch/walk/walk.h"

#define TD_PLAN_WHY 200     /* bytes of the sentence that says why there is no plan */
#define TD_PLAN_STEPS 65536 /* of a plan at most: loops are unrolled */

struct td_plan_value {     /* a tensor that depends on the inputs */
    struct td_tensor like; /* data: a unique address that is compared and never read */
    int step, result;      /* result of that step; step -1: the model's input of number result, or
                              from n_inputs on plan->outer[result - n_inputs]; -1: of no use */
    int first, last;       /* its live range, in steps; last is n_steps for an output of the plan */
    bool inside;           /* only steps fused with its producer read it, so it needs no memory */
    int over;              /* the value whose memory it reuses (it is computed in place), or -1 */
    size_t at;             /* its offset in the workspace, bytes */
};

struct td_plan_use {  /* a step's use of a value, or of a view of it: the view has the argument's
                         strides and begins at the offset */
    int arg, element; /* the step's argument; its element if it is a list, else -1 */
    int value;
    size_t offset; /* bytes */
};

struct td_plan_step {               /* a call as it was recorded; it is bound after the passes */
    const struct td_handle *handle; /* NULL: a pass has removed the step */
    bool in_place;                  /* bound as "add_", which converts its result to self's type */
    const char *node;               /* the name of the node that it came from */
    int n_args, n_uses, n_outs;
    struct td_named *arg; /* only constants have real data */
    struct td_plan_use *use;
    int value;                  /* the number of its first result; those of the others follow */
    struct td_step *made;       /* the bound call */
    const char *kernel;         /* the name of the selected row, */
    enum td_isa isa;            /* its ISA level, */
    enum td_dtype compute_type; /* and the type that its kernel is given */
    /* Its time in the last run, summed over all turns of a loop: may be read while the plan runs.
     */
    _Atomic int64_t ns;
    int with; /* the last step of the group that it is fused with; -1: it is not fused */
    struct td_fusion *fusion; /* the fused group; only its last step has it */
    bool alone;               /* one kernel computes it, without casts or copies of arguments */
    unsigned overwrites;      /* a bit for each call argument that its first result may overwrite */
    struct td_weight *taken;  /* whose packed form the last run read; only compared */
};

struct td_plan_pin { /* keeps a weight's plain elements in memory, for a step that may read them */
    int step;        /* -1: the weight is an output of the plan */
    struct td_weight *weight;
    bool packed; /* a run has shown that the step reads only the packed form */
};

struct td_plan_output {
    struct td_tensor tensor; /* its data are set when the plan has run */
    int value;               /* -1: it is a constant */
    size_t offset;           /* of its first element in the value, bytes */
};

struct td_plan_taken { /* a use of an input or an outer value: its address differs in each run */
    int step;
    const struct td_plan_use *use; /* borrowed */
};

struct td_plan_outer {        /* a value that the plan reads but neither makes nor has as input */
    const struct td_plan *of; /* the earlier plan that it is an output of; NULL: it is data */
    int output;
    void *data; /* elements that are known when recording, but differ from turn to turn of a loop */
};

struct td_plan_wanted { /* the elements that select the next plan */
    int number;         /* 1 + their tensor's index in walk->recorded; 0: no plan follows */
    int input;          /* the model's input that they lie in; -1: they lie in */
    const struct td_plan *of;
    int output; /* this output of the plan of */
    size_t offset, bytes;
};

struct td_plan {
    struct td_plan *next; /* in the model's list of plans */
    struct td_model *of;  /* borrowed; its budget pays for the plan's memory */
    /* The plans that can run for the same inputs are a tree: its root, which runs first (or the
     * plan itself); the first child; the next sibling. */
    struct td_plan *root, *after, *beside;
    void *values; /* the values for which it runs after its parent */
    /* The plan whose steps it runs: itself, or an earlier one that recorded the same calls; then it
     * has outputs, but no steps and values of its own (turns.c). */
    struct td_plan *by;
    uint64_t likeness[2]; /* a hash of what was recorded; 0 for a root */
    int n_more;           /* further workspaces, for other plans that run its steps */
    struct td_workspace **more;
    atomic_int turns; /* how often its steps ran in the last run, the turns of a loop; as ns */
    struct td_plan_wanted wanted;
    int *number; /* of each output its index in walk->recorded; NULL: no plan follows */
    int n_outer, outer_room;
    struct td_plan_outer *outer;
    _Atomic size_t held_bytes;     /* of a root: by the arenas and lists of its whole tree, */
    _Atomic size_t constant_bytes; /* and by constants that were computed while it was recorded */
    size_t counted;                /* bytes charged for its own struct and lists */
    struct td_plan *alike;         /* the next plan in the same bucket of model->alike_ */
    uint64_t key;  /* a hash of inputs' types, shapes and fixed values, threads and node */
    bool busy;     /* a thread runs the tree; busy to runs are set in roots only */
    uint64_t used; /* the model's clock_ at the last use */
    bool grows;    /* a thread records more plans of the tree */
    int misses;    /* runs that had to record more plans */
    int runs;
    int threads, node; /* of the calls that it is for; node: NUMA */
    unsigned traps; /* td_traps_barred when it was begun; it may run rows that were barred since */
    /* The inputs' types and shapes. It is for one value of a fixed input, whose data are a copy. */
    int n_inputs;
    struct td_tensor *input;
    bool *fixed;
    uint64_t large;            /* a bit for each input that is too large to be fixed */
    char refused[TD_PLAN_WHY]; /* why no plan can be made; "": there is one */
    uint64_t decides;          /* a bit for each input that must be fixed to make a plan, or 0 */
    const char *until; /* of a root: the pass after which it is printed, not run; NULL: it is run */
    struct td_arena *arena; /* of what is below, except step, value and held */
    int n_steps, steps_room, n_values, values_room, n_held, held_room, n_outputs;
    struct td_plan_step *step;
    struct td_plan_value *value;
    struct td_block **held; /* references to the memory of constants computed while recording */
    struct td_plan_output *output;
    struct td_plan_taken *taken; /* the uses to be given addresses before each run */
    int n_taken;
    struct td_model_pass *pass;
    int n_passes;
    unsigned char *memory; /* the base address that its bound steps have for values */
    /* What it computes in: taken for each run, or kept if other plans follow it; or one of by's;
     * or NULL. */
    struct td_workspace *workspace;
    size_t bytes, bytes_before; /* of all values in the workspace; and if none shared memory */
    size_t scratch;             /* bytes behind them, for the steps' kernels */
    int n_folded;               /* calls that were constant-folded */
    uint64_t visits; /* of values and uses while it was closed; a test checks that it is linear */
    int n_pins;
    struct td_plan_pin *pin;
    bool observed; /* a run has shown which pins are not needed, and these are gone */
};

/* ---- record.c ---- */

/* Whether they have the same type and shape. */
bool td_tensor_is_like(const struct td_tensor *a, const struct td_tensor *b);
/* The bit of input i in a set of inputs; inputs from 63 on share one. */
static inline uint64_t td_input_bit(int i)
{
    return UINT64_C(1) << (i < 63 ? i : 63);
}
/* Whether an input is an integer or bool tensor so small that plans may be for its values. */
bool td_input_is_small(const struct td_tensor *input);
/* Whether the plan serves a call with these inputs. */
bool td_plan_is_for(const struct td_plan *plan, const struct td_tensor *inputs,
                    const struct td_model_call *call);
/* Grows an array of n elements, if it is full, so that one more fits; false: no memory. */
bool td_grow(void **array, int n, int *room, size_t size);
/* Appends a new value, or a copy of a step, to the plan: its number, or -ENOMEM. */
int td_plan_add_value(struct td_plan *plan, const struct td_tensor *like, int step, int result);
int td_plan_add_step(struct td_plan *plan, const struct td_plan_step *step);

/* The functions td_record_* return 0, -ENOMEM, or -ECANCELED: then walk->why says why no plan can
 * be made, or root->decides which inputs have to be fixed so that one can. */

/* Makes the item a recorded tensor with like's type and shape that depends on the inputs in from,
 * and a value of walk->plan if there is one: a result of the step, or for step -1 the model's input
 * of number result. */
int td_record_value(struct td_walk *walk, const struct td_tensor *like, int step, int result,
                    uint64_t from, struct td_item *item);
/* Makes the item for the model's input i: a constant if the input is fixed. */
int td_record_input(struct td_walk *walk, int i, struct td_item *item);
/* Records the walk's call of these arguments, which is bound in walk->run. If an argument depends
 * on an input, the call becomes a step with these results (*recorded); else the caller computes it.
 * chance: the operator draws random numbers. */
int td_record_call(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                   struct td_item *result, bool *recorded);
/* Makes the items the plan's outputs. */
int td_record_outputs(struct td_walk *walk, const struct td_item *item, int n);
/* Notes in walk->why, if it is empty, why no plan can be made: -ECANCELED. */
int td_record_refuse(struct td_walk *walk, const char *why);
/* Whether plans could be made for the values of all these inputs: they are small and no plan of the
 * path has run yet. If so, root->decides gets them. */
bool td_record_is_decided(struct td_walk *walk, uint64_t from);
/* The offset in bytes of the item's tensor in the value that it is a view of. */
size_t td_record_offset(const struct td_walk *walk, const struct td_item *item);

/* The number of the operator's parameter that the step's argument arg is for. */
int td_plan_argument(const struct td_plan_step *step, int arg);
/* The use that gives the step its argument arg, or that element of it (-1: the argument itself);
 * NULL: it is a constant. */
struct td_plan_use *td_step_use(const struct td_plan_step *step, int arg, int element);

/* ---- model/cut.c ---- */

#define TD_PATH_PLANS 4096 /* plans of a path at most */

/* Gives t, which is like the recorded item, the item's elements: ends and runs the plan that
 * computes them, and begins another. What td_record_* return; also -EINVAL, -ETIMEDOUT, -EAGAIN of
 * that run. */
int td_record_read(struct td_walk *walk, const struct td_item *item, struct td_tensor *t);
/* The elements that select the next plan, once the plan has run on these inputs. */
const void *td_plan_wanted(const struct td_plan *plan, const struct td_tensor *inputs);

/* ---- model/compile.c, model/make.c ---- */

/* An empty plan for inputs of such types and shapes, and for these values of the small ones whose
 * bits fix has; and one that follows the plan before for these values. NULL: no memory. */
struct td_plan *td_plan_create(struct td_model *model, const struct td_tensor *inputs,
                               const struct td_model_call *call, uint64_t fix);
struct td_plan *td_plan_create_after(struct td_plan *before, const void *values);
void td_plan_clear(struct td_plan *plan); /* frees all but its inputs' types and shapes */
void td_plan_free(struct td_plan **plan); /* and all plans below it in the tree */
/* Appends the plan to the path. */
int td_path_add(struct td_path *path, struct td_plan *plan); /* -ENOMEM */
/* Finishes the plan that the walk has recorded: runs the passes, binds the steps, places the
 * values, and runs the plan once. What td_plan_execute returns, -ENOMEM; -ECANCELED: walk->why says
 * why no plan can be made, or it is only to be printed (root->until). */
int td_plan_finish(struct td_walk *walk);
/* Records the plans that follow those of the path, which have run on these inputs, runs them and
 * adds them to the path. If the path is empty, it begins with root, which td_plan_create gave. 0
 * also if no plan can be made: then why (TD_PLAN_WHY bytes, "" before) says so, or root->decides
 * which inputs have to be fixed. -EINVAL: the inputs do not fit the program (problem names the
 * node), -ENOMEM, -ETIMEDOUT, -EAGAIN. */
int td_plan_make(struct td_plan *root, struct td_path *path, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_figures *figures, char *why,
                 struct td_problem *problem);

/* ---- turns.c ---- */

/* Compares the recorded plan with earlier plans of the walk's path. If one of these has the same
 * calls, the plan gives up its own steps and shares those (plan->by). -ENOMEM. */
int td_plan_find_turn(struct td_walk *walk);

/* ---- workspace.c ---- */

struct td_workspace {          /* the memory of one run of a plan: values, then scratch */
    struct td_workspace *next; /* in the model's list of idle ones, the last used first */
    size_t bytes;
    _Alignas(64) unsigned char data[];
};
/* A workspace of at least so many bytes: an idle one of the model or a new one. NULL: no memory. */
struct td_workspace *td_workspace_take(struct td_model *model, size_t bytes);
/* Puts a workspace among the idle ones, or frees it; nulls the pointer, NULL is fine. */
void td_workspace_leave(struct td_model *model, struct td_workspace **workspace);
void td_workspace_free(struct td_model *model, struct td_workspace **workspace);
void td_workspaces_free(struct td_model *model); /* the idle ones */
/* Charges other bytes of a plan to its model's budget, and counts them in root->held_bytes: 0, or
 * the budget's error; td_plan_give gives them back. */
int td_plan_charge(struct td_plan *plan, size_t bytes);
void td_plan_give(struct td_plan *plan, size_t bytes);
/* A new arena whose bytes are charged so; NULL: no memory. */
struct td_arena *td_plan_arena(struct td_plan *plan);

/* ---- plan.c ---- */

/* Binds the steps of a recorded plan, forms fused groups, and places the values in the workspace.
 * -ENOMEM, or what binding returns; problem names the node. */
int td_plan_close(struct td_plan *plan, struct td_problem *problem);
/* Runs the plan. 0, -EINVAL, -ENOMEM, -ETIMEDOUT, -EAGAIN: other processes use the team's CPUs. The
 * outputs lie in the workspace or in the inputs, and are valid until td_plan_leave. */
int td_plan_execute(struct td_plan *plan, const struct td_tensor *inputs,
                    struct td_model_figures *figures, struct td_problem *problem);

struct td_binding { /* room to bind one step after another in */
    struct td_plan *plan;
    struct td_arena *once;
    struct td_run run;
};
struct td_binding *td_binding_create(struct td_plan *plan); /* NULL: no memory */
void td_binding_free(struct td_binding **binding);          /* nulls the pointer; NULL is fine */
/* Binds the step in binding->run, until the next call. What td_run_bind returns. */
int td_binding_bind(struct td_binding *binding, const struct td_plan_step *step);

/* ---- place.c ---- */

/* Gives the values of bound and grouped steps their offsets in the workspace, and sets plan->bytes.
 * -ENOMEM. */
int td_plan_place(struct td_plan *plan);

/* ---- rest.c ---- */

/* Pins the weights that the steps of a closed plan read, so that their plain elements stay.
 * -ENOMEM. After the first run: unpins those that were read only in packed form. At the plan's end:
 * unpins the rest. */
int td_plan_pin(const struct td_model *model, struct td_plan *plan);
void td_plan_unpin_taken(struct td_plan *plan);
void td_plan_unpin(struct td_plan *plan);
/* Has the plain elements of all the model's weights in memory, until td_model_walked. */
void td_model_wake(struct td_model *model);
void td_model_walked(struct td_model *model);
/* To be called when plans have run: may free the plain elements of weights that are not pinned.
 * With the model's lock_ held. */
void td_model_rest(struct td_model *model);

/* ---- fuse.c ---- */

/* Groups bound pointwise steps that can be fused. Once the values have their places (the inputs may
 * lie anywhere, but not overlap), td_plan_fuse makes the fused loop of the group that ends with the
 * step last: -ENOMEM. */
void td_plan_group(struct td_plan *plan);
/* What the step does, or all that are fused with it where it is their last: without what stays in
 * the cache between these. */
struct td_work td_plan_work(const struct td_plan *plan, int last);
int td_plan_fuse(struct td_plan *plan, int last);

/* ---- model/plans.c ---- */

/* An idle plan of the model for such inputs, which the caller gives back with td_plan_leave; or an
 * empty one (*is_new) that the caller records, and then adds or drops. NULL: the caller walks the
 * program, because no plan can be made, another thread is recording, or the plan would be for
 * values that have not come before. */
struct td_plan *td_plan_take(struct td_model *model, const struct td_tensor *inputs,
                             const struct td_model_call *call, bool *is_new);
/* Adds a recorded plan to the model's. The caller uses it until td_plan_leave; if it is refused, it
 * is idle at once. */
void td_plan_add(struct td_model *model, struct td_plan *plan);
/* Frees a plan that could not be recorded. If plan->decides names inputs, the model's plans are for
 * the values of these from now on, and a plan for the present values may be taken at once. */
void td_plan_drop(struct td_model *model, struct td_plan *plan, const struct td_tensor *inputs,
                  const struct td_model_call *call);
/* The plan that follows this one for the values that it has computed; NULL: none is there yet. */
struct td_plan *td_plan_next(struct td_plan *plan, const struct td_tensor *inputs);
/* Whether the caller may record more plans of root's tree; then it calls td_plan_end_more. False:
 * another thread is recording, or values hardly ever repeat. why: no plan can be made; or "". */
bool td_plan_begin_more(struct td_model *model, struct td_plan *root);
void td_plan_end_more(struct td_model *model, struct td_plan *root, const char *why);
/* Gives back a root whose path has run, and frees the path's list. */
void td_plan_leave(struct td_model *model, struct td_plan *root, struct td_path *path);
void td_plans_free(struct td_model *model);
struct td_model_plan td_plan_shown(const struct td_plan *plan); /* the plan as listings show it */

#endif
