/* GET /v1/kernels/{op}/code: the code of a generated loop that has the operator in it, or of one of
 * its compiled kernels. */
#include "kernels/jit/code.h"
#include "api/routes/routes.h"
#include "api/web/web.h"
#include "dispatch/dispatch.h"
#include "kernels/jit/functions.h"
#include "kernels/loops/fused.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- either ---- */

typedef void print_code(const void *what, FILE *to);

/* Its bytes, or what print makes of it. */
static int send_code(struct td_request *req, struct td_response *res, const void *code,
                     size_t bytes, print_code *print, const void *what)
{
    struct td_writer w;
    if (!td_asks_for(req, "Accept", "text/plain")) {
        res->status = 200;
        res->type = "application/octet-stream";
        res->body = code;
        res->size = bytes;
        return 0;
    }
    td_write_init(&w, req->arena, 16 * bytes + 4096);
    FILE *to = td_write_file(&w);
    if (!to)
        return td_api_problem(req, -ENOMEM, "no memory for the text");
    print(what, to);
    fclose(to);
    int err = td_write_response(&w, res, 200);
    if (!err)
        res->type = "text/plain; charset=utf-8";
    return err;
}

/* ---- generated loops ---- */

struct loop {
    int number;
    struct td_loop_view view;
};

static void print_loop(const void *what, FILE *to)
{
    const struct loop *loop = what;
    td_loop_print(loop->number, &loop->view, to);
}

static bool serves(const struct td_handle *handle, const char *name, const struct td_loop_view *v)
{
    bool one = strcmp(name, handle->schema.name) != 0;
    bool found = false;
    for (; handle && !found; handle = one ? NULL : handle->next)
        found = td_fused_has(v->name, handle->op);
    return found;
}

/* The loop that is asked for, else the one that was made last; -1: there is none, and the response
 * says so. */
static int find_loop(struct td_request *req, const struct td_handle *handle,
                     struct td_loop_view *view)
{
    struct td_loop_view v;
    long long wanted;
    int found = -1, made = 0;
    if (td_api_query_number(req, "loop", 0, TD_LOOP_KEPT - 1, -1, &wanted))
        return -1;
    for (int i = 0; td_loop_at(i, &v); i++) {
        if (!v.run || !serves(handle, req->var[0], &v))
            continue;
        made++;
        if (wanted < 0 || wanted == i) {
            found = i;
            *view = v;
        }
    }
    if (found < 0 && made)
        td_api_problem(req, -ENOENT,
                       "loop: %lld has no code with %.60s in it; GET /v1/kernels/"
                       "%.60s lists those that have",
                       wanted, req->var[0], req->var[0]);
    else if (found < 0)
        td_api_problem(req, -ENOENT,
                       "no code was generated with %.60s in it: it is where pointwise calls of "
                       "FP32 are computed together, in an expression (POST /v1/eval) of 4096 "
                       "elements or more, or in a model",
                       req->var[0]);
    return found;
}

static int send_loop(struct td_request *req, struct td_response *res,
                     const struct td_handle *handle)
{
    struct loop loop;
    loop.number = find_loop(req, handle, &loop.view);
    return loop.number < 0
               ? -ENOENT
               : send_code(req, res, loop.view.code, loop.view.bytes, print_loop, &loop);
}

/* ---- compiled kernels ---- */

/* The first row that has the name and takes the type, of those that run here if there are any;
 * NULL: there is none. */
static const struct td_impl *find_row(const struct td_request *req, const struct td_handle *handle,
                                      const char *kernel, enum td_dtype dtype)
{
    bool one = strcmp(req->var[0], handle->schema.name) != 0;
    const struct td_impl *found = NULL;
    for (; handle; handle = one ? NULL : handle->next)
        for (const struct td_impl *row = handle->op->impls; row->run; row++)
            if (td_row_is_named(row, kernel) &&
                (!dtype || row->dtypes & handle->op->dtypes & dtype) &&
                (!found || (td_impl_is_usable(row) && !td_impl_is_usable(found))))
                found = row;
    return found;
}

