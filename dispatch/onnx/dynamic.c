/* Dynamically quantized models, as ONNX Runtime's quantizer writes them: DynamicQuantizeLinear,
 * then MatMulInteger or ConvInteger, a Cast to FP32, a Mul by both scales, and often an Add of a
 * bias. All nodes but the first become one. DynamicQuantizeLinear stays, because several products
 * may read its result (queries, keys and values do). */
#include "dispatch/onnx/pairs.h"

struct dynamic {
    int product, cast, scales, mul, last; /* nodes; last: an Add, or mul */
    int x_scale, w_scale, bias;           /* values; bias -1: none */
    bool conv;
    int64_t n; /* columns, or channels */
};

/* The node, number *at, that makes the value; NULL, and -1: none does. */
static const struct td_node *maker_of(const struct td_pairs *p, int value, int *at)
{
    *at = value >= 0 ? p->maker[value] - 1 : -1;
    return *at >= 0 ? &p->node[*at] : NULL;
}

/* Whether the value is made, for one reader, by a Cast to FP32 of what a MatMulInteger or
 * ConvInteger makes for that alone. Finds both nodes. */
static bool is_sums(const struct td_pairs *p, int value, struct dynamic *d)
{
    const struct td_node *cast = maker_of(p, value, &d->cast);
    if (!cast || !td_pairs_is_cast_to_f32(cast) || p->readers[value] != 1)
        return false;
    int sums = td_pairs_operand(cast, "input");
    const struct td_node *product = maker_of(p, sums, &d->product);
    if (!product || p->readers[sums] != 1)
        return false;
    d->conv = td_pairs_is(product, "", "ConvInteger");
    const struct td_tensor *weight =
        td_pairs_constant(p, td_pairs_operand(product, d->conv ? "w" : "B"));
    if (!weight || weight->rank != (d->conv ? 4 : 2) ||
        !(d->conv || td_pairs_is(product, "", "MatMulInteger")))
        return false;
    d->n = weight->shape[d->conv ? 0 : 1];
    return !d->conv || (td_pairs_operand(product, "x_zero_point") >= 0 &&
                        td_pairs_operand(product, "w_zero_point") >= 0);
}

/* Whether the value is the product of the scale that x was quantized by, and of constant ones. */
static bool is_scales(const struct td_pairs *p, int value, struct dynamic *d)
{
    const struct td_node *node = maker_of(p, value, &d->scales);
    for (int turn = 0; turn < 2 && node && td_pairs_is(node, "", "Mul"); turn++) {
        int maker;
        d->x_scale = td_pairs_operand(node, turn ? "B" : "A");
        d->w_scale = td_pairs_operand(node, turn ? "A" : "B");
        const struct td_node *from = maker_of(p, d->x_scale, &maker);
        const struct td_tensor *by = td_pairs_constant(p, d->w_scale);
        if (from && td_pairs_is(from, "", "DynamicQuantizeLinear") && from->n_outs > 1 &&
            from->out[1] == d->x_scale && by && by->dtype == TD_f32 && by->rank < 2 &&
            (td_numel(by) == 1 || (td_numel(by) == d->n && !d->conv)))
            return true;
    }
    return false;
}

/* The vector that a convolution's bias is made of, as quantizers write it: a Reshape of a constant
 * to [1, channels, 1, 1]. */
static int vector_of(const struct td_pairs *p, int value)
{
    int at;
    const struct td_node *node = maker_of(p, value, &at);
    const struct td_tensor *to = node && td_pairs_is(node, "", "Reshape")
                                     ? td_pairs_constant(p, td_pairs_operand(node, "shape"))
                                     : NULL;
    const int64_t *size = to && to->dtype == TD_i64 && td_numel(to) == 4 ? to->data : NULL;
    bool channels = size && size[0] == 1 && size[1] && size[2] == 1 && size[3] == 1;
    return channels && !td_node_int(node, "allowzero", 0) ? td_pairs_operand(node, "data") : -1;
}

/* Finds the bias: the only reader of the scaled sums may add a constant to them, one number a
 * column or channel. */
static void find_bias(const struct td_pairs *p, struct dynamic *d)
{
    int out = p->node[d->mul].out[0];
    d->bias = -1;
    d->last = d->mul;
    if (p->readers[out] != 1 || !p->reader[out])
        return;
    const struct td_node *add = &p->node[p->reader[out] - 1];
    if (!td_pairs_is(add, "", "Add") || add->n_outs != 1)
        return;
    int other = td_pairs_operand(add, "A");
    other = other == out ? td_pairs_operand(add, "B") : other;
    other = d->conv ? vector_of(p, other) : other;
    const struct td_tensor *bias = td_pairs_constant(p, other);
    if (!bias || bias->dtype != TD_f32 || bias->rank != 1 || bias->shape[0] != d->n || d->n < 2)
        return;
    d->bias = other;
    d->last = (int)(add - p->node);
}

/* The product's own A, B and zero points, and what was found, become operands of one node. */
static int replace(struct td_pairs *p, const struct dynamic *d)
{
    static const char *const matrix[] = {
        "A", "B", "a_scale", "b_scale", "a_zero_point", "b_zero_point", "bias"};
    static const char *const image[] = {
        "x", "w", "x_scale", "w_scale", "x_zero_point", "w_zero_point", "B"};
    const char *const *names = d->conv ? image : matrix;
    const struct td_node *product = &p->node[d->product];
    const int values[] = {td_pairs_operand(product, names[0]),
                          td_pairs_operand(product, names[1]),
                          d->x_scale,
                          d->w_scale,
                          td_pairs_operand(product, names[4]),
                          td_pairs_operand(product, names[5]),
                          d->bias};
    return td_pairs_replace(p, d->product, d->cast, d->last, d->conv ? "tensord" : "com.microsoft",
                            d->conv ? "ConvIntegerToFloat" : "MatMulIntegerToFloat", names, values,
                            7);
}

int td_pairs_join_dynamic(struct td_pairs *p, int at)
{
    struct dynamic d = {.mul = at}; /* of whose operands either may be the sums */
    int a = td_pairs_operand(&p->node[at], "A"), b = td_pairs_operand(&p->node[at], "B");
    if (!(is_sums(p, a, &d) && is_scales(p, b, &d)) && !(is_sums(p, b, &d) && is_scales(p, a, &d)))
        return 0;
    find_bias(p, &d);
    int made = replace(p, &d);
    if (made > 0 && d.last != at)
        p->node[at].n_outs = 0;
    if (made > 0 && p->readers[p->node[d.scales].out[0]] == 1)
        p->node[d.scales].n_outs = 0;
    return made;
}
