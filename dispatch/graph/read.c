/* Graphs that are kept: a text is parsed once for the same names and numbers, whoever reads it.
 * What is kept is bounded: by the memory of 1024 graphs of KEPT bytes. */
#include "dispatch/graph/parser.h"
#include "kernels/memo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define KEPT 4096 /* bytes of a graph that is kept, at most */

struct key { /* the text and the arguments that make a difference to it */
    unsigned char bytes[512];
};

static void *make_none(const void *key, int *error)
{
    (void)key;
    *error = -ENOENT;
    return NULL;
}

static struct td_memo graphs = TD_MEMO(sizeof(struct key), make_none, free);

static bool put(struct key *key, size_t *n, const void *what, size_t bytes)
{
    bool fits = bytes <= sizeof key->bytes - *n;
    if (fits)
        memcpy(key->bytes + *n, what, bytes);
    *n += fits ? bytes : 0;
    return fits;
}

/* False: there is too much of it. */
static bool make_key(struct key *key, const char *text, const struct td_named *args, int n_args)
{
    size_t n = 0;
    bool fits = put(key, &n, text, strlen(text) + 1);
    for (int i = 0; i < n_args && fits; i++) {
        const struct td_value *v = &args[i].value;
        const char *name = args[i].name ? args[i].name : "";
        unsigned char kind[2] = {(unsigned char)v->kind, v->wide};
        fits = put(key, &n, kind, sizeof kind) && put(key, &n, name, strlen(name) + 1) &&
               (!td_is_number(v) || put(key, &n, &v->i, sizeof v->i)); /* a float's bits, too */
    }
    if (fits)
        memset(key->bytes + n, 0, sizeof key->bytes - n);
    return fits;
}

/* The next n bytes of a graph's memory, after those that are taken, get what is there. */
static void *move(char *memory, size_t *at, const void *what, size_t bytes)
{
    size_t to = *at;
    *at += (bytes + 15) & ~(size_t)15;
    return memory ? memcpy(memory + to, what, bytes) : NULL;
}

/* memory NULL: only how many bytes it takes. */
static size_t pack(const struct td_graph *from, char *memory)
{
    struct td_graph g = *from;
    size_t at = (sizeof g + 15) & ~(size_t)15;
    g.result = move(memory, &at, from->result, sizeof *g.result * (size_t)g.n_results);
    g.operand = move(memory, &at, from->operand, sizeof *g.operand * (size_t)g.n_operands);
    g.node = move(memory, &at, from->node, sizeof *g.node * (size_t)g.n_nodes);
    g.value = move(memory, &at, from->value, sizeof *g.value * (size_t)g.n_values);
    g.text = move(memory, &at, from->text, g.text_used);
    if (!memory)
        return at;
    for (int i = 0; i < g.n_nodes; i++)
        if (g.node[i].value)
            g.node[i].value = g.value + (from->node[i].value - from->value);
    for (int i = 0; i < g.n_values; i++)
        if (g.value[i].kind == TD_KIND_str)
            g.value[i].str = g.text + (from->value[i].str - from->text);
    memcpy(memory, &g, sizeof g);
    return at;
}

int td_graph_read(struct td_graph_use *use, const char *text, const struct td_named *args,
                  int n_args, const char *who, struct td_problem *problem)
{
    struct key key;
    *use = (struct td_graph_use){0};
    bool keyed = n_args <= TD_GRAPH_ARGS && make_key(&key, text, args, n_args);
    if (keyed && (use->shared = td_memo_find(&graphs, &key))) {
        use->graph = td_memo_value(use->shared);
        return 0;
    }
    struct td_graph_room *room = malloc(sizeof *room);
    if (!room)
        return td_problem_set(problem, ENOMEM, "%s: no memory to read it", who);
    int err = td_graph_parse(room, text, args, n_args, who, problem);
    size_t bytes = err ? 0 : pack(&room->graph, NULL);
    struct td_graph *graph = err ? NULL : malloc(bytes);
    if (graph)
        pack(&room->graph, (char *)graph);
    else if (!err)
        err = td_problem_set(problem, ENOMEM, "%s: no memory to read it", who);
    free(room);
    if (err)
        return err;
    use->shared = keyed && bytes <= KEPT ? td_memo_put(&graphs, &key, graph) : NULL;
    use->own = use->shared ? NULL : graph;
    use->graph = use->shared ? td_memo_value(use->shared) : graph;
    return 0;
}

void td_graph_release(struct td_graph_use *use)
{
    if (use->shared)
        td_memo_unref(&use->shared);
    free(use->own);
    *use = (struct td_graph_use){0};
}
