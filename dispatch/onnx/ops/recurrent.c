/* ONNX's recurrent layers: by ATen's operators where they have the cell, else step by step. */
#include "dispatch/onnx/ops/onnx.h"

#include <string.h>

struct layer {
    int64_t steps, batch, hidden;
    int ways;               /* directions */
    bool reverse, sideways; /* the batch is the first dimension */
    bool uneven;            /* sequence_lens: some may end before the last step */
};

/* The parts of x, which are as many as order is long, in its order. */
static void reorder(struct td_onnx *n, const char *name, const char *order)
{
    struct td_item part[4], list = {0};
    int count = (int)strlen(order);
    let(n, "v", *at(n, name));
    for (int i = 0; i < count; i++) {
        let_int(n, "start", (order[i] - '0') * whole(n, "hidden", 1));
        let_int(n, "end", (order[i] - '0' + 1) * whole(n, "hidden", 1));
        part[i] = eval(n, "slice.Tensor(v, 1, start, end)");
    }
    if (!n->err)
        n->err = td_walk_list(n->walk, part, count, &list);
    let(n, "parts", list);
    set(n, name, "cat(parts, 1)");
}

/* Whether the activations that are named are the cell's own. */
static void judge_cell(struct td_onnx *n, const struct layer *l, const char *own)
{
    char wanted[80];
    size_t length = strlen(own);
    memcpy(wanted, own, length);
    wanted[length] = ' ';
    memcpy(wanted + length + 1, own, length + 1);
    wanted[l->ways == 2 ? 2 * length + 1 : length] = 0;
    const char *named = text(n, "activations");
    bool right = !*named || !strncmp(named, wanted, strlen(wanted));
    if (has(n, "clip") || (has(n, "input_forget") && whole(n, "input_forget", 0)) || !right)
        refuse(n, "activations, clip, input_forget: there is no cell but that of %s", own);
}

/* Whether sequences may end before the last step. Lengths that are computed are not read: they
 * would be constants of the plan, and each batch has others. */
static bool are_uneven(struct td_onnx *n, const struct layer *l)
{
    int64_t lengths[4096];
    const struct td_item *given = at(n, "sequence_lens");
    if (given->v.kind == TD_KIND_none)
        return false;
    const struct td_tensor *t = tensor_of(n, "sequence_lens");
    if (t->rank != 1 || t->shape[0] != l->batch)
        refuse(n, "sequence_lens: a length for each of %lld sequences is right",
               (long long)l->batch);
    if (given->recorded || l->batch > 4096 || n->err)
        return true;
    int count = ints(n, "sequence_lens", lengths, 4096);
    bool uneven = false;
    for (int i = 0; i < count; i++) {
        uneven = uneven || lengths[i] != l->steps;
        if (lengths[i] < 0 || lengths[i] > l->steps)
            refuse(n, "sequence_lens: there are no %lld steps", (long long)lengths[i]);
    }
    return uneven;
}

/* Names what ATen's layers want: x time first, gates in ATen's order (order), biases apart. */
static bool begin(struct td_onnx *n, struct layer *l, const char *order, const char *activations)
{
    const struct td_tensor *x = tensor_of(n, "X"), *r = tensor_of(n, "R");
    const char *direction = text(n, "direction");
    int64_t gates = (int64_t)strlen(order);
    *l = (struct layer){.hidden = r->shape[2], .ways = !strcmp(direction, "bidirectional") ? 2 : 1};
    l->reverse = !strcmp(direction, "reverse");
    l->sideways = whole(n, "layout", 0) != 0;
    l->steps = x->shape[l->sideways];
    l->batch = x->shape[!l->sideways];
    if (l->hidden > INT32_MAX) {
        refuse(n, "R: there is no state so large");
        return false;
    }
    if (x->rank != 3 || r->rank != 3 || r->shape[0] != l->ways || r->shape[1] != gates * l->hidden)
        unfit(n, "X, R: three dimensions are right, and as many directions and gates");
    if (strcmp(direction, "forward") != 0 && !l->reverse && l->ways == 1)
        refuse(n, "direction: forward, reverse or bidirectional is right");
    judge_cell(n, l, activations);
    l->uneven = are_uneven(n, l);
    let_int(n, "hidden", l->hidden);
    let_ints(n, "state", (int64_t[]){l->ways, l->batch, l->hidden}, 3);
    let_ints(n, "biases", (int64_t[]){l->ways, 2 * gates * l->hidden}, 2);
    let_int(n, "half", gates * l->hidden);
    if (l->sideways)
        set(n, "X", "transpose(X, 0, 1)");
    set(n, "B", has(n, "B") ? "alias(B)" : "zeros(biases, dtype=kind)");
    set(n, "wb", "slice.Tensor(B, 1, 0, half)");
    set(n, "rb", "slice.Tensor(B, 1, half)");
    reorder(n, "W", order);
    reorder(n, "R", order);
    reorder(n, "wb", order);
    reorder(n, "rb", order);
    return !n->err;
}

