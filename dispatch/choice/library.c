/* The memory of libraries. oneDNN's primitives are kept for the next call with their shapes, so
 * they are charged to td_memory, and dropped when that is full. They lie scattered over malloc's
 * heaps, which do not return freed memory between blocks in use: of 44 MiB that were freed 4 went
 * back to the system, and 24 do if malloc_trim is called, which takes some milliseconds. */
#include "dispatch/choice/library.h"

#include "kernels/memo.h"
#include "kernels/weight.h"
#include "pools/pools.h"

#include <malloc.h>

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    (void)room;
    (void)kept;
    return td_budget_take(&td_memory, bytes);
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    (void)room;
    (void)kept;
    td_budget_give(&td_memory, bytes);
}

static void (*relieve_before)(void);

static void relieve(void)
{
    if (relieve_before)
        relieve_before();
    if (td_onednn_bytes()) {
        td_onednn_forget();
        malloc_trim(0);
    }
}

void td_library_count(void)
{
    static struct td_weight_room room = {take, give};
    if (td_memory.relieve == relieve)
        return;
    relieve_before = td_memory.relieve;
    td_memory.relieve = relieve;
    td_onednn_count(&room);
}

size_t td_library_bytes(void)
{
    return td_onednn_bytes();
}
