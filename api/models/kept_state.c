/* What settings say of a model's state: pairs of an input and an output, and contexts. */
#include "api/models/kept.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int read_whole(const struct td_settling *s, const cJSON *item, const char *who,
                      int64_t least, int64_t most, int64_t *value)
{
    __int128 whole;
    if (!cJSON_IsNumber(item) || td_json_is_float(item) || !td_json_whole(item, &whole) ||
        whole < least || whole > most)
        return td_problem_set(s->problem, EINVAL,
                              "%.60s.%s: must be a whole number from %lld to %lld", who,
                              item->string, (long long)least, (long long)most);
    *value = (int64_t)whole;
    return 0;
}

/* A copy of the tensor, or zeros like it, which are the model's from now on. */
static int own_initial(const struct td_settling *s, struct td_kept *kept,
                       const struct td_tensor *from, struct td_weight *weight)
{
    struct td_served *served = s->served;
    size_t bytes = td_nbytes(from);
    int err = served->room->take(served->room, bytes, true);
    void *data = err ? NULL : calloc(1, bytes + 1);
    if (!err && !data)
        served->room->give(served->room, bytes, true);
    if (!data)
        return td_tensors_no_room(s->tensors, err ? err : -ENOMEM, "the settings", s->problem);
    served->bytes += bytes;
    kept->initial = *from;
    kept->initial.data = data;
    kept->initial.weight = NULL;
    kept->owns = true;
    if (weight) {
        td_weight_pin(weight);
        memcpy(data, from->data, bytes);
        td_weight_unpin(weight);
    }
    return 0;
}

static int read_initial(const struct td_settling *s, const cJSON *item, const char *who,
                        struct td_kept *kept)
{
    const cJSON *name = cJSON_IsObject(item) ? td_json_member(item, "tensor") : NULL;
    struct td_problem why;
    if (cJSON_IsString(item) && !strcmp(item->valuestring, "zeros")) {
        struct td_tensor like = kept->initial;
        kept->initial = (struct td_tensor){.data = NULL};
        return kept->needed ? own_initial(s, kept, &like, NULL) : 0;
    }
    if (!cJSON_IsString(name) || name->next || name->prev != name)
        return td_problem_set(s->problem, EINVAL,
                              "%.60s.initial: must be \"zeros\" or {\"tensor\":\"NAME\"}, a stored "
                              "tensor",
                              who);
    struct td_weight *weight = td_tensors_find(s->tensors, name->valuestring);
    if (!weight)
        return td_problem_set(
            s->problem, EINVAL,
            "%.60s.initial: no stored tensor '%.100s'; GET /v1/tensors lists them", who,
            name->valuestring);
    const struct td_tensor *t = td_weight_tensor(weight);
    int err = td_kept_check(s->served, kept, t, &why);
    if (err)
        td_problem_set(s->problem, EINVAL,
                       "%.60s.initial: the tensor '%.100s' does not fit: %.300s", who,
                       name->valuestring, why.text);
    else
        err = own_initial(s, kept, t, weight);
    td_weight_unref(&weight);
    return err;
}

/* {"input":"input","dim":1,"keep":64} */
static int read_context(const struct td_settling *s, const cJSON *item, const char *who, int input,
                        struct td_kept *kept)
{
    const struct td_model_port *port = &s->served->input[input];
    const cJSON *dim = td_json_member(item, "dim"), *keep = td_json_member(item, "keep");
    int64_t d = 0, rank = port->rank >= 0 ? port->rank : TD_MAX_RANK;
    if (!dim || !keep)
        return td_problem_set(s->problem, EINVAL,
                              "%.60s.%s: is missing; a context is said by dim and keep, as in "
                              "{\"input\":\"%.60s\",\"dim\":1,\"keep\":64}",
                              who, dim ? "keep" : "dim", port->name);
    if (!rank)
        return td_problem_set(s->problem, EINVAL, "%.60s.dim: '%.60s' has no dimensions", who,
                              port->name);
    int err = read_whole(s, dim, who, port->rank >= 0 ? -rank : 0, rank - 1, &d);
    *kept = (struct td_kept){.name = port->name,
                             .from = "settings",
                             .kind = TD_KEEP_context,
                             .input = input,
                             .output = -1,
                             .grows = -1,
                             .dim = err ? 0 : (int)(d < 0 ? d + rank : d)};
    if (err || (err = read_whole(s, keep, who, 1, INT_MAX, &kept->keep)))
        return err;
    int64_t size = port->rank >= 0 ? port->shape[kept->dim] : -1;
    if (size >= 0 && kept->keep >= size)
        return td_problem_set(
            s->problem, EINVAL,
            "%.60s.keep: is %lld, and '%.60s' has %lld along dimension %d, of which "
            "some must be new",
            who, (long long)kept->keep, port->name, (long long)size, kept->dim);
    struct td_tensor least = {.dtype = port->dtype, .rank = port->rank >= 0 ? port->rank : 1};
    for (int i = 0; i < least.rank; i++)
        least.shape[i] = port->rank >= 0 && port->shape[i] > 0 ? port->shape[i] : 1;
    least.shape[port->rank >= 0 ? kept->dim : 0] = kept->keep;
    if (!td_fits(&least) || (s->most && td_nbytes(&least) > s->most))
        return td_problem_set(
            s->problem, EINVAL,
            "%.60s.keep: %lld of '%.60s' are more bytes than all sessions may hold "
            "(%zu, session-bytes)",
            who, (long long)kept->keep, port->name, s->most);
    return 0;
}