static void let_state(struct td_onnx *n, const struct layer *l, const char *name)
{
    let(n, "given", *at(n, name));
    set(n, name,
        !has(n, name) ? "zeros(state, dtype=kind)"
        : l->sideways ? "transpose(given, 0, 1)"
                      : "alias(given)");
}

/* y: steps, directions, batch, hidden. */
static void put_all(struct td_onnx *n, const struct layer *l)
{
    put(n, 0, eval(n, l->sideways ? "permute(y, [2, 0, 1, 3])" : "alias(y)"));
    if (wants(n, 1))
        put(n, 1, eval(n, l->sideways ? "transpose(h, 0, 1)" : "alias(h)"));
    if (wants(n, 2))
        put(n, 2, eval(n, l->sideways ? "transpose(c, 0, 1)" : "alias(c)"));
}

/* ---- sequences of different lengths ---- */

/* Each sequence runs forward over all steps, and results behind its end are set to 0. For the
 * reverse direction the elements of each sequence, up to its end, are reversed before and after. */
static void let_ends(struct td_onnx *n, const struct layer *l)
{
    const struct td_tensor *x = tensor_of(n, "X");
    let_int(n, "steps", l->steps);
    let_int(n, "batch", l->batch);
    let_ints(n, "turned_x", (int64_t[]){l->steps, l->batch, x->shape[2]}, 3);
    let_ints(n, "turned_y", (int64_t[]){l->steps, l->batch, l->hidden}, 3);
    let_ints(n, "one_y", (int64_t[]){1, l->batch, l->hidden}, 3);
    set(n, "ends", "view(_to_copy(sequence_lens, dtype=INT64), [1, batch, 1])");
    set(n, "each", "view(arange(steps, dtype=INT64), [steps, 1, 1])");
    set(n, "inside", "lt(each, ends)");
    set(n, "turned", "where(inside, ends - 1 - each, each)");
}

/* Leaves in y and h what steps behind the ends have not touched. first: h before the first step. */
static void end_way(struct td_onnx *n, bool back)
{
    set(n, "last", "select(gather(y, 0, expand(clamp(ends - 1, 0), one_y)), 0, 0)");
    set(n, "h", "where(gt(select(ends, 0, 0), 0), last, first)");
    set(n, "y", "where(inside, y, zeros_like(y))");
    if (back)
        set(n, "y", "gather(y, 0, expand(turned, turned_y))");
}

/* Adds an element to x, and a column to w, of an LSTM: it is 1 behind a sequence's end, where it
 * closes the input gate and opens the forget gate, so that c does not change. */
static void hold(struct td_onnx *n, const struct layer *l)
{
    let_tensor(n, "gates", TD_f32, (const double[]){-1e4, 1e4, 0, 0}, 4);
    let_ints(n, "by_gates", (int64_t[]){4, l->hidden}, 2);
    set(n, "x", "cat([x, _to_copy(logical_not(inside), dtype=kind)], 2)");
    set(n, "w",
        "cat([w, view(expand(view(_to_copy(gates, dtype=kind), [4, 1]), by_gates), [-1, 1])], 1)");
}

/* ---- by ATen's operators ---- */

/* Runs ATen's layer on x, h, c and the parameters. Sets y to the outputs, h and c to the last
 * states.
 */
