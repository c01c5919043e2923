/* Post-ops, reference: one number by the judge's formulas. */
#include "kernels/elementwise.h"
#include "kernels/post.h"

double td_post_judge(const struct td_post *post, const struct td_tensor *out, int64_t at, double x)
{
    for (int i = 0; i < post->n; i++) {
        const struct td_post_op *op = &post->op[i];
        double operand[TD_POINT_OPERANDS] = {x};
        if (op->other)
            operand[1] = td_get_real(op->other, td_post_at(op->other, out, at));
        x = td_point_judge(op->point, operand, op->param, out->dtype);
    }
    return x;
}
