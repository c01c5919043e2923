/* Memory for samples that may not be left, and calls whose result lies where an argument does. */
#include "tests/sample.h"

#include "dispatch/call/own.h"
#include "kernels/elementwise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096
#define GUARD 64
#define FILL 0xa5
#define KEPT 16
#define KEPT_BYTES (4 << 20)

static bool at_front;

void sample_lie_at_front(bool front)
{
    at_front = front;
}

/* Between two pages that may not be touched; where they do not meet both, there is room for a guard
 * on the other side. */
static size_t room_of(size_t size)
{
    return size % PAGE ? (size + GUARD + PAGE - 1) / PAGE * PAGE : size;
}

/* Pages of freed tensors, which may not be touched until they are a tensor's again: the system need
 * not find and clear pages for each. The oldest mapping is reused, or unmapped, first. */
static struct {
    char *begin;
    size_t room;
} kept[KEPT];
static int oldest;

/* Pages that may not be touched, room bytes and one page on either side: kept ones or new. */
static char *pages_of(size_t room)
{
    for (int k = 0, i = oldest; k < KEPT; k++, i = (i + 1) % KEPT)
        if (kept[i].begin && kept[i].room == room) {
            char *begin = kept[i].begin;
            kept[i].begin = NULL;
            return begin;
        }
    return mmap(NULL, room + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void keep_pages(char *begin, size_t room)
{
    if (room > KEPT_BYTES) {
        munmap(begin, room + 2 * PAGE);
        return;
    }
    if (room && mprotect(begin + PAGE, room, PROT_NONE)) {
        perror("sample_free");
        exit(1);
    }
    if (kept[oldest].begin)
        munmap(kept[oldest].begin, kept[oldest].room + 2 * PAGE);
    kept[oldest].begin = begin;
    kept[oldest].room = room;
    oldest = (oldest + 1) % KEPT;
}

void *sample_alloc(size_t size)
{
    size_t room = room_of(size);
    char *p = pages_of(room);
    if (p == MAP_FAILED || (room && mprotect(p + PAGE, room, PROT_READ | PROT_WRITE))) {
        perror("sample_alloc");
        exit(1);
    }
    p = memset(p + PAGE, FILL, room);
    return at_front ? p : p + room - size;
}

static bool is_at_front(const char *data)
{
    return !((uintptr_t)data % PAGE);
}

void sample_free(void *data, size_t size)
{
    size_t room = room_of(size);
    char *p = data;
    if (data)
        keep_pages((is_at_front(p) ? p : p + size - room) - PAGE, room);
}

bool sample_guarded(const void *data, size_t size)
{
    const uint8_t *p = data;
    if (!(size % PAGE))
        return true;
    p = is_at_front(data) ? p + size : p - GUARD;
    for (int i = 0; i < GUARD; i++)
        if (p[i] != FILL)
            return false;
    return true;
}

/* Bit for bit, but for NaNs: which of their bits stay is not promised. */
static bool is_same(const struct td_tensor *t, const void *data)
{
    struct td_tensor other = *t;
    size_t bytes = td_nbytes(t), size = td_dtype_size(t->dtype);
    other.data = (void *)data;
    if (!memcmp(t->data, data, bytes))
        return true;
    for (size_t i = 0; i < bytes / size; i++)
        if (memcmp((const char *)t->data + i * size, (const char *)data + i * size, size) &&
            (td_dtype_kind(t->dtype) != 'f' || !isnan(td_get_real(t, (int64_t)i)) ||
             !isnan(td_get_real(&other, (int64_t)i))))
            return false;
    return true;
}

/* Runs the row into other memory, which begins as the argument's elements where there is one, whose
 * place that is. */
static bool same_over(const struct td_impl *impl, struct sample *s, struct td_tensor *t)
{
    struct td_call *call = &s->run.call;
    void *data = t->data, *apart[TD_MAX_OUTS];
    bool same = true;
    for (int i = 0; i < call->n_out; i++) {
        apart[i] = call->out[i].data;
        call->out[i].data = sample_alloc(s->out_bytes[i]);
    }
    t->data = memcpy(call->out[0].data, data, s->out_bytes[0]);
    sample_run(impl, call);
    for (int i = 0; i < call->n_out; i++) {
        same = same && is_same(&call->out[i], apart[i]) &&
               sample_guarded(call->out[i].data, s->out_bytes[i]);
        sample_free(call->out[i].data, s->out_bytes[i]);
        call->out[i].data = apart[i];
    }
    t->data = data;
    return same;
}

int sample_run_over(const struct td_impl *impl, struct sample *s, int *wrong)
{
    int n = 0;
    s->run.impl = impl;
    for (int i = 0; i < s->run.call.n_args; i++)
        if (td_run_may_overwrite(&s->run, i) && td_numel(&s->run.call.out[0])) {
            n++;
            if (!same_over(impl, s, &s->run.call.arg[i].tensor))
                *wrong = i;
        }
    return n;
}
