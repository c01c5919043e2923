/* Frees the plain elements of weights that are only read in packed form. After its first run it is
 * known which weights a plan's steps read packed. Weights that no plan reads plain rest: their
 * plain elements are freed (kernels/weight.h) until a thread walks the program again, which may
 * read any. Restoring them takes a while, in a client's call (30 ms for minilm's 42 MB), so weights
 * stay awake for longer the more shapes a model has had, because another new one is then likely,
 * and for longer each time that they had to be restored. */
#include "dispatch/passes/passes.h"
#include "dispatch/step/build.h"

#include <errno.h>
#include <stdlib.h>

#define CALM 4     /* runs of plans after a walk before weights rest, for each plan */
#define COUNTED 64 /* that was made, but at most for so many; doubled with each wake, */
#define CALMER 20  /* this many times at most */

/* ---- a plan's pins ---- */

struct stored { /* a model's constants that are weights, ordered by address */
    int n;
    const struct td_tensor **tensor;
};

static int by_address(const void *a, const void *b)
{
    const struct td_tensor *const *x = a, *const *y = b;
    uintptr_t m = (uintptr_t)(*x)->data, n = (uintptr_t)(*y)->data;
    return (m > n) - (m < n);
}

static int find_stored(struct stored *stored, const struct td_model *model)
{
    stored->n = 0;
    stored->tensor = calloc((size_t)model->n_constants + 1, sizeof *stored->tensor);
    for (int i = 0; i < model->n_constants && stored->tensor; i++)
        if (model->constant[i].tensor.weight)
            stored->tensor[stored->n++] = &model->constant[i].tensor;
    if (stored->n)
        qsort(stored->tensor, (size_t)stored->n, sizeof *stored->tensor, by_address);
    return stored->tensor ? 0 : -ENOMEM;
}

/* The weight that a constant is or is a view of; NULL: none. */
static struct td_weight *weight_of(const struct stored *stored, const struct td_tensor *t,
                                   uint64_t *visits)
{
    int low = 0, high = stored->n; /* those below low begin at or before t */
    for (; low < high && !t->weight; (*visits)++) {
        int middle = low + (high - low) / 2;
        if ((uintptr_t)stored->tensor[middle]->data <= (uintptr_t)t->data)
            low = middle + 1;
        else
            high = middle;
    }
    const struct td_tensor *c = low ? stored->tensor[low - 1] : NULL;
    return t->weight                                                     ? t->weight
           : c && (uintptr_t)t->data - (uintptr_t)c->data < td_nbytes(c) ? c->weight
                                                                         : NULL;
}

static void pin(const struct stored *stored, struct td_plan *plan, int step,
                const struct td_tensor *t)
{
    struct td_weight *weight = t->data ? weight_of(stored, t, &plan->visits) : NULL;
    if (!weight)
        return;
    td_weight_pin(weight);
    plan->pin[plan->n_pins++] = (struct td_plan_pin){.step = step, .weight = weight};
}

static int count_tensors(const struct td_plan *plan)
{
    int n = plan->n_outputs + plan->n_outer;
    for (int s = 0; s < plan->n_steps; s++)
        for (int i = 0; plan->step[s].handle && i < plan->step[s].n_args; i++)
            n += td_count_tensors_of(&plan->step[s].arg[i].value);
    return n;
}

static void pin_step(const struct stored *stored, struct td_plan *plan, int s)
{
    const struct td_plan_step *step = &plan->step[s];
    for (int i = 0; step->handle && i < step->n_args; i++) {
        const struct td_value *v = &step->arg[i].value;
        if (v->kind == TD_KIND_tensor && !td_step_use(step, i, -1))
            pin(stored, plan, s, &v->tensor);
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            if (!td_step_use(step, i, k))
                pin(stored, plan, s, &v->tensors.v[k]);
    }
}

