/* ATen's type promotion. Types fall into three categories, bool < integers < floats. Tensors with
 * dimensions decide the type unless a 0-dimensional tensor, and after it a plain number, is of a
 * higher category: then the higher category's type is taken, FP32 standing for a plain float.
 * (PyTorch's documentation, "Type promotion".) The wide unsigned types have a common one with
 * floats alone. */
#include "dispatch/call/own.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum td_dtype td_promote_types(unsigned tensors, unsigned zero_dim, unsigned scalars)
{
    enum td_dtype type = td_dtype_join(tensors), zero = td_dtype_join(zero_dim),
                  number = td_dtype_join(scalars);
    if (number == TD_f64)
        number = TD_f32;
    if ((tensors && !type) || (zero_dim && !zero))
        return TD_DTYPE_none;
    if (zero && (!type || td_dtype_category(zero) > td_dtype_category(type)))
        type = td_dtype_join(type | zero);
    if (zero_dim && !type)
        return TD_DTYPE_none;
    if (number && (!type || td_dtype_category(number) > td_dtype_category(type)))
        type = number;
    return type;
}

/* ---- on a call ---- */

int td_run_cast(struct td_run *run, int i, enum td_dtype to)
{
    struct td_tensor *t = &run->call.arg[i].tensor;
    int at = 0;
    while (at < run->n_casts && run->cast[at].arg != i)
        at++;
    if (at == TD_MAX_CASTS)
        return td_problem_set(&run->problem, EINVAL, "more than %d tensors of other types",
                              TD_MAX_CASTS);
    if (at == run->n_casts) {
        run->cast[run->n_casts].arg = i;
        run->cast[run->n_casts++].from = *t;
    }
    t->dtype = to;
    t->data = NULL;
    t->weight = NULL;
    t->stride = NULL;
    return 0;
}

static int refuse_mixture(struct td_call *call, unsigned types)
{
    unsigned wide = types & TD_UINTS, other = types & ~(wide & -wide);
    return td_refuse(call,
                     "%s and %s have no common type: UINT16, UINT32 and UINT64 are promoted to "
                     "floats alone; cast one of them",
                     td_dtype_name(wide & -wide), td_dtype_name(other & -other));
}

static int promote(struct td_run *run)
{
    struct td_call *call = &run->call;
    unsigned tensors = 0, zero_dim = 0, scalars = 0;
    bool text = false;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        if (call->op->unpromoted >> i & 1)
            continue;
        const struct td_param *param = &run->handle->schema.param[i];
        if (v->kind == TD_KIND_tensor && v->tensor.rank)
            tensors |= v->tensor.dtype;
        else if (v->kind == TD_KIND_tensor)
            zero_dim |= v->tensor.dtype;
        else if (param->type.base == TD_BASE_Scalar && v->kind != TD_KIND_none &&
                 (param->type.optional || !param->has_default))
            scalars |= v->kind == TD_KIND_float ? TD_f64
                       : v->kind == TD_KIND_int ? TD_i64
                                                : TD_bool;
        text = text || v->kind == TD_KIND_str;
    }
    enum td_dtype common = td_promote_types(tensors, zero_dim, scalars);
    enum td_promote how = call->op->promote;
    if (!common && tensors | zero_dim && how != TD_PROMOTE_first)
        return refuse_mixture(call, tensors | zero_dim);
    if (how == TD_PROMOTE_first)
        common = call->arg[0].tensor.dtype;
    else if ((how == TD_PROMOTE_float || (how == TD_PROMOTE_quotient && !text)) &&
             td_dtype_kind(common) != 'f')
        common = TD_f32;
    for (int i = 0; i < call->n_args; i++) {
        struct td_tensor *t = &call->arg[i].tensor;
        if (call->arg[i].kind != TD_KIND_tensor || t->dtype == common ||
            call->op->unpromoted >> i & 1)
            continue;
        int err = td_run_cast(run, i, common);
        if (err)
            return err;
    }
    return 0;
}

static int check_dtype(struct td_run *run)
{
    struct td_call *call = &run->call;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_tensor *t = td_arg(call, i);
        if (!t || call->op->unpromoted >> i & 1)
            continue;
        if (!(t->dtype & call->op->dtypes)) {
            char list[100] = "";
            for (int k = 0; k < TD_DTYPES; k++)
                if (call->op->dtypes >> k & 1)
                    snprintf(list + strlen(list), sizeof list - strlen(list), " %s",
                             td_dtype_name(1 << k));
            return td_refuse(call, "%s: %s does not take %s; right are%s",
                             run->handle->schema.param[i].name, run->handle->full,
                             td_dtype_name(t->dtype), list);
        }
        return 0; /* the rule judges the others against the first */
    }
    return 0;
}

/* Here all operators' sizes are judged: behind it the bytes of every tensor of the call can be
 * counted, those of arguments that are to be converted included. */
static int check_sizes(struct td_run *run)
{
    struct td_call *call = &run->call;
    for (int i = 0; i < run->n_casts; i++)
        if (!td_fits(&call->arg[run->cast[i].arg].tensor))
            return td_refuse(call, "%s: converted to %s it would be too large to be counted",
                             run->handle->schema.param[run->cast[i].arg].name,
                             td_dtype_name(call->arg[run->cast[i].arg].tensor.dtype));
    for (int i = 0; i < call->n_out; i++)
        if (!td_fits(&call->out[i]))
            return td_refuse(call, "the result would be too large to be counted");
    return 0;
}

enum td_dtype td_call_dtype(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_dtype)
            return call->arg[i].dtype;
    return TD_DTYPE_none;
}

/* A rule may see an argument with another rank, as prelu does its weight: the strides do not go
 * with that, and it is copied first. */
static int ask_rule_of_strides(struct td_run *run)
{
    struct td_value given[TD_MAX_ARGS];
    struct td_call *call = &run->call;
    memcpy(given, call->arg, sizeof *given * (size_t)call->n_args);
    int err = call->op->rule(call);
    for (int i = 0; i < call->n_args && !err; i++) {
        struct td_tensor *t = &call->arg[i].tensor, seen = *t;
        const struct td_tensor *was = &given[i].tensor;
        if (given[i].kind != TD_KIND_tensor || !was->stride || seen.rank == was->rank)
            continue;
        *t = *was;
        err = td_run_cast(run, i, t->dtype);
        t->rank = seen.rank;
        memcpy(t->shape, seen.shape, sizeof seen.shape);
    }
    return err;
}

int td_run_settle(struct td_run *run)
{
    struct td_call *call = &run->call;
    enum td_dtype to = call->op->casts ? td_call_dtype(call) : TD_DTYPE_none;
    int err = 0;
    run->strided = td_call_count_strides(call);
    if (to && to != call->arg[0].tensor.dtype)
        err = td_run_cast(run, 0, to);
    else if (!to && call->op->promote != TD_PROMOTE_none)
        err = promote(run);
    if (!err)
        err = check_dtype(run);
    run->sized = !err;
    if (!err)
        err = run->strided ? ask_rule_of_strides(run) : call->op->rule(call);
    if (!err)
        err = check_sizes(run);
    for (int i = 0; i < call->n_out; i++) { /* rules copy an argument, and its place with it */
        call->out[i].data = NULL;
        call->out[i].weight = NULL;
        call->out[i].stride = NULL;
    }
    return err;
}
