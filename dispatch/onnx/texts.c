/* Texts in an ONNX file: tensors and attributes of them become their words' numbers, and it is
 * followed which values are such numbers, for nothing may be done to these but to move, compare and
 * look them up. */
#include "dispatch/onnx/function.h"

#include <errno.h>
#include <string.h>

/* ---- which values are texts ---- */

int td_onnx_set_text(struct td_onnx_reader *r, int value, enum td_onnx_text is)
{
    if (value < 0 || !is)
        return 0;
    if (value >= r->texts_room) {
        int room = value < 512 ? 1024 : 2 * value;
        unsigned char *more = td_program_alloc(r->model, (size_t)room);
        if (!more)
            return td_onnx_no_memory(r);
        memset(more, 0, (size_t)room);
        if (r->texts_room)
            memcpy(more, r->text, (size_t)r->texts_room);
        r->text = more;
        r->texts_room = room;
    }
    r->text[value] = (unsigned char)is;
    return 0;
}

enum td_onnx_text td_onnx_text_of(const struct td_onnx_reader *r, int value)
{
    return value >= 0 && value < r->texts_room ? r->text[value] : TD_ONNX_TEXT_none;
}

static const TdOnnx__Attribute *attribute(const TdOnnx__Node *node, const char *name)
{
    for (size_t i = 0; i < node->n_attribute; i++)
        if (!strcmp(td_onnx_or_empty(node->attribute[i]->name), name))
            return node->attribute[i];
    return NULL;
}

/* Whether one side of a LabelEncoder is of texts. */
static bool has_texts(const TdOnnx__Node *node, const char *strings, const char *tensor)
{
    const TdOnnx__Attribute *t = attribute(node, tensor);
    return attribute(node, strings) || (t && t->t && t->t->data_type == TD_ONNX_STRING);
}

/* What an operator of ai.onnx.ml takes, and gives as its first result. */
static void of_ml(const TdOnnx__Node *node, bool *takes, bool *gives)
{
    const char *op = td_onnx_or_empty(node->op_type);
    *takes = *gives = false;
    if (!strcmp(op, "LabelEncoder")) {
        *takes = has_texts(node, "keys_strings", "keys_tensor");
        *gives = has_texts(node, "values_strings", "values_tensor");
    } else if (!strcmp(op, "OneHotEncoder")) {
        *takes = attribute(node, "cats_strings");
    } else if (strcmp(op, "ZipMap") != 0) {
        *gives = attribute(node, "classlabels_strings");
    }
}

/* Operators that only move elements: results of texts are texts. */
static const char *const movers[] = {"ArrayFeatureExtractor",
                                     "Concat",
                                     "Expand",
                                     "Flatten",
                                     "Gather",
                                     "GatherElements",
                                     "GatherND",
                                     "Identity",
                                     "Reshape",
                                     "Slice",
                                     "Split",
                                     "Squeeze",
                                     "Tile",
                                     "Transpose",
                                     "Unsqueeze",
                                     "Where",
                                     NULL};
static const char *const judges[] = {"Equal", "Shape", "Size", NULL};

/* Of a Cast, what it makes. -1: it would read or write numbers as texts. */
static int cast(const TdOnnx__Node *node, enum td_onnx_text most)
{
    const TdOnnx__Attribute *to = attribute(node, "to");
    bool gives = to && to->i == TD_ONNX_STRING;
    return gives == (most != TD_ONNX_TEXT_none) ? (int)most : -1;
}

