/* From recorded steps to what is run again and again: steps are bound, values get places in one
 * piece of memory, where those share bytes that are not wanted at the same time; then a run is a
 * loop over the steps. And which plan of a model serves which call. */
#include "dispatch/model/plan.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS 8 /* of a model at a time */

/* ---- closing ---- */

/* The call's argument behind a step's own. */
static int argument_of(const struct td_plan_step *step, int arg)
{
    const struct td_schema *schema = &step->handle->schema;
    int i = 0;
    if (!step->arg[arg].name)
        return arg;
    while (strcmp(schema->param[i].name, step->arg[arg].name))
        i++;
    return i;
}

static void *alloc(void *arena, size_t bytes)
{
    return td_arena_alloc(arena, bytes);
}

static int bind_step(struct td_plan *plan, struct td_plan_step *step, struct td_problem *problem)
{
    struct td_options options = {.alloc = alloc, .alloc_arg = plan->arena};
    char name[2 * TD_NAME_SIZE + 1];
    const struct td_schema *schema = &step->handle->schema;
    const char *underscore = step->in_place ? "_" : "", *dot = *schema->overload ? "." : "";
    snprintf(name, sizeof name, "%s%s%s%s", schema->name, underscore, dot, schema->overload);
    struct td_run *run = td_arena_alloc(plan->arena, sizeof *run);
    if (!run)
        return td_problem_set(problem, ENOMEM, "no memory for the model's plan");
    int err = td_run_bind(run, name, step->arg, step->n_args, &options);
    run->call.threads = plan->threads;
    run->node = plan->node;
    err = err ? err : td_run_select(run, &step->scratch);
    if (err) {
        *problem = run->problem;
        return err;
    }
    if (step->scratch > plan->scratch)
        plan->scratch = step->scratch;
    step->run = run;
    return 0;
}

static size_t room_of(const struct td_plan_value *value)
{
    return (td_nbytes(&value->like) + 127) & ~(size_t)63; /* 64 bytes may be read beyond the end */
}

/* From which step to which each value is wanted. */
static void find_lives(struct td_plan *plan)
{
    for (int i = 0; i < plan->n_values; i++)
        plan->value[i].last = plan->value[i].step;
    for (int s = 0; s < plan->n_steps; s++)
        for (int k = 0; plan->step[s].handle && k < plan->step[s].n_uses; k++)
            plan->value[plan->step[s].use[k].value].last = s;
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0)
            plan->value[plan->output[i].value].last = plan->n_steps;
}

static int by_size(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    size_t m = td_nbytes(&(*x)->like), n = td_nbytes(&(*y)->like);
    return m == n ? (*x > *y) - (*x < *y) : m < n ? 1 : -1;
}

