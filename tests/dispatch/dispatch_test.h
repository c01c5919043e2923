/* What the dispatcher's tests share: a start, and a toy operator. */
#ifndef TD_DISPATCH_TEST_H
#define TD_DISPATCH_TEST_H

#include "dispatch/dispatch.h"

#include "tests/run_tests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline void start(void)
{
    struct td_problem problem = {0};
    ck_assert_msg(!td_cpu_init(NULL, &problem) && !td_registry_init(&problem), "%s", problem.text);
}

/* toy(Tensor self): twice self. */
static inline int toy_rule(struct td_call *call)
{
    call->n_out = 1;
    call->out[0] = call->arg[0].tensor;
    call->out[0].data = NULL;
    return 0;
}

static int toy_ran;

static inline void toy_run(const struct td_call *call)
{
    const float *in = call->arg[0].tensor.data;
    float *out = call->out[0].data;
    for (int64_t i = 0, n = td_numel(&call->out[0]); i < n; i++)
        out[i] = 2 * in[i];
    toy_ran++;
}

/* The prepare of a row that takes every call. */
static inline const char *takes(const struct td_call *call, struct td_prepared *prepared)
{
    (void)call, (void)prepared;
    return NULL;
}

static const struct td_impl toy_rows[] = {{.name = "ref", .run = toy_run, .dtypes = TD_ALL}, {0}};
static const struct td_op toy_op = {
    .schema = "toy(Tensor self) -> Tensor", .rule = toy_rule, .dtypes = TD_ALL, .impls = toy_rows};

static inline struct td_named tensor_arg(const char *name, float *data, int64_t n)
{
    return (struct td_named){
        .name = name,
        .value = {.kind = TD_KIND_tensor,
                  .tensor = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {n}}}};
}

static inline void *heap(void *arg, size_t bytes)
{
    static _Alignas(64) char room[1 << 18]; /* a test is a process of its own */
    static size_t used;
    (void)arg;
    bytes = (bytes + 63) & ~(size_t)63;
    if (bytes > sizeof room - used)
        return NULL;
    used += bytes;
    return room + used - bytes;
}

static inline void execute(struct td_run *run, void *result)
{
    static _Alignas(64) char scratch[1 << 16];
    size_t bytes;
    ck_assert_msg(!td_run_select(run, &bytes), "%s", run->problem.text);
    ck_assert_uint_le(bytes, sizeof scratch);
    run->call.out[0].data = result;
    td_run_execute(run, scratch);
    td_run_release(run);
}

static inline int bind(struct td_run *run, const char *op, const struct td_named *args, int n,
                       struct td_trace *trace)
{
    struct td_options options = {.alloc = heap, .trace = trace};
    return td_run_bind(run, op, args, n, &options);
}

static inline int register_key(const char *op, enum td_key key, td_boxed *boxed)
{
    struct td_problem problem;
    struct td_kernel_def def = {.key = key, .boxed = boxed, .origin = TD_HERE};
    return *op ? td_register(op, &def, NULL, &problem) : td_register_fallback(&def, NULL, &problem);
}

#endif