int td_onnx_follow_texts(struct td_onnx_reader *r, const char *domain, const TdOnnx__Node *node,
                         const struct td_onnx_scope *scope)
{
    const char *op = td_onnx_or_empty(node->op_type);
    enum td_onnx_text most = TD_ONNX_TEXT_none, made;
    for (size_t i = 0; i < node->n_input; i++) {
        int value = *node->input[i] ? td_onnx_look_up(scope, node->input[i]) : -1;
        enum td_onnx_text is = td_onnx_text_of(r, value);
        most = is > most ? is : most;
    }
    bool takes = false, gives = false;
    if (!strcmp(domain, "ai.onnx.ml"))
        of_ml(node, &takes, &gives);
    else if (!*domain && !strcmp(op, "TfIdfVectorizer"))
        takes = attribute(node, "pool_strings");
    made = gives ? TD_ONNX_TEXT_own : TD_ONNX_TEXT_none;
    if (!strcmp(op, "Cast") && !*domain) {
        int is = cast(node, most);
        if (is < 0)
            return td_onnx_wrong(r, "numbers are not read from texts, nor written, here");
        made = (enum td_onnx_text)is;
    } else if (most && td_is_one_of(op, movers)) {
        made = most;
    } else if ((most && !takes && !(td_is_one_of(op, judges) && !*domain)) || (takes && !most)) {
        return td_onnx_wrong(r, takes ? "takes texts, but is given numbers"
                                      : "texts are not right here; numbers are");
    }
    size_t results = td_is_one_of(op, movers) ? node->n_output : 1;
    int err = 0;
    for (size_t i = 0; i < results && i < node->n_output && !err; i++)
        if (*node->output[i])
            err = td_onnx_set_text(r, td_onnx_look_up(scope, node->output[i]), made);
    return err;
}

int td_onnx_check_text(struct td_onnx_reader *r, struct td_model_port *port, int value, bool said)
{
    enum td_onnx_text is = td_onnx_text_of(r, value);
    if (said && !is)
        return td_onnx_wrong(r, "'%.100s' is of texts, but what makes it gives numbers here",
                             port->name);
    if (is == TD_ONNX_TEXT_sent)
        return td_onnx_wrong(r,
                             "'%.100s' gives texts of the caller's back; those that the file "
                             "has are right",
                             port->name);
    port->texts = is != TD_ONNX_TEXT_none;
    if (port->texts)
        port->dtype = TD_i64;
    return 0;
}

/* ---- their numbers ---- */

const char *td_onnx_text_name(const struct td_onnx_row *row, const char *name)
{
    static const char *const names[][2] = {{"cats_strings", "cats_int64s"},
                                           {"default_string", "default_int64"},
                                           {"keys_strings", "keys_int64s"},
                                           {"values_strings", "values_int64s"}};
    if (!*row->domain && !strcmp(row->op, "TfIdfVectorizer") && !strcmp(name, "pool_strings"))
        return "pool_int64s";
    if (strcmp(row->domain, "ai.onnx.ml") != 0)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i][0], name))
            return names[i][1];
    bool ints = strstr(row->operands, "classlabels_ints");
    return strcmp(name, "classlabels_strings") != 0 ? NULL
           : ints                                   ? "classlabels_ints"
                                                    : "classlabels_int64s";
}

int td_onnx_words(struct td_onnx_reader *r, const ProtobufCBinaryData *text, size_t n,
                  int64_t *word)
{
    int err = 0;
    for (size_t i = 0; i < n && !err; i++)
        err = td_program_word(r->model, text[i].data ? (const char *)text[i].data : "", text[i].len,
                              &word[i]); /* one without letters is at no address */
    return err ? td_onnx_no_memory(r) : 0;
}

int td_onnx_tensor_value(struct td_onnx_reader *r, int value, TdOnnx__Tensor *from)
{
    const char *name = td_onnx_or_empty(from->name);
    struct td_tensor t;
    if (from->data_type != TD_ONNX_STRING)
        return td_onnx_constant(r, value, from);
    int err = td_onnx_shape_of(r, from, name, &t);
    if (!err && (from->n_string_data != (size_t)td_numel(&t) || from->data_location))
        err =
            td_onnx_wrong(r, "tensor '%.100s': its texts are not as many as its shape says", name);
    if (err)
        return err;
    t.data = td_program_alloc(r->model, td_nbytes(&t) + 1);
    err = t.data ? td_onnx_words(r, from->string_data, from->n_string_data, t.data)
                 : td_onnx_no_memory(r);
    err = err ? err : td_onnx_set_text(r, value, TD_ONNX_TEXT_own);
    err = err ? err : td_program_constant(r->model, value, &t);
    return err == -ENOMEM ? td_onnx_no_memory(r) : err;
}
