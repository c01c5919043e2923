/* Running the parts of a call that streams.c has planned.
 *
 * A pool with several streams gives each of its workers an equal share of the parts, and whoever
 * has time takes the next share, so that none is waited for that has not begun: a call can never
 * wait for itself (pools/share.c). A worker with one part uses its whole team for it; one with
 * several runs them side by side, each on one thread of the team. Inputs and outputs cut along
 * dimension 0 are views, others are copied. A part has an arena of its own, since several allocate
 * at a time. All parts run the kernel that the whole call would, wherever it takes them. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct parts {
    struct td_infer *in;
    char kernel[64];  /* what the whole call runs on, "simd@AVX2"; "" when none can be named */
    atomic_int error; /* of the first part that failed, whose sentence is problem */
    struct td_problem problem;
};

/* ---- one part ---- */

struct part {
    struct td_run run;
    struct td_named args[TD_MAX_INPUTS];
    struct td_arena *arena;
    int64_t begin, count;
};

static int no_memory(struct part *part)
{
    return td_problem_set(&part->run.problem, ENOMEM, "no memory for a part of the call");
}

/* Inputs cut along another dimension than the first are copied. */
static int copy_inputs(const struct td_infer *in, struct part *part)
{
    for (int i = 0; i < in->n_args; i++) {
        struct td_tensor *t = &part->args[i].value.tensor;
        if (in->streams.in[i] <= 0)
            continue;
        t->data = td_arena_alloc(part->arena, td_nbytes(t) + 1);
        if (!t->data)
            return no_memory(part);
        td_streams_copy_rows(&in->args[i].value.tensor, in->streams.in[i], part->begin, part->count,
                             t->data, false);
    }
    return 0;
}

static int place_outputs(const struct td_infer *in, struct part *part, int index)
{
    for (int i = 0; i < part->run.call.n_out; i++) {
        struct td_tensor *out = &part->run.call.out[i];
        const struct td_tensor *whole = &in->out[i];
        int dim = in->streams.out[i];
        if (in->streams.apart)
            td_streams_result(in, i, index, out);
        else if (dim == 0)
            out->data =
                (char *)whole->data + (int64_t)td_nbytes(whole) / in->streams.batch * part->begin;
        else if (dim == TD_WHOLE && index == 0)
            out->data = whole->data;
        else if (!(out->data = td_arena_alloc(part->arena, td_nbytes(out) + 1)))
            return no_memory(part);
    }
    return 0;
}

static int select_kernel(struct parts *parts, struct part *part, int threads, size_t *scratch)
{
    const char *forced = parts->in->forced;
    part->run.call.threads = threads;
    part->run.stop = parts->in->run.stop;
    part->run.forced = forced ? forced : *parts->kernel ? parts->kernel : NULL;
    int err = td_run_select(&part->run, scratch);
    if (err && !forced && part->run.forced) { /* some kernels want a number of rows */
        part->run.forced = NULL;
        err = td_run_select(&part->run, scratch);
    }
    return err;
}

static int compute(struct parts *parts, struct part *part, int index, int threads,
                   const struct td_worker *worker)
{
    const struct td_infer *in = parts->in;
    size_t bytes;
    void *scratch = NULL;
    td_split(in->streams.batch, in->streams.parts, index, &part->begin, &part->count);
    td_streams_cut(in, part->args, part->begin, part->count);
    int err = copy_inputs(in, part);
    if (!err)
        err = td_streams_bind(in, &part->run, part->args, part->arena);
    if (!err)
        err = place_outputs(in, part, index);
    part->run.node = td_worker_numa_node(worker);
    if (!err)
        err = select_kernel(parts, part, threads, &bytes);
    if (!err && bytes && !(scratch = td_arena_alloc(part->arena, bytes)))
        err = no_memory(part);
    if (!err)
        td_run_execute(&part->run, scratch);
    td_run_release(&part->run);
    if (err)
        return err;
    if (part->run.error)
        return part->run.error;
    for (int i = 0; i < part->run.call.n_out; i++)
        if (in->streams.out[i] > 0 && !in->streams.apart)
            td_streams_copy_rows(&in->out[i], in->streams.out[i], part->begin, part->count,
                                 part->run.call.out[i].data, true);
    return 0;
}

static void run_part(void *arg, int index, int threads, struct td_worker *worker)
{
    struct parts *parts = arg;
    struct td_arena *arena = td_arena_create();
    struct part *part = arena ? td_arena_zalloc(arena, sizeof *part) : NULL;
    int none = 0, err = -ENOMEM;
    if (part) {
        part->arena = arena;
        err = compute(parts, part, index, threads, worker);
    }
    if (err && atomic_compare_exchange_strong(&parts->error, &none, err))
        td_problem_set(&parts->problem, -err, "%s",
                       part ? part->run.problem.text : "no memory for a part of the call");
    td_arena_destroy(arena);
}

/* ---- all of them ---- */

struct each {
    const struct td_infer *in;
    td_each_part *run;
    void *arg;
    int groups; /* of parts; one for each worker that may take part */
};

struct range { /* of parts, for the members of a team */
    const struct each *each;
    struct td_worker *worker;
    int64_t first;
};

static void run_range(void *arg, int64_t begin, int64_t end)
{
    struct range *range = arg;
    const struct each *each = range->each;
    for (int64_t i = begin; i < end; i++)
        each->run(each->arg, (int)(range->first + i), 1, range->worker);
}

static void run_group(void *arg, int group, struct td_worker *worker)
{
    const struct each *each = arg;
    struct range range = {.each = each, .worker = worker};
    int64_t count;
    td_split(each->in->streams.parts, each->groups, group, &range.first, &count);
    if (count == 1)
        each->run(each->arg, (int)range.first, td_worker_threads(worker), worker);
    else
        td_parallel(td_worker_threads(worker), count, 1, run_range, &range);
}

int td_streams_each(const struct td_infer *in, struct td_worker *worker, td_each_part *run,
                    void *arg)
{
    int workers = td_pool_streams(td_worker_pool(worker)), parts = in->streams.parts;
    struct each each = {in, run, arg, parts < workers ? parts : workers};
    return td_worker_share(worker, each.groups, run_group, &each);
}

int td_streams_run(struct td_infer *in, struct td_worker *worker)
{
    struct parts parts = {.in = in};
    if (in->run.impl->run && !in->run.parts)
        snprintf(parts.kernel, sizeof parts.kernel, "%s@%s", in->run.impl->name,
                 td_isa_name(in->run.impl->isa));
    int err = td_streams_each(in, worker, run_part, &parts);
    if (err)
        return td_problem_set(&in->run.problem, -err, "no memory for the streams");
    err = atomic_load(&parts.error);
    if (err)
        in->run.problem = parts.problem;
    return err;
}
