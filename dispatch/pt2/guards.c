/* What torch.export has taken to hold of the inputs: sizes that are expressions over symbols, the
 * symbols' ranges, and conditions. All are judged at each walk; a model with one that cannot be
 * read is refused. */
#include "dispatch/pt2/pt2.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct size {       /* of a dimension, or a number */
    int input, dim; /* -1: the input is a number */
    int symbol;     /* that it is, alone; or the only one not known before, which it gives; or -1 */
    bool alone;
    const char *text;
};

struct symbol {
    const char *name; /* "s77" */
    int64_t least, most;
};

struct guards {
    int n_inputs, n_sizes, n_symbols, n_conditions;
    struct size *size; /* those that are a symbol alone first; each after what it is computed of */
    struct symbol *symbol;
    const char **condition;
    const char **name; /* of inputs */
};

/* ---- names in expressions ---- */

#define UNKNOWN INT64_MIN

struct names { /* first: a struct td_pt2_sizes */
    struct td_pt2_sizes sizes;
    const struct guards *guards;
    int64_t *value;           /* of each symbol; UNKNOWN; NULL: there are none */
    const struct td_item *in; /* NULL: when the model is loaded */
    int n_unknown, unknown;   /* symbols that were met and not known, and the last of them */
};

static int find_symbol(const struct guards *g, const char *name, int n)
{
    int i = 0;
    while (i < g->n_symbols &&
           (strncmp(g->symbol[i].name, name, (size_t)n) || g->symbol[i].name[n]))
        i++;
    return i;
}

static int symbol_of(const struct td_pt2_sizes *sizes, const char *name, int n, struct td_item *out)
{
    struct names *names = (struct names *)sizes;
    int i = find_symbol(names->guards, name, n);
    if (i == names->guards->n_symbols || !names->value)
        return -ENOSYS;
    *out = td_item_int(names->value[i]);
    if (names->value[i] == UNKNOWN && (!names->n_unknown || names->unknown != i)) {
        names->unknown = i;
        names->n_unknown++;
    }
    return 0;
}

static int find_name(const struct guards *g, const char *name)
{
    for (int i = 0; i < g->n_inputs; i++)
        if (!strcasecmp(g->name[i], name))
            return i;
    return -1;
}

/* The input that a path means: torch.export's names are made of such, but of **kwargs' keys alone.
 */
static int find_input(const struct guards *g, const char *path)
{
    int i = find_name(g, path);
    const char *key = strchr(path, '_');
    return i < 0 && key ? find_name(g, key + 1) : i;
}

static int input_of(const struct td_pt2_sizes *sizes, const char *path, char what, int64_t at,
                    struct td_item *out)
{
    const struct names *names = (const struct names *)sizes;
    int i = find_input(names->guards, path);
    *out = (struct td_item){0};
    if (i < 0)
        return -ENOSYS;
    if (!names->in)
        return 0;
    const struct td_item *in = &names->in[i];
    const struct td_tensor *t = &in->v.tensor;
    if (what == 'n' && td_is_number(&in->v))
        *out = *in;
    if (in->v.kind != TD_KIND_tensor || what == 'n' || (what != 'o' && at >= t->rank))
        return 0;
    *out = td_item_int(what == 'o' ? 0 : what == 's' ? t->shape[at] : 1);
    for (int d = t->rank - 1; what == 't' && d > at; d--) /* inputs are dense */
        out->v.i *= t->shape[d] > 1 ? t->shape[d] : 1;
    return 0;
}

/* ---- judging ---- */

/* "x: its size in dimension 0", "k" */
static const char *name_size(const struct guards *g, const struct size *s, char text[100])
{
    if (s->dim < 0)
        snprintf(text, 100, "%.60s", g->name[s->input]);
    else
        snprintf(text, 100, "%.60s: its size in dimension %d", g->name[s->input], s->dim);
    return text;
}

