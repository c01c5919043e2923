/* The plans of a model: which of them serves which call, how many there are, and showing them. They
 * are kept by what their inputs are like, and bounded by bytes: the one that has not been used for
 * longest leaves first. */
#include "dispatch/choice/hash.h"
#include "dispatch/plan/plan.h"
#include "kernels/loops/fused.h"
#include "kernels/trap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS 1024                     /* of a model at a time, and */
#define PLANS_BYTES ((size_t)64 << 20) /* bytes of them */
#define SEEN 1024   /* calls without a plan that are remembered, where plans are for values */
#define SPARING 16  /* where plans fill their bytes, one in so many calls makes a new one */
#define PATIENCE 64 /* runs that make more plans, before most have to make none */

/* ---- what inputs were like ---- */

static uint64_t hash_shapes(const struct td_model *model, const struct td_tensor *inputs,
                            const struct td_model_call *call)
{
    uint64_t h = td_hash((uint64_t)call->threads, (uint64_t)call->node);
    for (int i = 0; i < model->n_inputs; i++) {
        const struct td_tensor *t = &inputs[i];
        h = td_hash(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
        for (int d = 0; d < t->rank; d++)
            h = td_hash(h, (uint64_t)t->shape[d]);
    }
    return h;
}

/* Of those inputs for whose values plans are. */
static uint64_t hash_values(const struct td_model *model, const struct td_tensor *inputs)
{
    uint64_t values = 0;
    for (int i = 0; i < model->n_inputs && model->fixes_; i++) {
        const struct td_tensor *t = &inputs[i];
        const unsigned char *data = t->data;
        size_t n = model->fixes_ & td_input_bit(i) && td_input_is_small(t) ? td_nbytes(t) : 0;
        for (size_t k = 0; k < n; k++)
            values = td_hash(values + 1, data[k]);
    }
    return values;
}

/* What a plan is found by. */
static uint64_t key_of(const struct td_model *model, const struct td_tensor *inputs,
                       const struct td_model_call *call)
{
    uint64_t shapes = hash_shapes(model, inputs, call);
    return model->fixes_ ? td_hash(shapes, hash_values(model, inputs)) : shapes;
}

/* Whether such values came before: a plan for values is for those that come again. They are
 * remembered until others with that end of their hash come. */
static bool was_seen(struct td_model *model, uint64_t key)
{
    const size_t bytes = SEEN * sizeof *model->seen_;
    if (!model->seen_ && !td_program_take(model, bytes) && !(model->seen_ = calloc(1, bytes)))
        td_program_give(model, bytes);
    if (!model->seen_)
        return false;
    uint64_t *seen = &model->seen_[key % SEEN], before = *seen;
    *seen = key;
    return before == key;
}

/* ---- taking and leaving ---- */

/* Whether a plan is worth its making: one for types and shapes always, one for values when these
 * come again. */
static bool is_worth(struct td_model *model, uint64_t key)
{
    return !model->fixes_ ||
           (was_seen(model, key) && (!model->evicted_ || model->clock_ % SPARING == 0));
}

struct td_plan *td_plan_take(struct td_model *model, const struct td_tensor *inputs,
                             const struct td_model_call *call, bool *is_new)
{
    struct td_plan *plan = NULL, *same = NULL;
    unsigned traps = atomic_load(&td_traps_barred);
    *is_new = false;
    if (atomic_exchange(&model->traps_, traps) != traps)
        td_model_shed(model); /* of rows that may not run any more */
    pthread_mutex_lock(&model->lock_);
    model->clock_++;
    uint64_t key = key_of(model, inputs, call);
    for (struct td_plan *p = model->alike_[key % TD_PLAN_BUCKETS]; p; p = p->alike)
        if (p->key == key && td_plan_is_for(p, inputs, call)) {
            same = p;
            plan = p->busy || *p->refused ? plan : p;
        }
    bool wanted = !plan && !(same && *same->refused) && !model->recording_ && is_worth(model, key);
    if (plan)
        plan->busy = true;
    if (plan || same) {
        struct td_plan *of = plan ? plan : same;
        of->used = model->clock_;
        of->runs++;
    }
    if (wanted) {
        model->recording_ = true;
        model->recorded_++;
    }
    uint64_t fix = model->fixes_;
    pthread_mutex_unlock(&model->lock_);
    if (!wanted)
        return plan;
    plan = td_plan_create(model, inputs, call, fix);
    *is_new = plan;
    if (plan)
        plan->key = key;
    else
        td_plan_drop(model, NULL, inputs, call);
    return plan;
}

/* Of those that come after the first the oldest go where they are too much, and are made again. */
static void prune(struct td_plan *root)
{
    while (root->after && root->held_bytes > PLANS_BYTES / 2) {
        struct td_plan **last = &root->after;
        while ((*last)->beside)
            last = &(*last)->beside;
        td_plan_free(last);
    }
}

void td_plan_leave(struct td_model *model, struct td_plan *root, struct td_path *path)
{
    if (!root->wanted.number) /* the others are to find each other's outputs where they were */
        td_workspace_leave(model, &root->workspace);
    pthread_mutex_lock(&model->lock_);
    bool observed = path->n;
    for (int i = 0; i < path->n; i++)
        observed = observed && path->plan[i]->observed;
    if (*root->refused)
        td_plan_clear(root);
    prune(root);
    root->busy = false;
    if (observed)
        td_model_rest(model);
    pthread_mutex_unlock(&model->lock_);
    free(path->plan);
    *path = (struct td_path){0};
}

/* ---- one after the other ---- */

struct td_plan *td_plan_next(struct td_plan *plan, const struct td_tensor *inputs)
{
    const void *values = td_plan_wanted(plan, inputs);
    struct td_plan *next = plan->after;
    while (next && memcmp(next->values, values, plan->wanted.bytes) != 0)
        next = next->beside;
    return next;
}

bool td_plan_begin_more(struct td_model *model, struct td_plan *root)
{
    pthread_mutex_lock(&model->lock_);
    bool may = !model->recording_;
    if (may && ++root->misses > PATIENCE && 2 * root->misses > root->runs) {
        snprintf(root->refused, sizeof root->refused,
                 "what is computed depends on values that are ever new");
        may = false;
    }
    if (may)
        model->recording_ = root->grows = true;
    pthread_mutex_unlock(&model->lock_);
    return may;
}

void td_plan_end_more(struct td_model *model, struct td_plan *root, const char *why)
{
    pthread_mutex_lock(&model->lock_);
    model->recording_ = root->grows = false;
    if (*why)
        snprintf(root->refused, sizeof root->refused, "%.199s", why);
    pthread_mutex_unlock(&model->lock_);
}

/* ---- coming and going ---- */

static void take_out(struct td_model *model, struct td_plan **at)
{
    struct td_plan *plan = *at, **alike = &model->alike_[plan->key % TD_PLAN_BUCKETS];
    while (*alike != plan)
        alike = &(*alike)->alike;
    *alike = plan->alike;
    *at = plan->next;
}

/* Takes the idle plan out that has not been used for longest; NULL: all are at work. */
static struct td_plan *take_oldest(struct td_model *model)
{
    struct td_plan **oldest = NULL;
    for (struct td_plan **at = &model->plans_; *at; at = &(*at)->next)
        if (!(*at)->busy && (!oldest || (*at)->used < (*oldest)->used))
            oldest = at;
    struct td_plan *plan = oldest ? *oldest : NULL;
    if (plan)
        take_out(model, oldest);
    return plan;
}

/* Those that have to go for one more. */
static struct td_plan *evict(struct td_model *model)
{
    struct td_plan *gone = NULL, *old;
    size_t bytes = 0;
    int n = 0;
    for (const struct td_plan *p = model->plans_; p; p = p->next, n++)
        bytes += p->held_bytes;
    for (; (n > PLANS || bytes > PLANS_BYTES) && (old = take_oldest(model)); n--) {
        bytes -= old->held_bytes;
        model->evicted_++;
        old->next = gone;
        gone = old;
    }
    return gone;
}

static void free_all(struct td_plan *plans)
{
    while (plans) {
        struct td_plan *next = plans->next;
        td_plan_free(&plans);
        plans = next;
    }
}

void td_plan_add(struct td_model *model, struct td_plan *plan)
{
    pthread_mutex_lock(&model->lock_);
    plan->used = model->clock_;
    plan->runs = 1;
    plan->busy = true; /* so it stays */
    struct td_plan **alike = &model->alike_[plan->key % TD_PLAN_BUCKETS];
    plan->alike = *alike;
    *alike = plan;
    plan->next = model->plans_;
    model->plans_ = plan;
    struct td_plan *gone = evict(model);
    plan->busy = !*plan->refused;
    model->recording_ = false;
    pthread_mutex_unlock(&model->lock_);
    free_all(gone);
}

void td_plan_drop(struct td_model *model, struct td_plan *plan, const struct td_tensor *inputs,
                  const struct td_model_call *call)
{
    pthread_mutex_lock(&model->lock_);
    model->recording_ = false;
    bool more = plan && plan->decides & ~model->fixes_;
    if (more) {
        model->fixes_ |= plan->decides;
        was_seen(model, key_of(model, inputs, call));
    }
    pthread_mutex_unlock(&model->lock_);
    td_plan_free(&plan);
    if (more)
        td_model_shed(model); /* the others are found by less than that */
}

void td_model_shed(struct td_model *model)
{
    struct td_plan *gone = NULL, *old;
    pthread_mutex_lock(&model->lock_);
    while ((old = take_oldest(model))) {
        old->next = gone;
        gone = old;
    }
    pthread_mutex_unlock(&model->lock_);
    free_all(gone);
    td_workspaces_free(model);
}

void td_plans_free(struct td_model *model)
{
    free_all(model->plans_);
    model->plans_ = NULL;
    memset(model->alike_, 0, sizeof model->alike_);
    if (model->seen_)
        td_program_give(model, SEEN * sizeof *model->seen_);
    free(model->seen_);
    model->seen_ = NULL;
    td_workspaces_free(model);
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

struct td_model_plan td_plan_shown(const struct td_plan *p)
{
    return (struct td_model_plan){.refused = p->refused,
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
                                  .turns = p->root->busy ? 0 : p->turns,
                                  .of_ = p};
}

/* A plan, and those that come after it. */
static void visit_tree(const struct td_plan *p, td_model_visit *visit, void *arg)
{
    const struct td_model_plan plan = td_plan_shown(p);
    if (p->by == p) /* else its steps are shown already */
        visit(&plan, arg);
    if (!p->root->grows && !*p->refused)
        for (const struct td_plan *next = p->after; next; next = next->beside)
            visit_tree(next, visit, arg);
}

void td_model_visit_plans(struct td_model *model, td_model_visit *visit, void *arg)
{
    pthread_mutex_lock(&model->lock_);
    for (const struct td_plan *p = model->plans_; p; p = p->next)
        visit_tree(p, visit, arg);
    pthread_mutex_unlock(&model->lock_);
}

bool td_model_plan_step(const struct td_model_plan *plan, int i, struct td_model_step *step)
{
    const struct td_plan_step *s = &plan->of_->step[i];
    if (!s->handle)
        return false;
    const struct td_fusion *fusion = s->with >= 0 ? plan->of_->step[s->with].fusion : NULL;
    const char *why_rows = fusion ? td_fusion_why_rows(fusion) : NULL;
    *step = (struct td_model_step){.node = s->node,
                                   .op = s->handle->full,
                                   .kernel = fusion && !why_rows ? "jit" : s->kernel,
                                   .why_rows = why_rows,
                                   .isa = s->isa,
                                   .compute_type = s->compute_type,
                                   .with = s->with,
                                   .in_place = plan->of_->value[s->value].over >= 0,
                                   .result = &plan->of_->value[s->value].like,
                                   .ns = plan->of_->root->busy ? 0 : s->ns};
    return true;
}
