/* Makes pointwise steps that follow a convolution, a linear or a dense its post-ops: formulas that
 * its kernel applies to results in registers, before it stores them. There may be several in a row,
 * and some have another tensor as operand, such as the residual of a block. */
#include "dispatch/call/own.h"
#include "dispatch/passes/passes.h"
#include "kernels/linear.h"
#include "kernels/loops/fused.h"
#include "kernels/onednn/text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct follow { /* the steps that follow one and become its post-ops */
    char text[TD_POSTS * TD_POST_TEXT];
    int n, n_others, step[TD_POSTS];
    int n_steps;
    struct td_tensor other[TD_POSTS];
    struct td_plan_use use[TD_POSTS]; /* value -1: the tensor is a constant */
};

struct posts {
    struct td_plan *plan;
    struct td_model_pass *pass;
    struct td_binding *binding;
    struct td_plan_readers readers;
};

/* ---- one following step ---- */

/* The step's formula, in post; NULL, or why it has none. Constant tensors that are limits of a
 * clamp count as numbers. */
static const char *text_of(struct posts *p, const struct td_plan_step *step, int arg,
                           struct td_post_text *post)
{
    double low = td_step_number(step, "min", NAN), high = td_step_number(step, "max", NAN);
    if (!strcmp(step->handle->full, "clamp.Tensor") && low <= high) {
        td_post_text_limits(low, high, post);
        return NULL;
    }
    return td_binding_bind(p->binding, step) ? "it cannot be bound"
                                             : td_post_text(&p->binding->run.call, arg, post);
}

static const char made_later[] = "what it takes is made later";

/* Adds a number to the other operands, as a tensor of one element. */
static const char *take_number(struct posts *p, struct follow *f, double number)
{
    float *x = td_arena_alloc(p->plan->arena, 64);
    if (!x)
        return "there is no memory";
    *x = (float)number;
    f->other[f->n_others] = (struct td_tensor){.data = x, .dtype = TD_f32};
    f->use[f->n_others++].value = -1;
    return NULL;
}

/* Adds argument arg of from, which follows step s, to the other operands. It must be computed
 * before s. */
static const char *take_other(struct posts *p, struct follow *f, int s,
                              const struct td_plan_step *from, int arg)
{
    const struct td_plan *plan = p->plan;
    const struct td_tensor *out = &plan->value[plan->step[s].value].like;
    int i = 0;
    while (i < from->n_args && td_plan_argument(from, i) != arg)
        i++;
    if (i == from->n_args)
        return "it takes a number that is not given";
    const struct td_value *v = &from->arg[i].value;
    const struct td_plan_use *use = td_step_use(from, i, -1);
    if (v->kind != TD_KIND_tensor)
        return take_number(p, f, td_scalar(v));
    if (v->tensor.dtype != out->dtype)
        return "what it takes is of another type";
    if (v->tensor.stride)
        return "what it takes does not lie dense";
    if (use && plan->value[use->value].step >= s)
        return made_later;
    f->other[f->n_others] = v->tensor;
    f->use[f->n_others] = use ? *use : (struct td_plan_use){.value = -1};
    f->n_others++;
    return NULL;
}

/* Adds the step next, the only user of a value, to those that follow step s; NULL, or why not. */
static const char *add_one(struct posts *p, struct follow *f, int s, int value, int next)
{
    const struct td_plan_step *step = &p->plan->step[next];
    const struct td_tensor *like = &p->plan->value[value].like;
    struct td_post_text post;
    int i = 0;
    while (step->use[i].value != value)
        i++;
    const struct td_plan_use *use = &step->use[i];
    if (like->dtype != TD_f32)
        return "it is not FP32";
    if (step->in_place || step->n_outs != 1 || use->element >= 0 || use->offset ||
        !td_tensor_is_like(&step->arg[use->arg].value.tensor, like) ||
        step->arg[use->arg].value.tensor.stride ||
        !td_tensor_is_like(&p->plan->value[step->value].like, like))
        return "it gives something of another type or shape";
    int before = f->n_others;
    const char *no = text_of(p, step, td_plan_argument(step, use->arg), &post);
    if (!no && f->n + post.n > TD_POSTS)
        no = "four others follow already";
    no = no || post.other < 0 ? no : take_other(p, f, s, step, post.other);
    for (int k = 0; !no && k < post.n_numbers; k++)
        no = take_number(p, f, post.number[k]);
    if (no) {
        f->n_others = before;
        return no;
    }
    snprintf(f->text + strlen(f->text), sizeof f->text - strlen(f->text), "%s%s", f->n ? ", " : "",
             post.text);
    f->n += post.n;
    f->step[f->n_steps++] = next;
    return NULL;
}

/* ---- all following steps ---- */

