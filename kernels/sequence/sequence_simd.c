/* seq_pool and crf_decode, vector form, in lanes of doubles for every type: some elements of a row,
 * or the tags that a step goes to, at a time. */
#define TD_REAL_BITS 64
#include "kernels/elementwise.h"
#include "kernels/lanes.h"
#include "kernels/lines.h"
#include "kernels/sequence/sequence.h"

#include <math.h>

#define GRAIN 16384

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- seq_pool ---- */

static void pool(const struct td_sequences *s, int64_t i, int64_t k, int64_t n)
{
    double sum[TD_RUN] = {0}, x[TD_RUN], length = (double)(s->begin[i + 1] - s->begin[i]);
    for (int64_t step = s->begin[i]; step < s->begin[i + 1] && !td_stopped(); step++) {
        td_line_get(x, s->x, step * s->width + k, n);
        for (int64_t j = 0; j < n; j++)
            sum[j] += x[j];
    }
    double by = s->how == TD_POOLED_mean ? length : s->how == TD_POOLED_sqrt ? sqrt(length) : 1;
    for (int64_t j = 0; j < n && length; j++)
        sum[j] /= by;
    td_line_put(s->out, i * s->width + k, n, sum);
}

static void pools(void *arg, int64_t begin, int64_t end) /* of runs: each row of out has some */
{
    const struct td_sequences *s = arg;
    int64_t runs = (s->width + TD_RUN - 1) / TD_RUN;
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t k = i % runs * TD_RUN;
        pool(s, i / runs, k, least(TD_RUN, s->width - k));
    }
}

/* ---- crf_decode ---- */

static void fetch(double *to, const struct td_tensor *t, int64_t row, int64_t n)
{
    for (int64_t k = 0; k < n; k += TD_RUN)
        td_line_get(to + k, t, row * n + k, least(TD_RUN, n - k));
}

/* A step: to[i] has its emission, and becomes the best score. */
static void go_on(const struct td_sequences *s, const double *before, double *to, int32_t *from)
{
    const double *table = s->table + 2 * s->stride;
    for (int64_t i = 0; i < s->width; i += L_LANES) {
        int64_t left = least(L_LANES, s->width - i);
        double lane[L_LANES] = {0};
        V best = L_add(L_c(before[0]), L_load(table + i)), at = L_c(0);
        for (int64_t k = 1; k < s->width; k++) {
            V score = L_add(L_c(before[k]), L_load(table + k * s->stride + i));
            VM better =
                L_either(L_gt(score, best), L_both(L_uno(score, score), L_not(L_uno(best, best))));
            best = L_sel(better, score, best);
            at = L_sel(better, L_c((double)k), at);
        }
        memcpy(lane, to + i, (size_t)left * sizeof *lane);
        L_store(lane, L_add(best, L_load(lane)));
        memcpy(to + i, lane, (size_t)left * sizeof *lane);
        for (int64_t k = 0; k < left; k++)
            from[i + k] = (int32_t)at[k];
    }
}

static double decode(const struct td_sequences *s, int64_t begin, int64_t end)
{
    int64_t n = s->width, at = 0;
    for (int64_t step = begin; step < end && !td_stopped(); step++) {
        double *to = s->best + step * n;
        fetch(to, s->x, step, n);
        if (step > begin)
            go_on(s, to - n, to, s->from + step * n);
        else
            for (int64_t i = 0; i < n; i++)
                to[i] = s->table[i] + to[i];
    }
    double *last = s->best + (end - 1) * n;
    for (int64_t i = 0; i < n; i++) {
        last[i] += s->table[s->stride + i];
        if (td_crf_is_better(last[i], last[at]))
            at = i;
    }
    double score = last[at];
    for (int64_t step = end - 1; step >= begin && !td_stopped(); step--) {
        ((int64_t *)s->out->data)[step] = at;
        at = step > begin ? s->from[step * n + at] : 0;
    }
    return score;
}

static void paths(void *arg, int64_t begin, int64_t end)
{
    const struct td_sequences *s = arg;
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t first = s->begin[i], behind = s->begin[i + 1];
        td_put_real(s->scores, i, behind > first ? decode(s, first, behind) : 0);
    }
}

TD_KERNEL(sequence)
{
    struct td_sequences s = td_sequences_of(call, call->scratch);
    int64_t steps = 1 + s.steps / (s.n + 1), runs = (s.width + TD_RUN - 1) / TD_RUN;
    if (!s.weights) {
        int64_t each = 1 + steps * least(TD_RUN, s.width);
        td_parallel(call->threads, s.n * runs, 1 + GRAIN / each, pools, &s);
        return;
    }
    memset(s.table, 0, (size_t)((s.width + 2) * s.stride) * sizeof *s.table);
    for (int64_t i = 0; i < s.width + 2; i++)
        fetch(s.table + i * s.stride, s.weights, i, s.width);
    td_parallel(call->threads, s.n, 1 + GRAIN / steps / (s.width * s.width), paths, &s);
}
