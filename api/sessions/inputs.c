/* What a session gives a run, and keeps of it: the inputs that the client leaves out are the
 * session's contents, zeros before there are any, or follow from how many tokens it has seen. */
#include "api/sessions/sessions.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct filling {
    const struct td_served *served;
    const struct td_contents *before;
    struct td_tensor *inputs;
    struct td_arena *arena;
    struct td_problem *problem;
};

/* ---- zeros ---- */

/* The size that a name stands for in the client's tensors; -1: none of them has it. */
static int64_t size_called(const struct filling *f, const char *symbol)
{
    for (int i = 0; symbol && i < f->served->n_inputs; i++) {
        const struct td_model_port *port = &f->served->input[i];
        for (int d = 0; f->inputs[i].dtype && d < port->rank; d++)
            if (port->symbol[d] && !strcmp(port->symbol[d], symbol) && d < f->inputs[i].rank)
                return f->inputs[i].shape[d];
    }
    return -1;
}

/* Of the first input that leaves its first dimension open; 1 where none does. */
static int64_t batch_of(const struct filling *f)
{
    for (int i = 0; i < f->served->n_inputs; i++)
        if (f->inputs[i].dtype && f->inputs[i].rank && f->served->input[i].rank > 0 &&
            f->served->input[i].shape[0] < 0)
            return f->inputs[i].shape[0];
    return 1;
}

/* Zeros, of the sizes that the client's tensors have; what grows is empty at first. */
static int begin_zeros(const struct filling *f, const struct td_model_state *state)
{
    const struct td_model_port *port = &f->served->input[state->input];
    struct td_tensor t = {.dtype = port->dtype, .rank = port->rank};
    if (port->rank < 0)
        return td_problem_set(f->problem, EINVAL,
                              "inputs: '%.60s' is missing: the file does not say its shape, so the "
                              "session's first call has to give it",
                              port->name);
    for (int d = 0; d < t.rank; d++) {
        const char *symbol = port->symbol[d];
        int64_t said = size_called(f, symbol);
        bool empty = d == state->grows ||
                     (said < 0 && symbol && (strstr(symbol, "past") || strstr(symbol, "seq")));
        t.shape[d] = port->shape[d] >= 0 ? port->shape[d]
                     : empty             ? 0
                     : said >= 0         ? said
                                         : batch_of(f);
    }
    t.data = td_fits(&t) ? td_arena_zalloc(f->arena, td_nbytes(&t) + 1) : NULL;
    f->inputs[state->input] = t;
    return t.data
               ? 0
               : td_problem_set(f->problem, ENOMEM, "no memory for the state '%.60s'", state->name);
}

/* ---- states ---- */

static int fill_state(const struct filling *f, int i)
{
    const struct td_model_state *state = &f->served->state[i];
    const struct td_model_port *port = &f->served->input[state->input];
    struct td_tensor *to = &f->inputs[state->input];
    bool is_users = !strcmp(state->from, "input");
    if (to->dtype && (is_users || (!f->before && port->rank < 0)))
        return 0; /* the caller's own, given anew; or the first, of a shape that the file has not */
    if (to->dtype)
        return td_problem_set(f->problem, EINVAL,
                              "%.60s: is state, which the session keeps; leave it out", port->name);
    if (!f->before && is_users)
        return td_problem_set(f->problem, EINVAL,
                              "inputs: '%.60s' is missing; the session has not had it yet",
                              port->name);
    if (!f->before && !state->needed)
        return begin_zeros(f, state);
    *to = f->before ? f->before->tensor[i] : state->initial;
    return 0;
}

/* ---- what follows from the tokens ---- */

static const char tokens[] = "input_ids";

static const struct td_tensor *tokens_of(const struct td_served *served,
                                         const struct td_tensor *inputs)
{
    for (int i = 0; i < served->n_inputs; i++)
        if (!strcmp(served->input[i].name, tokens))
            return inputs[i].dtype && inputs[i].rank ? &inputs[i] : NULL;
    return NULL;
}

enum { IS_NONE, IS_POSITION, IS_PLACE, IS_MASK, IS_LAST, IS_TOTAL };

