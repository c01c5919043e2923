/* What sessions hold: tensors side by side in one block, which are never written again. */
#include "api/sessions/sessions.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE ((size_t)64)

static size_t whole_lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Of so many bytes: the spare one, if that fits and nobody has it any more. */
static struct td_contents *take_block(struct td_contents **spare, size_t bytes)
{
    struct td_contents *c = spare ? *spare : NULL;
    if (c && c->bytes == bytes && atomic_load(&c->refs) == 1) {
        *spare = NULL;
        return c;
    }
    if (td_budget_take(&td_memory, bytes))
        return NULL;
    c = aligned_alloc(LINE, bytes);
    if (!c)
        td_budget_give(&td_memory, bytes);
    return c;
}

int td_contents_copy(struct td_contents **contents, struct td_contents **spare,
                     const struct td_tensor *from, int n)
{
    struct td_contents *c = NULL;
    size_t head = whole_lines(sizeof *c + (size_t)n * sizeof *c->tensor), bytes = head;
    *contents = NULL;
    for (int i = 0; i < n; i++)
        if (__builtin_add_overflow(bytes, whole_lines(td_nbytes(&from[i])), &bytes))
            return -ENOMEM;
    c = take_block(spare, bytes);
    if (!c)
        return -ENOMEM;
    atomic_init(&c->refs, 1);
    c->bytes = bytes;
    c->position = 0;
    c->n = n;
    char *at = (char *)c + head;
    for (int i = 0; i < n; i++) {
        size_t size = td_nbytes(&from[i]);
        c->tensor[i] = from[i];
        c->tensor[i].data = at;
        c->tensor[i].weight = NULL;
        c->tensor[i].stride = NULL;
        if (size)
            memcpy(at, from[i].data, size);
        at += whole_lines(size);
    }
    *contents = c;
    return 0;
}

struct td_contents *td_contents_ref(struct td_contents *contents)
{
    if (contents)
        atomic_fetch_add(&contents->refs, 1);
    return contents;
}

void td_contents_unref(struct td_contents **contents)
{
    struct td_contents *c = *contents;
    *contents = NULL;
    if (!c || atomic_fetch_sub(&c->refs, 1) > 1)
        return;
    size_t bytes = c->bytes;
    free(c);
    td_budget_give(&td_memory, bytes);
    td_heap_freed(bytes);
}
