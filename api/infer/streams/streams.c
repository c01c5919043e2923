/* How a call is cut into parts: what the client asks, and what its operator allows.
 *
 * A part is the same call on some rows of some inputs. Nobody has to say which: inputs that have
 * the first dimension of the first tensor in common are candidates, and of all sets of them the
 * smallest one counts with which a part's results are as many rows of the whole's. So linear's
 * input is cut and its weight is not, even where both have as many rows, and a sum is cut along one
 * dimension but not into one number. Shapes cannot tell that softmax over the first dimension looks
 * at all rows; arguments called dim do. Hints say it where that is not enough.
 *
 * The trial binds of a plan cost microseconds each and touch no data. */
#include "api/infer/call.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_CANDIDATES 5 /* inputs with the same first dimension; sets of them are tried */

bool td_streams_parameter(struct td_infer *in, const cJSON *item)
{
    if (!strcmp(item->string, "streams"))
        in->streams.asked = item;
    else if (!strcmp(item->string, "stream_hints"))
        in->streams.hints = item;
    else if (!strcmp(item->string, "strict_divisible"))
        in->streams.strict = item;
    else if (!strcmp(item->string, "concat_output"))
        in->streams.concat = item;
    else if (!strcmp(item->string, "stream_mode"))
        in->streams.mode = item;
    else
        return false;
    return true;
}

/* ---- parts ---- */

void td_streams_cut(const struct td_infer *in, struct td_named *args, int64_t begin, int64_t count)
{
    memcpy(args, in->args, (size_t)in->n_args * sizeof *args);
    for (int i = 0; i < in->n_args; i++) {
        int dim = in->streams.in[i];
        if (dim >= 0)
            td_streams_rows(&in->streams, &args[i].value.tensor, dim, begin, count);
    }
}

int td_streams_bind(const struct td_infer *in, struct td_run *run, const struct td_named *args,
                    struct td_arena *room)
{
    struct td_options options = in->options;
    options.trace = NULL; /* of the whole call only */
    options.alloc_arg = room;
    struct td_key_scope before =
        td_keys_enter(in->scope.include & ~td_keyset_of(TD_KEY_Tracer), in->scope.exclude);
    int err = td_run_bind(run, in->op, args, in->n_args, &options);
    td_keys_leave(before);
    if (!err && run->call.n_out == 1 && run->call.out[0].dtype != in->out[0].dtype)
        err = td_run_convert(run, in->out[0].dtype);
    return err;
}

/* The dimension in which a part's output is smaller than the whole's, by just the rows left out;
 * TD_WHOLE: in none; TD_OPEN: they do not fit. */
static int joins_at(const struct td_tensor *part, const struct td_tensor *whole, int64_t batch,
                    int64_t count)
{
    int at = TD_WHOLE;
    if (part->rank != whole->rank || part->dtype != whole->dtype)
        return TD_OPEN;
    for (int d = 0; d < whole->rank; d++) {
        if (part->shape[d] == whole->shape[d])
            continue;
        if (at >= 0 || whole->shape[d] != batch || part->shape[d] != count)
            return TD_OPEN;
        at = d;
    }
    return at;
}

/* Rows of the first part, which has as many as any. */
static int64_t most_of(const struct td_streams *s)
{
    int64_t begin, most;
    td_split(s->batch, s->parts, 0, &begin, &most);
    return most;
}

/* Whether parts of count rows give results that can be joined, or stay apart: then their shapes are
 * kept. Open outputs are settled; first_only: at dimension 0. */
