/* The part of a request that speaks to the dispatcher: devices and layouts, key sets, trace and
 * autocast; and what the dispatcher has to say in the reply. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

static int refuse(struct td_problem *problem, const char *who, const char *what)
{
    return td_problem_set(problem, EINVAL, "%s: %s", who, what);
}

static int read_text(const cJSON *parameters, const char *key, const char **text,
                     struct td_problem *problem)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(parameters, key);
    if (!item)
        return 0;
    if (!cJSON_IsString(item))
        return refuse(problem, key, "must be a text");
    *text = item->valuestring;
    return 0;
}

int td_infer_dispatch_defaults(struct td_infer *in, const cJSON *parameters,
                               struct td_problem *problem)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(parameters, "meta");
    if (meta && !cJSON_IsBool(meta))
        return refuse(problem, "meta", "must be true or false");
    if (cJSON_IsTrue(meta)) {
        in->meta = true;
        in->scope.include |= td_keyset_of(TD_KEY_Meta);
    }
    int err = read_text(parameters, "device", &in->device, problem);
    return err ? err : read_text(parameters, "layout", &in->layout, problem);
}

bool td_infer_is_meta(const struct td_infer *in, const cJSON *parameters)
{
    const cJSON *own = cJSON_GetObjectItemCaseSensitive(parameters, "device");
    const char *device = cJSON_IsString(own) ? own->valuestring : in->device;
    return in->meta || (device && !strcmp(device, "meta"));
}

static int read_keys(const cJSON *item, td_keyset *keys, struct td_problem *problem)
{
    const cJSON *one;
    if (!cJSON_IsArray(item))
        return refuse(problem, item->string, "must be an array of key names");
    cJSON_ArrayForEach(one, item)
    {
        if (!cJSON_IsString(one))
            return refuse(problem, item->string, "must be an array of key names");
        enum td_key key = td_key_find(one->valuestring);
        if (key == TD_KEYS)
            return td_key_refuse(item->string, one->valuestring, problem);
        if (!td_keyset_of(key))
            return td_problem_set(problem, EINVAL,
                                  "%s: %s names no single key and is never in a set; GET "
                                  "/v1/dispatch/keys lists those that are",
                                  item->string, one->valuestring);
        *keys |= td_keyset_of(key);
    }
    return 0;
}

static int read_autocast(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    const char *name = cJSON_IsString(item) ? item->valuestring : "";
    enum td_dtype dtype = td_dtype_find(name);
    if (cJSON_IsNull(item))
        return 0;
    if (!(dtype & (TD_bf16 | TD_f16)))
        return refuse(problem, "autocast", "must be \"BF16\" or \"FP16\"");
    in->options.autocast = dtype;
    in->scope.include |= td_keyset_of(TD_KEY_AutocastCPU);
    return 0;
}

static int read_trace(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    if (!cJSON_IsBool(item))
        return refuse(problem, "trace", "must be true or false");
    if (cJSON_IsFalse(item))
        return 0;
    in->options.trace = td_arena_zalloc(in->req->arena, sizeof *in->options.trace);
    if (!in->options.trace)
        return td_problem_set(problem, ENOMEM, "no memory for the trace");
    in->scope.include |= td_keyset_of(TD_KEY_Tracer);
    return 0;
}

bool td_infer_dispatch_parameter(struct td_infer *in, const cJSON *item, int *err,
                                 struct td_problem *problem)
{
    const char *key = item->string;
    if (!strcmp(key, "device") || !strcmp(key, "layout") || !strcmp(key, "meta"))
        *err = 0; /* known already */
    else if (!strcmp(key, "trace"))
        *err = read_trace(in, item, problem);
    else if (!strcmp(key, "autocast"))
        *err = read_autocast(in, item, problem);
    else if (!strcmp(key, "include_keys"))
        *err = read_keys(item, &in->scope.include, problem);
    else if (!strcmp(key, "exclude_keys"))
        *err = read_keys(item, &in->scope.exclude, problem);
    else
        return false;
    return true;
}

