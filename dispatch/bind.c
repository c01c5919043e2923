/* From arguments by name to a checked call: choose the overload, convert each value to what the
 * schema says, fill in defaults, promote types, ask the operator's rule. This is the border where a
 * client's arguments are judged; below it they are right.
 *
 * An overload fits when every argument given is one of its parameters, of a fitting kind, and none
 * without default is missing. The first that fits is taken (ops.def has them in order); when none
 * does, the sentence is about the overload that came furthest. */
#include "dispatch/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char *kind_name(const struct td_value *v)
{
    static const char *const names[] = {
        [TD_KIND_none] = "null",      [TD_KIND_tensor] = "a tensor", [TD_KIND_tensors] = "tensors",
        [TD_KIND_int] = "an integer", [TD_KIND_float] = "a float",   [TD_KIND_bool] = "a bool",
        [TD_KIND_ints] = "a list",    [TD_KIND_dtype] = "a type",    [TD_KIND_str] = "a text",
    };
    return names[v->kind];
}

static int wrong_kind(const struct td_param *param, const struct td_value *v,
                      struct td_problem *problem)
{
    char type[64];
    td_type_format(&param->type, type, sizeof type);
    return td_problem_set(problem, EINVAL, "%s: must be %s, but is %s", param->name, type,
                          kind_name(v));
}

static int to_list(const struct td_param *param, const struct td_value *in, struct td_value *out,
                   struct td_problem *problem)
{
    if (in->kind == TD_KIND_int && param->type.list_size) {
        out->kind = TD_KIND_ints;
        out->ints.n = param->type.list_size;
        for (int i = 0; i < param->type.list_size; i++)
            out->ints.v[i] = in->i;
        return 0;
    }
    if (in->kind != TD_KIND_ints)
        return wrong_kind(param, in, problem);
    /* As ATen has it: int[1] takes any length, a longer one only its own. */
    if (param->type.list_size > 1 && in->ints.n != param->type.list_size)
        return td_problem_set(problem, EINVAL, "%s: must have %d numbers, but has %d", param->name,
                              param->type.list_size, in->ints.n);
    *out = *in;
    return 0;
}

static int to_dtype(const struct td_param *param, const struct td_value *in, struct td_value *out,
                    struct td_problem *problem)
{
    if (in->kind != TD_KIND_str)
        return wrong_kind(param, in, problem);
    out->kind = TD_KIND_dtype;
    out->dtype = td_dtype_find(in->str);
    if (!out->dtype)
        return td_problem_set(problem, EINVAL,
                              "%s: '%.32s' is no type; right are BOOL UINT8 INT8 INT16 INT32 INT64 "
                              "FP16 BF16 FP32 FP64",
                              param->name, in->str);
    return 0;
}

/* The value as the parameter wants it. */
static int convert(const struct td_param *param, const struct td_value *in, struct td_value *out,
                   struct td_problem *problem)
{
    const struct td_type *type = &param->type;
    if (in->kind == TD_KIND_none && (type->optional || type->list_optional)) {
        out->kind = TD_KIND_none;
        return 0;
    }
    if (type->list && type->base == TD_BASE_int)
        return to_list(param, in, out, problem);
    bool fits = false;
    switch (type->base) {
    case TD_BASE_Tensor:
        fits = in->kind == (type->list ? TD_KIND_tensors : TD_KIND_tensor);
        break;
    case TD_BASE_int:
        fits = in->kind == TD_KIND_int;
        break;
    case TD_BASE_float:
        if (in->kind == TD_KIND_int) {
            *out = (struct td_value){.kind = TD_KIND_float, .f = (double)in->i};
            return 0;
        }
        fits = in->kind == TD_KIND_float;
        break;
    case TD_BASE_bool:
        fits = in->kind == TD_KIND_bool;
        break;
    case TD_BASE_Scalar:
        fits = in->kind == TD_KIND_int || in->kind == TD_KIND_float || in->kind == TD_KIND_bool;
        break;
    case TD_BASE_ScalarType:
        return to_dtype(param, in, out, problem);
    default:
        fits = in->kind == TD_KIND_str;
    }
    if (!fits)
        return wrong_kind(param, in, problem);
    *out = *in;
    return 0;
}

static const struct td_named *find_arg(const struct td_named *args, int n_args, const char *name)
{
    for (int i = 0; i < n_args; i++)
        if (!strcmp(args[i].name, name))
            return &args[i];
    return NULL;
}

static int unknown_arg(const struct td_handle *handle, const char *name, struct td_problem *problem)
{
    char list[300] = "";
    size_t n = 0;
    for (int i = 0; i < handle->schema.n_params && n < sizeof list; i++)
        n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", i ? ", " : "",
                              handle->schema.param[i].name);
    return td_problem_set(problem, EINVAL, "%.60s: %s has no such argument; right are: %s", name,
                          handle->full, list);
}

/* Binds to one overload. *matched: how many arguments were right, for choosing whose sentence to
 * show. */