static int kind_of(const char *name)
{
    static const char *const names[] = {
        "",          "position_ids",         "cache_position", "attention_mask",
        "seqlens_k", "total_sequence_length"};
    for (int i = IS_POSITION; i <= IS_TOTAL; i++)
        if (!strcmp(name, names[i]))
            return i;
    return IS_NONE;
}

bool td_session_derives(const struct td_served *served, int input)
{
    bool any = false;
    for (int i = 0; i < served->n_inputs; i++)
        any = any || !strcmp(served->input[i].name, tokens);
    return any && (served->input[input].dtype & (TD_i64 | TD_i32)) &&
           kind_of(served->input[input].name);
}

static void set(const struct td_tensor *t, int64_t i, int64_t value)
{
    if (t->dtype == TD_i64)
        ((int64_t *)t->data)[i] = value;
    else
        ((int32_t *)t->data)[i] = (int32_t)value;
}

/* Of a batch of rows with n tokens each, where so many were before. */
static int derive(const struct filling *f, int input, const struct td_tensor *given)
{
    const struct td_model_port *port = &f->served->input[input];
    int64_t n = given->shape[given->rank - 1], rows = given->rank > 1 ? given->shape[0] : 1;
    int64_t seen = f->before ? f->before->position : 0, total = seen + n;
    int kind = kind_of(port->name);
    struct td_tensor t = {.dtype = port->dtype};
    int64_t length = kind == IS_MASK
                         ? (port->rank == 2 && port->shape[1] >= 0 ? port->shape[1] : total)
                     : kind == IS_LAST || kind == IS_TOTAL ? 1
                                                           : n;
    t.rank = kind == IS_POSITION || kind == IS_MASK ? 2 : kind == IS_TOTAL ? 0 : 1;
    if (port->rank >= 0 && port->rank < t.rank)
        t.rank = port->rank;
    if (t.rank < 2 && kind != IS_LAST)
        rows = 1;
    if (t.rank == 2) {
        t.shape[0] = rows;
        t.shape[1] = length;
    } else if (t.rank == 1) {
        t.shape[0] = rows * length;
    }
    t.data = td_fits(&t) ? td_arena_zalloc(f->arena, td_nbytes(&t) + 8) : NULL;
    if (!t.data)
        return td_problem_set(f->problem, ENOMEM, "no memory for '%.60s'", port->name);
    for (int64_t i = 0; i < td_numel(&t); i++) {
        int64_t at = i % length;
        set(&t, i,
            kind == IS_MASK    ? at < total
            : kind == IS_LAST  ? total - 1
            : kind == IS_TOTAL ? total
                               : seen + at);
    }
    f->inputs[input] = t;
    return 0;
}

/* ---- the whole ---- */

int td_session_fill(const struct td_served *served, const struct td_contents *before,
                    struct td_tensor *inputs, struct td_arena *arena, struct td_problem *problem)
{
    struct filling f = {served, before, inputs, arena, problem};
    const struct td_tensor *given = tokens_of(served, inputs);
    int err = 0;
    for (int i = 0; i < served->n_states && !err; i++)
        err = fill_state(&f, i);
    for (int i = 0; i < served->n_inputs && !err; i++) {
        if (inputs[i].dtype || !td_session_derives(served, i))
            continue;
        err = given ? derive(&f, i, given)
                    : td_problem_set(problem, EINVAL, "inputs: '%s' is missing", tokens);
    }
    return err;
}

int td_session_keep(const struct td_served *served, const struct td_contents *before,
                    const struct td_tensor *inputs, const struct td_tensor *out,
                    struct td_contents **spare, struct td_contents **after,
                    struct td_problem *problem)
{
    const struct td_tensor *given = tokens_of(served, inputs);
    struct td_tensor *to = malloc((size_t)served->n_states * sizeof *to + 1);
    int err = to ? 0 : td_problem_set(problem, ENOMEM, "no memory for the session's state");
    for (int i = 0; i < served->n_states && !err; i++) {
        to[i] = out[served->state[i].output];
        err = td_model_check_state(served->model, &served->state[i], &to[i], problem);
    }
    if (!err && td_contents_copy(after, spare, to, served->n_states))
        err = td_problem_set(problem, ENOMEM, "no memory for the session's state");
    if (!err)
        (*after)->position =
            (before ? before->position : 0) + (given ? given->shape[given->rank - 1] : 0);
    free(to);
    return err;
}
