/* The cache of a model's plans: finding the plan for a call, eviction, and listings. The key is a
 * hash of the inputs' types and shapes, and of values if plans are for these. The cache is bounded
 * by number and bytes; the least recently used plan is evicted first. */
#include "dispatch/choice/hash.h"
#include "dispatch/plan/plan.h"
#include "kernels/loops/fused.h"
#include "kernels/trap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLANS 1024                         /* in the cache, at most, */
#define PLANS_BYTES ((size_t)64 << 20)     /* and their bytes, */
#define CONSTANT_BYTES ((size_t)256 << 20) /* and those of the constants of */
#define HEAVY_PLANS 4                      /* more than so many plans */
#define SEEN 1024   /* keys of calls without a plan that are remembered, if plans are for values, */
#define WAYS 16     /* in sets of so many, the last ones that came */
#define SPARING 16  /* once plans have been evicted, one in so many calls may make a new one */
#define PATIENCE 64 /* runs that may add plans to a tree; then at most half of all runs may */

/* ---- keys ---- */

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

/* A hash of the values of inputs for whose values plans are. */
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

/* The key of the plan for a call. */
static uint64_t key_of(const struct td_model *model, const struct td_tensor *inputs,
                       const struct td_model_call *call)
{
    uint64_t shapes = hash_shapes(model, inputs, call);
    return model->fixes_ ? td_hash(shapes, hash_values(model, inputs)) : shapes;
}

/* Whether a call with this key was seen before: plans for values are made only for values that
 * repeat. */
static bool was_seen(struct td_model *model, uint64_t key)
{
    const size_t bytes = SEEN * sizeof *model->seen_;
    if (!model->seen_ && !td_program_take(model, bytes) && !(model->seen_ = calloc(1, bytes)))
        td_program_give(model, bytes);
    if (!model->seen_)
        return false;
    uint64_t *set = &model->seen_[key % (SEEN / WAYS) * WAYS];
    int i = 0;
    while (i < WAYS - 1 && set[i] != key)
        i++;
    bool before = set[i] == key;
    memmove(&set[1], &set[0], (size_t)i * sizeof *set);
    set[0] = key;
    return before;
}

/* ---- taking and leaving ---- */

/* Whether making a plan is worth it: always for types and shapes, for values only if they repeat,
 * and then rarely once plans have been evicted. */
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
        td_model_shed(model); /* for they may have rows that are barred now */
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

/* Frees the oldest children of a root, with all below them, while the tree takes too many bytes;
 * they are recorded again when needed. */
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
    if (!root->wanted.number) /* else the plans below find its outputs there */
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

/* ---- trees of plans ---- */

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

/* ---- adding and evicting ---- */

/* Removes the plan from the model's list and its bucket. */
static void take_out(struct td_model *model, struct td_plan **at)
{
    struct td_plan *plan = *at, **alike = &model->alike_[plan->key % TD_PLAN_BUCKETS];
    while (*alike != plan)
        alike = &(*alike)->alike;
    *alike = plan->alike;
    *at = plan->next;
}

/* Removes the least recently used idle plan; NULL: all are running. */
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

/* Removes the plans that exceed the limits, and returns them as a list. */
static struct td_plan *evict(struct td_model *model)
{
    struct td_plan *gone = NULL, *old;
    size_t bytes = 0, constants = 0;
    int n = 0;
    for (const struct td_plan *p = model->plans_; p; p = p->next, n++) {
        bytes += p->held_bytes;
        constants += p->constant_bytes;
    }
    for (; (n > PLANS || bytes > PLANS_BYTES || (constants > CONSTANT_BYTES && n > HEAVY_PLANS)) &&
           (old = take_oldest(model));
         n--) {
        bytes -= old->held_bytes;
        constants -= old->constant_bytes;
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
    plan->busy = true; /* so that it is not evicted */
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
        td_model_shed(model); /* the keys of the other plans lack these values */
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
                                  .turns = p->turns,
                                  .of_ = p};
}

/* Visits a plan and those below it. */
static void visit_tree(const struct td_plan *p, td_model_visit *visit, void *arg)
{
    const struct td_model_plan plan = td_plan_shown(p);
    if (p->by == p) /* else the plan that it shares steps with is shown */
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
                                   .rounding = td_step_rounding(s->made),
                                   .with = s->with,
                                   .in_place = plan->of_->value[s->value].over >= 0,
                                   .result = &plan->of_->value[s->value].like,
                                   .work = s->with < 0 || s->with == i ? td_plan_work(plan->of_, i)
                                                                       : (struct td_work){0, 0},
                                   .ns = s->ns};
    return true;
}
