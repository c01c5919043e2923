/* Operators of ai.onnx.ml: what comes before a classical model, linear ones, and trees. */
#include "dispatch/onnx/ops/ml.h"

#include <math.h>
#include <string.h>

/* ---- what they share ---- */

void td_ml_let_rows(struct td_onnx *n)
{
    if (tensor_of(n, "X")->dtype != TD_f32)
        set(n, "X", "to.dtype(X, FP32)");
    if (tensor_of(n, "X")->rank == 1)
        set(n, "X", "unsqueeze(X, 0)");
}

void td_ml_let_labels(struct td_onnx *n, const char *ints)
{
    set_numbers(n, ints, TD_i64);
    let(n, "labels", *at(n, ints));
}

void td_ml_transform(struct td_onnx *n, const char *how)
{
    if (!strcmp(how, "SOFTMAX"))
        set(n, "scores", "softmax(scores, -1)");
    else if (!strcmp(how, "LOGISTIC"))
        set(n, "scores", "sigmoid(scores)");
    else if (!strcmp(how, "SOFTMAX_ZERO"))
        set(n, "scores",
            "where(eq(scores, 0), zeros_like(scores), softmax(masked_fill(scores, eq(scores, 0), "
            "-inf), -1))");
    else if (*how && strcmp(how, "NONE") != 0)
        unfit(n, "post_transform: %s; NONE, SOFTMAX, LOGISTIC or SOFTMAX_ZERO is right", how);
}

/* Two classes that share a score q: the label by whether it is above limit, and both scores: q and
 * 1
 * - q, or q and -q, as ONNX Runtime has them. */
static void give_one_score(struct td_onnx *n, double limit, bool complement)
{
    bool logistic = !strcmp(text(n, "post_transform"), "LOGISTIC");
    let(n, "limit", td_item_float(limit));
    put(n, 0, eval(n, "index_select(labels, 0, to.dtype(gt(select(scores, 1, 0), limit), INT64))"));
    put(n, 1,
        eval(n, logistic     ? "cat([sigmoid(neg(scores)), sigmoid(scores)], 1)"
                : complement ? "cat([1 - scores, scores], 1)"
                             : "cat([neg(scores), scores], 1)"));
}

static void give_classes(struct td_onnx *n)
{
    put(n, 0, eval(n, "index_select(labels, 0, argmax(scores, 1))"));
    td_ml_transform(n, text(n, "post_transform"));
    put(n, 1, *at(n, "scores"));
}

/* ---- before the model ---- */

void td_onnx_ml_scale(struct td_onnx *n)
{
    let(n, "kind", td_item_dtype(TD_f32));
    set_numbers(n, "offset", TD_f32);
    set_numbers(n, "scale", TD_f32);
    give(n, "(to.dtype(X, FP32) - offset) * scale");
}

void td_onnx_ml_impute(struct td_onnx *n)
{
    bool floats = tensor_of(n, "X")->dtype & TD_FLOATS;
    double value = floats ? real(n, "replaced_value_float", 0) : 0;
    set_numbers(n, floats ? "imputed_value_floats" : "imputed_value_int64s",
                tensor_of(n, "X")->dtype);
    let(n, "value", *at(n, floats ? "imputed_value_floats" : "imputed_value_int64s"));
    let(n, "old", *at(n, floats ? "replaced_value_float" : "replaced_value_int64"));
    give(n, floats && isnan(value) ? "where(isnan(X), value, X)" : "where(eq(X, old), value, X)");
}

/* A row of zeros stays one. */
void td_onnx_ml_normalize(struct td_onnx *n)
{
    const char *norm = text(n, "norm");
    let(n, "x", *at(n, "X"));
    set(n, "x", "to.dtype(x, FP32)");
    if (!strcmp(norm, "L1"))
        set(n, "l", "sum.dim_IntList(abs(x), [-1], True)");
    else if (!strcmp(norm, "L2"))
        set(n, "l", "sqrt(sum.dim_IntList(x * x, [-1], True))");
    else
        set(n, "l", "amax(x, [-1], True)");
    give(n, "x / masked_fill(l, eq(l, 0), 1)");
}

void td_onnx_ml_pick(struct td_onnx *n)
{
    if (tensor_of(n, "X")->rank == 1)
        set(n, "X", "unsqueeze(X, 0)");
    give(n, "index_select(X, -1, view(Y, [-1]))");
}

void td_onnx_ml_join(struct td_onnx *n)
{
    const struct td_item *list;
    int count = list_of(n, "X", &list);
    for (int i = 0; i < count && !n->err; i++) {
        let(n, "part", list[i]);
        if (tensor_of(n, "part")->rank == 1)
            set(n, "part", "unsqueeze(part, 0)");
        set(n, "all", i ? "cat([all, to.dtype(part, FP32)], 1)" : "to.dtype(part, FP32)");
    }
    put(n, 0, *at(n, "all"));
}

void td_onnx_ml_one_hot(struct td_onnx *n)
{
    set_numbers(n, "cats_int64s", tensor_of(n, "X")->dtype);
    give(n, "to.dtype(eq(unsqueeze(X, -1), cats_int64s), FP32)");
}

/* ---- labels ---- */

/* The one of the three attributes that is there, as a tensor. */
static void let_side(struct td_onnx *n, const char *ints, const char *floats, const char *tensor,
                     const char *name)
{
    if (has(n, tensor))
        let(n, name, *at(n, tensor));
    else {
        set_numbers(n, has(n, ints) ? ints : floats, has(n, ints) ? TD_i64 : TD_f32);
        let(n, name, *at(n, has(n, ints) ? ints : floats));
    }
}

