/* How the importer's files say what a node of ONNX's is. For dispatch/onnx/.
 *
 * A row of the table (operators.def) names an operator's inputs and attributes as ONNX does, with
 * what they are when left out; older sets have as an attribute what has since become an input,
 * under the same name. Its formula, or its function, is given all of them by name, and makes calls
 * through the words below, which do nothing once something has failed. */
#ifndef TD_DISPATCH_ONNX_H
#define TD_DISPATCH_ONNX_H

#include "dispatch/program/program.h"

#define TD_ONNX_NAMES 64 /* an operator's, and those that its function adds */

struct td_onnx { /* a node that is being made calls of */
    struct td_walk *walk;
    const struct td_node *node;
    struct td_item *out;
    const char *formula; /* the row's */
    int version;         /* of the operator set */
    int err;             /* the first */
    int n;
    struct td_given name[TD_ONNX_NAMES];
};

typedef void td_onnx_lower(struct td_onnx *n);
struct td_onnx_row {
    const char *domain; /* "": ONNX's own */
    const char *op;
    const char *operands; /* "X W B | pads strides group=1": inputs, then attributes */
    td_onnx_lower *lower; /* NULL: the formula says it all */
    const char *formula;  /* NULL: the function has its own */
};
const struct td_onnx_row *td_onnx_find(const char *domain,
                                       const char *op); /* NULL: there is none */

/* A row as the nodes of a model use it: its operands, read apart. */
struct td_onnx_form {
    const struct td_onnx_row *row;
    int n_inputs, n; /* the inputs come first */
    bool many;       /* the last input is any number of them */
    struct td_onnx_operand {
        const char *name;
        char mark; /* '?' a bool, '%' a type */
        char type; /* 'B': it is BOOL; another letter: all with it have one type; 0: any type */
        struct td_value otherwise;
    } operand[];
};

/* The td_lower of all nodes, by their form. */
td_lower td_onnx_walk;

/* An element type by ONNX's number; none where there is no such here. */
enum td_dtype td_onnx_dtype(int64_t type);
const char *td_onnx_type_name(int64_t type);

/* The words: short where rows' functions are made of them, and where they are defined
 * (formula.c); the linker knows them by their prefix. */
#define refuse(n, ...)                                                                             \
    ((void)((n)->err = (n)->err ? (n)->err : td_walk_refuse((n)->walk, __VA_ARGS__)))
#define unfit(n, ...) (refuse(n, __VA_ARGS__), (void)td_walk_unfit((n)->walk, (n)->err))
#define no_room(...) td_onnx_no_room(__VA_ARGS__)
#define has(...) td_onnx_has(__VA_ARGS__)
#define at(...) td_onnx_at(__VA_ARGS__)
#define tensor_of(...) td_onnx_tensor(__VA_ARGS__)
#define axis_of(...) td_onnx_axis(__VA_ARGS__)
#define ints(...) td_onnx_ints(__VA_ARGS__)
#define reals(...) td_onnx_reals(__VA_ARGS__)
#define whole(...) td_onnx_whole(__VA_ARGS__)
#define real(...) td_onnx_real(__VA_ARGS__)
#define text(...) td_onnx_text(__VA_ARGS__)
#define let(...) td_onnx_let(__VA_ARGS__)
#define let_int(...) td_onnx_let_int(__VA_ARGS__)
#define let_ints(...) td_onnx_let_ints(__VA_ARGS__)
#define let_tensor(...) td_onnx_let_tensor(__VA_ARGS__)
#define set_numbers(...) td_onnx_set_numbers(__VA_ARGS__)
#define eval(...) td_onnx_eval(__VA_ARGS__)
#define set(...) td_onnx_set(__VA_ARGS__)
#define give(...) td_onnx_give(__VA_ARGS__)
#define put(...) td_onnx_put(__VA_ARGS__)
#define wants(...) td_onnx_wants(__VA_ARGS__)
#define list_of(...) td_onnx_list(__VA_ARGS__)
#define call_list(...) td_onnx_call_list(__VA_ARGS__)

