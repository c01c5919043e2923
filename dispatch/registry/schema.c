/* Parses operator schemas in ATen's grammar:
 *
 *   ns::name.overload(Tensor(a!) self, int[2] stride=1, *, Scalar? x=None, ...) -> (Tensor a,
 * Tensor)
 *
 * A recursive descent over the text, one function a rule of the grammar; every error names the
 * column where it was noticed. The structs are of fixed size, so nothing is allocated. */
#include "dispatch/registry/schema.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct parser {
    const char *text, *at;
    struct td_problem *problem;
};

static int fail(struct parser *p, const char *expected)
{
    return td_problem_set(p->problem, EINVAL, "column %d: %s, found %s%.12s%s",
                          (int)(p->at - p->text) + 1, expected, *p->at ? "'" : "the end", p->at,
                          *p->at ? "'" : "");
}

static void blanks(struct parser *p)
{
    while (*p->at == ' ')
        p->at++;
}

static bool accept(struct parser *p, const char *token)
{
    blanks(p);
    size_t n = strlen(token);
    if (strncmp(p->at, token, n))
        return false;
    p->at += n;
    return true;
}

static int expect(struct parser *p, const char *token)
{
    char text[32];
    snprintf(text, sizeof text, "expected '%s'", token);
    return accept(p, token) ? 0 : fail(p, text);
}

static int word(struct parser *p, char out[TD_NAME_SIZE], const char *what)
{
    char text[TD_NAME_SIZE];
    blanks(p);
    size_t n = 0;
    while (isalnum((unsigned char)p->at[n]) || p->at[n] == '_')
        n++;
    snprintf(text, sizeof text, "expected %s", what);
    if (!n || isdigit((unsigned char)*p->at) || n >= TD_NAME_SIZE)
        return fail(p, text);
    memcpy(out, p->at, n);
    out[n] = 0;
    p->at += n;
    return 0;
}

/* a, a|b, each with or without !, and after "-> " what it becomes: such sets, or *. */
static int parse_alias(struct parser *p, struct td_type *type)
{
    const char *start = p->at;
    bool arrow = false, more = true;
    while (more) {
        if (arrow && *p->at == '*')
            p->at++;
        else if (islower((unsigned char)*p->at))
            p->at += strspn(p->at, "abcdefghijklmnopqrstuvwxyz");
        else
            return fail(p, "expected an alias such as (a), (a!), (a|b) or (a -> *)");
        type->mutated = *p->at == '!' || type->mutated;
        p->at += *p->at == '!';
        more = *p->at == '|';
        p->at += more;
        if (!more && !arrow && !strncmp(p->at, " -> ", 4)) {
            arrow = more = true;
            p->at += 4;
        }
    }
    size_t n = (size_t)(p->at - start);
    if (*p->at != ')' || n >= sizeof type->alias)
        return fail(p, "expected ')' after an alias");
    memcpy(type->alias, start, n);
    type->alias[n] = 0;
    p->at++;
    return 0;
}

static int parse_type(struct parser *p, struct td_type *type)
{
    char name[TD_NAME_SIZE];
    blanks(p);
    const char *start = p->at;
    int err = word(p, name, "a type");
    if (err)
        return err;
    *type = (struct td_type){.base = TD_BASES};
    for (int i = 0; i < TD_BASES; i++)
        if (!strcmp(name, td_base_name(i)))
            type->base = i;
    if (!strcmp(name, "SymInt")) /* ATen's int that may be a symbol while it traces */
        type->base = TD_BASE_int;
    if (type->base == TD_BASES) {
        p->at = start;
        return fail(p, "expected a type (Tensor, int, float, bool, str, Scalar, ScalarType, ...)");
    }
    if (*p->at == '(') {
        p->at++;
        if ((err = parse_alias(p, type)))
            return err;
    }
    if (*p->at == '?') {
        type->optional = true;
        p->at++;
    }
    if (*p->at == '[') {
        type->list = true;
        p->at++;
        while (isdigit((unsigned char)*p->at) && type->list_size < TD_MAX_LIST)
            type->list_size = type->list_size * 10 + (*p->at++ - '0');
        if ((err = expect(p, "]")))
            return err;
        if (*p->at == '?') {
            type->list_optional = true;
            p->at++;
        }
    }
    return 0;
}

