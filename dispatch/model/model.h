/* Whole models. A PyTorch (.pt2) or ONNX file becomes a program, which runs on a client's tensors.
 * An importer translates each node of its format into calls of the registered operators
 * (dispatch/program/program.h); there is no other executor.
 *
 * Functions return 0 or a negative errno; the sentence for the user goes to a struct td_problem. */
#ifndef TD_DISPATCH_MODEL_H
#define TD_DISPATCH_MODEL_H

#include "dispatch/choice/peaks.h"
#include "kernels/kernels.h"
#include "kernels/weight.h"

#include <stdio.h>

struct td_model; /* does not change once loaded; any number of threads may run it */
struct td_tokenizer;

struct td_model_port { /* an input or an output; names are those of the file, unchecked */
    const char *name;
    enum td_dtype dtype; /* none: not known before a call (of an output) */
    bool declared;       /* an output that must be of dtype: ONNX's are */
    bool texts;          /* its elements are strings, as INT64 numbers: td_model_word */
    const struct td_tokenizer *tokenizer; /* what makes words of these first, or NULL */
    int rank;                             /* -1: not known before a call */
    int64_t shape[TD_MAX_RANK];           /* -1: not known before a call */
    const char
        *symbol[TD_MAX_RANK]; /* the file's name for a size that is not known; NULL: it has none */
};

/* Loads a model; its format follows from the file's bytes, which are not needed afterwards. beside:
 * the directory of other files that it names (an ONNX file's external data); NULL: there is none.
 * Large constants become weights. room: the memory budget that is charged (borrowed, must outlive
 * the model; NULL: td_memory for all but weights). The caller owns one reference. -EINVAL: the file
 * is no model, is damaged, or has a node that cannot run (problem names it), -ENOMEM, what room
 * returns. */
int td_model_load(struct td_model **model, const void *file, size_t size, const char *beside,
                  struct td_weight_room *room, struct td_problem *problem);
struct td_model *td_model_ref(struct td_model *model);
void td_model_unref(struct td_model **model); /* nulls the pointer; NULL is fine */

const char *td_model_format(const struct td_model *model); /* "onnx", "pt2", "json" */
int td_model_count_nodes(const struct td_model *model);    /* with those of inner graphs */
int td_model_count_folded(const struct td_model *model);   /* nodes constant-folded at loading */
/* Bytes that it is charged for: its program, its constants with their packed forms, its plans. */
size_t td_model_bytes(const struct td_model *model);
/* The ports in the file's order; returns how many. The same arrays go on with hidden ports, which
 * are only for states; td_model_all_* return how many there are with these. */
int td_model_inputs(const struct td_model *model, const struct td_model_port **ports);
int td_model_outputs(const struct td_model *model, const struct td_model_port **ports);
int td_model_all_inputs(const struct td_model *model);
int td_model_all_outputs(const struct td_model *model);

/* A program has strings as numbers, because it only compares them and looks them up. td_model_word
 * returns the number of a string; -1: the model does not have it. td_model_text returns the string
 * of a number; for an unknown number ONNX's default, "_Unused". */
int64_t td_model_word(const struct td_model *model, const char *text);
const char *td_model_text(const struct td_model *model, int64_t word);
/* Calls each with the number of every word that a tokenizer makes of text, and changes the text.
 * false: each has returned false, or the thread is to stop (td_stopped). */
bool td_model_tokens(const struct td_model *model, const struct td_tokenizer *how, char *text,
                     bool (*each)(void *arg, int64_t word), void *arg);
/* t: the strings that a client gave, of which the longest has so many words. t gets the shape of
 * the tensor of words that the model takes: with a row for each string, of which shorter ones end
 * in *pad. false: the tokenizer makes one word of each string, so that there are no rows. */
bool td_model_cut(const struct td_tokenizer *how, int64_t longest, struct td_tensor *t,
                  int64_t *pad);

struct td_model_state { /* a tensor that one run leaves for the next: a KV cache, a buffer */
    const char *name;
    const char *from;         /* "buffer", "parameter", "tensor constant", "input" or "pair" */
    int input, output;        /* the ports that have its contents before and after a run */
    int grows;                /* the dimension that gets longer with each call, or -1 */
    bool needed;              /* the file has no such input: the caller must add it in each run */
    struct td_tensor initial; /* its first contents; without data: zeros of the input's shape */
};
int td_model_states(const struct td_model *model, const struct td_model_state **states);
/* Sets the inputs of needed states to their first contents; borrowed from the model. */
void td_model_begin_states(const struct td_model *model, struct td_tensor *inputs);
/* Whether a port may have contents like these: -EINVAL. */
int td_model_check_port(const struct td_model_port *port, const struct td_tensor *contents,
                        struct td_problem *problem);
/* Why an output cannot be the contents of an input after a run, as a predicate to be put after the
 * input's name; or NULL, and *grows is the dimension that is longer in the output, or -1. */
const char *td_model_judge_pair(const struct td_model_port *in, const struct td_model_port *out,
                                int *grows);
/* Inputs that are named like a state but are none: the name of the i-th of them, and why, as a
 * predicate to be put after the name; NULL behind the last. */
const char *td_model_unpaired(const struct td_model *model, int i, const char **why);

/* Calls each for every node; the nodes of an inner graph follow the node that runs it, with depth
 * + 1. name: the node's, or ""; op: the file's name of the operator ("Conv",
 * "aten.conv2d.default"). */
