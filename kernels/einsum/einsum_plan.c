/* einsum as products of two: from left to right, each operand is first summed over the labels that
 * nobody else wants, which is a product with ones, and then multiplied with what there is. A label
 * that both have and somebody still wants counts batches; one that nobody wants is summed over. An
 * operand that does not lie as the product wants it is copied so. */
#include "kernels/einsum/einsum.h"

#include "kernels/elementwise.h"
#include "kernels/sizes.h"

#include <string.h>

#define TOO_MUCH ((size_t)1 << 60) /* bytes that nobody can have */

struct run {
    const struct td_call *call;
    const struct td_einsum *e;
    const struct td_einsum_level *level; /* NULL: counts only */
    enum td_dtype type;
    int rank[TD_EINSUM_LABELS]; /* place in the result; those that it lacks come last */
    struct td_einsum_cost cost;
    bool placed; /* the result stands where it belongs */
};

struct labels { /* in the order in which they are walked, the outermost first */
    int n, label[TD_EINSUM_LABELS];
    int64_t all; /* elements */
};

static void *take(struct run *r, int64_t n, size_t size)
{
    size_t at = r->cost.bytes;
    int64_t bytes;
    td_size_times(n, (int64_t)size, &bytes);
    if ((size_t)bytes > TOO_MUCH || at > TOO_MUCH) {
        r->cost.bytes = TOO_MUCH + 1;
        return NULL;
    }
    r->cost.bytes = at + ((size_t)bytes + 63) / 64 * 64;
    return r->level ? (char *)r->call->scratch + at : NULL;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t all;
    td_size_times(a, b, &all);
    return all;
}

/* As the result has them, then as they lie in term. */
static struct labels order(const struct run *r, uint64_t set, const struct td_einsum_term *term)
{
    struct labels o = {.all = 1};
    for (int l = 0; l < TD_EINSUM_LABELS; l++) {
        if (!(set >> l & 1))
            continue;
        int at = o.n++;
        for (; at > 0; at--) {
            int before = o.label[at - 1];
            if (r->rank[before] < r->rank[l] ||
                (r->rank[before] == r->rank[l] && term->step[before] >= term->step[l]))
                break;
            o.label[at] = before;
        }
        o.label[at] = l;
        o.all = times(o.all, r->e->size[l]);
    }
    return o;
}

static struct labels joined(const struct labels *a, const struct labels *b, const struct labels *c)
{
    struct labels all = *a;
    for (int i = 0; i < b->n; i++)
        all.label[all.n++] = b->label[i];
    for (int i = 0; i < c->n; i++)
        all.label[all.n++] = c->label[i];
    all.all = times(times(a->all, b->all), c->all);
    return all;
}

static bool lies_so(const struct run *r, const struct td_einsum_term *t, const struct labels *o)
{
    int64_t step = 1;
    for (int i = o->n - 1; i >= 0; step = times(step, r->e->size[o->label[i--]]))
        if (r->e->size[o->label[i]] != 1 && t->step[o->label[i]] != step)
            return false;
    return true;
}

/* Copies the term's elements in that order. */
static void copy(struct run *r, const struct td_einsum_term *t, const struct labels *o, void *to)
{
    struct td_tensor from = {.dtype = r->type, .data = (void *)(uintptr_t)t->data},
                     out = {.dtype = r->type, .data = to};
    struct td_piece p = {.box = {.from = &from}, .out = &out};
    int64_t step = o->all;
    r->cost.flops += (double)o->all;
    for (int i = 0; i < o->n; i++) { /* a box has fewer dimensions than there are labels */
        int64_t size = r->e->size[o->label[i]], own = t->step[o->label[i]];
        int last = p.box.rank - 1;
        step = size ? step / size : 0;
        if (size == 1)
            continue;
        if (last >= 0 && p.box.stride[last] == times(own, size)) {
            p.box.shape[last] *= size;
        } else {
            p.box.shape[++last] = size;
            p.box.rank++;
        }
        p.box.stride[last] = own;
        p.stride[last] = step;
    }
    if (r->level && o->all)
        r->level->move(&p, r->call->threads);
}

static const void *laid(struct run *r, const struct td_einsum_term *t, const struct labels *o)
{
    if (lies_so(r, t, o))
        return t->data;
    void *to = take(r, o->all, td_dtype_size(r->type));
    copy(r, t, o, to);
    return to;
}

static struct td_einsum_term dense(const struct run *r, const struct labels *o, const void *data)
{
    struct td_einsum_term t = {.data = data};
    int64_t step = 1;
    for (int i = o->n - 1; i >= 0; step = times(step, r->e->size[o->label[i--]])) {
        t.labels |= (uint64_t)1 << o->label[i];
        t.step[o->label[i]] = step;
    }
    return t;
}

/* Where a result of these labels goes: its place, if it is the call's as it shall be. */
static void *room(struct run *r, const struct labels *o, bool last)
{
    bool same = last && o->n == r->e->rank;
    for (int d = 0; same && d < o->n; d++)
        same = o->label[d] == r->e->out[d];
    r->placed = same;
    return same ? r->call->out[0].data : take(r, o->all, td_dtype_size(r->type));
}

