/* The data of a bound call's arguments: as they came, and converted to what the kernel takes. */
#include "dispatch/call/own.h"
#include "kernels/weight.h"

#include <assert.h>

struct casting {
    const struct td_run *run;
    const struct td_tensor *to;
};

/* td_weight_fill: converts by the cast operator's own kernels. */
static int convert(void *out, const struct td_tensor *from, void *arg)
{
    const struct casting *c = arg;
    const struct td_handle *handle = td_registry_find("cast");
    assert(handle);
    struct td_value args[2] = {{.kind = TD_KIND_tensor, .tensor = *from},
                               {.kind = TD_KIND_dtype, .dtype = c->to->dtype}};
    struct td_tensor to = *from; /* a rule may see it in another shape */
    struct td_call call = {.op = handle->op,
                           .n_args = 2,
                           .arg = args,
                           .n_out = 1,
                           .out = &to,
                           .threads = c->run->call.threads,
                           .problem = c->run->call.problem};
    to.dtype = c->to->dtype;
    to.data = out;
    to.weight = NULL;
    to.stride = NULL;
    td_boxed *boxed;
    int err = td_call_rows(handle, &call, td_keyset_of(c->run->key), NULL, &boxed);
    assert(!boxed && "cast has rows on every backend");
    return err;
}

int td_run_convert_stored(const struct td_run *run, int i)
{
    const struct td_tensor *to = &run->call.arg[run->cast[i].arg].tensor;
    struct casting casting = {run, to};
    return td_weight_convert(to->weight, convert, &casting);
}

bool td_run_reads(const struct td_run *run, int arg)
{
    return run->call.op->follows >> arg & 1 || !td_call_is_nothing(&run->call);
}

int td_run_convert_input(struct td_run *run, int i, void *room)
{
    struct td_tensor *to = &run->call.arg[run->cast[i].arg].tensor;
    struct casting casting = {run, to};
    if (to->weight)
        return td_run_convert_stored(run, i);
    to->data = room;
    return convert(room, &run->cast[i].from, &casting);
}

const void *td_run_input(const struct td_run *run, int arg)
{
    for (int i = 0; i < run->n_casts; i++)
        if (run->cast[i].arg == arg)
            return run->cast[i].from.data;
    return run->call.arg[arg].kind == TD_KIND_tensor ? run->call.arg[arg].tensor.data : NULL;
}

void td_run_set_input(struct td_run *run, int arg, void *data)
{
    for (int i = 0; i < run->n_casts; i++)
        if (run->cast[i].arg == arg) {
            run->cast[i].from.data = data;
            return;
        }
    run->call.arg[arg].tensor.data = data;
}
