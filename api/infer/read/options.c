/* The part of a request that speaks to the dispatcher: devices and layouts, key sets, trace and
 * autocast. */
#include "api/infer/call.h"

#include <errno.h>
#include <string.h>

static int read_text(const cJSON *parameters, const char *key, const char **text,
                     struct td_problem *problem)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(parameters, key);
    if (!item || cJSON_IsNull(item))
        return 0;
    if (!cJSON_IsString(item))
        return td_infer_refuse(problem, key, "must be a text");
    *text = item->valuestring;
    return 0;
}

int td_infer_key_defaults(struct td_infer *in, const cJSON *parameters, struct td_problem *problem)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(parameters, "meta");
    if (meta && !cJSON_IsBool(meta))
        return td_infer_refuse(problem, "meta", "must be true or false");
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
        return td_infer_refuse(problem, item->string, "must be an array of key names");
    cJSON_ArrayForEach(one, item)
    {
        if (!cJSON_IsString(one))
            return td_infer_refuse(problem, item->string, "must be an array of key names");
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
    enum td_dtype dtype = td_dtype_called(name);
    if (cJSON_IsNull(item))
        return 0;
    if (!(dtype & (TD_bf16 | TD_f16)))
        return td_infer_refuse(problem, "autocast", "must be \"BF16\" or \"FP16\"");
    in->options.autocast = dtype;
    in->scope.include |= td_keyset_of(TD_KEY_AutocastCPU);
    return 0;
}

static int read_trace(struct td_infer *in, const cJSON *item, struct td_problem *problem)
{
    if (!cJSON_IsBool(item))
        return td_infer_refuse(problem, "trace", "must be true or false");
    if (cJSON_IsFalse(item))
        return 0;
    in->options.trace = td_arena_zalloc(in->req->arena, sizeof *in->options.trace);
    if (!in->options.trace)
        return td_problem_set(problem, ENOMEM, "no memory for the trace");
    in->scope.include |= td_keyset_of(TD_KEY_Tracer);
    return 0;
}

bool td_infer_key_parameter(struct td_infer *in, const cJSON *item, int *err,
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
        return td_infer_refuse(problem, who, "requires_grad must be true or false");
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
