/* rotary_embedding, vector form: head by head, some pairs at a time. */
#include "kernels/lines.h"
#include "kernels/rotary/rotary.h"

#define GRAIN 8192
#define PAIRS (TD_RUN / 2)

/* n pairs from the one that is first on; a and b: where their elements lie, side by side in a for
 * neighbours. */
static void turn(const struct td_rotary *r, int64_t a, int64_t b, int64_t angle, int64_t n)
{
    double x[TD_RUN], y[PAIRS], cosine[PAIRS], sine[PAIRS];
    td_line_get(cosine, r->cosine, angle, n);
    td_line_get(sine, r->sine, angle, n);
    if (r->paired) {
        td_line_get(x, r->x, a, 2 * n);
        for (int64_t k = 0; k < n; k++) {
            double first = x[2 * k], second = x[2 * k + 1];
            x[2 * k] = first * cosine[k] - second * sine[k];
            x[2 * k + 1] = first * sine[k] + second * cosine[k];
        }
        td_line_put(r->out, a, 2 * n, x);
        return;
    }
    td_line_get(x, r->x, a, n);
    td_line_get(y, r->x, b, n);
    for (int64_t k = 0; k < n; k++) {
        double first = x[k];
        x[k] = first * cosine[k] - y[k] * sine[k];
        y[k] = first * sine[k] + y[k] * cosine[k];
    }
    td_line_put(r->out, a, n, x);
    td_line_put(r->out, b, n, y);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct td_rotary *r = arg;
    size_t size = td_dtype_size(r->x->dtype);
    for (int64_t row = begin; row < end && !td_stopped(); row++) {
        int64_t at = row * r->depth, angle = td_rotary_angle(r, row) * r->half;
        for (int64_t k = 0; k < r->half; k += PAIRS) {
            int64_t n = r->half - k < PAIRS ? r->half - k : PAIRS;
            turn(r, at + (r->paired ? 2 * k : k), at + r->half + k, angle + k, n);
        }
        int64_t turned = 2 * r->half;
        if (r->out->data == r->x->data)
            continue;
        memcpy((char *)r->out->data + (size_t)(at + turned) * size,
               (const char *)r->x->data + (size_t)(at + turned) * size,
               (size_t)(r->depth - turned) * size);
    }
}

TD_KERNEL(rotary)
{
    struct td_rotary r = td_rotary_of(call);
    int64_t n = td_numel(r.out);
    if (n)
        td_parallel(call->threads, n / r.depth, 1 + GRAIN / r.depth, rows, &r);
}
