/* stream_hints: which tensors are cut along which dimension, as the client says it.
 *
 * A hint is a tree whose leaves are dimensions or null (whole): arrays and objects nest freely.
 * Under a member that has the name of a tensor stands that tensor's leaf; every other leaf belongs
 * to the next tensor, in the order of the call, that has none yet. So ((0, 0), 0), (0, {b: 1}) and
 * {a: 0, b: 1} all say it, as the arguments of the call are nested over there, where here they are
 * flat. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

struct slots { /* the tensors of one side of the call */
    const char *what;
    const char *name[TD_MAX_INPUTS];
    const cJSON *leaf[TD_MAX_INPUTS];
    int n;
};

bool td_streams_is_tensor(const struct td_infer *in, int arg)
{
    return in->args[arg].value.kind == TD_KIND_tensor;
}

/* The name of args[i], which may be given by its position. */
static const char *name_of(const struct td_infer *in, int i)
{
    int position = 0;
    if (in->args[i].name)
        return in->args[i].name;
    for (int k = 0; k < i; k++)
        position += !in->args[k].name;
    return in->run.handle->schema.param[position].name;
}

static bool is_container(const cJSON *hint)
{
    return cJSON_IsArray(hint) || cJSON_IsObject(hint);
}

static int find(const struct slots *slots, const char *name)
{
    for (int i = 0; i < slots->n; i++)
        if (name && td_infer_is_port(slots->name[i], name))
            return i;
    return -1;
}

/* An argument that is no tensor can only be passed whole. */
static bool is_other_argument(const struct td_infer *in, const char *name)
{
    return !in->served && td_schema_find(&in->run.handle->schema, name) >= 0;
}

static int place(struct td_infer *in, struct slots *slots, const cJSON *hint);

static int place_member(struct td_infer *in, struct slots *slots, const cJSON *item)
{
    int i = find(slots, item->string);
    if (i < 0 && cJSON_IsNull(item) && is_other_argument(in, item->string))
        return 0;
    if (i < 0 && is_container(item))
        return place(in, slots, item);
    if (i < 0 || slots->leaf[i])
        return td_problem_set(&in->run.problem, EINVAL,
                              i < 0
                                  ? "stream_hints: %s names a tensor that the call does not have: "
                                    "%.60s"
                                  : "stream_hints: %s names a tensor twice: %.60s",
                              slots->what, item->string);
    slots->leaf[i] = item;
    return 0;
}

static int place(struct td_infer *in, struct slots *slots, const cJSON *hint)
{
    int err = 0, next = 0;
    const cJSON *item;
    if (is_container(hint)) {
        for (item = hint->child; item && !err; item = item->next)
            err = cJSON_IsObject(hint) ? place_member(in, slots, item) : place(in, slots, item);
        return err;
    }
    while (next < slots->n && slots->leaf[next])
        next++;
    if (next == slots->n)
        return td_problem_set(&in->run.problem, EINVAL,
                              "stream_hints: %s names a tensor that the call does not have: it has "
                              "%d",
                              slots->what, slots->n);
    slots->leaf[next] = hint;
    return 0;
}

static int place_all(struct td_infer *in, struct slots *slots, const cJSON *hints)
{
    if (!is_container(hints))
        return td_problem_set(&in->run.problem, EINVAL,
                              "stream_hints: %s must be an object by name or an array",
                              slots->what);
    return place(in, slots, hints);
}

/* The dimension at a leaf; without one, none. rank: -1: not known before the call. */
static int read_leaf(struct td_infer *in, const cJSON *item, const char *who, int rank, int none)
{
    int least = rank < 0 ? 0 : -rank, most = (rank < 0 ? TD_MAX_RANK : rank) - 1;
    if (!item)
        return none;
    if (cJSON_IsNull(item))
        return TD_WHOLE;
    if (!cJSON_IsNumber(item) || item->valuedouble != item->valueint || item->valueint < least ||
        item->valueint > most)
        return td_problem_set(&in->run.problem, EINVAL,
                              "stream_hints: %s: must be null (whole) or a dimension from %d to %d",
                              who, least, most);
    return item->valueint < 0 ? item->valueint + rank : item->valueint;
}

static int read_inputs(struct td_infer *in, const cJSON *hints)
{
    struct td_streams *s = &in->streams;
    struct slots slots = {.what = "inputs"};
    int arg[TD_MAX_INPUTS];
    for (int i = 0; in->served && i < in->served->n_inputs; i++) {
        arg[i] = i;
        slots.name[slots.n++] = in->served->input[i].name;
    }
    for (int i = 0; !in->served && i < in->n_args; i++)
        if (td_streams_is_tensor(in, i)) {
            arg[slots.n] = i;
            slots.name[slots.n++] = name_of(in, i);
        }
    int err = place_all(in, &slots, hints);
    s->batch = -1;
    for (int k = 0; k < slots.n && !err; k++) {
        const struct td_tensor *t =
            in->served ? &in->inputs[arg[k]] : &in->args[arg[k]].value.tensor;
        int dim = read_leaf(in, slots.leaf[k], slots.name[k], t->rank, TD_WHOLE);
        if (dim < TD_OPEN)
            return dim;
        s->in[arg[k]] = (signed char)dim;
        if (dim >= 0 && s->batch < 0)
            s->batch = t->shape[dim];
        else if (dim >= 0 && s->batch != t->shape[dim])
            err = td_problem_set(&in->run.problem, EINVAL,
                                 "stream_hints: %s has %lld rows to be cut, the input before it "
                                 "%lld",
                                 slots.name[k], (long long)t->shape[dim], (long long)s->batch);
    }
    if (!err && s->batch < 0)
        err = td_infer_refuse(&in->run.problem, "stream_hints",
                              "inputs: at least one must have a dimension");
    return err;
}

static int read_outputs(struct td_infer *in, const cJSON *hints)
{
    struct slots slots = {.what = "outputs", .n = in->n_outputs};
    for (int i = 0; i < slots.n; i++)
        slots.name[i] = in->output[i].name;
    int err = place_all(in, &slots, hints);
    for (int i = 0; i < slots.n && !err; i++) {
        int rank = in->served ? in->served->output[i].rank : in->out[i].rank;
        int dim = read_leaf(in, slots.leaf[i], slots.name[i], rank, TD_OPEN);
        if (dim < TD_OPEN)
            return dim;
        in->streams.out[i] = (signed char)dim;
    }
    return err;
}

int td_streams_read_hints(struct td_infer *in)
{
    const cJSON *hints = in->streams.hints, *item;
    const cJSON *inputs = cJSON_GetObjectItemCaseSensitive(hints, "inputs");
    const cJSON *outputs = cJSON_GetObjectItemCaseSensitive(hints, "outputs");
    if (!cJSON_IsObject(hints) || !inputs)
        return td_infer_refuse(&in->run.problem, "stream_hints",
                               "must be an object with inputs and perhaps outputs, such as "
                               "{\"inputs\":{\"self\":0}}");
    cJSON_ArrayForEach(item, hints)
    {
        if (item != inputs && item != outputs)
            return td_infer_refuse(&in->run.problem, "stream_hints",
                                   "has inputs and outputs, and nothing else");
    }
    int err = read_inputs(in, inputs);
    return err || !outputs ? err : read_outputs(in, outputs);
}
