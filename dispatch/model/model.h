/* Whole models: a file of PyTorch's (.pt2) or ONNX's becomes a program of operator calls, which is
 * run on a client's tensors. The operators are the table's; importers say what a node of their
 * format is in these (dispatch/program/program.h), and there is no other executor.
 *
 * Errors are 0 or a negative errno; the sentence for the user goes to a struct td_problem. */
#ifndef TD_DISPATCH_MODEL_H
#define TD_DISPATCH_MODEL_H

#include "kernels/kernels.h"
#include "kernels/weight.h"

#include <stdio.h>

struct td_model; /* as loaded: does not change, any number of threads may run it */

struct td_model_port { /* an input or an output; a name is the file's, whatever is in it */
    const char *name;
    enum td_dtype dtype;        /* none: not known before a call (of an output) */
    bool texts;                 /* its INT64 are numbers of texts: td_model_word */
    int rank;                   /* -1: not known before a call */
    int64_t shape[TD_MAX_RANK]; /* -1: not known before a call */
    const char
        *symbol[TD_MAX_RANK]; /* what the file calls a size that is not known; NULL: nothing */
};

/* Reads a file, whose kind is seen from its bytes; they are not needed afterwards. beside: the
 * directory where files lie that it names (an ONNX file's external data); NULL: there is none. Its
 * constants become stored tensors, for which room (borrowed, must outlive the model; NULL: nobody
 * counts) answers. The caller owns one reference. -EINVAL: the file is no model, is damaged, or
 * asks for what there is none of (problem names the node), -ENOMEM, what room says. */
int td_model_load(struct td_model **model, const void *file, size_t size, const char *beside,
                  struct td_weight_room *room, struct td_problem *problem);
struct td_model *td_model_ref(struct td_model *model);
void td_model_unref(struct td_model **model); /* nulls the pointer; NULL is fine */

const char *td_model_format(const struct td_model *model); /* "onnx", "pt2", "json" */
int td_model_count_nodes(const struct td_model *model);    /* those of inner graphs, too */
int td_model_count_folded(const struct td_model *model);   /* that became constants at loading */
/* What it has of its room: its program, constants with their packed forms, and plans. */
size_t td_model_bytes(const struct td_model *model);
/* The ports in the file's order; returns how many. Behind them in the same arrays are those that
 * only states have; of all says how many there are with these. */
int td_model_inputs(const struct td_model *model, const struct td_model_port **ports);
int td_model_outputs(const struct td_model *model, const struct td_model_port **ports);
int td_model_all_inputs(const struct td_model *model);
int td_model_all_outputs(const struct td_model *model);

/* Texts are compared and looked up alone: a program knows them by numbers. Of a text that the model
 * has; -1: it has no such. And the text of a number; what ONNX says of none, "_Unused". */
int64_t td_model_word(const struct td_model *model, const char *text);
const char *td_model_text(const struct td_model *model, int64_t word);

struct td_model_state { /* what a later call may go on from */
    const char *name;
    const char *from;         /* "buffer", "parameter", "tensor constant", "input" or "pair" */
    int input, output;        /* of its ports: its contents before a run, and after it */
    int grows;                /* the dimension that becomes longer with each call, or -1 */
    bool needed;              /* the file has no such input, so that each run has to be given it */
    struct td_tensor initial; /* its first contents; without data: zeros of the input's shape */
};
int td_model_states(const struct td_model *model, const struct td_model_state **states);
/* Gives those inputs that are needed of states their first contents, which the model has. */
void td_model_begin_states(const struct td_model *model, struct td_tensor *inputs);
/* Whether a state may have contents like these: -EINVAL. */
int td_model_check_state(const struct td_model *model, const struct td_model_state *state,
                         const struct td_tensor *contents, struct td_problem *problem);
/* Ports whose names are those of a state, but that are none: the name of port i and why, in words
 * that follow it; NULL behind the last. */
const char *td_model_unpaired(const struct td_model *model, int i, const char **why);

/* Calls each for all nodes, those of an inner graph behind the node that runs it, at a depth one
 * more. name: the node's own, or ""; op: in the format's words ("Conv", "aten.conv2d.default"). */
typedef void td_each_node(void *arg, const char *name, const char *op, int depth);
void td_model_each_node(const struct td_model *model, td_each_node *each, void *arg);

struct td_model_call {          /* what a run is to be like */
    int threads;                /* >= 1 */
    int node;                   /* NUMA; -1: any */
    bool eager;                 /* call by call as the file has them, nothing fused or packed */
    const struct td_stop *stop; /* borrowed; who may stop it, or NULL */
};