static int parse_number(struct parser *p, struct td_value *v)
{
    char *end;
    size_t digits = strspn(p->at + (*p->at == '-'), "0123456789");
    char after = p->at[digits + (*p->at == '-')];
    errno = 0;
    if (digits && after != '.' && after != 'e') {
        v->kind = TD_KIND_int;
        v->i = strtoll(p->at, &end, 10);
    } else {
        v->kind = TD_KIND_float;
        v->f = strtod(p->at, &end);
    }
    if (end == p->at || errno)
        return fail(p, "expected a number");
    p->at = end;
    return 0;
}

static int parse_list(struct parser *p, struct td_value *v)
{
    v->kind = TD_KIND_ints;
    v->ints.n = 0;
    if (accept(p, "]"))
        return 0;
    do {
        struct td_value one;
        blanks(p);
        int err = parse_number(p, &one);
        if (err)
            return err;
        if (one.kind != TD_KIND_int || v->ints.n == TD_MAX_LIST)
            return fail(p, "expected at most 16 whole numbers in a list");
        v->ints.v[v->ints.n++] = one.i;
    } while (accept(p, ","));
    return expect(p, "]");
}

/* Whether a default, which begins with this letter, is one of the type. Names stand for what is no
 * literal: a reduction, a memory format. */
static bool default_fits(const struct td_type *type, const struct td_value *v, char first)
{
    bool quoted = first == '\'' || first == '"', is_name = v->kind == TD_KIND_str && !quoted;
    if (v->kind == TD_KIND_none)
        return true;
    if (type->list)
        return v->kind == TD_KIND_ints;
    switch (type->base) {
    case TD_BASE_Tensor:
        return false;
    case TD_BASE_int:
        return v->kind == TD_KIND_int || is_name;
    case TD_BASE_float:
    case TD_BASE_Scalar:
        return v->kind == TD_KIND_int || v->kind == TD_KIND_float ||
               (v->kind == TD_KIND_bool && type->base == TD_BASE_Scalar);
    case TD_BASE_bool:
        return v->kind == TD_KIND_bool;
    case TD_BASE_str:
        return quoted;
    default:
        return is_name;
    }
}

/* Keeps a default's text, which begins at start; the value of a string is that without its quotes.
 */
static int keep_text(struct parser *p, struct td_param *param, const char *start)
{
    size_t n = (size_t)(p->at - start);
    if (n >= sizeof param->default_text)
        return fail(p, "expected a shorter default");
    memcpy(param->default_text, start, n);
    param->default_text[n] = 0;
    param->has_default = true;
    if (param->def.kind != TD_KIND_str)
        return 0;
    bool quoted = *start == '\'' || *start == '"';
    memcpy(param->default_str, start + quoted, n - 2 * quoted);
    if (param->type.base != TD_BASE_ScalarType || td_dtype_find(param->default_str))
        return 0;
    p->at = start;
    return fail(p, "expected a type's name, such as float32");
}

