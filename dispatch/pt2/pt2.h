/* A .pt2 archive on its way into a program: torch.export's graph, whose nodes name ATen's overloads
 * and their arguments. As the files of the importer share it. Internal to this folder.
 *
 * archive.c reads the zip, json.c its JSON, weights.c the parameters; graph.c makes operands of
 * arguments, alias.c writes in place functional, targets.c knows what targets are, emit.c makes
 * a node of the JSON of one, nodes.c goes through them, and state.c finds what has to be
 * remembered, keep.c makes ports of it. What nodes do when the program is walked is in lower.c,
 * losses.c, compose.c, number.c, control.c, fourier.c, assert.c and guards.c, whose expressions
 * expr.c evaluates; import.c ties all together.
 */
#ifndef TD_DISPATCH_PT2_H
#define TD_DISPATCH_PT2_H

#include "dispatch/program/program.h"
#include "pools/pools.h"

#include <cjson/cJSON.h>

/* ---- the archive ---- */

struct td_pt2_loaded;
struct td_pt2_key { /* of a sorted list */
    const char *name;
    int at;                       /* whose name it is */
    const cJSON *item;            /* of a list of JSON members */
    struct td_pt2_value *value;   /* of what is stored, and of an entry: the graph's, or NULL */
    struct td_pt2_loaded *loaded; /* of an entry: the constants made of it, */
    bool seen, tied; /* and whether an output depends on its bytes, and several values show them */
};
/* Sorts; -EINVAL when a name comes twice, which are what. */
int td_pt2_sort(struct td_pt2_key *key, int n, const char *what, struct td_problem *problem);
struct td_pt2_key *td_pt2_find(struct td_pt2_key *key, int n, const char *name);

struct td_pt2_archive {
    struct zip *zip;
    struct td_pt2_key *entry; /* sorted by name */
    int n_entries;
    int prefix;       /* letters before "models/" in all names */
    const char *root; /* which begins with it */
    char model[64];   /* the model's name in the archive: "model" */
    size_t left;      /* bytes that may still be read: a file that says it holds more is bad */
    size_t taken;     /* of td_memory, for libzip */
    const struct td_pt2_key *kept; /* the entry last read, */
    const void *bytes;             /* its bytes, */
    struct td_arena *arena;        /* and where they are */
};
/* memory: lives longer than the archive. To be closed whatever this gives back. -EINVAL, -ENOMEM.
 */
int td_pt2_open(struct td_pt2_archive *archive, const void *file, size_t size,
                struct td_arena *memory, struct td_problem *problem);
void td_pt2_close(struct td_pt2_archive *archive);
/* The entry behind the prefix; NULL when there is none. */
struct td_pt2_key *td_pt2_entry(struct td_pt2_archive *archive, const char *folder,
                                const char *name, const char *end);
/* Its bytes, a 0 behind them; they last until the next is read. -EINVAL, -ENOMEM. */
int td_pt2_read(struct td_pt2_archive *archive, const struct td_pt2_key *entry, const char **bytes,
                size_t *size, struct td_problem *problem);

/* ---- JSON ---- */

struct td_pt2_json {
    cJSON *root;
    size_t taken; /* of td_memory */
};
/* Parses text (changed on the way: what no reader wants is blanked out). what: for sentences. To be
 * freed whatever this gives back. -EINVAL, -ENOMEM. */
int td_pt2_parse(struct td_pt2_json *json, char *text, size_t size, const char *what,
                 struct td_problem *problem);
void td_pt2_free(struct td_pt2_json *json);
const cJSON *td_pt2_get(const cJSON *object, const char *name); /* a member; NULL is fine */
const char *td_pt2_text(const cJSON *object, const char *name); /* a member's text, or NULL */
/* Whether it is an integer of 64 bits: exact, as the text has it. */
bool td_pt2_whole(const cJSON *number, int64_t *v);

#define TD_PT2_COMPLEX 10 /* torch.export's number of COMPLEX64 */
/* The types by torch.export's numbers; TD_DTYPE_none for those that there are none of. */
enum td_dtype td_pt2_dtype(const cJSON *number);

