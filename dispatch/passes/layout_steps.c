/* The steps that can be turned to channels last, and what each becomes. */
#include "dispatch/passes/layout.h"
#include "kernels/loops/fused.h"

#include <errno.h>
#include <string.h>

/* ---- arguments ---- */

/* Replaces the use by one of the value's twin. */
static int turn(struct layout *l, const struct td_plan_step *step, struct td_plan_use *use)
{
    int twin = td_layout_twin(l, use->value, step->node);
    if (twin < 0)
        return twin;
    *td_step_tensor(step, use) = *td_like(l, twin);
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

/* ---- steps that can be turned ---- */

/* The use by which the step takes a whole image as its first argument; NULL: it takes none. */
static const struct td_plan_use *image_of(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *use = td_step_use(step, 0, -1);
    bool image = use && td_layout_is_whole(l, use, &step->arg[0].value.tensor) &&
                 td_like(l, use->value)->rank == 4;
    return image ? use : NULL;
}

/* Whether that image has a twin. */
static bool takes_twin(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *use = image_of(l, step);
    return use && l->twin[use->value] >= 0;
}

bool td_layout_is_conv(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_plan_use *input = image_of(l, step);
    const struct td_named *padding = td_step_arg(step, "padding");
    bool plain = step->handle == td_registry_find("conv2d") ||
                 (step->handle == td_registry_find("convolution") &&
                  td_step_number(step, "transposed", 0) == 0);
    return plain && input && td_like(l, input->value)->dtype & (TD_f32 | TD_bf16 | TD_f16) &&
           (!padding || padding->value.kind != TD_KIND_str) && step->n_uses == 1;
}

/* Whether a pointwise step's argument can have channels last; counts those that have a twin
 * already. */
static bool may_turn(const struct layout *l, const struct td_plan_step *step, int arg, int *turned)
{
    const struct td_tensor *t = &step->arg[arg].value.tensor;
    const struct td_plan_use *use = td_step_use(step, arg, -1);
    if (step->arg[arg].value.kind != TD_KIND_tensor)
        return step->arg[arg].value.kind != TD_KIND_tensors;
    if (!use)
        return td_numel(t) == 1 || td_is_pixel(t);
    const struct td_tensor *out = td_like(l, step->value);
    bool image = t->rank == 4 && td_layout_is_whole(l, use, t);
    *turned += image && l->twin[use->value] >= 0;
    return image && (td_is_pixel(t) || !memcmp(t->shape, out->shape, sizeof *t->shape * 4));
}

static bool is_zero(const struct td_named *arg)
{
    const struct td_value *v = arg ? &arg->value : NULL;
    int n = v && v->kind == TD_KIND_ints ? v->ints.n : 0;
    bool zero = !v || v->kind == TD_KIND_none || v->kind == TD_KIND_ints ||
                (v->kind == TD_KIND_int && !v->i);
    for (int i = 0; i < n; i++)
        zero = zero && !v->ints.v[i];
    return zero;
}

/* Whether it convolves images of one pixel by one pixel, without padding: a linear operator over
 * channels, for which calling a convolution takes longer than computing it. */
static bool is_linear(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_tensor *weight = td_step_constant(step, "weight");
    return td_is_pixel(td_like(l, td_step_use(step, 0, -1)->value)) && weight && !weight->stride &&
           weight->rank == 4 && td_is_pixel(weight) && td_step_number(step, "groups", 1) == 1 &&
           is_zero(td_step_arg(step, "padding"));
}

static int turn_conv(struct layout *l, struct td_plan_step *step)
{
    static const char *const names[] = {"input",   "weight",   "bias",   "stride",
                                        "padding", "dilation", "groups", NULL};
    bool linear = is_linear(l, step);
    int err = turn(l, step, td_step_use(step, 0, -1)), n = 0;
    struct td_named *arg = td_arena_zalloc(l->plan->arena, 8 * sizeof *arg);
    if (err || !arg)
        return err ? err : -ENOMEM;
    for (int i = 0; names[i] && (!linear || i < 3); i++)
        if (td_step_arg(step, names[i]))
            arg[n++] =
                (struct td_named){.name = names[i], .value = td_step_arg(step, names[i])->value};
    if (linear) {
        arg[1].value.tensor.rank = 2;
        arg[1].value.tensor.shape[2] = arg[1].value.tensor.shape[3] = 0;
    }
    step->handle = linear ? l->linear : l->conv;
    step->arg = arg;
    step->n_args = n;
    return td_layout_give_twin(l, step);
}

static bool is_pointwise(const struct layout *l, const struct td_plan_step *step)
{
    int turned = 0;
    if (!td_is_pointwise(step->handle->op) || step->n_outs != 1 || step->in_place ||
        td_like(l, step->value)->rank != 4)
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
        if (use && (l->twin[use->value] >= 0 || !td_is_pixel(t)))
            err = turn(l, step, use);
        else if (td_is_pixel(t))
            turn_pixel(t);
    }
    return err ? err : td_layout_give_twin(l, step);
}

/* Whether the step is a mean over all pixels, by whichever operator. *keeps: and keeps h and w
 * as 1. */
