/* What sessions hold: tensors side by side in one block, which are never written again. */
#include "api/sessions/sessions.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE ((size_t)64)
#define CLOSE ((size_t)16) /* what malloc aligns to */
#define SMALL ((size_t)2048)

static size_t whole(size_t bytes, size_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Of contents whose tensors, and what is before them, begin at multiples of unit. -ENOMEM. */
static int measure(const struct td_tensor *from, int n, size_t unit, size_t *bytes)
{
    *bytes = whole(sizeof(struct td_contents) + (size_t)n * sizeof *from, unit);
    for (int i = 0; i < n; i++)
        if (__builtin_add_overflow(*bytes, whole(td_nbytes(&from[i]), unit), bytes))
            return -ENOMEM;
    return 0;
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
    c = bytes < SMALL ? malloc(bytes) : aligned_alloc(LINE, bytes);
    if (!c)
        td_budget_give(&td_memory, bytes);
    return c;
}

int td_contents_copy(struct td_contents **contents, struct td_contents **spare,
                     const struct td_tensor *from, int n)
{
    struct td_contents *c = NULL;
    size_t unit = CLOSE, bytes; /* of many small sessions, lines would hold more than state */
    *contents = NULL;
    int err = measure(from, n, unit, &bytes);
    if (!err && bytes >= SMALL)
        err = measure(from, n, unit = LINE, &bytes);
    if (err)
        return err;
    c = take_block(spare, bytes);
    if (!c)
        return -ENOMEM;
    atomic_init(&c->refs, 1);
    c->bytes = bytes;
    c->position = 0;
    c->n = n;
    char *at = (char *)c + whole(sizeof *c + (size_t)n * sizeof *c->tensor, unit);
    for (int i = 0; i < n; i++) {
        size_t size = td_nbytes(&from[i]);
        c->tensor[i] = from[i];
        c->tensor[i].data = at;
        c->tensor[i].weight = NULL;
        c->tensor[i].stride = NULL;
        if (size)
            memcpy(at, from[i].data, size);
        at += whole(size, unit);
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