void td_onnx_ml_encode(struct td_onnx *n)
{
    if (has(n, "classes_strings"))
        return unfit(n, "classes_strings: keys_strings and values_int64s are right");
    let_side(n, "keys_int64s", "keys_floats", "keys_tensor", "keys");
    let_side(n, "values_int64s", "values_floats", "values_tensor", "values");
    const struct td_tensor *keys = tensor_of(n, "keys"), *values = tensor_of(n, "values");
    if (n->err || keys->rank != 1 || values->rank != 1 || keys->shape[0] != values->shape[0] ||
        !keys->shape[0])
        return refuse(n, "keys, values: one or more of each, as many as of the other, are right");
    bool floats = values->dtype & TD_FLOATS;
    let(n, "other",
        *at(n, has(n, "default_tensor") ? "default_tensor"
               : floats                 ? "default_float"
                                        : "default_int64"));
    let_int(n, "last", keys->shape[0] - 1);
    set(n, "order", "sort(keys)[1]");
    set(n, "sorted", "sort(keys)[0]");
    set(n, "place", "clamp(bucketize(X, sorted), 0, last)");
    set(n, "flat", "view(place, [-1])");
    set(n, "found", "eq(view(index_select(sorted, 0, flat), [-1]), reshape(X, [-1]))");
    set(n, "value", "index_select(values, 0, index_select(order, 0, flat))");
    let_ints(n, "shape", tensor_of(n, "X")->shape, tensor_of(n, "X")->rank);
    set(n, "rest", has(n, "default_tensor") ? "view(other, [-1])" : "full_like(value, other)");
    give(n, "view(where(found, value, rest), shape)");
}

/* ---- linear ---- */

static void let_linear(struct td_onnx *n, int64_t rows)
{
    set_numbers(n, "coefficients", TD_f32);
    td_ml_let_rows(n);
    int64_t all = td_numel(tensor_of(n, "coefficients"));
    if (rows < 1 || all % rows)
        return refuse(n, "coefficients: %lld are no table of %lld rows", (long long)all,
                      (long long)rows);
    let_ints(n, "table", (int64_t[]){rows, all / rows}, 2);
    if (has(n, "intercepts"))
        set_numbers(n, "intercepts", TD_f32);
    set(n, "scores", "linear(X, view(coefficients, table), intercepts)");
}

void td_onnx_ml_regress(struct td_onnx *n)
{
    let_linear(n, whole(n, "targets", 1));
    td_ml_transform(n, text(n, "post_transform"));
    put(n, 0, *at(n, "scores"));
}

void td_onnx_ml_classify(struct td_onnx *n)
{
    td_ml_let_labels(n, "classlabels_ints");
    set_numbers(n, "intercepts", TD_f32);
    let_linear(n, td_numel(tensor_of(n, "intercepts")));
    int64_t scores = tensor_of(n, "scores")->shape[1], labels = td_numel(tensor_of(n, "labels"));
    if (scores == 1 && labels == 2)
        return give_one_score(n, 0, true);
    if (scores != labels)
        return refuse(n, "classlabels_ints: %lld for %lld scores", (long long)labels,
                      (long long)scores);
    give_classes(n);
}

/* ---- trees ---- */

static void let_sums(struct td_onnx *n)
{
    let(n, "base_values",
        *at(n, has(n, "base_values_as_tensor") ? "base_values_as_tensor" : "base_values"));
    if (has(n, "base_values"))
        set_numbers(n, "base_values", TD_f32);
    bool wide = tensor_of(n, "X")->dtype == TD_f64;
    if (!wide)
        td_ml_let_rows(n);
    for (int i = 0; i < 2 && wide; i++)
        set_numbers(n, i ? "values" : "thresholds", TD_f64);
    set(n, "scores", "to.dtype(tree_ensemble(X, thresholds, links, trees, values, outputs), FP32)");
}

static void give_sums(struct td_onnx *n, bool average)
{
    let_sums(n);
    let(n, "count", td_item_float((double)tensor_of(n, "trees")->shape[0]));
    if (average)
        set(n, "scores", "div.Scalar(scores, count)");
    if (has(n, "base_values"))
        set(n, "scores", "scores + base_values");
}

void td_onnx_ml_trees_regress(struct td_onnx *n)
{
    const char *how = text(n, "aggregate_function");
    if (strcmp(how, "SUM") != 0 && strcmp(how, "AVERAGE") != 0)
        return unfit(n, "aggregate_function: %s; SUM or AVERAGE is right", how);
    give_sums(n, *how == 'A');
    td_ml_transform(n, text(n, "post_transform"));
    put(n, 0, *at(n, "scores"));
}

void td_onnx_ml_trees_indexed(struct td_onnx *n)
{
    static const char *const transforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};
    int64_t how = whole(n, "aggregate_function", 1), transform = whole(n, "post_transform", 0);
    if (how != 0 && how != 1)
        return unfit(n, "aggregate_function: 0 (average) or 1 (sum) is right");
    if (transform < 0 || transform > 3)
        return unfit(n, "post_transform: 0 to 3 is right");
    give_sums(n, !how);
    td_ml_transform(n, transforms[transform]);
    if (tensor_of(n, "X")->dtype == TD_f64)
        set(n, "scores", "to.dtype(scores, FP64)");
    put(n, 0, *at(n, "scores"));
}

void td_onnx_ml_trees_classify(struct td_onnx *n)
{
    int64_t one = whole(n, "one_score", 0);
    td_ml_let_labels(n, "classlabels_int64s");
    let_sums(n);
    if (has(n, "base_values") && one) /* one score has one base, which is the last of two */
        set(n, "base_values", "slice.Tensor(base_values, 0, -1)");
    if (has(n, "base_values"))
        set(n, "scores", "scores + base_values");
    if (one)
        give_one_score(n, one == 1 ? 0.5 : 0, one == 1);
    else
        give_classes(n);
}