/* Pins the weight that an outer value's data, which are known, lie in. */
static void pin_outer(const struct stored *stored, struct td_plan *plan,
                      const struct td_plan_value *value)
{
    struct td_tensor t = value->like;
    int i = value->result - plan->n_inputs;
    if (value->step >= 0 || i < 0 || plan->outer[i].of)
        return;
    t.data = plan->outer[i].data;
    pin(stored, plan, -1, &t);
}

int td_plan_pin(const struct td_model *model, struct td_plan *plan)
{
    size_t n = (size_t)count_tensors(plan) + 1;
    struct stored stored;
    int err = find_stored(&stored, model);
    plan->pin = td_arena_alloc(plan->arena, sizeof *plan->pin * n);
    err = plan->pin ? err : -ENOMEM;
    for (int s = 0; s < plan->n_steps && !err; s++)
        pin_step(&stored, plan, s);
    for (int i = 0; i < plan->n_outputs && !err; i++)
        if (plan->output[i].value < 0)
            pin(&stored, plan, -1, &plan->output[i].tensor);
    for (int i = 0; i < plan->n_values && !err; i++)
        pin_outer(&stored, plan, &plan->value[i]);
    free(stored.tensor);
    return err;
}

/* Whether the step of pin i reads the weight through one argument only. Pins are in the order of
 * steps. */
static bool reads_once(const struct td_plan *plan, int i)
{
    const struct td_plan_pin *p = plan->pin;
    int n = 0, k = i;
    while (k > 0 && p[k - 1].step == p[i].step)
        k--;
    for (; k < plan->n_pins && p[k].step == p[i].step; k++)
        n += p[k].weight == p[i].weight;
    return n == 1;
}

void td_plan_unpin_taken(struct td_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_pins; i++) {
        struct td_plan_pin *p = &plan->pin[i];
        const struct td_plan_step *step = p->step < 0 ? NULL : &plan->step[p->step];
        p->packed = step && step->alone && step->taken == p->weight && reads_once(plan, i);
    }
    for (int i = 0; i < plan->n_pins; i++)
        if (plan->pin[i].packed)
            td_weight_unpin(plan->pin[i].weight);
        else
            plan->pin[n++] = plan->pin[i];
    plan->n_pins = n;
    plan->observed = true;
}

void td_plan_unpin(struct td_plan *plan)
{
    while (plan->n_pins)
        td_weight_unpin(plan->pin[--plan->n_pins].weight);
}

/* ---- a model's weights ---- */

static void each_weight(struct td_model *model, void (*visit)(struct td_weight *weight))
{
    for (int i = 0; i < model->n_constants; i++)
        if (model->constant[i].weight)
            visit(model->constant[i].weight);
    for (int b = 0; b < TD_DERIVED_BUCKETS; b++)
        for (struct td_derived *d = model->derived_[b]; d; d = d->next)
            for (int i = 0; i < 2; i++)
                if (d->weight[i])
                    visit(d->weight[i]);
}

static void wake(struct td_weight *weight)
{
    td_weight_pin(weight);
    td_weight_unpin(weight);
}

void td_model_wake(struct td_model *model)
{
    pthread_mutex_lock(&model->lock_);
    model->walks_++;
    model->calm_ = 0;
    if (model->rests_) {
        each_weight(model, wake);
        model->rests_ = false;
        model->wakes_ += model->wakes_ < CALMER;
    }
    pthread_mutex_unlock(&model->lock_);
}

void td_model_walked(struct td_model *model)
{
    pthread_mutex_lock(&model->lock_);
    model->walks_--;
    pthread_mutex_unlock(&model->lock_);
}

void td_model_rest(struct td_model *model)
{
    int64_t plans = model->recorded_ < COUNTED ? model->recorded_ : COUNTED;
    if (model->walks_ || model->rests_ || ++model->calm_ < plans * CALM << model->wakes_)
        return;
    each_weight(model, td_weight_rest);
    model->rests_ = true;
}
