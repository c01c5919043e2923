/* `tensord run`: a model once, without a server. It asks the handlers of the api, as a client would
 * do: the model and the inputs are stored, and then it is called; so what it says is what the
 * server would. All of it happens on one worker of a pool on all CPUs. */
#include "server/commands/run.h"
#include "server/commands/commands.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- asking ---- */

struct answer {
    struct td_arena *arena;
    struct td_request *req;
};

static void forget(struct answer *answer)
{
    if (answer->req)
        td_api_end(answer->req, td_now_ns());
    td_arena_destroy(answer->arena);
    *answer = (struct answer){NULL};
}

/* Says on standard error what a problem says. */
static void say(const struct td_response *res)
{
    struct td_json json;
    struct td_problem problem;
    int err = td_json_parse(&json, res->body, res->size, 8, &problem);
    const cJSON *detail = err ? NULL : td_json_member(json.root, "detail");
    fprintf(stderr, "tensord: run: %s\n", cJSON_IsString(detail) ? detail->valuestring : "failed");
    td_json_free(&json);
}

/* A request of a body that lies in the answer's arena, for which that has been made. 0, or 1 when
 * the answer is a problem, which has been said. */
static int ask(struct td_once *once, struct answer *answer, enum td_method method, const char *path,
               char *body, size_t size, const char *type, const char *beside)
{
    struct td_request *req = td_arena_zalloc(answer->arena, sizeof *req);
    if (!req)
        return td_once_fail("out of memory");
    *req = (struct td_request){.service = &once->service,
                               .arena = answer->arena,
                               .method = method,
                               .path = path,
                               .query = "",
                               .content_type = type,
                               .content_length = size,
                               .begin_ns = td_now_ns(),
                               .local = true,
                               .beside = beside,
                               .worker = once->worker};
    answer->req = req;
    if (!td_api_begin(req)) {
        req->body = body;
        req->body_size = size;
        td_api_handle(req);
    }
    if (req->response.status < 300)
        return 0;
    say(&req->response);
    return 1;
}

/* The same with a file as the body. */
static int ask_file(struct td_once *once, const char *path, const char *file, const char *type)
{
    struct answer answer = {td_arena_create(), NULL};
    struct td_problem problem = {"out of memory"};
    size_t size;
    char *body = answer.arena ? td_read_file(answer.arena, file, &size, &problem) : NULL;
    const char *slash = strrchr(file, '/');
    char *beside = !body ? NULL
                         : td_arena_strdup(answer.arena, slash ? file : ".",
                                           slash > file ? (size_t)(slash - file) : 1);
    int failed = !body    ? td_once_fail(problem.text)
                 : beside ? ask(once, &answer, TD_PUT, path, body, size, type, beside)
                          : td_once_fail("out of memory");
    forget(&answer);
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
        return td_once_fail("out of memory");
    if (!once->input[i][length])
        return td_once_fail("--input takes NAME=FILE.npy");
    if (ask_file(once, path, once->input[i] + length + 1, "application/x-npy"))
        return 1;
    td_write_open(call, NULL, '{');
    td_write_str(call, "name", name);
    td_write_open(call, "parameters", '{');
    td_write_str(call, "tensor", stored);
    td_write_close(call, '}');
    td_write_close(call, '}');
    return 0;
}

/* The call's JSON. */
static int write_call(struct td_once *once, struct td_writer *call, const cJSON *inputs)
{
    td_write_open(call, NULL, '{');
    td_write_open(call, "inputs", '[');
    for (int i = 0; i < once->n_inputs; i++)
        if (store_input(once, call, inputs, i))
            return 1;
    td_write_close(call, ']');
    td_write_open(call, "parameters", '{');
    td_write_bool(call, "binary_data_output", true);
    td_write_bool(call, "explain", once->explain || !once->json);
    td_write_bool(call, "eager", once->eager);
    td_write_close(call, '}');
    td_write_close(call, '}');
    return call->failed ? td_once_fail("out of memory") : 0;
}

/* What the server says of the model, parsed. */
static int describe(struct td_once *once, struct answer *answer, struct td_json *json)
{
    struct td_problem problem;
    *answer = (struct answer){td_arena_create(), NULL};
    td_json_init(json);
    if (!answer->arena)
        return td_once_fail("out of memory");
    if (ask(once, answer, TD_GET, "/v1/models/model", NULL, 0, NULL, NULL))
        return 1;
    const struct td_response *res = &answer->req->response;
    return td_json_parse(json, res->body, res->size, 8, &problem) ? td_once_fail(problem.text) : 0;
}

