/* Convolutions run with channels last, and what is between them goes along: libraries compute these
 * without rearranging anything. A value then has a twin, which is the same with its dimensions in
 * the order n, h, w, c; whoever wants the one where only the other is there gets it by a permute.
 */
#include "dispatch/model/pass.h"
#include "kernels/fused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct layout {
    struct td_plan *plan;
    struct td_plan_step *old; /* as they were; the plan's own are the new ones */
    int n_old, room;          /* of values that twin and plain tell of */
    int *twin;                /* by value; -1: none */
    bool *plain;              /* the value itself is there */
    const struct td_handle *permute, *conv, *mean;
};

static const struct td_tensor *like(const struct layout *l, int value)
{
    return &l->plan->value[value].like;
}

static struct td_tensor last_of(const struct td_tensor *t)
{
    struct td_tensor last = *t;
    last.shape[1] = t->shape[2];
    last.shape[2] = t->shape[3];
    last.shape[3] = t->shape[1];
    last.weight = NULL;
    return last;
}

/* ---- values and steps ---- */

/* Has arrays tell of all values that there are. */
static int follow(struct layout *l)
{
    int n = l->plan->n_values;
    if (n <= l->room)
        return 0;
    int room = 2 * n;
    int *twin = realloc(l->twin, sizeof *twin * (size_t)room);
    if (twin)
        l->twin = twin;
    bool *plain = realloc(l->plain, sizeof *plain * (size_t)room);
    if (plain)
        l->plain = plain;
    if (!twin || !plain)
        return -ENOMEM;
    for (int i = l->room; i < room; i++) {
        l->twin[i] = -1;
        l->plain[i] = true;
    }
    l->room = room;
    return 0;
}

/* A new value of that type and shape; -ENOMEM. */
static int new_value(struct layout *l, const struct td_tensor *t)
{
    int value = td_plan_add_value(l->plan, t, -1, 0);
    int err = value < 0 ? value : follow(l);
    return err ? err : value;
}

/* Puts a step behind those that are there; its results are made by it then. */
static int append(struct layout *l, const struct td_plan_step *step)
{
    int s = td_plan_add_step(l->plan, step);
    for (int i = 0; s >= 0 && i < step->n_outs; i++)
        l->plan->value[step->value + i].step = s;
    return s < 0 ? s : 0;
}

static int append_permute(struct layout *l, int from, int to, bool last, const char *node)
{
    static const int64_t orders[2][4] = {{0, 3, 1, 2}, {0, 2, 3, 1}};
    struct td_plan_step step = {
        .handle = l->permute, .node = node, .n_args = 2, .n_uses = 1, .n_outs = 1, .value = to};
    step.arg = td_arena_zalloc(l->plan->arena, 2 * sizeof *step.arg);
    step.use = td_arena_zalloc(l->plan->arena, sizeof *step.use);
    if (!step.arg || !step.use)
        return -ENOMEM;
    step.arg[0].value = (struct td_value){.kind = TD_KIND_tensor, .tensor = *like(l, from)};
    step.arg[1].value = (struct td_value){.kind = TD_KIND_ints, .ints = {.n = 4}};
    memcpy(step.arg[1].value.ints.v, orders[last], sizeof orders[last]);
    *step.use = (struct td_plan_use){.arg = 0, .element = -1, .value = from};
    return append(l, &step);
}

/* One pixel, for all images or each: its channels lie in the same order either way. */
static bool is_pixel(const struct td_tensor *t)
{
    return (t->rank == 4 || (t->rank == 3 && t->shape[0] > 1)) && t->shape[t->rank - 1] == 1 &&
           t->shape[t->rank - 2] == 1;
}

/* Has the value itself be there, for one that reads it as *value: of one pixel the twin is as good.
 */
static int need_plain(struct layout *l, int *value, const char *node)
{
    int v = *value;
    if (l->plain[v])
        return 0;
    if (is_pixel(like(l, v))) {
        *value = l->twin[v];
        return 0;
    }
    l->plain[v] = true;
    return append_permute(l, l->twin[v], v, false, node);
}