int td_infer_keys(struct td_infer *in, const cJSON *parameters, const struct td_tensor *t,
                  const char *who, td_keyset *keys, struct td_problem *problem)
{
    const char *device = in->device, *layout = in->layout;
    int err = parameters ? read_text(parameters, "device", &device, problem) : 0;
    if (!err && parameters)
        err = read_text(parameters, "layout", &layout, problem);
    const cJSON *grad = cJSON_GetObjectItemCaseSensitive(parameters, "requires_grad");
    if (err || (!device && !layout && !grad))
        return err;
    if (grad && !cJSON_IsBool(grad))
        return refuse(problem, who, "requires_grad must be true or false");
    enum td_key key = TD_KEY_Undefined;
    struct td_problem why;
    if ((err = td_compute_key(&key, td_dtype_name(t->dtype), layout, device, &why)))
        return td_problem_set(problem, -err, "%s: %s", who, why.text);
    *keys = td_keyset_of(key);
    enum td_backend backend = td_key_backend(key);
    if (cJSON_IsTrue(grad))
        *keys |= td_keyset_of(backend ? td_key_runtime(TD_KEY_AutogradFunctionality, backend)
                                      : TD_KEY_AutogradOther);
    return 0;
}

/* ---- the reply ---- */

static void write_candidates(struct td_writer *w, const struct td_run *run)
{
    struct td_why why[24];
    int n = td_run_explain(run, why, 24);
    td_write_open(w, "candidates", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "kernel", why[i].impl->name);
        td_write_str(w, "isa", td_isa_name(td_impl_isa(why[i].impl)));
        td_write_str(w, "verdict", why[i].reason);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

static void write_parts(struct td_writer *w, const struct td_run *run)
{
    td_write_open(w, "parts", '[');
    for (const struct td_run *part = run->parts; part; part = part->next) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "operator", part->handle->full);
        td_write_str(w, "key", td_key_name(part->key));
        write_candidates(w, part);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

static void write_explain(struct td_infer *in, struct td_writer *w)
{
    const struct td_run *run = &in->run;
    const struct td_table *table = td_handle_table(run->handle);
    td_write_open(w, "explain", '{');
    td_write_str(w, "operator", run->handle->full);
    td_write_str(w, "schema", run->handle->op->schema);
    td_write_keys(w, "keyset", run->keys);
    td_write_str(w, "key", td_key_name(run->key));
    td_write_str(w, "provenance",
                 td_provenance_name(table->entry[td_key_index(run->key)].provenance));
    td_write_int(w, "threads", run->call.threads);
    td_write_int(w, "promoted", run->n_casts);
    td_write_bool(w, "inline", in->ran_inline);
    td_write_num(w, "estimate_us", td_run_estimate(run) * 1e6);
    write_candidates(w, run);
    if (run->parts)
        write_parts(w, run);
    td_write_close(w, '}');
}

static void write_trace(struct td_infer *in, struct td_writer *w)
{
    const struct td_trace *trace = in->options.trace;
    td_write_open(w, "trace", '[');
    for (int i = 0; i < trace->n && i < TD_MAX_TRACE; i++) {
        char line[256];
        td_trace_format(&trace->line[i], line, sizeof line);
        td_write_str(w, NULL, line);
    }
    td_write_close(w, ']');
}

void td_infer_write_dispatch(struct td_infer *in, struct td_writer *w)
{
    if (in->explain)
        write_explain(in, w);
    if (in->options.trace)
        write_trace(in, w);
}

int td_infer_no_kernel(struct td_infer *in)
{
    struct td_request *req = in->req;
    struct td_writer w;
    td_api_problem_begin(req, &w, -ENOSYS, in->run.problem.text);
    td_write_str(&w, "operator", in->run.handle->full);
    td_write_str(&w, "key", td_key_name(in->run.key));
    td_write_keys(&w, "keyset", in->run.keys);
    td_write_table(&w, in->run.handle);
    if (in->options.trace)
        write_trace(in, &w);
    return td_api_problem_end(req, &w, -ENOSYS);
}
