/* The program that a model is: nodes that name, in their format's words, what is to be computed of
 * which values, and for each node the function that says it in calls of operators. Nodes become
 * calls while the program is walked with real inputs, so types and shapes are known then, and so
 * are the values of what is small and decides about shapes. This folder uses none of its
 * neighbours: importers (onnx/, pt2/) fill a program, walk/ runs it, plan/ and passes/ keep what a
 * run of it was.
 *
 * An importer fills a struct td_model through td_program_*; its functions (td_lower) are given a
 * node and its items, and make calls through td_walk_*. */
#ifndef TD_DISPATCH_PROGRAM_H
#define TD_DISPATCH_PROGRAM_H

#include "dispatch/dispatch.h"
#include "dispatch/model/model.h"
#include "pools/pools.h"

#include <pthread.h>
#include <string.h>

#define TD_PROGRAM_DEPTH 64 /* of graphs in graphs */
#define TD_DERIVED_BUCKETS 64

struct td_walk;
struct td_block;
struct td_node_graph;

/* ---- items: values under way ---- */

/* Items are copied freely: what a node's function is given, and what it makes through td_walk_*,
 * stays there until the function has returned, and what it gives as results stays for its readers.
 * Nobody frees anything (but loops: td_walk_release). */
struct td_item {                /* kind none: there is none */
    struct td_value v;          /* a tensor has its data; lists of tensors stand in list instead */
    const struct td_item *list; /* of kind tensors: n items, kind none among them for None */
    int n;
    struct td_block *block; /* which holds the data; NULL: they are constant, or the caller's */
    int recorded; /* 1 + the number of the plan's value whose memory it lies in; 0: of none */
    bool varies;  /* it is known, and another in each turn of a loop (td_walk_turn) */
};

static inline struct td_item td_item_int(int64_t i)
{
    return (struct td_item){.v = {.kind = TD_KIND_int, .i = i}};
}
static inline struct td_item td_item_float(double f)
{
    return (struct td_item){.v = {.kind = TD_KIND_float, .f = f}};
}
static inline struct td_item td_item_bool(bool b)
{
    return (struct td_item){.v = {.kind = TD_KIND_bool, .i = b}};
}
static inline struct td_item td_item_dtype(enum td_dtype dtype)
{
    return (struct td_item){.v = {.kind = TD_KIND_dtype, .dtype = dtype}};
}
static inline struct td_item td_item_str(const char *str)
{
    return (struct td_item){.v = {.kind = TD_KIND_str, .str = str}};
}
/* Whether the name is among those of a list that ends with NULL. */
static inline bool td_is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name))
        names++;
    return *names != NULL;
}

struct td_item td_item_ints(const int64_t *v, int n); /* n <= TD_MAX_LIST */

/* ---- nodes ---- */

enum td_operand_kind {
    TD_OPERAND_none,
    TD_OPERAND_value,
    TD_OPERAND_constant,
    TD_OPERAND_list,
    TD_OPERAND_graph
};

struct td_node_operand {
    const char *name; /* of an attribute or a keyword; NULL: by position */
    enum td_operand_kind kind;
    int value;                          /* its number; of kind value */
    struct td_value constant;           /* of kind constant; a list of ints of up to TD_MAX_LIST */
    const struct td_node_operand *list; /* of kind list: n of them, values or constants */
    int n;
    struct td_node_graph *graph; /* of kind graph: what If, Loop and Scan run */
};

struct td_node;
/* Makes of a node the calls that compute its results, through td_walk_*: fills out[node->n_outs].
 * in: the items of its operands; those of kind graph have none. 0, -EINVAL (td_walk_refuse),
 * -ENOMEM, -ETIMEDOUT. */
typedef int td_lower(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out);

struct td_node {
    const char *name; /* the node's own, or "" */
    const char *op;   /* "Conv", "aten.conv2d.default": for sentences and listings */
    td_lower *lower;
    const void *form; /* what lower wants to know: a formula, an operator's handle */
    int version;      /* of the operator set, where there are such */
    int n_operands, n_outs;
    const struct td_node_operand *operand;
    const int *out;  /* the values' numbers; -1: nobody wants it */
    const int *last; /* numbers of this graph's values that nobody wants after this node, */
    int n_last;      /* filled by td_program_close */
};

struct td_node_graph {
    int n_nodes, n_inputs, n_outputs;
    struct td_node *node;      /* in an order in which they can be computed */
    const int *input, *output; /* values' numbers */
};

/* ---- what an importer fills ---- */

struct td_constant {
    int value; /* its number */
    struct td_tensor tensor;
    struct td_weight *weight; /* a reference; NULL: the bytes are in the model's memory */
};

/* Files that a model has come with, as a form or a zip has them. */
struct td_files {
    int n;
    const struct td_file {
        const char *name, *field; /* of a form, what else it is called; else "" */
        const void *data;
        size_t size;
    } * file;
};