/* refuse(n, format, ...) makes the node fail with this message. unfit does, too, and says that the
 * node fails in every call, whatever the sizes: an attribute or a type is wrong. */

/* Fails for want of memory for what it says. */
void td_onnx_no_room(struct td_onnx *n, const char *what);

/* What is called so: of what is not there, a none; and whether it is there. */
const struct td_item *td_onnx_at(struct td_onnx *n, const char *name);
bool td_onnx_has(struct td_onnx *n, const char *name);
/* As a tensor; where it is none, it fails, and gives one of eight dimensions of one element. */
const struct td_tensor *td_onnx_tensor(struct td_onnx *n, const char *name);
/* The attribute called so as a dimension of a tensor of rank; fails where it is none. */
int td_onnx_axis(struct td_onnx *n, const char *name, int rank);
/* Numbers, of a tensor or an attribute: how many; -1 where there are none, or on failure. */
int td_onnx_ints(struct td_onnx *n, const char *name, int64_t *v, int max);
int td_onnx_reals(struct td_onnx *n, const char *name, double *v, int max);
int64_t td_onnx_whole(struct td_onnx *n, const char *name, int64_t otherwise);
double td_onnx_real(struct td_onnx *n, const char *name, double otherwise);
const char *td_onnx_text(struct td_onnx *n, const char *name); /* "" where there is none */

/* Gives an item a name, in place of what has had it. */
void td_onnx_let(struct td_onnx *n, const char *name, struct td_item item);
void td_onnx_let_int(struct td_onnx *n, const char *name, int64_t v);
void td_onnx_let_ints(struct td_onnx *n, const char *name, const int64_t *v, int count);
/* A tensor of numbers: as td_walk_tensor. */
void td_onnx_let_tensor(struct td_onnx *n, const char *name, enum td_dtype dtype, const double *v,
                        int count);
/* What is called so, a tensor or numbers, as a tensor of the type. */
void td_onnx_set_numbers(struct td_onnx *n, const char *name, enum td_dtype dtype);
/* A formula over the names: its one result; that under a name; and all of its results as the
 * node's own. */
struct td_item td_onnx_eval(struct td_onnx *n, const char *formula);
void td_onnx_set(struct td_onnx *n, const char *name, const char *formula);
void td_onnx_give(struct td_onnx *n, const char *formula);
/* The node's result i, which nobody may want. */
void td_onnx_put(struct td_onnx *n, int i, struct td_item item);
bool td_onnx_wants(const struct td_onnx *n, int i);

/* A list of tensors; how many. */
int td_onnx_list(struct td_onnx *n, const char *name, const struct td_item **list);
/* op(list, number), or op(list) for number NULL. */
struct td_item td_onnx_call_list(struct td_onnx *n, const char *op, const struct td_item *list,
                                 int count, const int64_t *number);

/* ---- attention.c ---- */

/* Q, K and V, [batch, n, heads * size], become [batch, heads, n, size]; of: the heads of K and V.
 */
void td_onnx_let_heads(struct td_onnx *n, int64_t heads, int64_t of);
/* Puts past_key and past_value, where they are given, before K and V. */
void td_onnx_let_past(struct td_onnx *n);
/* Makes K and V results 1 and 2: the past of the next call. */
void td_onnx_put_past(struct td_onnx *n);

/* What the rows' functions are. */
#define TD_ONNX(op, operands, formula)
#define TD_ONNX_BY(op, operands, function, ...) td_onnx_lower td_onnx_##function;
#define TD_ONNX_IN(domain, op, operands, formula)
#define TD_ONNX_IN_BY(domain, op, operands, function, ...) td_onnx_lower td_onnx_##function;
#include "dispatch/onnx/ops/operators.def"

#include "dispatch/onnx/ops/domains.def"
#undef TD_ONNX
#undef TD_ONNX_BY
#undef TD_ONNX_IN
#undef TD_ONNX_IN_BY

#endif
