/* If and Loop: graphs inside of a node, run on items. */
#include "dispatch/model/onnx.h"

#include <errno.h>
#include <stdlib.h>

#define MOST_ROWS (1 << 17) /* of what a loop stacks */

static const struct td_node_graph *graph_of(struct td_onnx *n, const char *name, int n_inputs,
                                            int n_outputs)
{
    int i = td_node_find(n->node, name);
    const struct td_node_graph *graph =
        i >= 0 && n->node->operand[i].kind == TD_OPERAND_graph ? n->node->operand[i].graph : NULL;
    if (!graph)
        refuse(n, "%s: a graph is missing", name);
    else if (graph->n_inputs != n_inputs || graph->n_outputs != n_outputs)
        refuse(n, "%s: takes %d and gives %d; %d and %d are right", name, graph->n_inputs,
               graph->n_outputs, n_inputs, n_outputs);
    return graph;
}

void td_onnx_if(struct td_onnx *n)
{
    const char *name = whole(n, "cond", 0) ? "then_branch" : "else_branch";
    const struct td_node_graph *graph = n->err ? NULL : graph_of(n, name, 0, n->node->n_outs);
    if (!n->err)
        n->err = td_walk_graph(n->walk, graph, NULL, n->out);
}

/* What a loop has under way: items of its body, and the rows of what it stacks. */
struct round {
    const struct td_node_graph *body;
    int n_states, n_rows;
    int64_t turns, room;
    size_t mark; /* of what the walk holds: behind it is what the last turn has made */
    struct td_item *in, *out;
    struct td_item *rows; /* turn by turn; grows */
};

static int keep_rows(struct round *l)
{
    size_t n = (size_t)l->n_rows;
    if (n && l->turns >= MOST_ROWS / (int64_t)n)
        return -E2BIG;
    if (l->turns == l->room) {
        int64_t room = l->room ? 2 * l->room : 16;
        struct td_item *more = realloc(l->rows, sizeof *more * (size_t)room * (n ? n : 1));
        if (!more)
            return -ENOMEM;
        l->rows = more;
        l->room = room;
    }
    for (size_t i = 0; i < n; i++)
        l->rows[(size_t)l->turns * n + i] = l->out[1 + (size_t)l->n_states + i];
    return 0;
}

/* Gives back what the turn has made, but for its rows, and the states, which come last. */
static void release(struct td_onnx *n, struct round *l)
{
    struct td_item *keep = l->out + 1 + l->n_states; /* rows; then there is room for the states */
    int states = 0;
    for (int i = 0; i <= l->n_states; i++) {
        keep[l->n_rows + i] = l->out[i];
        states += l->out[i].block != NULL;
    }
    td_walk_release(n->walk, l->mark, keep, l->n_rows + 1 + l->n_states);
    l->mark = td_walk_mark(n->walk) - (size_t)states;
}

/* One turn: its condition and states are the next one's. */
static bool turn(struct td_onnx *n, struct round *l)
{
    int64_t number = l->turns;
    struct td_item item = {0};
    n->err = td_walk_tensor_i64(n->walk, &number, -1, &item);
    l->in[0] = item;
    n->err = n->err ? n->err : td_walk_graph(n->walk, l->body, l->in, l->out);
    n->err = n->err ? n->err : td_walk_stopped(n->walk); /* also where a turn has no node */
    if (!n->err && keep_rows(l))
        refuse(n, "has more than %d rows, or there is no memory for them", MOST_ROWS);
    if (n->err)
        return false;
    for (int i = 0; i <= l->n_states; i++)
        l->in[1 + i] = l->out[i];
    l->turns++;
    release(n, l);
    let(n, "cond", l->out[0]);
    return whole(n, "cond", 0) && !n->err;
}

/* Rows of one result, stacked. */
static void stack(struct td_onnx *n, const struct round *l, int row)
{
    struct td_item *one = calloc((size_t)l->turns + 1, sizeof *one);
    int64_t first = 0;
    if (!one) {
        n->err = -ENOMEM;
        return;
    }
    for (int64_t i = 0; i < l->turns; i++)
        one[i] = l->rows[i * l->n_rows + row];
    if (!l->turns)
        refuse(n, "turned no time, and what it stacks has no shape then");
    else
        put(n, l->n_states + row, call_list(n, "stack", one, (int)l->turns, &first));
    free(one);
}

static void go_round(struct td_onnx *n, struct round *l)
{
    int64_t most = has(n, "M") ? whole(n, "M", 0) : INT64_MAX;
    bool going = !has(n, "cond") || whole(n, "cond", 0);
    double yes = 1;
    if (!has(n, "cond"))
        let_tensor(n, "cond", TD_bool, &yes, -1);
    l->in[1] = *at(n, "cond");
    for (int i = 0; i < l->n_states; i++)
        l->in[2 + i] = at(n, "v_initial")->list[i];
    l->mark = td_walk_mark(n->walk);
    while (going && !n->err && l->turns < most)
        going = turn(n, l);
    for (int i = 0; i < l->n_states; i++)
        put(n, i, l->in[2 + i]);
    for (int i = 0; i < l->n_rows && !n->err; i++)
        stack(n, l, i);
}

void td_onnx_loop(struct td_onnx *n)
{
    struct round l = {.n_states = at(n, "v_initial")->n};
    l.n_rows = n->node->n_outs - l.n_states;
    if (l.n_rows < 0)
        return refuse(n, "has fewer results than states");
    l.body = graph_of(n, "body", 2 + l.n_states, 1 + n->node->n_outs);
    if (n->err)
        return;
    l.in = calloc((size_t)l.n_states + 2, sizeof *l.in);
    l.out = calloc((size_t)n->node->n_outs + (size_t)l.n_states + 2, sizeof *l.out);
    if (l.in && l.out)
        go_round(n, &l);
    else
        n->err = -ENOMEM;
    free(l.in);
    free(l.out);
    free(l.rows);
}
