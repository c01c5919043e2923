/* Matrix products, the part that is the same for every implementation: which matrices of a batch
 * belong together, and the reference. Its inner loop is typed, not generic, because the tests run
 * it as often as the kernels that it judges. */
#include "kernels/gemm.h"

#include "kernels/elementwise.h"
#include "kernels/half.h"

int64_t td_gemm_batches(const struct td_gemm *g)
{
    int64_t n = 1;
    for (int d = 0; d < g->rank; d++)
        n *= g->batch[d];
    return n;
}

void td_gemm_at(const struct td_gemm *g, int64_t i, int64_t *a, int64_t *b)
{
    int64_t step_a = 1, step_b = 1;
    *a = *b = 0;
    for (int d = g->rank - 1; d >= 0; d--) {
        int64_t at = i % g->batch[d];
        i /= g->batch[d];
        if (g->has_a[d]) {
            *a += at * step_a;
            step_a *= g->batch[d];
        }
        if (g->has_b[d]) {
            *b += at * step_b;
            step_b *= g->batch[d];
        }
    }
}

/* ---- the plan of the vector rows ---- */

#define FEW_SUMS 4      /* the same where b's columns are runs in memory */
#define FEW 12          /* rows for which packing b costs more than it saves */
#define SMALL 16384     /* elements of b that stay in the caches while they are read as they lie */
#define ALONE (1 << 18) /* multiplications below which a second thread does not pay */

int64_t td_gemm_lanes(const struct td_gemm *g)
{
    if (!g->group)
        return g->k;
    int64_t step = g->group * g->pad;
    return (g->k + step - 1) / step * g->pad;
}

static enum td_gemm_path choose(const struct td_gemm *g)
{
    if (g->group)
        return TD_GEMM_packed;
    if (!g->k)
        return TD_GEMM_direct; /* all zeros, bias and activation to come */
    if (g->step_k == 1)
        return g->m <= FEW_SUMS ? TD_GEMM_dot : TD_GEMM_packed;
    return g->m <= FEW || g->k * g->n <= SMALL ? TD_GEMM_direct : TD_GEMM_packed;
}

/* Halves a size, in multiples of step. */
static int64_t halve(int64_t size, int64_t step)
{
    return (size / 2 + step - 1) / step * step;
}

static size_t line(int64_t floats)
{
    return ((size_t)floats * 4 + 63) & ~(size_t)63;
}

void td_gemm_plan(const struct td_gemm *g, struct td_gemm_plan *plan)
{
    int64_t batches = td_gemm_batches(g);
    bool packed = (plan->path = choose(g)) == TD_GEMM_packed, half = g->out->dtype == TD_bf16;
    int64_t lanes = td_gemm_lanes(g), steps = (lanes + TD_GEMM_DEPTH - 1) / TD_GEMM_DEPTH;
    plan->depth = lanes;
    if (packed && steps > 1) {
        int64_t pad = g->group ? g->pad : 1;
        plan->depth = ((lanes + steps - 1) / steps + pad - 1) / pad * pad;
    }
    plan->cols = TD_GEMM_COLS;
    plan->rows = packed ? half ? 4 * TD_GEMM_ROWS : g->m : TD_GEMM_ROWS / 2;
    plan->rows = plan->rows < g->m ? plan->rows : g->m;
    plan->slots =
        (double)batches * (double)g->m * (double)g->n * (double)g->k < ALONE ? 1 : g->threads;
    for (;;) {
        plan->down = plan->rows ? (g->m + plan->rows - 1) / plan->rows : 0;
        plan->across = (g->n + plan->cols - 1) / plan->cols;
        plan->items = batches * plan->down * plan->across;
        if (plan->items >= plan->slots)
            break;
        if (plan->rows > TD_GEMM_ROWS)
            plan->rows = halve(plan->rows, TD_GEMM_ROWS);
        else if (plan->cols > 32)
            plan->cols /= 2;
        else
            break;
    }
    if (plan->slots > plan->items)
        plan->slots = plan->items ? (int)plan->items : 1;
    plan->at_b = half || g->group ? line((packed ? TD_GEMM_ROWS : plan->rows) * plan->depth) : 0;
    int64_t panel = packed ? plan->cols : plan->path == TD_GEMM_direct && g->n % 32 ? 32 : 0;
    plan->at_out = plan->at_b + line(plan->depth * panel);
    plan->slot = plan->at_out + (half ? line(plan->rows * plan->cols) : 0);
}

