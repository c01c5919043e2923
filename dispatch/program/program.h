/* The program of a model: a graph of nodes, each with its operator in the file's format, its
 * operands, and a function that lowers it to calls of our operators. Nodes are lowered while the
 * program is walked with real inputs: types and shapes are known then, and so are small values that
 * decide about shapes. This folder uses none of its neighbours: importers (onnx/, pt2/) fill a
 * program, walk/ runs it, plan/ and passes/ keep a run of it as a plan.
 *
 * An importer fills a struct td_model through td_program_*; its lowering functions (td_lower) are
 * given a node and the items of its operands, and call operators through td_walk_*. */
#ifndef TD_DISPATCH_PROGRAM_H
#define TD_DISPATCH_PROGRAM_H

#include "dispatch/dispatch.h"
#include "dispatch/model/model.h"
#include "pools/pools.h"

#include <pthread.h>
#include <string.h>

#define TD_PROGRAM_DEPTH 64 /* of nested graphs, at most */
#define TD_DERIVED_BUCKETS 64

struct td_walk;
struct td_block;
struct td_node_graph;

/* ---- items: values at run time ---- */

/* Items may be copied freely. The items that a td_lower is given or makes through td_walk_* live
 * until it returns, and those that it returns as results live as long as they are read. A td_lower
 * frees none, except that loops call td_walk_release. */
struct td_item {                /* v.kind is none where an optional operand is absent */
    struct td_value v;          /* a number, text or tensor; a list of tensors is in list */
    const struct td_item *list; /* of kind tensors: n items, among them absent ones for None */
    int n;
    struct td_block *block; /* owns the data; NULL: they are a constant's or the caller's */
    int recorded; /* 1 + the index in walk->recorded of the tensor that it is or views; 0: none */
    bool varies;  /* its elements are known, but differ in each turn of a loop (td_walk_turn) */
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
    const char *name; /* of an attribute or keyword argument; NULL: by position */
    enum td_operand_kind kind;
    int value;                          /* of kind value: its number */
    struct td_value constant;           /* of kind constant; of ints at most TD_MAX_LIST */
    const struct td_node_operand *list; /* of kind list: n of them, values or constants */
    int n;
    struct td_node_graph *graph; /* of kind graph: the body of If, Loop or Scan */
};

struct td_node;
/* Lowers a node: calls operators through td_walk_* and fills out[node->n_outs]. in: the items of
 * its operands; of kind graph: absent. 0, -EINVAL (td_walk_refuse), -ENOMEM, -ETIMEDOUT. */
typedef int td_lower(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_item *out);

struct td_node {
    const char *name; /* the node's own, or "" */
    const char *op;   /* "Conv", "aten.conv2d.default": for messages and listings */
    td_lower *lower;
    const void *form; /* data for lower: a formula, an operator's handle */
    int version;      /* of the ONNX operator set */
    int n_operands, n_outs;
    const struct td_node_operand *operand;
    const int *out;  /* the numbers of its results; -1: not used */
    const int *last; /* numbers of this graph's values whose last use is this node, */
    int n_last;      /* filled by td_program_close */
};

struct td_node_graph {
    int n_nodes, n_inputs, n_outputs;
    struct td_node *node;      /* in topological order */
    const int *input, *output; /* values' numbers */
};

/* ---- what an importer fills ---- */

struct td_constant {
    int value; /* its number */
    struct td_tensor tensor;
    struct td_weight *weight; /* a reference; NULL: the elements are in the model's arena */
};

/* The files that were uploaded with a model, in a form or a zip. */
struct td_files {
    int n;
    const struct td_file {
        const char *name, *field; /* field: the form field's name, or "" */
        const void *data;
        size_t size;
    } * file;
};

#define TD_PLAN_BUCKETS 1024

