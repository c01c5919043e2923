/* Expressions: what their text becomes, what is wrong with it and where, and that what is computed
 * together is what the same calls give one by one. */
#include "dispatch/graph/graph.h"
#include "tests/dispatch/dispatch_test.h"
#include "tests/room.h"

#include <pthread.h>
#include <time.h>

#define N 2500 /* beyond two tiles, and no whole number of vectors */

static float a[N], b[N], out[2 * N], wanted[N];

static const struct td_options options = {.alloc = room};

static const struct td_graph *parse(const char *text, int err, struct td_problem *problem)
{
    const struct td_named args[] = {tensor_arg("a", a, N),
                                    tensor_arg("b", b, N),
                                    {.name = "n", .value = {.kind = TD_KIND_int, .i = 3}}};
    static struct td_graph_use use;
    start();
    td_graph_release(&use);
    ck_assert_msg(td_graph_read(&use, text, args, 3, "expr", problem) == err, "%s: %s", text,
                  problem->text);
    return use.graph;
}

/* The constant that a text is. */
static struct td_value constant(const char *text)
{
    struct td_problem problem;
    const struct td_graph *g = parse(text, 0, &problem);
    const struct td_graph_node *node = &g->node[g->result[0].of.node];
    ck_assert(!node->handle && node->argument == -1);
    return *node->value;
}

START_TEST(test_numbers)
{
    ck_assert_int_eq(constant("1 + 2 * n ** 2 - -4").i, 23);
    ck_assert_int_eq(constant("-2 ** 2").i, -4);
    ck_assert_int_eq(constant("(1 - 2) * 3").i, -3);
    ck_assert_int_eq(constant("8 - 4 - 2").i, 2);
    ck_assert_int_eq(constant("9223372036854775807 + 1").i, INT64_MIN);
    ck_assert_double_eq(constant("2 ** -1").f, 0.5);
    ck_assert_double_eq(constant("2 ** 3 ** 0.5 * 0 + 1e3 / 4").f, 250);
    ck_assert_int_eq(constant("True").kind, TD_KIND_bool);
    ck_assert_int_eq(constant("[1, -n]").ints.v[1], -3);
    ck_assert_double_eq(constant("[1, .5]").floats.v[0], 1);
    ck_assert_int_eq(constant("[True, False]").kind, TD_KIND_bools);
    ck_assert_str_eq(constant("'a, b'").str, "a, b");
    ck_assert_int_eq(constant("float16").dtype, TD_f16);
}
END_TEST

START_TEST(test_nodes)
{
    static const struct {
        const char *text;
        int nodes;
    } texts[] = {{"a", 1},
                 {"a + b", 3},
                 {"exp(a) / sum(exp(a), [0])", 6}, /* exp(a) once, 0, and its list */
                 {"rand([2], generator=1) + rand([2], generator=1)", 7}, /* chance is drawn twice */
                 {"randperm(4) - randperm(4)", 4},
                 {"x = a * n; y = x * n; z = a * n", 4},
                 {"cat([a, b, a], dim=0)", 5}};
    struct td_problem problem;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        ck_assert_msg(parse(texts[i].text, 0, &problem)->n_nodes == texts[i].nodes, "%s",
                      texts[i].text);
}
END_TEST

static struct td_graph_use use_of(const char *text, const struct td_named *args, int n)
{
    struct td_graph_use use;
    struct td_problem problem;
    ck_assert_msg(!td_graph_read(&use, text, args, n, "expr", &problem), "%s", problem.text);
    return use;
}