static void run_layer(struct td_onnx *n, const char *op, const struct td_item *parameter, int ways,
                      bool two_states)
{
    struct td_item list = {0}, result[TD_MAX_OUTS];
    struct td_item states[2] = {*at(n, "h"), *at(n, "c")};
    int count = 0;
    if (!n->err)
        n->err = td_walk_list(n->walk, parameter, 4 * ways, &list);
    let(n, "parameters", list);
    let(n, "states", states[0]);
    if (!n->err && two_states)
        n->err = td_walk_list(n->walk, states, 2, &list);
    if (two_states)
        let(n, "states", list);
    struct td_given args[] = {
        TD_GIVE(*at(n, "x")),          TD_GIVE(*at(n, "states")),
        TD_GIVE(*at(n, "parameters")), TD_GIVE(td_item_bool(true)),
        TD_GIVE(td_item_int(1)),       TD_GIVE(td_item_float(0)),
        TD_GIVE(td_item_bool(false)),  TD_GIVE(td_item_bool(ways == 2)),
        TD_GIVE(td_item_bool(false)),
    };
    if (!n->err)
        n->err = td_walk_call(n->walk, op, args, 9, result, &count);
    if (n->err)
        return;
    let(n, "y", result[0]);
    let(n, "h", result[1]);
    if (count > 2)
        let(n, "c", result[2]);
}

/* The parameters of a way; the last three of them are not x's. */
static void take_parameters(struct td_onnx *n, int way, struct td_item *parameter)
{
    static const char *const names[] = {"W", "R", "wb", "rb"};
    let_int(n, "way", way);
    for (int i = 0; i < 4; i++) {
        let(n, "v", *at(n, names[i]));
        parameter[i] = eval(n, "select(v, 0, way)");
    }
}

static void join_ways(struct td_onnx *n, const struct layer *l, const struct td_item *first)
{
    bool two = l->ways == 2;
    let(n, "y0", first[0]);
    let(n, "h0", first[1]);
    let(n, "c0", first[2]);
    set(n, "y", two ? "stack([y0, y], 1)" : "unsqueeze(y, 1)");
    set(n, "h", two ? "stack([h0, h])" : "unsqueeze(h, 0)");
    if (has(n, "c"))
        set(n, "c", two ? "stack([c0, c])" : "unsqueeze(c, 0)");
    put_all(n, l);
}

static void run_uneven(struct td_onnx *n, const struct layer *l, const char *op, bool two_states)
{
    struct td_item parameter[4], first[3];
    let_ends(n, l);
    for (int way = 0; way < l->ways; way++) {
        bool back = l->reverse || way;
        take_parameters(n, way, parameter);
        set(n, "x", back ? "gather(X, 0, expand(turned, turned_x))" : "alias(X)");
        set(n, "first", "select(initial_h, 0, way)");
        set(n, "h", "unsqueeze(first, 0)");
        if (two_states)
            set(n, "c", "unsqueeze(select(initial_c, 0, way), 0)");
        if (two_states && wants(n, 2)) {
            let(n, "w", parameter[0]);
            hold(n, l);
            parameter[0] = *at(n, "w");
        }
        run_layer(n, op, parameter, 1, two_states);
        if (two_states)
            set(n, "c", "select(c, 0, 0)");
        end_way(n, back);
        if (!way) {
            first[0] = *at(n, "y");
            first[1] = *at(n, "h");
            first[2] = *at(n, "c");
        }
    }
    join_ways(n, l, first);
}

static void run(struct td_onnx *n, const struct layer *l, const char *op, bool two_states)
{
    struct td_item parameter[8];
    if (l->uneven) {
        run_uneven(n, l, op, two_states);
        return;
    }
    for (int way = 0; way < l->ways; way++)
        take_parameters(n, way, parameter + (ptrdiff_t)4 * way);
    set(n, "x", l->reverse ? "flip(X, [0])" : "alias(X)");
    set(n, "h", "alias(initial_h)");
    if (two_states)
        set(n, "c", "alias(initial_c)");
    run_layer(n, op, parameter, l->ways, two_states);
    if (l->reverse)
        set(n, "y", "flip(y, [0])");
    let_ints(n, "sizes", (int64_t[]){l->steps, l->batch, l->ways, l->hidden}, 4);
    set(n, "y", "permute(view(y, sizes), [0, 2, 1, 3])");
    put_all(n, l);
}

void td_onnx_rnn(struct td_onnx *n)
{
    struct layer l;
    bool relu = !strncmp(text(n, "activations"), "Relu", 4);
    if (!begin(n, &l, "0", relu ? "Relu" : "Tanh"))
        return;
    let_state(n, &l, "initial_h");
    run(n, &l, relu ? "rnn_relu.input" : "rnn_tanh.input", false);
}

