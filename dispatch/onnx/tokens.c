/* What stands between an input of texts and the first node that works with words: StringNormalizer
 * and com.microsoft's Tokenizer, as skl2onnx writes them for a TfidfVectorizer. These nodes become
 * the input's tokenizer, because a program has words as numbers. */
#include "dispatch/program/tokens.h"
#include "dispatch/onnx/function.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what reads a name ---- */

struct mention {
    const char *name;
    enum { BY_output, BY_initializer, BY_node } by; /* of the graph */
    size_t i;                                       /* which of these */
    size_t input;                                   /* of the node */
};

struct mentions {
    TdOnnx__Graph *graph;
    struct mention *all; /* by name, then as by has it */
    size_t n;
    const struct mention *
        *taken; /* by nodes that become tokenizers, each of which reads one name */
    size_t n_taken;
    size_t *looked_at;   /* by node: for which input it was, counted from 1; 0: for none */
    TdOnnx__Node **gone; /* taken out of the graph, where NULL is left; names may be theirs */
    size_t n_gone;
};

static int compare(const void *a, const void *b)
{
    const struct mention *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (int)x->by - (int)y->by;
}

static int read_mentions(struct td_onnx_reader *r, struct mentions *m)
{
    const TdOnnx__Graph *graph = m->graph;
    size_t n = graph->n_output + graph->n_initializer;
    for (size_t i = 0; i < graph->n_node; i++)
        n += graph->node[i]->n_input;
    m->all = calloc(n + 1, sizeof *m->all);
    m->taken = calloc(graph->n_node + 1, sizeof(struct mention *));
    m->looked_at = calloc(graph->n_node + 1, sizeof *m->looked_at);
    m->gone = calloc(graph->n_node + 1, sizeof(TdOnnx__Node *));
    if (!m->all || !m->taken || !m->looked_at || !m->gone)
        return td_onnx_no_memory(r);
    for (size_t i = 0; i < graph->n_output; i++)
        m->all[m->n++] =
            (struct mention){td_onnx_or_empty(graph->output[i]->name), BY_output, i, 0};
    for (size_t i = 0; i < graph->n_initializer; i++)
        m->all[m->n++] =
            (struct mention){td_onnx_or_empty(graph->initializer[i]->name), BY_initializer, i, 0};
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_input; k++)
            m->all[m->n++] = (struct mention){graph->node[i]->input[k], BY_node, i, k};
    qsort(m->all, m->n, sizeof *m->all, compare);
    return 0;
}

