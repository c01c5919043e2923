/* A model without a server, for `tensord run` and `tensord bench`. It asks the handlers of the api,
 * as a client would do: the model and the inputs are stored, and then it is called; so what it says
 * is what the server would. */
#include "api/files/files.h"
#include "server/commands/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_once_fail(const struct td_once *once, const char *why)
{
    if (once->why)
        snprintf(once->why, once->why_size, "%s", why);
    else
        fprintf(stderr, "tensord: %s: %s\n", once->word, why);
    return 1;
}

/* ---- asking ---- */

void td_once_forget(struct td_answer *answer)
{
    if (answer->req)
        td_api_end(answer->req, td_now_ns());
    td_arena_destroy(answer->arena);
    *answer = (struct td_answer){NULL};
}

/* Says on standard error what a problem says. */
static void say(const struct td_once *once, const struct td_response *res)
{
    struct td_json json;
    struct td_problem problem;
    int err = td_json_parse(&json, res->body, res->size, 8, &problem);
    const cJSON *detail = err ? NULL : td_json_member(json.root, "detail");
    td_once_fail(once, cJSON_IsString(detail) ? detail->valuestring : "failed");
    td_json_free(&json);
}

int td_once_ask(struct td_once *once, struct td_worker *worker, struct td_answer *answer,
                const struct td_ask *what)
{
    struct td_request *req = td_arena_zalloc(answer->arena, sizeof *req);
    if (!req)
        return td_once_fail(once, "out of memory");
    *req = (struct td_request){.service = &once->service,
                               .arena = answer->arena,
                               .method = what->method,
                               .path = what->path,
                               .query = "",
                               .content_type = what->type,
                               .content_length = what->size,
                               .begin_ns = td_now_ns(),
                               .header = what->header,
                               .local = true,
                               .beside = what->beside,
                               .worker = worker};
    answer->req = req;
    if (!td_api_begin(req)) {
        req->body = what->body;
        req->body_size = what->size;
        td_api_handle(req);
    }
    if (req->response.status < 300)
        return 0;
    say(once, &req->response);
    return 1;
}

int td_once_infer(struct td_once *once, struct td_worker *worker, struct td_answer *answer,
                  char *call, size_t size)
{
    return td_once_ask(once, worker, answer,
                       &(struct td_ask){TD_POST, "/v2/models/model/infer", call, size, NULL, NULL});
}

int td_once_put_bytes(struct td_once *once, const char *path, struct td_arena *arena, char *bytes,
                      size_t size, const char *type, const char *beside)
{
    struct td_answer answer = {arena, NULL};
    td_arena_ref(arena);
    int failed = td_once_ask(once, once->worker, &answer,
                             &(struct td_ask){TD_PUT, path, bytes, size, type, beside});
    td_once_forget(&answer);
    return failed;
}

int td_once_put(struct td_once *once, const char *path, const char *file, const char *type)
{
    struct td_arena *arena = td_arena_create();
    struct td_problem problem = {"out of memory"};
    size_t size;
    char *body = arena ? td_read_file(arena, file, &size, &problem) : NULL;
    const char *slash = strrchr(file, '/');
    char *beside = !body ? NULL
                         : td_arena_strdup(arena, slash ? file : ".",
                                           slash > file ? (size_t)(slash - file) : 1);
    int failed = !body    ? td_once_fail(once, problem.text)
                 : beside ? td_once_put_bytes(once, path, arena, body, size, type, beside)
                          : td_once_fail(once, "out of memory");
    td_arena_destroy(arena);
    return failed;
}

/* ---- inputs ---- */

/* The longest name of an input that NAME=FILE begins with, as names may hold anything. */
static const char *match(const cJSON *inputs, const char *given, size_t *length)
{
    const cJSON *input;
    const char *found = NULL;
    *length = 0;
    cJSON_ArrayForEach(input, inputs)
    {
        const char *name = td_json_member(input, "name")->valuestring;
        size_t n = strlen(name);
        if (!strncmp(given, name, n) && given[n] == '=' && (!found || n > *length)) {
            found = name;
            *length = n;
        }
    }
    return found;
}

static void write_input(struct td_writer *call, const char *name, const char *stored)
{
    td_write_open(call, NULL, '{');
    td_write_str(call, "name", name);
    td_write_open(call, "parameters", '{');
    td_write_str(call, "tensor", stored);
    td_write_close(call, '}');
    td_write_close(call, '}');
}

