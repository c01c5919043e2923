/* What a session keeps for a model's inputs: the state that the file has, completed or replaced by
 * what settings say. This file checks parsed settings against the model's ports; the error message
 * names the wrong member. */
#include "api/models/kept.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the names say ---- */

static const char *const derived_names[] = {"none", "position", "mask", "last", "length"};

const char *td_keeping_name(enum td_keeping kind)
{
    static const char *const name[] = {"nothing", "state", "context", "sticky"};
    return name[kind];
}

const char *td_derived_name(enum td_derived derived)
{
    return derived_names[derived];
}

static enum td_derived derived_by_name(const char *input)
{
    static const struct {
        const char *name;
        enum td_derived derived;
    } by_name[] = {{"position_ids", TD_DERIVE_position},
                   {"cache_position", TD_DERIVE_position},
                   {"attention_mask", TD_DERIVE_mask},
                   {"seqlens_k", TD_DERIVE_last},
                   {"total_sequence_length", TD_DERIVE_length}};
    for (size_t i = 0; i < sizeof by_name / sizeof *by_name; i++)
        if (!strcmp(input, by_name[i].name))
            return by_name[i].derived;
    return TD_DERIVE_none;
}

static bool is_whole(const struct td_model_port *port)
{
    return port->dtype & (TD_i64 | TD_i32) && !port->texts;
}

static void by_names(struct td_settling *s, bool with_states)
{
    struct td_served *served = s->served;
    const struct td_model_state *state;
    int n = with_states ? td_model_states(served->model, &state) : 0;
    for (int i = 0; i < n; i++)
        s->at[state[i].input] = (struct td_kept){.name = state[i].name,
                                                 .from = state[i].from,
                                                 .kind = TD_KEEP_state,
                                                 .input = state[i].input,
                                                 .output = state[i].output,
                                                 .grows = state[i].grows,
                                                 .needed = state[i].needed,
                                                 .initial = state[i].initial};
    for (int i = 0; i < served->n_inputs; i++)
        if (!strcmp(served->input[i].name, "input_ids") && is_whole(&served->input[i]))
            served->tokens = i;
    for (int i = 0; i < served->n_outputs; i++)
        if (!strcmp(served->output[i].name, "logits"))
            served->logits = i;
}

/* Inputs that are kept are not derived. */
static void derive_by_names(struct td_settling *s)
{
    struct td_served *served = s->served;
    for (int i = 0; i < served->n_inputs && served->tokens >= 0; i++)
        if (!s->at[i].kind && is_whole(&served->input[i]))
            served->derives[i] = (unsigned char)derived_by_name(served->input[i].name);
}

/* ---- ports ---- */

/* The port of that name, of n, or -1 and the sentence; more: so many have no place in it. */
static int find_port(const struct td_settling *s, const struct td_model_port *port, int n, int more,
                     const cJSON *item, const char *who, const char *kind)
{
    if (!cJSON_IsString(item))
        return td_problem_set(s->problem, 1, "%.60s: must be the name of an %s", who, kind);
    for (int i = 0; i < n + more; i++)
        if (!strcmp(port[i].name, item->valuestring))
            return i;
    const char **names = malloc((size_t)n * sizeof *names + 1);
    for (int i = 0; i < n && names; i++)
        names[i] = port[i].name;
    const char *near = names ? td_nearest(item->valuestring, names, n) : NULL;
    near = near || n != 1 ? near : port->name;
    td_problem_set(s->problem, 1, "%.60s: the model has no %s '%.60s'%s%.60s%s", who, kind,
                   item->valuestring, near ? "; the nearest is '" : "", near ? near : "",
                   near ? "'" : "");
    free(names);
    return -1;
}

int td_settle_input(const struct td_settling *s, const cJSON *item, const char *who)
{
    const struct td_served *served = s->served;
    return find_port(s, served->input, served->n_inputs, served->all_inputs - served->n_inputs,
                     item, who, "input");
}

int td_settle_output(const struct td_settling *s, const cJSON *item, const char *who)
{
    return find_port(s, s->served->output, s->served->n_outputs, 0, item, who, "output");
}

struct td_model_port td_kept_port(const struct td_served *served, const struct td_kept *kept)
{
    struct td_model_port port = served->input[kept->input];
    if (kept->kind == TD_KEEP_context && port.rank >= 0) {
        port.shape[kept->dim] = kept->keep;
        port.symbol[kept->dim] = NULL;
    }
    return port;
}

int td_kept_check(const struct td_served *served, const struct td_kept *kept,
                  const struct td_tensor *t, struct td_problem *problem)
{
    struct td_model_port port = td_kept_port(served, kept);
    int err = td_model_check_port(&port, t, problem);
    if (err || kept->kind != TD_KEEP_context)
        return err;
    return t->rank > kept->dim && t->shape[kept->dim] == kept->keep
               ? 0
               : td_problem_set(problem, EINVAL,
                                "%.80s: must have %lld elements along dimension %d, its context",
                                port.name, (long long)kept->keep, kept->dim);
}