/* A text is read once for the same names, kinds and numbers, whatever else the arguments are. */
START_TEST(test_read_once)
{
    char text[700] = "a * n + sum(a, k, dtype='x')", name[] = "n";
    struct td_named args[] = {
        tensor_arg("a", a, N),
        {.name = name, .value = {.kind = TD_KIND_int, .i = 3}},
        {.name = "k", .value = {.kind = TD_KIND_ints, .ints = {.v = {0}, .n = 1}}},
        {.name = "b", .value = {.kind = TD_KIND_float, .f = 1}}};
    start();
    struct td_graph_use first = use_of(text, args, 4), other;
    args[0] = tensor_arg("a", b, N - 1);
    args[2].value.ints.v[0] = -1;
    other = use_of(text, args, 4);
    ck_assert_ptr_nonnull(first.graph);
    ck_assert_ptr_eq(first.graph, other.graph);
    td_graph_release(&other);
    ck_assert_ptr_null(other.graph);
    for (int change = 0; change < 6; change++) {
        struct td_named changed[4];
        memcpy(changed, args, sizeof args);
        if (change == 0)
            changed[1].value.i = 4;
        else if (change == 1)
            changed[1].value = (struct td_value){.kind = TD_KIND_float, .f = 3};
        else if (change == 2)
            changed[3].name = "c";
        else if (change == 3)
            text[4]++; /* a * o */
        else if (change == 4)
            changed[2].value.kind = TD_KIND_floats;
        else
            changed[3].name = NULL;
        name[0] = text[4];
        other = use_of(text, changed, 4);
        ck_assert_msg(first.graph != other.graph, "%d", change);
        td_graph_release(&other);
    }
    name[0] = text[4] = 'n';
    other = use_of(text, args, 4); /* and is still there */
    ck_assert_ptr_eq(first.graph, other.graph);
    td_graph_release(&other);
    memset(text + strlen(text), ' ', sizeof text - strlen(text)); /* too long to be kept */
    text[sizeof text - 1] = 0;
    other = use_of(text, args, 4);
    ck_assert_ptr_null(other.shared);
    ck_assert_int_eq(other.graph->n_nodes, first.graph->n_nodes);
    const struct td_graph_node *call = &other.graph->node[other.graph->n_nodes - 2];
    const struct td_operand *last = &other.graph->operand[call->first + call->n - 1];
    ck_assert_str_eq(other.graph->node[last->node].value->str, "x");
    td_graph_release(&other);
    td_graph_release(&first);
}
END_TEST

/* Threads that read the same and other texts, more than are kept. */
static void *read_many(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 4000; i++) {
        char text[40];
        struct td_named x = tensor_arg("x", a, N);
        int number = rand_r(&seed) % 2000;
        snprintf(text, sizeof text, "x + %d", number);
        struct td_graph_use use = use_of(text, &x, 1);
        if (use.graph->n_values != 1 || use.graph->value[0].i != number)
            return "another text's graph";
        td_graph_release(&use);
    }
    return NULL;
}

START_TEST(test_read_by_threads)
{
    pthread_t thread[4];
    start();
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_many, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_msg(!wrong, "%s", (const char *)wrong);
    }
}
END_TEST

START_TEST(test_what_is_wrong)
{
    static const struct {
        const char *text, *says;
    } texts[] = {{"", "expr: column 1: the text ends"},
                 {"a +", "column 4: the text ends"},
                 {"a b", "column 3: 'b'"},
                 {"a + c", "column 5: there is no input 'c'"},
                 {"rellu(a)", "did you mean 'relu'"},
                 {"relu(a", "column 7"},
                 {"a < b < a", "column 7: comparisons"},
                 {"[a", "column 3"},
                 {"a[1.5]", "column 3"},
                 {"'x", "no end"},
                 {"1x", "no number"},
                 {"sum(dim=0, a)", "column 12"},
                 {"x = a; b", "column 8"},
                 {"3 // 0", "'//' of these two numbers has no value"},
                 {"99999999999999999999", "no INT64"}};
    struct td_problem problem;
    char deep[2 * TD_GRAPH_TEXT];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        parse(texts[i].text, -EINVAL, &problem);
        ck_assert_msg(strstr(problem.text, texts[i].says) != NULL, "%s: %s", texts[i].text,
                      problem.text);
    }
    memset(deep, '(', 70);
    strcpy(deep + 70, "a");
    parse(deep, -EINVAL, &problem);
    ck_assert_ptr_nonnull(strstr(problem.text, "deeper than 64"));
    memset(deep, ' ', sizeof deep);
    deep[TD_GRAPH_TEXT + 1] = 0;
    parse(deep, -EINVAL, &problem);
    ck_assert_ptr_nonnull(strstr(problem.text, "longer than 8192"));
}
END_TEST