static bool is_mean(const struct layout *l, const struct td_plan_step *step, bool *keeps)
{
    const char *name = step->handle->schema.name;
    bool pool = !strcmp(name, "adaptive_avg_pool2d") || !strcmp(name, "_adaptive_avg_pool2d");
    const struct td_named *dims = td_step_arg(step, pool ? "output_size" : "dim");
    if (!takes_twin(l, step) || !dims || td_step_arg(step, "dtype"))
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
    return keeps ? td_layout_give_twin(l, step) : td_layout_append(l, step);
}

static bool is_cat(const struct layout *l, const struct td_plan_step *step)
{
    int64_t dim = (int64_t)td_step_number(step, "dim", 0);
    int turned = 0;
    if (strcmp(step->handle->full, "cat") || (dim != 1 && dim != -3) ||
        td_like(l, step->value)->rank != 4 || step->arg[0].value.kind != TD_KIND_tensors)
        return false;
    for (int i = 0; i < step->arg[0].value.tensors.n; i++) {
        const struct td_plan_use *use = td_step_use(step, 0, i);
        if (!use || !td_layout_is_whole(l, use, td_step_tensor(step, use)) ||
            td_like(l, use->value)->rank != 4 ||
            td_like(l, use->value)->dtype != td_like(l, step->value)->dtype)
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
    return err ? err : td_layout_give_twin(l, step);
}

/* Whether it quantizes an image, whose twin there is, as its elements want it. */
static bool is_quantized(const struct layout *l, const struct td_plan_step *step)
{
    return !strcmp(step->handle->full, "dynamic_quantize_linear") && takes_twin(l, step);
}

static int turn_quantized(struct layout *l, struct td_plan_step *step)
{
    int err = turn(l, step, td_step_use(step, 0, -1));
    return err ? err : td_layout_give_twin(l, step);
}

/* ---- pools and pads ---- */

/* The 3D pool that computes this 2D pool with channels last, or NULL. Its dimensions are h, w, c,
 * with windows of one channel, and the images take the place of its channels. */
static const char *pool_of(const struct layout *l, const struct td_plan_step *step)
{
    static const char *const pools[][2] = {{"max_pool2d", "max_pool3d"},
                                           {"avg_pool2d", "avg_pool3d"}};
    for (int i = 0; i < 2; i++)
        if (!strcmp(step->handle->full, pools[i][0]) && step->n_uses == 1 && takes_twin(l, step))
            return pools[i][1];
    return NULL;
}

/* Makes three numbers of two, or of one for both; if there are none, it leaves them so. */
static void deepen(struct td_value *v, int64_t third)
{
    int64_t one = v->kind == TD_KIND_int ? v->i : 0;
    if (v->kind != TD_KIND_int && (v->kind != TD_KIND_ints || !v->ints.n))
        return;
    bool both = v->kind == TD_KIND_ints && v->ints.n == 2;
    int64_t first = v->kind == TD_KIND_int ? one : v->ints.v[0];
    int64_t second = both ? v->ints.v[1] : first;
    *v = (struct td_value){.kind = TD_KIND_ints, .ints = {.v = {first, second, third}, .n = 3}};
}

static int turn_pool(struct layout *l, struct td_plan_step *step, const char *pool)
{
    static const struct {
        const char *name;
        int64_t third;
    } lists[] = {{"kernel_size", 1}, {"stride", 1}, {"padding", 0}, {"dilation", 1}};
    int err = turn(l, step, td_step_use(step, 0, -1));
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        if (td_step_arg(step, lists[i].name))
            deepen(&td_step_arg(step, lists[i].name)->value, lists[i].third);
    step->handle = td_registry_find(pool);
    return err ? err : td_layout_give_twin(l, step);
}

/* Whether the step is a pad of h and w only. */
static bool is_pad(const struct layout *l, const struct td_plan_step *step)
{
    const struct td_named *pad = td_step_arg(step, "pad");
    return !strcmp(step->handle->full, "constant_pad_nd") && step->n_uses == 1 &&
           takes_twin(l, step) && pad && pad->value.kind == TD_KIND_ints && pad->value.ints.n == 4;
}

static int turn_pad(struct layout *l, struct td_plan_step *step)
{
    int err = turn(l, step, td_step_use(step, 0, -1));
    struct td_value *pad = &td_step_arg(step, "pad")->value;
    memmove(&pad->ints.v[2], pad->ints.v, 4 * sizeof *pad->ints.v);
    pad->ints.v[0] = pad->ints.v[1] = 0;
    pad->ints.n = 6;
    return err ? err : td_layout_give_twin(l, step);
}

int td_layout_turn(struct layout *l, struct td_plan_step *step)
{
    bool keeps;
    const char *pool = pool_of(l, step);
    int err = pool                         ? turn_pool(l, step, pool)
              : td_layout_is_conv(l, step) ? turn_conv(l, step)
              : is_pointwise(l, step)      ? turn_pointwise(l, step)
              : is_mean(l, step, &keeps)   ? turn_mean(l, step, keeps)
              : is_cat(l, step)            ? turn_cat(l, step)
              : is_pad(l, step)            ? turn_pad(l, step)
              : is_quantized(l, step)      ? turn_quantized(l, step)
                                           : 1;
    return err > 0 ? 0 : err ? err : 1;
}
