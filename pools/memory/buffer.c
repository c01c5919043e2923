/* Big blocks for requests: bodies, outputs, scratch.
 *
 * A page that is touched for the first time costs 0.4 to 0.6 us: a fresh megabyte takes 580 us to
 * fill, a kept one 25. So blocks are kept and handed out again. What is kept is bounded, the oldest
 * leaves first, and idle workers give the rest back (pool.c). Sizes are rounded to eighths of a
 * power of two, so that requests of about one size find each other's blocks at the cost of an
 * eighth at most; bigger ones than may be kept, to pages. Blocks from 2 MiB up lie on 2 MiB
 * boundaries and ask for huge pages (4 MiB fresh: 0.24 ms instead of 1.7), smaller ones are touched
 * in one call. With several NUMA nodes a block belongs to one and returns to that node's requests.
 *
 * Blocks are taken from td_memory while they are mapped; when it is full, those that are kept go. A
 * block that is reserved, for a body that is still to arrive, is mapped at once, so that nothing is
 * ever copied, and taken as it fills; it has no huge page before it has filled one.
 *
 * One lock guards the list; it is short (32 MiB of blocks of 64 KiB or more), and system calls are
 * made outside of the lock. */
#include "pools/memory/buffer.h"

#include "pools/machine/topology.h"
#include "pools/pools.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

#define KEEP ((size_t)32 << 20)
#define PAGE 4096
#define HUGE ((size_t)2 << 20)
#define FIRST_FILL ((size_t)16 << 10) /* of a reserved block; then as much again each time, */
#define MOST_FILL (2 * HUGE)          /* up to this */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct td_buffer *newest, *oldest;
static _Atomic size_t kept;
static const struct td_topology *machine, *nodes; /* nodes: NULL with one */

static void relieve(void)
{
    td_buffers_trim(0);
}

void td_buffers_init(const struct td_topology *topology)
{
    td_memory.relieve = relieve;
    machine = topology;
    nodes = td_topology_nodes(topology) > 1 ? topology : NULL;
}

void td_buffers_fini(void)
{
    td_buffers_trim(0);
    machine = nodes = NULL;
}

static size_t round_up(size_t bytes, size_t step)
{
    return (bytes + step - 1) / step * step;
}

static size_t size_class(size_t bytes)
{
    size_t step = PAGE;
    while (bytes <= KEEP && 8 * step < bytes)
        step *= 2;
    return round_up(bytes, step);
}

/* The whole block of a capacity: header before, padding after. */
static size_t mapped(size_t capacity)
{
    return round_up(capacity + 2 * TD_BUFFER_HEADER, PAGE);
}

static void unmap(struct td_buffer *buffer)
{
    size_t taken = buffer->taken;
    munmap(buffer, mapped(buffer->capacity));
    td_budget_give(&td_memory, taken);
}