static void run_to(struct td_run *run, float *to)
{
    size_t bytes;
    ck_assert_int_eq(td_run_select(run, &bytes), 0);
    run->call.out[0].data = to;
    td_run_execute(run, room(NULL, bytes + 64));
    td_run_release(run);
    ck_assert_int_eq(run->error, 0);
}

static void one(const char *op, float *to, float *x, float *y)
{
    struct td_named args[] = {tensor_arg(NULL, x, N), tensor_arg(NULL, y, N)};
    struct td_run run;
    ck_assert_int_eq(td_run_bind(&run, op, args, y ? 2 : 1, &options), 0);
    run_to(&run, to);
}

/* On one thread and on two, with what lies between kept or not. */
START_TEST(test_fused)
{
    struct td_named args[] = {tensor_arg("a", a, N), tensor_arg("b", b, N)};
    static float t[N], u[N];
    struct td_run run;
    start();
    for (int i = 0; i < N; i++) {
        a[i] = (float)(i % 37 - 18) / 4;
        b[i] = (float)(i % 101) / 8 - 3;
    }
    one("mul", t, a, b);
    one("sigmoid", u, t, NULL);
    one("maximum", wanted, u, b);
    for (int threads = 1; threads <= 2; threads++) {
        memset(out, 0, sizeof out);
        ck_assert_int_eq(td_run_bind_expr(&run, "maximum(sigmoid(a * b), b)", args, 2, &options),
                         0);
        run.call.threads = threads;
        run_to(&run, out);
        ck_assert_str_eq(run.impl->name, "fused");
        ck_assert_mem_eq(out, wanted, sizeof wanted);
        ck_assert_int_eq(run.parts->with, 2);
        ck_assert(!run.parts->kept);
    }
    ck_assert_int_eq(td_run_bind_expr(&run, "t = a * b; s = sum(t, [0]) + a", args, 2, &options),
                     0);
    ck_assert_int_eq(run.call.n_out, 2);
    ck_assert_str_eq(td_run_result_name(&run, 1), "s");
    run.call.out[1].data = out + N;
    run_to(&run, out);
    ck_assert_mem_eq(out, t, sizeof t);
    ck_assert_int_eq(run.parts->with, 1); /* a sum of it, for which what else reads it waits */
    ck_assert_int_eq(run.parts->next->next->with, -1);
}
END_TEST

/* No sizes make a wrong text right: where some are unknown, none are tried. */
START_TEST(test_wrong_for_all_sizes)
{
    struct td_named x = tensor_arg("x", NULL, TD_UNKNOWN);
    struct td_run run;
    start();
    clock_t begin = clock();
    for (int i = 0; i < 40; i++)
        ck_assert_int_eq(td_run_bind_expr(&run, "rleu(x)", &x, 1, &options), -EINVAL);
    clock_t middle = clock();
    ck_assert_int_eq(td_run_infer(&run, NULL, "rleu(x)", &x, 1, &options), -EINVAL);
    ck_assert(strstr(run.problem.text, "did you mean 'relu'?"));
    ck_assert_int_lt(clock() - middle, middle - begin);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_numbers,       test_nodes, test_read_once,          test_read_by_threads,
        test_what_is_wrong, test_fused, test_wrong_for_all_sizes};
    return td_run_tests("graph", tests, sizeof tests / sizeof *tests);
}
