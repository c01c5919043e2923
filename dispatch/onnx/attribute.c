/* An attribute of an ONNX node becomes an operand: a number, a list, a text, a tensor or a graph.
 */
#include "dispatch/onnx/file.h"

#include <errno.h>
#include <string.h>

#define LONGEST 4096 /* bytes of an attribute's texts */

enum {
    ATTRIBUTE_FLOAT = 1,
    ATTRIBUTE_INT,
    ATTRIBUTE_STRING,
    ATTRIBUTE_TENSOR,
    ATTRIBUTE_GRAPH,
    ATTRIBUTE_FLOATS,
    ATTRIBUTE_INTS,
    ATTRIBUTE_STRINGS
};

/* Old files do not say it. */
static int kind_of(const TdOnnx__Attribute *a)
{
    if (a->type)
        return a->type;
    return a->has_f       ? ATTRIBUTE_FLOAT
           : a->has_i     ? ATTRIBUTE_INT
           : a->has_s     ? ATTRIBUTE_STRING
           : a->t         ? ATTRIBUTE_TENSOR
           : a->has_g     ? ATTRIBUTE_GRAPH
           : a->n_floats  ? ATTRIBUTE_FLOATS
           : a->n_strings ? ATTRIBUTE_STRINGS
                          : ATTRIBUTE_INTS;
}

/* Lists that are too long for a value are tensors. */
static int read_list(struct td_onnx_reader *r, enum td_dtype dtype, const void *data, size_t n,
                     struct td_node_operand *o)
{
    o->kind = TD_OPERAND_value;
    o->value = td_program_value(r->model);
    struct td_tensor t = {.data = (void *)data, .dtype = dtype, .rank = 1, .shape = {(int64_t)n}};
    int err = td_program_constant(r->model, o->value, &t);
    return err == -ENOMEM ? td_onnx_no_memory(r) : err;
}

static int read_ints(struct td_onnx_reader *r, const TdOnnx__Attribute *a,
                     struct td_node_operand *o)
{
    if (a->n_ints > TD_MAX_LIST)
        return read_list(r, TD_i64, a->ints, a->n_ints, o);
    o->constant = (struct td_value){.kind = TD_KIND_ints, .ints.n = (int)a->n_ints};
    for (size_t i = 0; i < a->n_ints; i++)
        o->constant.ints.v[i] = a->ints[i];
    return 0;
}

static int read_floats(struct td_onnx_reader *r, const TdOnnx__Attribute *a,
                       struct td_node_operand *o)
{
    if (a->n_floats > TD_MAX_LIST)
        return read_list(r, TD_f32, a->floats, a->n_floats, o);
    o->constant = (struct td_value){.kind = TD_KIND_floats, .floats.n = (int)a->n_floats};
    for (size_t i = 0; i < a->n_floats; i++)
        o->constant.floats.v[i] = (double)a->floats[i];
    return 0;
}

/* Several are one, with blanks between them. */
static int read_texts(struct td_onnx_reader *r, const ProtobufCBinaryData *s, size_t n,
                      struct td_value *v)
{
    size_t length = 0, used = 0;
    for (size_t i = 0; i < n; i++)
        length += s[i].len < LONGEST ? s[i].len + 1 : LONGEST;
    if (length >= LONGEST)
        return td_onnx_wrong(r, "an attribute's text is too long");
    char *all = td_program_alloc(r->model, length + 1);
    if (!all)
        return td_onnx_no_memory(r);
    for (size_t i = 0; i < n; i++) {
        if (i)
            all[used++] = ' ';
        if (s[i].len)
            memcpy(all + used, s[i].data, s[i].len);
        used += s[i].len;
    }
    *v = (struct td_value){.kind = TD_KIND_str, .str = all};
    return 0;
}

int td_onnx_text_attribute(struct td_onnx_reader *r, const TdOnnx__Attribute *a,
                           struct td_node_operand *o)
{
    TdOnnx__Attribute numbers = {.n_ints = a->n_strings};
    bool one = kind_of(a) == ATTRIBUTE_STRING;
    if (!one && kind_of(a) != ATTRIBUTE_STRINGS)
        return td_onnx_wrong(r, "attribute '%.60s': texts are right", a->name);
    o->kind = TD_OPERAND_constant;
    o->constant = (struct td_value){.kind = TD_KIND_int};
    if (one)
        return td_onnx_words(r, &a->s, 1, &o->constant.i);
    numbers.ints = td_program_alloc(r->model, sizeof *numbers.ints * a->n_strings);
    if (!numbers.ints)
        return td_onnx_no_memory(r);
    int err = td_onnx_words(r, a->strings, a->n_strings, numbers.ints);
    return err ? err : read_ints(r, &numbers, o);
}

static int read_int(struct td_onnx_reader *r, int64_t i, char mark, struct td_value *v)
{
    *v = (struct td_value){.kind = mark == '?' ? TD_KIND_bool : TD_KIND_int, .i = i};
    if (mark == '?')
        v->i = i != 0;
    if (mark != '%')
        return 0;
    *v = (struct td_value){.kind = TD_KIND_dtype, .dtype = td_onnx_dtype(i)};
    return v->dtype
               ? 0
               : td_onnx_wrong(r, "there are no elements of type %s here", td_onnx_type_name(i));
}

int td_onnx_attribute(struct td_onnx_reader *r, const TdOnnx__Attribute *a, char mark,
                      const struct td_onnx_scope *scope, struct td_node_operand *o,
                      td_onnx_graph_reader *graph)
{
    o->kind = TD_OPERAND_constant;
    if (a->ref_attr_name && *a->ref_attr_name)
        return td_onnx_wrong(r, "attribute '%.60s' is a function's", td_onnx_or_empty(a->name));
    switch (kind_of(a)) {
    case ATTRIBUTE_FLOAT:
        o->constant = (struct td_value){.kind = TD_KIND_float, .f = (double)a->f};
        return 0;
    case ATTRIBUTE_INT:
        return read_int(r, a->i, mark, &o->constant);
    case ATTRIBUTE_STRING:
        return read_texts(r, &a->s, 1, &o->constant);
    case ATTRIBUTE_TENSOR:
        if (!a->t)
            break;
        o->kind = TD_OPERAND_value;
        o->value = td_program_value(r->model);
        return td_onnx_tensor_value(r, o->value, a->t);
    case ATTRIBUTE_GRAPH:
        o->kind = TD_OPERAND_graph;
        return graph(r, &a->g, scope, &o->graph);
    case ATTRIBUTE_FLOATS:
        return read_floats(r, a, o);
    case ATTRIBUTE_INTS:
        return read_ints(r, a, o);
    case ATTRIBUTE_STRINGS:
        return read_texts(r, a->strings, a->n_strings, &o->constant);
    }
    return td_onnx_wrong(r, "attribute '%.60s' is of a kind that there is not here",
                         td_onnx_or_empty(a->name));
}