/* The default of a parameter of this type; a single value of a sized list stands for N. */
static int parse_default(struct parser *p, struct td_param *param)
{
    struct td_value *v = &param->def;
    blanks(p);
    const char *start = p->at;
    int err = 0;
    if (accept(p, "None")) {
        v->kind = TD_KIND_none;
        if (!param->type.optional && !param->type.list_optional &&
            param->type.base != TD_BASE_Generator) {
            p->at = start;
            return fail(p, "expected a default that is not None, the type is not optional");
        }
    } else if (accept(p, "True") || accept(p, "False")) {
        v->kind = TD_KIND_bool;
        v->i = *start == 'T';
    } else if (*p->at == '[') {
        if (!param->type.list)
            return fail(p, "expected a single value, the type is no list");
        p->at++;
        err = parse_list(p, v);
    } else if (*p->at == '\'' || *p->at == '"') {
        char quote = *p->at++;
        while (*p->at && *p->at != quote)
            p->at++;
        if (!*p->at)
            return fail(p, "expected the closing quote");
        p->at++;
        v->kind = TD_KIND_str;
    } else if (*p->at == '-' || isdigit((unsigned char)*p->at)) {
        err = parse_number(p, v);
        if (!err && param->type.list) {
            int64_t one = td_scalar_int(v);
            int n = param->type.list_size ? param->type.list_size : 1;
            v->kind = TD_KIND_ints;
            v->ints.n = n;
            for (int i = 0; i < n && i < TD_MAX_LIST; i++)
                v->ints.v[i] = one;
        }
    } else {
        char name[TD_NAME_SIZE];
        err = word(p, name, "a default");
        v->kind = TD_KIND_str;
    }
    if (err)
        return err;
    if (!default_fits(&param->type, v, *start)) {
        p->at = start;
        return fail(p, "expected a default of the argument's type");
    }
    return keep_text(p, param, start);
}

static int parse_params(struct parser *p, struct td_schema *s)
{
    bool keyword_only = false;
    if (accept(p, ")"))
        return 0;
    do {
        blanks(p);
        if (accept(p, "...")) {
            s->vararg = true;
            return accept(p, ")") ? 0 : fail(p, "expected ')': ... must be the last argument");
        }
        if (*p->at == '*') {
            if (keyword_only)
                return fail(p, "expected only one '*'");
            p->at++;
            keyword_only = true;
            continue;
        }
        if (s->n_params == TD_MAX_ARGS)
            return fail(p, "expected at most 16 arguments");
        struct td_param *param = &s->param[s->n_params];
        int err = parse_type(p, &param->type);
        if (err || (err = word(p, param->name, "the argument's name")))
            return err;
        if (td_schema_find(s, param->name) >= 0) {
            p->at -= strlen(param->name);
            return fail(p, "expected a name not used before");
        }
        param->keyword_only = keyword_only;
        if (accept(p, "=") && (err = parse_default(p, param)))
            return err;
        s->n_params++;
    } while (accept(p, ","));
    return expect(p, ")");
}

static int parse_return(struct parser *p, struct td_schema *s)
{
    if (accept(p, "...")) {
        s->varret = true;
        return 0;
    }
    if (s->n_returns == TD_MAX_RETURNS)
        return fail(p, "expected at most 6 results");
    struct td_param *ret = &s->ret[s->n_returns++];
    int err = parse_type(p, &ret->type);
    blanks(p);
    if (!err && (isalpha((unsigned char)*p->at) || *p->at == '_'))
        err = word(p, ret->name, "the result's name");
    return err;
}

static int parse_returns(struct parser *p, struct td_schema *s)
{
    if (!accept(p, "("))
        return parse_return(p, s);
    if (accept(p, ")"))
        return 0;
    do {
        if (s->varret)
            return fail(p, "expected ')': ... must be the last result");
        int err = parse_return(p, s);
        if (err)
            return err;
    } while (accept(p, ","));
    return expect(p, ")");
}

int td_schema_parse(struct td_schema *s, const char *text, struct td_problem *problem)
{
    struct parser p = {text, text, problem};
    *s = (struct td_schema){0};
    int err = word(&p, s->name, "the operator's name");
    if (!err && accept(&p, "::")) {
        strcpy(s->ns, s->name);
        err = word(&p, s->name, "the operator's name");
    }
    if (!err && *p.at == '.') {
        p.at++;
        err = word(&p, s->overload, "the overload's name");
    }
    if (!err && !*p.at)
        return fail(&p, "expected '(': a schema is wanted here, not only a name");
    if (err || (err = expect(&p, "(")) || (err = parse_params(&p, s)) || (err = expect(&p, "->")) ||
        (err = parse_returns(&p, s)))
        return err;
    blanks(&p);
    return *p.at ? fail(&p, "expected the end") : 0;
}

int td_schema_find(const struct td_schema *schema, const char *name)
{
    for (int i = 0; i < schema->n_params; i++)
        if (!strcmp(schema->param[i].name, name))
            return i;
    return -1;
}
