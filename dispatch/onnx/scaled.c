/* Products by a weight that a file keeps in INT8, with a scale for each column, and of which it
 * makes FP32 first: by a Cast and a Mul, or by DequantizeLinear. Product and conversion become one
 * node, whose operator reads the INT8 (kernels/product/product_linear.c): a quarter of the memory,
 * and of what is read in each call. The FP32 values that are multiplied stay the same. */
#include "dispatch/onnx/pairs.h"

#define LITTLE ((int64_t)1 << 20) /* numbers in all; as FP32 these stay in a second-level cache */
#define FEW 32 /* columns: fewer do not fill a panel, and would take more than in FP32 */

struct weight {
    int value, scale; /* INT8 and FP32, both constant */
    int made, cast;   /* nodes: which makes FP32 of it for the product alone; cast -1: none */
};

bool td_pairs_has_scaled(const struct td_model *model)
{
    int64_t n = 0;
    for (int i = 0; i < model->n_constants; i++) {
        const struct td_tensor *t = &model->constant[i].tensor;
        n += t->dtype == TD_i8 && t->rank == 2 ? td_numel(t) : 0;
    }
    return n >= LITTLE;
}

/* A Mul of the scales and a Cast; a scale stands where its column does. Up to operator set 6 axis
 * may say where it stands. */
static bool is_multiplied(const struct td_pairs *p, const struct td_node *mul, int axis,
                          struct weight *w)
{
    bool placed = td_node_find(mul, "axis") >= 0;
    for (int turn = 0; turn < 2 && td_pairs_is(mul, "", "Mul") && !placed; turn++) {
        int made = td_pairs_operand(mul, turn ? "B" : "A");
        w->scale = td_pairs_operand(mul, turn ? "A" : "B");
        w->cast = made >= 0 ? p->maker[made] - 1 : -1;
        if (w->cast < 0 || !td_pairs_is_cast_to_f32(&p->node[w->cast]))
            continue;
        w->value = td_pairs_operand(&p->node[w->cast], "input");
        const struct td_tensor *by = td_pairs_constant(p, w->scale);
        bool along = by && by->rank >= 2 - axis && td_numel(by) == by->shape[by->rank - 2 + axis];
        return by && by->rank <= 2 && (along || td_numel(by) == 1);
    }
    return false;
}

static bool is_dequantized(const struct td_pairs *p, const struct td_node *node, int axis,
                           struct weight *w)
{
    int64_t given = td_node_int(node, "axis", 1);
    w->cast = -1;
    if (!td_pairs_is(node, "com.microsoft", "DequantizeLinear") ||
        td_node_int(node, "block_size", 0) || td_node_int(node, "output_dtype", 0))
        return false;
    w->value = td_pairs_operand(node, "x");
    w->scale = td_pairs_operand(node, "x_scale");
    const struct td_tensor *by = td_pairs_constant(p, w->scale);
    const struct td_tensor *zero = td_pairs_constant(p, td_pairs_operand(node, "x_zero_point"));
    bool has_zero = td_node_find(node, "x_zero_point") >= 0;
    return by && by->rank <= 1 && (td_numel(by) == 1 || (given < 0 ? given + 2 : given) == axis) &&
           (!has_zero || (zero && zero->dtype == TD_i8 && td_numel(zero) == td_numel(by) &&
                          td_pairs_are_zero(zero)));
}

/* Whether the value is a matrix made of INT8 for its only reader, a scale for each number of
 * dimension axis. */
static bool is_scaled(const struct td_pairs *p, int value, int axis, struct weight *w)
{
    w->made = value >= 0 && p->readers[value] == 1 ? p->maker[value] - 1 : -1;
    const struct td_node *node = w->made >= 0 ? &p->node[w->made] : NULL;
    if (!node || node->n_outs != 1 ||
        !(is_multiplied(p, node, axis, w) || is_dequantized(p, node, axis, w)))
        return false;
    const struct td_tensor *t = td_pairs_constant(p, w->value),
                           *by = td_pairs_constant(p, w->scale);
    return t && t->dtype == TD_i8 && t->rank == 2 && t->shape[axis] >= FEW && by->dtype == TD_f32 &&
           (td_numel(by) == 1 || td_numel(by) == t->shape[axis]);
}

/* Whether a Gemm adds nothing, or a constant number for each column, to the plain product. */
static bool adds_bias(const struct td_pairs *p, const struct td_node *node, int64_t n, int *bias)
{
    *bias = td_pairs_operand(node, "C");
    const struct td_tensor *c = td_pairs_constant(p, *bias);
    return *bias < 0 || (c && c->rank == 1 && c->shape[0] == n);
}

int td_pairs_join_scaled(struct td_pairs *p, int at)
{
    static const char *const names[] = {"A", "B", "scale", "C"};
    const struct td_node *node = &p->node[at];
    bool gemm = td_pairs_is(node, "", "Gemm");
    int turned = gemm && td_node_int(node, "transB", 0), bias = -1;
    struct weight w;
    if (!p->keeps_scaled || !is_scaled(p, td_pairs_operand(node, "B"), turned ? 0 : 1, &w))
        return 0;
    const int64_t n = td_pairs_constant(p, w.value)->shape[turned ? 0 : 1];
    if (gemm && !(td_pairs_is_plain_gemm(node) && adds_bias(p, node, n, &bias)))
        return 0;
    if (w.cast >= 0 && p->readers[p->node[w.cast].out[0]] == 1)
        p->node[w.cast].n_outs = 0;
    const int values[] = {td_pairs_operand(node, "A"), w.value, w.scale, bias};
    return td_pairs_replace(p, at, w.made, at, "tensord", gemm ? "GemmScaled" : "MatMulScaled",
                            names, values, 4);
}