static int refuse_range(struct td_walk *walk, const struct guards *g, const struct size *s,
                        int64_t is)
{
    char what[100];
    const struct symbol *symbol = &g->symbol[s->symbol];
    name_size(g, s, what);
    if (symbol->most == INT64_MAX)
        return td_walk_refuse(walk, "%s must be at least %lld, but is %lld", what,
                              (long long)symbol->least, (long long)is);
    return td_walk_refuse(walk, "%s must be from %lld to %lld, but is %lld", what,
                          (long long)symbol->least, (long long)symbol->most, (long long)is);
}

static int refuse_size(struct td_walk *walk, const struct guards *g, const struct size *s,
                       int64_t is)
{
    char what[100];
    return td_walk_refuse(walk,
                          "%s is %lld, which is none of those that the model was exported for",
                          name_size(g, s, what), (long long)is);
}

/* The expression with the symbol at a value. */
static bool compute(struct td_walk *walk, struct names *names, const struct size *s, int64_t at,
                    int64_t *result)
{
    struct td_item item;
    if (s->symbol >= 0)
        names->value[s->symbol] = at;
    bool done = !td_pt2_evaluate(walk, s->text, &names->sizes, &item) && item.v.kind == TD_KIND_int;
    *result = done ? item.v.i : -1;
    return done;
}

/* Finds the symbol that gives the size, as of FACTOR * SYMBOL + REST: whether there is one. */
static bool solve(struct td_walk *walk, struct names *names, const struct size *s, int64_t is)
{
    int64_t rest, factor, more, result;
    if (!compute(walk, names, s, 0, &rest) || !compute(walk, names, s, 1, &factor) ||
        !td_size_minus(factor, rest, &factor) || !factor || !td_size_minus(is, rest, &more) ||
        (factor == -1 && more == INT64_MIN))
        return false;
    return more / factor >= 0 && compute(walk, names, s, more / factor, &result) && result == is;
}

static int judge_size(struct td_walk *walk, struct names *names, const struct size *s, int64_t is)
{
    const struct guards *g = names->guards;
    char what[100];
    int64_t fits;
    bool known = s->symbol < 0;
    if (s->alone) {
        fits = names->value[s->symbol];
        known = fits != UNKNOWN;
        names->value[s->symbol] = is;
    } else if (known ? !compute(walk, names, s, 0, &fits) : !solve(walk, names, s, is)) {
        return refuse_size(walk, g, s, is);
    }
    if (known && fits != is)
        return td_walk_refuse(walk, "%s must be %lld, to fit the other inputs, but is %lld",
                              name_size(g, s, what), (long long)fits, (long long)is);
    if (s->symbol < 0)
        return 0;
    int64_t value = names->value[s->symbol];
    const struct symbol *symbol = &g->symbol[s->symbol];
    if (value >= symbol->least && value <= symbol->most)
        return 0;
    return s->alone ? refuse_range(walk, g, s, is) : refuse_size(walk, g, s, is);
}

static int judge_all(struct td_walk *walk, struct names *names)
{
    const struct guards *g = names->guards;
    int err = 0;
    for (int i = 0; i < g->n_sizes && !err; i++) {
        const struct size *s = &g->size[i];
        const struct td_value *v = &names->in[s->input].v;
        bool number = s->dim < 0;
        if (number ? v->kind == TD_KIND_int : v->kind == TD_KIND_tensor && s->dim < v->tensor.rank)
            err = judge_size(walk, names, s, number ? v->i : v->tensor.shape[s->dim]);
    }
    for (int i = 0; i < g->n_conditions && !err; i++) {
        struct td_item holds;
        err = td_pt2_evaluate(walk, g->condition[i], &names->sizes, &holds);
        if (err || !td_is_number(&holds.v) || td_scalar(&holds.v) == 0)
            err = td_walk_refuse(walk,
                                 "the model was exported for inputs of which this is true: "
                                 "%.300s",
                                 g->condition[i]);
    }
    return err;
}

static int judge(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    const struct guards *g = node->form;
    struct names names = {{symbol_of, input_of}, g, NULL, in, 0, 0};
    (void)out;
    names.value = malloc(sizeof *names.value * (size_t)(g->n_symbols + 1));
    if (!names.value)
        return -ENOMEM;
    for (int i = 0; i < g->n_symbols; i++)
        names.value[i] = UNKNOWN;
    int err = judge_all(walk, &names);
    free(names.value);
    return err;
}

