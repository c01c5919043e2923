/* Folds a batch normalisation with constant statistics into the weight and bias of the convolution
 * before it, if nothing else uses the convolution's result; and so a product or a sum with
 * constants, one or one a channel. */
#include "dispatch/passes/passes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const norms[] = {"batch_norm", "_native_batch_norm_legit_no_training", NULL};
static const char *const products[] = {"mul", NULL};
static const char *const sums[] = {"add", NULL};
static const char *const convolutions[] = {
    "conv1d",           "conv2d",           "conv3d",           "convolution",
    "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", NULL};

struct pair {                              /* a convolution and the normalisation that follows it */
    const struct td_tensor *weight, *bias; /* of the convolution; bias NULL: none */
    const struct td_tensor *scale, *shift; /* NULL: 1, 0; of one element, or one a channel */
    const struct td_tensor *mean, *var;    /* NULL: it is no normalisation, and eps is 0 */
    double eps;
    bool transposed; /* the weight's second dimension is the output channels */
    int64_t channels;
};

static bool is_transposed(const struct td_plan_step *conv)
{
    return !strncmp(conv->handle->schema.name, "conv_transpose", 14) ||
           td_step_number(conv, "transposed", 0) != 0;
}

/* Whether an argument is given, but not as a constant in FP32. */
static bool varies(const struct td_plan_step *step, const char *name)
{
    const struct td_named *arg = td_step_arg(step, name);
    return arg && arg->value.kind != TD_KIND_none && !td_step_constant(step, name);
}

/* Why nothing can be folded into the convolution; NULL: p is filled with what it has. */
static const char *look_at_conv(const struct td_plan_step *conv, struct pair *p)
{
    *p = (struct pair){.weight = td_step_constant(conv, "weight"),
                       .bias = td_step_constant(conv, "bias"),
                       .transposed = is_transposed(conv)};
    if (!p->weight || varies(conv, "bias"))
        return "the convolution's weight or bias is no constant in FP32";
    if (p->transposed && td_step_number(conv, "groups", 1) != 1)
        return "the transposed convolution has groups";
    p->channels = p->weight->shape[p->transposed];
    return td_numel(p->weight) ? NULL : "the weight is empty";
}

/* Why the normalisation cannot be folded; NULL: it can, and p is filled. between: the convolution's
 * result. */
static const char *look(const struct td_plan_step *norm, const struct td_tensor *between,
                        struct pair *p)
{
    p->scale = td_step_constant(norm, "weight");
    p->shift = td_step_constant(norm, "bias");
    p->mean = td_step_constant(norm, "running_mean");
    p->var = td_step_constant(norm, "running_var");
    p->eps = td_step_number(norm, "eps", 1e-5);
    if (!p->mean || !p->var || varies(norm, "weight") || varies(norm, "bias"))
        return "the normalisation's numbers are no constants in FP32";
    if (td_step_number(norm, "training", 0) != 0)
        return "it normalises by its input's own statistics";
    /* Without a batch dimension, the second dimension of an image is its height. */
    return td_numel(p->var) == p->channels && between->rank == p->weight->rank
               ? NULL
               : "it is over other channels";
}

/* Whether a constant has one finite number for all of image, or one for each of its channels. */
static bool is_affine(const struct td_tensor *t, const struct td_tensor *image)
{
    int64_t n = td_numel(t);
    int before = t->rank - (image->rank - 1); /* its dimensions before the channels */
    bool right = n == 1 && t->rank <= image->rank;
    if (before >= 0 && before <= 1 && t->shape[before] == image->shape[1])
        right = right || n == image->shape[1];
    for (int64_t i = 0; i < n && right; i++)
        right = isfinite(((const float *)t->data)[i]);
    return right;
}

/* The same for a product or sum; constant: its operand beside the convolution's result. */
static const char *look_affine(const struct td_plan_step *step, const struct td_tensor *constant,
                               const struct td_tensor *between, struct pair *p)
{
    if (td_step_number(step, "alpha", 1) != 1)
        return "what is added is scaled";
    *(td_step_is(step, sums) ? &p->shift : &p->scale) = constant;
    return between->rank == p->weight->rank && is_affine(constant, between)
               ? NULL
               : "it is not one number, or one a channel";
}

static float at(const struct td_tensor *t, int64_t i, float otherwise)
{
    return t ? ((const float *)t->data)[td_numel(t) == 1 ? 0 : i] : otherwise;
}

/* The bias, and what the weight is multiplied by, of each channel. */
static void compute(const struct pair *p, double *scale, float *bias)
{
    for (int64_t c = 0; c < p->channels; c++) {
        scale[c] = (double)at(p->scale, c, 1) / sqrt((double)at(p->var, c, 1) + p->eps);
        double b = (double)at(p->bias, c, 0) - (double)at(p->mean, c, 0);
        bias[c] = (float)(b * scale[c] + (double)at(p->shift, c, 0));
    }
}

/* Makes the weight, unless it stays the same, and the bias. False: no memory. */
static bool make(struct td_model *model, const struct pair *p, bool same, struct td_derived *made)
{
    struct td_tensor bias = {.dtype = TD_f32, .rank = 1};
    bias.shape[0] = p->channels;
    double *scale = malloc(sizeof *scale * (size_t)p->channels);
    bool done = scale && !td_weight_create(&made->weight[1], &bias, model->room);
    if (done) {
        compute(p, scale, td_weight_tensor(made->weight[1])->data);
        int64_t outer = p->transposed ? p->weight->shape[0] : 1;
        int64_t run = td_numel(p->weight) / (outer * p->channels);
        done = same || !td_weight_create_scaled(&made->weight[0], p->weight, run, scale,
                                                p->channels, model->room);
    }
    free(scale);
    return done;
}

