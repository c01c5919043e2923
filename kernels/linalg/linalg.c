/* The descriptors of linear algebra, made from linalg.def, and their rules. All is computed in
 * FP64, as FP32's results would else say little of matrices that are nearly singular. Where a
 * matrix has no inverse, PyTorch's functions raise an error; here info says so, and elements are
 * infinite or NaN. */
#include "kernels/linalg/linalg.h"

#include "kernels/dims.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

struct family { /* td_op.family */
    enum td_linalg_kind kind;
    const char *places;
};

enum { A, B, UPPER, LEFT, UNIT, ALL };

static const struct td_value *at(const struct td_call *call, int which)
{
    const char *places = ((const struct family *)call->op->family)->places;
    return places[which] == '-' ? NULL : &call->arg[places[which] - '0'];
}

static bool flag(const struct td_call *call, int which, bool otherwise)
{
    const struct td_value *v = at(call, which);
    return v ? v->i : otherwise;
}

static bool is_text(const struct td_call *call, int i, const char *text)
{
    return call->arg[i].kind == TD_KIND_str && !strcmp(call->arg[i].str, text);
}

/* Whether B is a vector, or one for each matrix. */
static bool has_vector(const struct td_tensor *a, const struct td_tensor *b)
{
    if (b->rank == 1)
        return true;
    bool same = b->rank == a->rank - 1;
    for (int d = 0; same && d < b->rank; d++)
        same = b->shape[d] == a->shape[d];
    return same;
}

struct td_linalg td_linalg_of(const struct td_call *call)
{
    const struct family *family = call->op->family;
    struct td_linalg l = {.kind = family->kind,
                          .a = &at(call, A)->tensor,
                          .b = at(call, B) ? &at(call, B)->tensor : NULL,
                          .upper = flag(call, UPPER, false),
                          .left = flag(call, LEFT, true),
                          .unit = flag(call, UNIT, false),
                          .all = flag(call, ALL, false),
                          .vectors = true};
    l.m = l.a->shape[l.a->rank - 2];
    l.n = l.a->shape[l.a->rank - 1];
    l.count = 1;
    const struct td_tensor *whole = l.b ? &call->out[0] : l.a;
    if (l.b) {
        l.vector = l.kind == TD_LINALG_solve && has_vector(l.a, l.b);
        int64_t last = l.b->shape[l.b->rank - 1];
        l.k = l.vector ? 1 : l.left ? last : l.b->shape[l.b->rank - 2];
    }
    for (int d = 0; d < whole->rank - (l.vector ? 1 : 2); d++)
        l.count *= whole->shape[d];
    if (l.b && !td_numel(whole)) /* of what has no elements there may be any number */
        l.count = l.k = 0;
    if (l.kind == TD_LINALG_svd)
        l.vectors = call->arg[2].i;
    if (l.kind == TD_LINALG_eigh) {
        l.vectors = call->arg[2].i;
        l.upper = is_text(call, 1, "U") || is_text(call, 1, "u");
    }
    if (l.kind == TD_LINALG_qr) {
        l.all = is_text(call, 1, "complete");
        l.vectors = !is_text(call, 1, "r");
    }
    return l;
}

struct td_linalg_place td_linalg_place(const struct td_call *call, const struct td_linalg *l,
                                       int64_t i)
{
    struct td_linalg_place place = {i, i, true};
    if (!l->b)
        return place;
    const struct td_tensor *out = &call->out[0];
    int batch = out->rank - (l->vector ? 1 : 2);
    int64_t step_a = 1, step_b = 1;
    place.a = place.b = 0;
    for (int d = batch - 1; d >= 0; d--) {
        int64_t index = i % out->shape[d];
        int of_a = d - batch + l->a->rank - 2;
        int of_b = d - batch + l->b->rank - (l->vector ? 1 : 2);
        i /= out->shape[d];
        if (of_a >= 0 && l->a->shape[of_a] != 1)
            place.a += index * step_a;
        else if (index)
            place.first = false;
        if (of_b >= 0 && l->b->shape[of_b] != 1)
            place.b += index * step_b;
        step_a *= of_a >= 0 ? l->a->shape[of_a] : 1;
        step_b *= of_b >= 0 ? l->b->shape[of_b] : 1;
    }
    return place;
}

/* ---- rules ---- */

