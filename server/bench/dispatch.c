/* `tensord bench --dispatch`: what dispatch itself costs, on an addition of four floats, where the
 * work is next to nothing. Items take turns; each figure is the median of its rounds.
 *
 * cold is a selection after everything has been driven out of the caches, once for each operator
 * that the sample can be bound to. Instruction counts are taken by tests/bench/dispatch.py, which
 * runs one item a known number of times under callgrind. */
#include "server/bench/bench.h"
#include "server/commands/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 15
#define REPEAT 20000

struct bench {
    struct td_named args[2];
    struct td_run run; /* bound and selected */
    td_keyset keys;    /* of the arguments, for bind */
    const char *op;
    const struct td_handle *add; /* for calls by a stack */
    float x[4], y[4], out[4];
    _Alignas(64) char scratch[4096];
    _Alignas(64) char memory[4 * sizeof(struct td_run)]; /* of a call by a stack */
    size_t used;
};

typedef void item(struct bench *b);

static void kernel(struct bench *b)
{
    b->run.impl->run(&b->run.call);
}

static void unboxed(struct bench *b)
{
    td_call_unboxed(b->run.handle, &b->run.call, b->run.keys, b->scratch);
}

static void bind(struct bench *b)
{
    td_run_bind(&b->run, b->op, b->args, 2, NULL);
}

static void select_kernel(struct bench *b)
{
    size_t bytes;
    td_run_select(&b->run, &bytes);
}

static void boxed(struct bench *b)
{
    bind(b);
    select_kernel(b);
    b->run.call.out[0].data = b->out;
    td_run_execute(&b->run, b->scratch);
    td_run_release(&b->run);
}

static void *take(void *arg, size_t bytes)
{
    struct bench *b = arg;
    size_t at = b->used;
    b->used += (bytes + 63) / 64 * 64;
    return b->used <= sizeof b->memory ? b->memory + at : NULL;
}

static void stack(struct bench *b)
{
    struct td_options options = {.alloc = take, .alloc_arg = b};
    struct td_problem problem;
    struct td_stack s;
    b->used = 0;
    s.n = 3;
    s.v[0] = b->args[0].value;
    s.v[1] = b->args[1].value;
    s.v[2] = (struct td_value){.kind = TD_KIND_int, .i = 1};
    td_call_boxed(b->add, &s, b->keys, &options, &problem);
}

static int wrapper(struct td_run *run, td_keyset keys)
{
    return td_redispatch(run, keys & td_keyset_below(TD_KEY_TESTING_ONLY_GenericWrapper));
}

enum { WRAPPER = 1, PASSED = 2 };

static const struct {
    const char *name, *what;
    item *run;
    int keys;
} items[] = {
    {"kernel", "the kernel alone, by its pointer", kernel, 0},
    {"unboxed", "a direct call: table, selection, kernel", unboxed, 0},
    {"select", "selection, warm", select_kernel, 0},
    {"bind", "binding by names, and dispatch", bind, 0},
    {"bind_fallthrough", "the same with three keys that fall through", bind, PASSED},
    {"bind_redispatch", "the same with a wrapper that redispatches", bind, WRAPPER},
    {"stack", "a call by a stack of values: table, selection, kernel, memory", stack, 0},
    {"boxed", "the whole: bind, dispatch, select, run with its clock", boxed, 0},
};
#define ITEMS (sizeof items / sizeof *items)

static void prepare(struct bench *b, const char *op, int keys)
{
    td_keyset set = td_keyset_of(TD_KEY_CPU);
    size_t bytes;
    if (keys & WRAPPER)
        set |= td_keyset_of(TD_KEY_TESTING_ONLY_GenericWrapper);
    if (keys & PASSED)
        set |= td_keyset_of(TD_KEY_AutogradCPU) | td_keyset_of(TD_KEY_ADInplaceOrView) |
               td_keyset_of(TD_KEY_AutocastCPU);
    td_run_release(&b->run);
    b->op = op;
    b->keys = set;
    const char *const names[] = {"self", "other"};
    float *const data[] = {b->x, b->y};
    for (int i = 0; i < 2; i++)
        b->args[i] = (struct td_named){
            .name = names[i],
            .keys = set,
            .value = {.kind = TD_KIND_tensor,
                      .tensor = {.data = data[i], .dtype = TD_f32, .rank = 1, .shape = {4}}}};
    bind(b);
    b->run.keys = td_keyset_of(TD_KEY_CPU);
    td_run_select(&b->run, &bytes);
    b->run.call.out[0].data = b->out;
}

