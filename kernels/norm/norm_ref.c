/* The norms, reference: mean, then variance around it, then the rest, with sums
 * longer than double. Of a group without elements the mean is 0 and the rest NaN. */
#include "kernels/elementwise.h"
#include "kernels/norm/norm.h"

#include <math.h>

td_kernel td_norm_ref;

/* Element i of group k, and its channel. */
static int64_t place(const struct td_norm *n, int64_t k, int64_t i, int64_t *channel)
{
    if (!n->together) {
        *channel = k;
        return (i / n->inner * n->channels + k) * n->inner + i % n->inner;
    }
    *channel = k * n->together % n->channels + i / n->inner;
    return k * n->n + i;
}

static void group(const struct td_norm *n, int64_t k)
{
    long double mean = 0, var = 0;
    int64_t channel;
    for (int64_t i = 0; i < n->n && !n->mean && !n->root; i++)
        mean += (long double)td_get_real(n->x, place(n, k, i, &channel));
    mean = n->mean ? (long double)td_get_real(n->mean, k) : n->n ? mean / n->n : 0;
    for (int64_t i = 0; i < n->n && !n->mean; i++) {
        long double off = (long double)td_get_real(n->x, place(n, k, i, &channel)) - mean;
        var += off * off;
    }
    var = n->mean ? (long double)td_get_real(n->var, k) : var / n->n;
    double scale = (double)(1 / sqrtl(var + (long double)n->eps));
    if (n->out_mean) {
        td_put_real(n->out_mean, k, (double)mean);
        td_put_real(n->out_rstd, k, scale);
    }
    for (int64_t i = 0; i < n->n; i++) {
        int64_t at = place(n, k, i, &channel);
        double off = (double)((long double)td_get_real(n->x, at) - mean);
        td_put_real(n->out, at,
                    off * scale * (n->weight ? td_get_real(n->weight, channel) : 1) +
                        (n->bias ? td_get_real(n->bias, channel) : 0));
    }
}

void td_norm_ref(const struct td_call *call)
{
    struct td_norm n;
    td_norm_of(call, &n);
    int64_t groups = n.n || n.out_mean ? n.groups : 0;
    for (int64_t k = 0; k < groups && !td_stopped(); k++)
        group(&n, k);
}
