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
    int groups;       /* of parts; one for each worker that may take part */
    char kernel[64];  /* what the whole call runs on, "simd@AVX2"; "" when none can be named */
    atomic_int error; /* of the first part that failed, whose sentence is problem */
    struct td_problem problem;
};

/* ---- rows of a tensor ---- */

/* Bytes of one row beyond dimension dim, and how many blocks of rows there are before it. */
static size_t row_bytes(const struct td_tensor *t, int dim, int64_t *blocks)
{
    size_t bytes = td_dtype_size(t->dtype);
    *blocks = 1;
    for (int d = 0; d < t->rank; d++) {
        if (d < dim)
            *blocks *= t->shape[d];
        else if (d > dim)
            bytes *= (size_t)t->shape[d];
    }
    return bytes;
}

/* Copies rows [begin, begin + count) of whole along dim out of it into part, or back in. */
static void copy_rows(const struct td_tensor *whole, int dim, int64_t begin, int64_t count,
                      char *part, bool back)
{
    int64_t blocks;
    size_t row = row_bytes(whole, dim, &blocks), size = (size_t)count * row;
    for (int64_t b = 0; b < blocks; b++) {
        char *at = (char *)whole->data + (size_t)(b * whole->shape[dim] + begin) * row;
        char *piece = part + (size_t)b * size;
        memcpy(back ? at : piece, back ? piece : at, size);
    }
}

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
        copy_rows(&in->args[i].value.tensor, in->streams.in[i], part->begin, part->count, t->data,
                  false);
    }
    return 0;
}

static int place_outputs(const struct td_infer *in, struct part *part, int index)
{
    for (int i = 0; i < part->run.call.n_out; i++) {
        struct td_tensor *out = &part->run.call.out[i];
        const struct td_tensor *whole = &in->out[i];
        int64_t blocks;
        int dim = in->streams.out[i];
        if (in->streams.apart)
            td_streams_result(in, i, index, out);
        else if (dim == 0)
            out->data = (char *)whole->data + (size_t)part->begin * row_bytes(whole, 0, &blocks);
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
            copy_rows(&in->out[i], in->streams.out[i], part->begin, part->count,
                      part->run.call.out[i].data, true);
    return 0;
}

static void run_part(struct parts *parts, int index, int threads, const struct td_worker *worker)
{
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

struct range { /* of parts, for the members of a team */
    struct parts *parts;
    struct td_worker *worker;
    int64_t first;
};

static void run_range(void *arg, int64_t begin, int64_t end)
{
    struct range *range = arg;
    for (int64_t i = begin; i < end; i++)
        run_part(range->parts, (int)(range->first + i), 1, range->worker);
}

static void run_group(void *arg, int group, struct td_worker *worker)
{
    struct parts *parts = arg;
    struct range range = {.parts = parts, .worker = worker};
    int64_t count;
    td_split(parts->in->streams.parts, parts->groups, group, &range.first, &count);
    if (count == 1)
        run_part(parts, (int)range.first, td_worker_threads(worker), worker);
    else
        td_parallel(td_worker_threads(worker), count, 1, run_range, &range);
}

int td_streams_run(struct td_infer *in, struct td_worker *worker)
{
    struct parts parts = {.in = in};
    int workers = td_pool_streams(td_worker_pool(worker));
    parts.groups = in->streams.parts < workers ? in->streams.parts : workers;
    if (in->run.impl->run && !in->run.parts)
        snprintf(parts.kernel, sizeof parts.kernel, "%s@%s", in->run.impl->name,
                 td_isa_name(in->run.impl->isa));
    int err = td_worker_share(worker, parts.groups, run_group, &parts);
    if (err)
        return td_problem_set(&in->run.problem, -err, "no memory for the streams");
    err = atomic_load(&parts.error);
    if (err)
        in->run.problem = parts.problem;
    return err;
}
