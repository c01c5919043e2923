/* Bytes, counted where they are taken.
 *
 * One counter a budget, moved by compare-and-swap: what is refused was never counted, so two that
 * ask at once for the last bytes cannot both be turned away. It is asked for blocks and chunks, a
 * few times a request at most, and never for what a small request needs (arena.c). */
#include "pools/pools.h"

#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>

#define SMALL ((size_t)64 << 10)
#define HEAP_STEP ((size_t)16 << 20)

struct td_budget td_memory = {.error = ENOMEM, .limit = SIZE_MAX};

void td_budget_init(struct td_budget *budget, struct td_budget *of, size_t limit, int error)
{
    *budget = (struct td_budget){.of = of, .error = error, .limit = limit};
}

static void note_most(struct td_budget *budget, size_t used)
{
    size_t most = atomic_load_explicit(&budget->most, memory_order_relaxed);
    while (used > most &&
           !atomic_compare_exchange_weak_explicit(&budget->most, &most, used, memory_order_relaxed,
                                                  memory_order_relaxed))
        ;
}

static bool take(struct td_budget *budget, size_t bytes, bool favoured)
{
    size_t back = favoured ? 0 : bytes < SMALL ? budget->control : budget->reserve;
    size_t used = budget->used, room = budget->limit - back;
    do
        if (used > room || bytes > room - used)
            return false;
    while (!atomic_compare_exchange_weak(&budget->used, &used, used + bytes));
    note_most(budget, used + bytes);
    return true;
}

static int take_or_relieve(struct td_budget *budget, size_t bytes, bool favoured)
{
    bool taken = take(budget, bytes, favoured);
    if (!taken && budget->relieve) {
        budget->relieve();
        taken = take(budget, bytes, favoured);
    }
    if (!taken) {
        atomic_fetch_add(&budget->refused, 1);
        return -budget->error;
    }
    int err = budget->of ? take_or_relieve(budget->of, bytes, favoured) : 0;
    if (err)
        atomic_fetch_sub(&budget->used, bytes);
    return err;
}

int td_budget_take(struct td_budget *budget, size_t bytes)
{
    return take_or_relieve(budget, bytes, false);
}

int td_budget_take_favoured(struct td_budget *budget, size_t bytes)
{
    return take_or_relieve(budget, bytes, true);
}

void td_budget_force(struct td_budget *budget, size_t bytes)
{
    for (; budget; budget = budget->of)
        note_most(budget, atomic_fetch_add(&budget->used, bytes) + bytes);
}

void td_budget_give(struct td_budget *budget, size_t bytes)
{
    for (; budget; budget = budget->of)
        atomic_fetch_sub(&budget->used, bytes);
}

/* What is freed in the midst of malloc's heaps stays resident though nothing counts it any more:
 * after 3,924 small models had been deleted, 95 of their 96 MiB. */
void td_heap_freed(size_t bytes)
{
    static _Atomic size_t freed;
    if (atomic_fetch_add(&freed, bytes) + bytes < HEAP_STEP)
        return;
    atomic_store(&freed, 0);
    malloc_trim(0);
}
