/* Binding an operator's call, or an expression's. In the short form whole numbers are INT64, as the
 * values say; a call that does not take these is bound again with floats, where whoever wrote
 * [1,2] would have written [1.0,2.0] in PyTorch, and with INT32 where an argument is of that type
 * alone. */
#include "api/infer/call.h"
#include "dispatch/graph/cache.h"

#include <errno.h>
#include <string.h>

/* ---- whole numbers as floats ---- */

/* For mean of [1,2], or a product with [0.5]. False: there is no memory. */
static bool widen(struct td_infer *in, struct td_tensor *t)
{
    float *floats = td_arena_alloc(in->req->arena, sizeof *floats * (size_t)td_numel(t) + 1);
    for (int64_t i = 0; floats && i < td_numel(t); i++)
        floats[i] = (float)((const int64_t *)t->data)[i];
    if (!floats)
        return false;
    t->data = floats;
    t->dtype = TD_f32;
    return true;
}

static bool is_whole(const struct td_tensor *t)
{
    return t->dtype == TD_i64 && !t->weight;
}

enum { STAYS = 1, SHORT = 2 }; /* an argument is not widened; it must be INT32 */

/* What the operator's overloads say of an argument. */
static int marks_of(const struct td_infer *in, const char *name)
{
    const struct td_handle *h = in->eval ? NULL : td_registry_find(in->op);
    bool one = h && strcmp(in->op, h->schema.name) != 0;
    int marks = 0;
    for (; h; h = one ? NULL : h->next) {
        int i = td_schema_find(&h->schema, name);
        marks |= i >= 0 && h->op->unpromoted >> i & 1 ? STAYS : 0;
        marks |= i >= 0 && h->op->int32 >> i & 1 ? STAYS | SHORT : 0;
    }
    return marks;
}

/* Whether nothing but INT64, or INT32, is right there, as for an index. */
static bool must_stay(const struct td_infer *in, const char *name, int position)
{
    return (!in->eval && td_op_follows(in->op, name, position)) || marks_of(in, name) & STAYS;
}

/* Of all tensors that no values lead by. False: there are none. */
static bool widen_all(struct td_infer *in)
{
    bool any = false;
    for (int i = 0; i < in->n_args && !in->typed; i++) {
        struct td_value *v = &in->args[i].value;
        if (must_stay(in, in->args[i].name, i))
            continue;
        if (v->kind == TD_KIND_tensor && is_whole(&v->tensor))
            any = widen(in, &v->tensor) || any;
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            if (is_whole(&v->tensors.v[k]))
                any = widen(in, &v->tensors.v[k]) || any;
    }
    return any;
}

/* ---- whole numbers as INT32 ---- */

/* False: a number does not fit, or there is no memory. */
static bool narrow(struct td_infer *in, struct td_tensor *t)
{
    int32_t *to = td_arena_alloc(in->req->arena, sizeof *to * (size_t)td_numel(t) + 1);
    for (int64_t i = 0; to && i < td_numel(t); i++) {
        int64_t x = ((const int64_t *)t->data)[i];
        to[i] = (int32_t)x;
        if (to[i] != x)
            return false;
    }
    if (!to)
        return false;
    t->data = to;
    t->dtype = TD_i32;
    return true;
}

/* Of all tensors that must be INT32. False: there are none. */
static bool narrow_all(struct td_infer *in)
{
    bool any = false;
    for (int i = 0; i < in->n_args; i++) {
        struct td_value *v = &in->args[i].value;
        if (v->kind == TD_KIND_tensor && is_whole(&v->tensor) &&
            marks_of(in, in->args[i].name) & SHORT)
            any = narrow(in, &v->tensor) || any;
    }
    return any;
}

/* ---- the call ---- */

/* A kernel that is asked for by its name is selected anew each time. */
static int bind_expr(struct td_infer *in)
{
    return in->forced
               ? td_run_bind_expr(&in->run, in->expr, in->args, in->n_args, &in->options)
               : td_expr_take(&in->entry, &in->run, in->expr, in->args, in->n_args, &in->options);
}

static int bind_call(struct td_infer *in)
{
    struct td_key_scope before = td_keys_enter(in->scope.include, in->scope.exclude);
    const char *expr = in->eval ? in->expr : NULL;
    if (in->options.trace)
        in->options.trace->n = 0;
    int err = in->open   ? td_run_infer(&in->run, in->op, expr, in->args, in->n_args, &in->options)
              : in->eval ? bind_expr(in)
                         : td_run_bind(&in->run, in->op, in->args, in->n_args, &in->options);
    td_keys_leave(before);
    return err;
}

/* Whether there are floats beside whole numbers, which an operator that promotes has taken. */
static bool is_mixed(const struct td_infer *in)
{
    unsigned types = 0;
    for (int i = 0; i < in->n_args; i++) {
        const struct td_value *v = &in->args[i].value;
        if (v->kind == TD_KIND_tensor)
            types |= v->tensor.dtype;
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            types |= v->tensors.v[k].dtype;
    }
    return types & TD_i64 && types & TD_FLOATS;
}

int td_infer_bind_operator(struct td_infer *in)
{
    in->options.numbers = in->brief;
    int err = bind_call(in);
    if (err == -EINVAL && in->brief && narrow_all(in))
        err = bind_call(in);
    struct td_problem first = in->run.problem;
    if (err != -EINVAL || !in->brief ||
        (!is_mixed(in) && !strstr(first.text, "does not take INT64")) || !widen_all(in))
        return err;
    err = bind_call(in);
    if (err && !strstr(first.text, "INT64")) /* it was not the type */
        in->run.problem = first;
    return err;
}