/* ---- step by step ---- */

/* One direction: cell makes the next h (and c) of x, h and c. Names y and its states. */
static void go(struct td_onnx *n, const struct layer *l, int way, void (*cell)(struct td_onnx *))
{
    bool back = l->reverse || way, flips = back && !l->uneven;
    let_int(n, "way", way);
    set(n, "w", "select(W, 0, way)");
    set(n, "r", "select(R, 0, way)");
    set(n, "b", "select(wb, 0, way)");
    set(n, "rb_", "select(rb, 0, way)");
    set(n, "first", "select(initial_h, 0, way)");
    set(n, "h", "alias(first)");
    if (has(n, "initial_c"))
        set(n, "c", "select(initial_c, 0, way)");
    let_ints(n, "none", (int64_t[]){0, l->batch, l->hidden}, 3);
    set(n, "y", "zeros(none, dtype=kind)");
    set(n, "way_x", back && l->uneven ? "gather(X, 0, expand(turned, turned_x))" : "alias(X)");
    for (int64_t i = 0; i < l->steps && !n->err; i++) {
        let_int(n, "now", flips ? l->steps - 1 - i : i);
        set(n, "x", "select(way_x, 0, now)");
        let(n, "held", *at(n, "c"));
        cell(n);
        set(n, "y", flips ? "cat([unsqueeze(h, 0), y], 0)" : "cat([y, unsqueeze(h, 0)], 0)");
        if (l->uneven && has(n, "c"))
            set(n, "c", "where(select(inside, 0, now), c, held)");
    }
    if (l->uneven)
        end_way(n, back);
}

static void run_steps(struct td_onnx *n, const struct layer *l, void (*cell)(struct td_onnx *))
{
    if (l->uneven)
        let_ends(n, l);
    go(n, l, 0, cell);
    struct td_item first[3] = {*at(n, "y"), *at(n, "h"), *at(n, "c")};
    if (l->ways == 2)
        go(n, l, 1, cell);
    join_ways(n, l, first);
}

static void gru_cell(struct td_onnx *n) /* which resets before the product */
{
    set(n, "g", "linear(x, w, b)");
    set(n, "both",
        "sigmoid(slice.Tensor(g, 1, 0, two) + linear(h, slice.Tensor(r, 0, 0, two), "
        "slice.Tensor(rb_, 0, 0, two)))");
    set(n, "new",
        "tanh(slice.Tensor(g, 1, two) + linear(slice.Tensor(both, 1, 0, hidden) * h, "
        "slice.Tensor(r, 0, two), slice.Tensor(rb_, 0, two)))");
    set(n, "h", "lerp(new, h, slice.Tensor(both, 1, hidden))");
}

void td_onnx_gru(struct td_onnx *n)
{
    struct layer l;
    if (!begin(n, &l, "102", "Sigmoid Tanh")) /* z r h */
        return;
    let_state(n, &l, "initial_h");
    let_int(n, "two", 2 * l.hidden);
    if (whole(n, "linear_before_reset", 0))
        run(n, &l, "gru.input", false);
    else
        run_steps(n, &l, gru_cell);
}

static void peeping_cell(struct td_onnx *n)
{
    set(n, "g", "linear(x, w, b) + linear(h, r, rb_)");
    set(n, "p", "select(P, 0, way)");
    set(n, "i", "sigmoid(chunk(g, 4, 1)[0] + chunk(p, 3)[0] * c)");
    set(n, "f", "sigmoid(chunk(g, 4, 1)[1] + chunk(p, 3)[2] * c)");
    set(n, "c", "f * c + i * tanh(chunk(g, 4, 1)[2])");
    set(n, "h", "sigmoid(chunk(g, 4, 1)[3] + chunk(p, 3)[1] * c) * tanh(c)");
}

void td_onnx_lstm(struct td_onnx *n)
{
    struct layer l;
    if (!begin(n, &l, "0231", "Sigmoid Tanh Tanh")) /* i o f c */
        return;
    let_state(n, &l, "initial_h");
    let_state(n, &l, "initial_c");
    if (has(n, "P"))
        run_steps(n, &l, peeping_cell);
    else
        run(n, &l, "lstm.input", true);
}
