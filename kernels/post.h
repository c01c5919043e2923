/* What is done to a product's or a convolution's result before it is stored: up to four formulas of
 * the pointwise table, each of what the one before it gave. One of two operands takes its second
 * from another tensor. Operators have them as a text and a list of tensors, "plus, clamp(0, 6)":
 * formulas by their names in the table, with their numbers in brackets. */
#ifndef TD_KERNELS_POST_H
#define TD_KERNELS_POST_H

#include "kernels/kernels.h"
#include "kernels/none.h"
#include "kernels/onednn/text.h"
#include "kernels/pointwise/pointwise.h"

#define TD_POST_RUN 256 /* elements that are done at a time, at most: a multiple of all lanes */

struct td_post_op {
    enum td_point point;
    double param[TD_POINT_PARAMS];
    const struct td_tensor *other; /* borrowed: one element, one for each of the result's last
                                      dimension, or as many as the result; NULL: one operand */
};

struct td_post {
    int n;
    struct td_post_op op[TD_POSTS];
};

/* Judges the call's arguments text (a string, called name, or None) and others (tensors, or None;
 * -1: the operator has none) against its result, which the rule has made: 0 or -EINVAL, by
 * td_refuse. */
int td_post_rule(struct td_call *call, const char *name, int text, int others);
/* What they say in a call that has been judged. */
void td_post_of(const struct td_call *call, int text, int others, struct td_post *post);

/* How many numbers a formula has. */
int td_post_params(enum td_point point);

/* Whether a formula of one or two operands, whose result is a number, takes so few steps that the
 * vector rows compute it in registers. */
#define TD_POST_IS_SHORT(operands, result, cost, lanes)                                            \
    ((TD_POINT_IS_##result == TD_POINT_IS_same || TD_POINT_IS_##result == TD_POINT_IS_ratio) &&    \
     (operands) <= 2 && (cost) <= 6 && TD_MEANT(lanes))
bool td_post_is_short(enum td_point point);
/* Whether all of a chain's are. */
bool td_post_is_all_short(const struct td_post *post);

/* One number: element at of out, by the judge's formulas. */
double td_post_judge(const struct td_post *post, const struct td_tensor *out, int64_t at, double x);

/* The element of other for element at of out. */
static inline int64_t td_post_at(const struct td_tensor *other, const struct td_tensor *out,
                                 int64_t at)
{
    int64_t n = td_numel(other);
    return n == td_numel(out) ? at : n > 1 ? at % n : 0;
}

/* Whether no post-op has a tensor of one number a column: a run may go over ends of rows. */
static inline bool td_post_is_even(const struct td_post *post, const struct td_tensor *out)
{
    bool even = true;
    for (int i = 0; i < post->n; i++) {
        int64_t n = post->op[i].other ? td_numel(post->op[i].other) : 1;
        even = even && (n == 1 || n == td_numel(out));
    }
    return even;
}

/* In the level's lanes, FP32: n numbers, which x holds, for the elements of out from number at on.
 */
typedef void td_post_run(const struct td_post *post, const struct td_tensor *out, int64_t at,
                         int64_t n, float *x);
td_post_run td_post_default, td_post_avx2, td_post_avx512;

/* The same for some rows of n elements of FP32, of which the first begins at element at of out and
 * the next ones each step elements, a whole row of out, behind; x's are ld apart. n == step: of any
 * rows. */
typedef void td_post_rows(const struct td_post *post, const struct td_tensor *out, int64_t at,
                          int64_t rows, int64_t n, int64_t step, float *x, int64_t ld);
td_post_rows td_post_rows_default, td_post_rows_avx2, td_post_rows_avx512;

/* The same to all of out, which a library has left without. */
typedef void td_post_all(const struct td_post *post, const struct td_tensor *out, int threads);
td_post_all td_post_all_default, td_post_all_avx2, td_post_all_avx512;

#endif
