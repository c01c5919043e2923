/* The nodes that an expression's text becomes, and what its operators mean: each value is a node
 * that is counted, a number or a call of tensors and numbers that stands twice is one; operators
 * between numbers alone are computed here, as Python does. */
#include "dispatch/graph/parser.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct td_operand td_parse_wrong(struct td_parser *p, const char *at, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!p->err)
        p->err = td_problem_set(p->problem, EINVAL, "%s: column %d: %s", p->who,
                                (int)(at - p->text) + 1, what);
    return td_no_operand;
}

struct td_operand td_parse_unknown(struct td_parser *p, const char *at, const char *what,
                                   const char *name, const char *const *names, int n)
{
    const char *near = td_nearest(name, names, n);
    return td_parse_wrong(p, at, "%s '%.60s'%s%s%s", what, name, near ? "; did you mean '" : "",
                          near ? near : "", near ? "'?" : "");
}

/* ---- words ---- */

void td_parse_skip(struct td_parser *p)
{
    p->at += strspn(p->at, " \t\r\n");
}

bool td_parse_take(struct td_parser *p, char c)
{
    td_parse_skip(p);
    return *p->at == c && p->at++;
}

bool td_parse_begins_word(char c)
{
    return isalpha((unsigned char)c) || c == '_';
}

void td_parse_word(struct td_parser *p, char name[TD_PARSER_WORD], bool whole)
{
    size_t n = 0;
    for (; isalnum((unsigned char)*p->at) || *p->at == '_' || (whole && *p->at == '.'); p->at++)
        if (n < TD_PARSER_WORD - 1)
            name[n++] = *p->at;
    name[n] = 0;
    td_parse_skip(p);
}

/* ---- nodes ---- */

static struct td_operand add(struct td_parser *p, const char *at, const struct td_graph_node *node)
{
    struct td_graph *g = p->graph;
    if (g->n_nodes == TD_GRAPH_NODES)
        return td_parse_wrong(p, at, "there are more than %d values", TD_GRAPH_NODES);
    g->node[g->n_nodes] = *node;
    g->node[g->n_nodes].column = (short)(at - p->text + 1);
    return (struct td_operand){.node = (short)g->n_nodes++};
}

struct td_operand td_parse_argument(struct td_parser *p, const char *at, int argument)
{
    for (short i = 0; i < p->graph->n_nodes; i++)
        if (p->graph->node[i].argument == argument)
            return (struct td_operand){.node = i};
    return add(p, at, &(struct td_graph_node){.argument = (short)argument});
}

static bool is_number(const struct td_graph_node *node)
{
    return node->value && td_is_number(node->value);
}

const struct td_value *td_parse_number_of(const struct td_parser *p, struct td_operand a)
{
    const struct td_graph_node *node = a.node >= 0 ? &p->graph->node[a.node] : NULL;
    return node && is_number(node) ? node->value : NULL;
}

struct td_operand td_parse_constant(struct td_parser *p, const char *at,
                                    const struct td_value *value)
{
    struct td_graph *g = p->graph;
    for (short i = 0; td_is_number(value) && i < g->n_nodes; i++)
        if (is_number(&g->node[i]) && g->node[i].value->kind == value->kind &&
            g->node[i].value->i == value->i) /* a float's bits, too */
            return (struct td_operand){.node = i};
    struct td_graph_node node = {.argument = -1, .value = &g->value[g->n_values]};
    struct td_operand made = add(p, at, &node); /* there are as many values as nodes */
    if (made.node >= 0)
        g->value[g->n_values++] = *value;
    return made;
}

struct td_operand td_parse_number(struct td_parser *p, const char *at, enum td_kind kind, int64_t i,
                                  double f)
{
    struct td_value v = {.kind = kind, .i = i};
    if (kind == TD_KIND_float)
        v.f = f;
    return td_parse_constant(p, at, &v);
}

static bool are_same(const struct td_operand *a, const struct td_operand *b, int n)
{
    int i = 0;
    while (i < n && a[i].node == b[i].node && a[i].result == b[i].result &&
           a[i].picked == b[i].picked && a[i].name == b[i].name)
        i++;
    return i == n;
}

