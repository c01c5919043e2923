/* Memory planning: the offsets of values in a plan's workspace. Values share bytes if their live
 * ranges do not overlap, and a result may overwrite an argument of which it is the last use. */
#include "dispatch/call/own.h"
#include "dispatch/plan/plan.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MEETS 128 /* overlapping values, at most, between which a value is fitted */

/* ---- live ranges ---- */

static size_t room_of(const struct td_plan_value *value)
{
    return td_room_of(td_nbytes(&value->like));
}

/* When a step runs: a fused group runs at the place of its last step. */
static int when(const struct td_plan *plan, int step)
{
    return step >= 0 && plan->step[step].with >= 0 ? plan->step[step].with : step;
}

/* Finds the live range of each value, and which values need no memory because only steps fused with
 * their producer read them. */
static void find_lives(struct td_plan *plan)
{
    for (int i = 0; i < plan->n_values; i++) {
        struct td_plan_value *value = &plan->value[i];
        assert(value->step < plan->n_steps);
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

/* Whether the step may write its first result over the value: no later step of its group uses it,
 * and the step and the earlier ones of the group use it whole, in arguments that may be
 * overwritten. */
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

/* A value used by step t that step s, of the same group, may overwrite with its first result; or
 * NULL. */
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

/* Finds the results that are computed in place. In a chain of them the first value owns the memory,
 * so its live range is extended to the end of the last. */
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

/* Orders values by decreasing m, n; equal ones by their first step, so that values that die early
 * lie together. */
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

/* A segment tree over ranges of steps: the highest ends of values placed so far. */
struct sky {
    size_t top; /* the highest end of a value that is live in the range */
    size_t all; /* the same of the values that are live in all of it */
};

struct placing {
    struct td_plan *plan;
    int n;                          /* values */
    struct td_plan_value **value;   /* in the order in which they are placed, */
    struct td_plan_value **by_life; /* and ordered by the start of their live ranges */
    int *rank;                      /* by the value's number: its index in by_life */
    int leaves, *last; /* a tree over by_life: the last step of values placed so far; or -1 */
    struct sky *sky;
    struct td_plan_value *met[MEETS + 1]; /* values whose live ranges overlap the present one's */
    int n_met;
};

static int by_life(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    return (*x)->first != (*y)->first ? ((*x)->first > (*y)->first) - ((*x)->first < (*y)->first)
                                      : (*x > *y) - (*x < *y);
}

static int by_place(const void *a, const void *b)
{
    const struct td_plan_value *const *x = a, *const *y = b;
    return ((*x)->at > (*y)->at) - ((*x)->at < (*y)->at);
}

/* Collects in met the placed values that are live at step first or later, among the n first of
 * by_life (which begin before the present value ends) in the tree node's range from low on; at most
 * MEETS + 1. */
static void meet(struct placing *p, int node, int low, int size, int n, int first)
{
    if (low >= n || p->last[node] < first || p->n_met > MEETS)
        return;
    p->plan->visits++;
    if (size == 1) {
        p->met[p->n_met++] = p->by_life[low];
        return;
    }
    meet(p, 2 * node, low, size / 2, n, first);
    meet(p, 2 * node + 1, low + size / 2, size / 2, n, first);
}

/* How many values' live ranges begin at that step or before. */
static int count_begun(const struct placing *p, int step)
{
    int low = 0, high = p->n;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (p->by_life[middle]->first <= step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The highest end of the placed values that are live when v is; raise: also enters v's end. */
static size_t look_up(struct placing *p, int node, int low, int size, const struct td_plan_value *v,
                      bool raise)
{
    struct sky *sky = &p->sky[node];
    size_t end = raise ? v->at + room_of(v) : 0, left, right;
    if (v->last < low || v->first >= low + size)
        return 0;
    p->plan->visits++;
    sky->top = end > sky->top ? end : sky->top;
    if (v->first <= low && v->last >= low + size - 1) {
        sky->all = end > sky->all ? end : sky->all;
        return sky->top;
    }
    left = look_up(p, 2 * node, low, size / 2, v, raise);
    right = look_up(p, 2 * node + 1, low + size / 2, size / 2, v, raise);
    left = left > right ? left : right;
    return left > sky->all ? left : sky->all;
}

/* The lowest offset where the value overlaps no other that is live at the same time; if more than
 * MEETS are, the offset above all of them. */
static size_t find_place(struct placing *p, const struct td_plan_value *value)
{
    size_t at = 0, room = room_of(value);
    p->n_met = 0;
    meet(p, 1, 0, p->leaves, count_begun(p, value->last), value->first);
    if (p->n_met > MEETS)
        return look_up(p, 1, 0, p->leaves, value, false);
    qsort(p->met, (size_t)p->n_met, sizeof(struct td_plan_value *), by_place);
    for (int i = 0; i < p->n_met && p->met[i]->at < at + room; i++)
        if (p->met[i]->at + room_of(p->met[i]) > at)
            at = p->met[i]->at + room_of(p->met[i]);
    return at;
}

/* Places the values in that order, each at the lowest free offset: how many bytes they need. */
static size_t place_in_order(struct placing *p, int (*order)(const void *, const void *))
{
    size_t bytes = 0;
    memset(p->last, -1, 2 * (size_t)p->leaves * sizeof *p->last);
    memset(p->sky, 0, 2 * (size_t)p->leaves * sizeof *p->sky);
    qsort(p->value, (size_t)p->n, sizeof(struct td_plan_value *), order);
    for (int i = 0; i < p->n; i++) {
        struct td_plan_value *v = p->value[i];
        v->at = find_place(p, v);
        bytes = v->at + room_of(v) > bytes ? v->at + room_of(v) : bytes;
        look_up(p, 1, 0, p->leaves, v, true);
        for (int node = p->leaves + p->rank[v - p->plan->value]; node; node /= 2)
            p->last[node] = v->last > p->last[node] ? v->last : p->last[node];
    }
    return bytes;
}

static int begin_placing(struct placing *p, struct td_plan *plan)
{
    const size_t n = (size_t)plan->n_values + 1;
    p->plan = plan;
    p->value = calloc(n, sizeof *p->value);
    p->by_life = calloc(n, sizeof *p->by_life);
    p->rank = calloc(n, sizeof *p->rank);
    for (p->leaves = 1; p->leaves < plan->n_values || p->leaves <= plan->n_steps;)
        p->leaves *= 2;
    p->last = calloc(2 * (size_t)p->leaves, sizeof *p->last);
    p->sky = calloc(2 * (size_t)p->leaves, sizeof *p->sky);
    return p->value && p->by_life && p->rank && p->last && p->sky ? 0 : -ENOMEM;
}

/* Collects the values that need memory of their own. */
static void collect(struct placing *p)
{
    struct td_plan *plan = p->plan;
    plan->bytes_before = 0;
    for (int i = 0; i < plan->n_values; i++) {
        struct td_plan_value *value = &plan->value[i];
        if (value->step < 0 || !plan->step[value->step].handle)
            continue;
        plan->bytes_before += room_of(value);
        p->value[p->n] = p->by_life[p->n] = value;
        p->n += !value->inside && value->over < 0;
    }
    qsort(p->by_life, (size_t)p->n, sizeof(struct td_plan_value *), by_life);
    for (int i = 0; i < p->n; i++)
        p->rank[p->by_life[i] - plan->value] = i;
}

/* Places all values in two orders, and keeps the smaller result: neither order is always better. */
static int place_all(struct td_plan *plan)
{
    struct placing *p = calloc(1, sizeof *p);
    int err = p ? begin_placing(p, plan) : -ENOMEM;
    if (!err) {
        collect(p);
        size_t other = place_in_order(p, by_room_over_life);
        plan->bytes = place_in_order(p, by_room);
        if (other < plan->bytes)
            plan->bytes = place_in_order(p, by_room_over_life);
    }
    for (int i = 0; i < plan->n_values; i++)
        if (plan->value[i].over >= 0)
            plan->value[i].at = plan->value[plan->value[i].over].at;
    if (p) {
        free(p->value);
        free(p->by_life);
        free(p->rank);
        free(p->last);
        free(p->sky);
    }
    free(p);
    return err;
}

int td_plan_place(struct td_plan *plan)
{
    find_lives(plan);
    overwrite(plan);
    return place_all(plan);
}
