/* The memory of tensors while a program is walked: blocks with reference counts. Free blocks are
 * used again, because memory that was touched before is mapped and in the caches. */
#include "dispatch/walk/walk.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PADDING 64 /* bytes that may be read beyond the end */

/* Rounds bytes up to a size class, of which there are four for each power of two, so that any free
 * block of a class fits: returns the class. */
static int round_up(size_t *bytes)
{
    size_t least = *bytes < 256 ? 256 : *bytes;
    int power = 63 - __builtin_clzll(least - 1); /* 2^power < least <= 2^(power + 1) */
    size_t step = (size_t)1 << (power - 2), steps = (least + step - 1) / step;
    *bytes = steps * step;
    return 4 * (power - 7) + (int)steps - 5;
}

static struct td_block *take_free(struct td_walk *walk, size_t bytes)
{
    struct td_block **list = &walk->free[round_up(&bytes)], *found = *list;
    if (found)
        *list = found->next;
    return found;
}

static void keep_free(struct td_walk *walk, struct td_block *block)
{
    size_t bytes = block->bytes;
    struct td_block **list = &walk->free[round_up(&bytes)];
    block->next = *list;
    *list = block;
}

static struct td_block *allocate(struct td_walk *walk, size_t bytes)
{
    if (bytes > (size_t)1 << 47)
        return NULL;
    round_up(&bytes);
    size_t all = sizeof(struct td_block) + bytes + PADDING;
    if (td_budget_take(&td_memory, all))
        return NULL;
    struct td_block *block = aligned_alloc(64, all);
    if (!block) {
        td_budget_give(&td_memory, all);
        return NULL;
    }
    block->bytes = bytes;
    walk->bytes += all;
    if (walk->bytes > walk->figures.most_bytes)
        walk->figures.most_bytes = walk->bytes;
    return block;
}

bool td_block_keep(struct td_walk *walk, struct td_block *block)
{
    if (walk->n_made == walk->made_room) {
        size_t room = walk->made_room ? 2 * walk->made_room : 64;
        struct td_block **more = realloc(walk->made, room * sizeof *more);
        if (!more)
            return false;
        walk->made = more;
        walk->made_room = room;
    }
    walk->made[walk->n_made++] = block;
    block->refs++;
    return true;
}

struct td_block *td_block_make(struct td_walk *walk, size_t bytes)
{
    if (walk->most_block) {
        if (bytes > walk->most_block || bytes > walk->most_blocks)
            return NULL;
        walk->most_blocks -= bytes;
    }
    struct td_block *block = bytes <= (size_t)1 << 47 ? take_free(walk, bytes) : NULL;
    block = block ? block : allocate(walk, bytes);
    if (!block) { /* free blocks may take the memory that is missing */
        td_blocks_free(walk);
        block = allocate(walk, bytes);
    }
    if (!block)
        return NULL;
    block->refs = 0;
    block->number = 0;
    block->n_items = 0;
    block->holder = NULL;
    if (td_block_keep(walk, block))
        return block;
    keep_free(walk, block);
    return NULL;
}

void td_block_release(struct td_walk *walk, struct td_block *block)
{
    if (!block || --block->refs)
        return;
    if (block->number)
        walk->recorded[block->number - 1].block = NULL;
    const struct td_item *item = (const void *)block->data;
    for (int i = 0; i < block->n_items; i++)
        td_block_release(walk, item[i].block);
    keep_free(walk, block);
}

static size_t size_of(const struct td_block *block)
{
    return sizeof *block + block->bytes + PADDING;
}

void td_block_free(struct td_block *block)
{
    td_budget_give(&td_memory, size_of(block));
    free(block);
}

void td_blocks_free(struct td_walk *walk)
{
    for (int i = 0; i < TD_BLOCK_SIZES; i++)
        while (walk->free[i]) {
            struct td_block *block = walk->free[i];
            walk->free[i] = block->next;
            walk->bytes -= size_of(block);
            td_block_free(block);
        }
}

/* ---- items ---- */

struct td_item td_item_hold(const struct td_item *item)
{
    if (item->block)
        item->block->refs++;
    return *item;
}

void td_item_drop(struct td_walk *walk, struct td_item *item)
{
    td_block_release(walk, item->block);
    *item = (struct td_item){0};
}

size_t td_walk_mark(const struct td_walk *walk)
{
    return walk->n_made;
}

/* The references to the blocks of keep move to the mark. */
void td_walk_release(struct td_walk *walk, size_t mark, const struct td_item *keep, int n)
{
    for (int i = 0; i < n; i++)
        td_item_hold(&keep[i]);
    for (size_t i = mark; i < walk->n_made; i++)
        td_block_release(walk, walk->made[i]);
    size_t end = walk->n_made;
    walk->n_made = mark;
    for (int i = 0; i < n; i++) {
        if (!keep[i].block)
            continue;
        if (walk->n_made < end)
            walk->made[walk->n_made++] = keep[i].block; /* its reference was taken above */
        else if (td_block_keep(walk, keep[i].block))
            td_block_release(walk, keep[i].block);
    } /* without memory for that, a block keeps one reference too many and is never freed */
}

int td_walk_list(struct td_walk *walk, const struct td_item *items, int n, struct td_item *result)
{
    struct td_block *block = td_block_make(walk, sizeof *items * (size_t)n);
    if (!block)
        return td_problem_set(walk->problem, ENOMEM, "no memory for a list");
    struct td_item *list = memcpy(block->data, items, sizeof *items * (size_t)n);
    for (int i = 0; i < n; i++)
        td_item_hold(&list[i]);
    block->n_items = n;
    *result =
        (struct td_item){.v = {.kind = TD_KIND_tensors}, .list = list, .n = n, .block = block};
    return 0;
}
