/* seq_pool and crf_decode, reference: element after element. */
#include "kernels/elementwise.h"
#include "kernels/sequence/sequence.h"

#include <math.h>

static double pool(const struct td_sequences *s, int64_t i, int64_t k)
{
    double sum = 0, length = (double)(s->begin[i + 1] - s->begin[i]);
    for (int64_t step = s->begin[i]; step < s->begin[i + 1]; step++)
        sum += td_get_real(s->x, step * s->width + k);
    if (!length || s->how == TD_POOLED_sum)
        return sum;
    return sum / (s->how == TD_POOLED_mean ? length : sqrt(length));
}

static double transition(const struct td_sequences *s, int64_t from, int64_t to)
{
    return td_get_real(s->weights, from * s->width + to);
}

/* Gives the score. */
static double decode(const struct td_sequences *s, int64_t begin, int64_t end)
{
    double *best = s->best;
    int32_t *from = s->from;
    int64_t n = s->width, last = (end - 1) * n, at = 0;
    for (int64_t i = 0; i < n; i++)
        best[begin * n + i] = transition(s, 0, i) + td_get_real(s->x, begin * n + i);
    for (int64_t step = begin + 1; step < end && !td_stopped(); step++)
        for (int64_t i = 0; i < n; i++) {
            double *to = &best[step * n + i], *before = &best[(step - 1) * n];
            for (int32_t j = 0; j < n; j++) {
                double score = before[j] + transition(s, 2 + j, i);
                if (!j || td_crf_is_better(score, *to)) {
                    *to = score;
                    from[step * n + i] = j;
                }
            }
            *to += td_get_real(s->x, step * n + i);
        }
    for (int64_t i = 0; i < n; i++) {
        best[last + i] += transition(s, 1, i);
        if (td_crf_is_better(best[last + i], best[last + at]))
            at = i;
    }
    double score = best[last + at];
    for (int64_t step = end - 1; step >= begin && !td_stopped(); step--) {
        td_put_whole(s->out, step, at);
        at = step > begin ? from[step * n + at] : 0;
    }
    return score;
}

td_kernel td_sequence_ref;
void td_sequence_ref(const struct td_call *call)
{
    struct td_sequences s = td_sequences_of(call, call->scratch);
    for (int64_t i = 0; i < s.n && !td_stopped(); i++) {
        for (int64_t k = 0; k < s.width && !s.weights; k++)
            td_put_real(s.out, i * s.width + k, pool(&s, i, k));
        if (s.weights)
            td_put_real(s.scores, i,
                        s.begin[i + 1] > s.begin[i] ? decode(&s, s.begin[i], s.begin[i + 1]) : 0);
    }
}