/* The value's twin, if need be made of it; -ENOMEM. */
static int need_twin(struct layout *l, int value, const char *node)
{
    if (l->twin[value] >= 0)
        return l->twin[value];
    struct td_tensor last = last_of(like(l, value));
    int twin = new_value(l, &last);
    int err = twin < 0 ? twin : append_permute(l, value, twin, true, node);
    if (!err)
        l->twin[value] = twin;
    return err ? err : twin;
}

/* The step's result is made as its twin alone. */
static int give_twin(struct layout *l, struct td_plan_step *step)
{
    struct td_tensor last = last_of(like(l, step->value));
    int value = step->value, twin = new_value(l, &last);
    if (twin < 0)
        return twin;
    l->twin[value] = twin;
    l->plain[value] = false;
    step->value = twin;
    return append(l, step);
}

/* ---- arguments ---- */

static bool is_whole(const struct layout *l, const struct td_plan_use *use,
                     const struct td_tensor *as)
{
    return !use->offset && td_tensor_is_like(like(l, use->value), as);
}

static struct td_tensor *tensor_of(const struct td_plan_step *step, const struct td_plan_use *use)
{
    struct td_value *v = &step->arg[use->arg].value;
    return use->element < 0 ? &v->tensor : &v->tensors.v[use->element];
}

/* The argument is the value's twin now. */
static int turn(struct layout *l, const struct td_plan_step *step, struct td_plan_use *use)
{
    int twin = need_twin(l, use->value, step->node);
    if (twin < 0)
        return twin;
    *tensor_of(step, use) = *like(l, twin);
    use->value = twin;
    return 0;
}

static void turn_pixel(struct td_tensor *t)
{
    int64_t images = t->rank == 4 ? t->shape[0] : 1, channels = t->shape[t->rank - 3];
    *t = (struct td_tensor){.data = t->data, .dtype = t->dtype, .rank = 4};
    t->shape[0] = images;
    t->shape[1] = t->shape[2] = 1;
    t->shape[3] = channels;
}

/* ---- steps that go along ---- */

static bool is_conv(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *input = td_step_use(step, 0, -1);
    const struct td_named *padding = td_step_arg(step, "padding");
    bool plain = step->handle == td_registry_find("conv2d") ||
                 (step->handle == td_registry_find("convolution") &&
                  td_step_number(step, "transposed", 0) == 0);
    return plain && input && is_whole(l, input, &step->arg[0].value.tensor) &&
           like(l, input->value)->rank == 4 &&
           like(l, input->value)->dtype & (TD_f32 | TD_bf16 | TD_f16) &&
           (!padding || padding->value.kind != TD_KIND_str) && step->n_uses == 1;
}

/* Whether a pointwise step's argument may be turned; counts those that are so already. */
static bool may_turn(const struct layout *l, const struct td_plan_step *step, int arg, int *turned)
{
    const struct td_tensor *t = &step->arg[arg].value.tensor;
    const struct td_plan_use *use = td_step_use(step, arg, -1);
    if (step->arg[arg].value.kind != TD_KIND_tensor)
        return step->arg[arg].value.kind != TD_KIND_tensors;
    if (!use)
        return td_numel(t) == 1 || is_pixel(t);
    const struct td_tensor *out = like(l, step->value);
    bool image = t->rank == 4 && is_whole(l, use, t);
    *turned += image && l->twin[use->value] >= 0;
    return image && (is_pixel(t) || !memcmp(t->shape, out->shape, sizeof *t->shape * 4));
}

static int turn_conv(struct layout *l, struct td_plan_step *step)
{
    static const char *const names[] = {"input",   "weight",   "bias",   "stride",
                                        "padding", "dilation", "groups", NULL};
    int err = turn(l, step, td_step_use(step, 0, -1)), n = 0;
    struct td_named *arg = td_arena_zalloc(l->plan->arena, 8 * sizeof *arg);
    if (err || !arg)
        return err ? err : -ENOMEM;
    for (const char *const *name = names; *name; name++)
        if (td_step_arg(step, *name))
            arg[n++] = (struct td_named){.name = *name, .value = td_step_arg(step, *name)->value};
    step->handle = l->conv;
    step->arg = arg;
    step->n_args = n;
    return give_twin(l, step);
}