static int bind(struct td_run *run, const struct td_handle *handle, const struct td_named *args,
                int n_args, int *matched)
{
    const struct td_schema *schema = &handle->schema;
    struct td_call *call = &run->call;
    run->handle = handle;
    call->op = handle->op;
    call->n_args = schema->n_params;
    call->threads = 1;
    call->problem = &run->problem;
    *matched = 0;
    int used = 0, err = 0;
    for (int i = 0; i < schema->n_params; i++) {
        const struct td_param *param = &schema->param[i];
        const struct td_named *arg = find_arg(args, n_args, param->name);
        used += arg != NULL;
        if (arg && !err) {
            err = convert(param, &arg->value, &call->arg[i], &run->problem);
            *matched += !err;
        } else if (!err && !param->has_default) {
            err = td_problem_set(&run->problem, EINVAL, "%s: missing; %s needs it", param->name,
                                 handle->full);
        } else if (!arg) {
            const struct td_value *def = &param->def;
            if (param->type.base == TD_BASE_ScalarType && def->kind == TD_KIND_str)
                call->arg[i] = (struct td_value){.kind = TD_KIND_dtype,
                                                 .dtype = td_dtype_find(param->default_str)};
            else if (def->kind == TD_KIND_str)
                call->arg[i] = (struct td_value){.kind = TD_KIND_str, .str = param->default_str};
            else
                call->arg[i] = *def;
        }
    }
    for (int i = 0; used < n_args && i < n_args; i++) {
        bool known = false;
        for (int k = 0; k < schema->n_params && !known; k++)
            known = !strcmp(args[i].name, schema->param[k].name);
        if (!known)
            return unknown_arg(handle, args[i].name, &run->problem);
    }
    return err;
}

/* ---- promotion ---- */

static int promote(struct td_run *run)
{
    struct td_call *call = &run->call;
    unsigned tensors = 0, zero_dim = 0, scalars = 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        const struct td_param *param = &run->handle->schema.param[i];
        if (v->kind == TD_KIND_tensor && v->tensor.rank)
            tensors |= v->tensor.dtype;
        else if (v->kind == TD_KIND_tensor)
            zero_dim |= v->tensor.dtype;
        else if (param->type.base == TD_BASE_Scalar && !param->has_default)
            scalars |= v->kind == TD_KIND_float ? TD_f64
                       : v->kind == TD_KIND_int ? TD_i64
                                                : TD_bool;
    }
    enum td_dtype common = td_promote_types(tensors, zero_dim, scalars);
    if (call->op->promote == TD_PROMOTE_float && td_dtype_kind(common) != 'f')
        common = TD_f32;
    for (int i = 0; i < call->n_args; i++) {
        struct td_tensor *t = &call->arg[i].tensor;
        if (call->arg[i].kind != TD_KIND_tensor || t->dtype == common)
            continue;
        if (run->n_casts == TD_MAX_CASTS)
            return td_refuse(call, "more than %d tensors of other types", TD_MAX_CASTS);
        run->cast[run->n_casts].arg = i;
        run->cast[run->n_casts++].from = *t;
        t->dtype = common;
        t->data = NULL;
        t->weight = NULL;
    }
    return 0;
}

static int check_dtype(struct td_run *run)
{
    struct td_call *call = &run->call;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_tensor *t = td_arg(call, i);
        if (!t)
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

static int unknown_op(struct td_run *run, const char *name)
{
    char base[TD_NAME_SIZE], list[300] = "";
    snprintf(base, sizeof base, "%.*s", (int)strcspn(name, "."), name);
    const struct td_handle *handle = td_registry_find(base);
    if (!handle)
        return td_problem_set(&run->problem, ENOENT,
                              "no operator '%.60s'; GET /v1/ops lists what there is", name);
    for (int i = 0; i < handle->n_overloads; i++)
        snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "",
                 handle[i].full);
    return td_problem_set(&run->problem, ENOENT, "no overload '%.60s'; there are: %s", name, list);
}

int td_run_bind(struct td_run *run, const char *name, const struct td_named *args, int n_args)
{
    *run = (struct td_run){0};
    const struct td_handle *handle = td_registry_find(name);
    if (!handle)
        return unknown_op(run, name);
    int overloads = strcmp(name, handle->schema.name) ? 1 : handle->n_overloads;
    int best = -1, best_matched = -1, matched, err = -EINVAL;
    for (int i = 0; i < overloads && err; i++) {
        err = bind(run, &handle[i], args, n_args, &matched);
        if (err && matched > best_matched) {
            best = i;
            best_matched = matched;
        }
    }
    if (err && overloads > 1)
        err = bind(run, &handle[best], args, n_args, &matched); /* for its sentence */
    if (!err && run->call.op->promote != TD_PROMOTE_none)
        err = promote(run);
    if (!err)
        err = check_dtype(run);
    return err ? err : run->call.op->rule(&run->call);
}