struct td_model {
    _Atomic int refs;
    const char *format;
    struct td_arena *arena;       /* of all but weights and plans */
    struct td_weight_room *room;  /* borrowed; the memory budget, or NULL */
    _Atomic size_t held_;         /* bytes charged to it for the arena and the plans */
    const char *beside;           /* while loading: the directory of its other files, or NULL */
    const struct td_files *files; /* and the files that were uploaded with it, or NULL */
    _Atomic int short_;           /* the error of the last refusal by room */
    int n_values;                 /* values of all graphs have numbers below it */
    int n_nodes, n_folded;        /* nodes of all graphs; nodes that were constant-folded */
    struct td_node_graph graph;
    int n_inputs, n_outputs; /* the ports are in the order of graph.input and graph.output */
    struct td_model_port *input, *output;
    int n_hidden_in, n_hidden_out; /* how many of these, at the end, are only for states */
    int n_states, n_unpaired;
    struct td_model_state *state;
    struct td_constant *initial; /* by state: its first contents, which were the constant of that
                                    value; value -1: there are none */
    struct td_unpaired {
        const char *name, *why;
    } * unpaired;
    int n_words_, word_places_; /* strings of the file; size of their hash table */
    const char **word_;
    int *word_place_; /* the hash table: 1 + a string's number; 0: free */
    int n_constants, constants_room_;
    struct td_constant *constant;
    pthread_mutex_t lock_;  /* guards what follows */
    struct td_plan *plans_; /* all plans, the youngest first; alike_: the same in hash buckets */
    struct td_plan *alike_[TD_PLAN_BUCKETS];
    struct td_workspace *idle_;                      /* workspaces that no plan uses */
    struct td_derived *derived_[TD_DERIVED_BUCKETS]; /* constants that passes made for all plans */
    uint64_t clock_;                                 /* counts calls: the clock of last uses */
    atomic_uint traps_; /* td_traps_barred when idle plans were last freed because it had changed */
    uint64_t *seen_;    /* if fixes_: hashes of recent calls for which there was no plan */
    uint64_t fixes_;    /* a bit (td_input_bit) for each input for whose values plans are made */
    bool recording_;    /* a thread records a plan; only one may */
    int recorded_, evicted_; /* plans since the model was loaded */
    int walks_, wakes_;      /* walks now running; how often a walk had to restore weights */
    int64_t calm_;           /* runs of plans since the last walk */
    bool rests_;             /* plain elements of weights have been freed since */
};

/* Charges bytes to the model's budget: 0, or its error; td_program_give gives them back. */
int td_program_take(struct td_model *model, size_t bytes);
void td_program_give(struct td_model *model, size_t bytes);
/* A new arena whose bytes are charged so; NULL: no memory. */
struct td_arena *td_program_arena(struct td_model *model);
/* Zeroed memory that lives as long as the model, and a copy of a text there; NULL: no memory. */
void *td_program_alloc(struct td_model *model, size_t bytes);
char *td_program_text(struct td_model *model, const char *text, size_t length);
/* The number of a string of n bytes or up to a 0, which is added if it is new. -ENOMEM. */
int td_program_word(struct td_model *model, const char *text, size_t n, int64_t *word);
/* The number of a string of n bytes; -1: the model does not have it. */
int64_t td_program_find_word(const struct td_model *model, const char *text, size_t n);
/* The number of a new value. */
int td_program_value(struct td_model *model);
/* Makes the value a constant with a copy of the tensor's elements. -EINVAL (td_fits), -ENOMEM, what
 * the budget returns. */
int td_program_constant(struct td_model *model, int value, const struct td_tensor *tensor);
/* Removes a constant from the program; the caller owns the reference in *taken, and has something
 * else produce the value. -EINVAL: the value is no constant. */
int td_program_take_out(struct td_model *model, int value, struct td_constant *taken);
/* Constant folding, of a closed program, which must be closed again. Nodes that depend only on
 * constants are computed and become constants, and constants that nothing reads any more are freed.
 * Nodes that take too long, make too much or fail stay. -ENOMEM, what the budget returns. */
int td_program_fold(struct td_model *model, struct td_problem *problem);
/* Adds to readers[value] each use of the value as an operand or output, over all graphs. */
void td_program_count_readers(const struct td_model *model, int *readers);
/* Sets, for each value that a node of the graph makes, 1 + that node's number in maker, and for
 * each constant 1 + its number in constant. */
void td_program_find_makers(const struct td_model *model, int *maker, int *constant);
/* Checks a program that is complete, and finds each value's last use. -ENOMEM; -EINVAL: a node
 * reads a value that nothing before it makes. */
int td_program_close(struct td_model *model, struct td_problem *problem);

/* The importers. file: size bytes, whose beginning has been checked. What td_model_load returns. */
typedef int td_importer(struct td_model *model, const void *file, size_t size,
                        struct td_problem *problem);
td_importer td_import_onnx, td_import_pt2, td_import_expr;
/* The number of entries that a zip's end record claims, so that it can be checked before memory is
 * allocated for them; 0: there is no such record. */
uint64_t td_zip_entries(const void *file, size_t size);
/* Checks types and shapes of a closed program as far as this is possible without computing:
 * -EINVAL, problem names the node. Types and sizes of outputs that the file does not give, but that
 * are the same in every call, are written to the outputs' ports. */
