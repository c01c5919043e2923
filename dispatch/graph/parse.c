/* An expression's text becomes a graph, by recursive descent: each level is a step of depth that is
 * counted, each value a node that is, so that no text takes more than its share. */
#include "dispatch/graph/parser.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define wrong td_parse_wrong
#define WORD TD_PARSER_WORD

static struct td_operand expression(struct td_parser *p, int level);

/* ---- words ---- */

#define skip td_parse_skip
#define take td_parse_take
#define begins_word td_parse_begins_word

/* With its points. */
static void word(struct td_parser *p, char name[WORD])
{
    td_parse_word(p, name, true);
}

/* Whether a word stands before a single =. */
static bool is_named(const struct td_parser *p)
{
    const char *at = p->at;
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    at += begins_word(*p->at) ? strspn(at, " \t\r\n") : strlen(at);
    return *at == '=' && at[1] != '=';
}

/* ---- constants ---- */

static struct td_operand number(struct td_parser *p)
{
    const char *at = p->at;
    char *end;
    if (*at == '0' && (at[1] | 0x20) == 'x') /* which strtod takes */
        return wrong(p, at, "is no number");
    double real = strtod(at, &end);
    int64_t whole = 0;
    bool is_whole = strcspn(at, ".eE") >= (size_t)(end - at);
    errno = 0;
    if (is_whole)
        whole = strtoll(at, &end, 10);
    if (errno)
        return wrong(p, at, "no INT64 is that; a float has a point");
    if (begins_word(*end))
        return wrong(p, at, "is no number");
    p->at = end;
    return td_parse_number(p, at, is_whole ? TD_KIND_int : TD_KIND_float, whole, real);
}

static struct td_operand quoted(struct td_parser *p)
{
    const char *at = p->at++, *end = strchr(p->at, *at);
    struct td_graph *g = p->graph;
    size_t n = end ? (size_t)(end - p->at) : 0;
    if (!end)
        return wrong(p, at, "the text has no end");
    if (g->text_used + n + 1 > sizeof((struct td_graph_room *)0)->text)
        return wrong(p, at, "texts are too long");
    char *text = memcpy(g->text + g->text_used, p->at, n);
    text[n] = 0;
    g->text_used += n + 1;
    p->at = end + 1;
    return td_parse_constant(p, at, &(struct td_value){.kind = TD_KIND_str, .str = text});
}

/* Of numbers alone: whole ones, floats or bools; one float makes floats of all. */
static struct td_operand numbers(struct td_parser *p, const char *at,
                                 const struct td_operand *operand, int n)
{
    struct td_value v = {.kind = TD_KIND_ints, .ints.n = n};
    struct td_value reals = {.kind = TD_KIND_floats, .floats.n = n};
    int floats = 0, bools = 0;
    for (int i = 0; i < n; i++) {
        const struct td_value *x = td_parse_number_of(p, operand[i]);
        floats += x->kind == TD_KIND_float;
        bools += x->kind == TD_KIND_bool;
        reals.floats.v[i] = td_scalar(x);
        v.ints.v[i] = td_scalar_int(x);
    }
    if (bools && bools == n)
        v.kind = TD_KIND_bools;
    return td_parse_constant(p, at, floats ? &reals : &v);
}

/* Of numbers, or of tensors and None, up to close. first: what has been read of it, or none. */
static struct td_operand list(struct td_parser *p, const char *at, struct td_operand first,
                              char close)
{
    struct td_operand operand[TD_MAX_LIST] = {first};
    int n = first.node >= 0, n_numbers = n && td_parse_number_of(p, first);
    for (bool more = !take(p, close); more; more = !take(p, close)) {
        skip(p);
        if (n == TD_MAX_LIST || *p->at == '[')
            return wrong(p, p->at, "a list has numbers or tensors, at most %d", TD_MAX_LIST);
        operand[n] = expression(p, 1);
        n_numbers += td_parse_number_of(p, operand[n++]) != NULL;
        if (p->err || (!take(p, ',') && *p->at != close))
            return wrong(p, p->at, "',' or '%c' is right here", close);
    }
    if (n_numbers == n)
        return numbers(p, at, operand, n);
    return td_parse_call(p, at, NULL, false, operand, n);
}

static const struct td_result *find_result(const struct td_parser *p, const char *name)
{
    for (int i = 0; i < p->graph->n_results; i++)
        if (!strcmp(p->graph->result[i].name, name))
            return &p->graph->result[i];
    return NULL;
}

static bool is_value(const struct td_parser *p, const char *name)
{
    for (int i = 0; i < p->n_args; i++)
        if (p->args[i].name && !strcmp(p->args[i].name, name))
            return true;
    return find_result(p, name);
}

