/* Whether a kernel was written for the schema that its operator has. */
#include "dispatch/registry/table.h"

#include <errno.h>
#include <string.h>

/* What a kernel can see of a schema: the types of its arguments and results, in order. */
static bool same_signature(const struct td_schema *a, const struct td_schema *b)
{
    char x[64], y[64];
    bool same = a->n_params == b->n_params && a->n_returns == b->n_returns;
    for (int i = 0; same && i < a->n_params + a->n_returns; i++) {
        const int n = a->n_params;
        td_type_format(i < n ? &a->param[i].type : &a->ret[i - n].type, x, sizeof x);
        td_type_format(i < n ? &b->param[i].type : &b->ret[i - n].type, y, sizeof y);
        same = !strcmp(x, y);
    }
    return same;
}

int td_check_signature(const struct td_handle *handle, const struct td_kernel_def *def,
                       struct td_problem *problem)
{
    struct td_schema schema;
    struct td_problem why;
    if (!def->signature)
        return 0;
    int err = td_schema_parse(&schema, def->signature, &why);
    if (err)
        return td_problem_set(problem, -err, "%s: %s", def->signature, why.text);
    if (same_signature(&schema, &handle->schema))
        return 0;
    return td_problem_set(problem, EINVAL,
                          "%s: its kernel for %s (%s) was written for %s, but it is defined as %s "
                          "(%s): the types differ",
                          handle->full, td_key_name(def->key), def->origin, def->signature,
                          handle->op->schema, handle->origin);
}
