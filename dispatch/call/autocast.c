/* Autocast: the kernels of AutocastCPU, which convert the floats among a call's arguments as
 * autocast.def says of its operator, and pass the call on below themselves. FP64 and integers stay.
 */
#include "dispatch/call/own.h"
#include "kernels/weight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define CONVERTED (TD_f32 | TD_f16 | TD_bf16)

/* How many tensors an argument is, and the k-th of them. */
static int count_of(const struct td_value *v)
{
    return v->kind == TD_KIND_tensor ? 1 : v->kind == TD_KIND_tensors ? v->tensors.n : 0;
}

static struct td_tensor *tensor_of(struct td_value *v, int k)
{
    return v->kind == TD_KIND_tensor ? &v->tensor : &v->tensors.v[k];
}

static bool wants(const struct td_tensor *t, enum td_dtype to)
{
    return t->dtype & CONVERTED && t->dtype != to;
}

/* What a stored weight becomes is kept beside it, and packed like any weight; it adds half of its
 * size. */
static int cast_tensor(struct td_run *run, int i, enum td_dtype to)
{
    struct td_tensor *t = &run->call.arg[i].tensor;
    struct td_weight *stored = td_weight_of(t), *as = stored ? td_weight_as(stored, to) : NULL;
    int err = td_run_cast(run, i, to);
    if (err)
        return err;
    if (as)
        t->data = td_weight_tensor(as)->data;
    t->weight = as;
    return 0;
}

/* ---- lists: each tensor is converted by a part of its own, and the last part is the call ---- */

/* Tensor k of value, which is argument i, comes from a conversion. */
static int add_cast(struct td_run *run, td_keyset keys, struct td_run *last, int i,
                    struct td_value *value, int k, enum td_dtype to)
{
    int element = value->kind == TD_KIND_tensors ? k : -1, err = 0;
    struct td_tensor *t = tensor_of(value, k);
    struct td_run *cast = td_run_add_cast(run, t, to, keys, &err);
    err = err ? err : td_run_feed(run, cast, 0, element, NULL, i);
    err = err ? err : td_run_feed(run, last, i, element, cast, 0);
    if (!err)
        *t = cast->call.out[0];
    return err;
}

static int cast_argument(struct td_run *run, td_keyset keys, struct td_run *last, int i,
                         struct td_value *value, enum td_dtype to)
{
    int n = count_of(value), err = n ? td_run_feed(run, last, i, -1, NULL, i) : 0;
    if (!err && value->kind == TD_KIND_tensors) {
        size_t bytes = (size_t)n * sizeof *value->tensors.v;
        struct td_tensor *own = run->options.alloc(run->options.alloc_arg, bytes + 1);
        if (!own)
            return td_problem_set(&run->problem, ENOMEM, "no memory for a list");
        value->tensors.v = memcpy(own, value->tensors.v, bytes);
    }
    for (int k = 0; k < n && !err; k++)
        if (wants(tensor_of(value, k), to))
            err = add_cast(run, keys, last, i, value, k, to);
    return err;
}

static int cast_lists(struct td_run *run, td_keyset keys, enum td_dtype to)
{
    struct td_call *call = &run->call;
    struct td_value values[TD_MAX_ARGS];
    int err = 0;
    struct td_run *last = td_run_new_part(run, &err);
    for (int i = 0; i < call->n_args && !err; i++) {
        values[i] = call->arg[i];
        err = cast_argument(run, keys, last, i, &values[i], to);
    }
    if (err)
        return err;
    last->depth = run->depth;
    err = td_run_bind_values(last, run->handle, values, keys);
    if (err) {
        run->problem = last->problem;
        return err;
    }
    last = td_run_append(run, last);
    call->n_out = last->call.n_out;
    for (int i = 0; i < call->n_out; i++) {
        last->gives[i] = (unsigned char)(i + 1);
        call->out[i] = last->call.out[i];
    }
    run->key = last->key;
    run->derivative = last->derivative;
    run->rows = NULL;
    return 0;
}

/* ---- the kernels ---- */

/* The error of a cast call names the types after the cast. This appends the caller's types. */
static int tell_given(struct td_run *run, int err, enum td_dtype to)
{
    char *text = run->problem.text;
    if (err != -EINVAL || !strstr(text, td_dtype_name(to)))
        return err;
    for (int i = 0; i < run->n_casts; i++) {
        const struct td_tensor *from = &run->cast[i].from;
        size_t used = strlen(text);
        if (run->call.arg[run->cast[i].arg].tensor.dtype == to)
            snprintf(text + used, sizeof run->problem.text - used,
                     "; autocast has made %s of %s, which was given as %s", td_dtype_name(to),
                     run->handle->schema.param[run->cast[i].arg].name, td_dtype_name(from->dtype));
    }
    return err;
}

static int cast_to(struct td_run *run, td_keyset keys, enum td_dtype to)
{
    struct td_call *call = &run->call;
    bool lists = false;
    keys &= td_keyset_below(TD_KEY_AutocastCPU);
    for (int i = 0; i < call->n_args && to; i++)
        for (int k = 0; k < count_of(&call->arg[i]); k++) {
            const struct td_tensor *t = tensor_of(&call->arg[i], k);
            lists |= call->arg[i].kind == TD_KIND_tensors && wants(t, to);
            run->autocast = t->dtype & CONVERTED ? to : run->autocast;
        }
    if (lists)
        return cast_lists(run, keys, to);
    for (int i = 0, err; i < call->n_args && to; i++)
        if (call->arg[i].kind == TD_KIND_tensor && wants(&call->arg[i].tensor, to) &&
            (err = cast_tensor(run, i, to)))
            return err;
    int err = td_redispatch(run, keys);
    return err && to ? tell_given(run, err, to) : err;
}

static int cast_lower(struct td_run *run, td_keyset keys)
{
    return cast_to(run, keys, run->options.autocast);
}

static int cast_fp32(struct td_run *run, td_keyset keys)
{
    return cast_to(run, keys, run->options.autocast ? TD_f32 : TD_DTYPE_none);
}

static int cast_widest(struct td_run *run, td_keyset keys)
{
    unsigned types = 0;
    for (int i = 0; i < run->call.n_args; i++)
        for (int k = 0; k < count_of(&run->call.arg[i]); k++)
            types |= tensor_of(&run->call.arg[i], k)->dtype & TD_FLOATS;
    return cast_to(run, keys, run->options.autocast ? td_dtype_join(types) : TD_DTYPE_none);
}

static const struct {
    const char *name, *policy;
    td_boxed *kernel;
} listed[] = {
#define TD_AUTOCAST(policy, name) {#name, #policy, cast_##policy},
#include "dispatch/call/autocast.def"
#undef TD_AUTOCAST
};

int td_autocast_register(struct td_problem *problem)
{
    int err = 0;
    for (size_t i = 0; i < sizeof listed / sizeof *listed && !err; i++) {
        struct td_kernel_def def = {
            .key = TD_KEY_AutocastCPU, .boxed = listed[i].kernel, .origin = TD_HERE};
        err = td_register(listed[i].name, &def, NULL, problem);
    }
    return err;
}

const char *td_autocast_policy(const struct td_handle *handle)
{
    for (size_t i = 0; i < sizeof listed / sizeof *listed; i++)
        if (!strcmp(listed[i].name, handle->full))
            return listed[i].policy;
    return NULL;
}

enum td_dtype td_autocast_of(const struct td_run *run)
{
    enum td_dtype to = run->autocast;
    for (const struct td_run *part = run->names ? run->parts : NULL; part; part = part->next)
        to = !to || part->autocast == run->options.autocast ? part->autocast : to;
    return to;
}
