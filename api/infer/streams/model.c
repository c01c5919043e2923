/* A model's call cut into parts: each is a run of the same model, on the same weights, of some rows
 * of some inputs.
 *
 * What a model computes from which rows nobody knows but who made it: whoever asks for streams says
 * that it treats them one by one. Without hints the batch is the first dimension that the file
 * leaves open, of the first input that has several rows there, and results join along theirs. */
#include "api/infer/call.h"

#include <errno.h>

/* ---- what is cut ---- */

/* Whether the model leaves the first dimension open. */
static bool is_open(const struct td_model_port *port)
{
    return port->rank < 0 || (port->rank > 0 && port->shape[0] < 0);
}

static int judge_part(struct td_infer *in, int part)
{
    int64_t begin, count;
    int n = in->served->n_inputs;
    struct td_tensor *inputs = td_arena_alloc(in->req->arena, (size_t)n * sizeof *inputs + 1);
    struct td_problem why = {0};
    if (!inputs)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the streams");
    td_split(in->streams.batch, in->streams.parts, part, &begin, &count);
    for (int i = 0; i < n; i++) {
        inputs[i] = in->inputs[i];
        if (in->streams.in[i] >= 0)
            td_streams_rows(&in->streams, &inputs[i], in->streams.in[i], begin, count);
    }
    int err = td_model_check(in->served->model, inputs, n, &why);
    return err ? td_problem_set(&in->run.problem, -err,
                                "streams: a part of %lld rows is refused: %s", (long long)count,
                                why.text)
               : 0;
}

int td_streams_try_model(struct td_infer *in)
{
    const struct td_streams *s = &in->streams;
    for (int i = 0; i < in->n_outputs && !s->apart; i++)
        if (in->output[i].form != TD_FORM_none && s->out[i] == TD_OPEN &&
            !is_open(&in->served->output[i]))
            return td_problem_set(&in->run.problem, EINVAL,
                                  "streams: the parts' results cannot be joined into %.60s, whose "
                                  "first dimension is always the same; give stream_hints, or leave "
                                  "streams out",
                                  in->output[i].name);
    int err = judge_part(in, 0);
    return err ? err : judge_part(in, s->parts - 1);
}

int td_streams_cut_model(struct td_infer *in, int wanted)
{
    struct td_streams *s = &in->streams;
    s->batch = 1;
    for (int i = 0; i < in->served->n_inputs; i++) {
        const struct td_tensor *t = &in->inputs[i];
        s->in[i] = TD_WHOLE;
        if (!is_open(&in->served->input[i]) || !t->rank)
            continue;
        if (!t->shape[0] && s->batch == 1)
            s->batch = 0;
        if (t->shape[0] < 2)
            continue;
        if (s->batch > 1 && t->shape[0] != s->batch)
            return td_problem_set(&in->run.problem, EINVAL,
                                  "streams: %.60s has %lld rows and an input before it %lld; give "
                                  "stream_hints, or leave streams out",
                                  in->served->input[i].name, (long long)t->shape[0],
                                  (long long)s->batch);
        s->batch = t->shape[0];
        s->in[i] = 0;
    }
    for (int i = 0; i < in->n_outputs; i++)
        s->out[i] = TD_OPEN;
    s->parts = wanted < s->batch ? wanted : (int)s->batch;
    return s->parts < 2 ? 0 : td_streams_try_model(in);
}
