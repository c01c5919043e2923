/* im2col and col2im, vector form. A piece of work is a row: of windows for the one, which is
 * copied, and of the image for the other, to which the rows of windows that have a share in it are
 * added. */
#include "kernels/lines.h"
#include "kernels/unfold/unfold.h"

#define TILE 1024 /* elements of an image's row */
#define GRAIN 32768

struct job {
    struct td_unfold u;
    enum td_dtype type;
    size_t size;
    const char *in;
    char *out;
};

#define TD_EVERY(T)                                                                                \
    static void every_##T(T *restrict to, const T *restrict from, int64_t n, int64_t step)         \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++)                                                            \
            to[i] = from[i * step];                                                                \
    }
TD_EVERY(uint8_t)
TD_EVERY(uint16_t)
TD_EVERY(uint32_t)
TD_EVERY(uint64_t)

static void copy(const struct job *j, char *to, const char *from, int64_t n)
{
    int64_t step = j->u.w.stride;
    if (step == 1)
        memcpy(to, from, (size_t)n * j->size);
    else if (j->size == 1)
        every_uint8_t((uint8_t *)to, (const uint8_t *)from, n, step);
    else if (j->size == 2)
        every_uint16_t((uint16_t *)to, (const uint16_t *)from, n, step);
    else if (j->size == 4)
        every_uint32_t((uint32_t *)to, (const uint32_t *)from, n, step);
    else
        every_uint64_t((uint64_t *)to, (const uint64_t *)from, n, step);
}

static void rows_of_windows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const struct td_unfold_axis *h = &j->u.h, *w = &j->u.w;
    int64_t low, high;
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t block = i / h->windows, k = block % w->kernel, c = block / w->kernel / h->kernel;
        int64_t y =
            i % h->windows * h->stride + block / w->kernel % h->kernel * h->dilation - h->padding;
        char *out = j->out + (size_t)(i * w->windows) * j->size;
        td_unfold_inside(w, k, &low, &high);
        if (y < 0 || y >= h->size)
            low = high = 0;
        memset(out, 0, (size_t)low * j->size);
        if (low < high) {
            int64_t from =
                (c * h->size + y) * w->size + low * w->stride + k * w->dilation - w->padding;
            copy(j, out + (size_t)low * j->size, j->in + (size_t)from * j->size, high - low);
        }
        memset(out + (size_t)high * j->size, 0, (size_t)(w->windows - high) * j->size);
    }
}

static struct job job_of(const struct td_call *call)
{
    return (struct job){.u = td_unfold_of(call),
                        .type = call->out[0].dtype,
                        .size = td_dtype_size(call->out[0].dtype),
                        .in = call->arg[0].tensor.data,
                        .out = call->out[0].data};
}

TD_KERNEL(im2col)
{
    struct job j = job_of(call);
    int64_t n = td_numel(&call->out[0]);
    if (n)
        td_parallel(call->threads, n / j.u.w.windows, 1 + GRAIN / j.u.w.windows, rows_of_windows,
                    &j);
}

/* ---- col2im ---- */

/* Of row y of channel c the n < TILE elements from x on; to them all windows' shares are added. */
#define TD_ADD_UP(T)                                                                               \
    static void add_##T(const struct job *j, int64_t c, int64_t y, int64_t x, int64_t n, T *sum)   \
    {                                                                                              \
        const struct td_unfold_axis *h = &j->u.h, *w = &j->u.w;                                    \
        T room[TILE];                                                                              \
        for (int64_t k = 0; k < h->kernel * w->kernel; k++) {                                      \
            int64_t from = y + h->padding - k / w->kernel * h->dilation, row = from / h->stride;   \
            if (from < 0 || from % h->stride || row >= h->windows)                                 \
                continue;                                                                          \
            int64_t first = k % w->kernel * w->dilation - w->padding, low, high;                   \
            int64_t last = x + n - first; /* window i's element lies at first + i * stride */      \
            td_unfold_inside(w, k % w->kernel, &low, &high);                                       \
            int64_t least = x > first ? (x - first + w->stride - 1) / w->stride : 0;               \
            int64_t most = last > 0 ? (last + w->stride - 1) / w->stride : 0;                      \
            low = low > least ? low : least;                                                       \
            high = high < most ? high : most;                                                      \
            if (low >= high)                                                                       \
                continue;                                                                          \
            int64_t block = (c * h->kernel * w->kernel + k) * h->windows + row;                    \
            const T *part =                                                                        \
                td_line_of_##T(j->type, j->in, block * w->windows + low, high - low, room);        \
            T *to = sum + (first + low * w->stride - x);                                           \
            if (w->stride == 1)                                                                    \
                for (int64_t i = 0; i < high - low; i++)                                           \
                    to[i] += part[i];                                                              \
            else                                                                                   \
                for (int64_t i = 0; i < high - low; i++)                                           \
                    to[i * w->stride] += part[i];                                                  \
        }                                                                                          \
    }                                                                                              \
    static void rows_##T(void *arg, int64_t begin, int64_t end)                                    \
    {                                                                                              \
        const struct job *j = arg;                                                                 \
        int64_t width = j->u.w.size;                                                               \
        T sum[TILE];                                                                               \
        for (int64_t i = begin; i < end && !td_stopped(); i++)                                     \
            for (int64_t x = 0; x < width; x += TILE) {                                            \
                int64_t n = width - x < TILE ? width - x : TILE;                                   \
                memset(sum, 0, sizeof sum);                                                        \
                add_##T(j, i / j->u.h.size, i % j->u.h.size, x, n, sum);                           \
                td_line_to_##T(j->type, j->out, i *width + x, n, sum);                             \
            }                                                                                      \
    }
TD_ADD_UP(float)
TD_ADD_UP(double)

TD_KERNEL(col2im)
{
    struct job j = job_of(call);
    int64_t n = td_numel(&call->out[0]);
    if (!n)
        return;
    int64_t rows = n / j.u.w.size;
    double cost = call->op->flops(call) / (double)rows;
    td_parallel(call->threads, rows, 1 + (int64_t)(GRAIN / cost),
                j.type == TD_f64 ? rows_double : rows_float, &j);
}
