/* LU factors, reference: a column at a time is taken away from those behind it. */
#include "kernels/lu/lu.h"

#include <math.h>
#include <string.h>

struct work {
    const struct td_call *call;
    struct td_lu l;
    double *w;      /* m by n */
    int32_t *pivot; /* from 1 on */
    int64_t *from;  /* of each row of P L U, its row in L U */
};

static double get(const struct td_tensor *t, int64_t i)
{
    return t->dtype == TD_f64 ? ((const double *)t->data)[i] : (double)((const float *)t->data)[i];
}

static void put(const struct td_tensor *t, int64_t i, double x)
{
    if (t->dtype == TD_f64)
        ((double *)t->data)[i] = x;
    else
        ((float *)t->data)[i] = (float)x;
}

static void exchange(double *w, int64_t n, int64_t i, int64_t j)
{
    for (int64_t c = 0; c < n && i != j; c++) {
        double x = w[i * n + c];
        w[i * n + c] = w[j * n + c];
        w[j * n + c] = x;
    }
}

/* Gaussian elimination with the largest element of each column as its pivot (G. Golub and C. Van
 * Loan, Matrix Computations, 3.4). Gives the first i + 1 of which that is 0, or 0. */
static int64_t factor(struct work *o)
{
    int64_t m = o->l.m, n = o->l.n, info = 0;
    double *w = o->w;
    for (int64_t k = 0; k < o->l.less && !td_stopped(); k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < m; i++)
            if (fabs(w[i * n + k]) > fabs(w[best * n + k]))
                best = i;
        exchange(w, n, k, best);
        o->pivot[k] = (int32_t)(best + 1);
        if (w[k * n + k] == 0) {
            info = info ? info : k + 1;
            continue; /* all below it are 0 */
        }
        for (int64_t i = k + 1; i < m; i++) {
            double by = w[i * n + k] /= w[k * n + k];
            for (int64_t j = k + 1; j < n; j++)
                w[i * n + j] -= by * w[k * n + j];
        }
    }
    return info;
}

static void store_factors(const struct work *o, int64_t matrix, int64_t info)
{
    int64_t size = o->l.m * o->l.n, less = o->l.less;
    for (int64_t i = 0; i < size; i++)
        put(&o->call->out[0], matrix * size + i, o->w[i]);
    if (less)
        memcpy((int32_t *)o->call->out[1].data + matrix * less, o->pivot,
               (size_t)less * sizeof *o->pivot);
    ((int32_t *)o->call->out[2].data)[matrix] = (int32_t)info;
}

/* P has its 1 of column j where row j of L U goes. */
static void store_rows(const struct work *o, int64_t matrix)
{
    int64_t m = o->l.m;
    for (int64_t i = 0; i < m; i++)
        o->from[i] = i;
    for (int64_t k = 0; k < o->l.less; k++) {
        int64_t other = o->pivot[k] - 1, row = o->from[k];
        o->from[k] = o->from[other];
        o->from[other] = row;
    }
    for (int64_t i = 0; i < m && !td_stopped(); i++)
        for (int64_t j = 0; j < m; j++)
            put(&o->call->out[0], (matrix * m + i) * m + j, o->from[j] == i);
}

static void store_triangles(const struct work *o, int64_t matrix)
{
    int64_t m = o->l.m, n = o->l.n, less = o->l.less;
    for (int64_t i = 0; i < m && !td_stopped(); i++)
        for (int64_t j = 0; j < less; j++)
            put(&o->call->out[1], (matrix * m + i) * less + j, i > j ? o->w[i * n + j] : i == j);
    for (int64_t i = 0; i < less && !td_stopped(); i++)
        for (int64_t j = 0; j < n; j++)
            put(&o->call->out[2], (matrix * less + i) * n + j, i > j ? 0 : o->w[i * n + j]);
}

static void run_one(struct work *o, int64_t matrix)
{
    const struct td_call *call = o->call;
    int64_t size = o->l.m * o->l.n, less = o->l.less;
    bool unpack = o->l.kind == TD_LU_unpack;
    for (int64_t i = 0; i < size; i++)
        o->w[i] = get(o->l.a, matrix * size + i);
    if (unpack && call->arg[3].i && less)
        memcpy(o->pivot, (const int32_t *)call->arg[1].tensor.data + matrix * less,
               (size_t)less * sizeof *o->pivot);
    int64_t info = unpack ? 0 : factor(o);
    if (o->l.kind == TD_LU_factor) {
        store_factors(o, matrix, info);
        return;
    }
    if (!unpack || call->arg[3].i)
        store_rows(o, matrix);
    if (!unpack || call->arg[2].i)
        store_triangles(o, matrix);
}

td_kernel td_lu_ref;
void td_lu_ref(const struct td_call *call)
{
    struct work o = {.call = call, .l = td_lu_of(call), .w = call->scratch};
    o.from = (int64_t *)(void *)(o.w + o.l.m * o.l.n);
    o.pivot = (int32_t *)(void *)(o.from + o.l.m);
    for (int64_t i = 0; i < o.l.count && !td_stopped(); i++)
        run_one(&o, i);
}