static int try_count(struct td_infer *in, int64_t count, bool first_only)
{
    struct td_streams *s = &in->streams;
    const struct td_call *whole = &in->run.call;
    struct td_run *part = td_arena_alloc(in->req->arena, sizeof *part);
    struct td_named *args = td_arena_alloc(in->req->arena, sizeof in->args);
    if (!part || !args)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the streams");
    td_streams_cut(in, args, 0, count);
    int err = td_streams_bind(in, part, args, in->req->arena);
    if (err)
        return td_problem_set(&in->run.problem, -err, "streams: a part of %lld rows is refused: %s",
                              (long long)count, part->problem.text);
    if (part->call.n_out != whole->n_out)
        return td_infer_refuse(&in->run.problem, "streams",
                               "the parts have another number of results");
    for (int i = 0; i < whole->n_out && s->apart; i++)
        s->apart[i].shape_of[count != most_of(s)] = part->call.out[i];
    for (int i = 0; i < whole->n_out && !s->apart; i++) {
        int at = joins_at(&part->call.out[i], &whole->out[i], s->batch, count);
        const char *name = in->output[i].name;
        if (s->out[i] == TD_WHOLE && at == TD_WHOLE)
            continue;
        if (s->out[i] == TD_WHOLE)
            return td_problem_set(
                &in->run.problem, EINVAL,
                "stream_hints: %s: null takes the first part's result, which here "
                "has not the whole's shape",
                name);
        if (at < 0 || (first_only && at) || (s->out[i] != TD_OPEN && s->out[i] != at))
            return td_problem_set(&in->run.problem, EINVAL,
                                  "streams: the parts' results cannot be joined into %s: it does "
                                  "not grow with their rows%s; give stream_hints, or leave streams "
                                  "out",
                                  name, at >= 0 ? " in that dimension" : "");
        s->out[i] = (signed char)at;
    }
    return 0;
}

/* Parts of both sizes there are. */
static int try_parts(struct td_infer *in, bool first_only)
{
    int64_t begin, most, least;
    td_split(in->streams.batch, in->streams.parts, 0, &begin, &most);
    td_split(in->streams.batch, in->streams.parts, in->streams.parts - 1, &begin, &least);
    int err = try_count(in, most, first_only);
    return err || least == most ? err : try_count(in, least, first_only);
}

/* An argument called dim, dims, dim0 that names a dimension which is cut: the operator looks along
 * it, and the parts would not. -EDOM. */
static int check_dims(struct td_infer *in)
{
    const struct td_call *call = &in->run.call;
    int cut = TD_WHOLE, rank = 0;
    for (int i = 0; i < in->n_args && cut < 0; i++)
        if ((cut = in->streams.in[i]) >= 0)
            rank = in->args[i].value.tensor.rank;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        const char *name = in->run.handle->schema.param[i].name;
        int n = v->kind == TD_KIND_int ? 1 : v->kind == TD_KIND_ints ? v->ints.n : 0;
        for (int k = 0; k < n && !strncmp(name, "dim", 3); k++) {
            int64_t dim = v->kind == TD_KIND_int ? v->i : v->ints.v[k];
            if (dim == cut || dim + rank == cut)
                return td_problem_set(&in->run.problem, EDOM,
                                      "streams: %s looks along dimension %d (%s), so it cannot be "
                                      "cut there; give stream_hints, or leave streams out",
                                      in->run.handle->full, cut, name);
        }
    }
    return 0;
}

/* ---- without hints ---- */

static void set_all(struct td_streams *s, int in, int out)
{
    memset(s->in, in, sizeof s->in);
    memset(s->out, out, sizeof s->out);
}

/* The smallest set of candidates with which it goes, into s->in. */
static int try_sets(struct td_infer *in, const int *candidate, int n)
{
    struct td_streams *s = &in->streams;
    int err = -EINVAL;
    for (int size = 1; size <= n && err == -EINVAL; size++)
        for (unsigned set = 1; set < 1u << n && err == -EINVAL; set++) {
            if (__builtin_popcount(set) != size)
                continue;
            set_all(s, TD_WHOLE, TD_OPEN);
            for (int k = 0; k < n; k++)
                if (set >> k & 1)
                    s->in[candidate[k]] = 0;
            err = try_parts(in, true);
            if (!err)
                err = check_dims(in);
        }
    return err;
}

