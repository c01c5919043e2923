/* Vyukov's bounded queue: each cell carries a turn that says whether it waits to be filled or to be
 * taken in the current lap, so that a put or a take is one compare-and-swap on its own end and
 * never touches the other.
 *
 * Turns count laps (2 * lap to fill, 2 * lap + 1 to take) instead of positions: fresh zeroed memory
 * is then already right, and the cells of a class that nobody uses cost no resident memory. */
#include "pools/ring.h"

#include "pools/pools.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

struct td_ring_cell {
    atomic_size_t turn;
    struct td_job *job;
};

int td_ring_init(struct td_ring *ring, size_t capacity)
{
    ring->shift = 1;
    while ((size_t)1 << ring->shift < capacity)
        ring->shift++;
    ring->mask = ((size_t)1 << ring->shift) - 1;
    atomic_init(&ring->head, 0);
    atomic_init(&ring->tail, 0);
    size_t bytes = (ring->mask + 1) * sizeof *ring->cells;
    if (td_budget_take(&td_memory, bytes))
        return -ENOMEM;
    ring->cells = calloc(1, bytes);
    if (!ring->cells)
        td_budget_give(&td_memory, bytes);
    return ring->cells ? 0 : -ENOMEM;
}

void td_ring_fini(struct td_ring *ring)
{
    if (ring->cells)
        td_budget_give(&td_memory, (ring->mask + 1) * sizeof *ring->cells);
    free(ring->cells);
    ring->cells = NULL;
}

bool td_ring_put(struct td_ring *ring, struct td_job *job)
{
    size_t at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        struct td_ring_cell *cell = &ring->cells[at & ring->mask];
        size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        size_t mine = 2 * (at >> ring->shift);
        if (turn == mine) {
            if (atomic_compare_exchange_weak_explicit(&ring->tail, &at, at + 1,
                                                      memory_order_relaxed, memory_order_relaxed)) {
                cell->job = job;
                atomic_store(&cell->turn, mine + 1); /* before looks at who sleeps, see pool.c */
                return true;
            }
        } else if ((intptr_t)(turn - mine) < 0) {
            return false; /* the job of the lap before is still there */
        } else {
            at = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        }
    }
}

struct td_job *td_ring_take(struct td_ring *ring)
{
    size_t at = atomic_load_explicit(&ring->head, memory_order_relaxed);
    for (;;) {
        struct td_ring_cell *cell = &ring->cells[at & ring->mask];
        size_t turn = atomic_load_explicit(&cell->turn, memory_order_acquire);
        size_t mine = 2 * (at >> ring->shift) + 1;
        if (turn == mine) {
            if (atomic_compare_exchange_weak_explicit(&ring->head, &at, at + 1,
                                                      memory_order_relaxed, memory_order_relaxed)) {
                struct td_job *job = cell->job;
                atomic_store_explicit(&cell->turn, mine + 1, memory_order_release);
                return job;
            }
        } else if ((intptr_t)(turn - mine) < 0) {
            return NULL;
        } else {
            at = atomic_load_explicit(&ring->head, memory_order_relaxed);
        }
    }
}

bool td_ring_ready(struct td_ring *ring)
{
    size_t at = atomic_load(&ring->head);
    size_t turn = atomic_load(&ring->cells[at & ring->mask].turn);
    return turn == 2 * (at >> ring->shift) + 1 || atomic_load(&ring->head) != at;
}