/* The first mention of the name; NULL: there is none. */
static const struct mention *find(const struct mentions *m, const char *name)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(m->all[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < m->n && !strcmp(m->all[low].name, name) ? &m->all[low] : NULL;
}

static const TdOnnx__Tensor *initializer(const struct mentions *m, const char *name)
{
    const struct mention *at = find(m, name);
    while (at && at->by == BY_output)
        at = at + 1 < m->all + m->n && !strcmp(at[1].name, name) ? at + 1 : NULL;
    return at && at->by == BY_initializer ? m->graph->initializer[at->i] : NULL;
}

/* The mention after it of the same name, or NULL. */
static const struct mention *next(const struct mentions *m, const struct mention *at)
{
    return at + 1 < m->all + m->n && !strcmp(at[1].name, at->name) ? at + 1 : NULL;
}

static TdOnnx__Node *taken(const struct mentions *m, size_t i)
{
    return m->graph->node[m->taken[i]->i];
}

/* Takes the nodes that read the name as the first of their inputs. False: it is used otherwise,
 * too, or has a value in the file. number: the input's, from 1. */
static bool take_readers(struct mentions *m, const char *name, size_t number)
{
    for (const struct mention *at = find(m, name); at; at = next(m, at)) {
        if (at->by != BY_node || at->input || !m->graph->node[at->i] ||
            m->looked_at[at->i] == number)
            return false;
        m->looked_at[at->i] = number;
        m->taken[m->n_taken++] = at;
    }
    return true;
}

/* ---- nodes ---- */

static bool is_text(const TdOnnx__Attribute *a, const char *text)
{
    return a->s.len == strlen(text) && !memcmp(a->s.data, text, a->s.len);
}

/* Not a function of the file's that is called so. */
static bool is_normalizer(const struct td_onnx_reader *r, const TdOnnx__Node *node)
{
    return td_onnx_is_own(node->domain) &&
           !strcmp(td_onnx_or_empty(node->op_type), "StringNormalizer") &&
           !td_onnx_function(r, node);
}

static bool is_tokenizer(const struct td_onnx_reader *r, const TdOnnx__Node *node)
{
    return !strcmp(td_onnx_or_empty(node->domain), "com.microsoft") &&
           !strcmp(td_onnx_or_empty(node->op_type), "Tokenizer") && !td_onnx_function(r, node);
}

/* Each attribute is one of those, and given once. */
static int check_names(struct td_onnx_reader *r, const TdOnnx__Node *node, const char *const *right)
{
    unsigned given = 0;
    for (size_t i = 0; i < node->n_attribute; i++) {
        const char *name = td_onnx_or_empty(node->attribute[i]->name);
        int k = 0;
        while (right[k] && strcmp(right[k], name) != 0)
            k++;
        if (!right[k])
            return td_onnx_wrong(r, "there is no attribute '%.60s' here", name);
        if (given >> k & 1)
            return td_onnx_wrong(r, "'%.60s' is given twice", name);
        given |= 1U << k;
    }
    return 0;
}

/* The same letters in another case. A locale makes no difference here. */
static int read_normalizer(struct td_onnx_reader *r, const TdOnnx__Node *node,
                           struct td_tokenizer *to)
{
    static const char *const right[] = {"case_change_action", "is_case_sensitive", "locale",
                                        "stopwords", NULL};
    int err = check_names(r, node, right);
    for (size_t i = 0; i < node->n_attribute && !err; i++) {
        const TdOnnx__Attribute *a = node->attribute[i];
        const char *name = td_onnx_or_empty(a->name);
        if (!strcmp(name, "stopwords") && a->n_strings)
            return td_onnx_wrong(r, "stopwords: none are right here");
        if (strcmp(name, "case_change_action") != 0)
            continue;
        to->letters = is_text(a, "LOWER")   ? TD_LETTERS_small
                      : is_text(a, "UPPER") ? TD_LETTERS_capital
                                            : TD_LETTERS_as_they_are;
        if (!to->letters && !is_text(a, "NONE"))
            return td_onnx_wrong(r, "case_change_action: LOWER, UPPER or NONE is right");
    }
    return err;
}

static int read_tokenizer(struct td_onnx_reader *r, const TdOnnx__Node *node,
                          struct td_tokenizer *to)
{
    static const char *const right[] = {"mark",      "mincharnum", "pad_value", "separators",
                                        "stopwords", "tokenexp",   NULL};
    int err = check_names(r, node, right);
    bool single = false;
    to->cuts = true;
    to->shortest = 1;
    if (!err && td_program_word(r->model, "", 0, &to->pad))
        err = td_onnx_no_memory(r);
    for (size_t i = 0; i < node->n_attribute && !err; i++) {
        const TdOnnx__Attribute *a = node->attribute[i];
        const char *name = td_onnx_or_empty(a->name);
        if (!strcmp(name, "tokenexp")) {
            single = is_text(a, ".");
            err = td_onnx_pattern(r, &a->s, to);
        } else if (!strcmp(name, "mincharnum")) {
            to->shortest = a->i;
        } else if (!strcmp(name, "pad_value")) {
            err = td_onnx_words(r, &a->s, 1, &to->pad);
        } else if (!strcmp(name, "mark") && a->i) {
            err = td_onnx_wrong(r, "mark: 0 is right here");
        } else if (!strcmp(name, "separators") || !strcmp(name, "stopwords")) {
            err = td_onnx_wrong(r, "%s: tokenexp alone is right here", name);
        }
    }
    if (!err && !to->n)
        return td_onnx_wrong(r, "has no tokenexp");
    if (!err && (to->shortest < 1 || (single && to->shortest > 1)))
        return td_onnx_wrong(r, "mincharnum: %lld; %s is right", (long long)to->shortest,
                             single ? "with tokenexp '.' only 1" : "1 or more");
    return err;
}

/* Whether the node makes a list of a tensor of any shape. */
static bool is_flat(const struct mentions *m, const TdOnnx__Node *node)
{
    static const char minus_one[] = "\xff\xff\xff\xff\xff\xff\xff\xff";
    if (!td_onnx_is_own(node->domain) || strcmp(td_onnx_or_empty(node->op_type), "Reshape") != 0 ||
        node->n_input != 2)
        return false;
    const TdOnnx__Tensor *t = initializer(m, node->input[1]);
    return t && t->n_dims == 1 && t->dims[0] == 1 &&
           ((t->n_int64_data == 1 && t->int64_data[0] == -1) ||
            (t->has_raw_data && td_onnx_dtype(t->data_type) == TD_i64 && t->raw_data.len == 8 &&
             !memcmp(t->raw_data.data, minus_one, 8)));
}

/* Whether both say the same, of attributes as they are right here. */
static bool same_attribute(const TdOnnx__Attribute *a, const TdOnnx__Attribute *b)
{
    return !strcmp(td_onnx_or_empty(a->name), td_onnx_or_empty(b->name)) && a->i == b->i &&
           a->n_strings == b->n_strings && a->s.len == b->s.len &&
           (!a->s.len || !memcmp(a->s.data, b->s.data, a->s.len));
}

/* Whether both make the same of the same: several vectorizers that read an input have a tokenizer
 * each. */
static bool alike(const struct mentions *m, const TdOnnx__Node *a, const TdOnnx__Node *b)
{
    bool same = !strcmp(td_onnx_or_empty(a->op_type), td_onnx_or_empty(b->op_type)) &&
                !strcmp(td_onnx_or_empty(a->domain), td_onnx_or_empty(b->domain)) &&
                is_flat(m, a) == is_flat(m, b) && a->n_attribute == b->n_attribute &&
                a->n_output == 1 && b->n_output == 1;
    for (size_t i = 0; i < a->n_attribute && same; i++)
        same = same_attribute(a->attribute[i], b->attribute[i]);
    return same;
}

/* Collects the next nodes, which must be equal: readers of the input or, if nodes were collected,
 * readers of the outputs of those from index `from` on. False: there are none, or they differ. */
static bool take_next(struct mentions *m, const char *input, size_t number, size_t begin,
                      size_t from)
{
    const size_t end = m->n_taken;
    bool right = begin < end || take_readers(m, input, number);
    for (size_t i = from; i < end && right; i++)
        right = take_readers(m, taken(m, i)->output[0], number);
    for (size_t i = end; i < m->n_taken && right; i++)
        right = alike(m, taken(m, end), taken(m, i));
    return right && m->n_taken > end;
}

/* Makes all nodes that read the value `old` read `name`. The string `old` must stay allocated. */
static int rename_reads(struct td_onnx_reader *r, struct mentions *m, const char *old,
                        const char *name)
{
    size_t room = strlen(name) + 1;
    for (const struct mention *at = find(m, old), *after; at; at = after) {
        TdOnnx__Node *node = at->by == BY_node ? m->graph->node[at->i] : NULL;
        after = next(m, at);
        m->all[at - m->all].name = old;
        if (at->by == BY_output)
            return td_onnx_wrong(r, "'%.100s' gives texts of the caller's back", old);
        if (!node)
            continue;
        char *copy = r->memory.alloc(r->memory.allocator_data, room);
        if (!copy)
            return td_onnx_no_memory(r);
        r->memory.free(r->memory.allocator_data, node->input[at->input]);
        node->input[at->input] = memcpy(copy, name, room);
    }
    return 0;
}

/* Takes the nodes from begin on out of the graph, whose input gets the name of what the last of
 * them make, which those from `last` on are. */
static int take_out(struct td_onnx_reader *r, struct mentions *m, TdOnnx__Port *input, size_t begin,
                    size_t last)
{
    const char *name = taken(m, last)->output[0];
    int err = 0;
    for (size_t i = last; i < m->n_taken && !err; i++)
        if (initializer(m, taken(m, i)->output[0]))
            err = td_onnx_wrong(r, "'%.100s' is made twice", taken(m, i)->output[0]);
    for (size_t i = last + 1; i < m->n_taken && !err; i++)
        err = rename_reads(r, m, taken(m, i)->output[0], name);
    if (err)
        return err;
    char *own = input->name;
    input->name = taken(m, last)->output[0];
    taken(m, last)->output[0] = own;
    for (size_t i = begin; i < m->n_taken; i++) {
        m->gone[m->n_gone++] = taken(m, i);
        m->graph->node[m->taken[i]->i] = NULL;
    }
    return 0;
}

static int read_input(struct td_onnx_reader *r, struct mentions *m, size_t i)
{
    TdOnnx__Port *input = m->graph->input[i];
    struct td_tokenizer how = {0};
    const size_t begin = m->n_taken;
    size_t last = begin, end = begin;
    int err = 0;
    bool normal = false;
    while (!how.cuts && take_next(m, input->name, i + 1, begin, last)) {
        const TdOnnx__Node *node = taken(m, end);
        if (!how.flat && is_flat(m, node)) {
            how.flat = true;
        } else if (!normal && is_normalizer(r, node)) {
            normal = true;
            err = read_normalizer(r, node, &how);
        } else if (is_tokenizer(r, node)) {
            err = read_tokenizer(r, node, &how);
        } else {
            break;
        }
        if (err)
            return td_onnx_in_node(r, node, err);
        last = end;
        end = m->n_taken;
    }
    m->n_taken = normal || how.cuts ? end : begin;
    if (m->n_taken == begin)
        return 0;
    struct td_tokenizer *kept = td_program_alloc(r->model, sizeof *kept);
    r->cut[i].name = td_program_text(r->model, input->name, strlen(input->name));
    if (!kept || !r->cut[i].name)
        return td_onnx_no_memory(r);
    *kept = how;
    r->cut[i].how = kept;
    return take_out(r, m, input, begin, last);
}

/* Whether there may be tokenizers: the nodes are there, and no inner graphs, which may read any
 * name. */
static bool has_any(const struct td_onnx_reader *r, const TdOnnx__Graph *graph)
{
    bool has = false;
    for (size_t i = 0; i < graph->n_node; i++) {
        const TdOnnx__Node *node = graph->node[i];
        has = has || is_normalizer(r, node) || is_tokenizer(r, node);
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->has_g)
                return false;
    }
    return has;
}

