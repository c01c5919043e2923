/* The dispatcher's core: from a bound call and its keys to the kernel, over the operator's table.
 *
 * It works on calls whose data need not be there: a boxed kernel changes the call and passes it on,
 * and where the table names unboxed rows the call is settled, its results known by shape and type.
 * What is to be computed stands in the run then, and is computed later without any more dispatch
 * (dispatch/step/run.c). */
#include "dispatch/call/own.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the thread adds and takes away ---- */

static _Thread_local struct td_key_scope scope;

struct td_key_scope td_keys_enter(td_keyset include, td_keyset exclude)
{
    struct td_key_scope before = scope;
    scope.include |= include;
    scope.exclude |= exclude;
    return before;
}

void td_keys_leave(struct td_key_scope before)
{
    scope = before;
}

/* ---- the trace ---- */

size_t td_trace_format(const struct td_trace_line *line, char *text, size_t size)
{
    const struct td_run *run = line->run;
    int n = snprintf(text, size, "%*s[%s] op=[aten::%s], key=[%s]", 2 * line->depth, "",
                     line->redispatch ? "redispatch" : "call", run->handle->full,
                     td_key_name(line->key));
    size_t used = (size_t)n < size ? (size_t)n : size;
    if (run->impl && line->key == run->key)
        n += snprintf(text + used, size - used, ", kernel=[%s@%s], us=[%.3f]", run->impl->name,
                      td_isa_name(run->isa), (double)run->ns / 1000);
    return (size_t)n;
}

/* TENSORD_SHOW_DISPATCH_TRACE=1, or TORCH_SHOW_DISPATCH_TRACE as PyTorch has it, writes every line
 * to stderr as it happens. */
static bool to_stderr(void)
{
    static _Atomic int known; /* 1 no, 2 yes */
    if (!known) {
        const char *name = "TENSORD_SHOW_DISPATCH_TRACE", *said = getenv(name);
        if (!said)
            said = getenv(name = "TORCH_SHOW_DISPATCH_TRACE");
        if (said && strcmp(said, "0") && strcmp(said, "1"))
            fprintf(stderr, "tensord: %s: '%s' is neither 0 nor 1\n", name, said);
        known = said && !strcmp(said, "1") ? 2 : 1;
    }
    return known == 2;
}

static void note(struct td_run *run, enum td_key key, bool redispatch)
{
    struct td_trace *trace = run->options.trace;
    struct td_trace_line line = {
        .redispatch = redispatch, .depth = run->depth, .key = key, .run = run};
    if (trace && trace->n++ < TD_MAX_TRACE)
        trace->line[trace->n - 1] = line;
    if (to_stderr()) {
        char text[256];
        td_trace_format(&line, text, sizeof text);
        fprintf(stderr, "%s\n", text);
    }
}

/* ---- no kernel ---- */

int td_backends_of(const struct td_handle *handle, char *list, size_t size)
{
    const struct td_table *table = td_handle_table(handle);
    int n = 0;
    *list = 0;
    for (int i = 0; i < TD_TABLE_SIZE; i++) {
        size_t used = strlen(list);
        if (td_table_has_backend(table, i))
            snprintf(list + used, size - used, "%s%s", n++ ? ", " : "", td_key_name(td_key_at(i)));
    }
    return n;
}

static int no_kernel(struct td_run *run)
{
    char list[300];
    td_backends_of(run->handle, list, sizeof list);
    if (run->key == TD_KEY_Undefined && run->keys)
        return td_problem_set(
            &run->problem, ENOSYS,
            "could not run '%s': its keys are all excluded; it has kernels for: %s",
            run->handle->full, list);
    if (run->key == TD_KEY_Undefined)
        return td_problem_set(&run->problem, ENOSYS,
                              "could not run '%s': there is no tensor among its arguments to take "
                              "a backend from, and no fallback; it has kernels for: %s",
                              run->handle->full, list);
    const struct td_table *table = td_handle_table(run->handle);
    if (table->entry[td_key_index(run->key)].provenance == TD_FROM_ambiguous)
        return td_problem_set(&run->problem, ENOSYS,
                              "could not run '%s': it is composite but also has a kernel for one "
                              "of the backends behind AutogradOther, which is ambiguous",
                              run->handle->full);
    return td_problem_set(&run->problem, ENOSYS,
                          "could not run '%s' with arguments from the '%s' backend: the operator "
                          "has no kernel there, or this server was not made for it; it has kernels "
                          "for: %s",
                          run->handle->full, td_key_name(run->key), list);
}

/* ---- dispatch ---- */