#define TD_PLAN_BUCKETS 64

struct td_model {
    _Atomic int refs;
    const char *format;
    struct td_arena *arena; /* of everything but the weights */
    struct td_weight_room *room;
    _Atomic size_t held_;         /* of room: its arena and its plans */
    const char *beside;           /* while it is read: where other files of it may lie, or NULL */
    const struct td_files *files; /* and those that have come with it, or NULL */
    _Atomic int short_;           /* what room said last when it refused */
    int n_values;                 /* numbers of values are below it, over all graphs */
    int n_nodes, n_folded;        /* of the program; and those that have become constants */
    struct td_node_graph graph;
    int n_inputs, n_outputs; /* the ports are graph.input and output's, in their order */
    struct td_model_port *input, *output;
    int n_hidden_in, n_hidden_out; /* the last of these, which only states have */
    int n_states, n_unpaired;
    struct td_model_state *state;
    struct td_constant *initial; /* by state, holds its first contents; value -1: none, else a
                                    constant no more */
    struct td_unpaired {
        const char *name, *why;
    } * unpaired;
    int n_words_, word_places_; /* texts of the file, and by their hashes */
    const char **word_;
    int *word_place_; /* 1 + which; 0: none */
    int n_constants, constants_room_;
    struct td_constant *constant;
    pthread_mutex_t lock_;  /* over the plans */
    struct td_plan *plans_; /* made so far, and by what they are for */
    struct td_plan *alike_[TD_PLAN_BUCKETS];
    struct td_workspace *idle_;                      /* memory that no plan computes in */
    struct td_derived *derived_[TD_DERIVED_BUCKETS]; /* constants that they share */
    uint64_t clock_;                                 /* calls */
    atomic_uint traps_; /* td_traps_barred, when the plans that rested were last let go for it */
    uint64_t *seen_;    /* hashes of calls without a plan, where plans are for values */
    uint64_t fixes_;    /* inputs, one bit each (td_input_bit), for whose values plans are */
    bool recording_;    /* a plan is being made: one at a time */
    int recorded_, evicted_; /* plans since the model was loaded */
    int walks_, wakes_;      /* walks under way; times that weights were woken for one */
    int64_t calm_;           /* runs of plans since the last walk */
    bool rests_;             /* weights have been sent to rest since */
};

/* Bytes that are the model's or a plan's, from its room: 0, or what that says. */
int td_program_take(struct td_model *model, size_t bytes);
void td_program_give(struct td_model *model, size_t bytes);
struct td_arena *td_program_arena(struct td_model *model); /* of such bytes; NULL: there are none */
/* Memory that lives as long as the model, zeroed; NULL when there is none. */
void *td_program_alloc(struct td_model *model, size_t bytes);
char *td_program_text(struct td_model *model, const char *text, size_t length);
/* The number of a text, the same for the same text, up to its end or a 0. -ENOMEM. */
int td_program_word(struct td_model *model, const char *text, size_t n, int64_t *word);
/* A new value's number. */
int td_program_value(struct td_model *model);
/* Gives a value's number to a constant, whose elements are copied. -EINVAL (td_fits), -ENOMEM, what
 * the room says. */
int td_program_constant(struct td_model *model, int value, const struct td_tensor *tensor);
/* Takes a constant out of the program, as *taken, whose reference is the caller's: the value has to
 * be made by something else. -EINVAL: there is none. */
int td_program_take_out(struct td_model *model, int value, struct td_constant *taken);
/* Of a program that has been closed, and is to be closed again. Computes what depends on constants
 * alone, here instead of in each run: its results are constants then, and those that nobody wants
 * any more are gone. What takes long, grows large or fails stays as it is. -ENOMEM, what the room
 * says. */
int td_program_fold(struct td_model *model, struct td_problem *problem);
/* Counts up, by value, each operand and each output that it is, over all graphs. */
void td_program_count_readers(const struct td_model *model, int *readers);
/* To be called when all is there: finds what dies where. -ENOMEM; -EINVAL when a node reads a value
 * that nothing before it makes. */
int td_program_close(struct td_model *model, struct td_problem *problem);

/* The importers. file: size bytes, of which each has seen the beginning. What td_model_load says.
 */
typedef int td_importer(struct td_model *model, const void *file, size_t size,
                        struct td_problem *problem);
td_importer td_import_onnx, td_import_pt2, td_import_expr;
/* How many entries a zip says that it has, before anybody makes room for them; 0: it has no end. */
uint64_t td_zip_entries(const void *file, size_t size);
/* Whether types, sizes and names of a closed one fit together, for all that can be told without
 * computing: -EINVAL, problem names the node. Types and sizes of outputs that the file leaves open
 * and that are the same in every call are written to the outputs' ports. */