/* ---- sticky, derived, roles ---- */

static int read_sticky(struct td_settling *s, const cJSON *list)
{
    const cJSON *item;
    int err = 0, n = 0;
    if (list && !cJSON_IsArray(list))
        return td_problem_set(s->problem, EINVAL, "sticky: must be a list of inputs, as [\"sr\"]");
    cJSON_ArrayForEach(item, list)
    {
        char who[40];
        snprintf(who, sizeof who, "sticky[%d]", n++);
        int input = err ? -1 : td_settle_input(s, item, who);
        if (input < 0)
            return -EINVAL;
        const struct td_model_port *port = &s->served->input[input];
        struct td_kept *kept = &s->at[input];
        if (kept->kind)
            return td_problem_set(s->problem, EINVAL, "%s: '%.60s' is %s", who, port->name,
                                  kept->kind == TD_KEEP_sticky    ? "there already"
                                  : kept->kind == TD_KEEP_context ? "a context; it cannot be both"
                                                                  : "state; it cannot be both");
        if (port->texts)
            return td_problem_set(s->problem, EINVAL, "%s: '%.60s' is of texts, which are not kept",
                                  who, port->name);
        *kept = (struct td_kept){.name = port->name,
                                 .from = "settings",
                                 .kind = TD_KEEP_sticky,
                                 .input = input,
                                 .output = -1,
                                 .grows = -1};
    }
    return err;
}

static int read_rule(struct td_settling *s, const cJSON *item)
{
    struct td_served *served = s->served;
    struct cJSON name = {.type = cJSON_String, .valuestring = item->string};
    char who[80];
    snprintf(who, sizeof who, "derived.%.60s", item->string);
    int input = td_settle_input(s, &name, "derived"), rule = TD_DERIVE_none;
    if (input < 0)
        return -EINVAL;
    const struct td_model_port *port = &served->input[input];
    while (rule <= TD_DERIVE_length &&
           !(cJSON_IsString(item) && !strcmp(item->valuestring, derived_names[rule])))
        rule++;
    if (rule > TD_DERIVE_length)
        return td_problem_set(s->problem, EINVAL,
                              "%s: must be \"position\", \"mask\", \"last\", \"length\" or "
                              "\"none\"",
                              who);
    if (rule && s->at[input].kind)
        return td_problem_set(s->problem, EINVAL, "%s: '%.60s' is %s; it cannot be both", who,
                              port->name, td_keeping_name(s->at[input].kind));
    if (rule && served->tokens < 0)
        return td_problem_set(s->problem, EINVAL,
                              "%s: follows from the number of tokens, and the model has no "
                              "input_ids; roles.token says which input the tokens are",
                              who);
    if (rule && (!is_whole(port) || input == served->tokens || port->rank > 2))
        return td_problem_set(s->problem, EINVAL,
                              "%s: '%.60s' must be an INT64 or INT32 input of at most two "
                              "dimensions, and not the tokens",
                              who, port->name);
    served->derives[input] = (unsigned char)rule;
    served->derives_said[input] = true;
    return 0;
}

static int read_derived(struct td_settling *s, const cJSON *object)
{
    const cJSON *item;
    int err = 0;
    if (object && !cJSON_IsObject(object))
        return td_problem_set(s->problem, EINVAL,
                              "derived: must be an object, as {\"position_ids\":\"position\"}");
    cJSON_ArrayForEach(item, object)
    {
        if (!err)
            err = read_rule(s, item);
    }
    return err;
}

static int read_roles(struct td_settling *s, const cJSON *object)
{
    static const char *const right[] = {"token", "logits", NULL};
    struct td_served *served = s->served;
    int err = object ? td_json_members(object, "roles", right, s->problem) : 0;
    const cJSON *token = td_json_member(object, "token"),
                *logits = td_json_member(object, "logits");
    if (err)
        return err;
    if (token && (served->tokens = td_settle_input(s, token, "roles.token")) < 0)
        return -EINVAL;
    if (token && (served->tokens >= served->n_inputs || !is_whole(&served->input[served->tokens])))
        return td_problem_set(s->problem, EINVAL,
                              "roles.token: '%.60s' must be an INT64 or INT32 input",
                              served->input[served->tokens].name);
    if (logits && (served->logits = td_settle_output(s, logits, "roles.logits")) < 0)
        return -EINVAL;
    if (logits && served->output[served->logits].dtype & ~TD_f32)
        return td_problem_set(s->problem, EINVAL, "roles.logits: '%.60s' must be FP32",
                              served->output[served->logits].name);
    return 0;
}

/* ---- the whole ---- */

static const char *const members[] = {"state", "sticky", "derived", "roles"};
#define MEMBERS (sizeof members / sizeof *members)

bool td_settings_say(const cJSON *settings)
{
    bool say = false;
    for (size_t i = 0; i < MEMBERS; i++)
        say = say || td_json_member(settings, members[i]);
    return say;
}

