/* What stands between an input of texts and the first node that works with words: StringNormalizer
 * and com.microsoft's Tokenizer, as skl2onnx writes them for a TfidfVectorizer. These nodes become
 * the input's tokenizer, because a program has words as numbers. */
#include "dispatch/program/tokens.h"
#include "dispatch/onnx/file.h"

#include <errno.h>
#include <string.h>

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- patterns ---- */

struct pattern {
    struct td_onnx_reader *r;
    const unsigned char *at, *end;
    struct td_tokenizer *to;
};

static int bad_pattern(struct pattern *p)
{
    return td_onnx_wrong(p->r,
                         "tokenexp: up to %d characters or classes of them are right, as in "
                         "[a-zA-Z0-9_]+, \\w{2,} or [^ ,], those that may be left out at the end",
                         TD_TOKEN_CLASSES);
}

static bool add_range(struct td_letter_class *c, unsigned from, unsigned to)
{
    if (c->n == TD_TOKEN_RANGES || from > to)
        return false;
    c->range[c->n][0] = from;
    c->range[c->n++][1] = to;
    return true;
}

/* What stands behind a backslash. */
static bool add_escaped(struct td_letter_class *c, unsigned letter)
{
    switch (letter) {
    case 'w':
        return add_range(c, '0', '9') && add_range(c, 'A', 'Z') && add_range(c, '_', '_') &&
               add_range(c, 'a', 'z');
    case 'd':
        return add_range(c, '0', '9');
    case 's':
        return add_range(c, '\t', '\n') && add_range(c, '\f', '\r') && add_range(c, ' ', ' ');
    case 't':
        return add_range(c, '\t', '\t');
    case 'n':
        return add_range(c, '\n', '\n');
    }
    bool other = (letter >= '0' && letter <= '9') || (letter >= 'A' && letter <= 'Z') ||
                 (letter >= 'a' && letter <= 'z') || letter >= 0x80;
    return !other && add_range(c, letter, letter);
}

/* A character of the pattern itself, in ASCII. */
static bool next(struct pattern *p, unsigned *c)
{
    *c = p->at < p->end ? *p->at++ : 0;
    return *c && *c < 0x80;
}

static bool read_set(struct pattern *p, struct td_letter_class *c)
{
    unsigned from, to;
    if (p->at < p->end && *p->at == '^') {
        c->inverse = true;
        p->at++;
    }
    do {
        if (!next(p, &from) || from == '[' || (from == ']' && !c->n))
            return false;
        if (from == ']')
            return true;
        if (from == '\\') {
            if (!next(p, &from) || !add_escaped(c, from))
                return false;
            continue;
        }
        to = from;
        if (p->end - p->at > 1 && p->at[0] == '-' && p->at[1] != ']') {
            p->at++;
            if (!next(p, &to) || to == '\\' || to == '[')
                return false;
        }
        if (!add_range(c, from, to))
            return false;
    } while (true);
}

static bool read_class(struct pattern *p, struct td_letter_class *c)
{
    unsigned letter;
    *c = (struct td_letter_class){0};
    if (!next(p, &letter) || strchr("()|^$*+?{}]", (int)letter))
        return false;
    if (letter == '[')
        return read_set(p, c);
    if (letter == '\\')
        return next(p, &letter) && add_escaped(c, letter);
    c->inverse = letter == '.';
    letter = letter == '.' ? '\n' : letter;
    return add_range(c, letter, letter);
}

/* A number of one or two digits. */
static bool read_count(struct pattern *p, int *n)
{
    const unsigned char *from = p->at;
    for (*n = 0; p->at < p->end && *p->at >= '0' && *p->at <= '9' && p->at - from < 2; p->at++)
        *n = 10 * *n + (*p->at - '0');
    return p->at > from;
}

