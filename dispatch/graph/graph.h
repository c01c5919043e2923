/* Graphs of operator calls. An expression's text becomes nodes, in the order in which they can be
 * computed; a graph is bound to arguments as the parts of a run, by the operators' own rules; and
 * parts that are pointwise over one shape are computed together, a tile at a time.
 *
 * The language is Python's: names of arguments, numbers, pi, e, inf, nan, True, False, None,
 * 'texts', lists of numbers or tensors, calls by ATen's names with arguments by position and by
 * keyword, RESULTS[1], and the operators == != < <= > >= | ^ & << >> + - * / // % ** ~ with its
 * precedence. "y = a + b; z = y * c" has the results y and z; a name that begins with _ is none of
 * them. */
#ifndef TD_DISPATCH_GRAPH_H
#define TD_DISPATCH_GRAPH_H

#include "dispatch/dispatch.h"

#define TD_GRAPH_TEXT 8192 /* bytes of an expression */
#define TD_GRAPH_NODES 256
#define TD_GRAPH_DEPTH 64
#define TD_GRAPH_ARGS 64 /* of which it may name any */

#define TD_NODE_LIST (-2) /* of tensors */

struct td_operand { /* a value: what a node makes, or a result of it */
    short node;     /* -1: none */
    short result;
    bool picked;      /* it is said which: [0] */
    const char *name; /* given by keyword: as the schema has it */
};

struct td_graph_node {
    const struct td_handle *handle; /* of a call; NULL: an argument, a constant or a list */
    bool one;                       /* this overload, not whichever fits */
    short column;                   /* in the text, from 1 */
    short argument;                 /* which; -1: a constant; TD_NODE_LIST */
    short first, n;                 /* operands of a call or a list */
    const struct td_value *value;   /* of a constant */
};

struct td_graph { /* refers to nothing of the text and the arguments that it was read with */
    int n_nodes, n_operands, n_values, n_results;
    bool named; /* results have names; else there is one call, whose results they are */
    size_t text_used;
    uint64_t used; /* arguments, one bit each */
    struct td_result {
        char name[TD_NAME_SIZE];
        struct td_operand of;
    } * result; /* also those that are none: name[0] is '_' */
    struct td_operand *operand;
    struct td_graph_node *node;
    struct td_value *value;
    char *text; /* of constants */
};

struct td_graph_use { /* of a graph that others may use at the same time */
    const struct td_graph *graph;
    struct td_memo_item *shared; /* that has it, or */
    struct td_graph *own;
};

/* Reads text over named arguments, at most TD_GRAPH_ARGS. Numbers, True, False and None become
 * constants, all else stays an argument; of tensors, lists and texts it matters to the graph that
 * they are there, not what they are. So a graph is kept, by its text and these, and found when it
 * is read again. who: in front of the sentence in problem, "WHO: column 7: ...". -EINVAL, -ENOMEM:
 * then use has no graph. */
int td_graph_read(struct td_graph_use *use, const char *text, const struct td_named *args,
                  int n_args, const char *who, struct td_problem *problem);
void td_graph_release(struct td_graph_use *use); /* one without a graph is fine */

/* Whether a result of the operator may be meant so: of several it must be said which. whole: all
 * may be. -EINVAL. */
int td_graph_check_pick(const struct td_handle *handle, const struct td_operand *of, bool whole,
                        struct td_problem *problem);

struct td_sources { /* of a graph's arguments */
    const struct td_named *args;
    struct td_run *const *parts; /* those that make them, NULL where they are there; or NULL */
    bool own;                    /* they are the arguments of the run that is bound */
    td_keyset keys;              /* for all calls; 0: by the arguments' and the thread's */
    const char *who;             /* for sentences */
};
/* Binds graph as the parts of run, behind those that are there, and gives run their results.
 * Memory is run->options.alloc's. What td_run_bind gives back. */
int td_graph_bind(struct td_run *run, const struct td_graph *graph,
                  const struct td_sources *sources);

/* ---- expr.c ---- */

/* Of expressions: has no operator, and no table. init: by the registry's. */
void td_graph_init(void);

#endif
