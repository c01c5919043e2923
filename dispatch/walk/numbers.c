/* Numbers passed for tensor parameters. Dispatch made tensors of them when it bound the call; here
 * these become items, so that a plan keeps them like all other constants. */
#include "dispatch/walk/walk.h"

#include <errno.h>
#include <string.h>

/* The number of the operator's parameter that args[k] is for. */
static int param_of(const struct td_handle *handle, const struct td_given *args, int k)
{
    int i = 0;
    if (args[k].name)
        return td_schema_find(&handle->schema, args[k].name);
    for (int j = 0; j < k; j++)
        i += !args[j].name;
    return i;
}

int td_walk_keep_numbers(struct td_walk *walk, struct td_given *args, int n_args)
{
    const struct td_run *run = &walk->run;
    for (int k = 0; k < n_args; k++) {
        int i = param_of(run->handle, args, k);
        if (i < 0 || !(run->numbers >> i & 1))
            continue;
        struct td_tensor t = run->call.arg[i].tensor;
        for (int c = 0; c < run->n_casts; c++)
            t = run->cast[c].arg == i ? run->cast[c].from : t;
        struct td_block *block = td_block_make(walk, td_nbytes(&t));
        if (!block)
            return td_problem_set(walk->problem, ENOMEM, "no memory for a tensor");
        t.data = memcpy(block->data, t.data, td_nbytes(&t));
        args[k].item = (struct td_item){
            .v = {.kind = TD_KIND_tensor, .tensor = t}, .block = block, .varies = walk->varies};
    }
    return 0;
}
