/* Big blocks of memory, kept for the next request; inside pools/ only. */
#ifndef TD_BUFFER_H
#define TD_BUFFER_H

#include <stddef.h>
#include <stdint.h>

struct td_topology;
struct td_pool_memory; /* pools.h */

struct td_buffer {    /* at the start of its own memory */
    size_t capacity;  /* usable bytes behind the header */
    size_t asked;     /* of these, by whom it was reserved for */
    size_t taken;     /* of td_memory: all of the block, or what has been filled of it */
    int node;         /* NUMA node its pages lie on */
    int64_t since_ns; /* when it was given back */
    struct td_buffer *next, *prev;
};
#define TD_BUFFER_HEADER 64 /* from the block's start to its usable, 64-byte aligned bytes */

/* From here on memory is bound to nodes, if the topology (borrowed until td_buffers_fini) has
 * several. */
void td_buffers_init(const struct td_topology *topology);
/* Frees what is kept. Buffers in use stay valid. */
void td_buffers_fini(void);

/* At least bytes on the node (-1: the caller's), touched before if it was kept. NULL: no memory, or
 * td_memory is full. */
struct td_buffer *td_buffer_get(size_t bytes, int node);
/* The same for bytes that come one after the other: until they are written they are not taken from
 * td_memory. To be asked before the first so many usable bytes are written: 0 or -ENOMEM. */
struct td_buffer *td_buffer_reserve(size_t bytes, int node);
int td_buffer_fill(struct td_buffer *buffer, size_t bytes);
struct td_buffer *td_buffer_get_favoured(size_t bytes); /* as td_budget_take_favoured */
void td_buffer_put(struct td_buffer *buffer);
/* Where blocks for the node are bound to, and where one just taken lies. */
void td_buffers_look(int node, struct td_pool_memory *memory);

/* Gives back to the system what has been kept for age_ns or longer. */
void td_buffers_trim(int64_t age_ns);

#endif
