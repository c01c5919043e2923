/* The distances, reference: one pair after the other. Sums are in long doubles, since those of many
 * FP64 elements would lose digits otherwise. */
#include "kernels/distance/distance.h"
#include "kernels/elementwise.h"

#include <math.h>

static double between(const struct td_distance *d, int64_t a, int64_t b)
{
    long double sum = 0;
    for (int64_t i = 0; i < d->n; i++) {
        double x = fabs(td_get_real(d->a, a + i) - td_get_real(d->b, b + i));
        if (d->p == 0)
            sum += isnan(x) ? x : x != 0;
        else if (isinf(d->p))
            sum = isnan(x) || x > sum ? x : sum;
        else
            sum += pow(x, d->p);
    }
    return d->p == 0 || isinf(d->p) ? (double)sum : pow((double)sum, 1 / d->p);
}

td_kernel td_distance_ref;
void td_distance_ref(const struct td_call *call)
{
    struct td_distance d = td_distance_of(call);
    int64_t at = 0;
    for (int64_t batch = 0; batch < d.batches; batch++) {
        int64_t a = td_distance_at(&d, d.a, batch), b = td_distance_at(&d, d.b, batch);
        for (int64_t i = 0; i < d.rows && !td_stopped(); i++)
            for (int64_t j = d.pairs ? i + 1 : 0; j < d.cols; j++)
                td_put_real(d.out, at++, between(&d, a + i * d.n, b + j * d.n));
    }
}
