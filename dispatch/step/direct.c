/* Calls from C, without a client's arguments: through a handle that was looked up once with the
 * caller's signature, unboxed, or by a stack of values. A kernel may be registered either way and
 * is called either way; what it was registered as is no business of the caller's. */
#include "dispatch/call/own.h"
#include "dispatch/registry/table.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

int td_handle_typed(const struct td_handle **handle, const char *op, const char *signature,
                    struct td_problem *problem)
{
    const struct td_handle *found = td_registry_find(op);
    *handle = NULL;
    if (!found || strcmp(found->full, op))
        return td_problem_set(problem, ENOENT, "no operator '%.60s'", op);
    struct td_kernel_def used = {
        .key = TD_KEY_Undefined, .signature = signature, .origin = "called from C"};
    int err = td_check_signature(found, &used, problem);
    if (!err)
        *handle = found;
    return err;
}

/* A boxed kernel for a call with its data in place: the kernel changes the call and names rows. */
static int unbox(const struct td_handle *handle, td_boxed *boxed, struct td_call *call,
                 td_keyset keys, void *scratch)
{
    struct td_run run;
    size_t bytes;
    td_run_clear(&run, NULL);
    run.handle = handle;
    run.keys = keys;
    run.call = *call;
    run.call.arg = run.arg;
    run.call.out = run.out;
    run.call.problem = &run.problem;
    memcpy(run.arg, call->arg, (size_t)call->n_args * sizeof *call->arg);
    memcpy(run.out, call->out, (size_t)call->n_out * sizeof *call->out);
    int err = boxed(&run, keys);
    assert(!err && "the kernel refuses the call");
    err = err ? err : td_run_select(&run, &bytes);
    for (int i = 0; i < call->n_out; i++)
        run.call.out[i].data = call->out[i].data;
    if (!err)
        td_run_execute(&run, scratch);
    td_run_release(&run);
    err = err ? err : run.error;
    if (err)
        return td_problem_set(call->problem, -err, "%s", run.problem.text);
    memcpy(call->out, run.call.out, (size_t)call->n_out * sizeof *call->out);
    return 0;
}

int td_call_unboxed(const struct td_handle *handle, struct td_call *call, td_keyset keys,
                    void *scratch)
{
    td_boxed *boxed;
    int err = td_call_rows(handle, call, keys, scratch, &boxed);
    return boxed ? unbox(handle, boxed, call, keys, scratch) : err;
}

int td_call_boxed(const struct td_handle *handle, struct td_stack *stack, td_keyset keys,
                  const struct td_options *options, struct td_problem *problem)
{
    int n = handle->schema.n_params;
    if (stack->n < n)
        return td_problem_set(problem, EINVAL, "%s: the stack has %d values; %d are its arguments",
                              handle->full, stack->n, n);
    struct td_run *run = options->alloc(options->alloc_arg, sizeof *run);
    size_t bytes;
    if (!run)
        return td_problem_set(problem, ENOMEM, "no memory for the call");
    td_run_clear(run, options);
    int err = td_run_bind_values(run, handle, &stack->v[stack->n - n], keys);
    err = err ? err : td_run_select(run, &bytes);
    if (err) {
        *problem = run->problem;
        return err;
    }
    stack->n -= n;
    void *scratch = options->alloc(options->alloc_arg, bytes + 1);
    for (int i = 0; i < run->call.n_out; i++) {
        struct td_tensor *out = &run->call.out[i];
        out->data = options->alloc(options->alloc_arg, td_nbytes(out) + 1);
        err = err || !scratch || !out->data ? -ENOMEM : 0;
    }
    if (!err)
        td_run_execute(run, scratch);
    td_run_release(run);
    if (err)
        return td_problem_set(problem, ENOMEM, "no memory for the results");
    if (run->error) {
        stack->n += n;
        *problem = run->problem;
        return run->error;
    }
    for (int i = 0; i < run->call.n_out; i++)
        stack->v[stack->n++] =
            (struct td_value){.kind = TD_KIND_tensor, .tensor = run->call.out[i]};
    return 0;
}
