/* The sort family, reference: a heap of the first k, by value and then by place. */
#include "kernels/elementwise.h"
#include "kernels/sort/sort.h"

#include <math.h>
#include <string.h>

td_kernel td_sort_ref;

struct row {
    const struct td_tensor *self;
    int64_t first, step; /* of the row in self */
    int64_t *heap;       /* the worst of those kept on top; places in the row */
    int64_t apart;       /* how far its elements are */
    bool down;
};

/* Below 0 where a's value stands before b's, 0 where they are equal. */
static int compare(const struct row *r, int64_t a, int64_t b)
{
    int64_t i = r->first + a * r->step, k = r->first + b * r->step;
    if (td_dtype_kind(r->self->dtype) == 'f') {
        double x = td_get_real(r->self, i), y = td_get_real(r->self, k);
        return isnan(x) || isnan(y) ? isnan(x) - isnan(y) : (x > y) - (x < y);
    }
    int64_t bit = td_order_bit(r->self->dtype);
    int64_t x = td_get_whole(r->self, i) ^ bit, y = td_get_whole(r->self, k) ^ bit;
    return (x > y) - (x < y);
}

/* Whether a stands before b. */
static bool before(const struct row *r, int64_t a, int64_t b)
{
    int order = compare(r, a, b);
    return order ? (r->down ? order > 0 : order < 0) : a < b;
}

static void sink(const struct row *r, int64_t at, int64_t n)
{
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && before(r, r->heap[child * r->apart], r->heap[(child + 1) * r->apart]))
            child++;
        int64_t *a = &r->heap[at * r->apart], *b = &r->heap[child * r->apart], kept = *a;
        if (!before(r, *a, *b))
            return;
        *a = *b;
        *b = kept;
    }
}

static void order(const struct row *r, int64_t size, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        r->heap[i * r->apart] = i;
    for (int64_t i = k / 2; i-- > 0;)
        sink(r, i, k);
    for (int64_t i = k; i < size && k; i++)
        if (before(r, i, r->heap[0])) {
            r->heap[0] = i;
            sink(r, 0, k);
        }
    for (int64_t n = k; n-- > 1;) {
        int64_t worst = r->heap[0];
        r->heap[0] = r->heap[n * r->apart];
        r->heap[n * r->apart] = worst;
        sink(r, 0, n);
    }
}

static bool same(const void *row, int64_t i)
{
    const struct row *r = row;
    return compare(r, r->heap[i], r->heap[i + 1]) == 0;
}

/* Of one: its place. */
static int64_t find(struct row r, const struct td_sorting *s, int64_t *room)
{
    int64_t nans = 0;
    for (int64_t i = 0; i < s->size && td_dtype_kind(r.self->dtype) == 'f'; i++)
        nans += isnan(td_get_real(r.self, r.first + i * r.step));
    r.heap = room;
    r.apart = 1;
    order(&r, s->size, s->k);
    return room[td_sort_place(s, nans, same, &r)];
}

/* What lies in the middle of nothing. */
static bool is_nothing(const struct td_sorting *s)
{
    if (!s->size && s->one)
        td_put_real(s->values, 0, NAN);
    return !s->size && s->one;
}

void td_sort_ref(const struct td_call *call)
{
    struct td_sorting s = td_sorting(call);
    const struct td_tensor *self = &call->arg[0].tensor;
    size_t bytes = td_dtype_size(self->dtype);
    int64_t kept = s.one ? 1 : s.k, place;
    if (is_nothing(&s))
        return;
    for (int64_t i = 0; i < s.outer * s.inner && !td_stopped(); i++) {
        int64_t out = i / s.inner * kept * s.inner + i % s.inner;
        struct row r = {.self = self,
                        .first = i / s.inner * s.size * s.inner + i % s.inner,
                        .step = s.inner,
                        .heap = s.indices ? (int64_t *)s.indices->data + out : &place,
                        .apart = s.inner,
                        .down = s.down};
        if (s.one)
            *r.heap = find(r, &s, call->scratch);
        else
            order(&r, s.size, s.k);
        for (int64_t j = 0; j < kept && s.values; j++)
            memcpy((char *)s.values->data + (size_t)(out + j * s.inner) * bytes,
                   (char *)self->data + (size_t)(r.first + r.heap[j * s.inner] * s.inner) * bytes,
                   bytes);
    }
}
