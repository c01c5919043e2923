/* Several calls over one shape that are computed together, again and again; and with them a
 * reduction of what one of them makes: it asks for elements of its argument, piece by piece, each
 * of which is computed into the first-level cache, or where others read it, and folded there.
 * Compiled once, with base flags. */
#include "kernels/jit/code.h"
#include "kernels/pointwise/walk.h"
#include "kernels/reduce/reduce.h"
#include "kernels/trap.h"

#include <errno.h>
#include <string.h>

struct td_fusion {
    struct td_point_walk walk;
    struct td_point_running running;
    const char *why_rows;
    /* A reduction of the value that is made, and how its kernel would have gone; call NULL: there
     * is none. */
    struct td_fused reduction;
    struct td_reduce_way way;
    int value;
    double flops;           /* of the calls before it */
    td_loop_code *sum_loop; /* a loop that sums up rows of the value; NULL: there is none */
};

/* The operations of all; 0, or what they take together. made: the values that they make. */
static double add_calls(struct td_point_walk *w, const struct td_fused *calls, int n, int threads,
                        int *made)
{
    double flops = 0;
    for (int i = 0; i < n; i++) {
        struct td_point_way way;
        struct td_call *call = calls[i].call;
        int first = w->n_ops;
        call->threads = 0;
        call->scratch = &way;
        calls[i].impl->run(call);
        call->threads = threads;
        flops += call->op->flops(call);
        made[i] = td_point_add_call(w, call, &way, calls[i].of, made);
        for (int k = first; k < w->n_ops; k++)
            w->op[k].impl = calls[i].impl;
    }
    return flops;
}

/* ---- with a reduction ---- */

/* What it reads has a place in each run: where others read it, or in a tile. */
static void add_reduction(struct td_fusion *f, struct td_point_walk *w,
                          const struct td_fused *reduction, int value, int threads)
{
    struct td_call *call = reduction->call;
    void *scratch = call->scratch;
    call->threads = 0;
    call->scratch = &f->way;
    reduction->impl->run(call);
    call->threads = threads;
    call->scratch = scratch;
    f->reduction = *reduction;
    f->value = value;
    /* Any address: it lies in memory, in elements that follow on each other. */
    if (!w->value[value].data)
        w->value[value].data = (char *)f;
}

/* Where the reduction is a sum by rows of the loop's width, there may be one that does both. */
static void generate_sums(struct td_fusion *f, const struct td_point_walk *w, bool inside)
{
    const struct td_call *call = f->reduction.call;
    struct td_point_value value[TD_FUSED_VALUES];
    struct td_point_walk s = *w;
    bool fits = td_reduce_fold(td_reduce_of(call, 0)) == TD_FOLD_sum && f->way.type == TD_f32 &&
                call->arg[0].tensor.dtype == TD_f32 && f->way.run == 256 * (int64_t)w->op[0].unit;
    if (!fits)
        return;
    memcpy(value, w->value, sizeof *value * (size_t)w->n_values);
    value[f->value].data = inside ? NULL : value[f->value].data;
    s.value = value;
    s.summed = &f->value;
    td_point_generate(&s);
    f->sum_loop = s.code;
}

static bool sum_up(void *arg, int64_t at, int64_t n, int64_t rows, int64_t step, float *to)
{
    const struct td_fusion *f = arg;
    struct td_point_walk w = f->walk;
    w.code = f->sum_loop;
    w.summed = &f->value;
    bool done = td_point_run_sums(&w, at, n, rows, step, to);
    td_net_note(f->reduction.impl, f->reduction.call);
    return done;
}

static const void *compute(void *arg, int64_t at, int64_t n, void *room)
{
    const struct td_fusion *f = arg;
    struct td_point_value value[TD_FUSED_VALUES], *to = &value[f->value];
    struct td_point_walk w = f->walk;
    memcpy(value, w.value, sizeof *value * (size_t)w.n_values);
    w.value = value;
    w.cheap = false; /* it is read next, and not to be written past the caches */
    char *made = to->data ? to->data + (size_t)at * to->size : room;
    to->data = made - (size_t)at * to->size;
    (w.code ? td_point_run_code : td_point_run_rows)(&w, at, at + n);
    td_net_note(f->reduction.impl, f->reduction.call);
    return made;
}