static int by_place(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

/* The lowest place where a value meets none of the others that live when it does; those, n of them,
 * are in the order of their places. */
static size_t find_place(struct td_plan_value *const *others, int n,
                         const struct td_plan_value *value)
{
    size_t at = 0, room = room_of(value);
    for (int i = 0; i < n; i++) {
        const struct td_plan_value *o = others[i];
        if (o->step > value->last || o->last < value->step)
            continue;
        if (o->at >= at + room)
            break;
        if (o->at + room_of(o) > at)
            at = o->at + room_of(o);
    }
    return at;
}

/* Largest first, each in the lowest place that is free for its life. */
static int place_values(struct td_plan *plan)
{
    struct td_plan_value **sorted = calloc((size_t)plan->n_values + 1, sizeof *sorted);
    struct td_plan_value **placed = calloc((size_t)plan->n_values + 1, sizeof *placed);
    int n = 0;
    plan->bytes = plan->bytes_before = 0;
    for (int i = 0; i < plan->n_values && sorted; i++)
        if (plan->value[i].step >= 0 && plan->step[plan->value[i].step].handle)
            sorted[n++] = &plan->value[i];
    if (sorted && placed)
        qsort(sorted, (size_t)n, sizeof(struct td_plan_value *), by_size);
    for (int i = 0; i < n && placed; i++) {
        struct td_plan_value *value = sorted[i];
        value->at = find_place(placed, i, value);
        plan->bytes_before += room_of(value);
        if (value->at + room_of(value) > plan->bytes)
            plan->bytes = value->at + room_of(value);
        int k = i;
        for (; k > 0 && by_place(&value, &placed[k - 1]) < 0; k--)
            placed[k] = placed[k - 1];
        placed[k] = value;
    }
    bool done = sorted && placed;
    free(sorted);
    free(placed);
    return done ? 0 : -ENOMEM;
}

static void point(const struct td_plan_step *step, const struct td_plan_use *use, void *data)
{
    int arg = argument_of(step, use->arg);
    if (use->element >= 0)
        step->run->call.arg[arg].tensors.v[use->element].data = data;
    else
        td_run_set_input(step->run, arg, data);
}

static void point_steps(struct td_plan *plan)
{
    for (int s = 0; s < plan->n_steps; s++) {
        struct td_plan_step *step = &plan->step[s];
        for (int i = 0; step->handle && i < step->n_outs; i++)
            step->run->call.out[i].data = plan->memory + plan->value[step->value + i].at;
        for (int k = 0; step->handle && k < step->n_uses; k++) {
            const struct td_plan_value *value = &plan->value[step->use[k].value];
            if (value->step >= 0)
                point(step, &step->use[k], plan->memory + value->at + step->use[k].offset);
        }
    }
}

int td_plan_close(struct td_plan *plan, struct td_problem *problem)
{
    int err = 0;
    for (int s = 0; s < plan->n_steps && !err; s++)
        if (plan->step[s].handle)
            err = bind_step(plan, &plan->step[s], problem);
    if (err)
        return err;
    find_lives(plan);
    if (place_values(plan))
        return td_problem_set(problem, ENOMEM, "no memory for the model's plan");
    plan->memory = td_arena_alloc(plan->arena, plan->bytes + plan->scratch + 64);
    if (!plan->memory)
        return td_problem_set(problem, ENOMEM, "no memory for the model's plan");
    point_steps(plan);
    return 0;
}

/* ---- running ---- */

/* Where a value is when the plan runs on these inputs. */
static char *data_of(const struct td_plan *plan, int value, const struct td_tensor *inputs)
{
    const struct td_plan_value *v = &plan->value[value];
    return v->step < 0 ? inputs[v->result].data : (char *)plan->memory + v->at;
}

static int run_step(const struct td_plan *plan, const struct td_plan_step *step,
                    const struct td_tensor *inputs, struct td_problem *problem)
{
    for (int k = 0; k < step->n_uses; k++)
        if (plan->value[step->use[k].value].step < 0)
            point(step, &step->use[k],
                  data_of(plan, step->use[k].value, inputs) + step->use[k].offset);
    td_run_execute(step->run, plan->memory + plan->bytes);
    if (td_stopped())
        return td_problem_set(problem, ETIMEDOUT, "the model was stopped");
    return step->run->error
               ? td_problem_set(problem, -step->run->error, "node '%.100s': %s: %.400s", step->node,
                                step->handle->full, step->run->problem.text)
               : 0;
}

int td_plan_execute(struct td_plan *plan, const struct td_tensor *inputs,
                    struct td_model_figures *figures, struct td_problem *problem)
{
    int err = 0;
    figures->most_bytes = plan->bytes + plan->scratch;
    for (int s = 0; s < plan->n_steps && !err; s++) {
        if (!plan->step[s].handle)
            continue;
        err = run_step(plan, &plan->step[s], inputs, problem);
        figures->calls++;
        figures->kernel_ns += plan->step[s].run->ns;
    }
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0)
            plan->output[i].tensor.data =
                data_of(plan, plan->output[i].value, inputs) + plan->output[i].offset;
    return err;
}

/* ---- which plan ---- */

/* FNV-1a over what the inputs are like. */
static uint64_t hash_of(const struct td_tensor *inputs, int n, const struct td_model_call *call)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (int i = 0; i < n; i++) {
        hash = (hash ^ (uint64_t)inputs[i].dtype) * UINT64_C(1099511628211);
        hash = (hash ^ (uint64_t)inputs[i].rank) * UINT64_C(1099511628211);
        for (int d = 0; d < inputs[i].rank; d++)
            hash = (hash ^ (uint64_t)inputs[i].shape[d]) * UINT64_C(1099511628211);
    }
    return (hash ^ (uint64_t)call->threads) * UINT64_C(1099511628211) + (uint64_t)call->node;
}