/* How often, at most -1: any number of times. */
static bool read_mark(struct pattern *p, int *least, int *most)
{
    unsigned mark = p->at < p->end ? *p->at : 0;
    *least = mark != '*' && mark != '?';
    *most = mark == '*' || mark == '+' ? -1 : 1;
    if (mark != '*' && mark != '?' && mark != '+' && mark != '{')
        return true;
    p->at++;
    if (mark == '{') {
        if (!read_count(p, least))
            return false;
        *most = *least;
        if (p->at < p->end && *p->at == ',') {
            p->at++;
            if (!read_count(p, most))
                *most = -1;
        }
        if (p->at == p->end || *p->at++ != '}' || (*most >= 0 && *most < *least) || !*most)
            return false;
    }
    return p->at == p->end || !strchr("?+*{", *p->at);
}

static bool add_class(struct pattern *p, const struct td_letter_class *c)
{
    int least, most;
    struct td_tokenizer *t = p->to;
    if (!read_mark(p, &least, &most))
        return false;
    bool many = most < 0;
    int n = many ? least + 1 : most;
    if (t->n + n > TD_TOKEN_CLASSES || (least ? t->n && t->class[t->n - 1].optional : !t->n))
        return false;
    for (int i = 0; i < n; i++) {
        struct td_letter_class *to = &t->class[t->n++];
        *to = *c;
        to->optional = i >= least;
        to->many = many && i == least;
    }
    return true;
}

static int read_pattern(struct td_onnx_reader *r, const ProtobufCBinaryData *from,
                        struct td_tokenizer *to)
{
    struct pattern p = {r, from->data, from->data + from->len, to};
    struct td_letter_class c;
    while (p.at < p.end)
        if (!read_class(&p, &c) || !add_class(&p, &c))
            return bad_pattern(&p);
    if (from->len == 1 && *from->data == '.') /* all characters, and line ends too */
        to->class[0].n = 0;
    return to->n ? 0 : bad_pattern(&p);
}

/* ---- nodes ---- */

static bool is_text(const TdOnnx__Attribute *a, const char *text)
{
    return a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

/* The same letters in another case. A locale makes no difference here. */
static int read_normalizer(struct td_onnx_reader *r, const TdOnnx__Node *node,
                           struct td_tokenizer *to)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const TdOnnx__Attribute *a = node->attribute[i];
        const char *name = or_empty(a->name);
        if (!strcmp(name, "stopwords") && a->n_strings)
            return td_onnx_wrong(r, "StringNormalizer: stopwords: none are right here");
        if (strcmp(name, "case_change_action") != 0)
            continue;
        to->letters = is_text(a, "LOWER")   ? TD_LETTERS_small
                      : is_text(a, "UPPER") ? TD_LETTERS_capital
                                            : TD_LETTERS_as_they_are;
        if (!to->letters && !is_text(a, "NONE"))
            return td_onnx_wrong(r, "StringNormalizer: case_change_action: LOWER, UPPER or NONE "
                                    "is right");
    }
    return 0;
}

static int read_tokenizer(struct td_onnx_reader *r, const TdOnnx__Node *node,
                          struct td_tokenizer *to)
{
    to->cuts = true;
    int err = td_program_word(r->model, "", 0, &to->pad) ? td_onnx_no_memory(r) : 0;
    for (size_t i = 0; i < node->n_attribute && !err; i++) {
        const TdOnnx__Attribute *a = node->attribute[i];
        const char *name = or_empty(a->name);
        if (!strcmp(name, "tokenexp"))
            err = read_pattern(r, &a->s, to);
        else if (!strcmp(name, "mincharnum"))
            to->shortest = a->i;
        else if (!strcmp(name, "pad_value"))
            err = td_onnx_words(r, &a->s, 1, &to->pad);
        else if (!strcmp(name, "mark") && a->i)
            err = td_onnx_wrong(r, "Tokenizer: mark: 0 is right here");
        else if (!strcmp(name, "separators") || !strcmp(name, "stopwords"))
            err = td_onnx_wrong(r, "Tokenizer: %s: tokenexp alone is right here", name);
    }
    return err || to->n ? err : td_onnx_wrong(r, "Tokenizer: has no tokenexp");
}