/* Adds the post-ops and their operands to the step's arguments; -ENOMEM. */
static int attach(struct td_plan *plan, const struct follow *f, struct td_plan_step *step)
{
    size_t args = (size_t)step->n_args + 4, uses = (size_t)(step->n_uses + f->n_others) + 1;
    struct td_named *arg = td_arena_zalloc(plan->arena, sizeof *arg * args);
    struct td_plan_use *use = td_arena_zalloc(plan->arena, sizeof *use * uses);
    struct td_tensor *list = td_arena_zalloc(plan->arena, sizeof *list * TD_POSTS);
    char *text = td_arena_strdup(plan->arena, f->text, strlen(f->text));
    if (!arg || !use || !list || !text)
        return -ENOMEM;
    memcpy(arg, step->arg, sizeof *arg * (size_t)step->n_args);
    memcpy(use, step->use, sizeof *use * (size_t)step->n_uses);
    memcpy(list, f->other, sizeof *list * (size_t)f->n_others);
    step->arg = arg;
    step->use = use;
    arg[step->n_args].name = "activation";
    arg[step->n_args++].value = (struct td_value){.kind = TD_KIND_str, .str = text};
    for (int k = 0; k < f->n_others; k++)
        if (f->use[k].value >= 0)
            use[step->n_uses++] = (struct td_plan_use){.arg = step->n_args,
                                                       .element = k,
                                                       .value = f->use[k].value,
                                                       .offset = f->use[k].offset};
    arg[step->n_args].name = "others";
    arg[step->n_args].value =
        (struct td_value){.kind = TD_KIND_tensors, .tensors = {.v = list, .n = f->n_others}};
    step->n_args += f->n_others > 0;
    return 0;
}

static bool is_convolution(const struct td_plan_step *step)
{
    return !strcmp(step->handle->schema.name, "conv2d_channels_last");
}

struct selected {
    const struct td_impl *row; /* NULL: an error */
    double us;                 /* what it takes; 0: it was not measured */
    bool contested;            /* it was measured beside a library's, which took the call, too */
};

static struct selected select_row(struct posts *p, const struct td_plan_step *step)
{
    size_t scratch;
    struct td_run *run = &p->binding->run;
    struct td_measured measured;
    struct selected selected = {0};
    if (td_binding_bind(p->binding, step))
        return selected;
    if (!td_run_select(run, &scratch))
        selected.row = run->impl;
    if (selected.row && td_measured_of(run->rows, &run->call, &measured)) {
        selected.us = td_measured_us(&measured, selected.row);
        for (int i = 0; i < measured.n && measured.n > 1; i++)
            selected.contested |= measured.tried[i].row->library && measured.tried[i].us > 0;
    }
    td_run_release(run);
    return selected;
}

/* Whether the step is not slower with post-ops. All rows of a convolution apply them, so the
 * fastest row is taken, with or without. The same holds for a linear or dense whose rows were timed
 * beside a library's row. Any other step must be computed by the same row with and without them, or
 * by one that was measured to be slower by no more than the steps that follow take at least. */
static bool is_taken(struct posts *p, const struct td_plan_step *plain,
                     const struct td_plan_step *with, int n_steps)
{
    const double step_us = 0.3;
    struct selected fused = select_row(p, with);
    if (!fused.row || fused.contested || is_convolution(plain))
        return fused.row;
    struct selected alone = select_row(p, plain);
    if (fused.row == alone.row)
        return true;
    return fused.us > 0 && alone.us > 0 && fused.us <= alone.us + n_steps * step_us;
}

static int follow_one(struct posts *p, int s)
{
    struct td_plan *plan = p->plan;
    struct td_plan_step with = plan->step[s];
    struct follow f = {0};
    int value = with.value;
    while (p->readers.n[value] == 1 && p->readers.step[value] >= 0) {
        int next = p->readers.step[value];
        if (!td_is_pointwise(plan->step[next].handle->op))
            break;
        const char *no = add_one(p, &f, s, value, next);
        if (no) {
            if (no != made_later) /* then it is tried for the step that makes the operand */
                td_pass_refuse(p->pass, &plan->step[next], no);
            break;
        }
        value = plan->step[next].value;
    }
    int err = f.n ? attach(plan, &f, &with) : 0;
    if (!f.n || err)
        return err;
    if (!is_taken(p, &plan->step[s], &with, f.n_steps)) {
        td_pass_refuse(p->pass, &plan->step[s], "a slower kernel would do it and what follows");
        return 0;
    }
    for (int k = 0; k < f.n_others; k++)
        if (f.use[k].value >= 0)
            p->readers.step[f.use[k].value] = s;
    plan->value[with.value].step = f.step[0]; /* no step makes it now */
    with.value = value;
    plan->value[value].step = s;
    plan->step[s] = with;
    for (int i = 0; i < f.n_steps; i++)
        plan->step[f.step[i]].handle = NULL;
    p->pass->done += f.n_steps;
    return 0;
}

int td_pass_post(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    struct posts p = {.plan = plan, .pass = pass, .binding = td_binding_create(plan)};
    int err = p.binding ? td_plan_find_readers(plan, &p.readers) : -ENOMEM;
    (void)model;
    for (int s = 0; s < plan->n_steps && !err; s++) {
        const struct td_plan_step *step = &plan->step[s];
        if (step->handle && (is_convolution(step) || td_is_linear(step->handle->op)) &&
            !td_step_arg(step, "activation"))
            err = follow_one(&p, s);
    }
    td_binding_free(&p.binding);
    td_plan_free_readers(&p.readers);
    return err;
}
