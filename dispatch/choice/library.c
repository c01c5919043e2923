/* The memory of libraries: primitives of oneDNN are kept for the next call of their shapes, so they
 * count, and go when td_memory has no room for something else. They lie scattered over malloc's
 * heaps, which keep what is freed in their midst: of 44 MiB that were given back 4 left the
 * process, and 24 do when malloc is asked for whole pages, which takes it some milliseconds. */
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
