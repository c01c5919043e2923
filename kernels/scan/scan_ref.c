/* The scans, reference: one element at a time, in double or INT64, in the order that
 * is the definition: what has overflowed does not come back. */
#include "kernels/elementwise.h"
#include "kernels/none.h"
#include "kernels/scan/scan.h"

enum { NONE };

#define W_add(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define W_mul(a, b) ((int64_t)((uint64_t)(a) * (uint64_t)(b)))

static double log_add(double a, double b)
{
    if (a == b && isinf(a))
        return a;
    return (a > b || a != a ? a : b) + log1p(exp(-fabs(a - b)));
}

struct state {
    double real;
    int64_t whole, at;
};

static struct state first(enum td_scan scan)
{
    switch (scan) {
#define TD_SCAN_STEP(id, cost, init, ...)                                                          \
    case TD_SCAN_##id:                                                                             \
        return (struct state){.real = init, .whole = scan == TD_SCAN_prod};
#include "kernels/scan/scan.def"
    default:
        return (struct state){0};
    }
}

static void real_step(enum td_scan scan, struct state *state, double x, int64_t k)
{
    double s = state->real;
    switch (scan) {
#define TD_SCAN_STEP(id, cost, init, formula, whole)                                               \
    case TD_SCAN_##id:                                                                             \
        state->real = formula;                                                                     \
        break;
#define TD_SCAN_PICK(id, better, lanes)                                                            \
    case TD_SCAN_##id:                                                                             \
        if (!k || (better)) {                                                                      \
            state->real = x;                                                                       \
            state->at = k;                                                                         \
        }                                                                                          \
        break;
#include "kernels/scan/scan.def"
    default:
        break;
    }
}

static void whole_step(enum td_scan scan, struct state *state, int64_t x, int64_t k)
{
    int64_t s = state->whole;
    switch (scan) {
#define TD_SCAN_STEP(id, cost, init, real, formula)                                                \
    case TD_SCAN_##id:                                                                             \
        assert(TD_MEANT(formula));                                                                 \
        state->whole = formula;                                                                    \
        break;
#define TD_SCAN_PICK(id, better, lanes)                                                            \
    case TD_SCAN_##id:                                                                             \
        if (!k || (better)) {                                                                      \
            state->whole = x;                                                                      \
            state->at = k;                                                                         \
        }                                                                                          \
        break;
#include "kernels/scan/scan.def"
    default:
        break;
    }
}

td_kernel td_scan_ref;
void td_scan_ref(const struct td_call *call)
{
    enum td_scan scan = td_scan_of(call);
    const struct td_tensor *x = &call->arg[0].tensor;
    struct td_span s = td_span(x, (int)call->arg[1].i);
    bool reals = td_dtype_kind(x->dtype) == 'f';
    int64_t bit = scan >= TD_SCAN_FIRST_PICK ? td_order_bit(x->dtype) : 0;
    int64_t rows = s.size ? s.outer * s.inner : 0;
    for (int64_t row = 0; row < rows && !td_stopped(); row++) {
        int64_t at = row / s.inner * s.size * s.inner + row % s.inner;
        struct state state = first(scan);
        for (int64_t k = 0; k < s.size; k++, at += s.inner) {
            if (reals) {
                real_step(scan, &state, td_get_real(x, at), k);
                td_put_real(&call->out[0], at, state.real);
            } else {
                whole_step(scan, &state, td_get_whole(x, at) ^ bit, k);
                td_put_whole(&call->out[0], at, state.whole ^ bit);
            }
            if (scan >= TD_SCAN_FIRST_PICK)
                td_put_whole(&call->out[1], at, state.at);
        }
    }
}
