/* histogram: an element at a time, its place found by halving the edges. */
#include "kernels/histogram/histogram.h"

#include "kernels/elementwise.h"

#include <math.h>

/* Edge i of so many parts, counted from the nearer end: the step is rounded to the type, and then
 * the edge, once. */
static double edge(double low, double high, int64_t i, int64_t parts, bool wide)
{
    bool below = i < (parts + 1) / 2;
    int64_t steps = below ? i : parts - i;
    if (wide) {
        double step = (high - low) / (double)parts;
        return below ? fma(step, (double)steps, low) : fma(-step, (double)steps, high);
    }
    float first = (float)low, last = (float)high, step = (last - first) / (float)parts;
    double apart = (double)step * (double)steps;
    return (double)(float)(below ? (double)first + apart : (double)last - apart);
}

static void fill_edges(const struct td_call *call, const struct td_tensor *edges)
{
    int64_t n = edges->shape[0];
    bool given = call->arg[1].kind == TD_KIND_tensor, wide = edges->dtype == TD_f64;
    double low = 0, high = 0;
    if (!given)
        td_histogram_range(call, &low, &high);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++)
        td_put_real(edges, i,
                    given ? td_get_real(&call->arg[1].tensor, i) : edge(low, high, i, n - 1, wide));
}

/* The part that x lies in, which is between the first and the last edge. Of edges that are in no
 * order it is what halving finds. */
static int64_t part_of(double x, const struct td_tensor *edges)
{
    int64_t first = 0, n = edges->shape[0], parts = n - 1;
    while (n > 0) {
        int64_t half = n / 2;
        bool above = x < td_get_real(edges, first + half);
        first += above ? 0 : half + 1;
        n = above ? half : n - half - 1;
    }
    return first < 1 ? 0 : first > parts ? parts - 1 : first - 1;
}

static void make_density(const struct td_tensor *hist, const struct td_tensor *edges)
{
    double sum = 0;
    for (int64_t i = 0; i < hist->shape[0] && (i % TD_STRIDE || !td_stopped()); i++)
        sum += td_get_real(hist, i);
    for (int64_t i = 0; i < hist->shape[0] && (i % TD_STRIDE || !td_stopped()); i++)
        td_put_real(hist, i,
                    td_get_real(hist, i) / sum /
                        (td_get_real(edges, i + 1) - td_get_real(edges, i)));
}

td_kernel td_histogram_ref;
void td_histogram_ref(const struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor, *hist = &call->out[0],
                           *edges = &call->out[1];
    const struct td_tensor *weight = td_arg(call, call->n_args - 2);
    int64_t n = td_numel(self), parts = hist->shape[0];
    fill_edges(call, edges);
    double low = td_get_real(edges, 0), high = td_get_real(edges, parts);
    for (int64_t i = 0; i < parts && (i % TD_STRIDE || !td_stopped()); i++)
        td_put_real(hist, i, 0);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        double x = td_get_real(self, i);
        if (!(x >= low && x <= high))
            continue;
        int64_t at = part_of(x, edges);
        td_put_real(hist, at, td_get_real(hist, at) + (weight ? td_get_real(weight, i) : 1));
    }
    if (call->arg[call->n_args - 1].i)
        make_density(hist, edges);
}