typedef void td_each_node(void *arg, const char *name, const char *op, int depth);
void td_model_each_node(const struct td_model *model, td_each_node *each, void *arg);

struct td_model_call {          /* options of a run */
    int threads;                /* >= 1 */
    int node;                   /* NUMA; -1: any */
    bool eager;                 /* runs node by node, without a plan: nothing is fused */
    const struct td_stop *stop; /* borrowed; stops it on request or at a deadline; or NULL */
};

/* Checks that the tensors fit all inputs, with hidden ones: their number, order, types and shapes.
 * -EINVAL. */
int td_model_check(const struct td_model *model, const struct td_tensor *inputs, int n,
                   struct td_problem *problem);

/* Runs the model on the calling thread and its team, by a plan, which is made first if there is
 * none for such inputs. inputs: checked; borrowed until the results are freed, because results may
 * be views of them. -EINVAL: the data do not fit the model (problem names the node), -ENOMEM,
 * -ETIMEDOUT: it was stopped. */
struct td_model_results;
int td_model_run(struct td_model *model, const struct td_tensor *inputs,
                 const struct td_model_call *call, struct td_model_results **results,
                 struct td_problem *problem);
/* Result i, in the order of all outputs; borrowed from the results. */
const struct td_tensor *td_model_result(const struct td_model_results *results, int i);
struct td_model_figures {       /* statistics of a run */
    int calls;                  /* of operators */
    enum td_isa isa;            /* the highest level that a call ran at */
    enum td_dtype compute_type; /* of all calls; none if they differ */
    int64_t kernel_ns;          /* the time in kernels */
    size_t most_bytes;          /* the peak of its working memory */
};
struct td_model_figures td_model_figures(const struct td_model_results *results);
/* Counts one more call, which ran at this level and in this type. */
void td_figures_count(struct td_model_figures *figures, enum td_isa isa,
                      enum td_dtype compute_type);
void td_model_free_results(struct td_model_results **results); /* nulls the pointer; NULL is fine */

/* ---- plans: what runs for inputs of given types and shapes (dispatch/plan/plan.h) ---- */

/* Frees the idle plans and workspaces, when their memory is needed for something else; plans are
 * made again when they are needed. */
void td_model_shed(struct td_model *model);

#define TD_MODEL_REFUSED 8 /* refused steps that a pass lists */

struct td_model_pass {
    const char *name;
    int done, n_refused; /* steps that it changed, and steps that it left alone, for why */
    struct {
        const char *node, *why;
    } refused[TD_MODEL_REFUSED];
};

struct td_model_step {
    const char *node, *op; /* its node's name in the file, and its operator: "conv2d" */
    const char *kernel;    /* the selected row: "onednn"; "jit": a generated loop */
    const char *why_rows;  /* why its fused group is not one generated loop; or NULL */
    enum td_isa isa;
    enum td_dtype compute_type;
    double rounding;                /* td_impl.rounding of its row, or 0 */
    int with;                       /* the last step of the group that it is fused with, or -1 */
    bool in_place;                  /* its first result overwrites an argument */
    const struct td_tensor *result; /* the first result's type and shape */
    struct td_work work; /* what it does, or its fused group where it is the last of it; else 0 */
    int64_t ns; /* in the last run, or in this one; the last step of a group has all of it; 0: not
                   yet */
};

struct td_model_plan {
    const char *refused; /* why no plan can be made for such inputs; "": this is one */
    int threads, node;
    int n_inputs, n_steps, n_passes;
    const struct td_tensor *input; /* types and shapes; with data if it is for these values only */
    const struct td_model_pass *pass; /* in the order in which they ran */
    int n_folded;                     /* calls that were constant-folded */
    /* Bytes of the workspace for values, of all values if none shared memory, and of scratch. */
    size_t bytes, bytes_before, scratch;
    int turns; /* how often its steps ran in the last run, as a loop's body; 0: not yet */
    const struct td_plan *of_;
};

/* How many plans were recorded, and evicted to make room, since the model was loaded. */
void td_model_count_plans(struct td_model *model, int *recorded, int *evicted);
/* Whether plans are made for single values of input i, because control flow or shapes depend on
 * them. */
bool td_model_input_decides(struct td_model *model, int i);
/* Calls visit for each plan, the youngest first, with the model's lock: meanwhile no plan is taken,
 * added or given back. */
typedef void td_model_visit(const struct td_model_plan *plan, void *arg);
void td_model_visit_plans(struct td_model *model, td_model_visit *visit, void *arg);
/* Fills step from step i of n_steps; false: a pass has removed it. */
bool td_model_plan_step(const struct td_model_plan *plan, int i, struct td_model_step *step);
/* Prints a plan that is being visited as a program for people: a line of ASCII for each call, with
 * its operands. code: also disassembles the generated loops of fused groups. */
void td_model_plan_print(const struct td_model *model, const struct td_model_plan *plan, bool code,
                         FILE *to);
/* Prints the youngest plan as it was after the pass of that name, or for "record" before all
 * passes. The plan is recorded anew for this, up to the first place where control flow depends on a
 * value. Waits while the model makes a plan. 0; -EINVAL: there is no such pass, or the plan can no
 * longer be made (problem says what); -ENOENT: there is no plan yet; -ENOMEM; -ETIMEDOUT: it was
 * stopped. */
int td_model_print_after(struct td_model *model, const char *pass, FILE *to,
                         struct td_problem *problem);

#endif
