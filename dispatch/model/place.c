/* Where values lie in a plan's memory: those share bytes that are not wanted at the same time, and
 * a result may take the place of an argument that is wanted no more. */
#include "dispatch/call.h"
#include "dispatch/model/plan.h"

#include <errno.h>
#include <stdlib.h>

/* ---- from when to when ---- */

static size_t room_of(const struct td_plan_value *value)
{
    return td_room_of(td_nbytes(&value->like));
}

/* When a step runs: those that are computed together do so where the last of them stands. */
static int when(const struct td_plan *plan, int step)
{
    return step >= 0 && plan->step[step].with >= 0 ? plan->step[step].with : step;
}

/* From when to when each value is wanted; what only those read that are computed together with its
 * maker needs no memory. */
static void find_lives(struct td_plan *plan)
{
    for (int i = 0; i < plan->n_values; i++) {
        struct td_plan_value *value = &plan->value[i];
        value->first = value->last = when(plan, value->step);
        value->inside = value->step >= 0 && plan->step[value->step].with > value->step;
    }
    for (int s = 0; s < plan->n_steps; s++)
        for (int k = 0; plan->step[s].handle && k < plan->step[s].n_uses; k++) {
            struct td_plan_value *value = &plan->value[plan->step[s].use[k].value];
            int at = when(plan, s);
            value->last = at > value->last ? at : value->last;
            value->inside = value->inside && plan->step[s].with == value->first;
        }
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0) {
            plan->value[plan->output[i].value].last = plan->n_steps;
            plan->value[plan->output[i].value].inside = false;
        }
}

/* ---- in place ---- */

/* Whether the step may make its first result where the value lies: it is the last to read it, and
 * reads it whole, as those do that are computed with it. */
static bool may_overwrite(const struct td_plan *plan, int s, int value)
{
    int last = when(plan, s);
    for (int t = last; t >= 0; t--) {
        const struct td_plan_step *step = &plan->step[t];
        if (t != last && step->handle && step->with != last)
            break;
        for (int k = 0; step->handle && k < step->n_uses; k++) {
            const struct td_plan_use *use = &step->use[k];
            bool whole = use->element < 0 && !use->offset &&
                         step->overwrites >> td_plan_argument(step, use->arg) & 1;
            if (use->value == value && (t > s || !whole))
                return false;
        }
    }
    return true;
}

/* Of what step t reads, the value in whose place step s, which is computed with it, may make its
 * first result, or NULL. */
static struct td_plan_value *find_among(const struct td_plan *plan, int s, int t)
{
    const struct td_plan_step *step = &plan->step[t];
    const struct td_plan_value *result = &plan->value[plan->step[s].value];
    for (int k = 0; step->handle && k < step->n_uses; k++) {
        struct td_plan_value *value = &plan->value[step->use[k].value];
        if (value->step >= 0 && !value->inside && value->last == result->first &&
            td_nbytes(&value->like) == td_nbytes(&result->like) &&
            may_overwrite(plan, s, step->use[k].value))
            return value;
    }
    return NULL;
}

static struct td_plan_value *find_overwritten(const struct td_plan *plan, int s)
{
    struct td_plan_value *value = find_among(plan, s, s);
    int last = plan->step[s].with;
    for (int t = s - 1; last >= 0 && t >= 0 && !value; t--) {
        if (plan->step[t].handle && plan->step[t].with != last)
            break;
        value = find_among(plan, s, t);
    }
    return value;
}

/* Such places go from value to value: the first one's lasts as long as the last. */
static void overwrite(struct td_plan *plan)
{
    for (int i = 0; i < plan->n_values; i++)
        plan->value[i].over = -1;
    for (int s = 0; s < plan->n_steps; s++) {
        struct td_plan_value *result = &plan->value[plan->step[s].value];
        struct td_plan_value *old =
            plan->step[s].handle && !result->inside ? find_overwritten(plan, s) : NULL;
        if (!old)
            continue;
        result->over = old->over < 0 ? (int)(old - plan->value) : old->over;
        plan->value[result->over].last = old->last = result->last;
    }
}

/* ---- places ---- */

static size_t room_over_life(const struct td_plan_value *value)
{
    return room_of(value) * (size_t)(value->last - value->first + 1);
}

/* The larger m comes first; of equals the older one, so that those that die first lie together. */
static int compare(const struct td_plan_value *x, size_t m, const struct td_plan_value *y, size_t n)
{
    return m != n                 ? (m < n) - (m > n)
           : x->first != y->first ? (x->first > y->first) - (x->first < y->first)
                                  : (x > y) - (x < y);
}

static int by_room(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    return compare(*x, room_of(*x), *y, room_of(*y));
}

static int by_room_over_life(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    return compare(*x, room_over_life(*x), *y, room_over_life(*y));
}

/* The lowest place where a value meets none of the others that live when it does; those, n of them,
 * are in the order of their places. */
static size_t find_place(struct td_plan_value *const *others, int n,
                         const struct td_plan_value *value)
{
    size_t at = 0, room = room_of(value);
    for (int i = 0; i < n; i++) {
        const struct td_plan_value *o = others[i];
        if (o->first > value->last || o->last < value->first)
            continue;
        if (o->at >= at + room)
            break;
        if (o->at + room_of(o) > at)
            at = o->at + room_of(o);
    }
    return at;
}

/* Each in the lowest place that is free for its life, in that order: how many bytes they take. */
static size_t place_in_order(struct td_plan_value **value, int n, struct td_plan_value **placed,
                             int (*order)(const void *, const void *))
{
    size_t bytes = 0;
    qsort(value, (size_t)n, sizeof(struct td_plan_value *), order);
    for (int i = 0; i < n; i++) {
        size_t at = value[i]->at = find_place(placed, i, value[i]);
        bytes = at + room_of(value[i]) > bytes ? at + room_of(value[i]) : bytes;
        int k = i;
        for (; k > 0 && at < placed[k - 1]->at; k--)
            placed[k] = placed[k - 1];
        placed[k] = value[i];
    }
    return bytes;
}

/* By two orders, neither of which is always the better one. */
static int place_all(struct td_plan *plan)
{
    struct td_plan_value **own = calloc((size_t)plan->n_values + 1, sizeof *own);
    struct td_plan_value **placed = calloc((size_t)plan->n_values + 1, sizeof *placed);
    bool done = own && placed;
    int n = 0;
    plan->bytes_before = 0;
    for (int i = 0; i < plan->n_values && done; i++) {
        struct td_plan_value *value = &plan->value[i];
        if (value->step < 0 || !plan->step[value->step].handle)
            continue;
        plan->bytes_before += room_of(value);
        own[n] = value;
        n += !value->inside && value->over < 0;
    }
    if (done) {
        size_t other = place_in_order(own, n, placed, by_room_over_life);
        plan->bytes = place_in_order(own, n, placed, by_room);
        if (other < plan->bytes)
            plan->bytes = place_in_order(own, n, placed, by_room_over_life);
    }
    for (int i = 0; i < plan->n_values; i++)
        if (plan->value[i].over >= 0)
            plan->value[i].at = plan->value[plan->value[i].over].at;
    free(own);
    free(placed);
    return done ? 0 : -ENOMEM;
}

int td_plan_place(struct td_plan *plan)
{
    find_lives(plan);
    overwrite(plan);
    return place_all(plan);
}