/* What a word alone stands for. */
static struct td_operand meaning(struct td_parser *p, const char *at, const char *name)
{
    static const struct {
        const char *name;
        enum td_kind kind;
        double f;
    } words[] = {
        {"True", TD_KIND_bool, 1},           {"False", TD_KIND_bool, 0},
        {"None", TD_KIND_none, 0},           {"inf", TD_KIND_float, HUGE_VAL},
        {"nan", TD_KIND_float, (double)NAN}, {"newaxis", TD_KIND_none, 0},
        {"pi", TD_KIND_float, M_PI},         {"e", TD_KIND_float, M_E},
    };
    const char *names[128];
    int n = 0;
    if (find_result(p, name))
        return find_result(p, name)->of;
    for (int i = 0; i < p->n_args; i++) {
        const struct td_named *arg = &p->args[i];
        if (arg->name && !strcmp(arg->name, name)) {
            p->graph->used |= UINT64_C(1) << i;
            return td_is_number(&arg->value) || arg->value.kind == TD_KIND_none
                       ? td_parse_constant(p, at, &arg->value)
                       : td_parse_argument(p, at, i);
        }
        if (arg->name && n < 128)
            names[n++] = arg->name;
    }
    const char *last = strrchr(name, '.'); /* of torch.inf, np.nan */
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i].name, last ? last + 1 : name))
            return td_parse_number(p, at, words[i].kind, words[i].f == 1, words[i].f);
    enum td_dtype type = td_dtype_called(name);
    if (type) /* dtype=FP32 */
        return td_parse_constant(p, at, &(struct td_value){.kind = TD_KIND_dtype, .dtype = type});
    return td_parse_unknown(p, at, "there is no input", name, names, n);
}

/* ---- calls ---- */

/* The name of an overload's argument, as it stands there. */
static const char *keyword(struct td_parser *p, const struct td_handle *handle, bool one)
{
    char name[WORD], what[2 * WORD];
    const char *at = p->at, *names[64];
    int n = 0;
    word(p, name);
    const char *own = td_param_called(handle, one, name);
    if (own)
        return own;
    for (const struct td_handle *h = handle; h; h = one ? NULL : h->next)
        for (int i = 0; i < h->schema.n_params; i++) {
            names[n] = h->schema.param[i].name;
            n += n < 63;
        }
    snprintf(what, sizeof what, "%s has no argument", handle->schema.name);
    td_parse_unknown(p, at, what, name, names, n);
    return NULL;
}

