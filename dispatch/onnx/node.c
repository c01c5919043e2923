/* A node of an ONNX file: its row, and its operands under the row's names. What is not in the row
 * is refused: an attribute that nobody here knows would change what the node means. */
#include "dispatch/onnx/function.h"
#include "dispatch/onnx/trees.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- rows, read apart ---- */

/* What an operand is when left out: a number, a list of them, or a text. */
static int read_default(struct td_onnx_reader *r, const char *word, size_t length, char mark,
                        struct td_value *v)
{
    char *end;
    *v = (struct td_value){.kind = TD_KIND_float, .f = strtod(word, &end)};
    if (*word == '[') {
        *v = (struct td_value){.kind = TD_KIND_ints};
        for (const char *c = word + 1; c < word + length - 1; c = end + 1)
            v->ints.v[v->ints.n++] = strtoll(c, &end, 10);
        return 0;
    }
    if (end != word + length) {
        *v = (struct td_value){.kind = TD_KIND_str};
        v->str = td_program_text(r->model, word, length);
        return v->str ? 0 : -ENOMEM;
    }
    if (memchr(word, '.', length) || memchr(word, 'e', length))
        return 0;
    int64_t i = (int64_t)v->f;
    *v = (struct td_value){.kind = mark == '?' ? TD_KIND_bool : TD_KIND_int, .i = i};
    if (mark == '%')
        *v = (struct td_value){.kind = TD_KIND_dtype, .dtype = td_onnx_dtype(i)};
    return 0;
}

static int read_operand(struct td_onnx_reader *r, const char *word, size_t length,
                        struct td_onnx_operand *o)
{
    if (*word == '?' || *word == '%') {
        o->mark = *word++;
        length--;
    }
    const char *equals = memchr(word, '=', length);
    size_t n = equals ? (size_t)(equals - word) : length;
    n -= word[n - 1] == '*';
    if (n > 2 && word[n - 2] == ':') {
        o->type = word[n - 1];
        n -= 2;
    }
    o->name = td_program_text(r->model, word, n);
    if (!o->name)
        return -ENOMEM;
    return equals ? read_default(r, equals + 1, length - n - 1, o->mark, &o->otherwise) : 0;
}

static struct td_onnx_form *read_row(struct td_onnx_reader *r, const struct td_onnx_row *row)
{
    size_t words = 1;
    for (const char *c = row->operands; *c; c++)
        words += *c == ' ';
    struct td_onnx_form *form =
        td_program_alloc(r->model, sizeof *form + words * sizeof *form->operand);
    if (!form)
        return NULL;
    form->row = row;
    form->n_inputs = -1;
    for (const char *c = row->operands; *c; c += strspn(c, " ")) {
        size_t length = strcspn(c, " ");
        if (*c == '|') {
            form->n_inputs = form->n;
        } else {
            form->many = form->many || c[length - 1] == '*';
            if (read_operand(r, c, length, &form->operand[form->n++]))
                return NULL;
        }
        c += length;
    }
    if (form->n_inputs < 0)
        form->n_inputs = form->n;
    return form;
}

int td_onnx_form_of(struct td_onnx_reader *r, const char *domain, const char *op,
                    const struct td_onnx_form **found)
{
    const struct td_onnx_row *row = td_onnx_find(domain, op);
    if (!row && ((!*domain && !strcmp(op, "StringNormalizer")) ||
                 (!strcmp(domain, "com.microsoft") && !strcmp(op, "Tokenizer"))))
        return td_onnx_wrong(r, "is right only behind an input of texts that has no default and "
                                "that nothing reads but nodes of the same attributes, in a file "
                                "without inner graphs");
    if (!row)
        return *domain
                   ? td_onnx_wrong(r, "there is no such operator of domain '%.60s' here", domain)
                   : td_onnx_wrong(r, "there is no such operator here");
    for (int i = 0; i < r->n_forms; i++)
        if (r->form[i]->row == row) {
            *found = r->form[i];
            return 0;
        }
    if (r->n_forms == r->forms_room) {
        int room = r->forms_room ? 2 * r->forms_room : 16;
        struct td_onnx_form **more = td_program_alloc(r->model, sizeof *more * (size_t)room);
        if (!more)
            return td_onnx_no_memory(r);
        if (r->n_forms)
            memcpy(more, r->form, sizeof *more * (size_t)r->n_forms);
        r->form = more;
        r->forms_room = room;
    }
    struct td_onnx_form *form = read_row(r, row);
    if (!form)
        return td_onnx_no_memory(r);
    *found = r->form[r->n_forms++] = form;
    return 0;
}

/* ---- values ---- */

static int read_value(struct td_onnx_reader *r, const struct td_onnx_scope *scope, const char *name,
                      struct td_node_operand *o)
{
    if (!*name) /* left out */
        return 0;
    int value = td_onnx_look_up(scope, name);
    if (value == TD_ONNX_LEFT_OUT)
        return 0;
    o->kind = TD_OPERAND_value;
    o->value = value;
    return value >= 0 ? 0 : td_onnx_wrong(r, "reads '%.100s', which nothing makes", name);
}