static double time_item(struct bench *b, size_t i)
{
    prepare(b, "add.Tensor", items[i].keys);
    int64_t begin = td_now_ns();
    for (int n = 0; n < REPEAT; n++)
        items[i].run(b);
    return (double)(td_now_ns() - begin) / REPEAT;
}

/* Nanoseconds of the first selection of each operator with tensors self and other of a vector. */
static int time_cold(struct bench *b, double *ns, int max)
{
    enum { BYTES = 64 << 20 };
    char *dirt = malloc(BYTES);
    int n = 0;
    for (int i = 0; dirt && i < td_registry_count() && n < max; i++) {
        const struct td_handle *handle = td_registry_at(i);
        prepare(b, "add.Tensor", 0);
        if (td_run_bind(&b->run, handle->full, b->args, 2, NULL) &&
            td_run_bind(&b->run, handle->full, b->args, 1, NULL))
            continue;
        for (size_t at = 0; at < BYTES; at += 64)
            dirt[at]++;
        int64_t begin = td_now_ns();
        select_kernel(b);
        ns[n++] = (double)(td_now_ns() - begin);
    }
    free(dirt);
    td_bench_sort(ns, n);
    return n;
}

static void report(bool json, const char *name, double low, double median, const char *what)
{
    if (json)
        printf("{\"item\":\"%s\",\"ns_min\":%.1f,\"ns_median\":%.1f,\"what\":\"%s\"}\n", name, low,
               median, what);
    else
        printf("%-18s %9.1f %9.1f   %s\n", name, low, median, what);
}

/* Differences of items within a round. */
static const struct {
    const char *name, *what, *more, *less;
} differences[] = {
    {"boxed_over_unboxed", "what binding by names adds to a direct call", "boxed", "unboxed"},
    {"redispatch", "one wrapper that passes the call on", "bind_redispatch", "bind"},
    {"fallthrough", "three keys that fall through", "bind_fallthrough", "bind"},
};

static size_t find_item(const char *name)
{
    size_t i = 0;
    while (strcmp(items[i].name, name))
        i++;
    return i;
}

static void report_differences(double ns[ITEMS][ROUNDS], bool json)
{
    for (size_t i = 0; i < sizeof differences / sizeof *differences; i++) {
        size_t more = find_item(differences[i].more), less = find_item(differences[i].less);
        double by[ROUNDS];
        for (int round = 0; round < ROUNDS; round++)
            by[round] = ns[more][round] - ns[less][round];
        td_bench_sort(by, ROUNDS);
        report(json, differences[i].name, by[0], by[ROUNDS / 2], differences[i].what);
    }
}

static void run_all(struct bench *b, bool json)
{
    double ns[ITEMS][ROUNDS], cold[64];
    int n = time_cold(b, cold, 64);
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < ITEMS; i++)
            ns[i][round] = time_item(b, i);
    if (!json)
        printf("%-18s %9s %9s\n", "ns a call", "min", "median");
    report_differences(ns, json);
    for (size_t i = 0; i < ITEMS; i++) {
        td_bench_sort(ns[i], ROUNDS);
        report(json, items[i].name, ns[i][0], ns[i][ROUNDS / 2], items[i].what);
    }
    if (n) {
        report(json, "select_cold", cold[0], cold[n / 2],
               "selection, caches cold, an operator each");
        report(json, "select_cold_max", cold[n - 1], cold[n - 1], "the slowest operator of these");
    }
}

static int run_one(struct bench *b, const char *name, long repeat)
{
    for (size_t i = 0; i < ITEMS; i++)
        if (!strcmp(items[i].name, name)) {
            prepare(b, "add.Tensor", items[i].keys);
            for (long n = 0; n < repeat; n++)
                items[i].run(b);
            return 0;
        }
    fprintf(stderr, "tensord: bench: no item '%s' of dispatch\n", name);
    return 2;
}

int td_bench_dispatch(bool json, const char *only, long repeat)
{
    struct td_problem problem;
    struct td_kernel_def def = {
        .key = TD_KEY_TESTING_ONLY_GenericWrapper, .boxed = wrapper, .origin = TD_HERE};
    struct td_registration *made;
    static struct bench b;
    if (td_handle_typed(&b.add, "add.Tensor",
                        "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                        &problem) ||
        td_register_fallback(&def, &made, &problem)) {
        fprintf(stderr, "tensord: bench: %s\n", problem.text);
        return 1;
    }
    int status = 0;
    if (only)
        status = run_one(&b, only, repeat);
    else
        run_all(&b, json);
    td_unregister(&made);
    return status;
}
