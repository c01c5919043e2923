/* ai.onnx.ml's support vector machines. */
#include "dispatch/onnx/ops/ml.h"
#include "kernels/sizes.h"

#include <string.h>

/* Names kernel, what X's rows and the support vectors are to each other: [rows, vectors]. */
static void let_kernel(struct td_onnx *n, int64_t vectors)
{
    const char *type = text(n, "kernel_type");
    double p[3] = {0};
    if (has(n, "kernel_params"))
        reals(n, "kernel_params", p, 3);
    let(n, "gamma", td_item_float(p[0]));
    let(n, "fall", td_item_float(-p[0]));
    let(n, "shift", td_item_float(p[1]));
    let(n, "degree", td_item_float(p[2]));
    set_numbers(n, "support_vectors", TD_f32);
    let_ints(n, "table", (int64_t[]){vectors, -1}, 2);
    set(n, "vectors", "view(support_vectors, table)");
    if (!strcmp(type, "RBF"))
        set(n, "kernel", "exp(cdist(X, vectors) ** 2 * fall)");
    else if (!strcmp(type, "POLY"))
        set(n, "kernel", "(linear(X, vectors) * gamma + shift) ** degree");
    else if (!strcmp(type, "SIGMOID"))
        set(n, "kernel", "tanh(linear(X, vectors) * gamma + shift)");
    else if (!strcmp(type, "LINEAR"))
        set(n, "kernel", "linear(X, vectors)");
    else
        unfit(n, "kernel_type: %s; LINEAR, POLY, RBF or SIGMOID is right", type);
}

void td_onnx_ml_svm_regress(struct td_onnx *n)
{
    int64_t vectors = whole(n, "n_supports", 0);
    td_ml_let_rows(n);
    set_numbers(n, "coefficients", TD_f32);
    set_numbers(n, "rho", TD_f32);
    if (vectors > 0)
        let_kernel(n, vectors);
    else
        let(n, "kernel", *at(n, "X"));
    set(n, "scores", "unsqueeze(mv(kernel, coefficients), 1) + rho");
    if (whole(n, "one_class", 0))
        set(n, "scores", "to.dtype(gt(scores, 0), FP32) * 2 - 1");
    td_ml_transform(n, text(n, "post_transform"));
    put(n, 0, *at(n, "scores"));
}

/* ---- classes ---- */

/* The sum for each pair of classes. coefficients has one row fewer than there are classes: for the
 * vectors of a class, a row for each other class, in order. Names decide [pairs,
 * vectors], and first and second, which classes a pair is of, one in each row. */
static void let_pairs(struct td_onnx *n, int64_t classes, int64_t vectors)
{
    set_numbers(n, "vectors_per_class", TD_i64);
    let_int(n, "classes", classes);
    let_int(n, "vectors_n", vectors);
    let_ints(n, "table", (int64_t[]){classes - 1, vectors}, 2);
    let_ints(n, "square", (int64_t[]){classes, classes}, 2);
    set(n, "own", "bucketize(arange(vectors_n), cumsum(vectors_per_class, 0), right=True)");
    set(n, "pairs", "nonzero(triu(ones(square), 1))");
    set(n, "first", "slice(pairs, 1, 0, 1)");
    set(n, "second", "slice(pairs, 1, 1, 2)");
    set(n, "row", "where(eq(own, first), second - 1, first)");
    set(n, "counts", "to.dtype(logical_or(eq(own, first), eq(own, second)), FP32)");
    set(n, "decide", "gather(view(coefficients, table), 0, row) * counts");
    set(n, "first", "to.dtype(eq(first, arange(classes)), FP32)");
    set(n, "second", "to.dtype(eq(second, arange(classes)), FP32)");
}

/* Platt's curves of what decides between two, and what these are for all. */
static void let_probabilities(struct td_onnx *n)
{
    set_numbers(n, "prob_a", TD_f32);
    set_numbers(n, "prob_b", TD_f32);
    set(n, "scores", "pairwise_coupling(sigmoid(neg(scores * prob_a + prob_b)), classes)");
}

/* Two classes: one score, of which ONNX Runtime gives both signs. */
static void give_two(struct td_onnx *n)
{
    if (!strcmp(text(n, "post_transform"), "LOGISTIC"))
        put(n, 1, eval(n, "cat([sigmoid(neg(scores)), sigmoid(scores)], 1)"));
    else
        put(n, 1, eval(n, "cat([neg(scores), scores], 1)"));
}

void td_onnx_ml_svm_classify(struct td_onnx *n)
{
    int64_t counts[TD_MAX_LIST], vectors = 0;
    int classes =
        has(n, "vectors_per_class") ? ints(n, "vectors_per_class", counts, TD_MAX_LIST) : 0;
    for (int i = 0; i < classes; i++)
        if (counts[i] < 0 || !td_size_plus(vectors, counts[i], &vectors))
            return refuse(n, "vectors_per_class: %lld is no number of vectors",
                          (long long)counts[i]);
    td_ml_let_labels(n, "classlabels_ints");
    td_ml_let_rows(n);
    set_numbers(n, "coefficients", TD_f32);
    set_numbers(n, "rho", TD_f32);
    int64_t labels = td_numel(tensor_of(n, "labels"));
    if (n->err)
        return;
    if (!vectors) {
        let_ints(n, "table", (int64_t[]){labels, -1}, 2);
        set(n, "scores", "linear(X, view(coefficients, table)) + select(rho, 0, 0)");
        put(n, 0, eval(n, "index_select(labels, 0, argmax(scores, 1))"));
        td_ml_transform(n, text(n, "post_transform"));
        return put(n, 1, *at(n, "scores"));
    }
    if (classes != labels || classes < 2)
        return refuse(n, "vectors_per_class: %d for %lld labels", classes, (long long)labels);
    let_kernel(n, vectors);
    let_pairs(n, classes, vectors);
    set(n, "scores", "linear(kernel, decide, rho)");
    set(n, "votes", "where(gt(scores, 0), 1.0, 0.0)");
    set(n, "votes", "matmul(votes, first) + matmul(1 - votes, second)");
    bool shares = has(n, "prob_a");
    if (shares)
        let_probabilities(n);
    put(n, 0, eval(n, "index_select(labels, 0, argmax(votes, 1))"));
    if (classes == 2 && !shares)
        return give_two(n);
    td_ml_transform(n, text(n, "post_transform"));
    put(n, 1, *at(n, "scores"));
}
