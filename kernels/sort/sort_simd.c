/* The sort family, the rows of all types: elements become whole numbers in the same order. In a
 * short row each is compared with all others, in vectors, which tells its place (sort_short.def).
 * Somewhat longer ones are merged, and long ones are sorted digit by digit, with their places
 * beside them; a digit in which all agree costs nothing. Of few results out of many elements a heap
 * keeps the best ones. */
#include "kernels/sort/sort.h"
#include "kernels/vec.h"

#include <string.h>

#define RANKED_VECTORS 12 /* of a short row's elements */
#define MERGED 12         /* elements of a merged row, at most, a digit in which keys differ */
#define FEW_OF 8          /* so many times as many elements are many beside the first few */
#define RUN 32            /* elements that are looked at together */
#define PLACE_BITS 15     /* beside the 16 of a key */

struct item {
    uint64_t key;
    int64_t at;
};

struct job {
    const struct td_call *call;
    struct td_sorting s;
    struct item *room; /* two rows a worker */
    int64_t workers;
};

/* Bits of a floating-point number as a key: NaN on top, -0 as 0. */
#define TOP(T) ((T)((T)1 << (8 * sizeof(T) - 1)))
#define REAL_KEY(T, x, infinity)                                                                   \
    ((T)((((x)&TOP(T)) ? 0 - (x) : TOP(T) | (x)) | (((x) & ~TOP(T)) > (infinity) ? (T) ~(T)0 : 0)))

/* ---- order ---- */

/* Merges two runs that follow each other, of which the first is as long as it says, to beside. */
static void merge(const struct item *items, int64_t first, int64_t n, struct item *beside)
{
    const struct item *a = items, *b = items + first, *end = items + n, *middle = b;
    while (a < middle && b < end) { /* without a branch on keys, which nothing foretells */
        bool second = b->key < a->key;
        *beside++ = *(second ? b : a);
        b += second;
        a += !second;
    }
    memcpy(beside, a, (size_t)(middle - a) * sizeof *a);
    memcpy(beside + (middle - a), b, (size_t)(end - b) * sizeof *b);
}

/* As sort, for rows for which counting digits costs more than the elements do. */
static struct item *sort_by_merging(struct item *items, struct item *beside, int64_t n)
{
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            int64_t left = n - i;
            merge(items + i, run < left ? run : left, 2 * run < left ? 2 * run : left, beside + i);
        }
        struct item *sorted = beside;
        beside = items;
        items = sorted;
    }
    return items;
}

/* Sorts, with as much room beside, and gives back which of both has the result. */
static struct item *sort(struct item *items, struct item *beside, int64_t n)
{
    int64_t count[8][256];
    uint64_t differ = 0;
    int shift[8], digits = 0;
    for (int64_t i = 1; i < n; i++)
        differ |= items[i].key ^ items[0].key;
    for (int bits = 0; bits < 64; bits += 8)
        if (differ >> bits & 255)
            shift[digits++] = bits;
    if (n <= MERGED * digits)
        return sort_by_merging(items, beside, n);
    memset(count, 0, (size_t)digits * sizeof *count);
    for (int64_t i = 0; i < n; i++)
        for (int d = 0; d < digits; d++)
            count[d][items[i].key >> shift[d] & 255]++;
    for (int d = 0; d < digits; d++) {
        int64_t *c = count[d], at = 0;
        for (int k = 0; k < 256; k++) {
            int64_t here = c[k];
            c[k] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++)
            beside[c[items[i].key >> shift[d] & 255]++] = items[i];
        struct item *sorted = beside;
        beside = items;
        items = sorted;
    }
    return items;
}

static inline bool after(struct item a, struct item b)
{
    return a.key > b.key || (a.key == b.key && a.at > b.at);
}

/* Lets items[at] of a heap of n, the last in order on top, sink to its place. */
static void sink(struct item *items, int64_t at, int64_t n)
{
    struct item x = items[at];
    for (int64_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && after(items[child + 1], items[child]);
        if (!after(items[child], x))
            break;
        items[at] = items[child];
    }
    items[at] = x;
}

#define MORE_gt(a, b) ((a) > (b))
#define MORE_ge(a, b) ((a) >= (b))
#define MORE_eq(a, b) ((a) == (b))
#define K int32_t
#define U uint32_t
#define SIZE 4
#include "kernels/sort/sort_short.def"
#define K int64_t
#define U uint64_t
#define SIZE 8
#include "kernels/sort/sort_short.def"

/* ---- rows ---- */

static void write_row(const struct job *job, const struct item *items, int64_t n, const char *from,
                      int64_t out)
{
    const struct td_sorting *s = &job->s;
    size_t size = td_dtype_size(job->call->arg[0].tensor.dtype);
    for (int64_t i = 0; i < n && s->indices; i++)
        ((int64_t *)s->indices->data)[out + i * s->inner] = items[i].at;
    if (!s->values)
        return;
    char *to = (char *)s->values->data + (size_t)out * size;
#define WRITE(T)                                                                                   \
    for (int64_t i = 0; i < n; i++)                                                                \
        ((T *)to)[i * s->inner] = ((const T *)from)[items[i].at * s->inner];                       \
    break
    switch (size) {
    case 1:
        WRITE(uint8_t);
    case 2:
        WRITE(uint16_t);
    case 4:
        WRITE(uint32_t);
    default:
        WRITE(uint64_t);
    }
}

static bool same(const void *row, int64_t i)
{
    const struct item *items = row;
    return items[i].key == items[i + 1].key;
}

/* Of one: which in order it is. */
static int64_t place(const struct td_sorting *s, enum td_dtype dtype, const struct item *items)
{
    size_t size = td_dtype_size(dtype);
    uint64_t top = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * size) - 1;
    int64_t at = s->k;
    while (at > 0 && td_dtype_kind(dtype) == 'f' && items[at - 1].key == top)
        at--;
    return td_sort_place(s, s->k - at, same, items);
}

static void sort_row(const struct job *job, int64_t row, struct item *items)
{
    const struct td_sorting *s = &job->s;
    const struct td_tensor *self = &job->call->arg[0].tensor;
    size_t size = td_dtype_size(self->dtype);
    int64_t kept = s->one ? 1 : s->k, outer = s->inner == 1 ? row : row / s->inner;
    int64_t inner = row - outer * s->inner, out = outer * kept * s->inner + inner;
    const char *from =
        (const char *)self->data + (size_t)(outer * s->size * s->inner + inner) * size;
    if (!kept)
        return;
    items = size == 8 ? order_int64_t(s, self->dtype, from, items)
                      : order_int32_t(s, self->dtype, from, items);
    write_row(job, s->one ? items + place(s, self->dtype, items) : items, kept, from, out);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    int64_t rows = job->s.outer * job->s.inner;
    for (int64_t w = begin; w < end; w++)
        for (int64_t row = rows * w / job->workers; row < rows * (w + 1) / job->workers; row++) {
            if (td_stopped())
                return;
            sort_row(job, row, job->room + 2 * w * job->s.size);
        }
}

TD_KERNEL(sort)
{
    struct job job = {.call = call, .s = td_sorting(call), .room = call->scratch};
    int64_t rows = job.s.outer * job.s.inner;
    job.workers = rows < call->threads ? rows : call->threads;
    if (rows * job.s.size < 4096) /* too little for a team */
        job.workers = 1;
    td_parallel(call->threads, job.workers, 1, some_rows, &job);
}
