/* The choice of an implementation: the key's rows are walked, best first, and the first is taken
 * whose level may be used here and that takes the call when it is asked. A walk costs some tens of
 * nanoseconds, as rows are few and answer after compares; library rows keep what they have made for
 * a call, and find it for the next. */
#include "dispatch/call.h"

#include <string.h>

enum td_isa td_impl_isa(const struct td_impl *impl)
{
    return impl->library ? td_onednn_isa() : impl->isa;
}

bool td_impl_is_usable(const struct td_impl *impl)
{
    return impl->run != td_impl_absent && td_cpu()->levels >> impl->isa & 1;
}

const struct td_impl *td_op_best(const struct td_op *op)
{
    const struct td_impl *impl = op->impls;
    while (impl[1].run && !td_impl_is_usable(impl))
        impl++;
    return impl;
}

enum td_dtype td_row_dtype(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++) {
        if (call->op->unpromoted >> i & 1) /* a mask says nothing */
            continue;
        if (call->arg[i].kind == TD_KIND_tensor)
            return call->arg[i].tensor.dtype;
        for (int k = 0; call->arg[i].kind == TD_KIND_tensors && k < call->arg[i].tensors.n; k++)
            if (call->arg[i].tensors.v[k].dtype)
                return call->arg[i].tensors.v[k].dtype;
    }
    return call->out[0].dtype;
}

bool td_row_is_named(const struct td_impl *impl, const char *name)
{
    size_t n = strlen(impl->name);
    return !strncmp(impl->name, name, n) &&
           (!name[n] || (name[n] == '@' && !strcmp(name + n + 1, td_isa_name(impl->isa))));
}

/* Why the row serves no call of that type here, or NULL. */
static const char *unfit(const struct td_call *call, const struct td_impl *impl)
{
    if (!(td_cpu()->levels >> impl->isa & 1))
        return td_cpu()->cpu_levels >> impl->isa & 1 ? "its level is above the cap"
                                                     : "this CPU lacks its level";
    if (!(impl->dtypes & td_row_dtype(call)))
        return impl->run == td_impl_absent ? "registered as absent at this level"
                                           : "does not take this type";
    return NULL;
}

bool td_call_is_nothing(const struct td_call *call)
{
    bool nothing = call->n_out > 0 && !call->counted;
    for (int i = 0; i < call->n_out; i++)
        nothing = nothing && !td_numel(&call->out[i]);
    return nothing;
}

int td_call_count_strides(const struct td_call *call)
{
    int n = 0;
    for (int i = 0; i < call->n_args; i++) {
        const struct td_value *v = &call->arg[i];
        n += v->kind == TD_KIND_tensor && v->tensor.stride;
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            n += v->tensors.v[k].stride != NULL;
    }
    return n;
}

bool td_run_takes_strides(const struct td_run *run)
{
    return run->impl->strided && !run->prepared.dense;
}

const char *td_row_objection(const struct td_call *call, const struct td_impl *impl,
                             struct td_prepared *prepared)
{
    const char *no = unfit(call, impl);
    if (no || !impl->prepare || td_call_is_nothing(call))
        return no;
    no = impl->prepare(call, prepared);
    if (no)
        td_prepared_release(prepared);
    return no;
}

const struct td_impl *td_rows_choose(const struct td_impl *rows, const struct td_call *call,
                                     struct td_prepared *prepared)
{
    while (td_row_objection(call, rows, prepared) && rows[1].run)
        rows++;
    return rows;
}

const struct td_impl *td_row_likely(const struct td_run *run, bool *ready)
{
    struct td_prepared prepared = {.only_look = true};
    const struct td_impl *impl = run->rows;
    while (impl[1].run && ((run->forced && !td_row_is_named(impl, run->forced)) ||
                           td_row_objection(&run->call, impl, &prepared)))
        impl++;
    *ready = !prepared.unmade;
    td_prepared_release(&prepared);
    return impl;
}

int td_run_explain(const struct td_run *run, struct td_why *why, int max)
{
    int n = 0;
    bool chosen = false;
    for (const struct td_impl *i = run->rows; i && i->run && n < max; i++, n++) {
        struct td_prepared prepared = {0};
        const char *no = run->forced && !td_row_is_named(i, run->forced)
                             ? "not the kernel asked for"
                             : td_row_objection(&run->call, i, &prepared);
        td_prepared_release(&prepared);
        why[n].impl = i;
        why[n].reason = no ? no : chosen ? "accepted, but a better one stands before it" : "chosen";
        chosen = chosen || !no;
    }
    return n;
}