/* Looks for the batch: the first dimension of the first tensor, or, where that is one row, of the
 * next that has more. */
static int find_cut(struct td_infer *in, int wanted)
{
    struct td_streams *s = &in->streams;
    int candidate[MAX_CANDIDATES], n = 0;
    s->batch = 1;
    for (int i = 0; i < in->n_args; i++) {
        const struct td_tensor *t = &in->args[i].value.tensor;
        if (!td_streams_is_tensor(in, i) || !t->rank)
            continue;
        if (!n && !t->shape[0])
            s->batch = 0;
        if (t->shape[0] < 2)
            continue;
        if (!n)
            s->batch = t->shape[0];
        if (t->shape[0] == s->batch && n < MAX_CANDIDATES)
            candidate[n++] = i;
    }
    s->parts = wanted < s->batch ? wanted : (int)s->batch;
    if (s->parts < 2)
        return 0;
    int err = try_sets(in, candidate, n);
    if (err != -EINVAL)
        return err;
    for (int i = 0; i < in->n_args; i++) /* at most one row, and none of its inputs can be cut */
        if (td_streams_is_tensor(in, i) && in->args[i].value.tensor.rank) {
            if (in->args[i].value.tensor.shape[0] > 1)
                break;
            s->batch = in->args[i].value.tensor.shape[0];
            s->parts = 1;
            return 0;
        }
    return td_problem_set(&in->run.problem, EINVAL,
                          "streams: there is nothing to cut: no set of %s's inputs with %lld rows "
                          "gives results with as many; give stream_hints, or leave streams out",
                          in->run.handle->full, (long long)s->batch);
}

/* ---- with hints ---- */

static int follow_hints(struct td_infer *in, int wanted)
{
    struct td_streams *s = &in->streams;
    set_all(s, TD_WHOLE, TD_OPEN);
    int err = td_streams_read_hints(in);
    if (err)
        return err;
    s->parts = wanted < s->batch ? wanted : (int)s->batch;
    if (s->parts < 2)
        return 0;
    if (in->served)
        return td_streams_try_model(in);
    if ((err = check_dims(in)))
        return err;
    return try_parts(in, false);
}

/* ---- the plan ---- */

/* How many streams are asked for, at most one a thread of the pool. */
static int read_streams(struct td_infer *in, int *streams)
{
    const cJSON *asked = in->streams.asked;
    char text[32] = "";
    if (cJSON_IsString(asked))
        snprintf(text, sizeof text, "%s", asked->valuestring);
    else if (cJSON_IsNumber(asked))
        snprintf(text, sizeof text, "%.17g", asked->valuedouble);
    int err = td_streams_parse(text, td_pool_threads(in->pool), streams, in->streams.warning,
                               sizeof in->streams.warning);
    return err ? td_problem_set(&in->run.problem, EINVAL, "%s", in->streams.warning) : 0;
}

/* RT-28: a batch that is no multiple of the streams is refused, where the client wants that; a
 * batch of one row, too, which is not cut. */
static int judge_evenness(struct td_infer *in, int wanted)
{
    const cJSON *strict = in->streams.strict;
    if (strict && !cJSON_IsBool(strict))
        return td_infer_refuse(&in->run.problem, "strict_divisible", "must be true or false");
    if (!cJSON_IsTrue(strict) || wanted < 2 || in->streams.batch % wanted == 0)
        return 0;
    return td_problem_set(&in->run.problem, ERANGE,
                          "strict_divisible: a batch of %lld cannot be shared evenly by %d streams",
                          (long long)in->streams.batch, wanted);
}

