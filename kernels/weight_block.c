/* Memory of weights and their forms. All of a block is written as soon as it is there, and a page
 * fault for each 4 KB would take longer than that: 2 us, on a virtual machine. So the pages of a
 * large block are taken at once, and where pages of 2 MB fit it has these. */
#include "kernels/weight_own.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* since Linux 5.14; before, pages come one by one */
#endif
#define PAGE 4096
#define LARGE ((size_t)256 << 10)
#define HUGE ((size_t)2 << 20)

size_t td_weight_block_size(size_t bytes)
{
    return (bytes + 127) & ~(size_t)63;
}

void *td_weight_block(size_t bytes)
{
    size_t size = td_weight_block_size(bytes);
    void *p;
    if (size <= bytes || posix_memalign(&p, size < HUGE ? 64 : HUGE, size))
        return NULL;
    uintptr_t from = ((uintptr_t)p + PAGE - 1) / PAGE * PAGE;
    uintptr_t to = ((uintptr_t)p + size) / PAGE * PAGE;
    if (size >= HUGE)
        madvise((void *)from, to - from, MADV_HUGEPAGE);
    if (size >= LARGE)
        madvise((void *)from, to - from, MADV_POPULATE_WRITE);
    memset((char *)p + bytes, 0, size - bytes);
    return p;
}
