/* Makes `dense` of products by a constant matrix, and takes a vector of constants that is added to
 * their results, or to those of `linear` and of both with scales, as the bias. These operators
 * apply post-ops. */
#include "dispatch/passes/passes.h"
#include "kernels/linear.h"
#include "kernels/loops/fused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* matmul(self, other), mm(self, mat2), addmm(self, mat1, mat2): their factors' names. */
static const struct {
    const char *op, *a, *b;
} products[] = {{"matmul", "self", "other"}, {"mm", "self", "mat2"}, {"addmm", "mat1", "mat2"}};

struct product {
    struct td_plan *plan;
    struct td_model_pass *pass;
    const struct td_handle *dense;
    struct td_plan_readers readers;
};

/* The constant as a bias of n numbers, in *bias; false: it is none. */
static bool is_bias(const struct td_tensor *constant, int64_t n, struct td_tensor *bias)
{
    if (!constant || constant->stride || td_numel(constant) != n || !constant->rank ||
        constant->shape[constant->rank - 1] != n)
        return false;
    *bias = *constant;
    bias->rank = 1;
    bias->shape[0] = n;
    return true;
}

/* The step that is the only reader of the step's result; NULL: an output or several steps read it.
 */
static struct td_plan_step *only_reader(const struct product *p, const struct td_plan_step *step)
{
    bool one = p->readers.n[step->value] == 1 && p->readers.step[step->value] >= 0;
    return one ? &p->plan->step[p->readers.step[step->value]] : NULL;
}

/* Why the product stays; NULL: it was made dense. */
static const char *make_dense(struct product *p, struct td_plan_step *step, const char *a,
                              const char *b)
{
    const struct td_tensor *weight = td_step_constant(step, b);
    const struct td_named *input = td_step_arg(step, a);
    const struct td_plan_use *use = td_step_use(step, (int)(input - step->arg), -1);
    bool adds = !strcmp(step->handle->schema.name, "addmm");
    struct td_tensor bias;
    if (!use || step->n_uses != 1)
        return step->n_uses > 1 ? "its second factor is no constant" : "its first is a constant";
    if (!weight || weight->rank != 2 || weight->stride || input->value.tensor.dtype != TD_f32)
        return "its second factor is no constant matrix of FP32";
    if (adds && (td_step_number(step, "alpha", 1) != 1 || td_step_number(step, "beta", 1) != 1 ||
                 !is_bias(td_step_constant(step, "self"), weight->shape[1], &bias)))
        return "what it adds is no vector of constants";
    struct td_named *arg = td_arena_zalloc(p->plan->arena, 5 * sizeof *arg);
    struct td_plan_use *uses = td_arena_zalloc(p->plan->arena, sizeof *uses);
    if (!arg || !uses)
        return "there is no memory";
    arg[0].value = input->value;
    arg[1].value = (struct td_value){.kind = TD_KIND_tensor, .tensor = *weight};
    arg[2].value = (struct td_value){.kind = TD_KIND_tensor, .tensor = bias};
    *uses = *use;
    uses->arg = 0;
    step->handle = p->dense;
    step->arg = arg;
    step->n_args = adds ? 3 : 2;
    step->use = uses;
    return NULL;
}

/* Takes what the only reader of the step's result adds as its bias, if it is a bias. */
static void take_bias(struct product *p, int s)
{
    struct td_plan *plan = p->plan;
    struct td_plan_step *step = &plan->step[s], *add = only_reader(p, step);
    const struct td_tensor *like = &plan->value[step->value].like;
    const struct td_named *given = td_step_arg(step, "bias");
    struct td_value bias = {.kind = TD_KIND_tensor};
    if (!add || add->in_place || strcmp(add->handle->full, "add.Tensor") != 0 ||
        (given && given->value.kind != TD_KIND_none) || td_step_number(add, "alpha", 1) != 1 ||
        like->rank < 1 || !td_tensor_is_like(like, &plan->value[add->value].like))
        return;
    bool first = td_step_value(plan, add, "self") == step->value;
    if (!first && td_step_value(plan, add, "other") != step->value)
        return;
    if (!is_bias(td_step_constant(add, first ? "other" : "self"), like->shape[like->rank - 1],
                 &bias.tensor))
        return;
    td_step_set(step, "bias", &bias);
    plan->value[step->value].step = (int)(add - plan->step); /* no step makes it now */
    step->value = add->value;
    plan->value[step->value].step = s;
    add->handle = NULL;
    p->pass->done++;
}

int td_pass_product(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    struct product p = {.plan = plan, .pass = pass, .dense = td_registry_find("dense")};
    int err = td_plan_find_readers(plan, &p.readers);
    (void)model;
    for (int s = 0; s < plan->n_steps && !err; s++) {
        struct td_plan_step *step = &plan->step[s];
        const size_t n = sizeof products / sizeof *products;
        size_t i = 0;
        while (i < n && (!step->handle || strcmp(step->handle->schema.name, products[i].op) != 0))
            i++;
        const struct td_plan_step *reader = i < n ? only_reader(&p, step) : NULL;
        if (reader && td_is_pointwise(reader->handle->op)) {
            const char *why = make_dense(&p, step, products[i].a, products[i].b);
            pass->done += !why;
            if (why)
                td_pass_refuse(pass, step, why);
        }
        if (step->handle && td_is_linear(step->handle->op))
            take_bias(&p, s);
    }
    td_plan_free_readers(&p.readers);
    return err;
}
