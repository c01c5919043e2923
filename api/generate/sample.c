/* Drawing a token: the same logits, seed and number give the same one, on any machine. */
#include "api/generate/generate.h"
#include "kernels/chance.h"

#include <math.h>
#include <stdlib.h>

static int64_t greatest(const double *weight, int64_t n)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (weight[i] > weight[best])
            best = i;
    return best;
}

static double log_of_sum(const float *logits, int64_t n)
{
    double most = logits[0], sum = 0;
    for (int64_t i = 1; i < n; i++)
        most = logits[i] > most ? (double)logits[i] : most;
    for (int64_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* The heaviest first, of equal ones the lowest. */
static int by_weight(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    if (x->weight != y->weight)
        return x->weight > y->weight ? -1 : 1;
    return x->token < y->token ? -1 : 1;
}

/* Of so many, in this order, the one at which the sum of weights passes u of all. */
static int64_t pick(const struct ranked *ranked, int64_t n, double u)
{
    double total = 0, sum = 0;
    for (int64_t i = 0; i < n; i++)
        total += ranked[i].weight;
    for (int64_t i = 0; i < n; i++) {
        sum += ranked[i].weight;
        if (u * total < sum)
            return ranked[i].token;
    }
    return ranked[n - 1].token;
}

static int64_t draw(const struct td_sampler *s, const struct td_sampling *how, uint64_t number)
{
    uint32_t word[4];
    struct ranked *ranked = s->ranked;
    double most = s->weight[greatest(s->weight, s->n)], total = 0, sum = 0;
    int64_t n = s->n;
    for (int64_t i = 0; i < n; i++) {
        double w = exp((s->weight[i] - most) / how->temperature);
        ranked[i] = (struct ranked){w > 0 ? w : 0, i}; /* NaN: never */
    }
    if (how->top_k || how->top_p < 1)
        qsort(ranked, (size_t)n, sizeof *ranked, by_weight);
    if (how->top_k && how->top_k < n)
        n = how->top_k;
    for (int64_t i = 0; i < n; i++)
        total += ranked[i].weight;
    int64_t kept = 0;
    while (kept < n && (!kept || sum < how->top_p * total))
        sum += ranked[kept++].weight;
    td_philox(how->seed, number, word);
    return pick(ranked, how->top_p < 1 ? kept : n, td_uniform(td_philox_word(word, 0), 53));
}

int64_t td_sample(const struct td_sampler *s, const struct td_sampling *how, uint64_t number,
                  double *logprob)
{
    for (int64_t i = 0; i < s->n; i++) {
        double logit = s->logits[i], penalty = s->seen[i] ? how->repetition_penalty : 1;
        s->weight[i] = logit > 0 ? logit / penalty : logit * penalty;
    }
    int64_t token = how->temperature > 0 ? draw(s, how, number) : greatest(s->weight, s->n);
    *logprob = (double)s->logits[token] - log_of_sum(s->logits, s->n);
    return token;
}
