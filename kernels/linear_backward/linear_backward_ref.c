/* linear_backward, reference: the sums as they are written, in double. */
#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/linear_backward/linear_backward.h"

td_kernel td_linear_backward_ref;

static void weight(const struct td_linear_backward *l, const struct td_tensor *out)
{
    for (int64_t o = 0; o < l->out && !td_stopped(); o++)
        for (int64_t i = 0; i < l->in; i++) {
            double sum = 0;
            for (int64_t r = 0; r < l->rows; r++)
                sum += td_get_real(l->grad, r * l->out + o) * td_get_real(l->self, r * l->in + i);
            td_put_real(out, o * l->in + i, sum);
        }
}

static void bias(const struct td_linear_backward *l, const struct td_tensor *out)
{
    for (int64_t o = 0; o < l->out && !td_stopped(); o++) {
        double sum = 0;
        for (int64_t r = 0; r < l->rows; r++)
            sum += td_get_real(l->grad, r * l->out + o);
        td_put_real(out, o, sum);
    }
}

void td_linear_backward_ref(const struct td_call *call)
{
    struct td_linear_backward l;
    struct td_gemm g;
    td_linear_backward_of(call, &l);
    if (td_wants(call, 0)) {
        td_linear_backward_self(call, &g);
        td_gemm_ref(&g);
    }
    if (td_wants(call, 1))
        weight(&l, &call->out[1]);
    if (td_wants(call, 2))
        bias(&l, &call->out[2]);
}