static void multiply(struct run *r, const void *a, const void *b, void *to, int64_t batch,
                     int64_t m, int64_t n)
{
    struct td_tensor out = {.dtype = r->type, .data = to};
    struct td_tensor x = {.dtype = r->type, .data = (void *)(uintptr_t)a};
    struct td_tensor y = {.dtype = r->type, .data = (void *)(uintptr_t)b};
    r->cost.flops += (double)batch * (double)m * (double)n;
    if (r->level && times(batch, times(m, n)))
        r->level->multiply(&out, &x, &y, batch, m, n, r->call->threads);
}

/* out[i, m, n] = sum over k of a[i, m, k] * b: [i, k, n], or the other way round where columns are
 * runs. */
static void product(struct run *r, const void *a, const void *b, void *to, int64_t batch, int64_t m,
                    int64_t n, int64_t k, bool runs)
{
    struct td_tensor left = {.dtype = r->type, .data = (void *)(uintptr_t)a};
    struct td_tensor right = {.dtype = r->type, .data = (void *)(uintptr_t)b};
    struct td_tensor out = {.dtype = r->type, .data = to};
    struct td_gemm g = {.m = m,
                        .n = n,
                        .k = k,
                        .step_k = runs ? 1 : n,
                        .step_n = runs ? k : 1,
                        .rank = 1,
                        .batch = {batch},
                        .has_a = {true},
                        .has_b = {true},
                        .a = &left,
                        .b = &right,
                        .out = &out,
                        .threads = r->call->threads};
    r->cost.flops += 2 * (double)batch * (double)m * (double)n * (double)(k + 4);
    if (r->cost.bytes > TOO_MUCH)
        return;
    bool own = r->type & (TD_f32 | TD_bf16 | TD_f16);
    void *scratch = take(r, (int64_t)(own ? td_gemm_scratch(&g) : td_gemm_scratch_any(&g)), 1);
    if (r->level && times(batch, times(m, n)))
        r->level->product(&g, scratch);
}

/* The two, of whose labels those in keep are still wanted. */
static struct td_einsum_term contract(struct run *r, const struct td_einsum_term *a,
                                      const struct td_einsum_term *b, uint64_t keep, bool last)
{
    uint64_t both = a->labels & b->labels;
    struct labels batch = order(r, both & keep, a), k = order(r, both & ~keep, a);
    struct labels m = order(r, a->labels & ~both, a), n = order(r, b->labels & ~both, b);
    struct labels left = joined(&batch, &m, &k), right = joined(&batch, &n, &k),
                  across = joined(&batch, &k, &n), result = joined(&batch, &m, &n);
    bool runs = lies_so(r, b, &right);
    const void *x = laid(r, a, &left), *y = runs ? b->data : laid(r, b, &across);
    void *to = room(r, &result, last);
    if (k.all == 1 && (m.all == 1 || n.all == 1))
        multiply(r, x, y, to, batch.all, m.all, n.all);
    else
        product(r, x, y, to, batch.all, m.all, n.all, k.all, runs);
    return dense(r, &result, to);
}

/* The term summed over the labels that are not in keep. */
static struct td_einsum_term reduce(struct run *r, const struct td_einsum_term *t, uint64_t keep,
                                    bool last)
{
    if (!(t->labels & ~keep))
        return *t;
    struct td_einsum_term ones = {0};
    struct labels k = order(r, t->labels & ~keep, t);
    void *data = take(r, k.all, td_dtype_size(r->type));
    struct td_tensor all = {.dtype = r->type, .data = data};
    for (int64_t i = 0; r->level && i < k.all; i++)
        td_put_whole(&all, i, 1);
    ones = dense(r, &k, data);
    return contract(r, t, &ones, keep, last);
}

struct td_einsum_cost td_einsum_run(const struct td_call *call, const struct td_einsum_level *level)
{
    struct td_einsum e;
    struct run r = {.call = call, .e = &e, .level = level, .type = call->out[0].dtype};
    uint64_t result = 0;
    td_einsum_read(call, &e);
    for (int l = 0; l < TD_EINSUM_LABELS; l++) {
        r.rank[l] = e.rank;
        if (!e.size[l]) { /* sums of nothing, or nothing at all */
            if (level && td_numel(&call->out[0]))
                memset(call->out[0].data, 0, td_nbytes(&call->out[0]));
            return (struct td_einsum_cost){.flops = (double)td_numel(&call->out[0])};
        }
    }
    for (int d = 0; d < e.rank; d++) {
        r.rank[e.out[d]] = d;
        result |= (uint64_t)1 << e.out[d];
    }
    struct td_einsum_term now = e.term[0];
    for (int i = 1; i <= e.n && !(level && td_stopped()); i++) {
        uint64_t wanted = result;
        for (int k = i; k < e.n; k++)
            wanted |= e.term[k].labels;
        now = reduce(&r, &now, wanted, i == e.n);
        if (i == e.n)
            break;
        wanted = result | now.labels;
        for (int k = i + 1; k < e.n; k++)
            wanted |= e.term[k].labels;
        struct td_einsum_term next = reduce(&r, &e.term[i], wanted, false);
        wanted = result;
        for (int k = i + 1; k < e.n; k++)
            wanted |= e.term[k].labels;
        now = contract(&r, &now, &next, wanted, i == e.n - 1);
    }
    if (!r.placed) {
        struct labels all = {.n = e.rank, .all = 1};
        for (int d = 0; d < e.rank; d++) {
            all.label[d] = e.out[d];
            all.all = times(all.all, e.size[e.out[d]]);
        }
        copy(&r, &now, &all, call->out[0].data);
    }
    return r.cost;
}