bool td_gemm_packs(const struct td_gemm *g)
{
    return g->k && g->m > (g->step_k == 1 ? FEW_SUMS : FEW);
}

size_t td_gemm_scratch(const struct td_gemm *g)
{
    struct td_gemm_plan plan;
    td_gemm_plan(g, &plan);
    return (size_t)plan.slots * plan.slot;
}

/* ---- the reference ---- */

/* sum over p of a[at_a + p] * b[at_b + p * step] */
#define TD_DOT(what, type, get)                                                                    \
    static double dot_##what(const void *a, int64_t at_a, const void *b, int64_t at_b,             \
                             int64_t step, int64_t k)                                              \
    {                                                                                              \
        const type *x = (const type *)a + at_a, *y = (const type *)b + at_b;                       \
        double sum = 0;                                                                            \
        for (int64_t p = 0; p < k; p++)                                                            \
            sum += (double)get(x[p]) * (double)get(y[p * step]);                                   \
        return sum;                                                                                \
    }
TD_DOT(f32, float, )
TD_DOT(f64, double, )
TD_DOT(bf16, uint16_t, td_bf16_to_f32)
TD_DOT(f16, uint16_t, td_f16_to_f32)

static double dot_real(const struct td_gemm *g, int64_t at_a, int64_t at_b)
{
    const void *a = g->a->data, *b = g->b->data;
    switch (g->a->dtype) {
    case TD_f64:
        return dot_f64(a, at_a, b, at_b, g->step_k, g->k);
    case TD_bf16:
        return dot_bf16(a, at_a, b, at_b, g->step_k, g->k);
    case TD_f16:
        return dot_f16(a, at_a, b, at_b, g->step_k, g->k);
    default:
        return dot_f32(a, at_a, b, at_b, g->step_k, g->k);
    }
}

static int64_t dot_whole(const struct td_gemm *g, int64_t at_a, int64_t at_b)
{
    uint64_t sum = 0;
    for (int64_t p = 0; p < g->k; p++)
        sum += (uint64_t)td_get_whole(g->a, at_a + p) *
               (uint64_t)td_get_whole(g->b, at_b + p * g->step_k);
    return (int64_t)sum;
}

static void one(const struct td_gemm *g, int64_t at, int64_t at_a, int64_t at_b, int64_t j)
{
    if (td_dtype_kind(g->out->dtype) != 'f') {
        uint64_t bias = g->bias ? (uint64_t)td_get_whole(g->bias, j) : 0;
        td_put_whole(g->out, at, (int64_t)((uint64_t)dot_whole(g, at_a, at_b) + bias));
        return;
    }
    double bias = g->bias ? td_get_real(g->bias, j) : 0;
    td_put_real(g->out, at, td_act_apply(&g->act, dot_real(g, at_a, at_b) + bias));
}

void td_gemm_ref(const struct td_gemm *g)
{
    int64_t batches = td_numel(g->out) ? td_gemm_batches(g) : 0;
    for (int64_t i = 0; i < batches; i++) {
        int64_t a, b;
        td_gemm_at(g, i, &a, &b);
        for (int64_t row = 0; row < g->m; row++)
            for (int64_t col = 0; col < g->n; col++)
                one(g, (i * g->m + row) * g->n + col, (a * g->m + row) * g->k,
                    b * g->n * g->k + col * g->step_n, col);
    }
}