static int rule_square(struct td_call *call, const struct td_tensor *t, const char *name)
{
    if (t->rank < 2)
        return td_refuse(call,
                         "%s: has %d dimensions; two or more, the last two of which are a "
                         "matrix's, are right",
                         name, t->rank);
    if (t->shape[t->rank - 1] != t->shape[t->rank - 2])
        return td_refuse(call, "%s: must be square matrices, but they are %lld by %lld", name,
                         (long long)t->shape[t->rank - 2], (long long)t->shape[t->rank - 1]);
    return 0;
}

/* Without the last dimensions, of another type. */
static struct td_tensor cut(const struct td_tensor *t, int dims, enum td_dtype dtype)
{
    struct td_tensor out = *t;
    out.weight = NULL;
    out.stride = NULL;
    out.data = NULL;
    out.rank -= dims;
    out.dtype = dtype;
    return out;
}

/* The shape that two batches have together. */
static int rule_batches(struct td_call *call, const struct td_tensor *a, const struct td_tensor *b,
                        int dims_b, struct td_tensor *out)
{
    int na = a->rank - 2, nb = b->rank - dims_b, n = na > nb ? na : nb;
    struct td_tensor tail = *b;
    if (n + dims_b > TD_MAX_RANK)
        return td_refuse(call, "the result has too many dimensions");
    *out = cut(b, 0, b->dtype);
    out->rank = n + dims_b;
    for (int d = 0; d < n; d++) {
        int64_t x = d - n + na < 0 ? 1 : a->shape[d - n + na];
        int64_t y = d - n + nb < 0 ? 1 : b->shape[d - n + nb];
        if (x != y && x != 1 && y != 1)
            return td_refuse(call,
                             "the matrices' other dimensions, %lld and %lld, do not "
                             "broadcast",
                             (long long)x, (long long)y);
        out->shape[d] = x == 1 ? y : x;
    }
    for (int d = 0; d < dims_b; d++)
        out->shape[n + d] = tail.shape[nb + d];
    return 0;
}

static int rule_right(struct td_call *call)
{
    const struct td_tensor *a = &at(call, A)->tensor, *b = &at(call, B)->tensor;
    bool left = flag(call, LEFT, true);
    enum td_linalg_kind kind = ((const struct family *)call->op->family)->kind;
    bool vector = kind == TD_LINALG_solve && has_vector(a, b);
    if (a->dtype != b->dtype)
        return td_refuse(call, "both must be of one type, but are %s and %s",
                         td_dtype_name(a->dtype), td_dtype_name(b->dtype));
    if (!vector && b->rank < 2)
        return td_refuse(call, "the right-hand sides have %d dimensions; two or more are right",
                         b->rank);
    if (vector && !left)
        return td_refuse(call, "left: false is right beside matrices alone");
    int64_t rows = b->shape[vector || !left ? b->rank - 1 : b->rank - 2];
    if (rows != a->shape[a->rank - 1])
        return td_refuse(call, "a matrix of %lld rows does not go with right-hand sides of %lld",
                         (long long)a->shape[a->rank - 1], (long long)rows);
    return rule_batches(call, a, b, vector ? 1 : 2, &call->out[0]);
}

static void rule_factors(struct td_call *call, const struct td_tensor *a)
{
    call->out[call->n_out++] = cut(a, 0, a->dtype);
    call->out[call->n_out++] = cut(a, 1, TD_i32);
}

static int rule_svd(struct td_call *call, const struct td_tensor *a)
{
    bool all = flag(call, ALL, false), vectors = call->arg[2].i;
    int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1], less = m < n ? m : n;
    struct td_tensor u = cut(a, 0, a->dtype), s = cut(a, 1, a->dtype), v = u;
    u.shape[u.rank - 1] = all ? m : less;
    s.shape[s.rank - 1] = less;
    v.shape[v.rank - 2] = all ? n : less;
    if (!vectors) {
        u = (struct td_tensor){.dtype = a->dtype, .rank = 1};
        v = u;
    }
    call->out[0] = u;
    call->out[1] = s;
    call->out[2] = v;
    call->n_out = 3;
    return call->arg[3].kind == TD_KIND_none ? 0 : td_refuse(call, "driver: None alone is right");
}

static int rule_eigh(struct td_call *call, const struct td_tensor *a)
{
    if (!is_text(call, 1, "U") && !is_text(call, 1, "L") && !is_text(call, 1, "u") &&
        !is_text(call, 1, "l"))
        return td_refuse(call, "UPLO: L or U is right");
    call->out[0] = cut(a, 1, a->dtype);
    call->out[1] =
        call->arg[2].i ? cut(a, 0, a->dtype) : (struct td_tensor){.dtype = a->dtype, .rank = 1};
    call->n_out = 2;
    return 0;
}