struct td_operand td_parse_call(struct td_parser *p, const char *at, const struct td_handle *handle,
                                bool one, const struct td_operand *operands, int n)
{
    struct td_graph *g = p->graph;
    struct td_graph_node node = {
        .handle = handle, .one = one, .argument = handle ? -1 : TD_NODE_LIST};
    node.n = (short)n;
    node.first = (short)g->n_operands;
    for (short i = 0; i < g->n_nodes; i++)
        if (g->node[i].handle == handle && g->node[i].argument == node.argument &&
            g->node[i].one == one && g->node[i].n == n &&
            are_same(&g->operand[g->node[i].first], operands, n) &&
            !(handle && td_op_draws_chance(handle->schema.name)))
            return (struct td_operand){.node = i};
    if (g->n_operands + n > 2 * TD_GRAPH_NODES)
        return td_parse_wrong(p, at, "there are more than %d operands", 2 * TD_GRAPH_NODES);
    for (int i = 0; i < n; i++)
        g->operand[g->n_operands++] = operands[i];
    return add(p, at, &node);
}

static struct td_operand call(struct td_parser *p, const char *at, const char *op,
                              struct td_operand a, struct td_operand b, int n)
{
    const struct td_operand operands[2] = {a, b};
    return p->err ? td_no_operand : td_parse_call(p, at, td_registry_find(op), false, operands, n);
}

/* ---- operators ---- */

static const struct td_infix infixes[] = {
    {"==", TD_LEVEL_COMPARISON, "eq", "eq"},
    {"!=", TD_LEVEL_COMPARISON, "ne", "ne"},
    {"<=", TD_LEVEL_COMPARISON, "le", "ge"},
    {">=", TD_LEVEL_COMPARISON, "ge", "le"},
    {"<<", 5, "bitwise_left_shift", NULL},
    {">>", 5, "bitwise_right_shift", NULL},
    {"//", 7, "floor_divide", NULL},
    {"**", TD_LEVEL_POWER, "pow", NULL},
    {"<", TD_LEVEL_COMPARISON, "lt", "gt"},
    {">", TD_LEVEL_COMPARISON, "gt", "lt"},
    {"|", 2, "bitwise_or", NULL},
    {"^", 3, "bitwise_xor", NULL},
    {"&", 4, "bitwise_and", NULL},
    {"+", 6, "add", "add"},
    {"-", 6, "sub", "rsub"},
    {"*", 7, "mul", "mul"},
    {"/", 7, "div", "reciprocal"}, /* which is multiplied by the number then, as in PyTorch */
    {"%", 7, "remainder", NULL},
    {"@", 7, "matmul", NULL},
};

const struct td_infix *td_parse_infix(const char *at)
{
    for (size_t i = 0; i < sizeof infixes / sizeof *infixes; i++)
        if (!strncmp(at, infixes[i].sign, strlen(infixes[i].sign)))
            return &infixes[i];
    return NULL;
}

static uint64_t whole_power(uint64_t base, uint64_t exponent)
{
    uint64_t result = 1;
    for (; exponent; exponent >>= 1, base *= base)
        result *= exponent & 1 ? base : 1;
    return result;
}

/* A comparison's value: two numbers are equal, or the first is less, or neither. */
static bool compare(const char *sign, bool less, bool equal, bool unordered)
{
    bool or_equal = sign[1] == '=' && equal;
    switch (*sign) {
    case '=':
        return equal;
    case '!':
        return !equal;
    case '<':
        return less || or_equal;
    default:
        return or_equal || !(less || equal || unordered);
    }
}

/* Computes on integers; an overflow wraps. False: the result is undefined, as of x // 0. */
static bool fold_whole(const char *sign, int64_t x, int64_t y, int64_t *result)
{
    uint64_t i = (uint64_t)x, k = (uint64_t)y;
    int64_t part = !y || y == -1 ? 0 : x % y;
    bool below = part && (part < 0) != (y < 0);
    switch (*sign) {
    case '+':
        *result = (int64_t)(i + k);
        return true;
    case '-':
        *result = (int64_t)(i - k);
        return true;
    case '*':
        *result = (int64_t)(sign[1] ? whole_power(i, k) : i * k);
        return true;
    case '/':
        *result = !y ? 0 : y == -1 ? (int64_t)(0 - i) : x / y - below;
        return y;
    case '%':
        *result = part + (below ? y : 0);
        return y;
    case '<':
        *result = y > 63 ? 0 : (int64_t)(i << (k & 63));
        return y >= 0;
    case '>':
        *result = x >> (y > 63 ? 63 : k & 63);
        return y >= 0;
    default:
        *result = *sign == '&' ? x & y : *sign == '|' ? x | y : x ^ y;
        return true;
    }
}