/* {"input":"state","output":"stateN"} */
static int read_pair(const struct td_settling *s, const cJSON *output, const char *who, int input,
                     struct td_kept *kept)
{
    char name[80];
    const struct td_served *served = s->served;
    snprintf(name, sizeof name, "%s.output", who);
    int to = td_settle_output(s, output, name);
    if (to < 0)
        return -EINVAL;
    *kept = (struct td_kept){.name = served->input[input].name,
                             .from = "settings",
                             .kind = TD_KEEP_state,
                             .input = input,
                             .output = to};
    const char *why = td_model_judge_pair(&served->input[input], &served->output[to], &kept->grows);
    if (why)
        return td_problem_set(s->problem, EINVAL, "%.60s.output: '%.60s' %s '%.60s'", who,
                              served->input[input].name, why, served->output[to].name);
    for (int i = 0; i < served->all_inputs; i++)
        if (i != input && s->at[i].kind == TD_KEEP_state && s->at[i].output == to) {
            if (!strcmp(s->at[i].from, "settings"))
                return td_problem_set(s->problem, EINVAL,
                                      "%.60s.output: '%.60s' is the state of '%.60s' already", who,
                                      served->output[to].name, served->input[i].name);
            s->at[i].kind = TD_KEEP_none; /* as its name had it */
        }
    return 0;
}

static int read_entry(const struct td_settling *s, const cJSON *item, int number, bool *said)
{
    static const char *const right[] = {"input", "output", "initial", "dim", "keep", NULL};
    char who[40], name[60];
    snprintf(who, sizeof who, "state[%d]", number);
    snprintf(name, sizeof name, "%s.input", who);
    if (!cJSON_IsObject(item))
        return td_problem_set(s->problem, EINVAL,
                              "%s: must be an object, as {\"input\":\"h\",\"output\":\"hn\"}", who);
    int err = td_json_members(item, who, right, s->problem);
    if (err)
        return err;
    const cJSON *output = td_json_member(item, "output"),
                *initial = td_json_member(item, "initial");
    bool context = td_json_member(item, "dim") || td_json_member(item, "keep");
    int input = td_settle_input(s, td_json_member(item, "input"), name);
    if (input < 0)
        return -EINVAL;
    struct td_kept *kept = &s->at[input];
    const struct td_model_port *port = &s->served->input[input];
    if (said[input])
        return td_problem_set(s->problem, EINVAL, "%s: '%.60s' is said twice", name, port->name);
    said[input] = true;
    if (output && context)
        return td_problem_set(s->problem, EINVAL,
                              "%s: has output, as state, and dim or keep, as context; one is right",
                              who);
    if ((output || context) && (kept->needed || input >= s->served->n_inputs))
        return td_problem_set(s->problem, EINVAL,
                              "%s: '%.60s' is a tensor of the file that it writes itself; initial "
                              "alone can be said of it",
                              who, port->name);
    if ((output || context) && port->texts)
        return td_problem_set(s->problem, EINVAL, "%s: '%.60s' is of texts, which are not kept",
                              name, port->name);
    if (cJSON_IsNull(output)) {
        kept->kind = TD_KEEP_none;
        return initial ? td_problem_set(s->problem, EINVAL,
                                        "%s.initial: '%.60s' is no state, as output is null", who,
                                        port->name)
                       : 0;
    }
    err = context  ? read_context(s, item, who, input, kept)
          : output ? read_pair(s, output, who, input, kept)
                   : 0;
    if (!err && !kept->kind)
        return td_problem_set(s->problem, EINVAL,
                              "%s: '%.60s' is no state by itself; say its output, or dim and keep",
                              who, port->name);
    return err || !initial ? err : read_initial(s, initial, who, kept);
}

int td_settle_state(const struct td_settling *s, const cJSON *list)
{
    const cJSON *item;
    int err = 0, n = 0;
    if (!list || cJSON_IsString(list)) /* "none" */
        return 0;
    bool *said = calloc((size_t)s->served->all_inputs + 1, sizeof *said);
    if (!said)
        return td_problem_set(s->problem, ENOMEM, "no memory for the settings");
    cJSON_ArrayForEach(item, list) if (!err) err = read_entry(s, item, n++, said);
    free(said);
    return err;
}
