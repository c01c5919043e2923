/* native_layer_norm_backward, reference: row by row for the input, column by column for the rest.
 */
#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/norm/norm.h"

td_kernel td_layer_norm_backward_ref;

struct args {
    const struct td_tensor *grad, *x, *mean, *rstd, *weight;
    struct td_rows rows;
};

static double normal(const struct args *a, int64_t r, int64_t i)
{
    return (td_get_real(a->x, r * a->rows.n + i) - td_get_real(a->mean, r)) *
           td_get_real(a->rstd, r);
}

static double scaled(const struct args *a, int64_t r, int64_t i)
{
    return td_get_real(a->grad, r * a->rows.n + i) * (a->weight ? td_get_real(a->weight, i) : 1);
}

static void input(const struct args *a, const struct td_tensor *out)
{
    int64_t n = a->rows.n;
    for (int64_t r = 0; r < a->rows.count && !td_stopped(); r++) {
        double mean = 0, slope = 0;
        for (int64_t i = 0; i < n; i++) {
            mean += scaled(a, r, i) / (double)n;
            slope += scaled(a, r, i) * normal(a, r, i) / (double)n;
        }
        for (int64_t i = 0; i < n; i++)
            td_put_real(out, r * n + i,
                        td_get_real(a->rstd, r) *
                            (scaled(a, r, i) - mean - normal(a, r, i) * slope));
    }
}

static void affine(const struct args *a, const struct td_tensor *out, bool weight)
{
    for (int64_t i = 0; i < a->rows.n && !td_stopped(); i++) {
        double sum = 0;
        for (int64_t r = 0; r < a->rows.count; r++)
            sum += td_get_real(a->grad, r * a->rows.n + i) * (weight ? normal(a, r, i) : 1);
        td_put_real(out, i, sum);
    }
}

void td_layer_norm_backward_ref(const struct td_call *call)
{
    struct args a = {td_arg(call, 0), td_arg(call, 1), td_arg(call, 3),
                     td_arg(call, 4), td_arg(call, 5), {0}};
    a.rows = td_normalized_rows(a.x, &call->arg[2]);
    if (td_wants(call, 0) && a.rows.n)
        input(&a, &call->out[0]);
    if (td_wants(call, 1))
        affine(&a, &call->out[1], true);
    if (td_wants(call, 2))
        affine(&a, &call->out[2], false);
}
