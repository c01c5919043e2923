/* Operator schemas, as ATen writes them: name[.overload](type name=default, *, ...) -> returns */
#ifndef TD_DISPATCH_SCHEMA_H
#define TD_DISPATCH_SCHEMA_H

#include "kernels/kernels.h"

enum td_base { /* a type's name, without ? and [] */
               TD_BASE_Tensor,
               TD_BASE_int,
               TD_BASE_float,
               TD_BASE_bool,
               TD_BASE_str,
               TD_BASE_Scalar,
               TD_BASE_ScalarType,
               TD_BASE_Layout,
               TD_BASE_Device,
               TD_BASE_MemoryFormat,
               TD_BASE_Generator,
               TD_BASE_Dimname,
               TD_BASES
};

struct td_type {
    enum td_base base;
    bool optional;      /* T? */
    bool list;          /* T[], T[N] */
    bool list_optional; /* T[]? */
    int list_size;      /* N of T[N]; a single value stands for N times itself */
    bool mutated;       /* (a!) */
    char alias[16];     /* what stands in the parentheses: "a!", "a -> *"; "" when none */
};

const char *td_base_name(enum td_base base); /* "ScalarType" */

/* Whether None may stand for it: Tensor?, int[]?, but not Tensor?[], whose elements may be None. */
static inline bool td_type_takes_none(const struct td_type *type)
{
    return type->list ? type->list_optional : type->optional;
}

#define TD_NAME_SIZE 48
#define TD_MAX_RETURNS 6

struct td_param {
    struct td_type type;
    char name[TD_NAME_SIZE];
    bool keyword_only;
    bool has_default;
    struct td_value def;   /* kind none: None; kind str: the text is default_str */
    char default_text[24]; /* as written */
    char default_str[24];  /* without quotes, when def is a str */
};

struct td_schema {
    char ns[TD_NAME_SIZE]; /* "" when none was given */
    char name[TD_NAME_SIZE], overload[TD_NAME_SIZE];
    int n_params;
    struct td_param param[TD_MAX_ARGS];
    bool vararg; /* ... at the end of the arguments */
    int n_returns;
    struct td_param ret[TD_MAX_RETURNS]; /* one of type Tensor[] is many results */
    bool varret;
};

/* -EINVAL; problem says "column N: ..." (1 is the first). */
int td_schema_parse(struct td_schema *schema, const char *text, struct td_problem *problem);
/* Writes it back in canonical form, cut at size; returns its full length. */
size_t td_schema_format(const struct td_schema *schema, char *text, size_t size);
size_t td_type_format(const struct td_type *type, char *text, size_t size);
/* The number of the parameter called so; -1: there is none. */
int td_schema_find(const struct td_schema *schema, const char *name);

/* A single number, which td_scalar takes. */
static inline bool td_is_number(const struct td_value *v)
{
    return v->kind == TD_KIND_int || v->kind == TD_KIND_float || v->kind == TD_KIND_bool;
}

static inline bool td_is_number_list(const struct td_value *v)
{
    return v->kind == TD_KIND_ints || v->kind == TD_KIND_floats || v->kind == TD_KIND_bools;
}

static inline bool td_is_plain(const struct td_value *v)
{
    return td_is_number(v) || td_is_number_list(v);
}

#endif