struct td_pt2_leaf {       /* one of what an Argument holds */
    const char *name;      /* of a value; NULL: a constant */
    const cJSON *constant; /* NULL: None */
    const char *as;        /* how it is to be read: "as_int" */
};
/* An Argument's only member: "as_tensor", "as_ints", ...; NULL when it is none. */
const cJSON *td_pt2_argument(const cJSON *argument);
/* What an Argument's member, or an element of it, is. */
struct td_pt2_leaf td_pt2_leaf(const char *as, const cJSON *item);
/* A constant's value: 0, or -1 where there is none of its kind. */
int td_pt2_constant(const struct td_pt2_leaf *leaf, struct td_value *value);

/* ---- under way ---- */

struct td_pt2_value {  /* a tensor or number of the file's, whose contents writes in place change */
    int number;        /* of its contents; -1: not made yet */
    const cJSON *meta; /* of a tensor */
    const cJSON *stored;       /* a constant that has not been wanted yet: its PayloadMeta, */
    const char *folder;        /* and where its bytes are; */
    const char *kind;          /* "buffer", "parameter" or "tensor constant"; */
    int loaded;                /* the number of its contents in the file, -1: nothing reads them */
    int becomes;               /* and, by the signature, at the graph's end; -1: it stays */
    struct td_pt2_value *of;   /* it is a view of; NULL: of nothing */
    struct td_pt2_value *root; /* of a view: what it is one of in the end, */
    int depth;                 /* over so many views */
    const cJSON *by;           /* the node that made it so, */
    int result;                /* as which of its results */
    bool unsure;               /* it may be a copy, too */
    int seen;                  /* the version of the root that the contents are of */
    /* Of a root: writes so far, the write up to which its own contents are, and what was written
     * into since, whose contents are of the newest version. */
    int version, flushed;
    struct td_pt2_value *written;
    const char *writer; /* the node that wrote last; NULL: none */
    bool lost;          /* what it wrote is not known here */
    bool is_state;      /* what a call leaves in it is wanted by the next */
};

struct td_pt2_name {
    const char *name;
    struct td_pt2_value *value;
};

struct td_pt2_graph;
/* An operand may be a view that has to be taken anew, or a graph, whose nodes have operands again:
 * graph.c, which reads operands, calls those above it by these. */
struct td_pt2_reader {
    int (*current)(struct td_pt2_graph *graph, struct td_pt2_value *value, int *number);
    int (*nodes)(struct td_pt2_graph *graph);
};

struct td_pt2 {
    const struct td_pt2_reader *reader;
    struct td_model *model;
    struct td_problem *problem;
    struct td_arena *arena; /* of the import */
    struct td_pt2_archive archive;
    struct td_pt2_key *stored[2]; /* PayloadMeta by name: of weights, of constants */
    int n_stored[2];
    const cJSON *ranges;     /* of symbols */
    const cJSON *conditions; /* on inputs */
};

struct td_pt2_graph { /* being read */
    struct td_pt2 *pt2;
    const cJSON *json;
    struct td_pt2_key *key; /* of the names in it, sorted: at says whose value, */
    int n_keys;
    struct td_pt2_value **value; /* one a key */
    const cJSON *reading;        /* the node */
    struct td_node *node;
    int n_nodes, room;
};

/* ---- names.c ---- */

/* A node's target, "relu_" of "torch.ops.aten.relu_.default", in the program's memory; or NULL. */
const char *td_pt2_short(struct td_pt2_graph *graph, const cJSON *node);
/* Whether an argument of a node's is true. */
bool td_pt2_flag(const cJSON *node, const char *name);
/* A node's own name, or "". */
const char *td_pt2_name(const cJSON *node);
/* Whether a node is a normalisation in training, which writes its running statistics. */
bool td_pt2_trains(const cJSON *node);
/* Whether op, with its overload and perhaps an underscore, is the operator of that name. */
bool td_pt2_is_called(const char *op, const char *name);
/* The argument that says whether the operator trains, which is to say that it writes its running
 * statistics and does not read them; NULL: it has none. */
const char *td_pt2_training_flag(const char *op);

/* ---- views.c ---- */

/* Whether a tensor's elements lie one after the other: sizes not known yet are taken to be right.
 */
bool td_pt2_is_dense(const cJSON *meta);
/* How a target's result differs from its first argument, if it is a view: 's' in its shape alone,
 * 'd' by two dimensions that change places, 'm' by the last two, 'o' otherwise; 0: it is none. */
char td_pt2_view_form(const char *target);
/* What a target's result is to its first argument: 'v' a view, 'u' a view or a copy, 0 neither. */
char td_pt2_view(const char *target, const cJSON *meta);