/* Computes on floats. False: floats do not have the operator. */
static bool fold_real(const char *sign, double x, double y, double *result)
{
    double part = fmod(x, y);
    bool below = part != 0 && (part < 0) != (y < 0);
    switch (*sign) {
    case '+':
        *result = x + y;
        return true;
    case '-':
        *result = x - y;
        return true;
    case '*':
        *result = sign[1] ? pow(x, y) : x * y;
        return true;
    case '/':
        *result = sign[1] && y != 0 ? rint((x - part) / y - below) : x / y;
        return true;
    case '%':
        *result = part + (below ? y : 0);
        return true;
    default:
        return false;
    }
}

/* Evaluates an operator on two numbers as Python does, but integers wrap on overflow, and floats
 * divided by 0 are infinite. */
static struct td_operand fold(struct td_parser *p, const char *at, const char *sign,
                              const struct td_value *a, const struct td_value *b)
{
    double x = td_scalar(a), y = td_scalar(b), real;
    int64_t i = td_scalar_int(a), k = td_scalar_int(b), whole;
    bool bools = a->kind == TD_KIND_bool && b->kind == TD_KIND_bool;
    bool is_whole = a->kind != TD_KIND_float && b->kind != TD_KIND_float && !a->wide && !b->wide &&
                    strcmp(sign, "/") != 0 && *sign != '@' && !(!strcmp(sign, "**") && k < 0);
    bool less = is_whole ? i < k : x < y, equal = is_whole ? i == k : x == y;
    if (td_parse_infix(sign)->level == TD_LEVEL_COMPARISON)
        return td_parse_number(p, at, TD_KIND_bool,
                               compare(sign, less, equal, isnan(x) || isnan(y)), 0);
    if (!is_whole && fold_real(sign, x, y, &real))
        return td_parse_number(p, at, TD_KIND_float, 0, real);
    if (is_whole && fold_whole(sign, i, k, &whole))
        return td_parse_number(p, at, bools && strchr("&|^", *sign) ? TD_KIND_bool : TD_KIND_int,
                               whole, 0);
    return td_parse_wrong(p, at,
                          *sign == '@' ? "'%s' between two numbers; one of them must be a tensor"
                          : is_whole   ? "'%s' of these two numbers has no value"
                                       : "'%s' between two numbers takes whole ones",
                          sign);
}

struct td_operand td_parse_join(struct td_parser *p, const char *at, const struct td_infix *infix,
                                struct td_operand a, struct td_operand b)
{
    const struct td_value *x = td_parse_number_of(p, a), *y = td_parse_number_of(p, b);
    if (p->err)
        return td_no_operand;
    if (x && y)
        return fold(p, at, infix->sign, x, y);
    if (!x || !infix->turned)
        return call(p, at, infix->op, a, b, 2);
    if (*infix->sign == '/')
        return call(p, at, "mul", call(p, at, infix->turned, b, td_no_operand, 1), a, 2);
    return call(p, at, infix->turned, b, a, 2);
}

struct td_operand td_parse_sign(struct td_parser *p, const char *at, struct td_operand a)
{
    const struct td_value *x = td_parse_number_of(p, a);
    if (x && *at == '~' && x->kind != TD_KIND_float)
        return td_parse_number(p, at, x->kind, x->kind == TD_KIND_bool ? !x->i : ~x->i, 0);
    if (x && *at == '-')
        return td_parse_number(p, at, x->kind == TD_KIND_float ? TD_KIND_float : TD_KIND_int,
                               (int64_t)(0 - (uint64_t)td_scalar_int(x)), -td_scalar(x));
    return call(p, at, *at == '-' ? "neg" : "bitwise_not", a, td_no_operand, 1);
}