static void reduce(void *arg)
{
    struct td_fusion *f = arg;
    struct td_reduce_source source = {compute, f->sum_loop ? sum_up : NULL, f, f->flops};
    td_reduce_computed(f->reduction.call, &f->way, &source);
}

/* ---- all ---- */

struct td_fusion *td_fusion_make(const struct td_fused *calls, int n, int threads, int64_t least,
                                 void *(*alloc)(void *arg, size_t bytes), void *alloc_arg)
{
    struct td_point_value value[TD_FUSED_VALUES];
    struct td_point_op op[TD_FUSED_VALUES];
    struct td_point_walk w = {.value = value, .op = op, .out = &calls[0].call->out[0]};
    struct td_fusion *f = alloc(alloc_arg, sizeof *f), none;
    int made[TD_FUSED_MOST];
    bool reduces = !td_is_pointwise(calls[n - 1].call->op);
    double flops = add_calls(&w, calls, n - reduces, threads, made);
    struct td_fusion *to = f ? f : &none;
    *to = (struct td_fusion){.flops = flops};
    bool inside = reduces && !value[made[calls[n - 1].of[0]]].data;
    if (reduces)
        add_reduction(to, &w, &calls[n - 1], made[calls[n - 1].of[0]], threads);
    struct td_point_running running = td_point_ready(&w, flops, threads);
    for (int k = 0; k < w.n_values && reduces; k++) /* it takes elements row by row */
        value[k].apart = false;
    bool few = td_numel(w.out) < least;
    const char *why_rows = few ? TD_WHY(few) : td_point_generate(&w);
    if (why_rows)
        td_loop_refused(why_rows);
    else if (reduces)
        generate_sums(to, &w, inside);
    if (f) {
        f->walk = w;
        f->running = running;
        f->why_rows = why_rows;
        f->running.walk = &f->walk;
        f->walk.value = alloc(alloc_arg, sizeof *value * (size_t)w.n_values);
        f->walk.op = alloc(alloc_arg, sizeof *op * (size_t)w.n_ops);
    }
    if (!f || !f->walk.value || !f->walk.op)
        return NULL;
    memcpy(f->walk.value, value, sizeof *value * (size_t)w.n_values);
    memcpy(f->walk.op, op, sizeof *op * (size_t)w.n_ops);
    for (int k = 0; k < w.n_values; k++) /* a number stands in its value */
        if (!value[k].place && !value[k].made)
            f->walk.value[k].data = (char *)&f->walk.value[k].number;
    return f;
}

const char *td_fusion_why_rows(const struct td_fusion *f)
{
    return f->why_rows;
}

int td_fusion_loop(const struct td_fusion *f)
{
    td_loop_code *code = f->sum_loop ? f->sum_loop : f->walk.code;
    return code ? td_loop_number(code) : -1;
}

int td_fusion_run(struct td_fusion *f, struct td_problem *problem)
{
    const struct td_point_op *first = f->walk.op;
    const struct td_call *reduction = f->reduction.call;
    for (int k = 0; k < f->walk.n_ops; k++)
        if (td_trap_refuse(first[k].call->op, first[k].impl, problem))
            return -EFAULT;
    if (reduction && td_trap_refuse(reduction->op, f->reduction.impl, problem))
        return -EFAULT;
    for (int k = 0; k < f->walk.n_values; k++)
        if (f->walk.value[k].place)
            f->walk.value[k].data = *f->walk.value[k].place;
    return td_trap_run(first->impl, first->call, reduction ? reduce : td_point_run,
                       reduction ? (void *)f : &f->running, problem);
}
