/* Samples as arguments: what a text looks like decides what it is, and the schema only between a
 * tensor's shape and a list. Samples are constants of the program: what is none is asserted. */
#include "dispatch/call/sample.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t number(const char **p, const struct td_sizes *sizes)
{
    char *end;
    int64_t value = strtoll(*p, &end, 10);
    if (end == *p) {
        assert(**p == 'n' || **p == 'm' || **p == 'k');
        value = **p == 'n' ? sizes->n : **p == 'm' ? sizes->m : sizes->k;
        end++;
    }
    *p = end;
    return value;
}

/* "[3,n]" as numbers, "[True,False]" as bools; how many. */
static int list(const char *p, const struct td_sizes *sizes, int64_t *v)
{
    int count = 0;
    for (p++; *p && *p != ']'; p += *p == ',') {
        if (isupper((unsigned char)*p)) {
            v[count++] = *p == 'T';
            p += strcspn(p, ",]");
        } else {
            v[count++] = number(&p, sizes);
        }
    }
    return count;
}

/* "[0.5,2.0]" as floats; how many. */
static int reals(const char *p, double *v)
{
    int count = 0;
    char *end;
    for (p++; *p && *p != ']'; p = end + (*end == ','))
        v[count++] = strtod(p, &end);
    return count;
}

static bool is_letter(const char *text)
{
    return strchr("nmk", *text) && !text[1];
}

static struct td_value value(const char *text, const struct td_sizes *sizes)
{
    struct td_value v = {.kind = TD_KIND_str, .str = text};
    bool digit = isdigit((unsigned char)text[*text == '-']); /* -Infinity is a text */
    if (!strcmp(text, "None")) {
        v.kind = TD_KIND_none;
    } else if (*text == '[' && strchr(text, '.')) {
        v.kind = TD_KIND_floats;
        v.floats.n = reals(text, v.floats.v);
    } else if (*text == '[') {
        v.kind = isupper((unsigned char)text[1]) ? TD_KIND_bools : TD_KIND_ints;
        v.ints.n = list(text, sizes, v.ints.v);
    } else if (!strcmp(text, "True") || !strcmp(text, "False")) {
        v.kind = TD_KIND_bool;
        v.i = *text == 'T';
    } else if (digit && strpbrk(text, ".e")) {
        v.kind = TD_KIND_float;
        v.f = strtod(text, NULL);
    } else if (digit || is_letter(text)) {
        v.kind = TD_KIND_int;
        v.i = number(&text, sizes);
    }
    return v;
}

/* The text after "name=" in the pattern, cut into text; false when it is not there. */
static bool find(const char *pattern, const char *name, char text[TD_SAMPLE_TEXT])
{
    size_t len = strlen(name);
    const char *p = pattern;
    while (*p && (strncmp(p, name, len) || p[len] != '=')) {
        p += strcspn(p, " ");
        p += *p == ' ';
    }
    if (*p)
        snprintf(text, TD_SAMPLE_TEXT, "%.*s", (int)strcspn(p + len + 1, " "), p + len + 1);
    return *p;
}

static enum td_dtype type_of(const char *text, enum td_dtype usual)
{
    static const struct {
        const char *word;
        enum td_dtype type;
    } types[] = {{":i64", TD_i64}, {":i32", TD_i32}, {":f32", TD_f32}, {":bool", TD_bool}};
    const char *at = strchr(text, ':');
    char name[16];
    for (size_t i = 0; at && i < sizeof types / sizeof *types; i++)
        if (!strncmp(at, types[i].word, strlen(types[i].word)))
            return types[i].type;
    snprintf(name, sizeof name, "%s", at ? at + 1 : "");
    return at ? td_dtype_find(name) : usual;
}

/* "[n]:i64<m": its shape; behind that the text may say that it is of another type, of the four
 * short ones or "[n]:FP16", and of whole numbers what they are below. */
static void tensor(struct td_sample *s, const char *text, struct td_tensor *t,
                   const struct td_sizes *sizes, enum td_dtype dtype, int param, int element)
{
    const char *type = strchr(text, ':'), *below = type ? strchr(type, '<') : NULL;
    *t = (struct td_tensor){.dtype = type_of(text, dtype)};
    t->rank = list(text, sizes, t->shape);
    struct td_sample_tensor *made = &s->tensor[s->n_tensors++];
    *made = (struct td_sample_tensor){t, -1, param, element};
    if (below) {
        below++;
        made->below = number(&below, sizes);
    }
}

/* "[n,3]|[m,3]|None" */
static void tensors(struct td_sample *s, char *text, struct td_value *v, int *n_list,
                    const struct td_sizes *sizes, enum td_dtype dtype, int param)
{
    *v = (struct td_value){.kind = TD_KIND_tensors, .tensors = {.v = &s->list[*n_list]}};
    while (*text) {
        char *end = text + strcspn(text, "|"), behind = *end;
        struct td_tensor *t = &s->list[(*n_list)++];
        *end = 0;
        if (*text == '[')
            tensor(s, text, t, sizes, dtype, param, v->tensors.n);
        v->tensors.n++;
        *end = behind;
        text = end + (behind == '|');
    }
}

void td_sample_read(struct td_sample *s, const struct td_schema *schema, const char *pattern,
                    const struct td_sizes *sizes, enum td_dtype dtype)
{
    int n_list = 0;
    bool any = false;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < schema->n_params; i++) {
        const struct td_param *param = &schema->param[i];
        bool is_tensor = param->type.base == TD_BASE_Tensor;
        any |= is_tensor;
        if (!find(pattern, param->name, s->text[i])) {
            if (any || param->type.base != TD_BASE_ScalarType)
                continue;
            strcpy(s->text[i], td_dtype_name(dtype)); /* of a result made from numbers */
        }
        struct td_named *arg = &s->arg[s->n_args++];
        *arg = (struct td_named){.name = param->name, .value = {.kind = TD_KIND_tensor}};
        if (is_tensor && param->type.list)
            tensors(s, s->text[i], &arg->value, &n_list, sizes, dtype, i);
        else if (is_tensor && strcmp(s->text[i], "None") != 0)
            tensor(s, s->text[i], &arg->value.tensor, sizes, dtype, i, 0);
        else
            arg->value = value(s->text[i], sizes);
    }
}
