/* Replaces activations that a file spells out in several steps by one step: x * clamp(x + 3, 0, 6)
 * / 6 is hardswish. */
#include "dispatch/passes/passes.h"

#include <string.h>

static bool is_op(const struct td_plan_step *step, const char *name)
{
    return step && step->handle && !step->in_place && !strcmp(step->handle->schema.name, name);
}

static bool is_number(const struct td_plan_step *step, const char *name, double wanted)
{
    return td_step_number(step, name, wanted + 1) == wanted;
}

/* The step whose whole result is this argument; NULL: there is none. */
static const struct td_plan_step *maker(const struct td_plan *plan, const struct td_plan_step *step,
                                        const char *name)
{
    int value = td_step_value(plan, step, name);
    return value < 0 || plan->value[value].step < 0 ? NULL : &plan->step[plan->value[value].step];
}

/* If the step is clamp(x + 3, 0, 6), the value x; else -1. */
static int clamped(const struct td_plan *plan, const struct td_plan_step *clamp)
{
    bool relu6 = is_op(clamp, "relu6");
    bool hardtanh = is_op(clamp, "hardtanh");
    if (!relu6 && !hardtanh && !is_op(clamp, "clamp"))
        return -1;
    if (!relu6 && !(is_number(clamp, hardtanh ? "min_val" : "min", 0) &&
                    is_number(clamp, hardtanh ? "max_val" : "max", 6)))
        return -1;
    const struct td_plan_step *add = maker(plan, clamp, "self");
    bool three =
        is_op(add, "add") && is_number(add, "other", 3) && td_step_number(add, "alpha", 1) == 1;
    return three ? td_step_value(plan, add, "self") : -1;
}

/* If the step is (x * clamp(x + 3, 0, 6)) / 6, the value x; else -1. */
static int swished(const struct td_plan *plan, const struct td_plan_step *div)
{
    const struct td_plan_step *mul = maker(plan, div, "self");
    if (!is_number(div, "other", 6) || td_step_arg(div, "rounding_mode") || !is_op(mul, "mul"))
        return -1;
    static const char *const names[] = {"self", "other"};
    for (int i = 0; i < 2; i++) {
        const struct td_plan_step *clamp = maker(plan, mul, names[i]);
        int x = clamp ? clamped(plan, clamp) : -1;
        if (x >= 0 && x == td_step_value(plan, mul, names[!i]))
            return x;
    }
    return -1;
}

int td_pass_idiom(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    const struct td_handle *hardswish = td_registry_find("hardswish");
    (void)model;
    for (int s = 0; s < plan->n_steps; s++) {
        struct td_plan_step *step = &plan->step[s];
        int x = is_op(step, "div") ? swished(plan, step) : -1;
        if (x < 0 || plan->value[x].like.dtype != TD_f32 ||
            !td_tensor_is_like(&plan->value[x].like, &plan->value[step->value].like))
            continue;
        step->handle = hardswish;
        step->arg[0] =
            (struct td_named){.value = {.kind = TD_KIND_tensor, .tensor = plan->value[x].like}};
        step->use[0] = (struct td_plan_use){.arg = 0, .element = -1, .value = x};
        step->n_args = step->n_uses = 1;
        pass->done++;
    }
    int left = pass->done ? td_plan_leave_unread(plan) : 0;
    return left < 0 ? left : 0;
}
