/* Memory of weights and their forms. All of a block is written as soon as it is there, and a page
 * fault for each 4 KB would take longer than that: 2 us, on a virtual machine. So the pages of a
 * large block, which is mapped by itself, are taken at once, and where pages of 2 MB fit it has
 * these. Large blocks that share pages of 2 MB were tried: models of 7 MB loaded no faster, and
 * took up to 3 MB more. */
#include "kernels/weight_own.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; before, pages come one by one */
#endif
#define PAGE ((size_t)4096)
#define LARGE ((size_t)256 << 10)
#define HUGE ((size_t)2 << 20)

size_t td_weight_block_size(size_t bytes)
{
    return (bytes + 127) & ~(size_t)63;
}

/* Fresh pages, which are zero; of 2 MB and more on such a boundary. NULL: there are none. */
static void *map(size_t size)
{
    size_t spare = size >= HUGE ? HUGE - PAGE : 0;
    char *all =
        mmap(NULL, size + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return NULL;
    size_t before = spare ? -(uintptr_t)all % HUGE : 0;
    if (before)
        munmap(all, before);
    if (spare > before)
        munmap(all + before + size, spare - before);
    if (size >= HUGE)
        madvise(all + before, size, MADV_HUGEPAGE); /* a wish, as is the next */
    madvise(all + before, size, MADV_POPULATE_WRITE);
    return all + before;
}

/* Not under AddressSanitizer, which sees what is done beyond its own blocks. */
static bool is_mapped(size_t size)
{
#ifdef __SANITIZE_ADDRESS__
    return false && size;
#else
    return size >= LARGE;
#endif
}

static size_t pages_of(size_t size)
{
    return (size + PAGE - 1) / PAGE * PAGE;
}

void *td_weight_block(size_t bytes)
{
    size_t size = td_weight_block_size(bytes);
    void *p;
    if (size <= bytes || size > PTRDIFF_MAX - HUGE)
        return NULL;
    if (is_mapped(size))
        return map(pages_of(size));
    return posix_memalign(&p, size < HUGE ? 64 : HUGE, size) ? NULL : memset(p, 0, size);
}

void td_weight_block_free(void *block, size_t bytes)
{
    size_t size = td_weight_block_size(bytes);
    if (!is_mapped(size))
        free(block);
    else if (block)
        munmap(block, pages_of(size));
}
