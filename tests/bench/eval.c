/* An expression computed together, beside the same calls one by one through the dispatcher, on
 * tensors of 1M elements: bench_eval [THREADS]. The least of 200 runs of each, in turns, and what
 * reading and binding the expression takes. By hand, on a quiet machine:
 *
 *     for t in 1 2; do OMP_PROC_BIND=true build/tests/bench/bench_eval $t; done
 */
#include "dispatch/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N (1 << 20)
#define RUNS 200

static _Alignas(64) char all[64 << 20];
static size_t used;

static void *room(void *arg, size_t bytes)
{
    (void)arg;
    used += (bytes + 63) & ~(size_t)63;
    return used <= sizeof all ? all + used - ((bytes + 63) & ~(size_t)63) : NULL;
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct td_named tensor(const char *name, float *data)
{
    return (struct td_named){
        .name = name,
        .value = {.kind = TD_KIND_tensor,
                  .tensor = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {N}}}};
}

static double time_of(struct td_run *run, int n, void *scratch)
{
    double begin = now_us();
    for (int i = 0; i < n; i++)
        td_run_execute(&run[i], scratch);
    return now_us() - begin;
}

int main(int argc, char **argv)
{
    static const char expr[] = "relu(a*b+c)*sigmoid(a)";
    static const char *const op[] = {"mul", "add", "relu", "sigmoid", "mul"};
    static const int from[][2] = {{0, 1}, {3, 2}, {4, -1}, {0, -1}, {5, 6}}, to[] = {3, 4, 5, 6, 7};
    static const struct td_options options = {.alloc = room};
    static struct td_run fused, call[5];
    struct td_problem problem;
    float *data[9];
    size_t bytes;
    int threads = argc > 1 ? atoi(argv[1]) : 1, err = td_cpu_init(NULL, &problem);
    err = err ? err : td_registry_init(&problem);
    for (int i = 0; i < 9; i++) {
        data[i] = room(NULL, sizeof(float) * N);
        for (int k = 0; k < N; k++)
            data[i][k] = (float)(k % (61 + i) - 30) / 16;
    }
    struct td_named abc[] = {tensor("a", data[0]), tensor("b", data[1]), tensor("c", data[2])};
    for (int i = 0; i < 5 && !err; i++) {
        struct td_named args[2] = {tensor(NULL, data[from[i][0]])};
        if (from[i][1] >= 0)
            args[1] = tensor(NULL, data[from[i][1]]);
        err = td_run_bind(&call[i], op[i], args, from[i][1] < 0 ? 1 : 2, &options);
        call[i].call.threads = threads;
        err = err ? err : td_run_select(&call[i], &bytes);
        call[i].call.out[0].data = data[to[i]];
    }
    double binding = now_us();
    err = err ? err : td_run_bind_expr(&fused, expr, abc, 3, &options);
    fused.call.threads = threads;
    err = err ? err : td_run_select(&fused, &bytes);
    binding = now_us() - binding;
    fused.call.out[0].data = data[8];
    if (err)
        return fprintf(stderr, "%s\n", fused.problem.text), 1;
    void *scratch = room(NULL, bytes + 64);
    double least[2] = {1e9, 1e9};
    for (int i = 0; i < RUNS; i++) {
        double together = time_of(&fused, 1, scratch), apart = time_of(call, 5, scratch);
        least[0] = together < least[0] ? together : least[0];
        least[1] = apart < least[1] ? apart : least[1];
    }
    printf("%s, %d elements, %d threads, %s: together %.0f us, one by one %.0f us: %.2f\n", expr, N,
           threads, fused.impl->name, least[0], least[1], least[0] / least[1]);
    struct td_run again;
    double begin = now_us();
    size_t before = used;
    for (int i = 0; i < 1000; i++, used = before)
        td_run_bind_expr(&again, expr, abc, 3, &options);
    printf("binding it: first %.1f us, then %.2f us\n", binding, (now_us() - begin) / 1000);
    return 0;
}