/* ---- weights.c ---- */

/* Reads the two lists of what is stored. */
int td_pt2_stored(struct td_pt2 *pt2, struct td_pt2_json json[2]);
/* Makes a constant of what is stored, and gives the value its number. */
int td_pt2_load(struct td_pt2 *pt2, struct td_pt2_value *value);

/* ---- graph.c ---- */

/* Opens a graph: its names; and closes it: its nodes become those of into. */
int td_pt2_begin(struct td_pt2_graph *graph, struct td_pt2 *pt2, const cJSON *json);
int td_pt2_end(struct td_pt2_graph *graph, struct td_node_graph *into);
/* The value called so; NULL with a sentence when there is none. */
struct td_pt2_value *td_pt2_value(struct td_pt2_graph *graph, const char *name);
/* The number of what an output is, of a node's making where it is a constant. */
int td_pt2_output(struct td_pt2_graph *graph, const cJSON *argument, int *number);
/* Appends a node, whose arrays are copied. */
int td_pt2_append(struct td_pt2_graph *graph, const struct td_node *node);
/* A node's operands but the first skip, behind room for so many before; n counts these, too. */
int td_pt2_operands(struct td_pt2_graph *graph, const cJSON *json, int skip, int before,
                    struct td_node_operand **operand, int *n);
