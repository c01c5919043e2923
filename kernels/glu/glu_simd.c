/* glu, vector form: runs of both halves, in lanes of doubles for every type. */
#define TD_REAL_BITS 64
#include "kernels/dims.h"
#include "kernels/formulas.h"
#include "kernels/lines.h"

struct job {
    const struct td_tensor *self, *out;
    int64_t half; /* elements that lie together in a half */
};

static void range(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double a[TD_RUN], b[TD_RUN] = {0};
    for (int64_t i = begin, n; i < end && !td_stopped(); i += n) {
        int64_t at = i + i / j->half * j->half, left = j->half - i % j->half;
        n = end - i < left ? end - i : left;
        n = n < TD_RUN ? n : TD_RUN;
        td_line_get(a, j->self, at, n);
        td_line_get(b, j->self, at + j->half, n);
        for (int64_t k = 0; k < n; k += L_LANES)
            L_store(b + k, o_sigmoid(L_load(b + k)));
        for (int64_t k = 0; k < n; k++)
            a[k] *= b[k];
        td_line_put(j->out, i, n, a);
    }
}

TD_KERNEL(glu)
{
    struct td_span span = td_span(&call->out[0], (int)call->arg[1].i);
    struct job j = {&call->arg[0].tensor, &call->out[0], span.size * span.inner};
    td_parallel(call->threads, td_numel(j.out), 4096, range, &j);
}