/* Maps size bytes, from 2 MiB up on such a boundary and with advice about huge pages. */
static void *map(size_t size, int flags, int advice)
{
    size_t spare = size >= HUGE ? HUGE : 0;
    char *all = mmap(NULL, size + spare, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    if (!spare)
        return all;
    size_t before = round_up((size_t)all, HUGE) - (size_t)all;
    if (before)
        munmap(all, before);
    if (spare - before)
        munmap(all + before + size, spare - before);
    madvise(all + before, size, advice); /* a wish: kernels without it go on */
    return all + before;
}

static void unlink_buffer(struct td_buffer *buffer)
{
    *(buffer->prev ? &buffer->prev->next : &newest) = buffer->next;
    *(buffer->next ? &buffer->next->prev : &oldest) = buffer->prev;
    kept -= buffer->capacity;
}

static int node_of(int node)
{
    return node >= 0 && nodes ? node : nodes ? td_topology_node_here(nodes) : 0;
}

/* A kept one, or NULL. */
static struct td_buffer *take_kept(size_t capacity, int node)
{
    pthread_mutex_lock(&lock);
    struct td_buffer *buffer = newest;
    while (buffer && (buffer->capacity != capacity || buffer->node != node))
        buffer = buffer->next;
    if (buffer)
        unlink_buffer(buffer);
    pthread_mutex_unlock(&lock);
    return buffer;
}

/* A new block of which the first bytes have been taken. NULL: they are not any more. */
static struct td_buffer *make(size_t capacity, size_t taken, int flags, int advice, int node)
{
    size_t size = mapped(capacity);
    struct td_buffer *buffer = map(size, flags, advice);
    if (!buffer) {
        td_budget_give(&td_memory, taken);
        return NULL;
    }
    if (nodes) /* where it fails the first touch decides, which is the caller's node as a rule */
        td_topology_bind_memory(nodes, buffer, size, node);
    if (size < HUGE) /* Linux 5.14; before, pages come one by one */
        madvise(buffer, taken, MADV_POPULATE_WRITE);
    buffer->capacity = capacity;
    buffer->taken = taken;
    buffer->node = node;
    return buffer;
}

struct td_buffer *td_buffer_get(size_t bytes, int node)
{
    size_t capacity = size_class(bytes);
    node = node_of(node);
    struct td_buffer *buffer = take_kept(capacity, node);
    if (buffer || td_budget_take(&td_memory, mapped(capacity)))
        return buffer;
    return make(capacity, mapped(capacity), 0, MADV_HUGEPAGE, node);
}

struct td_buffer *td_buffer_get_favoured(size_t bytes)
{
    size_t capacity = size_class(bytes);
    int node = node_of(-1);
    struct td_buffer *buffer = take_kept(capacity, node);
    if (buffer || td_budget_take_favoured(&td_memory, mapped(capacity)))
        return buffer;
    return make(capacity, mapped(capacity), 0, MADV_HUGEPAGE, node);
}

struct td_buffer *td_buffer_reserve(size_t bytes, int node)
{
    size_t capacity = size_class(bytes);
    node = node_of(node);
    struct td_buffer *buffer = take_kept(capacity, node);
    if (!buffer && !td_budget_take(&td_memory, PAGE))
        buffer = make(capacity, PAGE, MAP_NORESERVE, MADV_NOHUGEPAGE, node);
    if (buffer)
        buffer->asked = bytes;
    return buffer;
}

/* How much of a block is taken so that need bytes of it can be written, if there is room. */
static size_t next_fill(const struct td_buffer *buffer, size_t need)
{
    size_t size = mapped(buffer->capacity), taken = buffer->taken;
    size_t want = taken + (taken < MOST_FILL ? taken : MOST_FILL);
    want = want < FIRST_FILL ? FIRST_FILL : want;
    want = want < need ? need : want;
    want = round_up(want, want > HUGE ? HUGE : PAGE);
    return need >= buffer->asked + TD_BUFFER_HEADER || want > size ? size : want;
}

int td_buffer_fill(struct td_buffer *buffer, size_t bytes)
{
    size_t need = bytes + TD_BUFFER_HEADER, taken = buffer->taken;
    if (need <= taken)
        return 0;
    size_t size = mapped(buffer->capacity), want = next_fill(buffer, need);
    if (td_budget_take(&td_memory, want - taken)) {
        want = round_up(need, need > HUGE ? HUGE : PAGE);
        want = want < size ? want : size;
        if (td_budget_take(&td_memory, want - taken))
            return -ENOMEM;
    }
    if (size >= HUGE && want >= HUGE && taken < HUGE)
        madvise(buffer, size, MADV_HUGEPAGE);
    else if (want <= HUGE)
        madvise((char *)buffer + taken, want - taken, MADV_POPULATE_WRITE);
    buffer->taken = want;
    return 0;
}

/* Takes blocks off the old end while more than limit bytes are kept or they were put before a time;
 * returns them as a list. lock is held. */
static struct td_buffer *drop(size_t limit, int64_t before_ns)
{
    struct td_buffer *dropped = NULL;
    while (oldest && (kept > limit || oldest->since_ns <= before_ns)) {
        struct td_buffer *buffer = oldest;
        unlink_buffer(buffer);
        buffer->next = dropped;
        dropped = buffer;
    }
    return dropped;
}

static void unmap_all(struct td_buffer *list)
{
    while (list) {
        struct td_buffer *next = list->next;
        unmap(list);
        list = next;
    }
}

void td_buffer_put(struct td_buffer *buffer)
{
    if (buffer->capacity > KEEP || buffer->taken < mapped(buffer->capacity)) {
        unmap(buffer);
        return;
    }
    buffer->since_ns = td_now_ns();
    buffer->prev = NULL;
    pthread_mutex_lock(&lock);
    buffer->next = newest;
    *(newest ? &newest->prev : &oldest) = buffer;
    newest = buffer;
    kept += buffer->capacity;
    struct td_buffer *dropped = drop(KEEP, 0);
    pthread_mutex_unlock(&lock);
    unmap_all(dropped);
}

size_t td_memory_kept(void)
{
    return kept;
}

void td_buffers_trim(int64_t age_ns)
{
    pthread_mutex_lock(&lock);
    struct td_buffer *dropped = drop(KEEP, td_now_ns() - age_ns);
    pthread_mutex_unlock(&lock);
    unmap_all(dropped);
}

void td_buffers_look(int node, struct td_pool_memory *memory)
{
    struct td_buffer *buffer = td_buffer_get(1, node);
    memory->numa_node = nodes ? node : 0;
    memory->found = buffer && machine ? td_topology_node_of(machine, buffer) : -1;
    if (buffer)
        td_buffer_put(buffer);
}
