/* glu, vector form: runs of both halves, or many of them where they are short, in lanes of doubles
 * for every type. */
#define TD_REAL_BITS 64
#include "kernels/dims.h"
#include "kernels/formulas.h"
#include "kernels/lines.h"

struct job {
    const struct td_tensor *self, *out;
    int64_t half; /* elements that lie together in a half */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* How many of the left elements from number i on are taken together: whole runs, or some of one. */
static int64_t together(const struct job *j, int64_t i, int64_t left)
{
    int64_t rest = j->half - i % j->half, runs = least(left, TD_RUN / 2) / j->half;
    return runs && rest == j->half ? runs * j->half : least(rest, least(left, TD_RUN));
}

static void get(const struct job *j, int64_t i, int64_t n, double *a, double *b)
{
    int64_t at = i + i / j->half * j->half, half = j->half;
    double both[TD_RUN];
    if (n % half || 2 * n > TD_RUN) {
        td_line_get(a, j->self, at, n);
        td_line_get(b, j->self, at + half, n);
        return;
    }
    td_line_get(both, j->self, at, 2 * n);
    for (int64_t r = 0; r < n; r += half)
        for (int64_t k = 0; k < half; k++) {
            a[r + k] = both[2 * r + k];
            b[r + k] = both[2 * r + half + k];
        }
}

static void range(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double a[TD_RUN], b[TD_RUN] = {0};
    for (int64_t i = begin, n; i < end && !td_stopped(); i += n) {
        n = together(j, i, end - i);
        get(j, i, n, a, b);
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
