/* If, Loop and Scan: graphs inside of a node, run on items. */
#include "dispatch/onnx/ops/onnx.h"

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
    int n_states,
        n_rows; /* states: what a turn hands on to the next; a Loop's condition is the first */
    int first;  /* of the states among what the body takes */
    struct td_turns turns;
    int64_t n, room; /* of turns */
    size_t mark;     /* of what the walk holds: behind it is what the last turn has made */
    struct td_item *in, *out;
    struct td_item *rows; /* turn by turn; grows */
};

static int keep_rows(struct round *l)
{
    size_t n = (size_t)l->n_rows;
    if (n && l->n >= MOST_ROWS / (int64_t)n)
        return -E2BIG;
    if (l->n == l->room) {
        int64_t room = l->room ? 2 * l->room : 16;
        struct td_item *more = realloc(l->rows, sizeof *more * (size_t)room * (n ? n : 1));
        if (!more)
            return -ENOMEM;
        l->rows = more;
        l->room = room;
    }
    for (size_t i = 0; i < n; i++)
        l->rows[(size_t)l->n * n + i] = l->out[(size_t)l->n_states + i];
    return 0;
}

/* Gives back what the turn has made, but for its rows, and the states, which come last. */
static void release(struct td_onnx *n, struct round *l)
{
    struct td_item *keep = l->out + l->n_states; /* rows; then there is room for the states */
    int states = 0;
    for (int i = 0; i < l->n_states; i++) {
        keep[l->n_rows + i] = l->out[i];
        states += l->out[i].block != NULL;
    }
    td_walk_release(n->walk, l->mark, keep, l->n_rows + l->n_states);
    l->mark = td_walk_mark(n->walk) - (size_t)states;
}

/* One turn, of which all is set but the states: those are the last one's. */
static void turn(struct td_onnx *n, struct round *l)
{
    td_walk_turn(n->walk, &l->turns, l->in, l->first + l->n_states);
    n->err = n->err ? n->err : td_walk_graph(n->walk, l->body, l->in, l->out);
    n->err = n->err ? n->err : td_walk_stopped(n->walk); /* also where a turn has no node */
    if (!n->err && keep_rows(l))
        refuse(n, "has more than %d rows, or there is no memory for them", MOST_ROWS);
    if (n->err)
        return;
    td_walk_hand_on(l->in + l->first, l->out, l->n_states);
    l->n++;
    release(n, l);
}

/* Rows of one result, stacked along a dimension, which result i becomes. */
static void stack(struct td_onnx *n, const struct round *l, int row, int64_t dim, bool backwards,
                  int i)
{
    struct td_item *one = calloc((size_t)l->n + 1, sizeof *one);
    if (!one) {
        n->err = -ENOMEM;
        return;
    }
    for (int64_t t = 0; t < l->n; t++)
        one[t] = l->rows[(backwards ? l->n - 1 - t : t) * l->n_rows + row];
    if (!l->n)
        refuse(n, "turned no time, and what it stacks has no shape then");
    else
        put(n, i, call_list(n, "stack", one, (int)l->n, &dim));
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
    for (int i = 1; i < l->n_states; i++)
        l->in[1 + i] = at(n, "v_initial")->list[i - 1];
    l->mark = td_walk_mark(n->walk);
    while (going && !n->err && l->n < most) {
        struct td_item number = {0};
        n->err = td_walk_tensor_i64(n->walk, &l->n, -1, &number);
        number.varies = true;
        l->in[0] = number;
        turn(n, l);
        let(n, "cond", l->in[1]);
        going = whole(n, "cond", 0);
    }
    for (int i = 1; i < l->n_states; i++)
        put(n, i - 1, l->in[1 + i]);
    for (int i = 0; i < l->n_rows && !n->err; i++)
        stack(n, l, i, 0, false, l->n_states - 1 + i);
}

/* The items of the rounds, for as many as the body takes and gives. */
static bool make_room(struct td_onnx *n, struct round *l)
{
    l->in = calloc((size_t)l->body->n_inputs + 1, sizeof *l->in);
    l->out = calloc((size_t)(l->body->n_outputs + l->n_states) + 1, sizeof *l->out);
    n->err = l->in && l->out ? 0 : -ENOMEM;
    return !n->err;
}

