/* The plans of a model: which of them serves which call, how many there are, and showing them. */
#include "dispatch/hash.h"
#include "dispatch/model/plan.h"

#include <string.h>

#define PLANS 8       /* of a model at a time */
#define WORTH 8       /* runs, with which a plan has paid for its recording */
#define PATIENCE 1023 /* calls at most between two recordings */

/* ---- what inputs were like ---- */

/* Types and shapes; and the values of those inputs for which plans are. */
static struct td_seen look_at(const struct td_model *model, const struct td_tensor *inputs,
                              const struct td_model_call *call)
{
    uint64_t h = td_hash((uint64_t)call->threads, (uint64_t)call->node), values = 0;
    for (int i = 0; i < model->n_inputs; i++) {
        const struct td_tensor *t = &inputs[i];
        h = td_hash(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
        for (int d = 0; d < t->rank; d++)
            h = td_hash(h, (uint64_t)t->shape[d]);
        const unsigned char *data = t->data;
        size_t n = model->fixes_ & td_input_bit(i) && td_input_is_small(t) ? td_nbytes(t) : 0;
        for (size_t k = 0; k < n; k++)
            values = td_hash(values + 1, data[k]);
    }
    return (struct td_seen){.shapes = h, .values = values};
}

/* Whether such inputs came before: a plan is for what comes again. Values that are ever new take
 * the places of others that came with such shapes, and leave half of them to other shapes. */
static bool was_seen(struct td_model *model, struct td_seen now)
{
    const int n = sizeof model->seen_ / sizeof *model->seen_;
    struct td_seen *oldest = model->seen_, *alike = NULL;
    int n_alike = 0;
    for (struct td_seen *s = model->seen_; s < model->seen_ + n; s++) {
        bool same = s->at && s->shapes == now.shapes;
        if (same && s->values == now.values)
            return true;
        n_alike += same;
        alike = same && (!alike || s->at < alike->at) ? s : alike;
        oldest = s->at < oldest->at ? s : oldest;
    }
    now.at = model->clock_ + 1;
    *(n_alike < n / 2 ? oldest : alike) = now;
    return false;
}

/* ---- taking and leaving ---- */

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
                  was_seen(model, look_at(model, inputs, call)) && !model->recording_ &&
                  model->clock_ - model->recorded_at_ > (uint64_t)model->patience_;
    if (plan)
        plan->busy = true;
    if (plan || same) {
        struct td_plan *of = plan ? plan : same;
        of->used = model->clock_;
        of->runs++;
    }
    if (wanted) {
        model->recording_ = true;
        model->recorded_at_ = model->clock_;
        model->recorded_++;
    }
    uint64_t fix = model->fixes_;
    pthread_mutex_unlock(&model->lock_);
    if (!wanted)
        return plan;
    plan = td_plan_create(model, inputs, call, fix);
    *is_new = plan;
    if (!plan)
        td_plan_drop(model, NULL, true);
    return plan;
}

void td_plan_leave(struct td_model *model, struct td_plan *plan)
{
    pthread_mutex_lock(&model->lock_);
    plan->busy = false;
    if (plan->observed)
        td_model_rest(model);
    pthread_mutex_unlock(&model->lock_);
}

/* ---- coming and going ---- */

static void be_patient(struct td_model *model)
{
    model->patience_ = 2 * model->patience_ + 1;
    model->patience_ = model->patience_ < PATIENCE ? model->patience_ : PATIENCE;
}

/* The plan that goes for one more, which is that itself where all are at work; NULL: none has to.
 */
static struct td_plan *evict(struct td_model *model, struct td_plan *more)
{
    struct td_plan **oldest = NULL;
    int n = 0;
    for (struct td_plan **at = &model->plans_; *at; at = &(*at)->next, n++)
        if (!(*at)->busy && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    if (n < PLANS || !oldest)
        return n < PLANS ? NULL : more;
    struct td_plan *old = *oldest;
    *oldest = old->next;
    model->evicted_++;
    if (old->runs < WORTH)
        be_patient(model);
    else
        model->patience_ /= 2;
    return old;
}

void td_plan_add(struct td_model *model, struct td_plan *plan)
{
    pthread_mutex_lock(&model->lock_);
    struct td_plan *old = evict(model, plan);
    if (old != plan) {
        plan->used = model->clock_;
        plan->next = model->plans_;
        model->plans_ = plan;
    }
    model->recording_ = false;
    pthread_mutex_unlock(&model->lock_);
    td_plan_free(&old);
}

void td_plan_drop(struct td_model *model, struct td_plan *plan, bool failed)
{
    pthread_mutex_lock(&model->lock_);
    if (failed)
        be_patient(model);
    model->recording_ = false;
    pthread_mutex_unlock(&model->lock_);
    td_plan_free(&plan);
}

void td_plans_fix(struct td_model *model, uint64_t fix, const struct td_tensor *inputs,
                  const struct td_model_call *call)
{
    pthread_mutex_lock(&model->lock_);
    model->fixes_ |= fix;
    was_seen(model, look_at(model, inputs, call)); /* they are recorded when they come again */
    pthread_mutex_unlock(&model->lock_);
}

void td_model_shed(struct td_model *model)
{
    struct td_plan *gone = NULL;
    pthread_mutex_lock(&model->lock_);
    for (struct td_plan **at = &model->plans_; *at;) {
        struct td_plan *plan = *at;
        if (plan->busy) {
            at = &plan->next;
            continue;
        }
        *at = plan->next;
        plan->next = gone;
        gone = plan;
    }
    pthread_mutex_unlock(&model->lock_);
    while (gone) {
        struct td_plan *next = gone->next;
        td_plan_free(&gone);
        gone = next;
    }
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

void td_model_count_plans(struct td_model *model, int *recorded, int *evicted)
{
    pthread_mutex_lock(&model->lock_);
    *recorded = model->recorded_;
    *evicted = model->evicted_;
    pthread_mutex_unlock(&model->lock_);
}

bool td_model_input_decides(struct td_model *model, int i)
{
    pthread_mutex_lock(&model->lock_);
    bool decides = model->fixes_ & td_input_bit(i);
    pthread_mutex_unlock(&model->lock_);
    return decides;
}

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
                                   .compute_type = s->compute_type,
                                   .with = s->with,
                                   .in_place = plan->of_->value[s->value].over >= 0,
                                   .result = &plan->of_->value[s->value].like,
                                   .ns = plan->of_->busy ? 0 : s->ns};
    return true;
}
