/* Which calls can be computed together: those whose rows go through the walk of the pointwise
 * family, its own and those that copy and convert. */
#include "kernels/loops/fused.h"

#include "kernels/pointwise/pointwise.h"
#include "kernels/reduce/reduce.h"
#include "kernels/view.h"

#include <stdlib.h>
#include <string.h>

/* For td_pointwise_takes: */
#define RUN 8     /* elements that must be contiguous or evenly spaced, */
#define SQUARE 16 /* and rows and columns of what is read by squares */

td_kernel td_pointwise_ref, td_cast_ref, td_reduce_ref;

static const struct td_impl *reference(const struct td_op *op)
{
    const struct td_impl *ref = op->impls;
    while (ref[1].run)
        ref++;
    return ref;
}

bool td_is_pointwise(const struct td_op *op)
{
    const struct td_impl *ref = reference(op);
    return ref->run == td_pointwise_ref || ref->run == td_cast_ref;
}

bool td_pointwise_takes(const struct td_tensor *t)
{
    int64_t run = 1, step = 0, least = INT64_MAX;
    bool ended = false, turned = false, wide = td_dtype_size(t->dtype) >= 4;
    for (int d = t->rank - 1; d >= 0; d--) {
        int64_t stride = t->stride[d];
        if (t->shape[d] == 1)
            continue;
        if (run == 1)
            step = stride;
        bool ends = !ended && stride != run * step;
        ended = ended || ends;
        run *= ended ? 1 : t->shape[d];
        turned = turned || (ends && stride == 1 && t->shape[d] >= SQUARE && run >= SQUARE && wide);
        least = stride && llabs(stride) < least ? llabs(stride) : least;
    }
    return !step || (run >= RUN && (wide || step > 0) && (turned || llabs(step) == least));
}

bool td_fused_turns(const struct td_call *call)
{
    bool any = false;
    for (int i = 0; i < call->n_args; i++)
        any = any || (call->arg[i].kind == TD_KIND_tensor && td_is_apart(&call->arg[i].tensor));
    return any;
}

bool td_fused_has(const char *formulas, const struct td_op *op)
{
    if (!td_is_pointwise(op))
        return false;
    for (size_t n; *formulas; formulas += n + (formulas[n] == ' ')) {
        n = strcspn(formulas, " ");
        for (int p = 0; p < TD_POINTS; p++) {
            const char *name = td_point_name((enum td_point)p);
            if (strlen(name) == n && !memcmp(name, formulas, n) &&
                td_point_serves((enum td_point)p, op))
                return true;
        }
    }
    return false;
}

bool td_is_reduction(const struct td_op *op)
{
    return reference(op)->run == td_reduce_ref;
}

int td_fused_values(const struct td_call *call, const struct td_impl *impl)
{
    if (!td_is_pointwise(call->op) || impl == reference(call->op) || call->n_out != 1)
        return 0;
    if (call->op->check && td_dtype_kind(td_point_type(call)) != 'f') /* values are judged first */
        return 0;
    return 2 + (int)strlen(((const struct td_pointwise *)call->op->family)->operands);
}

bool td_fused_reduces(const struct td_call *call, const struct td_impl *impl, double flops)
{
    return td_is_reduction(call->op) && impl != reference(call->op) && td_reduce_takes(call, flops);
}
