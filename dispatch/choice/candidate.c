/* Queries about rows and calls before a row is chosen. */
#include "dispatch/call/own.h"
#include "kernels/trap.h"

#include <stdatomic.h>
#include <string.h>

enum td_isa td_impl_isa(const struct td_impl *impl, enum td_dtype dtype)
{
    return impl->library ? td_onednn_level(NULL, dtype) : impl->isa;
}

enum td_isa td_row_level(const struct td_call *call, const struct td_impl *impl,
                         const struct td_prepared *prepared)
{
    return impl->library ? td_onednn_level(prepared, td_row_dtype(call)) : impl->isa;
}

static atomic_bool without_winograd;

void td_winograd_use(bool allowed)
{
    atomic_store(&without_winograd, !allowed);
}

const char *td_impl_barred(const struct td_impl *impl)
{
    if (!(td_cpu()->levels >> impl->isa & 1))
        return td_cpu()->cpu_levels >> impl->isa & 1 ? "its level is above the cap"
                                                     : "this CPU lacks its level";
    bool off = impl->rounding && atomic_load_explicit(&without_winograd, memory_order_relaxed);
    return off ? "--winograd is off" : NULL;
}

bool td_impl_is_usable(const struct td_impl *impl)
{
    return impl->run != td_impl_absent && !td_impl_barred(impl);
}

const struct td_impl *td_op_best(const struct td_op *op)
{
    const struct td_impl *impl = op->impls;
    while (impl[1].run && (!td_impl_is_usable(impl) || td_trap_bars(op, impl)))
        impl++;
    return impl;
}

enum td_dtype td_row_dtype(const struct td_call *call)
{
    for (int i = 0; i < call->n_args; i++) {
        if (call->op->unpromoted >> i & 1) /* a mask, for example, does not decide */
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

/* Why the row cannot run calls of that type on this CPU, or NULL. */
static const char *unfit(const struct td_call *call, const struct td_impl *impl)
{
    const char *no = td_impl_barred(impl);
    if (no)
        return no;
    if (!(impl->dtypes & td_row_dtype(call)))
        return impl->run == td_impl_absent ? "registered as absent at this level"
                                           : "does not take this type";
    return td_trap_bars(call->op, impl);
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