struct compiled {
    struct td_functions all;
    struct td_function f;
};

static void print_function(const void *what, FILE *to)
{
    const struct compiled *code = what;
    td_function_print(&code->all, &code->f, to);
}

/* The program's symbols; the response says why there are none. */
static int open_symbols(struct td_request *req, struct td_functions *all)
{
    int err = td_functions_open(all);
    if (err == -ENODATA)
        return td_api_problem(req, -ENOENT,
                              "kernel: this program was stripped of its symbols, which say where "
                              "a compiled kernel begins and ends; install it without --strip");
    bool is_short = err == -ENOMEM || err == -EMFILE || err == -ENFILE;
    return err ? td_api_problem(req, is_short ? -ENOMEM : -ENOENT,
                                "kernel: the program's file cannot be read: %s", strerror(-err))
               : 0;
}

/* name: of the function, or NULL for the row's own. It takes some milliseconds, by a worker. */
static int send_row(struct td_request *req, struct td_response *res, const struct td_impl *row,
                    const char *name)
{
    struct compiled code;
    const struct td_functions *all = &code.all;
    struct td_function *f = &code.f;
    if (row->run == td_impl_absent)
        return td_api_problem(req, -ENOENT,
                              "kernel: %s is registered as absent at %s: there is no code of it",
                              row->name, td_isa_name(row->isa));
    if (row->library)
        return td_api_problem(
            req, -ENOENT,
            "kernel: %s is a library, which generates its code for each kind of calls and does not "
            "give it; with ONEDNN_JIT_DUMP=1 in the environment, and --sandbox off, oneDNN writes "
            "files dnnl_dump_cpu_*.bin of it to the folder where the server was started",
            row->name);
    if (!req->worker)
        return td_api_hand_over(req);
    int err = open_symbols(req, &code.all);
    if (err)
        return err;
    if (!td_function_of(all, (const void *)(uintptr_t)row->run, f))
        err = td_api_problem(req, -ENOENT, "kernel: %s has no symbol in this program", row->name);
    else if (!name || td_function_reaches(all, f, name, f))
        err = send_code(req, res, f->code, f->bytes, print_function, &code);
    else
        err = td_api_problem(req, -ENOENT,
                             "function: %s refers to no '%.60s'%s; its listing, by Accept: "
                             "text/plain, names those that it refers to",
                             f->name, name,
                             td_loop_disassembles() ? ""
                                                    : " that a build without a disassembler "
                                                      "could see");
    td_functions_close(&code.all);
    return err;
}

int td_api_kernels_code(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = td_api_find_op(req);
    const char *loop, *kernel, *datatype, *function;
    int err = handle ? td_api_query(req, "loop", &loop) : -ENOENT;
    err = err ? err : td_api_query(req, "kernel", &kernel);
    err = err ? err : td_api_query(req, "datatype", &datatype);
    err = err ? err : td_api_query(req, "function", &function);
    if (err)
        return err;
    if (!kernel && (datatype || function))
        return td_api_problem(req, -EINVAL,
                              "%s: is of a compiled kernel, which ?kernel= names, as simd or "
                              "simd@AVX2",
                              datatype ? "datatype" : "function");
    if (!kernel)
        return send_loop(req, res, handle);
    if (loop)
        return td_api_problem(req, -EINVAL,
                              "loop: is generated code, and kernel compiled code; "
                              "one of them is right");
    enum td_dtype dtype = datatype ? td_dtype_find(datatype) : TD_DTYPE_none;
    if (datatype && !dtype)
        return td_api_problem(req, -EINVAL, "datatype: there is no '%.20s'", datatype);
    const struct td_impl *row = find_row(req, handle, kernel, dtype);
    if (!row)
        return td_api_problem(req, -EINVAL,
                              "kernel: %.60s has no '%.40s'%s%s; GET /v1/kernels/%.60s lists those "
                              "that it has",
                              req->var[0], kernel, datatype ? " for " : "",
                              datatype ? td_dtype_name(dtype) : "", req->var[0]);
    return send_row(req, res, row, function);
}