static int go(struct td_run *run, td_keyset keys, bool redispatch)
{
    const struct td_table *table = atomic_load_explicit(&run->handle->table, memory_order_acquire);
    unsigned backend = 64 - (unsigned)__builtin_clzll((keys & TD_KEYSET_BACKENDS) << 1 | 1) - 1;
    keys &= table->through[backend];
    int index = td_keyset_index(keys);
    const struct td_registration *r = table->entry[index].from;
    enum td_key key = td_key_at(index);
    run->key = key;
    if (__builtin_expect(run->options.trace != NULL || to_stderr(), 0))
        note(run, key, redispatch);
    if (!r)
        return no_kernel(run);
    if (r->def.rows) {
        run->rows = r->def.rows;
        return td_run_settle(run);
    }
    if (td_key_functionality(key) > TD_KEY_SparseCsr)
        run->done |= td_keyset_of(td_key_functionality(key));
    run->depth++;
    run->sized = true;
    int err = r->def.boxed(run, keys);
    run->depth--;
    return err;
}

int td_dispatch(struct td_run *run)
{
    if (!run->keys) /* no tensor among the arguments: others may say which backend is meant */
        run->keys = td_handle_table(run->handle)->through[TD_BACKEND_none] &
                    td_keyset_of(TD_KEY_BackendSelect);
    run->keys = td_keyset_minus(run->keys | scope.include, scope.exclude);
    return go(run, run->keys, false);
}

int td_dispatch_keys(struct td_run *run, td_keyset keys)
{
    return go(run, keys, false);
}

int td_redispatch(struct td_run *run, td_keyset keys)
{
    return go(run, keys, true);
}

/* ---- for composites, and calls from C ---- */

/* Zeroes it but for arguments and results, which count only as far as they are written (of results
 * the first few: rules leave out what is 0). */
void td_run_clear(struct td_run *run, const struct td_options *options)
{
    memset(run, 0, offsetof(struct td_run, problem));
    memset(run->out, 0, 4 * sizeof *run->out);
    run->problem.text[0] = 0;
    run->call.arg = run->arg;
    run->call.out = run->out;
    run->node = run->with = -1;
    if (options)
        run->options = *options;
}

void td_run_copy(struct td_run *run, const struct td_run *from)
{
    memcpy(run, from, offsetof(struct td_run, problem));
    memcpy(run->arg, from->arg, (size_t)from->call.n_args * sizeof *from->arg);
    memcpy(run->out, from->out, (size_t)from->call.n_out * sizeof *from->out);
    run->problem.text[0] = 0;
    run->call.arg = run->arg;
    run->call.out = run->out;
    run->call.problem = &run->problem;
    run->call.prepared = NULL;
    run->prepared = (struct td_prepared){0};
    run->step = NULL;
    run->seen = NULL;
}

void td_param_default(const struct td_param *param, struct td_value *value)
{
    const struct td_value *def = &param->def;
    *value = *def;
    if (param->type.base == TD_BASE_ScalarType && def->kind == TD_KIND_str)
        *value =
            (struct td_value){.kind = TD_KIND_dtype, .dtype = td_dtype_find(param->default_str)};
    else if (def->kind == TD_KIND_str)
        value->str = param->default_str;
}

int td_run_bind_values(struct td_run *run, const struct td_handle *handle,
                       const struct td_value *values, td_keyset keys)
{
    run->handle = handle;
    run->call.op = handle->op;
    run->call.n_args = handle->schema.n_params;
    run->call.threads = 1;
    run->call.problem = &run->problem;
    run->keys = keys;
    memcpy(run->arg, values, (size_t)run->call.n_args * sizeof *values);
    for (int i = 0; i < run->call.n_args; i++) /* texts of defaults */
        if (values[i].kind == TD_KIND_str && !values[i].str)
            td_param_default(&handle->schema.param[i], &run->call.arg[i]);
    return td_dispatch_keys(run, keys);
}

const struct td_impl *td_rows_at(const struct td_handle *handle, td_keyset keys, td_boxed **boxed)
{
    const struct td_table *table = atomic_load_explicit(&handle->table, memory_order_acquire);
    const struct td_registration *r = table->entry[td_keyset_index(keys)].from;
    assert(r && "no kernel for these keys");
    *boxed = r->def.boxed;
    return r->def.rows;
}

int td_call_rows(const struct td_handle *handle, struct td_call *call, td_keyset keys,
                 void *scratch, td_boxed **boxed)
{
    const struct td_impl *rows = td_rows_at(handle, keys, boxed);
    assert(call->op == handle->op && "a call of another operator");
    assert(call->n_args == handle->schema.n_params && "not called by its own schema");
    if (*boxed)
        return 0;
    struct td_prepared prepared = {0};
    const struct td_impl *impl = td_rows_choose(rows, call, &prepared);
    call->scratch = scratch;
    call->prepared = &prepared;
    int err = td_impl_run(impl, call);
    td_prepared_release(&prepared);
    return err;
}
