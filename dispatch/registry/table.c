/* The computed table: for each key an operator can be dispatched to, the kernel and why it is that
 * one. A direct registration comes first, then the aliases in the order below, then the fallback of
 * the key for all operators. (PyTorch: OperatorEntry::computeDispatchTableEntryWithDebug.) */
#include "dispatch/registry/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *td_provenance_name(enum td_provenance provenance)
{
    static const char *const names[] = {
        [TD_FROM_missing] = "missing",
        [TD_FROM_kernel] = "kernel",
        [TD_FROM_default] = "default backend kernel",
        [TD_FROM_math] = "math kernel",
        [TD_FROM_autograd] = "autograd kernel",
        [TD_FROM_ambiguous] = "ambiguous autogradother",
        [TD_FROM_fallback] = "backend fallback",
    };
    return names[provenance];
}

const struct td_table *td_handle_table(const struct td_handle *handle)
{
    return handle->table;
}

static const struct td_registration *registered(const struct td_registration *list, enum td_key key)
{
    while (list && list->def.key != key)
        list = list->next;
    return list;
}

static bool is_autograd(enum td_key key)
{
    return key == TD_KEY_AutogradOther || td_key_functionality(key) == TD_KEY_AutogradFunctionality;
}

/* Keys of kernels that compute: what the composite aliases stand for. */
static bool is_backend(enum td_key key)
{
    enum td_key f = td_key_functionality(key);
    return f >= TD_KEY_Dense && f <= TD_KEY_SparseCsr;
}

/* Is there a kernel that computes on the backend that this autograd key is in front of? */
static bool has_backend_kernel(const struct td_registration *list, enum td_key autograd)
{
    if (registered(list, TD_KEY_CompositeExplicitAutograd))
        return true;
    for (; list; list = list->next) {
        enum td_key f = td_key_functionality(list->def.key);
        if (!is_backend(list->def.key))
            continue;
        if (autograd == TD_KEY_AutogradOther
                ? f == TD_KEY_MkldnnCPU
                : td_key_backend(list->def.key) == td_key_backend(autograd))
            return true;
    }
    return false;
}

static struct td_entry resolve(const struct td_registration *list,
                               const struct td_registration *fallbacks, enum td_key key)
{
    const struct td_registration *r = registered(list, key);
    if (r)
        return (struct td_entry){.from = r, .provenance = TD_FROM_kernel};
    bool backend = is_backend(key) || key == TD_KEY_Undefined;
    if (backend && ((r = registered(list, TD_KEY_CompositeExplicitAutogradNonFunctional)) ||
                    (r = registered(list, TD_KEY_CompositeExplicitAutograd))))
        return (struct td_entry){.from = r, .provenance = TD_FROM_default};
    r = registered(list, TD_KEY_CompositeImplicitAutograd);
    if (r && (backend || is_autograd(key))) {
        bool hidden = is_autograd(key) && has_backend_kernel(list, key);
        if (hidden && key == TD_KEY_AutogradOther)
            return (struct td_entry){.provenance = TD_FROM_ambiguous};
        if (!hidden)
            return (struct td_entry){.from = r, .provenance = TD_FROM_math};
    }
    if (is_autograd(key) && (r = registered(list, TD_KEY_Autograd)))
        return (struct td_entry){.from = r, .provenance = TD_FROM_autograd};
    if ((r = registered(fallbacks, key)))
        return (struct td_entry){.from = r, .provenance = TD_FROM_fallback};
    return (struct td_entry){0};
}

static void compute(struct td_table *table, const struct td_handle *handle,
                    const struct td_registration *fallbacks)
{
    for (int i = 0; i < TD_TABLE_SIZE; i++) {
        struct td_entry *e = &table->entry[i];
        *e = resolve(handle->kernels, fallbacks, td_key_at(i));
        e->fallthrough = e->from && !e->from->def.boxed && !e->from->def.rows;
    }
    /* What falls through is masked out before the highest key is looked for: it costs no call. */
    for (int b = 0; b < TD_BACKENDS_END; b++) {
        table->through[b] = TD_KEYSET_FULL;
        for (int f = 1; f <= TD_FUNCTIONALITIES; f++) {
            enum td_key key = td_key_runtime((enum td_key)f, (enum td_backend)b);
            if (key && table->entry[td_key_index(key)].fallthrough)
                table->through[b] &= ~td_keyset_of((enum td_key)f);
        }
    }
}

struct td_table *td_table_make(const struct td_handle *handle,
                               const struct td_registration *fallbacks)
{
    struct td_table *table = calloc(1, sizeof *table);
    if (table)
        compute(table, handle, fallbacks);
    return table;
}

void td_table_free(const struct td_table *table)
{
    while (table) {
        const struct td_table *before = table->retired;
        free((void *)table);
        table = before;
    }
}

bool td_table_has_backend(const struct td_table *table, int i)
{
    const struct td_entry *e = &table->entry[i];
    return i && e->from && !e->fallthrough &&
           td_key_functionality(td_key_at(i)) <= TD_KEY_SparseCsr;
}

int td_table_check(const struct td_handle *handle, const struct td_registration *fallbacks,
                   struct td_problem *problem)
{
    static struct td_table fresh; /* under the registry's lock */
    const struct td_table *table = handle->table;
    compute(&fresh, handle, fallbacks);
    for (int i = 0; i < TD_TABLE_SIZE; i++)
        if (fresh.entry[i].from != table->entry[i].from ||
            fresh.entry[i].provenance != table->entry[i].provenance ||
            fresh.entry[i].fallthrough != table->entry[i].fallthrough)
            return td_problem_set(problem, EINVAL, "%s: the table is stale at %s", handle->full,
                                  td_key_name(td_key_at(i)));
    if (memcmp(fresh.through, table->through, sizeof fresh.through))
        return td_problem_set(problem, EINVAL, "%s: the mask is stale", handle->full);
    return 0;
}

void td_table_bury(struct td_registration *r)
{
    static struct td_registration *graves;
    if (r) {
        r->next = graves;
        graves = r;
        return;
    }
    while (graves) {
        r = graves->next;
        free(graves);
        graves = r;
    }
}