/* ---- reading ---- */

#define MAX_SYMBOLS 256

/* The number of the symbol, which may be new; -ENOMEM, -EINVAL: there are too many. 0 and 1 are
 * taken where 2 is, and of a number what is below 0: torch.export means that it is general. */
static int add_symbol(struct td_pt2 *pt2, struct guards *g, const char *name, int n, bool size)
{
    int i = find_symbol(g, name, n);
    if (i < g->n_symbols)
        return i;
    if (i == MAX_SYMBOLS)
        return td_problem_set(pt2->problem, EINVAL,
                              "the model's inputs have more than %d different sizes", MAX_SYMBOLS);
    struct symbol *s = &g->symbol[i];
    *s = (struct symbol){td_program_text(pt2->model, name, (size_t)n), INT64_MIN, INT64_MAX};
    if (!s->name)
        return -ENOMEM;
    const cJSON *range = td_pt2_get(pt2->ranges, s->name);
    td_pt2_whole(td_pt2_get(range, "max_val"), &s->most);
    td_pt2_whole(td_pt2_get(range, "min_val"), &s->least);
    if (s->least <= 2)
        s->least = size ? 0 : INT64_MIN;
    g->n_symbols++;
    return i;
}

/* Whether an expression is a symbol and nothing else: n letters. */
static bool is_symbol(const char *text, const char **name, int *n)
{
    bool symbol = !strncmp(text, "Symbol('", 8);
    *name = text + 8;
    *n = symbol ? (int)strcspn(*name, "'") : 0;
    return symbol && !strcmp(text + strcspn(text, ")"), ")");
}

static int refuse_text(struct td_pt2 *pt2, const struct guards *g, const struct size *s)
{
    return td_problem_set(
        pt2->problem, EINVAL,
        "the input '%.80s' has a size in dimension %d that cannot be read: %.200s",
        g->name[s->input], s->dim, s->text);
}

/* Appends what an input's size, or number, is where that is an expression: a symbol alone, or not.
 */
static int read_size(struct td_pt2 *pt2, struct guards *g, const cJSON *item, int input, int dim,
                     bool alone)
{
    const char *text = td_pt2_text(td_pt2_get(item, "as_expr"), "expr_str"), *name;
    struct size s = {.input = input, .dim = dim, .symbol = -1, .alone = alone};
    int n;
    if (!text || is_symbol(text, &name, &n) != alone)
        return 0;
    s.text = td_program_text(pt2->model, text, strlen(text));
    if (!s.text)
        return -ENOMEM;
    if (alone && (s.symbol = add_symbol(pt2, g, name, n, dim >= 0)) < 0)
        return s.symbol;
    for (const char *at = text; !alone && (at = strstr(at, "Symbol('")); at += 8) {
        int err = add_symbol(pt2, g, at + 8, (int)strcspn(at + 8, "'"), dim >= 0);
        if (err < 0)
            return err;
    }
    g->size[g->n_sizes++] = s;
    return 0;
}

static int read_sizes(struct td_pt2_graph *graph, struct guards *g, const struct td_pt2_name *name,
                      int input, bool alone)
{
    const cJSON *sizes = td_pt2_get(name->value->meta, "sizes");
    const cJSON *number = td_pt2_get(td_pt2_get(graph->json, "sym_int_values"), name->name);
    int dim = 0, err = 0;
    for (const cJSON *item = sizes ? sizes->child : NULL; item && !err; item = item->next)
        err = read_size(graph->pt2, g, item, input, dim++, alone);
    return err || sizes ? err : read_size(graph->pt2, g, number, input, -1, alone);
}

/* Puts the sizes that are no symbol alone behind what they are computed of, and finds which symbol
 * one gives: refuses those that cannot be read, or in which more symbols are open. */