/* Says that there is no memory: -ENOMEM. */
int td_pt2_no_memory(struct td_pt2 *pt2);
/* Refuses the node that is being read. */
int td_pt2_refuse(struct td_pt2_graph *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- alias.c ---- */

/* The number of a value's contents as they are after all writes in place so far. */
int td_pt2_current(struct td_pt2_graph *graph, struct td_pt2_value *value, int *number);
/* What a value is a view of in the end; itself where it is none. */
struct td_pt2_value *td_pt2_root(struct td_pt2_value *value);
/* Whether a node puts a view's contents back which are all of what it is a view of. */
bool td_pt2_puts_all(const struct td_node *node);
/* The value has been written: its contents have that number now. As td_pt2_current fails. */
int td_pt2_write(struct td_pt2_graph *graph, struct td_pt2_value *value, int number);
void td_pt2_make_view(struct td_pt2_value *value, struct td_pt2_value *of, const cJSON *by,
                      int result, bool unsure);

/* ---- targets.c ---- */

struct td_pt2_target { /* one that is no operator of the table */
    const char *name;
    td_lower *lower;
    char how;            /* see targets.c; of a number: what is done */
    const char *formula; /* over its arguments, by their names, */
    const char *also;    /* of which these may be left out: "dim=-1 dtype" */
};
const struct td_pt2_target *td_pt2_target(const char *name);

/* ---- nodes.c ---- */

/* Reads a graph's nodes. */
int td_pt2_nodes(struct td_pt2_graph *graph);

/* ---- emit.c ---- */

/* The node in JSON as one of the program's, with these numbers for its results. in_place: whether
 * it writes its first argument; or NULL. */
int td_pt2_emit(struct td_pt2_graph *graph, const cJSON *json, const int *out, int n_outs,
                bool *in_place);

/* ---- state.c ---- */

/* The node that is being read has written its running statistics, which are not computed here. */
int td_pt2_lose_statistics(struct td_pt2_graph *graph);
/* Of a graph that has been read to its end: finds the n stored values that are state, in the
 * import's arena, and what they become. -EINVAL: one cannot be kept; -ENOMEM. */
int td_pt2_find_states(struct td_pt2_graph *graph, const int *output, int n_outputs,
                       struct td_pt2_value ***state, int *n);

/* ---- what nodes do ---- */

/* The operator's parameter called so; NULL: there is none, or no name. */
const struct td_param *td_pt2_param(const struct td_handle *handle, const char *name);
/* The node's operand of that name; NULL: there is none, or it is None. */
const struct td_item *td_pt2_given(const struct td_node *node, const struct td_item *in,
                                   const char *name);
/* Operand i as a tensor, which t may do without; -EINVAL: it is none. */
int td_pt2_tensor_at(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     int i, struct td_tensor *t);
/* The one result of a formula, as td_walk_formula. */
int td_pt2_compute(struct td_walk *walk, const char *formula, const struct td_given *args, int n,
                   struct td_item *out);

td_lower td_pt2_call;    /* form: the operator's handle; op: its name, with _ where in place */
td_lower td_pt2_formula; /* form: a struct td_pt2_target */
td_lower td_pt2_diff;    /* of neighbours, what may stand before and behind them */
td_lower td_pt2_same;    /* its first operand */
td_lower td_pt2_loss, td_pt2_classes; /* form: a struct td_pt2_target; reduced at the end */
td_lower td_pt2_rot90, td_pt2_kron, td_pt2_multi_dot, td_pt2_quantile, td_pt2_tensordot;
td_lower td_pt2_norm, td_pt2_batch_norm, td_pt2_cartesian, td_pt2_block_diag, td_pt2_gradient;
td_lower td_pt2_bincount, td_pt2_stft, td_pt2_inner_product, td_pt2_grouped_product;
td_lower td_pt2_checked; /* a formula whose last result, info, must be 0 */
td_lower td_pt2_effect, td_pt2_pinv, td_pt2_matrix_norm, td_pt2_matrix_power;
td_lower td_pt2_number; /* form: a struct td_pt2_target; arithmetic on sizes */
td_lower td_pt2_size, td_pt2_item, td_pt2_tensor;
td_lower td_pt2_assert, td_pt2_assert_range, td_pt2_assert_metadata; /* without results */
td_lower td_pt2_fourier, td_pt2_shift, td_pt2_istft;

td_lower td_pt2_bilinear, td_pt2_cholesky_inverse, td_pt2_svd;

/* ---- arrange.c ---- */

td_lower td_pt2_diag, td_pt2_tensor_split, td_pt2_atleast, td_pt2_column_stack, td_pt2_unpool,
    td_pt2_nonzero_static, td_pt2_index_reduce, td_pt2_trapezoid, td_pt2_mvlgamma, td_pt2_cross,
    td_pt2_trilinear, td_pt2_window, td_pt2_affine_grid, td_pt2_places;

/* ---- complex.c ---- */

/* A complex tensor is a list of two, or a real one. */
struct td_pt2_complex {
    struct td_item re, im; /* im of kind none: 0 */
};
bool td_pt2_is_complex(const struct td_item *item);
int td_pt2_read_complex(struct td_walk *walk, const struct td_item *item, struct td_pt2_complex *c);
td_lower td_pt2_part, td_pt2_make_complex;
/* td_pt2_call, also for complex tensors. */
td_lower td_pt2_call_any;
td_lower td_pt2_cond, td_pt2_while, td_pt2_map, td_pt2_inline;
/* Calls an operator on n items from in[first], and on those of the node's operands from 3 on. */
int td_pt2_call_on(struct td_walk *walk, const char *op, const struct td_node *node,
                   const struct td_item *in, int first, int n, struct td_item *out);
/* The list of an operand as whole numbers; how many, or -EINVAL. */
int td_pt2_list(struct td_walk *walk, const struct td_item *item, int64_t v[TD_MAX_LIST]);

/* Arithmetic on n numbers, one to three, as a target's how says. As a td_lower. */
int td_pt2_arithmetic(struct td_walk *walk, char how, const struct td_item *in, int n,
                      struct td_item *out);

/* ---- expr.c ---- */

struct td_pt2_sizes { /* what names in an expression mean; -ENOSYS: nothing */
    int (*symbol)(const struct td_pt2_sizes *sizes, const char *name, int n, struct td_item *out);
    /* An input, by its path "args_0"; what of it: 's' a size, 't' a stride, 'o' the offset, 'n' the
     * number that it is. */
    int (*input)(const struct td_pt2_sizes *sizes, const char *path, char what, int64_t at,
                 struct td_item *out);
};
/* An expression's value; kind none: it cannot be computed. walk NULL: nothing is, and every name is
 * asked for. -ENOSYS: it is no expression that is understood here. */
int td_pt2_evaluate(struct td_walk *walk, const char *text, const struct td_pt2_sizes *sizes,
                    struct td_item *out);

/* ---- guards.c ---- */

/* Appends the node that judges whether the inputs' sizes fit each other and their ranges, and
 * whether the model's conditions hold, where there is something to judge. input: values' numbers,
 * and names, of n tensors and numbers. -EINVAL, -ENOMEM. */
int td_pt2_guard(struct td_pt2_graph *graph, const int *input, const struct td_pt2_name *name,
                 int n);

#endif
