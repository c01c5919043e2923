/* Memory that lives as long as a request.
 *
 * Small things are cut from chunks one after the other; the first chunk is part of the arena, so a
 * small request costs one allocation in all: a malloc, inside of which we align ourselves, as
 * aligned_alloc splits a bigger block and joins it again, at ten times the cost. Anything of 64 KiB
 * or more gets a block of its own from the process's kept buffers (buffer.c), where it is already
 * touched. An arena that stays, a model's or a plan's, begins small instead, and another budget
 * answers for it. Nothing is freed singly: the alternative, counting references to tensors, would
 * be the one thing every handler gets wrong.
 */
#include "pools/pools.h"

#include "pools/memory/buffer.h"

#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST ((size_t)TD_ARENA_FIRST)
#define CHUNK ((size_t)64 << 10)
#define LEAST ((size_t)2 << 10) /* the first chunk of one that stays */
#define ALIGN 64
#define PAD 64 /* readable bytes behind each allocation */
#define FAR 4096

struct chunk {
    struct chunk *next;
    size_t size; /* bytes, all of it */
};

struct td_arena {
    char *at, *end;            /* what is left of the current chunk, PAD at its end left out */
    struct chunk *chunks;      /* all but the first */
    struct td_buffer *buffers; /* those in use here */
    size_t first, next_chunk;  /* bytes */
    int node;
    bool favoured;
    struct td_arena_room room;
    atomic_int holders;
};

static char *aligned(void *address)
{
    return (char *)(((uintptr_t)address + ALIGN - 1) & ~(uintptr_t)(ALIGN - 1));
}

/* To where the next allocation begins. A processor mistakes a load for one of what was just stored
 * 4 KiB before or after, and waits: a kernel whose result lay 64 bytes behind a multiple of that
 * from its argument took twice its time. Where both begin alike the load always comes first. */
static size_t gap(const char *at, size_t bytes)
{
    return bytes < FAR ? 0 : (TD_BUFFER_HEADER - (uintptr_t)at) & (FAR - 1);
}

static void init(struct td_arena *arena, size_t first, int numa_node)
{
    *arena = (struct td_arena){.at = aligned(arena + 1),
                               .end = (char *)arena + first - PAD,
                               .first = first,
                               .next_chunk = first < FIRST ? 2 * first : CHUNK / 4,
                               .node = numa_node};
    atomic_init(&arena->holders, 1);
}

/* ---- bytes of td_memory, or of who answers instead ---- */

static int take(const struct td_arena *arena, size_t bytes)
{
    return arena->room.take  ? arena->room.take(arena->room.arg, bytes)
           : arena->favoured ? td_budget_take_favoured(&td_memory, bytes)
                             : td_budget_take(&td_memory, bytes);
}

static void give(const struct td_arena *arena, size_t bytes)
{
    if (arena->room.give)
        arena->room.give(arena->room.arg, bytes);
    else
        td_budget_give(&td_memory, bytes);
}

/* Blocks are taken from td_memory, whatever becomes of them: the other is charged in its place. */
static bool charge(const struct td_arena *arena, const struct td_buffer *buffer)
{
    if (!arena->room.take)
        return true;
    td_budget_give(&td_memory, buffer->taken);
    if (!take(arena, buffer->taken))
        return true;
    td_budget_force(&td_memory, buffer->taken);
    return false;
}

static void discharge(const struct td_arena *arena, const struct td_buffer *buffer)
{
    if (!arena->room.give)
        return;
    give(arena, buffer->taken);
    td_budget_force(&td_memory, buffer->taken);
}

/* ---- life ---- */

struct td_arena *td_arena_create_on(int numa_node)
{
    struct td_arena *arena = malloc(FIRST);
    if (!arena)
        return NULL;
    td_budget_force(&td_memory, FIRST);
    init(arena, FIRST, numa_node);
    return arena;
}

struct td_arena *td_arena_create_in(const struct td_arena_room *room)
{
    if (room->take(room->arg, LEAST))
        return NULL;
    struct td_arena *arena = malloc(LEAST);
    if (!arena) {
        room->give(room->arg, LEAST);
        return NULL;
    }
    init(arena, LEAST, -1);
    arena->room = *room;
    return arena;
}

void td_arena_favour(struct td_arena *arena)
{
    arena->favoured = true;
}

struct td_arena *td_arena_create(void)
{
    return td_arena_create_on(-1);
}

void td_arena_ref(struct td_arena *arena)
{
    atomic_fetch_add(&arena->holders, 1);
}