static struct td_operand arguments(struct td_parser *p, const char *at, const char *called,
                                   const struct td_operand *self)
{
    struct td_operand operand[TD_MAX_ARGS];
    const char *name = td_op_called(called);
    const struct td_handle *handle = td_registry_find(name);
    const char *near = handle ? NULL : td_op_nearest(called); /* looks at every operator */
    int n = 0;
    if (!handle)
        return wrong(p, at, "there is no operator '%.60s'%s%s%s", called,
                     near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    if (self)
        operand[n++] = *self;
    bool one = strcmp(name, handle->schema.name) != 0;
    for (bool more = !take(p, ')'); more && !p->err; more = !take(p, ')')) {
        skip(p);
        const char *key = NULL, *here = p->at;
        if (n == TD_MAX_ARGS)
            return wrong(p, p->at, "%s has more than %d arguments", name, TD_MAX_ARGS);
        if (is_named(p)) {
            key = keyword(p, handle, one);
            take(p, '=');
        } else if (n && operand[n - 1].name) {
            return wrong(p, p->at, "an argument by position comes before those by keyword");
        }
        for (int i = 0; key && i < n; i++)
            if (operand[i].name == key)
                return wrong(p, here, "%s: %s is given twice", name, key);
        operand[n] = expression(p, 1);
        operand[n++].name = key;
        if (!take(p, ',') && *p->at != ')')
            return wrong(p, p->at, "',' or ')' is right here");
    }
    return p->err ? td_no_operand : td_parse_call(p, at, handle, one, operand, n);
}

/* ---- the grammar ---- */

static struct td_operand primary(struct td_parser *p)
{
    char name[WORD];
    const char *at = p->at;
    if (isdigit((unsigned char)*at) || (*at == '.' && isdigit((unsigned char)at[1])))
        return number(p);
    if (*at == '\'' || *at == '"')
        return quoted(p);
    if (take(p, '['))
        return list(p, at, td_no_operand, ']');
    if (take(p, '(')) {
        struct td_operand a = expression(p, 1);
        if (!p->err && take(p, ',')) /* (2, 3) is a list, too */
            return list(p, at, a, ')');
        return p->err || take(p, ')') ? a : wrong(p, p->at, "')' is right here");
    }
    if (!begins_word(*at))
        return wrong(p, at, *at ? "a value is right here" : "the text ends where a value is right");
    word(p, name);
    const char *behind = p->at;
    if (*behind == '(' && td_registry_find(name)) { /* an overload has a point, too */
        p->at++;
        return arguments(p, at, name, NULL);
    }
    p->at = at;
    td_parse_word(p, name, false);
    if (is_value(p, name) && *p->at == '.') /* x.sum(): what follows is read as behind any value */
        return meaning(p, at, name);
    p->at = at;
    word(p, name);
    return take(p, '(') ? arguments(p, at, name, NULL) : meaning(p, at, name);
}

static struct td_operand unary(struct td_parser *p);

/* A value with what stands behind it, and powers, which bind tighter than a sign before them. */
static struct td_operand power(struct td_parser *p)
{
    struct td_operand a = td_parse_suffixes(p, primary(p));
    const char *at = p->at;
    const struct td_infix *infix = p->err ? NULL : td_parse_infix(at);
    if (!infix || infix->level != TD_LEVEL_POWER)
        return a;
    p->at += strlen(infix->sign);
    return td_parse_join(p, at, infix, a, unary(p));
}

static struct td_operand unary(struct td_parser *p)
{
    skip(p);
    const char *at = p->at;
    if (p->depth == TD_GRAPH_DEPTH)
        return wrong(p, at, "is nested deeper than %d", TD_GRAPH_DEPTH);
    p->depth++;
    bool sign = *at && strchr("-~+", *at);
    p->at += sign;
    struct td_operand a = sign ? unary(p) : power(p);
    p->depth--;
    skip(p);
    return p->err || !sign || *at == '+' ? a : td_parse_sign(p, at, a);
}

static struct td_operand expression(struct td_parser *p, int level)
{
    struct td_operand a = unary(p);
    const struct td_infix *infix, *last = NULL;
    while (!p->err && (infix = td_parse_infix(p->at)) && infix->level >= level) {
        const char *at = p->at;
        if (infix->level == TD_LEVEL_COMPARISON && last && last->level == infix->level)
            return wrong(p, at, "comparisons do not chain; brackets say which is meant");
        p->at += strlen(infix->sign);
        a = td_parse_join(p, at, infix, a, expression(p, infix->level + 1));
        last = infix;
    }
    return p->err ? td_no_operand : a;
}

/* NAME = EXPRESSION, or one alone. */
static void statement(struct td_parser *p)
{
    struct td_graph *g = p->graph;
    const char *at = p->at;
    char name[WORD] = "";
    if (is_named(p)) {
        word(p, name);
        take(p, '=');
    }
    for (int i = 0; *name && i < p->n_args + g->n_results; i++) {
        const char *old = i < p->n_args ? p->args[i].name : g->result[i - p->n_args].name;
        if (old && !strcmp(old, name))
            wrong(p, at, "'%.60s' has a value already", name);
    }
    if (g->n_results && (!*name || !g->named))
        wrong(p, at, "of several expressions each has a name: NAME = ...");
    if (g->n_results == TD_MAX_OUTS || strlen(name) >= TD_NAME_SIZE)
        wrong(p, at, "at most %d results, with names of at most %d letters, are right", TD_MAX_OUTS,
              TD_NAME_SIZE - 1);
    struct td_operand of = p->err ? td_no_operand : expression(p, 1);
    if (p->err)
        return;
    g->named = *name;
    strcpy(g->result[g->n_results].name, name);
    g->result[g->n_results++].of = of;
}

int td_graph_parse(struct td_graph_room *room, const char *text, const struct td_named *args,
                   int n_args, const char *who, struct td_problem *problem)
{
    struct td_parser p = {.text = text, .at = text, .who = who, .args = args, .n_args = n_args};
    struct td_graph *graph = p.graph = &room->graph;
    *graph = (struct td_graph){.result = room->result,
                               .operand = room->operand,
                               .node = room->node,
                               .value = room->value,
                               .text = room->text};
    p.problem = problem;
    p.expression = expression;
    p.arguments = arguments;
    if (n_args > TD_GRAPH_ARGS)
        return td_problem_set(problem, EINVAL, "%s: there are more than %d arguments", who,
                              TD_GRAPH_ARGS);
    if (strlen(text) > TD_GRAPH_TEXT)
        return td_problem_set(problem, EINVAL, "%s: is longer than %d bytes", who, TD_GRAPH_TEXT);
    do {
        skip(&p);
        if (graph->n_results && !*p.at) /* behind a last ; */
            break;
        statement(&p);
    } while (!p.err && take(&p, ';'));
    if (!p.err && *p.at)
        wrong(&p, p.at, "'%.1s' is not right here", p.at);
    return p.err;
}
