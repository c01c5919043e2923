/* glu, vector form: runs of both halves, or many of them where they are short. For glu_f32.c and
 * glu_f64.c. */
#include "kernels/dims.h"
#include "kernels/formulas.h"
#include "kernels/lines.h"

#if TD_REAL_BITS == 32
#define LINE_OF td_line_of_float
#define LINE_TO td_line_to_float
#else
#define LINE_OF td_line_of_double
#define LINE_TO td_line_to_double
#endif

struct job {
    const struct td_tensor *self, *out;
    int64_t half; /* elements that lie together in a half */
};

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* a * sigmoid(b). Far below, where sigmoid(b) is exp(b) and may be a denormal of FP32 with few
 * digits, a is multiplied by exp(b / 2) twice; in FP64 the result has these few digits, as the
 * reference's and PyTorch's. */
TD_INLINE V gate(V a, V b)
{
    V y = L_mul(a, o_sigmoid(b));
    if (TD_REAL_BITS == 64)
        return y;
    VM far = L_lt(b, L_c(TD_NEAR_ARGUMENT));
    if (!L_any(far))
        return y;
    V root = o_exp_below(L_mul(b, L_c((td_real)0.5)));
    return L_sel(far, L_mul(L_mul(a, root), root), y);
}

static void gate_line(td_real *to, const td_real *a, const td_real *b, int64_t n)
{
    td_real x[L_LANES] = {0}, y[L_LANES] = {0};
    int64_t i = 0;
    for (; i + L_LANES <= n; i += L_LANES)
        L_store(to + i, gate(L_load(a + i), L_load(b + i)));
    memcpy(x, a + i, (size_t)(n - i) * sizeof *x);
    memcpy(y, b + i, (size_t)(n - i) * sizeof *y);
    L_store(x, gate(L_load(x), L_load(y)));
    memcpy(to + i, x, (size_t)(n - i) * sizeof *x);
}

/* How many of the left elements from number i on are taken together: whole runs, or some of one. */
static int64_t together(const struct job *j, int64_t i, int64_t left)
{
    int64_t rest = j->half - i % j->half, runs = least(left, TD_RUN / 2) / j->half;
    return runs && rest == j->half ? runs * j->half : least(rest, least(left, TD_RUN));
}

static void range(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    const enum td_dtype type = j->self->dtype;
    const int64_t half = j->half;
    td_real room[TD_RUN], a[TD_RUN], b[TD_RUN], y[TD_RUN];
    for (int64_t i = begin, n; i < end && !td_stopped(); i += n) {
        n = together(j, i, end - i);
        int64_t at = i + i / half * half;
        const td_real *of = a, *by = b;
        if (n % half || 2 * n > TD_RUN || n == half) {
            of = LINE_OF(type, j->self->data, at, n, a);
            by = LINE_OF(type, j->self->data, at + half, n, b);
        } else {
            const td_real *both = LINE_OF(type, j->self->data, at, 2 * n, room);
            for (int64_t r = 0; r < n; r += half)
                for (int64_t k = 0; k < half; k++) {
                    a[r + k] = both[2 * r + k];
                    b[r + k] = both[2 * r + half + k];
                }
        }
        gate_line(y, of, by, n);
        LINE_TO(type, j->out->data, i, n, y);
    }
}

static void glu(const struct td_call *call)
{
    struct td_span span = td_span(&call->out[0], (int)call->arg[1].i);
    struct job j = {&call->arg[0].tensor, &call->out[0], span.size * span.inner};
    td_parallel(call->threads, td_numel(j.out), 4096, range, &j);
}
