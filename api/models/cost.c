/* What a run of a model took before, by the shapes of its inputs: who is to run it follows from
 * that. A place holds a hash of the shapes and nanoseconds, in one word, so that readers need no
 * lock; of two shapes with one place the later one has it. */
#include "api/models/models.h"

#include <math.h>

static uint64_t hash_of(const struct td_served *served, const struct td_tensor *inputs, bool eager)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + eager;
    for (int i = 0; i < served->all_inputs; i++)
        for (int d = -1; d < inputs[i].rank; d++) {
            hash ^= d < 0 ? (uint64_t)inputs[i].rank : (uint64_t)inputs[i].shape[d];
            hash *= UINT64_C(0x9e3779b97f4a7c15);
            hash ^= hash >> 29;
        }
    return hash;
}

double td_served_cost(const struct td_served *served, const struct td_tensor *inputs, bool eager)
{
    uint64_t hash = hash_of(served, inputs, eager);
    uint64_t known = atomic_load_explicit(&served->cost_[hash % TD_COSTS], memory_order_relaxed);
    return known && known >> 32 == hash >> 32 ? (double)(uint32_t)known * 1e-9 : INFINITY;
}

/* A longer time is believed at once, a shorter one by and by: values may decide what a run takes,
 * and the first ones pack weights. */
void td_served_learn(struct td_served *served, const struct td_tensor *inputs, bool eager,
                     int64_t ns)
{
    uint64_t hash = hash_of(served, inputs, eager);
    _Atomic uint64_t *place = &served->cost_[hash % TD_COSTS];
    uint64_t known = atomic_load_explicit(place, memory_order_relaxed);
    int64_t before = known >> 32 == hash >> 32 ? (int64_t)(uint32_t)known : 0;
    int64_t now = ns < before ? before - (before - ns) / 4 : ns;
    now = now < 1 ? 1 : now > UINT32_MAX ? UINT32_MAX : now;
    atomic_store_explicit(place, hash >> 32 << 32 | (uint64_t)now, memory_order_relaxed);
}
