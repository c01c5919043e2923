/* Numbers given where the schema expects a tensor. Each becomes a 0-d tensor of the type that
 * PyTorch's promotion gives a Python number: the type of the tensors beside it, unless the number's
 * category (bool, integer, float) is higher; alone, an integer is INT64, and a float FP32. This is
 * the promoted type already, so the 0-d tensor changes the type of no other argument. */
#include "dispatch/call/own.h"
#include "kernels/elementwise.h"

#include <errno.h>
#include <string.h>

/* The type of a value by itself. said: what all are to have that are no bools, or none. */
static enum td_dtype own_type(const struct td_value *v, enum td_dtype said)
{
    bool real = v->kind == TD_KIND_float || v->kind == TD_KIND_floats;
    bool whole = v->kind == TD_KIND_int || v->kind == TD_KIND_ints;
    if (said && ((real && said & TD_FLOATS) || (whole && td_dtype_category(said) > 0)))
        return said;
    return real ? TD_f32 : !whole ? TD_bool : td_is_number(v) && v->wide ? TD_u64 : TD_i64;
}

static int put(const struct td_tensor *t, int64_t i, const struct td_value *v, const char *who,
               struct td_problem *problem)
{
    if (v->kind == TD_KIND_int && td_dtype_kind(t->dtype) != 'f' && !td_holds_int(t->dtype, v))
        return td_problem_set(problem, EINVAL,
                              v->wide ? "%s: is %llu, which no %s is"
                                      : "%s: is %lld, which no %s is",
                              who, (long long)v->i, td_dtype_name(t->dtype));
    td_put_scalar(t, i, v);
    return 0;
}

/* v becomes a tensor of the type, in the run's memory. who: for sentences. */
static int make_tensor(struct td_run *run, struct td_value *v, enum td_dtype type, const char *who)
{
    const struct td_options *options = &run->options;
    int n = v->kind == TD_KIND_floats ? v->floats.n : td_is_number_list(v) ? v->ints.n : 1, err = 0;
    struct td_tensor t = {.dtype = type, .rank = td_is_number_list(v), .shape = {n}};
    t.data = options->alloc(options->alloc_arg, td_room_of(td_nbytes(&t)));
    if (!t.data)
        return td_problem_set(&run->problem, ENOMEM, "no memory for %s", who);
    for (int i = 0; i < n && !err; i++) {
        struct td_value one = *v;
        if (v->kind == TD_KIND_floats)
            one = (struct td_value){.kind = TD_KIND_float, .f = v->floats.v[i]};
        else if (td_is_number_list(v))
            one = (struct td_value){.kind = v->kind == TD_KIND_ints ? TD_KIND_int : TD_KIND_bool,
                                    .i = v->ints.v[i]};
        err = put(&t, i, &one, who, &run->problem);
    }
    *v = (struct td_value){.kind = TD_KIND_tensor, .tensor = t};
    return err;
}

/* Whether argument i has its own type, as an index or a mask. */
static bool stays(const struct td_op *op, int i)
{
    return (op->unpromoted | op->follows) >> i & 1;
}

/* The type of all that are promoted; none: they have none in common, which will be said. */
static enum td_dtype common_type(const struct td_run *run)
{
    const struct td_call *call = &run->call;
    unsigned tensors = 0, zero_dim = 0, numbers = 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        bool number = run->numbers >> i & 1;
        if (stays(call->op, i) || (v->kind != TD_KIND_tensor && !number))
            continue;
        if (!number)
            *(v->tensor.rank ? &tensors : &zero_dim) |= v->tensor.dtype;
        else
            *(td_is_number_list(v) ? &tensors : &numbers) |= own_type(v, run->options.number_type);
    }
    return tensors | zero_dim ? td_promote_types(tensors, zero_dim, numbers)
                              : td_dtype_join(numbers);
}

/* The type for a number in argument i. */
static enum td_dtype type_of(const struct td_run *run, int i, enum td_dtype common)
{
    const struct td_op *op = run->call.op;
    const struct td_value *v = &run->call.arg[i];
    if (op->int32 >> i & 1)
        return TD_i32;
    if (stays(op, i))
        return own_type(v, TD_DTYPE_none);
    enum td_dtype own = own_type(v, run->options.number_type);
    enum td_dtype type = td_is_number(v) && common ? common : own;
    bool real = type & TD_INTS && !(type & op->dtypes) && op->dtypes & TD_f32;
    return real ? TD_f32 : type; /* an integer is converted where a float is expected */
}

int td_run_make_numbers(struct td_run *run)
{
    enum td_dtype common = common_type(run), type[TD_MAX_ARGS];
    int err = 0;
    for (int i = 0; i < run->call.n_args; i++)
        type[i] = run->numbers >> i & 1 ? type_of(run, i, common) : TD_DTYPE_none;
    for (int i = 0; i < run->call.n_args && !err; i++)
        if (type[i])
            err = make_tensor(run, &run->call.arg[i], type[i], run->handle->schema.param[i].name);
    return err;
}
