/* What is registered at the start: every operator's rows for the CPU, its reference for RefCPU (the
 * second backend, on the key that PyTorch leaves to private use), shapes alone for Meta, formulas
 * of composite operators, and the wrappers Autocast (autocast.c), Tracer, Autograd of operators
 * with derivatives, and BackendSelect of operators that make tensors of numbers alone. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"

#include <errno.h>

/* ---- Meta: what a call would give, without data ---- */

static int meta(struct td_run *run, td_keyset keys)
{
    (void)keys;
    run->rows = NULL;
    return td_run_settle(run);
}

/* ---- Tracer: has the kernels below it timed ---- */

static int tracer(struct td_run *run, td_keyset keys)
{
    run->timed = true;
    return td_redispatch(run, keys & td_keyset_below(TD_KEY_Tracer));
}

/* ---- BackendSelect: of operators without tensors ---- */

static const char *text_of(const struct td_run *run, enum td_base base)
{
    for (int i = 0; i < run->call.n_args; i++)
        if (run->handle->schema.param[i].type.base == base && run->call.arg[i].kind == TD_KIND_str)
            return run->call.arg[i].str;
    return NULL;
}

/* The key that arguments dtype, layout and device have together. */
static int backend_select(struct td_run *run, td_keyset keys)
{
    enum td_key key;
    enum td_dtype dtype = td_call_dtype(&run->call);
    int err =
        td_compute_key(&key, td_dtype_name(dtype ? dtype : TD_f32), text_of(run, TD_BASE_Layout),
                       text_of(run, TD_BASE_Device), &run->problem);
    return err ? err
               : td_redispatch(run,
                               (keys & td_keyset_below(TD_KEY_BackendSelect)) | td_keyset_of(key));
}

static bool is_factory(const struct td_schema *schema)
{
    bool device = false, tensor = false;
    for (int i = 0; i < schema->n_params; i++) {
        device |= schema->param[i].type.base == TD_BASE_Device;
        tensor |= schema->param[i].type.base == TD_BASE_Tensor;
    }
    return device && !tensor;
}

/* ---- registering it ---- */

static int register_op(const struct td_handle *handle, struct td_problem *problem)
{
    const struct td_op *op = handle->op;
    const struct td_impl *ref = op->impls;
    while (ref[1].run)
        ref++;
    struct td_kernel_def cpu = {
        .key = TD_KEY_CPU, .rows = op->impls, .signature = op->schema, .origin = handle->origin};
    struct td_kernel_def reference = cpu, composite = cpu;
    reference.key = TD_KEY_PrivateUse1;
    reference.rows = ref;
    composite.key = TD_KEY_CompositeImplicitAutograd;
    composite.rows = NULL;
    composite.boxed = td_kernel_composite;
    static const char *const nothing[] = {NULL};
    int err = op->composite ? td_formula_check(handle, op->composite, nothing, problem) : 0;
    const struct td_derivative *d = td_derivative_find(handle->full);
    struct td_kernel_def autograd = {
        .key = TD_KEY_Autograd, .boxed = td_kernel_autograd, .origin = TD_HERE};
    if (d && !err)
        err = td_register(handle->full, &autograd, NULL, problem);
    for (; d && !err; d = td_derivative_next(d))
        err = td_formula_check(handle, d->formula, td_derivative_words, problem);
    struct td_kernel_def select = {
        .key = TD_KEY_BackendSelect, .boxed = backend_select, .origin = TD_HERE};
    if (!err && is_factory(&handle->schema))
        err = td_register(handle->full, &select, NULL, problem);
    err = err ? err : td_register(handle->full, &cpu, NULL, problem);
    return err ? err
               : td_register(handle->full, op->composite ? &composite : &reference, NULL, problem);
}

static int register_all(struct td_problem *problem)
{
    static const struct td_kernel_def every[] = {
        {.key = TD_KEY_Meta, .boxed = meta, .origin = TD_HERE},
        {.key = TD_KEY_Tracer, .boxed = tracer, .origin = TD_HERE},
        {.key = TD_KEY_AutocastCPU, .origin = TD_HERE}, /* falls through, as those below */
        {.key = TD_KEY_BackendSelect, .origin = TD_HERE},
        {.key = TD_KEY_ADInplaceOrView, .origin = TD_HERE},
        {.key = TD_KEY_AutogradOther, .origin = TD_HERE},
    };
    int err = td_backend_rename(TD_BACKEND_PrivateUse1, "RefCPU");
    for (size_t i = 0; i < sizeof every / sizeof *every && !err; i++)
        err = td_register_fallback(&every[i], NULL, problem);
    /* Without a derivative nothing is recorded: these keys stand in front at no cost. */
    for (int b = 1; b < TD_BACKENDS_END && !err; b++) {
        struct td_kernel_def through = {
            .key = td_key_runtime(TD_KEY_AutogradFunctionality, (enum td_backend)b),
            .origin = TD_HERE};
        err = td_register_fallback(&through, NULL, problem);
    }
    for (int i = 0; i < td_registry_count() && !err; i++)
        err = register_op(td_registry_at(i), problem);
    return err ? err : td_autocast_register(problem);
}

int td_registry_init(struct td_problem *problem)
{
    if (td_registry_count())
        return 0;
    td_graph_init();
    int err = td_registry_define(problem);
    if (!err)
        err = register_all(problem);
    if (!err)
        err = td_registry_open(problem);
    if (err)
        td_registry_fini();
    return err;
}