static int read_inputs(struct td_onnx_reader *r, const TdOnnx__Node *from,
                       const struct td_onnx_form *form, const struct td_onnx_scope *scope,
                       struct td_node *node)
{
    int n = (int)from->n_input, one_each = form->n_inputs - form->many, err = 0;
    struct td_node_operand *operand = (void *)node->operand;
    if (n > one_each && !form->many)
        return td_onnx_wrong(r, "has %d inputs; at most %d are right", n, one_each);
    for (int i = 0; i < n && i < one_each && !err; i++) {
        operand[node->n_operands].name = form->operand[i].name;
        err = read_value(r, scope, from->input[i], &operand[node->n_operands++]);
    }
    if (err || n <= one_each)
        return err;
    struct td_node_operand *more = &operand[node->n_operands++], *list;
    more->name = form->operand[one_each].name;
    more->kind = TD_OPERAND_list;
    more->n = n - one_each;
    more->list = list = td_program_alloc(r->model, sizeof *list * (size_t)more->n);
    if (!list)
        return td_onnx_no_memory(r);
    for (int i = 0; i < more->n && !err; i++)
        err = read_value(r, scope, from->input[one_each + i], &list[i]);
    return err;
}

/* ---- attributes ---- */

/* What operators up to the sixth set had, and what means nothing here. */
static bool is_idle(const char *name)
{
    return !strcmp(name, "consumed_inputs") || !strcmp(name, "broadcast") ||
           !strcmp(name, "doc_string");
}

static int read_named(struct td_onnx_reader *r, const TdOnnx__Attribute *a,
                      const struct td_onnx_form *form, const struct td_onnx_scope *scope,
                      struct td_node *node, td_onnx_graph_reader *graph)
{
    struct td_node_operand *operand = (void *)node->operand;
    const char *name = td_onnx_or_empty(a->name);
    int i = 0;
    a = td_onnx_given(r, a);
    if (!a) /* neither the call of the function nor the function says it */
        return 0;
    const char *texts = td_onnx_text_name(form->row, name);
    name = texts ? texts : name;
    while (i < form->n && strcmp(form->operand[i].name, name) != 0)
        i++;
    if (i == form->n && is_idle(name))
        return 0;
    if (i == form->n)
        return td_onnx_wrong(r, "there is no attribute '%.60s' here", name);
    if (td_node_find(node, name) >= 0)
        return td_onnx_wrong(r, "'%.60s' is given twice", name);
    struct td_node_operand *o = &operand[node->n_operands++];
    o->name = form->operand[i].name;
    if (texts)
        return td_onnx_text_attribute(r, a, o);
    return td_onnx_attribute(r, a, form->operand[i].mark, scope, o, graph);
}

/* ---- nodes ---- */

static int read_outputs(struct td_onnx_reader *r, const TdOnnx__Node *from,
                        const struct td_onnx_scope *scope, struct td_node *node)
{
    int *out = td_program_alloc(r->model, sizeof *out * from->n_output);
    if (!out)
        return td_onnx_no_memory(r);
    node->out = out;
    node->n_outs = (int)from->n_output;
    for (int i = 0; i < node->n_outs; i++)
        out[i] = *from->output[i] ? td_onnx_look_up(scope, from->output[i]) : -1;
    return 0;
}

static bool is_trees(const char *op) /* of TreeEnsemble, TreeEnsembleClassifier, -Regressor */
{
    return !strncmp(op, "TreeEnsemble", 12);
}

static int read_trees(struct td_onnx_reader *r, const TdOnnx__Node *from, struct td_node *node)
{
    struct td_onnx_forest forest;
    int err = td_onnx_read_forest(r, from, &forest);
    err = err ? err : td_onnx_put_forest(r, &forest, node);
    td_onnx_free_forest(&forest);
    return err;
}

/* Both branches of an If give results of the same types. first: what the one that was read before
 * gives, or NULL. */
static int match_branches(struct td_onnx_reader *r, const unsigned char *first, int n)
{
    for (int i = 0; first && r->given && i < n && i < r->n_given; i++)
        if (first[i] && r->given[i] && first[i] != r->given[i])
            return td_onnx_wrong(r, "its branches give %s and %s as output %d; one type is right",
                                 td_onnx_type_name(first[i]), td_onnx_type_name(r->given[i]), i);
    return 0;
}