int td_model_judge(struct td_model *model, struct td_problem *problem);
/* Finds the states among a closed one's ports by their names and shapes. -ENOMEM. */
int td_model_pair_ports(struct td_model *model);
/* Of a closed one from JSON: finds the outputs' types by a call. */
void td_expr_find_types(struct td_model *model);

/* ---- what a td_lower calls ---- */

struct td_given {     /* an argument of a call */
    const char *name; /* NULL: by position */
    struct td_item item;
};

/* Calls an operator ("add.Tensor", or "add" for whichever overload fits) and gives its results:
 * one, or for a Tensor[] result, or several results, *n of them in result[TD_MAX_OUTS]. Arguments
 * are bound as a client's would be. n NULL: there is one. What td_run_bind gives back; the sentence
 * has the operator's name. */
int td_walk_call(struct td_walk *walk, const char *op, const struct td_given *args, int n_args,
                 struct td_item *result, int *n);
/* The same for up to eight arguments by position, with one result. */
#define TD_CALL(walk, op, result, ...)                                                             \
    td_walk_call(walk, op, (const struct td_given[]){__VA_ARGS__},                                 \
                 (int)(sizeof((const struct td_given[]){__VA_ARGS__}) / sizeof(struct td_given)),  \
                 result, NULL)
#define TD_GIVE(x)                                                                                 \
    {                                                                                              \
        NULL, x                                                                                    \
    }
#define TD_NAMED(name, x)                                                                          \
    {                                                                                              \
        name, x                                                                                    \
    }

#define TD_FORMULA_ARGS 64 /* that a formula may have */

/* Computes a formula in the language of expressions (dispatch/graph/graph.h) over named items;
 * absent ones (kind none) are None there. One result, or several: "y = ...; z = ...". */
int td_walk_formula(struct td_walk *walk, const char *formula, const struct td_given *args,
                    int n_args, struct td_item *result, int *n);

/* A loop's turns. Where a value has to be known at each of them, the turns become plans one after
 * the other, and are alike if what is known and differs from turn to turn is told apart from what
 * is constant. Begins as zeros. */
struct td_turns {
    int reads;  /* of values, before the last turn, and 1 more */
    bool apart; /* there have been some since */
};
/* Before each turn: whether its states, n of them, vary. */
void td_walk_turn(struct td_walk *walk, struct td_turns *turns, struct td_item *state, int n);
/* After it: what comes next becomes the states. */
void td_walk_hand_on(struct td_item *state, const struct td_item *next, int n);

/* Runs an inner graph on items for its inputs, and gives those of its outputs. */
int td_walk_graph(struct td_walk *walk, const struct td_node_graph *graph,
                  const struct td_item *inputs, struct td_item *outputs);

/* A tensor's elements as whole numbers or as numbers, when there are at most max: how many, or
 * -EINVAL where it is no tensor, or of more. Ints, floats and bools are taken, too. */
int td_walk_ints(struct td_walk *walk, const struct td_item *item, int64_t *v, int max);
int td_walk_floats(struct td_walk *walk, const struct td_item *item, double *v, int max);

/* A tensor that is made of numbers: of dtype, shape [n], or [] for n = -1. -ENOMEM. */
int td_walk_tensor(struct td_walk *walk, enum td_dtype dtype, const double *v, int n,
                   struct td_item *result);
int td_walk_tensor_i64(struct td_walk *walk, const int64_t *v, int n, struct td_item *result);
/* A list of tensors (and of none), for arguments that are Tensor[]. -ENOMEM. */
int td_walk_list(struct td_walk *walk, const struct td_item *items, int n, struct td_item *result);
/* The same elements in another shape, which has as many; nothing is copied. */
struct td_item td_item_reshaped(const struct td_item *item, const int64_t *shape, int rank);

/* For a function that goes round and round: what was made since the mark is given back, but for
 * those n items. */
size_t td_walk_mark(const struct td_walk *walk);
void td_walk_release(struct td_walk *walk, size_t mark, const struct td_item *keep, int n);

/* Writes that there is no memory for what it says; gives back -ENOMEM. */
int td_walk_no_room(struct td_walk *walk, const char *what);
/* Writes why a node is refused; gives back -EINVAL. The node's name is put before it. */
int td_walk_refuse(struct td_walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Says that what has just been refused is so in any call, whatever sizes are; gives back err. */
int td_walk_unfit(struct td_walk *walk, int err);
/* -ETIMEDOUT with the sentence when the run has been stopped, else 0: for what may go round without
 * a call. */
int td_walk_stopped(struct td_walk *walk);

/* ---- what nodes say ---- */

/* The operand called so, its index, -1 when there is none. */
int td_node_find(const struct td_node *node, const char *name);
/* An attribute that is a whole number, or otherwise. */
int64_t td_node_int(const struct td_node *node, const char *name, int64_t otherwise);

#endif
