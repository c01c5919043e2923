/* What torch.export has taken to hold of the inputs' sizes: which are equal, or a multiple of
 * others, and between which bounds they are. A size is read as FACTOR * SYMBOL + REST; what is
 * written in another way is not judged. */
#include "dispatch/model/pt2.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct size { /* of a dimension */
    int input, dim;
    int symbol; /* which */
    int64_t factor, rest;
};

struct symbol {
    const char *name; /* "s77" */
    int64_t least, most;
};

struct guards {
    int n_sizes, n_symbols;
    struct size *size; /* those that are a symbol alone first */
    struct symbol *symbol;
    const char **name; /* of inputs */
};

/* ---- reading ---- */

static bool take(const char **at, const char *text)
{
    size_t n = strlen(text);
    while (**at == ' ' || **at == ',')
        ++*at;
    if (strncmp(*at, text, n))
        return false;
    *at += n;
    return true;
}

static bool take_integer(const char **at, int64_t *v)
{
    char *end;
    if (!take(at, "Integer("))
        return false;
    *v = strtoll(*at, &end, 10);
    *at = end;
    return take(at, ")") && *v > -(1LL << 40) && *v < 1LL << 40;
}

/* "Symbol('s77', positive=True, integer=True)"; name: where it is, n letters. */
static bool take_symbol(const char **at, const char **name, int *n)
{
    if (!take(at, "Symbol('"))
        return false;
    *name = *at;
    *n = (int)strcspn(*at, "'");
    *at += strcspn(*at, ")");
    return take(at, ")");
}

/* A symbol, or a number times one. */
static bool take_multiple(const char **at, int64_t *factor, const char **name, int *n)
{
    *factor = 1;
    if (!take(at, "Mul("))
        return take_symbol(at, name, n);
    return take_integer(at, factor) && take_symbol(at, name, n) && take(at, ")");
}

static bool read_size(const char *text, struct size *size, const char **name, int *n)
{
    const char *at = text;
    size->rest = 0;
    if (!take(&at, "Add("))
        return take_multiple(&at, &size->factor, name, n) && !*at && size->factor > 0;
    bool read = take_multiple(&at, &size->factor, name, n) && take_integer(&at, &size->rest);
    return read && take(&at, ")") && !*at && size->factor > 0;
}

/* The number of the symbol, which may be new; -1 when there is no memory. */
static int symbol_of(struct td_pt2 *pt2, struct guards *g, const char *name, int n)
{
    for (int i = 0; i < g->n_symbols; i++)
        if (strlen(g->symbol[i].name) == (size_t)n && !memcmp(g->symbol[i].name, name, (size_t)n))
            return i;
    struct symbol *s = &g->symbol[g->n_symbols];
    s->name = td_program_text(pt2->model, name, (size_t)n);
    s->least = 0;
    s->most = INT64_MAX;
    if (!s->name)
        return -1;
    const cJSON *range = td_pt2_get(pt2->ranges, s->name);
    int64_t least;
    td_pt2_whole(td_pt2_get(range, "max_val"), &s->most);
    if (td_pt2_whole(td_pt2_get(range, "min_val"), &least) && least > 2)
        s->least = least; /* 0 and 1 are taken where 2 is: torch.export means that it is general */
    return g->n_symbols++;
}

#define MAX_SIZES 256

/* Those that are a symbol alone, or those that are not. */
static int read_dims(struct td_pt2 *pt2, struct guards *g, const cJSON *sizes, int input,
                     bool alone)
{
    int dim = 0;
    for (const cJSON *s = sizes ? sizes->child : NULL; s; s = s->next, dim++) {
        const char *text = td_pt2_text(td_pt2_get(s, "as_expr"), "expr_str"), *name;
        struct size size = {.input = input, .dim = dim};
        int n;
        if (!text || g->n_sizes == MAX_SIZES || !read_size(text, &size, &name, &n) ||
            alone != (size.factor == 1 && !size.rest))
            continue;
        size.symbol = symbol_of(pt2, g, name, n);
        if (size.symbol < 0)
            return -ENOMEM;
        g->size[g->n_sizes++] = size;
    }
    return 0;
}

/* ---- judging ---- */

static int judge_size(struct td_walk *walk, const struct guards *g, const struct size *s,
                      int64_t is, int64_t *value)
{
    const struct symbol *symbol = &g->symbol[s->symbol];
    const char *input = g->name[s->input];
    int64_t of = is - s->rest;
    if (of < 0 || of % s->factor)
        return td_walk_refuse(walk,
                              "%.60s: its size %lld in dimension %d must be %lld more than a "
                              "multiple of %lld",
                              input, (long long)is, s->dim, (long long)s->rest,
                              (long long)s->factor);
    of /= s->factor;
    if (*value >= 0 && *value != of)
        return td_walk_refuse(walk,
                              "%.60s: its size in dimension %d must be %lld, to fit the other "
                              "inputs, but is %lld",
                              input, s->dim, (long long)(*value * s->factor + s->rest),
                              (long long)is);
    *value = of;
    if (of >= symbol->least && of <= symbol->most)
        return 0;
    if (symbol->most == INT64_MAX)
        return td_walk_refuse(walk,
                              "%.60s: its size in dimension %d must be at least %lld, but is "
                              "%lld",
                              input, s->dim, (long long)(symbol->least * s->factor + s->rest),
                              (long long)is);
    return td_walk_refuse(walk,
                          "%.60s: its size in dimension %d must be from %lld to %lld, but is "
                          "%lld",
                          input, s->dim, (long long)(symbol->least * s->factor + s->rest),
                          (long long)(symbol->most * s->factor + s->rest), (long long)is);
}

static int judge(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                 struct td_item *out)
{
    const struct guards *g = node->form;
    int64_t value[MAX_SIZES];
    int err = 0;
    (void)out;
    for (int i = 0; i < g->n_symbols; i++)
        value[i] = -1;
    for (int i = 0; i < g->n_sizes && !err; i++) {
        const struct size *s = &g->size[i];
        const struct td_tensor *t = &in[s->input].v.tensor;
        if (in[s->input].v.kind == TD_KIND_tensor && s->dim < t->rank)
            err = judge_size(walk, g, s, t->shape[s->dim], &value[s->symbol]);
    }
    return err;
}

int td_pt2_guard(struct td_pt2_graph *graph, const int *input, const struct td_pt2_name *name,
                 int n)
{
    struct td_model *model = graph->pt2->model;
    struct guards *g = td_program_alloc(model, sizeof *g);
    struct td_node_operand *operand = td_program_alloc(model, sizeof *operand * (size_t)(n + 1));
    if (!g || !operand)
        return -ENOMEM;
    g->size = td_program_alloc(model, sizeof *g->size * MAX_SIZES);
    g->symbol = td_program_alloc(model, sizeof *g->symbol * MAX_SIZES);
    g->name = td_program_alloc(model, sizeof *g->name * (size_t)(n + 1));
    int err = g->size && g->symbol && g->name ? 0 : -ENOMEM;
    for (int i = 0; i < 2 * n && !err; i++)
        err = read_dims(graph->pt2, g, td_pt2_get(name[i % n].value->meta, "sizes"), i % n, i < n);
    for (int i = 0; i < n && !err; i++) {
        operand[i] = (struct td_node_operand){.kind = TD_OPERAND_value, .value = input[i]};
        g->name[i] = name[i].name;
    }
    struct td_node node = {
        .name = "inputs", .op = "sizes", .lower = judge, .form = g, .operand = operand};
    node.n_operands = n;
    return err || !g->n_sizes ? err : td_pt2_append(graph, &node);
}
