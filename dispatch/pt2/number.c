/* Arithmetic on sizes, as Python has it: whole numbers, floats and bools that tensors' shapes or
 * single elements gave, and that shapes and conditions are made of. */
#include "dispatch/pt2/pt2.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static bool is_float(const struct td_value *v)
{
    return v->kind == TD_KIND_float;
}

static int overflows(struct td_walk *walk)
{
    return td_walk_refuse(walk, "the number is beyond 64 bits, or divides by 0");
}

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static bool power(int64_t a, int64_t b, int64_t *r)
{
    for (*r = 1; b > 0; b--) {
        if (!td_size_times(*r, a, r))
            return true;
        if (*r == 0 || (a == 1) || (a == -1 && b > 2))
            b = a == -1 ? 1 + (b - 1) % 2 : 1; /* it stays so, or changes its sign alone */
    }
    return false;
}

/* Of two whole numbers. */
static int whole(struct td_walk *walk, char how, int64_t a, int64_t b, struct td_item *out)
{
    int64_t r = 0;
    bool bad = false;
    if ((how == 'F' || how == '%') && (!b || (b == -1 && a == INT64_MIN)))
        return overflows(walk);
    if ((how == '(' || how == ')') && (b < 0 || b > 62))
        return overflows(walk);
    switch (how) {
    case '+':
        bad = !td_size_plus(a, b, &r);
        break;
    case '-':
        bad = !td_size_minus(a, b, &r);
        break;
    case '*':
        bad = !td_size_times(a, b, &r);
        break;
    case '(':
        bad = !td_size_times(a, (int64_t)1 << b, &r);
        break;
    case ')':
        r = a >> b;
        break;
    case 'F':
        r = floor_div(a, b);
        break;
    case '%':
        r = a - b * floor_div(a, b);
        break;
    case '&':
        r = a & b;
        break;
    case '|':
        r = a | b;
        break;
    case 'M':
        r = a > b ? a : b;
        break;
    case 'm':
        r = a < b ? a : b;
        break;
    default: /* '^', b >= 0 */
        bad = power(a, b, &r);
    }
    *out = td_item_int(r);
    return bad ? overflows(walk) : 0;
}

/* Of two numbers, one of them a float. */
static int real(struct td_walk *walk, char how, double a, double b, struct td_item *out)
{
    double r;
    if ((how == '/' || how == 'F' || how == '%') && b == 0)
        return overflows(walk);
    switch (how) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 'F':
        r = floor(a / b);
        break;
    case '%':
        r = fmod(a, b);
        r += r != 0 && (r < 0) != (b < 0) ? b : 0;
        break;
    case '^':
        r = pow(a, b);
        break;
    case 'M':
        r = a > b ? a : b;
        break;
    case 'm':
        r = a < b ? a : b;
        break;
    default:
        return td_walk_refuse(walk, "takes whole numbers");
    }
    *out = td_item_float(r);
    return 0;
}

/* Of two: 1 or 0, or -1 when it is no comparison. */
static int compare(char how, const struct td_value *a, const struct td_value *b)
{
    bool floats = is_float(a) || is_float(b);
    double x = td_scalar(a), y = td_scalar(b);
    int order = floats ? (x > y) - (x < y) : (a->i > b->i) - (a->i < b->i);
    switch (how) {
    case '=':
        return order == 0;
    case '!':
        return order != 0;
    case '<':
        return order < 0;
    case 'l':
        return order <= 0;
    case '>':
        return order > 0;
    case 'g':
        return order >= 0;
    default:
        return -1;
    }
}

static int binary(struct td_walk *walk, char how, const struct td_value *a,
                  const struct td_value *b, struct td_item *out)
{
    int holds = compare(how, a, b);
    if (holds >= 0) {
        *out = td_item_bool(holds);
        return 0;
    }
    bool bools = a->kind == TD_KIND_bool && b->kind == TD_KIND_bool;
    if (bools && (how == '&' || how == '|')) {
        *out = td_item_bool(how == '&' ? a->i && b->i : a->i || b->i);
        return 0;
    }
    if (is_float(a) || is_float(b) || how == '/' || (how == '^' && b->i < 0))
        return real(walk, how, td_scalar(a), td_scalar(b), out);
    return whole(walk, how, a->i, b->i, out);
}

static int to_whole(struct td_walk *walk, double f, struct td_item *out)
{
    if (!(f >= -0x1p63 && f < 0x1p63))
        return overflows(walk);
    *out = td_item_int((int64_t)f);
    return 0;
}

