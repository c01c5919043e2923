/* Where values lie in a plan's memory: which results take the place of an argument, and that the
 * numbers stay, bit for bit. */
#include "tests/dispatch/model_test.h"

#define N 144

static float x[N], before[N], got[4 * N], wanted[4 * N];

/* Runs what has been made as a plan and node by node; both say the same, and leave the input be. */
static const struct td_plan *check(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < N; i++)
            before[i] = x[i] = (float)((i * 13 + turn * 5) % 23) / 8 - 1;
        int n = run(x, N, NULL, false, got);
        ck_assert_msg(n > 0, "%s", problem.text);
        ck_assert_int_eq(run(x, N, NULL, true, wanted), n);
        ck_assert_int_eq(memcmp(got, wanted, sizeof *got * (size_t)n), 0);
        ck_assert_int_eq(memcmp(x, before, sizeof x), 0);
    }
    ck_assert(model.plans_ && !*model.plans_->refused);
    return model.plans_;
}

/* A letter for each step's result: the place of its own, or the one that it takes over; "." where
 * it needs none. */
static const char *places(const struct td_plan *plan)
{
    static char text[MOST * 4];
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++) {
        const struct td_plan_value *value = &plan->value[plan->step[s].value];
        if (plan->step[s].handle)
            text[n++] =
                value->inside
                    ? '.'
                    : (char)('a' +
                             plan->value[value->over < 0 ? plan->step[s].value : value->over].step);
    }
    text[n] = 0;
    return text;
}

/* Formulas over the result of the last one, a, and of those before it, b and c; the first two of
 * the input. */
static const struct {
    const char *formula[6], *places;
} cases[] = {
    {{"cumsum(a, 0)", "softmax(a, 0)", "cumsum(a, 0)"}, "aaaa"},
    {{"sin(a)", "a * a", "cumsum(a, 0)"}, ".bbb"},
    /* it is wanted once more, or all along */
    {{"cumsum(a, 0)", "softmax(a, 0)", "cumsum(a + b, 0)"}, "abbbb"},
    {{"cumsum(a, 0)", "softmax(a, 0)", "cat([a, b])"}, "abcc"},
    /* of other sizes; of a part of it, and the same in another shape */
    {{"cumsum(a, 0)", "cat([a, a])", "narrow(a, 0, 0, 144)", "cumsum(a, 0)"}, "abcc"},
    {{"cumsum(a, 0)", "a > 0", "sum(a)"}, "a.cd"},
    {{"cumsum(a, 0)", "reshape(a, [12, 12])", "cumsum(a, 1)"}, "aaa"},
    /* read otherwise than the result is written */
    {{"cumsum(a, 0)", "reshape(a, [12, 12])", "a - flip(a, [1])"}, "acc"},
    {{"cumsum(a, 0)", "flip(a, [0])", "sin(a) + b"}, "a..e"},
    /* computed together: what is read by the first, or by those after it */
    {{"cumsum(a, 0)", "sum(a)", "a + b"}, "ab.a"},
    {{"cumsum(a, 0)", "sin(a)", "a + b", "cat([a, b])"}, "abadd"},
    {{"cumsum(a, 0)", "sin(a)", "a + 1", "cat([a, b])"}, "aacdd"},
    {{"cumsum(a, 0)", "sin(a)", "a + 1", "a * 2", "cat([a, c])"}, "aa.dee"},
};

START_TEST(test_places)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        begin(1);
        int last[3] = {graph_inputs[0], graph_inputs[0], graph_inputs[0]};
        for (int i = 0; i < 6 && cases[k].formula[i]; i++) {
            int made = add(cases[k].formula[i], 3, last);
            memmove(last + 1, last, 2 * sizeof *last);
            last[0] = made;
        }
        finish(add("reshape(a, [-1]) * 1.5", 1, last));
        const char *found = places(check(4));
        ck_assert_msg(!strcmp(found, cases[k].places), "%zu: %s, not %s", k, found,
                      cases[k].places);
        end();
    }
}
END_TEST

/* Programs of all sorts of steps, among them ones that are computed together and views. */
START_TEST(test_programs)
{
    static const char *const formulas[] = {
        "sin(a)",
        "a * 0.5 + b",
        "cumsum(a, 0)",
        "maximum(a, b) - c",
        "reshape(softmax(reshape(a, [12, 12]), 1), [-1])",
        "reshape(softmax(reshape(a, [12, 12]), 0), [-1])",
        "reshape(layer_norm(reshape(a, [12, 12]), [12]), [-1])",
        "reshape(transpose(reshape(a, [12, 12]), 0, 1), [-1])",
        "flip(a, [0])",
        "a - flip(b, [0])",
        "cat([narrow(a, 0, 44, 100), narrow(b, 0, 0, 44)])",
        "where(a > b, a, c)",
        "clone(a)",
        "a + sum(b) * 0.01",
    };
    unsigned seed = 1;
    int taken = 0;
    for (int round = 0; round < 200; round++) {
        int value[MOST], n = 0;
        begin(1);
        value[n++] = graph_inputs[0];
        while (n < MOST - 1) { /* of the last ones, so that most die soon */
            int arg[3];
            for (int k = 0; k < 3; k++)
                arg[k] = value[n - 1 - rand_r(&seed) % (n < 5 ? n : 5)];
            const char *formula =
                formulas[(unsigned)rand_r(&seed) % (sizeof formulas / sizeof *formulas)];
            value[n++] = add(formula, 3, arg);
        }
        finish(add("cat([a, b])", 2, V(value[n - 1], value[n - 2])));
        const struct td_plan *plan = check(3);
        for (int i = 0; i < plan->n_values; i++)
            taken += plan->value[i].over >= 0;
        end();
    }
    ck_assert_int_gt(taken, 20);
}
END_TEST

/* Values whose steps a pass has taken away have neither steps nor places. */
START_TEST(test_gone)
{
    static float weight[4];
    struct td_tensor t = {
        .data = weight, .dtype = TD_f32, .rank = 4, .shape = {2, 2, 1, 1}, .weight = NULL};
    begin(1);
    for (int i = 0; i < 4; i++)
        weight[i] = (float)i - 1;
    int w = td_program_value(&model), y = add("reshape(a, [1, 2, 8, 9])", 1, V(graph_inputs[0]));
    ck_assert_int_eq(td_program_constant(&model, w, &t), 0);
    y = add("conv2d(a, b)", 2, V(y, w));
    for (int i = 0; i < 10; i++)
        y = add(i % 2 ? "permute(a, [0, 3, 1, 2])" : "permute(a, [0, 2, 3, 1])", 1, V(y));
    finish(add("reshape(conv2d(a, b), [144])", 2, V(y, w)));
    const struct td_plan *plan = check(2);
    for (int i = 0; i < plan->n_values; i++)
        ck_assert_int_lt(plan->value[i].step, plan->n_steps);
    ck_assert_int_le(plan->bytes, 4 * N * (int)sizeof(float) + 256);
    end();
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_places, test_programs, test_gone};
    return td_run_tests("place", tests, sizeof tests / sizeof *tests);
}
