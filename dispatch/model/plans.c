/* The plans of a model: which of them serves which call, how many there are, and showing them. */
#include "dispatch/model/plan.h"

#define PLANS 8 /* of a model at a time */

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
    plan->lost = again;
    plan->used = model->clock_;
    if (!again) {
        plan->next = model->plans_;
        model->plans_ = plan;
    }
    pthread_mutex_unlock(&model->lock_);
}

void td_plan_leave(struct td_model *model, struct td_plan *plan)
{
    if (plan->lost) {
        td_plan_free(&plan);
        return;
    }
    pthread_mutex_lock(&model->lock_);
    plan->busy = false;
    if (plan->observed)
        td_model_rest(model);
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
                                   .kernel = s->kernel,
                                   .isa = s->isa,
                                   .with = s->with,
                                   .in_place = plan->of_->value[s->value].over >= 0,
                                   .result = &plan->of_->value[s->value].like,
                                   .ns = plan->of_->busy ? 0 : s->ns};
    return true;
}