static int run(struct td_once *once)
{
    struct answer model = {NULL}, answer = {NULL};
    struct td_json json = {0};
    struct td_writer call;
    int failed =
        ask_file(once, "/v1/models/model", once->model, NULL) || describe(once, &model, &json);
    if (!failed) {
        answer.arena = td_arena_create();
        td_write_init(&call, answer.arena, 4096);
        failed = !answer.arena ? td_once_fail("out of memory")
                               : write_call(once, &call, td_json_member(json.root, "inputs"));
    }
    if (!failed)
        failed = ask(once, &answer, TD_POST, "/v2/models/model/infer", call.text, call.length, NULL,
                     NULL);
    if (!failed)
        failed = td_once_show(once, json.root, &answer.req->response);
    td_json_free(&json);
    forget(&answer);
    forget(&model);
    return failed;
}

/* ---- the worker ---- */

static int on_worker(void *args, struct td_worker *worker, char *problem, size_t problem_size)
{
    struct td_once *once = *(struct td_once **)args;
    (void)problem;
    (void)problem_size;
    once->worker = worker;
    once->failed = run(once);
    return 0;
}

/* Makes the machine and has a worker run it. */
static int run_on_pool(struct td_once *once)
{
    char problem[320] = "out of memory";
    struct td_pools *pools = NULL;
    struct td_pool_config config = td_pool_config_default("run");
    struct td_future *future = NULL;
    struct td_service *service = &once->service;
    service->limits = (struct td_limits){
        .body = SIZE_MAX / 4, .headers = 32768, .json_depth = 32, .store_bytes = SIZE_MAX / 4};
    int err = td_topology_create(&service->topology);
    if (!err)
        err = td_pools_create(&pools, service->topology);
    service->pools = pools;
    if (!err)
        err = td_pools_add(pools, &config, problem, sizeof problem);
    bool is_up = !err && !(err = td_service_init(service));
    struct td_pool *pool = is_up ? td_pools_find(pools, NULL) : NULL;
    struct td_future_config job = {
        .run = on_worker, .args = &once, .args_bytes = sizeof once, .what = "a model"};
    int result = 0;
    if (!err && !(err = td_future_submit(&future, pool, &job)))
        err = td_future_wait(future, -1, &result);
    td_future_unref(future);
    td_pool_unref(pool);
    td_pools_destroy(pools);
    if (is_up)
        td_service_fini(service);
    td_topology_destroy(service->topology);
    td_registry_fini();
    return err ? td_once_fail(problem) : once->failed;
}

/* ---- the command ---- */

static const char help[] =
    "usage: tensord run MODEL [OPTIONS]\n\n"
    "Runs a model once, an ONNX file or a PyTorch archive (.pt2), without a server.\n\n"
    "  --input NAME=FILE.npy   an input's elements; repeatable, one for each input\n"
    "  --output-dir DIR        writes each output there, as NAME.npy\n"
    "  --eager                 call by call as the file has them, nothing fused or packed\n"
    "  --explain               says what the run consisted of\n"
    "  --json                  the outputs with all their elements as JSON\n";

static int wrong(const char *what, const char *given)
{
    fprintf(stderr, "tensord: run: %s '%s'; see tensord run --help\n", what, given);
    return 2;
}

/* 0, or the exit status; -1: help was asked for. */
static int read_args(struct td_once *once, int argc, char **argv)
{
    for (int i = 0; i < argc; i++) {
        bool input = !strcmp(argv[i], "--input"), directory = !strcmp(argv[i], "--output-dir");
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h"))
            return -1;
        if ((input || directory) && i + 1 == argc)
            return wrong("no value for", argv[i]);
        if (input && once->n_inputs == TD_ONCE_INPUTS)
            return wrong("too many inputs from", argv[i + 1]);
        if (input && !strchr(argv[i + 1], '='))
            return wrong("--input takes NAME=FILE.npy and not", argv[i + 1]);
        if (input)
            once->input[once->n_inputs++] = argv[++i];
        else if (directory)
            once->directory = argv[++i];
        else if (!strcmp(argv[i], "--eager"))
            once->eager = true;
        else if (!strcmp(argv[i], "--explain"))
            once->explain = true;
        else if (!strcmp(argv[i], "--json"))
            once->json = true;
        else if (*argv[i] == '-')
            return td_command_no_option("run", argv[i]);
        else if (once->model)
            return wrong("one model is run, and not also", argv[i]);
        else
            once->model = argv[i];
    }
    return once->model ? 0 : wrong("MODEL is missing:", "a file");
}

int td_command_run(int argc, char **argv)
{
    struct td_once *once = calloc(1, sizeof *once);
    if (!once)
        return td_once_fail("out of memory");
    int status = read_args(once, argc, argv);
    if (status < 0)
        status = td_command_help("run", help);
    else if (!status && !(status = td_command_begin(NULL)))
        status = run_on_pool(once);
    free(once);
    return status;
}
