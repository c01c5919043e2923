/* nms, as torchvision has it: of boxes that overlap, only the best are kept. */
#include "kernels/kernels.h"

#include <errno.h>

static int rule(struct td_call *call)
{
    const struct td_tensor *dets = &call->arg[0].tensor, *scores = &call->arg[1].tensor;
    call->n_out = 1;
    call->counted = 1;
    call->counted_dim = 0;
    if (dets->rank != 2 || dets->shape[1] != 4)
        return td_refuse(call, "dets: must be of shape [n, 4], each row x1, y1, x2, y2");
    if (scores->rank != 1 || scores->shape[0] != dets->shape[0])
        return td_refuse(call, "scores: must be of shape [%lld], one a box",
                         (long long)dets->shape[0]);
    if (scores->dtype != dets->dtype)
        return td_refuse(call, "scores: is %s, but dets is %s; the same is right",
                         td_dtype_name(scores->dtype), td_dtype_name(dets->dtype));
    call->out[0] = (struct td_tensor){.dtype = TD_i64, .rank = 1, .shape = {dets->shape[0]}};
    return 0;
}

/* Which boxes are out. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    prepared->scratch = (size_t)call->out[0].shape[0];
    return NULL;
}

static double flops(const struct td_call *call)
{
    double n = (double)call->arg[0].tensor.shape[0];
    return 8 * n * n;
}

td_kernel td_nms_ref;

static const struct td_impl impls[] = {
    {.name = "ref", .run = td_nms_ref, .dtypes = TD_f32 | TD_f64, .prepare = prepare},
    {0},
};

const struct td_op td_op_nms = {
    .schema = "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    .doc = "out = the boxes by falling score, but those that one before overlaps by more than "
           "iou_threshold of both",
    .rule = rule,
    .dtypes = TD_f32 | TD_f64,
    .impls = impls,
    .flops = flops,
    .follows = 3,
    .samples = (const char *const[]){"dets=[n,4] scores=[n] iou_threshold=0.5", NULL},
};