static int read_attributes(struct td_onnx_reader *r, const TdOnnx__Node *from,
                           const struct td_onnx_form *form, const struct td_onnx_scope *scope,
                           struct td_node *node, td_onnx_graph_reader *graph)
{
    bool trees = is_trees(node->op), branches = !strcmp(node->op, "If");
    const unsigned char *first = NULL;
    int n = 0, err = 0;
    for (size_t i = 0; i < from->n_attribute && !err; i++) {
        r->given = NULL;
        if (!trees || !td_onnx_is_tree_table(td_onnx_or_empty(from->attribute[i]->name)))
            err = read_named(r, from->attribute[i], form, scope, node, graph);
        if (branches && !err)
            err = match_branches(r, first, n);
        first = r->given ? r->given : first;
        n = r->given ? r->n_given : n;
    }
    return err || !trees ? err : read_trees(r, from, node);
}

static int fill(struct td_onnx_reader *r, const TdOnnx__Node *from,
                const struct td_onnx_scope *scope, struct td_node *node,
                td_onnx_graph_reader *graph)
{
    const struct td_onnx_form *form = NULL;
    const char *domain = td_onnx_or_empty(from->domain);
    if (!strcmp(domain, "com.microsoft.nchwc"))
        return td_onnx_wrong(r, "is laid out for one kind of CPU; save the model with "
                                "ORT_ENABLE_EXTENDED, or give the file from before");
    if (td_onnx_is_own(domain))
        domain = "";
    if (!*domain && !r->imported)
        return td_onnx_wrong(r, "is ONNX's own, of which the file says no operator set");
    int err = td_onnx_form_of(r, domain, node->op, &form);
    err = err ? err : td_onnx_follow_texts(r, domain, from, scope);
    if (err)
        return err;
    if (from->n_input + from->n_attribute > INT32_MAX / 2 || from->n_output > INT32_MAX / 2)
        return td_onnx_wrong(r, "has too many operands");
    node->form = form;
    node->version = r->version;
    node->lower = td_onnx_walk;
    size_t operands = (size_t)form->n_inputs + from->n_attribute;
    if (is_trees(node->op))
        operands += TD_ONNX_TREE_OPERANDS;
    node->operand = td_program_alloc(r->model, sizeof *node->operand * operands);
    if (!node->operand)
        return td_onnx_no_memory(r);
    err = read_inputs(r, from, form, scope, node);
    err = err ? err : read_attributes(r, from, form, scope, node, graph);
    return err ? err : read_outputs(r, from, scope, node);
}

int td_onnx_in_node(struct td_onnx_reader *r, const TdOnnx__Node *from, int err)
{
    struct td_problem why = *r->problem;
    const char *name = td_onnx_or_empty(from->name);
    if (!*name && from->n_output)
        name = from->output[0];
    return td_problem_set(r->problem, -err, "node '%.100s' (%.60s): %.400s", name,
                          td_onnx_or_empty(from->op_type), why.text);
}

int td_onnx_node(struct td_onnx_reader *r, const TdOnnx__Node *from,
                 const struct td_onnx_scope *scope, struct td_node *node,
                 td_onnx_graph_reader *graph)
{
    const char *op = td_onnx_or_empty(from->op_type), *name = td_onnx_or_empty(from->name);
    if (!*name && from->n_output)
        name = from->output[0];
    node->op = td_program_text(r->model, op, strlen(op));
    node->name = td_program_text(r->model, name, strlen(name));
    int err = node->op && node->name ? fill(r, from, scope, node, graph) : td_onnx_no_memory(r);
    return err ? td_onnx_in_node(r, from, err) : 0;
}

int td_onnx_constant_node(struct td_onnx_reader *r, const TdOnnx__Node *from, int value)
{
    const TdOnnx__Attribute *a = from->n_attribute ? from->attribute[0] : NULL;
    const char *name = a ? td_onnx_or_empty(a->name) : "";
    a = td_onnx_given(r, a);
    struct td_tensor t = {.rank = 0};
    int err = 0;
    if (a && !strcmp(name, "value") && a->t) {
        err = td_onnx_tensor_value(r, value, a->t);
        return err ? td_onnx_in_node(r, from, err) : 0;
    }
    if (!a)
        err = td_onnx_wrong(r, "a constant has no value");
    else if (!strcmp(name, "value_float"))
        t = (struct td_tensor){.data = (void *)&a->f, .dtype = TD_f32};
    else if (!strcmp(name, "value_int"))
        t = (struct td_tensor){.data = (void *)&a->i, .dtype = TD_i64};
    else if (!strcmp(name, "value_floats"))
        t = (struct td_tensor){
            .data = a->floats, .dtype = TD_f32, .rank = 1, .shape = {(int64_t)a->n_floats}};
    else if (!strcmp(name, "value_ints"))
        t = (struct td_tensor){
            .data = a->ints, .dtype = TD_i64, .rank = 1, .shape = {(int64_t)a->n_ints}};
    else
        err = td_onnx_wrong(r, "a constant of kind '%.60s' is none of numbers", name);
    err = err ? err : td_program_constant(r->model, value, &t);
    return err ? td_onnx_in_node(r, from, err) : 0;
}
