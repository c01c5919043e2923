/* A request of an operator, made from its samples: of "self=[m,n] dim=1 index=[m,k]:i64<n", letters
 * become small sizes, shapes tensors, whose type may stand behind a colon and the bound of their
 * numbers behind a <. The sample taken is one that is good to look at: neither trivial nor long. */
#include "api/openapi/openapi.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct part { /* name=text of a sample */
    const char *name, *text;
    int n_name, n_text;
    const struct td_param *param;
};

/* The next part of a sample, and where it ends; NULL: there is none. */
static const char *next(const char *p, const struct td_schema *schema, struct part *part)
{
    while (*(p += strspn(p, " "))) {
        size_t n = strcspn(p, " "), name = strcspn(p, "=");
        *part = (struct part){p, p + name + 1, (int)name, (int)n - (int)name - 1, NULL};
        for (int i = 0; name < n && i < schema->n_params; i++)
            if (!strncmp(schema->param[i].name, p, name) && !schema->param[i].name[name])
                part->param = &schema->param[i];
        p += n;
        if (part->param)
            return p;
    }
    return NULL;
}

static int64_t size_of(const char *text)
{
    return *text == 'n' ? 4 : *text == 'm' ? 3 : isalpha((unsigned char)*text) ? 2 : atoll(text);
}

/* ---- tensors ---- */

/* Neither sorted nor all alike; floats are never whole, so that they look as what they are. */
static void write_number(struct td_writer *w, const char *key, enum td_dtype dtype, int64_t bound,
                         int64_t i)
{
    char text[32];
    if (dtype == TD_bool) {
        td_write_bool(w, key, i % 3 != 1);
    } else if (td_dtype_kind(dtype) != 'f') {
        td_write_int(w, key, (i * 5 + 1) % (bound > 0 ? bound : 7));
    } else {
        snprintf(text, sizeof text, "%.1f", (double)((i * 7 + 5) % 9) - 3.5);
        td_write_raw(w, key, text, strlen(text));
    }
}

static void write_nested(struct td_writer *w, const char *key, const struct td_tensor *t, int dim,
                         int64_t bound, int64_t *i)
{
    if (dim == t->rank) {
        write_number(w, key, t->dtype, bound, (*i)++);
        return;
    }
    td_write_open(w, key, '[');
    for (int64_t k = 0; k < t->shape[dim]; k++)
        write_nested(w, NULL, t, dim + 1, bound, i);
    td_write_close(w, ']');
}

/* The type of tensors of which a sample does not say it: what plain numbers are, if it may be. */
static enum td_dtype usual(const struct td_op *op)
{
    static const enum td_dtype order[] = {TD_f32, TD_i64, TD_i32,  TD_i8,  TD_u8,  TD_bool, TD_f64,
                                          TD_i16, TD_f16, TD_bf16, TD_u16, TD_u32, TD_u64};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (op->dtypes & order[i])
            return order[i];
    return TD_f32;
}

/* Its shape and type; the bound of its numbers, 0 for none. */
static int64_t read_tensor(const struct td_op *op, const char *text, struct td_tensor *t)
{
    *t = (struct td_tensor){.dtype = usual(op)};
    for (text++; *text != ']'; text += *text == ',') {
        t->shape[t->rank++] = size_of(text);
        text += strcspn(text, ",]");
    }
    if (text[1] != ':')
        return 0;
    t->dtype = text[2] == 'b'   ? TD_bool
               : text[2] == 'f' ? TD_f32
               : text[2] == 'I' ? TD_i8
               : text[3] == '3' ? TD_i32
                                : TD_i64;
    text += strcspn(text, "< |");
    return *text == '<' ? size_of(text + 1) : 0;
}

static void write_tensor(struct td_writer *w, const struct td_op *op, const char *name,
                         const char *text, bool brief)
{
    struct td_tensor t;
    int64_t bound = read_tensor(op, text, &t), i = 0;
    if (brief) {
        write_nested(w, name, &t, 0, bound, &i);
        return;
    }
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_shape(w, &t);
    td_write_str(w, "datatype", td_dtype_name(t.dtype));
    struct td_tensor flat = {.dtype = t.dtype, .rank = 1, .shape = {td_numel(&t)}};
    write_nested(w, "data", &flat, 0, bound, &i);
    td_write_close(w, '}');
}

/* "[2,n]|None|[m]": each is an element of an array, or an input called NAME.i of its own. */
static void write_tensors(struct td_writer *w, const struct td_op *op, const struct part *part,
                          bool brief)
{
    const char *text = part->text, *end = text + part->n_text;
    char name[TD_NAME_SIZE + 16];
    if (brief)
        td_write_open(w, part->param->name, '[');
    for (int i = 0; text < end; i++, text += strcspn(text, "| "), text += *text == '|') {
        snprintf(name, sizeof name, "%s.%d", part->param->name, i);
        if (*text == '[')
            write_tensor(w, op, brief ? NULL : name, text, brief);
        else if (brief)
            td_write_str(w, NULL, NULL);
    }
    if (brief)
        td_write_close(w, ']');
}

