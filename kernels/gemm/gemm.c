/* Matrix products, the part that is the same for every implementation: which matrices of a batch
 * belong together, and how the vector rows cut one. */
#include "kernels/gemm/gemm.h"
#include "kernels/weight.h"

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

void td_gemm_start(const struct td_gemm *g, int64_t i, int64_t *a, int64_t *b)
{
    if (!g->strided) {
        td_gemm_at(g, i, a, b);
        *a *= g->m * g->k;
        *b *= g->k * g->n;
        return;
    }
    *a = *b = 0;
    for (int d = g->rank - 1; d >= 0; d--) {
        int64_t at = i % g->batch[d];
        i /= g->batch[d];
        *a += at * g->step_a[d];
        *b += at * g->step_b[d];
    }
}

int64_t td_gemm_bias_at(const struct td_gemm *g, int64_t i)
{
    int64_t at = 0, step = g->bias_batch;
    for (int d = g->rank - 1; d >= 0 && step; d--) {
        if (g->has_bias[d]) {
            at += i % g->batch[d] * step;
            step *= g->batch[d];
        }
        i /= g->batch[d];
    }
    return at;
}

bool td_gemm_bias_is_plain(const struct td_gemm *g)
{
    bool row = !g->bias || (g->bias_j && !g->bias_i && !g->bias_batch);
    return row && (!g->scaled || (g->alpha == 1 && (!g->bias || g->beta == 1)));
}

/* ---- the plan of the vector rows ---- */

/* Rows for which b is not read often enough to be packed: */
#define FEW_ONCE 1     /* it is packed once for all calls */
#define FEW_SUMS 4     /* else: its columns are runs in memory */
#define FEW 12         /* it is widened as it is read */
#define FEW_F32 64     /* else */
#define FEW_ALIASED 24 /* and its rows meet in the same sets of a cache */
/* Of a matrix beyond a second-level cache whose rows are APART elements or more from each other, 2
 * KiB: hardware prefetches some 32 runs of memory at once, which are its rows and the result's. */
#define FEW_FAR 8
#define APART 512
#define SMALL 16384 /* elements of b that stay in the caches while they are read as they lie */
/* Rows that the highest register block has: they meet an element of b at once, so that the panels
 * of a stored one are read through and need not stay in a cache. */
#define THROUGH 12
#define ALONE (1 << 18) /* multiplications below which a second thread does not pay */

int64_t td_gemm_lanes(const struct td_gemm *g)
{
    if (!g->group)
        return g->k;
    int64_t step = g->group * g->pad;
    return (g->k + step - 1) / step * g->pad;
}

bool td_gemm_is_stored(const struct td_gemm *g)
{
    return !g->rank && g->b->dtype == TD_f32 && td_weight_to_pack(g->b);
}

/* The largest number of rows of a for which b is not packed. */
static int64_t few_of(const struct td_gemm *g, bool stored)
{
    if (stored)
        return FEW_ONCE;
    if (g->step_k == 1)
        return FEW_SUMS;
    if (g->b->dtype != TD_f32)
        return FEW;
    if (g->step_k >= APART && td_gemm_is_far(g->k * g->n * 4))
        return FEW_FAR;
    return g->step_k % 1024 ? FEW_F32 : FEW_ALIASED;
}

static enum td_gemm_path choose(const struct td_gemm *g, bool stored)
{
    if (g->group)
        return TD_GEMM_packed;
    if (!g->k)
        return TD_GEMM_direct; /* all zeros, bias and activation to come */
    if (g->quantized)
        return TD_GEMM_packed;
    if (g->n <= FEW_SUMS)
        return TD_GEMM_dot;
    if (g->step_k == 1)
        return g->m <= few_of(g, stored) ? TD_GEMM_dot : TD_GEMM_packed;
    return g->m <= few_of(g, stored) || g->k * g->n <= SMALL ? TD_GEMM_direct : TD_GEMM_packed;
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

void td_gemm_plan(const struct td_gemm *g, bool stored, struct td_gemm_plan *plan)
{
    int64_t batches = td_gemm_batches(g);
    bool packed = (plan->path = choose(g, stored)) == TD_GEMM_packed, half = td_gemm_is_half(g);
    int64_t lanes = td_gemm_lanes(g), steps = (lanes + TD_GEMM_DEPTH - 1) / TD_GEMM_DEPTH;
    plan->depth = lanes;
    if (packed && steps > 1 && !(stored && g->m <= THROUGH)) {
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
        if (td_shared_evenly(plan->items, plan->slots))
            break;
        if (plan->items < plan->slots && plan->rows > TD_GEMM_ROWS)
            plan->rows = halve(plan->rows, TD_GEMM_ROWS);
        else if (plan->cols > 32)
            plan->cols /= 2;
        else
            break;
    }
    if (plan->slots > plan->items)
        plan->slots = plan->items ? (int)plan->items : 1;
    plan->at_b = half || g->group ? line((packed ? TD_GEMM_ROWS : plan->rows) * plan->depth) : 0;
    int64_t panel = packed                                      ? stored ? 0 : plan->cols
                    : plan->path == TD_GEMM_direct && g->n % 32 ? 32
                                                                : 0;
    if (plan->path == TD_GEMM_dot && g->step_k != 1)
        panel = g->n; /* columns, as runs */
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
    td_gemm_plan(g, false, &plan);
    return (size_t)plan.slots * plan.slot;
}

struct td_gemm_cut td_gemm_cut(const struct td_gemm *g)
{
    enum { ROWS = 192, COLS = 128, DEPTH = 192 }; /* of 8 bytes, two floats */
    struct td_gemm_cut cut = {.rows = g->m < ROWS ? g->m : ROWS, .cols = COLS};
    int64_t batches = td_gemm_batches(g);
    cut.depth = g->k < DEPTH ? g->k : DEPTH;
    cut.slots =
        (double)batches * (double)g->m * (double)g->n * (double)g->k < ALONE / 4 ? 1 : g->threads;
    for (;;) {
        cut.down = cut.rows ? (g->m + cut.rows - 1) / cut.rows : 0;
        cut.across = (g->n + cut.cols - 1) / cut.cols;
        cut.items = batches * cut.down * cut.across;
        if (td_shared_evenly(cut.items, cut.slots))
            break;
        if (cut.items < cut.slots && cut.rows > 24)
            cut.rows = halve(cut.rows, 12);
        else if (cut.cols > 32)
            cut.cols /= 2;
        else
            break;
    }
    if (cut.slots > cut.items)
        cut.slots = cut.items ? (int)cut.items : 1;
    cut.at_b = line(cut.rows * cut.depth * 2);
    cut.at_gathered = cut.at_b + line(cut.depth * cut.cols * 2);
    cut.at_c = cut.at_gathered + (g->gather ? line(cut.depth * cut.cols * 2) : 0);
    cut.slot = cut.at_c + line(cut.rows * cut.cols * 2);
    return cut;
}

size_t td_gemm_scratch_any(const struct td_gemm *g)
{
    struct td_gemm_cut cut = td_gemm_cut(g);
    return (size_t)cut.slots * cut.slot;
}

size_t td_gemm_scratch_pairs(const struct td_gemm *g)
{
    struct td_gemm pairs = *g;
    pairs.group = 2;
    pairs.pad = 16; /* what tiles want, the most of all levels */
    return td_gemm_scratch(&pairs);
}
