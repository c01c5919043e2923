/* A session as a file, and back: a .safetensors of its tensors by the states' names, whose metadata
 * say of which model's file it is, and how many steps led there. */
#include "api/sessions/sessions.h"
#include "api/tensors/tensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The contents of state i, also where the session has none of its own yet; NULL: not known. */
static const struct td_tensor *contents_of(const struct td_session_view *view, int i)
{
    const struct td_kept *state = &view->served->state[i];
    if (view->contents)
        return &view->contents->tensor[i];
    return state->initial.data ? &state->initial : NULL;
}

int td_session_file(struct td_request *req, const struct td_session_view *view)
{
    const struct td_served *served = view->served;
    char step[24], position[24];
    int64_t seen = view->contents ? view->contents->position : 0;
    snprintf(step, sizeof step, "%lld", (long long)view->step);
    snprintf(position, sizeof position, "%lld", (long long)seen);
    const char *digest = td_served_digest(served);
    const char *const text[] = {"model", digest, "step", step, "position", position, NULL};
    const char *const without[] = {"model", digest, "step", step, NULL};
    struct td_file_tensor *list =
        td_arena_alloc(req->arena, sizeof *list * (size_t)served->n_states + 1);
    int n = 0;
    for (int i = 0; i < served->n_states && list; i++) {
        const struct td_tensor *t = contents_of(view, i);
        if (!t) { /* it begins where the model does, which a file without tensors says */
            n = 0;
            break;
        }
        list[n++] = (struct td_file_tensor){served->state[i].name, t};
    }
    return list ? td_safetensors_response(req, list, n, seen ? text : without)
                : td_api_problem(req, -ENOMEM, "no memory for the reply");
}

struct reading {
    const struct td_served *served;
    struct td_tensor *to; /* by state; of no type: not there yet */
};

static int add_tensor(void *arg, const char *key, const struct td_tensor *t,
                      struct td_problem *problem)
{
    struct reading *reading = arg;
    const struct td_served *served = reading->served;
    for (int i = 0; i < served->n_states; i++) {
        if (strcmp(served->state[i].name, key) != 0)
            continue;
        reading->to[i] = *t;
        int err = td_check_bools(t, key, problem);
        return err ? err : td_kept_check(served, &served->state[i], t, problem);
    }
    return td_problem_set(problem, EINVAL, "%.80s: is no state of the model", key);
}

/* Whether the file is of this model, or may be of another. */
static int judge_origin(struct td_request *req, const struct td_served *served, bool any,
                        struct td_problem *problem)
{
    const char *model = td_safetensors_text(req, "model");
    if (any || !model || !strcmp(model, td_served_digest(served)))
        return 0;
    return td_problem_set(problem, EBUSY,
                          "the snapshot is of another model's file (SHA-256 %.64s, here it is %s); "
                          "?any=1 takes it where names, types and shapes fit",
                          model, td_served_digest(served));
}

#define MOST (INT64_C(1) << 40) /* tokens and steps that a file may say */

static int64_t number_of(struct td_request *req, const char *key)
{
    const char *text = td_safetensors_text(req, key);
    char *end = NULL;
    errno = 0;
    long long step = text ? strtoll(text, &end, 10) : 0;
    return text && end != text && !*end && !errno && step >= 0 && step < MOST ? step : 0;
}

int td_session_read_file(struct td_request *req, const struct td_served *served, bool any,
                         struct td_contents **contents, int64_t *step, struct td_problem *problem)
{
    struct reading reading = {served, NULL};
    int n = served->n_states, found = 0;
    reading.to = td_arena_zalloc(req->arena, sizeof *reading.to * (size_t)n + 1);
    *contents = NULL;
    int err = reading.to ? td_read_safetensors(req, add_tensor, &reading, problem)
                         : td_problem_set(problem, ENOMEM, "no memory for the snapshot");
    if (!err)
        err = judge_origin(req, served, any, problem);
    for (int i = 0; i < n && !err; i++)
        found += reading.to[i].dtype != TD_DTYPE_none;
    for (int i = 0; i < n && found && !err; i++)
        if (!reading.to[i].dtype)
            err = td_problem_set(problem, EINVAL, "the snapshot has no '%.80s'",
                                 served->state[i].name);
    if (!err)
        *step = number_of(req, "step");
    if (!err && found && td_contents_copy(contents, NULL, reading.to, n))
        err = td_problem_set(problem, ENOMEM, "no memory for the session's state");
    if (!err && *contents)
        (*contents)->position = number_of(req, "position");
    return err;
}
