/* PyTorch's linear algebra, by the operators that return info (linalg_inv_ex and its like). An info
 * other than 0 is an error, as it is in PyTorch. */
#include "dispatch/pt2/pt2.h"

#include <float.h>
#include <math.h>
#include <string.h>

int td_pt2_checked(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                   struct td_item *out)
{
    struct td_node copy = *node;
    struct td_item made[TD_MAX_OUTS];
    double wrong;
    copy.n_outs = node->n_outs + 1;
    int err = td_pt2_formula(walk, &copy, in, made);
    int n = err ? err : td_walk_floats(walk, &made[node->n_outs], &wrong, 1);
    if (n != 1)
        return n < 0 ? n : td_walk_refuse(walk, "info: one is right");
    if (wrong != 0)
        return td_walk_refuse(walk, "the matrix, or one of them, is singular, or not positive "
                                    "definite where that is asked for");
    memcpy(out, made, sizeof *out * (size_t)node->n_outs);
    return 0;
}

/* Of an effect that torch.export keeps the order of: only such checks are made. */
int td_pt2_effect(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    struct td_item any;
    double wrong;
    (void)out;
    if (node->n_operands < 2 || in[0].v.kind != TD_KIND_tensor)
        return td_walk_refuse(walk, "no other effect than _linalg_check_errors is right here");
    int err = TD_CALL(walk, "any", &any, TD_GIVE(in[0]));
    int n = err ? err : td_walk_floats(walk, &any, &wrong, 1);
    if (n != 1)
        return n < 0 ? n : td_walk_refuse(walk, "info: one is right");
    return wrong != 0 ? td_walk_refuse(walk,
                                       "%.60s: the matrix, or one of them, is singular, or not "
                                       "positive definite where that is asked for",
                                       in[1].v.kind == TD_KIND_str ? in[1].v.str : "linalg")
                      : 0;
}

static int matrix_at(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                     struct td_tensor *t)
{
    if (!node->n_operands || in[0].v.kind != TD_KIND_tensor || in[0].v.tensor.rank < 2)
        return td_walk_refuse(walk, "a matrix is missing");
    *t = in[0].v.tensor;
    return 0;
}

/* The one that is right with a tolerance for what counts as 0. */
int td_pt2_pinv(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    struct td_tensor x;
    const struct td_item *said = td_pt2_given(node, in, "rtol");
    int err = matrix_at(walk, node, in, &x);
    if (err)
        return err;
    if ((said && !td_is_number(&said->v)) || td_pt2_given(node, in, "atol") ||
        td_node_int(node, "hermitian", 0))
        return td_walk_refuse(walk, "rtol, atol, hermitian: rtol as a number alone is right");
    int64_t m = x.shape[x.rank - 2], n = x.shape[x.rank - 1];
    double eps = x.dtype == TD_f64 ? DBL_EPSILON : FLT_EPSILON, most = (double)(m > n ? m : n);
    double rtol = said ? td_scalar(&said->v) : eps * most;
    struct td_given args[] = {{"x", in[0]}, {"rtol", td_item_float(rtol)}};
    return td_walk_formula(
        walk,
        "_d = _linalg_svd(x, False, True); _s = _d[1]; "
        "_t = where(gt(_s, amax(_s, [-1], True) * rtol), reciprocal(_s), zeros_like(_s)); "
        "y = matmul(transpose(_d[2], -2, -1) * unsqueeze(_t, -2), transpose(_d[0], -2, -1))",
        args, 2, out, NULL);
}

