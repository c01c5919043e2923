/* From a checked call to its result: choose the implementation, convert what was promoted, run.
 *
 * Selection walks the operator's rows, best first, and takes the first whose level may be used here
 * and that accepts the call. A walk costs some tens of nanoseconds, as rows are few and their tests
 * are compares; accepts() of library rows keeps its own cache of what the library can do. */
#include "dispatch/dispatch.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum td_isa td_impl_isa(const struct td_impl *impl)
{
    return impl->library ? td_onednn_isa() : impl->isa;
}

static enum td_dtype first_dtype(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++) {
        if (call->arg[i].kind == TD_KIND_tensor)
            return call->arg[i].tensor.dtype;
        if (call->arg[i].kind == TD_KIND_tensors && call->arg[i].tensors.n)
            return call->arg[i].tensors.v[0].dtype;
    }
    return call->out[0].dtype;
}

/* "simd" is any row of that name, "simd@AVX2" the one of that level. */
static bool is_named(const struct td_impl *impl, const char *name)
{
    size_t n = strlen(impl->name);
    return !strncmp(impl->name, name, n) &&
           (!name[n] || (name[n] == '@' && !strcmp(name + n + 1, td_isa_name(impl->isa))));
}

/* Why the row does not serve, or NULL when it does. */
static const char *objection(const struct td_run *run, const struct td_impl *impl)
{
    if (run->forced && !is_named(impl, run->forced))
        return "not the kernel asked for";
    if (!(td_cpu()->levels >> impl->isa & 1))
        return td_cpu()->cpu_levels >> impl->isa & 1 ? "its level is above the cap"
                                                     : "this CPU lacks its level";
    if (!(impl->dtypes & first_dtype(&run->call)))
        return "does not take this type";
    if (impl->accepts && !impl->accepts(&run->call))
        return "does not take this call";
    return NULL;
}

static int no_kernel(struct td_run *run)
{
    char list[300] = "";
    for (const struct td_impl *i = run->call.op->impls; i->run; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s@%s", *list ? ", " : "",
                 i->name, td_isa_name(i->isa));
    for (const struct td_impl *i = run->call.op->impls; i->run; i++)
        if (is_named(i, run->forced))
            return td_problem_set(&run->problem, EINVAL,
                                  "kernel: '%.40s' cannot run this call: %s; %s has: %s",
                                  run->forced, objection(run, i), run->handle->full, list);
    return td_problem_set(&run->problem, EINVAL, "kernel: %s has no '%.40s'; it has: %s",
                          run->handle->full, run->forced, list);
}

static size_t round_up(size_t bytes)
{
    return (bytes + 127) & ~(size_t)63; /* 64-byte steps, and 64 bytes that may be over-read */
}

int td_run_select(struct td_run *run, size_t *scratch)
{
    const struct td_impl *impl = run->call.op->impls;
    while (impl->run && objection(run, impl))
        impl++;
    if (!impl->run)
        return no_kernel(run); /* only when forced: ref accepts every checked call */
    run->impl = impl;
    *scratch = impl->scratch ? round_up(impl->scratch(&run->call)) : 0;
    for (int i = 0; i < run->n_casts; i++)
        *scratch += round_up(td_nbytes(&run->call.arg[run->cast[i].arg].tensor));
    return 0;
}

/* Converts a promoted argument by the cast operator's own kernels. */
static void cast(struct td_run *run, int i, void *out)
{
    struct td_value *arg = &run->call.arg[run->cast[i].arg];
    struct td_run sub = {.handle = td_registry_find("cast")};
    assert(sub.handle);
    sub.call.op = sub.handle->op;
    sub.call.n_args = 2;
    sub.call.threads = run->call.threads;
    sub.call.arg[0] = (struct td_value){.kind = TD_KIND_tensor, .tensor = run->cast[i].from};
    sub.call.arg[1] = (struct td_value){.kind = TD_KIND_dtype, .dtype = arg->tensor.dtype};
    sub.call.n_out = 1;
    sub.call.out[0] = arg->tensor;
    sub.call.out[0].data = out;
    size_t none;
    td_run_select(&sub, &none);
    sub.impl->run(&sub.call);
    arg->tensor.data = out;
}

/* ---- learned times ---- */

#define MAX_OPS 512
#define GUESS_NS 0.5f /* a unit of work, before anything is known */

/* Nanoseconds a unit of work of each operator, a moving average; 0: not measured yet. A race loses
 * one sample, which is fine. */
static _Atomic float learned[MAX_OPS];

/* Units of work: an operation or a byte moved, whichever the operator has more of. */
static double work(const struct td_run *run)
{
    double bytes = 64, flops = 0;
    for (int i = 0; i < run->call.n_args; i++)
        if (run->call.arg[i].kind == TD_KIND_tensor)
            bytes += (double)td_nbytes(&run->call.arg[i].tensor);
    for (int i = 0; i < run->call.n_out; i++)
        bytes += (double)td_nbytes(&run->call.out[i]);
    if (run->call.op->flops)
        flops = run->call.op->flops(&run->call);
    return bytes > flops / 8 ? bytes : flops / 8;
}

double td_run_estimate(const struct td_run *run)
{
    float ns = run->handle->index < MAX_OPS
                   ? atomic_load_explicit(&learned[run->handle->index], memory_order_relaxed)
                   : 0;
    return work(run) * (double)(ns > 0 ? ns : GUESS_NS) * 1e-9;
}

/* A thread that was preempted in a kernel reports milliseconds for a microsecond: a sample counts
 * at most twice what is known, or one of them would send the next dozens of small calls to the
 * queue. */
static void learn(const struct td_run *run, int64_t ns)
{
    if (run->handle->index >= MAX_OPS)
        return;
    _Atomic float *slot = &learned[run->handle->index];
    float known = atomic_load_explicit(slot, memory_order_relaxed);
    float old = known > 0 ? known : GUESS_NS;
    float sample = (float)((double)ns / work(run) * run->call.threads);
    float step =
        sample < old ? (sample - old) / 4 : ((sample < 2 * old ? sample : 2 * old) - old) / 16;
    atomic_store_explicit(slot, old + step, memory_order_relaxed);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

void td_run_execute(struct td_run *run, void *scratch)
{
    int64_t begin = now_ns();
    char *at = scratch;
    for (int i = 0; i < run->n_casts; i++) {
        size_t bytes = round_up(td_nbytes(&run->call.arg[run->cast[i].arg].tensor));
        cast(run, i, at);
        at += bytes;
    }
    run->call.scratch = at;
    run->impl->run(&run->call);
    learn(run, now_ns() - begin);
}

int td_run_explain(const struct td_run *run, struct td_why *why, int max)
{
    int n = 0;
    bool chosen = false;
    for (const struct td_impl *i = run->call.op->impls; i->run && n < max; i++, n++) {
        const char *no = objection(run, i);
        why[n].impl = i;
        why[n].reason = no ? no : chosen ? "accepted, but a better one stands before it" : "chosen";
        chosen = chosen || !no;
    }
    return n;
}
