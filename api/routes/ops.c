/* What operators there are: schemas, arguments, kernels with their levels and types. */
#include "api/infer/infer.h"
#include "api/routes/routes.h"
#include "kernels/trap.h"

#include <errno.h>
#include <string.h>

static void write_kernels(struct td_writer *w, const struct td_op *op)
{
    td_write_open(w, "kernels", '[');
    for (const struct td_impl *i = op->impls; i->run; i++) {
        if (i->run == td_impl_absent)
            continue;
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", i->name);
        td_write_str(w, "isa", td_isa_name(td_impl_isa(i, TD_DTYPE_none)));
        td_write_dtypes(w, i->dtypes & op->dtypes);
        td_write_levels(w, op, i);
        td_write_bool(w, "runnable", td_impl_is_usable(i) && !td_trap_bars(op, i));
        td_write_bar(w, op, i);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* With samples it says as well how arguments look that tests and page try it with. */
static void write_handle(struct td_writer *w, const struct td_handle *handle, bool samples)
{
    char schema[1024];
    td_schema_format(&handle->schema, schema, sizeof schema);
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", handle->full);
    td_write_str(w, "op", handle->schema.name);
    td_write_str(w, "overload", handle->schema.overload);
    td_write_str(w, "schema", schema);
    td_write_str(w, "doc", handle->op->doc);
    td_write_params(w, "arguments", handle->schema.param, handle->schema.n_params);
    td_write_params(w, "returns", handle->schema.ret, handle->schema.n_returns);
    td_write_dtypes(w, handle->op->dtypes);
    td_write_num(w, "ulp", handle->op->ulp);
    write_kernels(w, handle->op);
    if (samples) {
        td_write_open(w, "samples", '[');
        for (const char *const *sample = handle->op->samples; sample && *sample; sample++)
            td_write_str(w, NULL, *sample);
        td_write_close(w, ']');
    }
    td_write_close(w, '}');
}

void td_write_ops(struct td_writer *w)
{
    td_write_open(w, NULL, '{');
    td_write_open(w, "ops", '[');
    for (int i = 0; i < td_registry_count(); i++)
        write_handle(w, td_registry_at(i), false);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

const struct td_handle *td_api_find_op(struct td_request *req)
{
    const char *name = req->var[0] = td_op_called(req->var[0]);
    const struct td_handle *handle = td_registry_find(name);
    const char *near = handle ? NULL : td_op_nearest(name);
    if (!handle)
        td_api_problem(req, -ENOENT, "no operator '%.80s'%s%s%s; GET /v1/ops lists what there is",
                       name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return handle;
}

int td_api_ops_get(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = td_api_find_op(req);
    if (!handle)
        return -ENOENT;
    const char *name = req->var[0];
    bool one = strcmp(name, handle->schema.name) != 0;
    struct td_writer w;
    td_write_init(&w, req->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", name);
    td_write_open(&w, "overloads", '[');
    for (; handle; handle = one ? NULL : handle->next)
        write_handle(&w, handle, true);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_ops_run(struct td_request *req, struct td_response *res)
{
    const char *name = td_op_called(req->var[0]);
    (void)res;
    return td_api_infer(req, name, name);
}
