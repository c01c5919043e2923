/* scaled_dot_product_attention, reference: the scores of a row anew for every use, with
 * sums longer than double. */
#include "kernels/attention/attention.h"
#include "kernels/elementwise.h"

#include <math.h>

td_kernel td_attention_ref;

/* What row i of the head has with key j; -inf: nothing. */
static double score(const struct td_attention *a, const struct td_attention_place *p, int64_t i,
                    int64_t j)
{
    double sum = 0;
    if (a->causal && j > i)
        return -INFINITY;
    for (int64_t e = 0; e < a->depth; e++)
        sum += td_get_real(a->query, p->query + i * p->query_row + e) *
               td_get_real(a->key, p->key + j * p->key_row + e);
    int64_t at = p->mask + i * p->mask_row + j * p->mask_key;
    if (a->mask && a->mask->dtype == TD_bool)
        return td_get_whole(a->mask, at) ? sum * a->scale : -INFINITY;
    return sum * a->scale + (a->mask ? td_get_real(a->mask, at) : 0);
}

static void row(const struct td_attention *a, const struct td_attention_place *p, int64_t head,
                int64_t i)
{
    enum { SOME = 64 };
    double most = -INFINITY;
    long double all = 0;
    for (int64_t j = 0; j < a->keys; j++) {
        double s = score(a, p, i, j);
        most = s > most || s != s ? s : most;
    }
    for (int64_t j = 0; j < a->keys; j++)
        all += most == -INFINITY ? 0 : (long double)exp(score(a, p, i, j) - most);
    for (int64_t at = 0; at < a->width; at += SOME) {
        int64_t n = a->width - at < SOME ? a->width - at : SOME;
        long double sum[SOME] = {0};
        for (int64_t j = 0; j < a->keys && most != -INFINITY; j++) {
            long double weight = (long double)exp(score(a, p, i, j) - most) / all;
            for (int64_t e = 0; e < n; e++)
                sum[e] += weight *
                          (long double)td_get_real(a->value, p->value + j * p->value_row + at + e);
        }
        for (int64_t e = 0; e < n; e++)
            td_put_real(a->out, (head * a->rows + i) * a->width + at + e, (double)sum[e]);
    }
}

void td_attention_ref(const struct td_call *call)
{
    struct td_attention a;
    td_attention_of(call, &a);
    for (int64_t head = 0; head < (a.width ? a.heads : 0); head++) {
        struct td_attention_place p = td_attention_at(&a, head);
        for (int64_t i = 0; i < a.rows && !td_stopped(); i++)
            row(&a, &p, head, i);
    }
}