/* The parts' results are to stay apart (RT-33): notes what each will be. */
static int keep_apart(struct td_infer *in)
{
    struct td_streams *s = &in->streams;
    if (s->concat && !cJSON_IsBool(s->concat))
        return td_infer_refuse(&in->run.problem, "concat_output", "must be true or false");
    if (!cJSON_IsFalse(s->concat))
        return 0;
    s->apart = td_arena_zalloc(in->req->arena, sizeof *s->apart * (size_t)in->n_outputs + 1);
    if (!s->apart)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the streams");
    for (int i = 0; i < in->n_outputs; i++) {
        s->apart[i].shape_of[0] = s->apart[i].shape_of[1] = in->out[i];
        if (in->output[i].form == TD_FORM_stored || in->output[i].form == TD_FORM_shared)
            return td_infer_refuse(&in->run.problem, "concat_output",
                                   "what is not joined goes back in the reply, to no other place");
    }
    return 0;
}

/* RT-36: every stream computes the whole, which only makes sense to whoever measures. */
static int run_whole(struct td_infer *in, int wanted)
{
    struct td_streams *s = &in->streams;
    if (!cJSON_IsString(s->mode) || strcmp(s->mode->valuestring, "benchmark"))
        return td_infer_refuse(&in->run.problem, "stream_mode", "must be \"benchmark\"");
    if (s->hints || s->strict)
        return td_infer_refuse(&in->run.problem, "stream_mode",
                               "in a benchmark nothing is cut, so neither stream_hints nor "
                               "strict_divisible say anything");
    set_all(s, TD_WHOLE, TD_WHOLE);
    s->batch = s->parts = wanted;
    return 0;
}

static bool mixes_rows(const struct td_call *call)
{
    return call->op->mixes && call->out[0].rank <= call->op->mixes;
}

static int plan(struct td_infer *in, int wanted)
{
    struct td_streams *s = &in->streams;
    if (in->run.call.counted && wanted > 1)
        return td_problem_set(&in->run.problem, EINVAL,
                              "streams: the size of %s's result is known only when it is there, so "
                              "it is not cut; leave streams out",
                              in->run.handle->full);
    if (s->mode)
        return run_whole(in, wanted);
    if (s->hints)
        return follow_hints(in, wanted);
    if (wanted < 2)
        return 0;
    if (in->served)
        return td_streams_cut_model(in, wanted);
    if (mixes_rows(&in->run.call))
        return td_problem_set(&in->run.problem, EINVAL,
                              "streams: what a row of %s's results is made of, shapes do not say; "
                              "give stream_hints, or leave streams out",
                              in->run.handle->full);
    struct td_apart *apart = s->apart;
    s->apart = NULL; /* what is cut is judged by how results would join */
    int err = find_cut(in, wanted);
    s->apart = apart;
    return err || !apart || s->parts < 2 ? err : try_parts(in, true);
}

int td_streams_plan(struct td_infer *in)
{
    struct td_streams *s = &in->streams;
    struct td_runtime_facts facts;
    int wanted = 1;
    s->parts = 1;
    if (!s->asked && (s->hints || s->strict || s->concat || s->mode))
        return td_infer_refuse(&in->run.problem,
                               s->hints    ? "stream_hints"
                               : s->strict ? "strict_divisible"
                               : s->concat ? "concat_output"
                                           : "stream_mode",
                               "belongs to streams, and there are none");
    if (!s->asked)
        return 0;
    if (in->served && (in->served->all_inputs > TD_MAX_INPUTS || in->n_outputs > TD_MAX_INPUTS))
        return td_problem_set(&in->run.problem, EINVAL,
                              "streams: a model with more than %d inputs or outputs is not cut",
                              TD_MAX_INPUTS);
    if (in->eval)
        return td_infer_refuse(&in->run.problem, "streams", "an expression is not cut into parts");
    td_runtime_facts(&facts);
    if (!facts.enabled)
        return td_problem_set(&in->run.problem, ENOSYS,
                              "streams: there are none without bound threads (pin backend none)");
    int err = read_streams(in, &wanted);
    if (!err)
        err = keep_apart(in);
    if (!err)
        err = plan(in, wanted);
    if (!err)
        err = judge_evenness(in, wanted);
    if (s->parts < 1) /* an empty batch */
        s->parts = 1;
    return err == -EDOM ? -EINVAL : err;
}