static bool is_pointwise(const struct layout *l, const struct td_plan_step *step)
{
    int turned = 0;
    if (!td_is_pointwise(step->handle->op) || step->n_outs != 1 || step->in_place ||
        like(l, step->value)->rank != 4)
        return false;
    for (int i = 0; i < step->n_args; i++)
        if (!may_turn(l, step, i, &turned))
            return false;
    return turned > 0;
}

static int turn_pointwise(struct layout *l, struct td_plan_step *step)
{
    int err = 0;
    for (int i = 0; i < step->n_args && !err; i++) {
        struct td_plan_use *use = td_step_use(step, i, -1);
        struct td_tensor *t = &step->arg[i].value.tensor;
        if (step->arg[i].value.kind != TD_KIND_tensor)
            continue;
        if (use && (l->twin[use->value] >= 0 || !is_pixel(t)))
            err = turn(l, step, use);
        else if (is_pixel(t))
            turn_pixel(t);
    }
    return err ? err : give_twin(l, step);
}

/* A mean over all pixels, by whichever operator. */
static bool is_mean(const struct layout *l, const struct td_plan_step *step, bool *keeps)
{
    const char *name = step->handle->schema.name;
    const struct td_plan_use *use = td_step_use(step, 0, -1);
    bool pool = !strcmp(name, "adaptive_avg_pool2d") || !strcmp(name, "_adaptive_avg_pool2d");
    const struct td_named *dims = td_step_arg(step, pool ? "output_size" : "dim");
    if (!use || !is_whole(l, use, &step->arg[0].value.tensor) || l->twin[use->value] < 0 || !dims ||
        td_step_arg(step, "dtype"))
        return false;
    const int64_t *v = dims->value.ints.v;
    bool two = dims->value.kind == TD_KIND_ints && dims->value.ints.n == 2;
    *keeps = pool || td_step_number(step, "keepdim", 0) != 0;
    if (pool)
        return two ? v[0] == 1 && v[1] == 1 : td_step_number(step, "output_size", 0) == 1;
    if (!two)
        return false;
    int64_t a = v[0] < 0 ? v[0] + 4 : v[0], b = v[1] < 0 ? v[1] + 4 : v[1];
    return !strcmp(step->handle->full, "mean.dim") && a + b == 5 && a * b == 6;
}

static int turn_mean(struct layout *l, struct td_plan_step *step, bool keeps)
{
    int err = turn(l, step, td_step_use(step, 0, -1));
    struct td_named *arg = td_arena_zalloc(l->plan->arena, 5 * sizeof *arg);
    if (err || !arg)
        return err ? err : -ENOMEM;
    arg[0] = step->arg[0];
    arg[0].name = NULL;
    arg[1].value = (struct td_value){.kind = TD_KIND_ints, .ints = {.n = 2, .v = {1, 2}}};
    arg[2].value = (struct td_value){.kind = TD_KIND_bool, .i = keeps};
    step->handle = l->mean;
    step->arg = arg;
    step->n_args = 3;
    return keeps ? give_twin(l, step) : append(l, step);
}

static bool is_cat(const struct layout *l, const struct td_plan_step *step)
{
    int64_t dim = (int64_t)td_step_number(step, "dim", 0);
    int turned = 0;
    if (strcmp(step->handle->full, "cat") || (dim != 1 && dim != -3) ||
        like(l, step->value)->rank != 4 || step->arg[0].value.kind != TD_KIND_tensors)
        return false;
    for (int i = 0; i < step->arg[0].value.tensors.n; i++) {
        const struct td_plan_use *use = td_step_use(step, 0, i);
        if (!use || !is_whole(l, use, tensor_of(step, use)) || like(l, use->value)->rank != 4 ||
            like(l, use->value)->dtype != like(l, step->value)->dtype)
            return false;
        turned += l->twin[use->value] >= 0;
    }
    return turned > 0;
}