/* Stores an input's file under its number, and puts it into the call. */
static int store_input(struct td_once *once, struct td_writer *call, const cJSON *inputs, int i)
{
    char path[64], stored[32];
    size_t length;
    const char *name = match(inputs, once->input[i], &length);
    snprintf(stored, sizeof stored, "input%d", i);
    snprintf(path, sizeof path, "/v1/tensors/%s", stored);
    if (!name) { /* what the call then says lists those that there are */
        length = strcspn(once->input[i], "=");
        name = td_arena_strdup(call->arena, once->input[i], length);
    }
    if (!name)
        return td_once_fail(once, "out of memory");
    if (!once->input[i][length])
        return td_once_fail(once, "--input takes NAME=FILE.npy");
    if (td_once_put(once, path, once->input[i] + length + 1, "application/x-npy"))
        return 1;
    write_input(call, name, stored);
    return 0;
}

/* ---- inputs that are made ---- */

/* Reads "NAME=1,3,224" into the tensor's shape. */
static bool read_shape(const char *text, struct td_tensor *tensor)
{
    tensor->rank = 0;
    for (char *end; *text; text = *end ? end + 1 : end) {
        long long size = strtoll(text, &end, 10);
        if (end == text || (*end && *end != ',') || size < 0 || size > INT32_MAX ||
            tensor->rank == TD_MAX_RANK)
            return false;
        tensor->shape[tensor->rank++] = size;
    }
    return true;
}

/* The shape of an input: that of --shape, or its own. 1: why there is none. */
static int find_shape(const struct td_once *once, const cJSON *input, struct td_tensor *tensor,
                      char *why, size_t size)
{
    const char *name = td_json_member(input, "name")->valuestring;
    const cJSON *shape = td_json_member(input, "shape"), *one;
    char own[200] = "", try[200] = "";
    bool is_free = false;
    for (int i = 0; i < once->n_shapes; i++) {
        size_t n = strlen(name);
        if (strncmp(once->shape[i], name, n) || once->shape[i][n] != '=')
            continue;
        if (read_shape(once->shape[i] + n + 1, tensor))
            return 0;
        snprintf(why, size, "--shape %.200s: NAME=1,3,224,224 is right", once->shape[i]);
        return 1;
    }
    tensor->rank = 0;
    cJSON_ArrayForEach(one, shape)
    {
        size_t n = strlen(own), k = strlen(try);
        bool any = one->valuedouble < 0;
        is_free |= any;
        if (tensor->rank < TD_MAX_RANK)
            tensor->shape[tensor->rank++] = (int64_t)one->valuedouble;
        snprintf(own + n, sizeof own - n, "%s%.0f", n ? "," : "", one->valuedouble);
        snprintf(try + k, sizeof try - k, "%s%.0f", k ? "," : "", any ? 1 : one->valuedouble);
    }
    if (!is_free)
        return 0;
    snprintf(
        why, size,
        "input %.100s is [%s], where -1 may be any size: say which, as in --shape %.100s=%s, or "
        "give its elements, --input %.100s=FILE.npy",
        name, own, name, try, name);
    return 1;
}

/* Stores small numbers for an input that no file was named for, of the shape that was, or that the
 * model tells. */
static int store_numbers(struct td_once *once, struct td_writer *call, const cJSON *input)
{
    const char *name = td_json_member(input, "name")->valuestring;
    struct td_answer answer = {td_arena_create(), NULL};
    struct td_tensor tensor = {.data = NULL};
    struct td_writer body;
    char path[64], stored[32], why[1000];
    struct td_problem problem;
    if (!answer.arena)
        return td_once_fail(once, "out of memory");
    int failed = td_json_dtype(input, &tensor, name, &problem) ? td_once_fail(once, problem.text)
                 : find_shape(once, input, &tensor, why, sizeof why) ? td_once_fail(once, why)
                                                                     : 0;
    int filled =
        failed || !once->fill_named ? 1 : once->fill_named(once, name, answer.arena, &tensor);
    if (!failed && (filled == 1 ? once->fill(answer.arena, &tensor) : filled))
        failed = td_once_fail(once, "out of memory");
    if (!failed) {
        snprintf(stored, sizeof stored, "numbers%d", once->n_numbers++);
        snprintf(path, sizeof path, "/v1/tensors/%s", stored);
        td_write_init(&body, answer.arena, 4096);
        td_write_open(&body, NULL, '{');
        td_write_str(&body, "datatype", td_dtype_name(tensor.dtype));
        td_write_shape(&body, &tensor);
        td_write_data(&body, &tensor);
        td_write_close(&body, '}');
        failed = body.failed ? td_once_fail(once, "out of memory")
                             : td_once_ask(once, once->worker, &answer,
                                           &(struct td_ask){TD_PUT, path, body.text, body.length,
                                                            "application/json", NULL});
    }
    td_once_forget(&answer);
    if (!failed)
        write_input(call, name, stored);
    return failed;
}

