/* What a session gives a run, and keeps of it: the inputs that the client leaves out are the
 * session's contents, zeros before there are any, or follow from how many tokens it has seen; and a
 * context is put before what the client gives. */
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
static int begin_zeros(const struct filling *f, const struct td_kept *state)
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

/* ---- context ---- */

/* Bytes of the elements behind dimension d of one index there. */
static size_t bytes_behind(const struct td_tensor *t, int d)
{
    size_t bytes = td_dtype_size(t->dtype);
    while (++d < t->rank)
        bytes *= (size_t)t->shape[d];
    return bytes;
}

/* How many times dimension d stands in t. */
static int64_t rows_before(const struct td_tensor *t, int d)
{
    int64_t rows = 1;
    for (int i = 0; i < d; i++)
        rows *= t->shape[i];
    return rows;
}

/* Whether the context, of the tensor before it, goes with what the client gives. */
static int judge_context(const struct filling *f, const struct td_kept *kept,
                         const struct td_tensor *before)
{
    const struct td_model_port *port = &f->served->input[kept->input];
    const struct td_tensor *given = &f->inputs[kept->input];
    int64_t size = port->rank >= 0 ? port->shape[kept->dim] : -1;
    if (given->rank <= kept->dim)
        return td_problem_set(f->problem, EINVAL,
                              "%.60s: has %d dimensions, and the session keeps a context along "
                              "dimension %d",
                              port->name, given->rank, kept->dim);
    if (size >= 0 && given->shape[kept->dim] != size - kept->keep)
        return td_problem_set(f->problem, EINVAL,
                              "%.60s: has %lld along dimension %d; %lld are right, as the session "
                              "puts the %lld that it kept before them",
                              port->name, (long long)given->shape[kept->dim], kept->dim,
                              (long long)(size - kept->keep), (long long)kept->keep);
    for (int d = 0; before && d < given->rank; d++)
        if (d != kept->dim && before->shape[d] != given->shape[d])
            return td_problem_set(f->problem, EINVAL,
                                  "%.60s: has %lld along dimension %d, and what the session kept "
                                  "of it has %lld",
                                  port->name, (long long)given->shape[d], d,
                                  (long long)before->shape[d]);
    return 0;
}

/* The input becomes what was kept of it, or zeros, and behind that what the client gives. */
static int put_context(const struct filling *f, const struct td_kept *kept,
                       const struct td_tensor *before)
{
    const struct td_model_port *port = &f->served->input[kept->input];
    struct td_tensor *given = &f->inputs[kept->input], whole = *given;
    if (!given->dtype)
        return td_problem_set(f->problem, EINVAL, "inputs: '%.60s' is missing", port->name);
    if (given->dtype != port->dtype || (port->rank >= 0 && given->rank != port->rank) ||
        (before && given->rank != before->rank))
        return td_model_check_port(port, given, f->problem);
    int err = judge_context(f, kept, before);
    if (err)
        return err;
    whole.stride = NULL;
    whole.weight = NULL;
    if (__builtin_add_overflow(whole.shape[kept->dim], kept->keep, &whole.shape[kept->dim]))
        whole.shape[kept->dim] = INT64_MAX;
    char *to = td_fits(&whole) ? td_arena_alloc(f->arena, td_nbytes(&whole) + 1) : NULL;
    if (!to)
        return td_problem_set(f->problem, ENOMEM, "no memory for '%.60s' and its context",
                              port->name);
    whole.data = to;
    size_t unit = bytes_behind(given, kept->dim), kept_bytes = (size_t)kept->keep * unit,
           given_bytes = (size_t)given->shape[kept->dim] * unit;
    int64_t rows = td_numel(&whole) ? rows_before(given, kept->dim) : 0;
    for (int64_t i = 0; i < rows; i++) {
        if (before)
            memcpy(to, (char *)before->data + (size_t)i * kept_bytes, kept_bytes);
        else
            memset(to, 0, kept_bytes);
        if (given_bytes)
            memcpy(to + kept_bytes, (char *)given->data + (size_t)i * given_bytes, given_bytes);
        to += kept_bytes + given_bytes;
    }
    *given = whole;
    return 0;
}

/* The end of what a run had; *copy: a block for the caller to free. */
static int take_context(const struct td_kept *kept, const struct td_tensor *from,
                        struct td_tensor *end, void **copy)
{
    size_t unit = bytes_behind(from, kept->dim), kept_bytes = (size_t)kept->keep * unit,
           step = (size_t)from->shape[kept->dim] * unit;
    int64_t rows = rows_before(from, kept->dim);
    *end = *from;
    end->shape[kept->dim] = kept->keep;
    end->data = *copy = malloc(td_nbytes(end) + 1);
    if (!*copy)
        return -ENOMEM;
    for (int64_t i = 0; i < rows && kept_bytes; i++)
        memcpy((char *)end->data + (size_t)i * kept_bytes,
               (char *)from->data + (size_t)(i + 1) * step - kept_bytes, kept_bytes);
    return 0;
}