static int rule_qr(struct td_call *call, const struct td_tensor *a)
{
    bool all = is_text(call, 1, "complete"), none = is_text(call, 1, "r");
    int64_t m = a->shape[a->rank - 2], n = a->shape[a->rank - 1];
    if (!all && !none && !is_text(call, 1, "reduced"))
        return td_refuse(call, "mode: reduced, complete or r is right");
    struct td_tensor q = cut(a, 0, a->dtype), r = q;
    q.shape[q.rank - 1] = all || m < n ? m : n;
    r.shape[r.rank - 2] = all || m < n ? m : n;
    call->out[0] = none ? (struct td_tensor){.dtype = a->dtype, .rank = 1} : q;
    call->out[1] = r;
    call->n_out = 2;
    return 0;
}

/* check_errors, the last argument of those that have it. */
static int rule_checks(struct td_call *call)
{
    return strstr(call->op->schema, "check_errors") && call->arg[call->n_args - 1].i
               ? td_refuse(call, "check_errors: false alone is right: info says what is wrong")
               : 0;
}

static int rule(struct td_call *call)
{
    const struct family *family = call->op->family;
    const struct td_tensor *a = &at(call, A)->tensor;
    bool any = family->kind == TD_LINALG_svd || family->kind == TD_LINALG_qr;
    int err = rule_checks(call);
    if (!err && any && a->rank < 2)
        err = td_refuse(call, "A: has %d dimensions; two or more are right", a->rank);
    if (!err && !any)
        err = rule_square(call, a, family->places[A] == '1' ? "input2" : "the matrix");
    if (!err && at(call, B))
        err = rule_right(call);
    if (err)
        return err;
    struct td_tensor whole = cut(a, 0, a->dtype), one = cut(a, 2, a->dtype),
                     info = cut(a, 2, TD_i32);
    call->n_out = 1;
    switch (family->kind) {
    case TD_LINALG_svd:
        return rule_svd(call, a);
    case TD_LINALG_eigh:
        return rule_eigh(call, a);
    case TD_LINALG_qr:
        return rule_qr(call, a);
    case TD_LINALG_solve:
        rule_factors(call, a);
        call->out[call->n_out++] = info;
        break;
    case TD_LINALG_det:
    case TD_LINALG_slogdet:
        call->out[0] = one;
        if (family->kind == TD_LINALG_slogdet)
            call->out[call->n_out++] = one;
        rule_factors(call, a);
        break;
    case TD_LINALG_inv:
    case TD_LINALG_cholesky:
        call->out[0] = whole;
        call->out[call->n_out++] = info;
        break;
    case TD_LINALG_exp:
        call->out[0] = whole;
        break;
    case TD_LINALG_triangular:
    case TD_LINALG_cholesky_solve:
        break; /* as rule_right has it */
    }
    return 0;
}

static double flops(const struct td_call *call)
{
    struct td_linalg l = td_linalg_of(call);
    double n = (double)l.n, of = l.kind >= TD_LINALG_svd ? 40 : 2;
    return (double)l.count * (of * n * n * (double)l.m + 2 * n * n * (double)l.k);
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_linalg l = td_linalg_of(call);
    prepared->scratch = td_linalg_scratch(call, &l);
    return prepared->scratch ? NULL : "its matrices are too large";
}

td_kernel td_linalg_ref;
TD_KERNELS_3(linalg);

/* clang-format off */
static const struct td_impl impls[] = {
    TD_SIMD_3(linalg, TD_f32 | TD_f64, .prepare = prepare)
    {.name = "ref", .run = td_linalg_ref, .dtypes = TD_f32 | TD_f64, .prepare = prepare},
    {0},
};
/* Those whose steps have no form in rows of their own. */
static const struct td_impl turned[] = {
    {.name = "ref", .run = td_linalg_ref, .dtypes = TD_f32 | TD_f64, .prepare = prepare},
    {0},
};
/* clang-format on */

#define TD_LINALG(symbol, what, where, text, formula, ...)                                         \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TD_f32 | TD_f64,                                                                 \
        .impls = TD_LINALG_##what >= TD_LINALG_svd ? turned : impls,                               \
        .flops = flops,                                                                            \
        .family = &(const struct family){TD_LINALG_##what, where},                                 \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
#include "kernels/linalg/linalg.def"