static int order(struct td_pt2 *pt2, struct guards *g)
{
    struct names names = {{symbol_of, input_of}, g, NULL, NULL, 0, 0};
    names.value = td_arena_alloc(pt2->arena, sizeof *names.value * (size_t)(g->n_symbols + 1));
    int done = 0, from = 0;
    if (!names.value)
        return -ENOMEM;
    for (int i = 0; i < g->n_symbols; i++)
        names.value[i] = UNKNOWN;
    for (; done < g->n_sizes && g->size[done].alone; done++)
        names.value[g->size[done].symbol] = 1;
    for (from = done; done < g->n_sizes; from++) {
        if (from == g->n_sizes)
            return refuse_text(pt2, g, &g->size[done]);
        struct td_item item;
        struct size s = g->size[from];
        names.n_unknown = 0;
        if (td_pt2_evaluate(NULL, s.text, &names.sizes, &item))
            return refuse_text(pt2, g, &s);
        if (names.n_unknown > 1)
            continue;
        s.symbol = names.n_unknown ? names.unknown : -1;
        memmove(&g->size[done + 1], &g->size[done], sizeof s * (size_t)(from - done));
        g->size[done++] = s;
        if (s.symbol < 0)
            continue;
        names.value[s.symbol] = 1;
        from = done - 1; /* those that had two open symbols may have one now */
    }
    return 0;
}

static int read_conditions(struct td_pt2 *pt2, struct guards *g)
{
    struct names names = {{symbol_of, input_of}, g, NULL, NULL, 0, 0};
    const cJSON *list = pt2->conditions;
    g->condition =
        td_program_alloc(pt2->model, sizeof *g->condition * (size_t)(cJSON_GetArraySize(list) + 1));
    if (!g->condition)
        return -ENOMEM;
    for (const cJSON *c = list ? list->child : NULL; c; c = c->next) {
        struct td_item item;
        const char *text = cJSON_GetStringValue(c);
        if (!text || td_pt2_evaluate(NULL, text, &names.sizes, &item))
            return td_problem_set(pt2->problem, EINVAL,
                                  "the model's guard cannot be read, and so not be held: %.300s",
                                  text ? text : "no text");
        g->condition[g->n_conditions] = td_program_text(pt2->model, text, strlen(text));
        if (!g->condition[g->n_conditions++])
            return -ENOMEM;
    }
    return 0;
}

static int read(struct td_pt2_graph *graph, struct guards *g, const struct td_pt2_name *name, int n)
{
    struct td_pt2 *pt2 = graph->pt2;
    size_t n_sizes = 1;
    int err = 0;
    for (int i = 0; i < n; i++)
        n_sizes += (size_t)cJSON_GetArraySize(td_pt2_get(name[i].value->meta, "sizes")) + 1;
    g->size = td_program_alloc(pt2->model, sizeof *g->size * n_sizes);
    g->symbol = td_program_alloc(pt2->model, sizeof *g->symbol * MAX_SYMBOLS);
    g->name = td_program_alloc(pt2->model, sizeof *g->name * (size_t)(n + 1));
    if (!g->size || !g->symbol || !g->name)
        return -ENOMEM;
    for (g->n_inputs = 0; g->n_inputs < n; g->n_inputs++)
        g->name[g->n_inputs] = name[g->n_inputs].name;
    for (int i = 0; i < 2 * n && !err; i++)
        err = read_sizes(graph, g, &name[i % n], i % n, i < n);
    err = err ? err : order(pt2, g);
    return err ? err : read_conditions(pt2, g);
}

int td_pt2_guard(struct td_pt2_graph *graph, const int *input, const struct td_pt2_name *name,
                 int n)
{
    struct td_model *model = graph->pt2->model;
    struct guards *g = td_program_alloc(model, sizeof *g);
    struct td_node_operand *operand = td_program_alloc(model, sizeof *operand * (size_t)(n + 1));
    int err = g && operand ? read(graph, g, name, n) : -ENOMEM;
    if (err)
        return err;
    for (int i = 0; i < n; i++)
        operand[i] = (struct td_node_operand){.kind = TD_OPERAND_value, .value = input[i]};
    struct td_node node = {
        .name = "inputs", .op = "sizes", .lower = judge, .form = g, .operand = operand};
    node.n_operands = n;
    return g->n_sizes || g->n_conditions ? td_pt2_append(graph, &node) : 0;
}