void td_onnx_loop(struct td_onnx *n)
{
    struct round l = {.n_states = 1 + at(n, "v_initial")->n, .first = 1};
    l.n_rows = n->node->n_outs - (l.n_states - 1);
    if (l.n_rows < 0)
        return refuse(n, "has fewer results than states");
    l.body = graph_of(n, "body", 1 + l.n_states, 1 + n->node->n_outs);
    if (!n->err && make_room(n, &l))
        go_round(n, &l);
    free(l.in);
    free(l.out);
    free(l.rows);
}

/* ---- Scan: a Loop over parts of its last inputs ---- */

struct scanned { /* how one input goes, or one result comes */
    int64_t axis;
    bool backwards;
};

/* Of each of count, from the attributes. */
static void read_ways(struct td_onnx *n, const char *axes, const char *directions,
                      struct scanned *way, int count)
{
    int64_t axis[TD_MAX_LIST] = {0}, direction[TD_MAX_LIST] = {0};
    ints(n, axes, axis, TD_MAX_LIST);
    ints(n, directions, direction, TD_MAX_LIST);
    for (int i = 0; i < count; i++)
        way[i] = (struct scanned){axis[i], direction[i] != 0};
}

/* How many turns: the size of each input along its dimension. */
static int64_t turns_of(struct td_onnx *n, const struct td_item *input, const struct scanned *way,
                        int count)
{
    int64_t turns = -1;
    for (int i = 0; i < count && !n->err; i++) {
        const struct td_tensor *t = &input[i].v.tensor;
        int64_t axis = way[i].axis + (way[i].axis < 0 ? t->rank : 0);
        if (input[i].v.kind != TD_KIND_tensor || axis < 0 || axis >= t->rank)
            refuse(n, "scan_input_axes: %lld is no dimension of an input", (long long)way[i].axis);
        else if (turns >= 0 && t->shape[axis] != turns)
            refuse(n, "its inputs have %lld and %lld parts; as many are right", (long long)turns,
                   (long long)t->shape[axis]);
        else
            turns = t->shape[axis];
    }
    return turns;
}

static void scan_parts(struct td_onnx *n, struct round *l, const struct td_item *inputs,
                       int n_parts)
{
    struct scanned in[TD_MAX_LIST], out[TD_MAX_LIST];
    read_ways(n, "scan_input_axes", "scan_input_directions", in, n_parts);
    read_ways(n, "scan_output_axes", "scan_output_directions", out, l->n_rows);
    int64_t turns = turns_of(n, inputs + l->n_states, in, n_parts);
    for (int i = 0; i < l->n_states; i++)
        l->in[i] = inputs[i];
    l->mark = td_walk_mark(n->walk);
    while (!n->err && l->n < turns) {
        for (int i = 0; i < n_parts; i++) {
            let(n, "of", inputs[l->n_states + i]);
            let_int(n, "axis", in[i].axis);
            let_int(n, "part", in[i].backwards ? turns - 1 - l->n : l->n);
            l->in[l->n_states + i] = eval(n, "select.int(of, axis, part)");
        }
        turn(n, l);
    }
    for (int i = 0; i < l->n_states; i++)
        put(n, i, l->in[i]);
    for (int i = 0; i < l->n_rows && !n->err; i++)
        stack(n, l, i, out[i].axis, out[i].backwards, l->n_states + i);
}

void td_onnx_scan(struct td_onnx *n)
{
    const struct td_item *inputs;
    int count = list_of(n, "inputs", &inputs);
    int64_t n_parts = whole(n, "num_scan_inputs", 0);
    if (n->version < 9)
        return refuse(n, "of operator set %d goes over batches; that of 9 and up is right",
                      n->version);
    if (n_parts < 1 || n_parts > count || count - n_parts > n->node->n_outs ||
        count + n->node->n_outs > TD_MAX_LIST)
        return refuse(n, "num_scan_inputs: is %lld of %d inputs, for %d results",
                      (long long)n_parts, count, n->node->n_outs);
    struct round l = {.n_states = count - (int)n_parts};
    l.n_rows = n->node->n_outs - l.n_states;
    l.body = graph_of(n, "body", count, n->node->n_outs);
    if (!n->err && make_room(n, &l))
        scan_parts(n, &l, inputs, (int)n_parts);
    free(l.in);
    free(l.out);
    free(l.rows);
}