static void write_item(struct td_writer *w, const cJSON *item)
{
    const cJSON *child;
    __int128 whole = 0;
    const char *key = NULL;
    if (item->string)
        td_write_key(w, item->string);
    if (cJSON_IsArray(item) || cJSON_IsObject(item)) {
        td_write_open(w, key, cJSON_IsArray(item) ? '[' : '{');
        cJSON_ArrayForEach(child, item)
        {
            write_item(w, child);
        }
        td_write_close(w, cJSON_IsArray(item) ? ']' : '}');
    } else if (cJSON_IsNumber(item) && td_json_whole(item, &whole)) {
        td_write_int(w, key, (int64_t)whole);
    } else {
        td_write_str(w, key, cJSON_IsString(item) ? item->valuestring : NULL);
    }
}

/* As they were said, to be read again for another file. */
static int keep_text(struct td_settling *s, const cJSON *settings)
{
    struct td_served *served = s->served;
    struct td_arena *arena = td_arena_create();
    struct td_writer w;
    int err = arena ? 0 : -ENOMEM;
    if (!err) {
        td_write_init(&w, arena, 256);
        td_write_open(&w, NULL, '{');
        for (size_t i = 0; i < MEMBERS; i++)
            if (td_json_member(settings, members[i]))
                write_item(&w, td_json_member(settings, members[i]));
        td_write_close(&w, '}');
        err = w.failed ? -ENOMEM : served->room->take(served->room, w.length + 1, true);
    }
    if (!err) {
        served->settings = strndup(w.text, w.length);
        if (served->settings)
            served->bytes += w.length + 1;
        else
            served->room->give(served->room, w.length + 1, true);
        err = served->settings ? 0 : -ENOMEM;
    }
    td_arena_destroy(arena);
    return err ? td_tensors_no_room(s->tensors, err, "the settings", s->problem) : 0;
}

/* The arrays, in one block. */
static int make_room(struct td_settling *s)
{
    struct td_served *served = s->served;
    size_t in = (size_t)served->all_inputs, out = (size_t)served->all_outputs;
    size_t bytes = in * (sizeof *served->state + sizeof(int) + 2) + out * sizeof(int) + 1;
    int err = served->room->take(served->room, bytes, true);
    served->state = err ? NULL : calloc(1, bytes);
    if (!err && !served->state) {
        served->room->give(served->room, bytes, true);
        err = -ENOMEM;
    }
    if (err)
        return td_tensors_no_room(s->tensors, err, "the model", s->problem);
    served->bytes += bytes;
    served->state_in = (int *)(served->state + in);
    served->state_out = served->state_in + in;
    served->derives = (unsigned char *)(served->state_out + out);
    served->derives_said = (bool *)(served->derives + in);
    served->n_states = served->all_inputs; /* by input, until they are counted */
    served->tokens = served->logits = -1;
    s->at = served->state;
    return 0;
}

/* Compacts the array: entries that are kept move to its front, in order. */
static void count(struct td_served *served)
{
    int n = 0;
    memset(served->state_in, -1, (size_t)served->all_inputs * sizeof(int));
    memset(served->state_out, -1, (size_t)served->all_outputs * sizeof(int));
    for (int i = 0; i < served->all_inputs; i++) {
        const struct td_kept *kept = &served->state[i];
        if (!kept->kind && kept->owns)
            free(kept->initial.data);
        if (!kept->kind)
            continue;
        served->derives[i] = TD_DERIVE_none;
        served->state_in[i] = n;
        if (kept->output >= 0)
            served->state_out[kept->output] = n;
        served->n_needed += kept->needed;
        served->state[n++] = *kept;
    }
    for (int i = n; i < served->all_inputs; i++)
        served->state[i] = (struct td_kept){.name = NULL};
    served->n_states = n;
}

int td_served_settle(struct td_served *served, const cJSON *settings, struct td_tensors *tensors,
                     size_t most, struct td_problem *problem)
{
    struct td_settling s = {served, NULL, tensors, most, problem};
    const cJSON *state = td_json_member(settings, "state");
    bool none = cJSON_IsString(state) && !strcmp(state->valuestring, "none");
    int err = make_room(&s);
    if (!err && state && !none && !cJSON_IsArray(state))
        err = td_problem_set(problem, EINVAL,
                             "state: must be a list of objects, as "
                             "[{\"input\":\"h\",\"output\":\"hn\"}], or \"none\"");
    if (err)
        return err;
    by_names(&s, !none);
    err = td_settle_state(&s, none ? NULL : state);
    if (!err)
        err = read_sticky(&s, td_json_member(settings, "sticky"));
    if (!err)
        err = read_roles(&s, td_json_member(settings, "roles"));
    if (!err)
        derive_by_names(&s);
    if (!err)
        err = read_derived(&s, td_json_member(settings, "derived"));
    if (!err)
        count(served);
    return err || !td_settings_say(settings) ? err : keep_text(&s, settings);
}

void td_served_unsettle(struct td_served *served)
{
    for (int i = 0; served->state && i < served->n_states; i++)
        if (served->state[i].owns)
            free(served->state[i].initial.data);
    free(served->state);
    free(served->settings);
}