static void give_back(struct td_arena *arena)
{
    while (arena->chunks) {
        struct chunk *chunk = arena->chunks;
        arena->chunks = chunk->next;
        give(arena, chunk->size);
        free(chunk);
    }
    while (arena->buffers) {
        struct td_buffer *buffer = arena->buffers;
        arena->buffers = buffer->next;
        discharge(arena, buffer);
        td_buffer_put(buffer);
    }
}

void td_arena_destroy(struct td_arena *arena)
{
    if (!arena || atomic_fetch_sub(&arena->holders, 1) != 1)
        return;
    give_back(arena);
    give(arena, arena->first);
    free(arena);
}

struct td_arena *td_arena_reset(struct td_arena *arena)
{
    int node = arena->node;
    assert(!arena->room.take);
    if (atomic_load(&arena->holders) > 1) { /* they go on with what it holds */
        td_arena_destroy(arena);
        return td_arena_create_on(node);
    }
    give_back(arena);
    init(arena, FIRST, node);
    return arena;
}

static void *add_buffer(struct td_arena *arena, struct td_buffer *buffer)
{
    if (buffer && !charge(arena, buffer)) {
        td_buffer_put(buffer);
        buffer = NULL;
    }
    if (!buffer)
        return NULL;
    buffer->next = arena->buffers;
    arena->buffers = buffer;
    return (char *)buffer + TD_BUFFER_HEADER;
}

static bool add_chunk(struct td_arena *arena, size_t least)
{
    size_t size = arena->next_chunk > least ? arena->next_chunk : least;
    if (take(arena, size))
        return false;
    struct chunk *chunk = malloc(size);
    if (!chunk) {
        give(arena, size);
        return false;
    }
    *chunk = (struct chunk){arena->chunks, size};
    arena->chunks = chunk;
    arena->at = aligned(chunk + 1);
    arena->end = (char *)chunk + size - PAD;
    if (arena->next_chunk < CHUNK)
        arena->next_chunk *= 2;
    return true;
}

void *td_arena_alloc(struct td_arena *arena, size_t bytes)
{
    if (bytes > (size_t)1 << 47)
        return NULL;
    if (bytes >= CHUNK)
        return add_buffer(arena, arena->favoured ? td_buffer_get_favoured(bytes)
                                                 : td_buffer_get(bytes, arena->node));
    size_t size = bytes ? (bytes + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN;
    size_t room = size + gap(arena->at, bytes), most = size + (bytes < FAR ? 0 : FAR);
    if (room > (size_t)(arena->end - arena->at) && !add_chunk(arena, most + 2 * ALIGN + PAD))
        return NULL;
    char *result = arena->at + gap(arena->at, bytes);
    arena->at = result + size;
    return result;
}

/* ---- blocks that are taken as they fill ---- */

/* The arena's buffer that holds the block, where the list names it; or NULL: it is in a chunk. */
static struct td_buffer **find_buffer(struct td_arena *arena, const void *block)
{
    struct td_buffer **at = &arena->buffers;
    while (*at && (const char *)*at + TD_BUFFER_HEADER != block)
        at = &(*at)->next;
    return *at ? at : NULL;
}

void *td_arena_reserve(struct td_arena *arena, size_t bytes)
{
    if (bytes < CHUNK || bytes > (size_t)1 << 47)
        return td_arena_alloc(arena, bytes);
    return add_buffer(arena, td_buffer_reserve(bytes, arena->node));
}

int td_arena_fill(struct td_arena *arena, void *block, size_t bytes)
{
    struct td_buffer **buffer = find_buffer(arena, block);
    return buffer ? td_buffer_fill(*buffer, bytes) : 0;
}

void td_arena_drop(struct td_arena *arena, void *block)
{
    struct td_buffer **at = find_buffer(arena, block), *buffer = at ? *at : NULL;
    if (!buffer)
        return;
    *at = buffer->next;
    discharge(arena, buffer);
    td_buffer_put(buffer);
}

void *td_arena_zalloc(struct td_arena *arena, size_t bytes)
{
    void *memory = td_arena_alloc(arena, bytes);
    return memory ? memset(memory, 0, bytes) : NULL;
}

void *td_arena_align(struct td_arena *arena, void *data, size_t bytes, size_t align)
{
    if ((uintptr_t)data % align == 0)
        return data;
    void *copy = td_arena_alloc(arena, bytes + 1);
    return copy ? memcpy(copy, data, bytes) : NULL;
}

char *td_arena_strdup(struct td_arena *arena, const char *text, size_t length)
{
    char *copy = length < SIZE_MAX ? td_arena_alloc(arena, length + 1) : NULL;
    if (!copy)
        return NULL;
    memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

char *td_arena_printf(struct td_arena *arena, const char *format, ...)
{
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *text = length < 0 ? NULL : td_arena_alloc(arena, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    return text;
}