/* ---- states ---- */

static int fill_state(const struct filling *f, int i)
{
    const struct td_kept *state = &f->served->state[i];
    const struct td_model_port *port = &f->served->input[state->input];
    const struct td_tensor *before = f->before             ? &f->before->tensor[i]
                                     : state->initial.data ? &state->initial
                                                           : NULL;
    struct td_tensor *to = &f->inputs[state->input];
    bool is_users = state->kind == TD_KEEP_sticky || !strcmp(state->from, "input");
    if (state->kind == TD_KEEP_context)
        return put_context(f, state, before);
    if (to->dtype && (is_users || (!before && port->rank < 0)))
        return 0; /* the caller's own, given anew; or the first, of a shape that the file has not */
    if (to->dtype)
        return td_problem_set(f->problem, EINVAL,
                              "%.60s: is state, which the session keeps; leave it out", port->name);
    if (!before && is_users)
        return td_problem_set(f->problem, EINVAL,
                              "inputs: '%.60s' is missing; the session has not had it yet",
                              port->name);
    if (!before && !state->needed)
        return begin_zeros(f, state);
    *to = before ? *before : state->initial;
    return 0;
}

/* ---- what follows from the tokens ---- */

static const struct td_tensor *tokens_of(const struct td_served *served,
                                         const struct td_tensor *inputs)
{
    const struct td_tensor *t = served->tokens < 0 ? NULL : &inputs[served->tokens];
    return t && t->dtype && t->rank ? t : NULL;
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
    enum td_derived kind = f->served->derives[input];
    struct td_tensor t = {.dtype = port->dtype};
    int64_t length = kind == TD_DERIVE_mask
                         ? (port->rank == 2 && port->shape[1] >= 0 ? port->shape[1] : total)
                     : kind == TD_DERIVE_last || kind == TD_DERIVE_length ? 1
                                                                          : n;
    t.rank = kind == TD_DERIVE_mask ? 2 : kind == TD_DERIVE_length ? 0 : 1;
    if (port->rank >= 0 && (kind == TD_DERIVE_position || port->rank < t.rank))
        t.rank = port->rank;
    if (t.rank < 2 && kind != TD_DERIVE_last)
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
            kind == TD_DERIVE_mask     ? at < total
            : kind == TD_DERIVE_last   ? total - 1
            : kind == TD_DERIVE_length ? total
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
        if (inputs[i].dtype || !served->derives[i])
            continue;
        err = given ? derive(&f, i, given)
                    : td_problem_set(problem, EINVAL, "inputs: '%.60s' is missing",
                                     served->input[served->tokens].name);
    }
    return err;
}

/* What stays for state i, to be copied; *copy: to be freed after that. */
static int find_kept(const struct td_served *served, int i, const struct td_tensor *inputs,
                     const struct td_tensor *out, struct td_tensor *to, void **copy,
                     struct td_problem *problem)
{
    const struct td_kept *kept = &served->state[i];
    if (kept->kind == TD_KEEP_context)
        return take_context(kept, &inputs[kept->input], to, copy)
                   ? td_problem_set(problem, ENOMEM, "no memory for the session's context")
                   : 0;
    *to = kept->kind == TD_KEEP_sticky ? inputs[kept->input] : out[kept->output];
    return kept->kind == TD_KEEP_sticky ? 0 : td_kept_check(served, kept, to, problem);
}

int td_session_keep(const struct td_served *served, const struct td_contents *before,
                    const struct td_tensor *inputs, const struct td_tensor *out,
                    struct td_contents **spare, struct td_contents **after,
                    struct td_problem *problem)
{
    const struct td_tensor *given = tokens_of(served, inputs);
    size_t n = (size_t)served->n_states;
    struct td_tensor *to = malloc(n * sizeof *to + 1);
    void **copy = calloc(n + 1, sizeof *copy);
    int err = to && copy ? 0 : td_problem_set(problem, ENOMEM, "no memory for the session's state");
    for (int i = 0; i < served->n_states && !err; i++)
        err = find_kept(served, i, inputs, out, &to[i], &copy[i], problem);
    if (!err && td_contents_copy(after, spare, to, served->n_states))
        err = td_problem_set(problem, ENOMEM, "no memory for the session's state");
    if (!err)
        (*after)->position =
            (before ? before->position : 0) + (given ? given->shape[given->rank - 1] : 0);
    for (size_t i = 0; i < n && copy; i++)
        free(copy[i]);
    free(copy);
    free(to);
    return err;
}