/* Judges the tensors against the ports: as many as there are inputs of all, in their order, of
 * their types and shapes. -EINVAL. */
int td_model_check(const struct td_model *model, const struct td_tensor *inputs, int n,
                   struct td_problem *problem);

/* Runs it on the calling thread and its team: by a plan, which is made first where there is none
 * yet for such inputs. inputs: checked, borrowed until the results are freed, which may lie in
 * them. -EINVAL: the data do not fit the model (problem names the node), -ENOMEM, -ETIMEDOUT when
 * it was stopped. */
struct td_model_results;
int td_model_run(struct td_model *model, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_results **results,
                 struct td_problem *problem);
/* In the order of all outputs; borrowed of the results. */
const struct td_tensor *td_model_result(const struct td_model_results *results, int i);
/* Of the run: operator calls made, ns in their kernels, most bytes held between calls. */
struct td_model_figures {
    int calls;
    enum td_isa isa;            /* the highest that one of them ran at */
    enum td_dtype compute_type; /* of all; none where they differ */
    int64_t kernel_ns;
    size_t most_bytes;
};
struct td_model_figures td_model_figures(const struct td_model_results *results);
/* One call more, which ran so. */
void td_figures_count(struct td_model_figures *figures, enum td_isa isa,
                      enum td_dtype compute_type);
void td_model_free_results(struct td_model_results **results); /* nulls the pointer; NULL is fine */

/* ---- plans: what is run for inputs of some types and shapes ---- */

/* Drops the plans that are not at work, and memory that none computes in, whose room something else
 * wants; they are made again. */
void td_model_shed(struct td_model *model);

#define TD_MODEL_REFUSED 8 /* steps that a pass lists */

struct td_model_pass {
    const char *name;
    int done, n_refused; /* steps that it changed; and that it would have, were it not for why */
    struct {
        const char *node, *why;
    } refused[TD_MODEL_REFUSED];
};

struct td_model_step {
    const char *node, *op; /* the file's name of its node, and the operator: "conv2d" */
    const char *kernel;    /* "onednn", its level, and the type that it is given, or none */
    const char *why_rows;  /* those that it is computed with are no generated loop; or NULL */
    enum td_isa isa;
    enum td_dtype compute_type;
    int with;                       /* the last step that it is computed together with, or -1 */
    bool in_place;                  /* its first result lies where an argument did */
    const struct td_tensor *result; /* the first one's type and shape */
    int64_t ns; /* that it took last; of those that run together, the last has all; 0: at work */
};

struct td_model_plan {
    const char *refused; /* why there is none for such inputs, "": there is one */
    int threads, node;
    int n_inputs, n_steps, n_passes;
    const struct td_tensor *input;    /* types and shapes; with data where it is for these alone */
    const struct td_model_pass *pass; /* in their order */
    /* Calls that depend on no input, made once; bytes of the memory that values share, what they
     * would take side by side, and scratch. */
    int n_folded;
    size_t bytes, bytes_before, scratch;
    int turns; /* of loops, that ran its steps in the last run; 0: it has none yet */
    const struct td_plan *of_;
};

/* Plans that were made, and evicted for others, since the model was loaded. */
void td_model_count_plans(struct td_model *model, int *recorded, int *evicted);
/* Whether plans are for the values of input i, by which it is decided what is computed. */
bool td_model_input_decides(struct td_model *model, int i);
/* Shows each plan, the youngest first, to visit, during which nobody runs, makes or leaves one. */
typedef void td_model_visit(const struct td_model_plan *plan, void *arg);
void td_model_visit_plans(struct td_model *model, td_model_visit *visit, void *arg);
/* Step i of n_steps; false: a pass has left it out. */
bool td_model_plan_step(const struct td_model_plan *plan, int i, struct td_model_step *step);
/* The same as a program for people, where a plan of the model is visited: a line a call with all
 * its operands, in ASCII. code: with the instructions of what was generated for those that are
 * computed together. */
void td_model_plan_print(const struct td_model *model, const struct td_model_plan *plan, bool code,
                         FILE *to);
/* The same of the youngest plan as it was after the pass of that name, and for "record" before all
 * of them: it is recorded anew, up to where values decide what comes next. Waits while the model
 * makes a plan. 0; -EINVAL: there is no such pass, or no such plan any more (problem says what);
 * -ENOENT: there is no plan yet; -ENOMEM; -ETIMEDOUT: the caller is stopped. */
int td_model_print_after(struct td_model *model, const char *pass, FILE *to,
                         struct td_problem *problem);

#endif
