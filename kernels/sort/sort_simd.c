/* The sort family, the row of all types: elements become whole numbers in the same order, which are
 * sorted digit by digit with their places beside them; a digit in which all agree costs nothing. Of
 * few results out of many elements a heap keeps the best ones. */
#include "kernels/sort/sort.h"

#include <string.h>

#define FEW 48 /* elements that are sorted by insertion */

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

/* ---- keys ---- */

/* Bits of a floating-point number, as many, as a key: NaN on top, -0 as 0. */
static inline uint64_t real_key(uint64_t bits, int width, uint64_t infinity)
{
    uint64_t sign = (uint64_t)1 << (width - 1), rest = bits & (sign - 1);
    if (rest > infinity)
        return 2 * sign - 1;
    return bits & sign ? sign - rest : sign + rest;
}

#define READ(T, ...)                                                                               \
    for (int64_t i = 0; i < n; i++) {                                                              \
        T x = ((const T *)from)[i * step];                                                         \
        items[i] = (struct item){(__VA_ARGS__) ^ turn, i};                                         \
    }                                                                                              \
    break

static void read_row(enum td_dtype dtype, const void *from, int64_t step, int64_t n, bool down,
                     struct item *items)
{
    size_t size = td_dtype_size(dtype);
    uint64_t turn = !down ? 0 : size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * size) - 1;
    switch (dtype) {
    case TD_bool:
    case TD_u8:
        READ(uint8_t, (uint64_t)x);
    case TD_i8:
        READ(int8_t, (uint64_t)(uint8_t)x ^ 0x80);
    case TD_i16:
        READ(int16_t, (uint64_t)(uint16_t)x ^ 0x8000);
    case TD_i32:
        READ(int32_t, (uint64_t)(uint32_t)x ^ 0x80000000);
    case TD_i64:
        READ(int64_t, (uint64_t)x ^ (uint64_t)1 << 63);
    case TD_u16:
        READ(uint16_t, (uint64_t)x);
    case TD_u32:
        READ(uint32_t, (uint64_t)x);
    case TD_u64:
        READ(uint64_t, x);
    case TD_f16:
        READ(uint16_t, real_key(x, 16, 0x7c00));
    case TD_bf16:
        READ(uint16_t, real_key(x, 16, 0x7f80));
    case TD_f32:
        READ(uint32_t, real_key(x, 32, 0x7f800000));
    default:
        READ(uint64_t, real_key(x, 64, UINT64_C(0x7ff0000000000000)));
    }
}

/* ---- order ---- */

static void insert(struct item *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        struct item x = items[i];
        int64_t k = i;
        for (; k > 0 && items[k - 1].key > x.key; k--)
            items[k] = items[k - 1];
        items[k] = x;
    }
}

/* Sorts, with as much room beside, and gives back which of both has the result. */
static struct item *sort(struct item *items, struct item *beside, int64_t n, size_t bytes)
{
    int64_t count[8][256];
    if (n <= FEW) {
        insert(items, n);
        return items;
    }
    memset(count, 0, bytes * sizeof *count);
    for (int64_t i = 0; i < n; i++)
        for (size_t b = 0; b < bytes; b++)
            count[b][items[i].key >> 8 * b & 255]++;
    for (size_t b = 0; b < bytes; b++) {
        int64_t *c = count[b], at = 0;
        if (c[items[0].key >> 8 * b & 255] == n)
            continue;
        for (int d = 0; d < 256; d++) {
            int64_t here = c[d];
            c[d] = at;
            at += here;
        }
        for (int64_t i = 0; i < n; i++)
            beside[c[items[i].key >> 8 * b & 255]++] = items[i];
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

/* The first k of n, in order. */
static void choose(struct item *items, int64_t n, int64_t k)
{
    for (int64_t i = k / 2; i-- > 0;)
        sink(items, i, k);
    for (int64_t i = k; i < n; i++)
        if (items[i].key < items[0].key) { /* later ones of the same value come after */
            items[0] = items[i];
            sink(items, 0, k);
        }
    for (int64_t m = k; m-- > 1;) {
        struct item last = items[0];
        items[0] = items[m];
        items[m] = last;
        sink(items, 0, m);
    }
}

/* ---- rows ---- */

static void write_row(const struct job *job, const struct item *items, int64_t n, const char *from,
                      int64_t out)
{
    const struct td_sorting *s = &job->s;
    size_t size = td_dtype_size(job->call->arg[0].tensor.dtype);
    int64_t *indices = (int64_t *)s->indices->data + out;
    for (int64_t i = 0; i < n; i++)
        indices[i * s->inner] = items[i].at;
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

/* Of a middle: the first NaN, where the last in order is one. */
static int64_t middle(const struct td_sorting *s, enum td_dtype dtype, const struct item *items)
{
    size_t size = td_dtype_size(dtype);
    uint64_t top = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << 8 * size) - 1;
    int64_t at = s->size - 1;
    if (!s->nan || td_dtype_kind(dtype) != 'f' || items[at].key != top)
        return s->k - 1;
    while (at > 0 && items[at - 1].key == top)
        at--;
    return at;
}

static void sort_row(const struct job *job, int64_t row, struct item *items)
{
    const struct td_sorting *s = &job->s;
    const struct td_tensor *self = &job->call->arg[0].tensor;
    size_t size = td_dtype_size(self->dtype);
    int64_t kept = s->one ? 1 : s->k;
    const char *from = (const char *)self->data +
                       (size_t)(row / s->inner * s->size * s->inner + row % s->inner) * size;
    int64_t out = row / s->inner * kept * s->inner + row % s->inner;
    read_row(self->dtype, from, s->inner, s->size, s->down, items);
    if (!s->nan && s->k < s->size / 8)
        choose(items, s->size, s->k);
    else
        items = sort(items, items + s->size, s->size, size);
    write_row(job, s->one ? items + middle(s, self->dtype, items) : items, kept, from, out);
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
