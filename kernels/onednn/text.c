/* A pointwise call as a post-op: the way back from post.c's reading. */
#include "kernels/onednn/text.h"

#include "kernels/loops/fused.h"
#include "kernels/onednn/post.h"

#include <stdio.h>
#include <string.h>

static const char *const names[TD_POINTS] = {
#define TD_POINT(id, ...) #id,
#include "kernels/pointwise/pointwise.def"
};

/* Which operand the argument is; -1: none. */
static int operand_of(const struct td_pointwise *family, int arg)
{
    const char *at = strchr(family->operands, '0' + arg);
    return arg < 10 && at ? (int)(at - family->operands) : -1;
}

void td_post_text_limits(double low, double high, struct td_post_text *post)
{
    *post = (struct td_post_text){
        .text = "fmax, fmin", .n = 2, .other = -1, .number = {low, high}, .n_numbers = 2};
}

/* The formula in words of what it follows; false: it has no such ones. */
static bool reword(const struct td_call *call, const struct td_post_op *op,
                   struct td_post_text *post)
{
    switch (op->point) {
    case TD_POINT_relu:
        *post = (struct td_post_text){.text = "relu", .n = 1, .other = -1};
        return true;
    case TD_POINT_relu6:
        td_post_text_limits(0, 6, post);
        return true;
    case TD_POINT_clamp:
        td_post_text_limits(op->param[0], op->param[1], post);
        return op->param[0] <= op->param[1] && td_point_type(call) == TD_f32;
    default:
        return false;
    }
}

const char *td_post_text(const struct td_call *call, int arg, struct td_post_text *post)
{
    if (!td_is_pointwise(call->op) || call->n_out != 1)
        return "it is not pointwise";
    const struct td_pointwise *family = call->op->family;
    struct td_post_op op = {.point = td_point_of(call)};
    int n = (int)strlen(family->operands), which = operand_of(family, arg);
    int params = td_post_params(op.point);
    bool turns = op.point == TD_POINT_plus || op.point == TD_POINT_mul;
    if (which < 0 || n > 2 || (which && !turns))
        return "the result is not what it computes with first";
    for (int i = 0; i < params; i++) {
        int64_t whole;
        td_point_param(call, i, &op.param[i], &whole);
    }
    if (reword(call, &op, post))
        return NULL;
    if (!td_onednn_post_knows(&op) || params > 1)
        return "the libraries do it wrongly, or no faster than a step of its own";
    *post = (struct td_post_text){.n = 1, .other = n == 2 ? family->operands[!which] - '0' : -1};
    snprintf(post->text, sizeof post->text, params ? "%s(%.9g)" : "%s", names[op.point],
             op.param[0]);
    return NULL;
}
