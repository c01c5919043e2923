/* The pools' judge: one window after the other, in double, or in INT64 where elements are whole. */
#include "kernels/window/window.h"

#include "kernels/elementwise.h"

#include <math.h>

struct found { /* of a window so far */
    double real;
    int64_t whole, at;
};

/* Element at, which lies later in the plane than all before it. */
static void take(struct found *f, const struct td_tensor *in, int64_t plane, int64_t at, bool max)
{
    if (td_dtype_kind(in->dtype) != 'f') {
        int64_t x = td_get_whole(in, plane + at);
        bool larger = max && x > f->whole;
        f->at = larger ? at : f->at;
        f->whole = larger ? x : max ? f->whole : (int64_t)((uint64_t)f->whole + (uint64_t)x);
        return;
    }
    double x = td_get_real(in, plane + at);
    bool larger = max && (x > f->real || isnan(x));
    f->at = larger ? at : f->at;
    f->real = larger ? x : max ? f->real : f->real + x;
}

static int64_t lowest(enum td_dtype type)
{
    return td_dtype_kind(type) == 'i' ? INT64_MIN >> (64 - 8 * (int)td_dtype_size(type)) : 0;
}

/* Result i of a plane, from which element number in the tensor on. */
static void judge(const struct td_call *call, const struct td_pool *pool,
                  const struct td_tensor *in, int64_t plane, int64_t i, bool max)
{
    const struct td_axis *a = pool->axis;
    const struct td_tensor *out = &call->out[0];
    struct td_taps d = td_axis_at(&a[0], i / a[2].out / a[1].out % a[0].out),
                   h = td_axis_at(&a[1], i / a[2].out % a[1].out),
                   w = td_axis_at(&a[2], i % a[2].out);
    struct found f = {.real = max ? -INFINITY : 0,
                      .whole = max ? lowest(in->dtype) : 0,
                      .at = (d.first * a[1].in + h.first) * a[2].in + w.first};
    for (int64_t x = 0; x < d.n; x++)
        for (int64_t y = 0; y < h.n; y++)
            for (int64_t z = 0; z < w.n; z++)
                take(&f, in, plane,
                     ((d.first + x * a[0].dilation) * a[1].in + h.first + y * a[1].dilation) *
                             a[2].in +
                         w.first + z * a[2].dilation,
                     max);
    int64_t count = max ? 0 : td_pool_count(pool, &d, &h, &w);
    if (td_dtype_kind(in->dtype) != 'f')
        td_put_whole(out, i,
                     max           ? f.whole
                     : count == -1 ? (int64_t)(0 - (uint64_t)f.whole)
                                   : f.whole / count);
    else
        td_put_real(out, i, max ? f.real : f.real / (double)count);
    if (call->n_out > 1)
        td_put_whole(&call->out[1], i, f.at);
}

td_kernel td_window_ref;
void td_window_ref(const struct td_call *call)
{
    const struct td_window *family = call->op->family;
    struct td_pool pool = td_pool_of(call);
    const struct td_axis *a = pool.axis;
    int64_t n = td_numel(&call->out[0]);
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        int64_t plane = i / (a[0].out * a[1].out * a[2].out);
        judge(call, &pool, &call->arg[0].tensor, plane * a[0].in * a[1].in * a[2].in, i,
              family->kind == TD_WINDOW_max);
    }
}

td_kernel td_window_back_ref;
void td_window_back_ref(const struct td_call *call)
{
    const struct td_tensor *grad = &call->arg[0].tensor, *out = &call->out[0];
    struct td_pool pool = td_pool_of(call);
    const struct td_axis *h = &pool.axis[1], *w = &pool.axis[2];
    int64_t n = td_numel(out), y, rows, x, cols;
    for (int64_t i = 0; i < n && !td_stopped(); i++) {
        double sum = 0;
        td_axis_around(h, i / w->in % h->in, &y, &rows);
        for (; y < rows; y++)
            for (td_axis_around(w, i % w->in, &x, &cols); x < cols; x++) {
                struct td_taps a = td_axis_at(h, y), b = td_axis_at(w, x);
                int64_t count = pool.include_pad ? a.full * b.full : a.n * b.n;
                int64_t at = (i / (h->in * w->in) * h->out + y) * w->out + x;
                sum += td_get_real(grad, at) / (double)(pool.divisor ? pool.divisor : count);
            }
        td_put_real(out, i, sum);
    }
}