static int unary(struct td_walk *walk, char how, const struct td_value *a, struct td_item *out)
{
    double f = td_scalar(a);
    bool whole = !is_float(a);
    switch (how) {
    case 'n':
        *out = whole ? td_item_int(0) : td_item_float(-f);
        return whole && !td_size_minus((int64_t)0, a->i, &out->v.i) ? overflows(walk) : 0;
    case 'N':
        *out = td_item_bool(f == 0);
        return 0;
    case 'f':
        *out = td_item_float(f);
        return 0;
    case 'q':
        *out = td_item_float(sqrt(f));
        return 0;
    case 'p':
        *out = whole ? td_item_int(a->i) : td_item_float(f);
        return 0;
    default: /* 'i', 'v', 'u': to a whole number */
        *out = td_item_int(a->i);
        return whole ? 0
                     : to_whole(walk,
                                how == 'v'   ? floor(f)
                                : how == 'u' ? ceil(f)
                                             : trunc(f),
                                out);
    }
}

int td_pt2_arithmetic(struct td_walk *walk, char how, const struct td_item *in, int n,
                      struct td_item *out)
{
    int takes = strchr("nNfqpivu", how) ? 1 : how == '?' ? 3 : 2;
    if (n != takes)
        return td_walk_refuse(walk, "has %d arguments where it takes %d", n, takes);
    for (int i = 0; i < n; i++)
        if (!td_is_number(&in[i].v))
            return td_walk_refuse(walk, "takes numbers");
    if (n == 1)
        return unary(walk, how, &in[0].v, out);
    if (n == 2)
        return binary(walk, how, &in[0].v, &in[1].v, out);
    *out = td_scalar(&in[0].v) != 0 ? in[1] : in[2];
    return 0;
}

int td_pt2_number(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    const struct td_pt2_target *target = node->form;
    if (node->n_outs != 1)
        return td_walk_refuse(walk, "has %d results where it gives 1", node->n_outs);
    return td_pt2_arithmetic(walk, target->how, in, node->n_operands, out);
}

/* ---- between tensors and numbers ---- */

int td_pt2_size(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    const struct td_tensor *t = &in[0].v.tensor;
    bool all = node->n_operands == 1;
    if (in[0].v.kind != TD_KIND_tensor || node->n_outs != 1)
        return td_walk_refuse(walk, "takes a tensor");
    if (all) {
        *out = td_item_int(td_numel(t));
        return 0;
    }
    int64_t dim = in[1].v.kind == TD_KIND_int ? in[1].v.i : INT64_MIN;
    dim += dim < 0 ? t->rank : 0;
    if (dim < 0 || dim >= t->rank)
        return td_walk_refuse(walk, "the tensor has %d dimensions, not this one", t->rank);
    *out = td_item_int(t->shape[dim]);
    return 0;
}

int td_pt2_item(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                struct td_item *out)
{
    bool floats = in[0].v.kind == TD_KIND_tensor && in[0].v.tensor.dtype & TD_FLOATS;
    double f = 0;
    int64_t i = 0;
    int n = floats ? td_walk_floats(walk, &in[0], &f, 1) : td_walk_ints(walk, &in[0], &i, 1);
    if (n < 0)
        return n;
    if (n != 1 || node->n_outs != 1)
        return td_walk_refuse(walk, "takes a tensor of one element");
    bool truth = in[0].v.kind == TD_KIND_tensor && in[0].v.tensor.dtype == TD_bool;
    *out = floats ? td_item_float(f) : truth ? td_item_bool(i) : td_item_int(i);
    return 0;
}

/* An output that is a number is a tensor without dimensions; what is a tensor stays as it is. */
int td_pt2_tensor(struct td_walk *walk, const struct td_node *node, const struct td_item *in,
                  struct td_item *out)
{
    (void)node;
    double f = in[0].v.kind == TD_KIND_tensor ? 0 : td_scalar(&in[0].v);
    switch (in[0].v.kind) {
    case TD_KIND_tensor:
        *out = in[0];
        return 0;
    case TD_KIND_int:
        return td_walk_tensor_i64(walk, &in[0].v.i, -1, out);
    case TD_KIND_float:
        return td_walk_tensor(walk, TD_f64, &f, -1, out);
    case TD_KIND_bool:
        return td_walk_tensor(walk, TD_bool, &f, -1, out);
    default:
        return td_walk_refuse(walk, "an output is neither a tensor nor a number");
    }
}
