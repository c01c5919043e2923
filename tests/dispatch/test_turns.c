/* Loops whose end is found at each turn: later turns run the steps of an earlier one, on what is
 * theirs, in memory that nobody wants any more. */
#include "tests/dispatch/model_test.h"

#define N 3
#define MOST_TURNS 200

static float x[N], got[N * MOST_TURNS], plain[N * MOST_TURNS];

/* ---- a loop: of a and the number of turns so far, which is known, the next ones ---- */

static struct td_node inner[4];
static struct td_node_operand of_inner[4][3];
static int inner_outs[4], inner_inputs[2], inner_results[3];
static struct td_node_graph body;

static int add_inner(const char *formula, int n, const int *values)
{
    int value = add(formula, n, values), i = body.n_nodes++;
    int at = --model.graph.n_nodes; /* it is the body's */
    inner[i] = nodes[at];
    memcpy(of_inner[i], operands[at], sizeof of_inner[i]);
    inner[i].operand = of_inner[i];
    inner_outs[i] = value;
    inner[i].out = &inner_outs[i];
    return value;
}

static void make_body(const char *state)
{
    body = (struct td_node_graph){.n_inputs = 2,
                                  .n_outputs = 3,
                                  .node = inner,
                                  .input = inner_inputs,
                                  .output = inner_results};
    for (int i = 0; i < 2; i++)
        inner_inputs[i] = td_program_value(&model);
    int twice = add_inner("a * 2", 1, V(inner_inputs[1]));
    inner_results[0] = add_inner(state, 3, V(inner_inputs[0], inner_inputs[1], twice));
    inner_results[1] = add_inner("a + 1", 1, V(inner_inputs[1]));
    inner_results[2] = add_inner("sum(a) < 100", 1, V(inner_results[0]));
}

static bool keeps_rows; /* the result is every turn's, stacked */

/* Turns until the sum is beyond 100. */
static int lower_turns(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    struct td_item state[2] = {in[0], in[1]}, next[3], keep[MOST_TURNS + 3], all;
    struct td_turns turns = {0};
    size_t mark = td_walk_mark(walk);
    double goes_on = 1;
    int n = 0, err = 0;
    while (goes_on && err >= 0) {
        ck_assert_int_lt(n, MOST_TURNS);
        td_walk_turn(walk, &turns, state, 2);
        err = td_walk_graph(walk, node->operand[2].graph, state, next);
        if (err)
            return err;
        td_walk_hand_on(state, next, 2);
        keep[n++] = state[0];
        int rows = keeps_rows ? n : 0;
        keep[rows] = state[0];
        keep[rows + 1] = state[1];
        keep[rows + 2] = next[2];
        td_walk_release(walk, mark, keep, rows + 3);
        err =
            td_walk_floats(walk, &next[2], &goes_on, 1); /* nobody holds what the turn began with */
    }
    *out = state[0];
    if (!keeps_rows || err < 0)
        return err < 0 ? err : 0;
    err = td_walk_list(walk, keep, n, &all);
    return err ? err : TD_CALL(walk, "stack", out, TD_GIVE(all));
}

static void make_loop(const char *state, const char *behind)
{
    static float nought[1];
    begin(1);
    make_body(state);
    int first = constant(nought, 1);
    int i = model.graph.n_nodes, y = add("a", 2, V(graph_inputs[0], first));
    nodes[i].lower = lower_turns;
    nodes[i].n_operands = 3;
    operands[i][2] = (struct td_node_operand){.kind = TD_OPERAND_graph, .graph = &body};
    finish(add(behind, 2, V(y, graph_inputs[0])));
}

static void run_right(void)
{
    int64_t n = run(x, N, NULL, true, plain);
    ck_assert_msg(n >= N, "%s", problem.text);
    ck_assert_int_eq(run(x, N, NULL, false, got), n);
    ck_assert_int_eq(memcmp(got, plain, sizeof *got * (size_t)n), 0);
}

/* Fewer turns each time, and from the sixth on as before. */
static void draw(int time)
{
    for (int i = 0; i < N; i++)
        x[i] = (float)(time % 6 * 5 + i);
}

/* Plans behind the first one, and those of them that have steps of their own. */
static void count(const struct td_plan *plan, int *all, int *own)
{
    for (const struct td_plan *next = plan->after; next; next = next->beside) {
        ++*all;
        *own += next->by == next;
        ck_assert(next->by == next || (!next->n_steps && next->by->n_steps));
        count(next, all, own);
    }
}

/* ---- tests ---- */

/* What a turn is given from outside differs, and its steps are the same. */
START_TEST(test_alike)
{
    int all = 0, own = 0;
    make_loop("a * 1.1 + b + c * 0.01", "a + b");
    for (int turn = 0; turn < 10; turn++) {
        draw(turn);
        run_right();
    }
    count(model.plans_, &all, &own);
    ck_assert_int_ge(all, 12);
    ck_assert_int_le(own, 7); /* the second turn, and what comes behind the last one, of six */
    end();
}
END_TEST

/* What each turn leaves behind stays what it was while somebody holds it. */
START_TEST(test_rows)
{
    int all = 0, own = 0;
    keeps_rows = true;
    make_loop("a * 1.1 + b + c * 0.01", "a + b");
    for (int turn = 0; turn < 10; turn++) {
        draw(turn);
        run_right();
    }
    count(model.plans_, &all, &own);
    ck_assert_int_gt(all, own);
    keeps_rows = false;
    end();
}
END_TEST

/* What a turn begins with stays until its last step has read it. */
START_TEST(test_begun)
{
    make_loop("flip(a, [0]) * 1.05 + cumsum(a, 0) * 0.1 + b * 0.1", "cat([a, b])");
    for (int turn = 0; turn < 10; turn++) {
        draw(turn);
        run_right();
    }
    end();
}
END_TEST

/* Many turns take little memory. */
START_TEST(test_many)
{
    int all = 0, own = 0, most = 0;
    make_loop("a + 0.3 + b * 0.001", "a - b");
    draw(0);
    run_right();
    size_t bytes = model.plans_->held_bytes;
    count(model.plans_, &all, &own);
    ck_assert_int_ge(all, 60);
    ck_assert_int_le(own, 3);
    ck_assert_uint_le(bytes, (size_t)all * 4096 + 65536);
    for (const struct td_plan *p = model.plans_->after; p; p = p->after)
        most = p->turns > most ? p->turns : most;
    ck_assert_int_ge(most, all - 3);
    run_right();
    int after = 0;
    count(model.plans_, &after, &own);
    ck_assert_int_eq(after, all); /* all were there */
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_alike, test_rows, test_begun, test_many};
    return td_run_tests("turns", tests, sizeof tests / sizeof *tests);
}