int td_model_judge(struct td_model *model, struct td_problem *problem);
/* Finds the states among the ports of a closed program by names and shapes. -ENOMEM. */
int td_model_pair_ports(struct td_model *model);
/* Finds the outputs' types of a closed program from JSON by running it once. */
void td_expr_find_types(struct td_model *model);

/* ---- what a td_lower calls ---- */

struct td_given {     /* an argument of a call */
    const char *name; /* NULL: by position */
    struct td_item item;
};

/* Calls an operator ("add.Tensor", or "add" for whichever overload fits). Its results, or the
 * elements of a Tensor[] result, are *n items in result[TD_MAX_OUTS]; n NULL: there is one.
 * Arguments are bound as a client's are. What td_run_bind returns; the problem's text has the
 * operator's name. */
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

#define TD_FORMULA_ARGS 64 /* of a formula, at most */

/* Computes a formula in the language of expressions (dispatch/graph/graph.h) over named items, of
 * which absent ones (kind none) are None. It has one result, or several: "y = ...; z = ...". */
int td_walk_formula(struct td_walk *walk, const char *formula, const struct td_given *args,
                    int n_args, struct td_item *result, int *n);

/* The turns (iterations) of a loop. If each turn reads a computed value, each becomes a plan of its
 * own. These plans are equal, and can be shared, if loop-carried values that are known but differ
 * from turn to turn are inputs of the plan and not constants. To be zeroed at first. */
struct td_turns {
    int reads;  /* 1 + how many values the walk had read before the last turn; 0: no turn yet */
    bool apart; /* values were read during a turn, so turns are in different plans */
};
/* Before each turn: clears varies of the n states, unless turns are in different plans. */
void td_walk_turn(struct td_walk *walk, struct td_turns *turns, struct td_item *state, int n);
/* After each turn: makes next the states; those that have changed vary from now on. */
void td_walk_hand_on(struct td_item *state, const struct td_item *next, int n);

/* Runs a graph on these items as its inputs, and fills outputs with those of its outputs. */
int td_walk_graph(struct td_walk *walk, const struct td_node_graph *graph,
                  const struct td_item *inputs, struct td_item *outputs);

/* Reads the elements of a tensor, or numbers, as integers or as doubles: how many there are.
 * -EINVAL: there are more than max, or the item has none; also what recorder->read returns. */
int td_walk_ints(struct td_walk *walk, const struct td_item *item, int64_t *v, int max);
int td_walk_floats(struct td_walk *walk, const struct td_item *item, double *v, int max);

/* Makes a tensor of these numbers, of dtype and shape [n], or [] for n = -1. -ENOMEM. */
int td_walk_tensor(struct td_walk *walk, enum td_dtype dtype, const double *v, int n,
                   struct td_item *result);
int td_walk_tensor_i64(struct td_walk *walk, const int64_t *v, int n, struct td_item *result);
/* Makes a list of tensors and absent items, for arguments of type Tensor[]. -ENOMEM. */
int td_walk_list(struct td_walk *walk, const struct td_item *items, int n, struct td_item *result);
/* The same tensor in another shape with as many elements; nothing is copied. */
struct td_item td_item_reshaped(const struct td_item *item, const int64_t *shape, int rank);

/* For loops: drops the running node's references to all blocks made since the mark, except those of
 * the n items. */
size_t td_walk_mark(const struct td_walk *walk);
void td_walk_release(struct td_walk *walk, size_t mark, const struct td_item *keep, int n);

/* Sets the problem "no memory for" what; returns -ENOMEM. */
int td_walk_no_room(struct td_walk *walk, const char *what);
/* Sets the problem, why a node is refused; returns -EINVAL. The caller adds the node's name. */
int td_walk_refuse(struct td_walk *walk, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Notes in walk->misfit that this refusal (err) would happen with any sizes; returns err. */
int td_walk_unfit(struct td_walk *walk, int err);
/* For loops that may make no calls: -ETIMEDOUT and the problem if the run has been stopped, -EAGAIN
 * if other processes use the team's CPUs, else 0. */
int td_walk_stopped(struct td_walk *walk);

/* ---- a node's operands ---- */

/* The index of the operand with this name, or -1. */
int td_node_find(const struct td_node *node, const char *name);
/* The value of an integer or bool attribute; otherwise if there is none. */
int64_t td_node_int(const struct td_node *node, const char *name, int64_t otherwise);

#endif
