/* What the files that read expressions share. Internal to this folder. */
#ifndef TD_DISPATCH_GRAPH_PARSER_H
#define TD_DISPATCH_GRAPH_PARSER_H

#include "dispatch/graph/graph.h"

struct td_graph_room { /* for a graph while it is read */
    struct td_graph graph;
    struct td_result result[TD_MAX_OUTS];
    struct td_operand operand[2 * TD_GRAPH_NODES];
    struct td_graph_node node[TD_GRAPH_NODES];
    struct td_value value[TD_GRAPH_NODES];
    char text[1024];
};

/* room->graph, as td_graph_read's. */
int td_graph_parse(struct td_graph_room *room, const char *text, const struct td_named *args,
                   int n_args, const char *who, struct td_problem *problem);

struct td_parser {
    const char *text, *at, *who;
    const struct td_named *args;
    struct td_graph *graph;
    struct td_problem *problem;
    int n_args, depth, err;
    /* parse.c's, for suffix.c. An expression that binds at least so tightly; and the arguments of a
     * call of name behind its opening bracket (self: the first of them, or NULL). */
    struct td_operand (*expression)(struct td_parser *p, int level);
    struct td_operand (*arguments)(struct td_parser *p, const char *at, const char *name,
                                   const struct td_operand *self);
};

static const struct td_operand td_no_operand = {.node = -1};

/* Says what is wrong at a place of the text, if it is the first; gives back no operand. */
struct td_operand td_parse_wrong(struct td_parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* So: "WHAT 'NAME'; did you mean 'NEAR'?" */
struct td_operand td_parse_unknown(struct td_parser *p, const char *at, const char *what,
                                   const char *name, const char *const *names, int n);

/* What stands behind a value, in suffix.c. */
struct td_operand td_parse_suffixes(struct td_parser *p, struct td_operand a);

/* ---- nodes.c ---- */

void td_parse_skip(struct td_parser *p);         /* blanks */
bool td_parse_take(struct td_parser *p, char c); /* and then c, if it is there */
bool td_parse_begins_word(char c);
/* whole: with the points in it. Where it is too long, it is cut, and nothing is called so. */
#define TD_PARSER_WORD (2 * TD_NAME_SIZE)
void td_parse_word(struct td_parser *p, char name[TD_PARSER_WORD], bool whole);

/* Nodes; of the same number, or the same call of tensors and numbers, there is one. */
struct td_operand td_parse_argument(struct td_parser *p, const char *at, int argument);
struct td_operand td_parse_constant(struct td_parser *p, const char *at,
                                    const struct td_value *value);
struct td_operand td_parse_number(struct td_parser *p, const char *at, enum td_kind kind, int64_t i,
                                  double f);
/* handle: NULL makes a list of the operands. */
struct td_operand td_parse_call(struct td_parser *p, const char *at, const struct td_handle *handle,
                                bool one, const struct td_operand *operands, int n);
/* The number that an operand is; NULL: it is a tensor, or something else. */
const struct td_value *td_parse_number_of(const struct td_parser *p, struct td_operand a);

/* The operators between two values. What binds tighter has more of level. */
#define TD_LEVEL_COMPARISON 1
#define TD_LEVEL_POWER 9
struct td_infix {
    char sign[3];
    signed char level;
    const char *op;
    const char *turned; /* with a number in front: of the operands turned round; NULL: the same */
};
const struct td_infix *td_parse_infix(const char *at); /* the one that stands there, or NULL */
struct td_operand td_parse_join(struct td_parser *p, const char *at, const struct td_infix *infix,
                                struct td_operand a, struct td_operand b);
/* sign: '-' or '~' */
struct td_operand td_parse_sign(struct td_parser *p, const char *at, struct td_operand a);

#endif
