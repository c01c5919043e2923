/* A bounded queue of jobs that any thread may fill and empty without a lock; inside pools/ only. */
#ifndef TD_RING_H
#define TD_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct td_job;

struct td_ring_cell;

struct td_ring {
    struct td_ring_cell *cells;
    size_t mask;
    int shift;                       /* cells are 1 << shift */
    _Alignas(64) atomic_size_t head; /* the next to take */
    _Alignas(64) atomic_size_t tail; /* the next to fill */
};

int td_ring_init(struct td_ring *ring, size_t capacity); /* rounded up to 2^n. -ENOMEM */
void td_ring_fini(struct td_ring *ring);
bool td_ring_put(struct td_ring *ring, struct td_job *job); /* false when full */
struct td_job *td_ring_take(struct td_ring *ring);          /* NULL when empty */
bool td_ring_ready(struct td_ring *ring); /* whether a take would find something now */

#endif