/* The folded weight, where it differs, and bias, which all plans share. NULL: no memory. */
static const struct td_derived *fold(struct td_model *model, const struct pair *p)
{
    struct td_derived made = {
        .key = {.of = {p->weight->data, p->bias ? p->bias->data : NULL,
                       p->scale ? p->scale->data : NULL, p->shift ? p->shift->data : NULL,
                       p->mean ? p->mean->data : NULL, p->var ? p->var->data : NULL},
                .transposed = p->transposed,
                .number = p->eps}};
    bool norm = p->var, same = !norm && !p->scale;
    if (!norm) /* the same data may be one number or several */
        made.key.number = (double)td_numel(p->scale ? p->scale : p->shift);
    memcpy(made.key.shape, p->weight->shape, sizeof(int64_t) * (size_t)p->weight->rank);
    pthread_mutex_lock(&model->lock_);
    const struct td_derived *found = td_derived_find(model, &made.key);
    if (!found && make(model, p, same, &made))
        found = td_derived_add(model, &made);
    if (!found) {
        td_weight_unref(&made.weight[0]);
        td_weight_unref(&made.weight[1]);
    }
    pthread_mutex_unlock(&model->lock_);
    return found;
}

static int by_address(const void *a, const void *b)
{
    const struct td_block *const *x = a, *const *y = b;
    return ((uintptr_t)*x > (uintptr_t)*y) - ((uintptr_t)*x < (uintptr_t)*y);
}

/* Whether the data lie in one of plan->held, which is sorted by address here. */
static bool is_held(struct td_plan *plan, const void *data)
{
    int low = 0, high = plan->n_held; /* those below low begin at or before data */
    for (; low < high; plan->visits++) {
        int middle = low + (high - low) / 2;
        if ((uintptr_t)plan->held[middle]->data <= (uintptr_t)data)
            low = middle + 1;
        else
            high = middle;
    }
    return low &&
           (uintptr_t)data - (uintptr_t)plan->held[low - 1]->data < plan->held[low - 1]->bytes;
}

/* Whether the constants live as long as the model: those that were computed while the plan was
 * recorded live only as long as the plan. */
static bool are_lasting(struct td_plan *plan, const struct pair *p)
{
    const struct td_tensor *all[] = {p->weight, p->bias, p->scale, p->shift, p->mean, p->var};
    bool held = false;
    for (int i = 0; i < 6; i++)
        held = held || (all[i] && is_held(plan, all[i]->data));
    return !held;
}

struct folding {
    struct td_model *model;
    struct td_plan *plan;
    struct td_model_pass *pass;
    struct td_renames renames;
    int *readers; /* by value */
};

/* The value that the step changes, and, where it is no normalisation, the constant that it takes.
 */
static int changed(const struct td_plan *plan, const struct td_plan_step *step,
                   const struct td_tensor **constant)
{
    if (td_step_is(step, norms))
        return td_step_value(plan, step, "input");
    int value = td_step_value(plan, step, "self");
    *constant = td_step_constant(step, value < 0 ? "self" : "other");
    value = value < 0 ? td_step_value(plan, step, "other") : value;
    return *constant ? value : -1;
}

static void fold_one(struct folding *f, struct td_plan_step *norm)
{
    struct td_plan *plan = f->plan;
    const struct td_tensor *constant = NULL;
    int value = changed(plan, norm, &constant);
    struct td_plan_step *conv =
        value < 0 || plan->value[value].step < 0 ? NULL : &plan->step[plan->value[value].step];
    struct pair p;
    if (!conv || !td_step_is(conv, convolutions) || (constant && f->readers[value] > 1))
        return;
    for (int i = 1; i < norm->n_outs; i++)
        if (f->readers[norm->value + i]) {
            td_pass_refuse(f->pass, norm, "its statistics are read");
            return;
        }
    const char *no = f->readers[value] > 1 ? "others read the convolution" : NULL;
    const struct td_tensor *between = &plan->value[value].like;
    no = no ? no : look_at_conv(conv, &p);
    no = no ? no : constant ? look_affine(norm, constant, between, &p) : look(norm, between, &p);
    no = no || are_lasting(plan, &p) ? no : "the numbers are computed in each plan";
    const struct td_derived *folded = no ? NULL : fold(f->model, &p);
    if (!folded) {
        td_pass_refuse(f->pass, norm, no ? no : "there is no memory for the folded weight");
        return;
    }
    struct td_value v = {.kind = TD_KIND_tensor};
    if (folded->weight[0]) {
        v.tensor = *td_weight_tensor(folded->weight[0]);
        td_step_set(conv, "weight", &v);
    }
    v.tensor = *td_weight_tensor(folded->weight[1]);
    td_step_set(conv, "bias", &v);
    td_renames_set(&f->renames, norm->value, value, 0);
    f->readers[value] = f->readers[norm->value];
    norm->handle = NULL;
    f->pass->done++;
}

int td_pass_fold_norm(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    struct folding f = {model, plan, pass, .readers = td_plan_count_readers(plan)};
    int err = td_renames_begin(&f.renames, plan);
    err = f.readers ? err : -ENOMEM;
    if (plan->n_held)
        qsort(plan->held, (size_t)plan->n_held, sizeof *plan->held, by_address);
    for (int s = 0; s < plan->n_steps && !err; s++) {
        td_renames_step(&f.renames, &plan->step[s]);
        const struct td_plan_step *step = &plan->step[s];
        if (td_step_is(step, norms) || td_step_is(step, products) || td_step_is(step, sums))
            fold_one(&f, &plan->step[s]);
    }
    td_renames_end(&f.renames);
    free(f.readers);
    return err;
}