/* ---- all others ---- */

static void write_plain(struct td_writer *w, const char *key, const char *text, const char *type)
{
    bool letter = isalpha((unsigned char)*text) && !text[1];
    if (!strcmp(text, "True") || !strcmp(text, "False"))
        td_write_bool(w, key, *text == 'T');
    else if (!strcmp(text, "None"))
        td_write_str(w, key, NULL);
    else if (!strcmp(text, "inf") || !strcmp(text, "-inf"))
        td_write_str(w, key, *text == '-' ? "-Infinity" : "Infinity");
    else if (letter && *type != 's')
        td_write_int(w, key, size_of(text));
    else if (isdigit((unsigned char)*text) || *text == '-')
        td_openapi_number(w, key, text);
    else
        td_write_str(w, key, text);
}

static void write_other(struct td_writer *w, const struct part *part)
{
    char text[256];
    const char *type = td_base_name(part->param->type.base);
    snprintf(text, sizeof text, "%.*s", part->n_text, part->text);
    if (*text != '[') {
        write_plain(w, part->param->name, text, type);
        return;
    }
    td_write_open(w, part->param->name, '[');
    for (char *one = strtok(text, "[,]"); one; one = strtok(NULL, "[,]"))
        write_plain(w, NULL, one, type);
    td_write_close(w, ']');
}

/* ---- the request ---- */

enum what { TENSORS = 1, OTHERS = 2 };

static void write_parts(struct td_writer *w, const struct td_handle *handle, const char *sample,
                        unsigned what, bool brief)
{
    struct part part;
    while ((sample = next(sample, &handle->schema, &part))) {
        const struct td_type *type = &part.param->type;
        bool tensor = type->base == TD_BASE_Tensor, none = *part.text == 'N' && !type->list;
        if (!(what & (tensor ? TENSORS : OTHERS)) || (tensor && none && !brief))
            continue;
        if (!tensor || none)
            write_other(w, &part);
        else if (type->list)
            write_tensors(w, handle->op, &part, brief);
        else
            write_tensor(w, handle->op, part.param->name, part.text, brief);
    }
}

static void write_request(struct td_writer *w, const char *key, const struct td_handle *handle,
                          const char *sample, bool brief)
{
    enum td_dtype dtype = usual(handle->op);
    td_write_open(w, key, '{');
    if (brief) {
        write_parts(w, handle, sample, TENSORS | OTHERS, brief);
        if (!(dtype & (TD_f32 | TD_i64 | TD_bool)))
            td_write_str(w, "dtype", td_dtype_name(dtype));
    } else {
        td_write_open(w, "inputs", '[');
        write_parts(w, handle, sample, TENSORS, brief);
        td_write_close(w, ']');
        td_write_open(w, "parameters", '{');
        write_parts(w, handle, sample, OTHERS, brief);
        td_write_close(w, '}');
    }
    td_write_close(w, '}');
}

/* The less, the better to look at. What it takes as text is taken back. */
static size_t weight(struct td_writer *w, const struct td_handle *handle, const char *sample)
{
    struct td_writer before = *w;
    write_request(w, NULL, handle, sample, true);
    size_t n = w->length - before.length;
    w->length = before.length;
    w->comma = before.comma;
    return (n < 24 ? 1000 - n : n) + (strstr(sample, "=[]") ? 2000 : 0) +
           (strstr(sample, "dtype=") ? 900 : 0);
}

/* Whether the short form can say the types of that sample's tensors: there is one type for all, or
 * those that plain numbers have. */
static bool is_sayable(const struct td_handle *handle, const char *sample)
{
    bool plain = usual(handle->op) & (TD_f32 | TD_i64 | TD_bool) && !strstr(sample, ":i32") &&
                 !strstr(sample, ":INT8");
    return plain || (td_schema_find(&handle->schema, "dtype") < 0 && !strchr(sample, ':'));
}

bool td_openapi_example(struct td_writer *w, const char *key, const struct td_handle *handle,
                        bool brief)
{
    const char *const *sample = handle->op->samples, *best = NULL;
    size_t least = 0;
    for (; sample && *sample; sample++) {
        size_t own = weight(w, handle, *sample);
        if (!best || own < least) {
            best = *sample;
            least = own;
        }
    }
    if (!best || (brief && !is_sayable(handle, best)))
        return false;
    write_request(w, key, handle, best, brief);
    return true;
}
