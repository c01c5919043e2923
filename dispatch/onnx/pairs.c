/* Statically quantized models as most tools write them: an operator in floats between
 * DequantizeLinear and QuantizeLinear. Convolutions and products between such a pair become
 * QLinearConv, QLinearMatMul and QGemm; what only moves elements, or takes the largest, is done to
 * the 8 bits where the pair has the same scale. Others stay: plans make one loop of them. */
#include "dispatch/onnx/pairs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct scaled {             /* a value in 8 bits, and what it stands for */
    int value, scale, zero; /* values, the last two of constants */
    const struct td_tensor *by, *nought;
};

/* The DequantizeLinear or QuantizeLinear node's numbers: scales in FP32, zero points of whole
 * numbers, both constant, one or, for an axis, some. */
static bool read_scaled(const struct td_pairs *p, const struct td_node *node, bool back,
                        struct scaled *s)
{
    s->value = td_pairs_operand(node, "x");
    s->scale = td_pairs_operand(node, back ? "x_scale" : "y_scale");
    s->zero = td_pairs_operand(node, back ? "x_zero_point" : "y_zero_point");
    s->by = td_pairs_constant(p, s->scale);
    s->nought = td_pairs_constant(p, s->zero);
    return s->value >= 0 && s->by && s->nought && s->by->dtype == TD_f32 &&
           td_node_int(node, "block_size", 0) == 0 && td_node_int(node, "output_dtype", 0) == 0 &&
           td_numel(s->by) == td_numel(s->nought) && td_numel(s->by) > 0;
}

/* The pair's first half, if the value is made by one. */
static const struct td_node *dequantized(const struct td_pairs *p, int value, struct scaled *s)
{
    const struct td_node *node =
        value >= 0 && p->maker[value] ? &p->node[p->maker[value] - 1] : NULL;
    return node && td_pairs_is(node, "com.microsoft", "DequantizeLinear") &&
                   read_scaled(p, node, true, s)
               ? node
               : NULL;
}

/* Of a scale below 0 the least of the 8 bits is the largest number. */
static bool is_one_of_8(const struct scaled *s)
{
    return td_numel(s->by) == 1 && td_get_real(s->by, 0) > 0 &&
           (s->nought->dtype & (TD_i8 | TD_u8));
}

/* 8 bits by one scale, or by n scales of dimension axis. */
static bool is_weight(const struct scaled *s, const struct td_node *from, int64_t axis, int rank,
                      int64_t n)
{
    int64_t given = td_node_int(from, "axis", 1);
    bool along = td_numel(s->by) == n && (given < 0 ? given + rank : given) == axis;
    return (s->nought->dtype & (TD_i8 | TD_u8)) && (td_numel(s->by) == 1 || along);
}

/* The QuantizeLinear that alone reads node's only result, directly or behind a Relu that cuts
 * nothing off that it does not; *relu: that one, or -1. */
static int quantizer(const struct td_pairs *p, int at, struct scaled *s, int *relu)
{
    *relu = -1;
    for (int turn = 0; turn < 2; turn++) {
        int out = p->node[at].n_outs == 1 ? p->node[at].out[0] : -1;
        if (out < 0 || p->readers[out] != 1 || !p->reader[out])
            return -1;
        at = p->reader[out] - 1;
        const struct td_node *node = &p->node[at];
        if (td_pairs_is(node, "com.microsoft", "QuantizeLinear")) {
            bool right = read_scaled(p, node, false, s) && is_one_of_8(s) && node->n_outs == 1;
            if (right && *relu >= 0) /* 0 is the least that there is */
                right = td_get_real(s->nought, 0) == (s->nought->dtype == TD_u8 ? 0 : -128);
            return right ? at : -1;
        }
        if (!td_pairs_is(node, "", "Relu") || *relu >= 0)
            return -1;
        *relu = at;
    }
    return -1;
}

/* Whether the bias is INT32 in the scale of the product's sums, *whole, or absent, -1. */
static bool is_bias(const struct td_pairs *p, int value, const struct scaled *x,
                    const struct scaled *w, int64_t n, int *whole)
{
    struct scaled b;
    *whole = -1;
    if (value < 0)
        return true;
    const struct td_node *from = dequantized(p, value, &b);
    const struct td_tensor *t = from ? td_pairs_constant(p, b.value) : NULL;
    if (!t || t->dtype != TD_i32 || t->rank != 1 || t->shape[0] != n || b.nought->dtype != TD_i32 ||
        (td_numel(b.by) != 1 && td_numel(b.by) != n))
        return false;
    for (int64_t i = 0; i < n; i++) {
        double scale = td_get_real(x->by, 0) * td_get_real(w->by, td_numel(w->by) > 1 ? i : 0);
        double given = td_get_real(b.by, td_numel(b.by) > 1 ? i : 0);
        if (!(fabs(scale - given) <= 1e-6 * scale))
            return false;
    }
    if (!td_pairs_are_zero(b.nought))
        return false;
    *whole = b.value;
    return true;
}

/* What each of these gives: 1: it is joined, 0: it stays; -ENOMEM. */