/* Closes the gaps in the graph. */
static void finish(struct td_onnx_reader *r, struct mentions *m)
{
    size_t n = 0;
    for (size_t i = 0; i < m->graph->n_node; i++)
        if (m->graph->node[i])
            m->graph->node[n++] = m->graph->node[i];
    m->graph->n_node = n;
    for (size_t i = 0; i < m->n_gone; i++)
        protobuf_c_message_free_unpacked(&m->gone[i]->base, &r->memory);
    free(m->gone);
    free(m->looked_at);
    free(m->taken);
    free(m->all);
}

int td_onnx_read_tokenizers(struct td_onnx_reader *r, TdOnnx__Graph *graph)
{
    struct mentions m = {.graph = graph};
    r->cut = td_program_alloc(r->model, sizeof *r->cut * graph->n_input);
    if (!r->cut)
        return td_onnx_no_memory(r);
    if (!has_any(r, graph))
        return 0;
    int err = read_mentions(r, &m);
    for (size_t i = 0; i < graph->n_input && !err; i++) {
        const TdOnnx__Type *type = graph->input[i]->type;
        bool texts = type && type->tensor_type && type->tensor_type->elem_type == TD_ONNX_STRING;
        if (texts && *td_onnx_or_empty(graph->input[i]->name))
            err = read_input(r, &m, i);
    }
    finish(r, &m);
    return err;
}