int td_pt2_matrix_norm(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                       struct td_item *out)
{
    struct td_tensor x;
    int at = td_node_find(node, "ord"), dims = td_node_find(node, "dim");
    int err = matrix_at(walk, node, in, &x);
    int64_t dim[TD_MAX_LIST];
    int n = err || dims < 0 ? 0 : td_pt2_list(walk, &in[dims], dim);
    if (err || n < 0)
        return err ? err : n;
    for (int i = 0; i < n; i++)
        dim[i] += dim[i] < 0 ? x.rank : 0;
    bool last = !n || (n == 2 && dim[0] == x.rank - 2 && dim[1] == x.rank - 1);
    bool text = at < 0 || in[at].v.kind == TD_KIND_str;
    const char *name = at < 0 ? "fro" : text ? in[at].v.str : "";
    double ord = text ? 0 : td_scalar(&in[at].v);
    const char *formula = NULL;
    if (!strcmp(name, "fro"))
        formula = "linalg_vector_norm(x, 2, [-2, -1], keep)";
    else if (!strcmp(name, "nuc"))
        formula = "sum(_linalg_svd(x, False, False)[1], [-1])";
    else if (fabs(ord) == 2)
        formula = ord > 0 ? "amax(_linalg_svd(x, False, False)[1], [-1])"
                          : "amin(_linalg_svd(x, False, False)[1], [-1])";
    else if (fabs(ord) == 1)
        formula = ord > 0 ? "amax(sum(abs(x), [-2]), [-1])" : "amin(sum(abs(x), [-2]), [-1])";
    else if (isinf(ord))
        formula = ord > 0 ? "amax(sum(abs(x), [-1]), [-1])" : "amin(sum(abs(x), [-1]), [-1])";
    bool keep = td_node_int(node, "keepdim", 0);
    if (!formula || !last || (keep && strcmp(name, "fro") != 0))
        return td_walk_refuse(walk, "ord, dim, keepdim: this norm of the last two dimensions, "
                                    "without them in the result, is right here");
    struct td_given args[] = {{"x", in[0]}, {"keep", td_item_bool(keep)}};
    return td_walk_formula(walk, formula, args, 2, out, NULL);
}

/* By squaring. */
int td_pt2_matrix_power(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                        struct td_item *out)
{
    struct td_tensor x;
    int64_t power = td_node_int(node, "n", 1);
    int err = matrix_at(walk, node, in, &x);
    if (err || power < 1 || power > 1 << 20)
        return err ? err : td_walk_refuse(walk, "n: from 1 to 2^20 is right");
    struct td_item square = in[0];
    for (bool first = true; power && !err; power >>= 1) {
        if (power & 1) {
            err = first ? 0 : TD_CALL(walk, "matmul", out, TD_GIVE(*out), TD_GIVE(square));
            *out = first ? square : *out;
            first = false;
        }
        if (power > 1 && !err)
            err = TD_CALL(walk, "matmul", &square, TD_GIVE(square), TD_GIVE(square));
    }
    return err;
}

/* Each row of one, through a matrix for each result, times the row of the other. */
int td_pt2_bilinear(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                    struct td_item *out)
{
    if (node->n_operands < 3)
        return td_walk_refuse(walk, "input1, input2, weight: one is missing");
    const struct td_given args[] = {{"a", in[0]}, {"b", in[1]}, {"w", in[2]}};
    int err = td_walk_formula(walk, "einsum('...i,oij,...j->...o', [a, w, b])", args, 3, out, NULL);
    bool plain = node->n_operands < 4 || in[3].v.kind == TD_KIND_none;
    return err || plain ? err : TD_CALL(walk, "add.Tensor", out, TD_GIVE(*out), TD_GIVE(in[3]));
}

int td_pt2_svd(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
               struct td_item *out)
{
    struct td_item made[TD_MAX_OUTS];
    int n, err = node->n_operands && node->n_outs <= 3 ? 0 : td_walk_refuse(walk, "takes a matrix");
    const struct td_given args[] = {{"x", in[0]},
                                    {"full", td_item_bool(!td_node_int(node, "some", 1))}};
    err = err ? err
              : td_walk_formula(walk,
                                "_x = _linalg_svd(x, full, True); u = _x[0]; s = _x[1]; "
                                "v = transpose(_x[2], -2, -1)",
                                args, 2, made, &n);
    if (!err && !td_node_int(node, "compute_uv", 1))
        err = td_walk_refuse(walk, "compute_uv: True is right");
    if (!err)
        memcpy(out, made, sizeof *out * (size_t)node->n_outs);
    return err;
}

/* The inverse of the matrix that this is Cholesky's factor of. */
int td_pt2_cholesky_inverse(struct td_walk *walk, const struct td_node *node,
                            const struct td_item *in, struct td_item *out)
{
    struct td_tensor x;
    int err = matrix_at(walk, node, in, &x);
    if (err)
        return err;
    const struct td_given args[] = {{"x", in[0]},
                                    {"n", td_item_int(x.shape[x.rank - 1])},
                                    {"type", td_item_dtype(x.dtype)},
                                    {"upper", td_item_bool(td_node_int(node, "upper", 0))}};
    return td_walk_formula(walk, "cholesky_solve(expand_as(eye(n, dtype=type), x), x, upper)", args,
                           4, out, NULL);
}