static int join_conv(struct td_pairs *p, int at)
{
    static const char *const names[] = {"x",       "x_scale",      "x_zero_point",
                                        "w",       "w_scale",      "w_zero_point",
                                        "y_scale", "y_zero_point", "B"};
    const struct td_node *node = &p->node[at];
    struct scaled x, w, y;
    int relu, bias, last = quantizer(p, at, &y, &relu);
    const struct td_node *of_w = dequantized(p, td_pairs_operand(node, "W"), &w);
    const struct td_tensor *weight = of_w ? td_pairs_constant(p, w.value) : NULL;
    if (last < 0 || !weight || !dequantized(p, td_pairs_operand(node, "X"), &x) ||
        !is_one_of_8(&x) || weight->rank < 3 ||
        !is_weight(&w, of_w, 0, weight->rank, weight->shape[0]) ||
        !is_bias(p, td_pairs_operand(node, "B"), &x, &w, weight->shape[0], &bias))
        return 0;
    const int values[] = {x.value, x.scale, x.zero, w.value, w.scale,
                          w.zero,  y.scale, y.zero, bias};
    return td_pairs_replace(p, at, relu, last, "", "QLinearConv", names, values, 9);
}

static int join_matmul(struct td_pairs *p, int at)
{
    static const char *const names[] = {"a",       "a_scale",      "a_zero_point", "b",
                                        "b_scale", "b_zero_point", "y_scale",      "y_zero_point"};
    const struct td_node *node = &p->node[at];
    struct scaled a, b, y;
    int relu, last = quantizer(p, at, &y, &relu);
    const struct td_node *of_b = dequantized(p, td_pairs_operand(node, "B"), &b);
    const struct td_tensor *weight = of_b ? td_pairs_constant(p, b.value) : NULL;
    if (last < 0 || !of_b || !dequantized(p, td_pairs_operand(node, "A"), &a) || !is_one_of_8(&a) ||
        !(weight && weight->rank == 2 ? is_weight(&b, of_b, 1, 2, weight->shape[1])
                                      : is_one_of_8(&b)))
        return 0;
    const int values[] = {a.value, a.scale, a.zero, b.value, b.scale, b.zero, y.scale, y.zero};
    return td_pairs_replace(p, at, relu, last, "", "QLinearMatMul", names, values, 8);
}

static int join_gemm(struct td_pairs *p, int at)
{
    static const char *const names[] = {"A", "a_scale", "a_zero_point",
                                        "B", "b_scale", "b_zero_point",
                                        "C", "y_scale", "y_zero_point"};
    const struct td_node *node = &p->node[at];
    struct scaled a, b, y;
    int relu, bias, last = quantizer(p, at, &y, &relu);
    const struct td_node *of_b = dequantized(p, td_pairs_operand(node, "B"), &b);
    const struct td_tensor *weight = of_b ? td_pairs_constant(p, b.value) : NULL;
    int axis = td_node_int(node, "transB", 0) ? 0 : 1;
    if (last < 0 || !weight || weight->rank != 2 || !td_pairs_is_plain_gemm(node) ||
        !dequantized(p, td_pairs_operand(node, "A"), &a) || !is_one_of_8(&a) ||
        !is_weight(&b, of_b, axis, 2, weight->shape[axis]) ||
        !is_bias(p, td_pairs_operand(node, "C"), &a, &b, weight->shape[axis], &bias))
        return 0;
    const int values[] = {a.value, a.scale, a.zero,  b.value, b.scale,
                          b.zero,  bias,    y.scale, y.zero};
    return td_pairs_replace(p, at, relu, last, "com.microsoft", "QGemm", names, values, 9);
}

static bool are_same(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->dtype == b->dtype && td_numel(a) == td_numel(b) &&
           !memcmp(a->data, b->data, td_nbytes(a));
}

/* What gives only elements that it is given: the same in 8 bits. */
static int join_move(struct td_pairs *p, int at)
{
    const struct td_node *node = &p->node[at];
    struct scaled x, y;
    int relu, last = quantizer(p, at, &y, &relu);
    if (last < 0 || relu >= 0 || !node->n_operands || node->operand[0].kind != TD_OPERAND_value ||
        !dequantized(p, node->operand[0].value, &x) || !is_one_of_8(&x) || !are_same(x.by, y.by) ||
        !are_same(x.nought, y.nought))
        return 0;
    size_t bytes = sizeof *node->operand * (size_t)node->n_operands;
    struct td_node_operand *operand = td_program_alloc(p->model, bytes);
    if (!operand)
        return -ENOMEM;
    memcpy(operand, node->operand, bytes);
    operand[0].value = x.value;
    struct td_node made = *node;
    made.operand = operand;
    made.out = p->node[last].out;
    p->node[at].n_outs = 0;
    p->node[last] = made;
    return 1;
}

/* ---- a product's second matrix ---- */

