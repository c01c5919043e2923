/* What a kept call costs beside its kernel: an addition of 16 floats, by the kernel's pointer, as a
 * step (dispatch/step/step.h), with its data set anew or not, and as a run that is executed again
 * or selected and executed. Then what a node of a chain of eight additions of 4 floats costs, one
 * by one, computed together anew each time, and as a plan has them, worked out once. All take
 * turns; a line shows the median of the rounds.
 *
 * Run it on a quiet core: taskset -c 1 bench_step */
#include "dispatch/step/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 101
#define REPEAT 20000

static float x[16], y[16], out[16];
static struct td_run run;
static struct td_step *step;
static _Alignas(64) char scratch[4096];

static void kernel(void)
{
    run.impl->run(&run.call);
}

static void as_step(void)
{
    td_step_execute(step, scratch, NULL);
}

static void as_step_aimed(void)
{
    td_step_set_input(step, 0, -1, x);
    td_step_set_input(step, 1, -1, y);
    td_step_set_result(step, 0, out);
    td_step_execute(step, scratch, NULL);
}

static void as_run(void)
{
    td_run_execute(&run, scratch);
}

static void as_run_selected(void)
{
    size_t bytes;
    td_run_select(&run, &bytes);
    td_run_execute(&run, scratch);
}

#define CHAIN 8

static struct td_step *chained[CHAIN];
static struct td_fused chain[CHAIN];
static struct td_fusion *fusion;
static float between[CHAIN][4];

static void one_by_one(void)
{
    for (int i = 0; i < CHAIN; i++)
        td_step_execute(chained[i], scratch, NULL);
}

static void worked_out(void)
{
    td_fusion_run(fusion, NULL);
}

static const struct {
    const char *what;
    void (*go)(void);
    int nodes;
} way[] = {{"the kernel", kernel},
           {"a step", as_step},
           {"a step, its data set anew", as_step_aimed},
           {"a run", as_run},
           {"a run, selected anew", as_run_selected},
           {"a node, one by one", one_by_one, CHAIN},
           {"a node, fused", worked_out, CHAIN}};
#define WAYS (sizeof way / sizeof *way)

static int by_value(const void *a, const void *b)
{
    double m = *(const double *)a, n = *(const double *)b;
    return (m > n) - (m < n);
}

static void *from_heap(void *arg, size_t bytes)
{
    (void)arg;
    return malloc(bytes);
}

/* Each adds y to what the one before it has made. */
static int make_chain(void)
{
    static struct td_run each;
    struct td_tensor t = {x, TD_f32, 1, {4}, NULL}, u = {y, TD_f32, 1, {4}, NULL};
    struct td_named args[] = {{"self", {.kind = TD_KIND_tensor, .tensor = t}},
                              {"other", {.kind = TD_KIND_tensor, .tensor = u}}};
    size_t bytes;
    int err = 0;
    for (int i = 0; i < CHAIN && !err; i++) {
        err = td_run_bind(&each, "add", args, 2, NULL);
        err = err ? err : td_run_select(&each, &bytes);
        err = err ? err : td_step_make(&chained[i], &each, from_heap, NULL);
        if (err)
            return err;
        td_step_set_input(chained[i], 0, -1, i ? between[i - 1] : x);
        td_step_set_input(chained[i], 1, -1, y);
        td_step_set_result(chained[i], 0, between[i]);
        chain[i] =
            (struct td_fused){.call = &chained[i]->unit->call, .impl = chained[i]->unit->impl};
        memset(chain[i].of, -1, sizeof chain[i].of);
        chain[i].of[0] = (signed char)(i - 1);
    }
    fusion = td_fusion_make(chain, CHAIN, 1, 0, from_heap, NULL);
    return !fusion;
}

int main(void)
{
    static double ns[WAYS][ROUNDS];
    struct td_problem problem;
    struct td_tensor t = {x, TD_f32, 1, {16}, NULL}, u = {y, TD_f32, 1, {16}, NULL};
    struct td_named args[] = {{"self", {.kind = TD_KIND_tensor, .tensor = t}},
                              {"other", {.kind = TD_KIND_tensor, .tensor = u}}};
    size_t bytes;
    if (td_cpu_init(NULL, &problem) || td_registry_init(&problem) ||
        td_run_bind(&run, "add", args, 2, NULL) || td_run_select(&run, &bytes) ||
        td_step_make(&step, &run, from_heap, NULL) || bytes > sizeof scratch || make_chain())
        return 1;
    run.call.out[0].data = out;
    td_step_set_result(step, 0, out);
    for (int r = 0; r < ROUNDS; r++)
        for (size_t w = 0; w < WAYS; w++) {
            int64_t begin = td_clock_ns();
            for (int i = 0; i < REPEAT; i++)
                way[w].go();
            ns[w][r] = (double)(td_clock_ns() - begin) / REPEAT;
        }
    for (size_t w = 0; w < WAYS; w++) {
        qsort(ns[w], ROUNDS, sizeof(double), by_value);
        printf("%-28s %7.1f ns\n", way[w].what,
               ns[w][ROUNDS / 2] / (way[w].nodes ? way[w].nodes : 1));
    }
    return 0;
}