/* Whether such inputs came before: a plan is for what comes again. */
static bool was_seen(struct td_model *model, uint64_t hash)
{
    size_t n = sizeof model->seen_ / sizeof *model->seen_;
    for (size_t i = 0; i < n; i++)
        if (model->seen_[i] == hash)
            return true;
    model->seen_[model->clock_ % n] = hash;
    return false;
}

/* Makes room for one more; false: all are at work. */
static bool make_room(struct td_model *model)
{
    struct td_plan **oldest = NULL;
    int n = 0;
    for (struct td_plan **at = &model->plans_; *at; at = &(*at)->next, n++)
        if (!(*at)->busy && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    if (n < PLANS)
        return true;
    if (!oldest)
        return false;
    struct td_plan *old = *oldest;
    *oldest = old->next;
    td_plan_free(&old);
    return true;
}

struct td_plan *td_plan_take(struct td_model *model, const struct td_tensor *inputs,
                             const struct td_model_call *call, bool *is_new)
{
    struct td_plan *plan = NULL, *same = NULL;
    *is_new = false;
    pthread_mutex_lock(&model->lock_);
    model->clock_++;
    for (struct td_plan *p = model->plans_; p; p = p->next)
        if (td_plan_is_for(p, inputs, call)) {
            same = p;
            plan = p->busy || *p->refused ? plan : p;
        }
    bool wanted = !plan && !(same && *same->refused) &&
                  was_seen(model, hash_of(inputs, model->n_inputs, call)) && make_room(model);
    if (plan) {
        plan->busy = true;
        plan->used = model->clock_;
    }
    bool fix = model->fixes_;
    pthread_mutex_unlock(&model->lock_);
    if (!wanted)
        return plan;
    *is_new = true;
    return td_plan_create(inputs, model->n_inputs, call, fix);
}

/* Whether some input is small and whole, and might be fixed. */
static bool may_fix(const struct td_plan *plan)
{
    for (int i = 0; i < plan->n_inputs; i++)
        if (!plan->fixed[i] && !(plan->input[i].dtype & TD_FLOATS))
            return true;
    return false;
}

void td_plan_add(struct td_model *model, struct td_plan *plan)
{
    pthread_mutex_lock(&model->lock_);
    bool again = *plan->refused && !model->fixes_ && may_fix(plan);
    model->fixes_ |= again;
    plan->used = model->clock_;
    if (!again) {
        plan->next = model->plans_;
        model->plans_ = plan;
    }
    pthread_mutex_unlock(&model->lock_);
    if (again)
        td_plan_free(&plan);
}

void td_plan_leave(struct td_model *model, struct td_plan *plan)
{
    pthread_mutex_lock(&model->lock_);
    plan->busy = false;
    pthread_mutex_unlock(&model->lock_);
}

void td_plans_free(struct td_model *model)
{
    while (model->plans_) {
        struct td_plan *plan = model->plans_;
        model->plans_ = plan->next;
        td_plan_free(&plan);
    }
}

/* ---- for listings ---- */

void td_model_visit_plans(struct td_model *model, td_model_visit *visit, void *arg)
{
    pthread_mutex_lock(&model->lock_);
    for (const struct td_plan *p = model->plans_; p; p = p->next) {
        const struct td_model_plan plan = {.refused = p->refused,
                                           .threads = p->threads,
                                           .node = p->node,
                                           .n_inputs = p->n_inputs,
                                           .n_steps = *p->refused ? 0 : p->n_steps,
                                           .n_passes = p->n_passes,
                                           .input = p->input,
                                           .pass = p->pass,
                                           .n_folded = p->n_folded,
                                           .bytes = p->bytes,
                                           .bytes_before = p->bytes_before,
                                           .scratch = p->scratch,
                                           .of_ = p};
        visit(&plan, arg);
    }
    pthread_mutex_unlock(&model->lock_);
}

bool td_model_plan_step(const struct td_model_plan *plan, int i, struct td_model_step *step)
{
    const struct td_plan_step *s = &plan->of_->step[i];
    if (!s->handle)
        return false;
    *step = (struct td_model_step){.node = s->node,
                                   .op = s->handle->full,
                                   .impl = s->run->impl,
                                   .result = &plan->of_->value[s->value].like,
                                   .ns = plan->of_->busy ? 0 : s->run->ns};
    return true;
}