/* Whether a file is named for it. */
static bool is_given(const struct td_once *once, const cJSON *inputs, const cJSON *input)
{
    for (int i = 0; i < once->n_inputs; i++) {
        size_t length;
        const char *name = match(inputs, once->input[i], &length);
        if (name == td_json_member(input, "name")->valuestring)
            return true;
    }
    return false;
}

int td_once_store(struct td_once *once, struct td_writer *list, const cJSON *inputs)
{
    const cJSON *input;
    td_write_open(list, NULL, '[');
    for (int i = 0; i < once->n_inputs; i++)
        if (store_input(once, list, inputs, i))
            return 1;
    cJSON_ArrayForEach(input, inputs)
    {
        if (once->fill && !is_given(once, inputs, input) && store_numbers(once, list, input))
            return 1;
    }
    td_write_close(list, ']');
    return list->failed ? td_once_fail(once, "out of memory") : 0;
}

int td_once_write_call(struct td_once *once, struct td_writer *call, const struct td_writer *list,
                       const char *pool)
{
    td_write_open(call, NULL, '{');
    td_write_raw(call, "inputs", list->text, list->length);
    td_write_open(call, "parameters", '{');
    if (pool)
        td_write_str(call, "pool", pool);
    td_write_bool(call, "binary_data_output", true);
    td_write_bool(call, "explain", once->explains);
    td_write_bool(call, "eager", once->eager);
    if (once->streams)
        td_write_int(call, "streams", once->streams);
    else
        td_write_str(call, "session", ""); /* from where the model begins */
    td_write_close(call, '}');
    td_write_close(call, '}');
    return call->failed ? td_once_fail(once, "out of memory") : 0;
}

int td_once_describe(struct td_once *once, const char *path, struct td_answer *answer,
                     struct td_json *json)
{
    struct td_problem problem;
    *answer = (struct td_answer){td_arena_create(), NULL};
    td_json_init(json);
    if (!answer->arena)
        return td_once_fail(once, "out of memory");
    if (td_once_ask(once, once->worker, answer,
                    &(struct td_ask){TD_GET, path, NULL, 0, NULL, NULL}))
        return 1;
    const struct td_response *res = &answer->req->response;
    return td_json_parse(json, res->body, res->size, 16, &problem)
               ? td_once_fail(once, problem.text)
               : 0;
}

/* ---- the machine ---- */

static int on_worker(void *args, struct td_worker *worker, char *problem, size_t problem_size)
{
    struct td_once *once = *(struct td_once **)args;
    (void)problem;
    (void)problem_size;
    once->worker = worker;
    once->failed = once->run(once);
    return 0;
}

int td_once_on_pool(struct td_once *once, const char *name, int (*run)(struct td_once *once))
{
    struct td_pool *pool = td_pools_find(once->service.pools, name);
    struct td_future *future = NULL;
    struct td_future_config job = {
        .run = on_worker, .args = &once, .args_bytes = sizeof once, .what = "a model"};
    int result = 0;
    once->run = run;
    int err = td_future_submit(&future, pool, &job);
    if (!err)
        err = td_future_wait(future, -1, &result);
    td_future_unref(future);
    td_pool_unref(pool);
    return err ? td_once_fail(once, strerror(-err)) : once->failed;
}

int td_once_on_machine(struct td_once *once, const struct td_pool_config *configs, int n,
                       int (*run)(struct td_once *once))
{
    char problem[320] = "out of memory";
    struct td_pools *pools = NULL;
    struct td_service *service = &once->service;
    service->limits = (struct td_limits){
        .body = SIZE_MAX / 4, .headers = 32768, .json_depth = 32, .store_bytes = SIZE_MAX / 4};
    int err = td_topology_create(&service->topology);
    if (!err)
        err = td_pools_create(&pools, service->topology);
    service->pools = pools;
    for (int i = 0; i < n && !err; i++)
        err = td_pools_add(pools, &configs[i], problem, sizeof problem);
    bool is_up = !err && !(err = td_service_init(service));
    int failed = err ? td_once_fail(once, problem) : run(once);
    td_pools_destroy(pools);
    if (is_up)
        td_service_fini(service);
    td_topology_destroy(service->topology);
    td_registry_fini();
    return failed;
}