/* Whether the node makes a list of a tensor of any shape. */
static bool is_flat(const TdOnnx__Graph *graph, const TdOnnx__Node *node)
{
    if (strcmp(or_empty(node->op_type), "Reshape") != 0 || node->n_input != 2)
        return false;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const TdOnnx__Tensor *t = graph->initializer[i];
        if (strcmp(or_empty(t->name), node->input[1]) != 0)
            continue;
        static const char minus_one[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
        return t->n_dims == 1 && t->dims[0] == 1 &&
               ((t->n_int64_data == 1 && t->int64_data[0] == -1) ||
                (t->has_raw_data && t->raw_data.len == 8 &&
                 !memcmp(t->raw_data.data, minus_one, 8)));
    }
    return false;
}

/* The only reader of a name; NULL: there are others, or graphs in nodes, where one may stand. */
static const TdOnnx__Node *reader_of(const TdOnnx__Graph *graph, const char *name)
{
    const TdOnnx__Node *found = NULL;
    for (size_t i = 0; i < graph->n_output; i++)
        if (!strcmp(or_empty(graph->output[i]->name), name))
            return NULL;
    for (size_t i = 0; i < graph->n_node; i++) {
        const TdOnnx__Node *node = graph->node[i];
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->has_g)
                return NULL;
        for (size_t k = 0; k < node->n_input; k++)
            if (!strcmp(node->input[k], name)) {
                if (found || k)
                    return NULL;
                found = node;
            }
    }
    return found;
}

/* Takes the node out of the graph, whose input gets the name of what the node makes. */
static void take_out(struct td_onnx_reader *r, TdOnnx__Graph *graph, TdOnnx__Port *input,
                     const TdOnnx__Node *node)
{
    size_t n = 0;
    for (size_t i = 0; i < graph->n_node; i++)
        if (graph->node[i] != node)
            graph->node[n++] = graph->node[i];
        else {
            TdOnnx__Node *gone = graph->node[i];
            char *name = input->name;
            input->name = gone->output[0];
            gone->output[0] = name;
            protobuf_c_message_free_unpacked(&gone->base, &r->memory);
        }
    graph->n_node = n;
}

static int read_input(struct td_onnx_reader *r, TdOnnx__Graph *graph, TdOnnx__Port *input,
                      struct td_onnx_cut *cut)
{
    struct td_tokenizer how = {0};
    const TdOnnx__Node *node[3];
    int n = 0, err = 0;
    bool normal = false;
    for (const char *name = or_empty(input->name); !err && !how.cuts; name = node[n++]->output[0]) {
        node[n] = reader_of(graph, name);
        if (!node[n] || node[n]->n_output != 1)
            break;
        const char *op = or_empty(node[n]->op_type), *domain = or_empty(node[n]->domain);
        bool own = !*domain || !strcmp(domain, "ai.onnx");
        if (own && !how.flat && is_flat(graph, node[n])) {
            how.flat = true;
        } else if (own && !normal && !strcmp(op, "StringNormalizer")) {
            normal = true;
            err = read_normalizer(r, node[n], &how);
        } else if (!strcmp(domain, "com.microsoft") && !strcmp(op, "Tokenizer")) {
            err = read_tokenizer(r, node[n], &how);
        } else {
            break;
        }
    }
    if (err || (!normal && !how.cuts))
        return err;
    struct td_tokenizer *kept = td_program_alloc(r->model, sizeof *kept);
    cut->name = td_program_text(r->model, input->name, strlen(input->name));
    if (!kept || !cut->name)
        return td_onnx_no_memory(r);
    *kept = how;
    cut->how = kept;
    for (int i = 0; i < n; i++)
        take_out(r, graph, input, node[i]);
    return 0;
}

int td_onnx_read_tokenizers(struct td_onnx_reader *r, TdOnnx__Graph *graph)
{
    int err = 0;
    r->cut = td_program_alloc(r->model, sizeof *r->cut * graph->n_input);
    for (size_t i = 0; i < graph->n_input && r->cut && !err; i++) {
        const TdOnnx__Type *type = graph->input[i]->type;
        bool texts = type && type->tensor_type && type->tensor_type->elem_type == TD_ONNX_STRING;
        if (texts && *or_empty(graph->input[i]->name))
            err = read_input(r, graph, graph->input[i], &r->cut[i]);
    }
    return r->cut ? err : td_onnx_no_memory(r);
}
