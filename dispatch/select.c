/* The choice of an implementation: the key's rows are walked, best first, and the first is taken
 * whose level may be used here and that accepts the call. A walk costs some tens of nanoseconds, as
 * rows are few and their tests are compares; accepts() of library rows keeps its own cache of what
 * the library can do. */
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

const char *td_row_objection(const struct td_call *call, const struct td_impl *impl)
{
    const char *no = unfit(call, impl);
    if (!no && impl->accepts && !impl->accepts(call))
        no = "does not take this call";
    return no;
}

const struct td_impl *td_rows_choose(const struct td_impl *rows, const struct td_call *call)
{
    while (rows[1].run && td_row_objection(call, rows))
        rows++;
    return rows;
}

const struct td_impl *td_row_likely(const struct td_run *run, bool *ready)
{
    const struct td_impl *impl = run->rows;
    for (*ready = true; impl[1].run; impl++) {
        if (unfit(&run->call, impl) || (run->forced && !td_row_is_named(impl, run->forced)))
            continue;
        *ready = !impl->ready || impl->ready(&run->call);
        if (!*ready || !impl->accepts || impl->accepts(&run->call))
            break;
    }
    return impl;
}

int td_run_explain(const struct td_run *run, struct td_why *why, int max)
{
    int n = 0;
    bool chosen = false;
    for (const struct td_impl *i = run->rows; i && i->run && n < max; i++, n++) {
        const char *no = run->forced && !td_row_is_named(i, run->forced)
                             ? "not the kernel asked for"
                             : td_row_objection(&run->call, i);
        why[n].impl = i;
        why[n].reason = no ? no : chosen ? "accepted, but a better one stands before it" : "chosen";
        chosen = chosen || !no;
    }
    return n;
}