static int turn_cat(struct layout *l, struct td_plan_step *step)
{
    int err = 0;
    for (int i = 0; i < step->arg[0].value.tensors.n && !err; i++)
        err = turn(l, step, td_step_use(step, 0, i));
    td_step_set(step, "dim", &(struct td_value){.kind = TD_KIND_int, .i = 3});
    return err ? err : give_twin(l, step);
}

/* A permute from one order to the other is but another name; 1: to channels last, 2: from it. */
static int is_permute(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *use = td_step_use(step, 0, -1);
    const struct td_named *dims = td_step_arg(step, "dims");
    if (step->handle != l->permute || !use || !is_whole(l, use, &step->arg[0].value.tensor) ||
        !dims || dims->value.kind != TD_KIND_ints || dims->value.ints.n != 4)
        return 0;
    const int64_t *v = dims->value.ints.v;
    if (v[0] == 0 && v[1] == 2 && v[2] == 3 && v[3] == 1)
        return l->twin[use->value] >= 0;
    return v[0] == 0 && v[1] == 3 && v[2] == 1 && v[3] == 2 && l->plain[use->value] ? 2 : 0;
}

static int stay(struct layout *l, const struct td_plan_step *step)
{
    int err = 0;
    for (int k = 0; k < step->n_uses && !err; k++)
        err = need_plain(l, &step->use[k].value, step->node);
    return err ? err : append(l, step);
}

/* Where a step of the old ones goes: a permute away, most as they are, the others turned. */
static int place(struct layout *l, struct td_plan_step *step, struct td_model_pass *pass)
{
    bool keeps;
    int permute = is_permute(l, step);
    pass->done++;
    if (permute) {
        int from = step->use[0].value, to = step->value;
        l->twin[to] = permute == 2 ? from : l->twin[to];
        l->plain[to] = permute == 2 ? false : l->plain[to];
        for (struct td_plan_step *s = step; permute == 1 && s < l->old + l->n_old; s++)
            for (int k = 0; k < s->n_uses; k++)
                if (s->use[k].value == to)
                    s->use[k].value = l->twin[from];
        for (int i = 0; permute == 1 && i < l->plan->n_outputs; i++)
            if (l->plan->output[i].value == to)
                l->plan->output[i].value = l->twin[from];
        return 0;
    }
    if (is_conv(l, step))
        return turn_conv(l, step);
    if (is_pointwise(l, step))
        return turn_pointwise(l, step);
    if (is_mean(l, step, &keeps))
        return turn_mean(l, step, keeps);
    if (is_cat(l, step))
        return turn_cat(l, step);
    pass->done--;
    return stay(l, step);
}

static bool has_conv(const struct layout *l)
{
    for (int s = 0; s < l->plan->n_steps; s++)
        if (l->plan->step[s].handle && is_conv(l, &l->plan->step[s]))
            return true;
    return false;
}

int td_pass_layout(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    (void)model;
    struct layout l = {.plan = plan,
                       .permute = td_registry_find("permute"),
                       .conv = td_registry_find("conv2d_channels_last"),
                       .mean = td_registry_find("mean.dim")};
    int err = 0;
    if (has_conv(&l)) {
        err = follow(&l);
        l.old = plan->step;
        l.n_old = plan->n_steps;
        plan->step = NULL;
        plan->n_steps = plan->steps_room = 0;
        for (int s = 0; s < l.n_old && !err; s++)
            err = l.old[s].handle ? place(&l, &l.old[s], pass) : 0;
        for (int i = 0; i < plan->n_outputs && !err; i++)
            err = plan->output[i].value < 0 ? 0 : need_plain(&l, &plan->output[i].value, "");
        free(l.old);
    }
    free(l.twin);
    free(l.plain);
    return err;
}
