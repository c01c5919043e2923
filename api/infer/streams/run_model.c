/* Running the parts of a model's call, and what their results are together. The runs keep their
 * results until these have been copied to where the client wants them (parts.c), so that
 * joining costs no copy of its own. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdatomic.h>

struct run {
    struct td_infer *in;
    const struct td_stop *stop;
    atomic_int error; /* of the first part that failed, whose sentence is problem */
    struct td_problem problem;
};

static int cut_inputs(const struct td_infer *in, struct td_model_part *part, int index)
{
    const struct td_streams *s = &in->streams;
    int64_t begin, count;
    int n = in->served->n_inputs;
    part->arena = td_arena_create();
    part->inputs =
        part->arena ? td_arena_alloc(part->arena, (size_t)n * sizeof *part->inputs + 1) : NULL;
    if (!part->inputs)
        return -ENOMEM;
    td_split(s->batch, s->parts, index, &begin, &count);
    for (int i = 0; i < n; i++) {
        struct td_tensor *t = &part->inputs[i];
        *t = in->inputs[i];
        if (s->in[i] < 0)
            continue;
        td_streams_rows(s, t, s->in[i], begin, count);
        if (s->in[i] == 0)
            continue;
        if (!(t->data = td_arena_alloc(part->arena, td_nbytes(t) + 1)))
            return -ENOMEM;
        td_streams_copy_rows(&in->inputs[i], s->in[i], begin, count, t->data, false);
    }
    return 0;
}

static void run_part(void *arg, int index, int threads, struct td_worker *worker)
{
    struct run *run = arg;
    const struct td_infer *in = run->in;
    struct td_model_part *part = &in->streams.part[index];
    struct td_model_call call = {.threads = threads,
                                 .node = td_worker_numa_node(worker),
                                 .eager = in->eager,
                                 .stop = run->stop};
    struct td_problem problem = {0};
    int none = 0, err = cut_inputs(in, part, index);
    if (err)
        td_problem_set(&problem, -err, "no memory for a part of the call");
    else
        err = td_model_run(in->served->model, part->inputs, &call, &part->results, &problem);
    if (err && atomic_compare_exchange_strong(&run->error, &none, err))
        run->problem = problem;
}

/* The part's result grows with its rows, as the first one's does. */
static bool grows(const struct td_streams *s, const struct td_tensor *first,
                  const struct td_tensor *t, int part)
{
    int64_t begin, most, count;
    td_split(s->batch, s->parts, 0, &begin, &most);
    td_split(s->batch, s->parts, part, &begin, &count);
    return t->shape[0] * most == first->shape[0] * count;
}

static int join_shapes(struct td_infer *in, int i)
{
    const struct td_streams *s = &in->streams;
    const struct td_tensor *first = td_streams_part_result(s, 0, i);
    struct td_tensor *out = &in->out[i];
    int at = s->out[i] == TD_OPEN ? 0 : s->out[i];
    *out = *first;
    out->data = NULL;
    out->weight = NULL;
    if (s->apart || at == TD_WHOLE)
        return 0;
    bool joins = at < first->rank;
    for (int k = 1; k < s->parts && joins; k++) {
        const struct td_tensor *t = td_streams_part_result(s, k, i);
        joins = t->rank == first->rank && t->dtype == first->dtype;
        for (int d = 0; d < t->rank && joins; d++)
            joins = d == at || t->shape[d] == first->shape[d];
        joins = joins && (s->out[i] != TD_OPEN || grows(s, first, t, k));
        out->shape[at] += joins ? t->shape[at] : 0;
    }
    return joins ? 0
                 : td_problem_set(&in->run.problem, EINVAL,
                                  "streams: the parts' results cannot be joined into %.60s along "
                                  "dimension %d; give stream_hints, or leave streams out",
                                  in->output[i].name, at);
}

int td_streams_run_model(struct td_infer *in, struct td_worker *worker, const struct td_stop *stop)
{
    struct td_streams *s = &in->streams;
    struct run run = {.in = in, .stop = stop};
    s->part = td_arena_zalloc(in->req->arena, (size_t)s->parts * sizeof *s->part);
    if (!s->part || td_streams_each(in, worker, run_part, &run))
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the streams");
    int err = atomic_load(&run.error);
    if (err) {
        in->run.problem = run.problem;
        return err;
    }
    for (int k = 0; k < s->parts; k++) {
        struct td_model_figures figures = td_model_figures(s->part[k].results);
        td_figures_count(&in->figures, figures.isa, figures.compute_type);
        in->figures.calls += figures.calls - 1;
        in->figures.kernel_ns += figures.kernel_ns;
        in->figures.most_bytes += figures.most_bytes;
    }
    for (int i = 0; i < in->n_outputs && !err; i++)
        if (in->output[i].form != TD_FORM_none)
            err = join_shapes(in, i);
    return err;
}