/* QGemm's constant B is transposed once, here. */
static int turn_gemm(struct td_pairs *p, int at)
{
    struct td_node *node = &p->node[at];
    int b = td_node_find(node, "B"), turned = td_node_find(node, "transB");
    const struct td_tensor *weight =
        b < 0 || turned < 0 ? NULL : td_pairs_constant(p, td_pairs_operand(node, "B"));
    if (!weight || weight->rank != 2 || td_node_int(node, "transB", 0) != 1 ||
        td_dtype_size(weight->dtype) != 1)
        return 0;
    int64_t n = weight->shape[0], k = weight->shape[1];
    struct td_tensor t = {.dtype = weight->dtype, .rank = 2, .shape = {k, n}};
    size_t bytes = sizeof *node->operand * (size_t)node->n_operands;
    struct td_node_operand *operand = td_program_alloc(p->model, bytes);
    char *to = malloc(td_nbytes(&t) + 1);
    int err = operand && to ? 0 : -ENOMEM;
    for (int64_t i = 0; i < k && !err; i++)
        for (int64_t j = 0; j < n; j++)
            to[i * n + j] = ((const char *)weight->data)[j * k + i];
    t.data = to;
    int value = err ? 0 : td_program_value(p->model);
    err = err ? err : td_program_constant(p->model, value, &t);
    free(to);
    if (err)
        return err;
    memcpy(operand, node->operand, bytes);
    operand[b].value = value;
    operand[turned].constant.i = 0;
    node->operand = operand;
    return 1;
}

/* ---- the graph ---- */

static int join(struct td_pairs *p, int at)
{
    static const char *const moves[] = {"MaxPool", "Reshape",   "Flatten",  "Transpose",
                                        "Squeeze", "Unsqueeze", "Identity", NULL};
    const struct td_node *node = &p->node[at];
    if (node->lower != td_onnx_walk || node->n_outs != 1)
        return 0;
    if (td_pairs_is(node, "", "Conv"))
        return join_conv(p, at);
    bool matmul = td_pairs_is(node, "", "MatMul"), gemm = td_pairs_is(node, "", "Gemm");
    int done = matmul ? join_matmul(p, at) : gemm ? join_gemm(p, at) : 0;
    if (matmul || gemm)
        return done ? done : td_pairs_join_scaled(p, at);
    if (td_pairs_is(node, "", "Mul"))
        return td_pairs_join_dynamic(p, at);
    for (int i = 0; moves[i]; i++)
        if (td_pairs_is(node, "", moves[i]))
            return join_move(p, at);
    return 0;
}

static void look(struct td_pairs *p)
{
    const struct td_node_graph *graph = &p->model->graph;
    memset(p->maker, 0, sizeof *p->maker * 4 * (size_t)p->n_values);
    for (int i = 0; i < graph->n_nodes; i++)
        for (int k = 0; k < graph->node[i].n_operands; k++)
            if (graph->node[i].operand[k].kind == TD_OPERAND_value)
                p->reader[graph->node[i].operand[k].value] = i + 1;
    td_program_find_makers(p->model, p->maker, p->constant);
    td_program_count_readers(p->model, p->readers);
}

/* Removes joined nodes, and DequantizeLinear nodes whose results have no reader. */
static void leave_out(struct td_pairs *p)
{
    struct td_node_graph *graph = &p->model->graph;
    int n = 0;
    for (int i = 0; i < graph->n_nodes; i++)
        if (graph->node[i].n_outs)
            graph->node[n++] = graph->node[i];
    graph->n_nodes = n;
    look(p);
    for (int i = n = 0; i < graph->n_nodes; i++) {
        const struct td_node *node = &graph->node[i];
        if (!td_pairs_is(node, "com.microsoft", "DequantizeLinear") || node->n_outs != 1 ||
            node->out[0] < 0 || p->readers[node->out[0]])
            graph->node[n++] = graph->node[i];
    }
    graph->n_nodes = n;
}

static bool has_any(const struct td_node_graph *graph)
{
    for (int i = 0; i < graph->n_nodes; i++)
        if (strstr(graph->node[i].op, "QuantizeLinear") || !strcmp(graph->node[i].op, "QGemm"))
            return true;
    return false;
}

int td_onnx_join_pairs(struct td_onnx_reader *r)
{
    struct td_node_graph *graph = &r->model->graph;
    struct td_pairs p = {.r = r, .model = r->model, .n_values = r->model->n_values + 1};
    int done = 0, any = 0;
    p.keeps_scaled = td_pairs_has_scaled(r->model);
    if (!p.keeps_scaled && !has_any(graph))
        return 0;
    p.node = graph->node;
    p.maker = calloc(4 * (size_t)p.n_values, sizeof *p.maker);
    if (!p.maker)
        return -ENOMEM;
    p.constant = p.maker + p.n_values;
    p.readers = p.constant + p.n_values;
    p.reader = p.readers + p.n_values;
    look(&p);
    for (int i = 0; i < graph->n_nodes && done >= 0; i++, any += done > 0)
        done = join(&p, i);
    if (any && done >= 0)
        leave_out(&p);
    for (int i = 0; i < graph->n_nodes && done >= 0; i++)
        if (td_pairs_is(&graph->node[i], "com.microsoft", "QGemm"))
            done = turn_gemm(&p, i);
    free(p.maker);
    return done < 0 ? done : 0;
}
