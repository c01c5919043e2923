/* ai.onnx.ml's support vector machines. */
#include "dispatch/onnx/ops/ml.h"

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
