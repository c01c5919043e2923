/* The products by strides: which lie so that the rows which take strides read them where they are.
 * Elements of a row of a, and of what is added, are side by side, and b's along k or along n, which
 * a library takes of a's, too; how far apart rows and matrices are does not matter, but that a
 * library reads beyond one row that stands for all. */
#include "kernels/product/product.h"

static int64_t stride_of(const struct td_tensor *t, int d)
{
    int64_t step = 1;
    if (t->stride)
        return t->stride[d];
    for (int i = t->rank - 1; i > d; i--)
        step *= t->shape[i];
    return step;
}

/* How far rows of a are apart, which are counted along dimensions first to last; -1: it varies. */
static int64_t rows_apart(const struct td_tensor *a, int first, int last)
{
    int64_t n = 1, apart = td_numel(a);
    for (int d = last; d >= first; n *= a->shape[d--]) {
        if (a->shape[d] == 1)
            continue;
        if (n > 1 && stride_of(a, d) != n * apart)
            return -1;
        apart = n > 1 ? apart : stride_of(a, d);
    }
    return apart;
}

/* From matrix to matrix along dimension d of the batch. */
static int64_t step_of(const struct td_gemm *g, const struct td_tensor *t, bool has, int d)
{
    return has ? stride_of(t, d - g->rank + t->rank - 2) : 0;
}

/* A vector is a row, but in an outer product a column. */
static void set_a(struct td_gemm *g)
{
    const struct td_tensor *a = g->a;
    int last = a->rank - (a->rank == 1 && g->m > 1 ? 1 : 2);
    for (int d = 0; d < g->rank; d++)
        g->step_a[d] = step_of(g, a, g->has_a[d], d);
    g->row_a = rows_apart(a, g->rank ? last : 0, last);
    g->along_a = g->k > 1 ? stride_of(a, a->rank - 1) : 1;
}

/* Along n or k, where that is one element, b may be read as lying either way. */
static void set_b(struct td_gemm *g, bool turned)
{
    const struct td_tensor *b = g->b;
    int64_t in = stride_of(b, b->rank - 1), out = b->rank > 1 ? stride_of(b, b->rank - 2) : in;
    for (int d = 0; d < g->rank; d++)
        g->step_b[d] = step_of(g, b, g->has_b[d], d);
    g->step_k = turned || b->rank == 1 ? in : out;
    g->step_n = turned && b->rank > 1 ? out : in;
    if (g->n == 1)
        g->step_n = g->k;
    if (g->k == 1)
        g->step_k = g->step_n == 1 ? g->n : 1;
}

/* Where the product walks along dimension from_end of what it adds: by which step. */
static int64_t added_step(const struct td_tensor *bias, int64_t step, int from_end)
{
    return step && from_end <= bias->rank ? stride_of(bias, bias->rank - from_end) : step;
}

static void set_added(struct td_gemm *g, bool column)
{
    if (!g->bias)
        return;
    g->bias_j = added_step(g->bias, g->bias_j, 1);
    g->bias_i = added_step(g->bias, g->bias_i, column ? 1 : 2);
    g->bias_batch = added_step(g->bias, g->bias_batch, 3);
}

/* What is applied to the result lies as that does. */
static bool posts_are_dense(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++)
        for (int k = 0; call->arg[i].kind == TD_KIND_tensors && k < call->arg[i].tensors.n; k++)
            if (call->arg[i].tensors.v[k].stride)
                return false;
    return true;
}

void td_product_strided(const struct td_call *call, struct td_gemm *g, bool library)
{
    const struct td_product *family = td_product_of(call);
    const int64_t least = library ? 1 : 0;
    td_product_gemm(call, g);
    if (!g->a->stride && !g->b->stride && !(g->bias && g->bias->stride))
        return;
    struct td_gemm s = *g;
    set_a(&s);
    set_b(&s, family->turned);
    set_added(&s, g->out->rank == 1 && family->add >= 0);
    s.strided = s.row_a >= least &&
                (s.along_a == 1 || (library && s.row_a == 1 && s.along_a > 0)) &&
                (s.step_k == 1 || s.step_n == 1) && s.step_k >= least && s.step_n >= least &&
                s.bias_j >= 0 && s.bias_j <= 1 && posts_are_dense(call);
    if (s.strided)
        *g = s;
}
