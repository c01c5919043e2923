/* Requests as the api is given them: "METHOD PATH?QUERY TYPE JSON_LENGTH PREFER" in the first line,
 * of which what is not given is left out, and the body behind it. Answers must be a status that
 * problems.def or a handler has, never 500, and a problem must have its sentence. */
#include "tests/fuzz/mutate.h"
#include "tests/fuzz/service.h"

#include <semaphore.h>
#include <unistd.h>

static sem_t replied;

static void defer(struct td_request *req)
{
    (void)req;
}

static void reply(struct td_request *req)
{
    (void)req;
    sem_post(&replied);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    sem_init(&replied, 0, 0);
    service_start();
    return 0;
}

/* The next word of the line, "" at its end; "-" stands for none. */
static const char *word(char **line)
{
    char *begin = *line;
    *line += strcspn(begin, " ");
    if (**line)
        *(*line)++ = 0;
    return strcmp(begin, "-") ? begin : "";
}

static void judge(const struct td_request *req)
{
    const struct td_response *res = &req->response;
    must(res->status >= 200 && res->status < 600 && res->status != 500);
    must(!res->problem == (res->status < 400) || res->status == 503);
    for (size_t i = 0; i < res->size; i++)
        must(req->body != res->body); /* nobody answers with what came */
}

static void handle(struct td_request *req, const uint8_t *body, size_t size)
{
    if (td_api_begin(req))
        return;
    if (size > td_api_body_limit(req))
        return;
    req->body = td_api_body(req, size);
    if (!req->body || td_api_body_fill(req, req->body, size))
        return;
    memcpy(req->body, body, size);
    req->body_size = size;
    if (td_api_handle(req) == -EINPROGRESS)
        while (sem_wait(&replied))
            continue;
}

/* Not those that change the process or look outside of it. */
static bool is_let_be(const struct td_request *req)
{
    return strstr(req->path, "pools") && req->method != TD_GET;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"};
    const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
    if (!end || end - data > 2000)
        return 0;
    char head[2048] = "", *line = head;
    memcpy(head, data, (size_t)(end - data));
    size_t n = size - (size_t)(end + 1 - data);
    struct td_arena *arena = td_arena_create();
    struct td_request *req = td_arena_zalloc(arena, sizeof *req);
    const char *method = word(&line);
    char *target = (char *)word(&line);
    *req = (struct td_request){.service = &service,
                               .arena = arena,
                               .method = TD_METHODS,
                               .query = "",
                               .content_length = n,
                               .begin_ns = td_now_ns(),
                               .local = true,
                               .home = "default",
                               .defer = defer,
                               .reply = reply};
    for (int i = 0; i < TD_METHODS; i++)
        if (!strcmp(method, methods[i]))
            req->method = (enum td_method)i;
    char *mark = strchr(target, '?');
    if (mark) {
        *mark = 0;
        req->query = mark + 1;
    }
    req->path = target;
    const char *type = word(&line), *length = word(&line), *prefer = word(&line);
    req->content_type = *type ? type : NULL;
    req->json_length_text = *length ? length : NULL;
    req->prefer = *prefer ? prefer : NULL;
    bool writes = req->method == TD_PUT || req->method == TD_DELETE || req->prefer ||
                  strstr(req->path, "/tasks");
    if (req->method != TD_METHODS && !is_let_be(req)) {
        handle(req, end + 1, n);
        if (req->response.status)
            judge(req);
        td_api_end(req, td_now_ns());
    }
    td_arena_destroy(arena);
    if (writes)
        service_renew();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    static const char *const words[] = {"\"inputs\"",
                                        "\"args\"",
                                        "\"shape\"",
                                        "\"datatype\"",
                                        "\"data\"",
                                        "\"name\"",
                                        "\"parameters\"",
                                        "\"outputs\"",
                                        "\"expr\"",
                                        "\"self\"",
                                        "\"other\"",
                                        "\"binary_data_size\"",
                                        "\"binary_data\"",
                                        "\"binary_data_output\"",
                                        "\"explain\"",
                                        "\"kernel\"",
                                        "\"streams\"",
                                        "\"device\"",
                                        "\"meta\"",
                                        "\"layout\"",
                                        "\"autocast\"",
                                        "\"requires_grad\"",
                                        "\"timeout_ms\"",
                                        "\"priority\"",
                                        "\"pool\"",
                                        "\"keys\"",
                                        "\"trace\"",
                                        "\"id\"",
                                        "\"FP32\"",
                                        "\"BF16\"",
                                        "\"INT64\"",
                                        "\"UINT64\"",
                                        "\"BOOL\"",
                                        "\"stored\"",
                                        "\"dim\"",
                                        ":",
                                        ",",
                                        "{",
                                        "}",
                                        "[",
                                        "]",
                                        "respond-async",
                                        "application/json",
                                        "application/octet-stream",
                                        "application/x-npy",
                                        "application/x-safetensors"};
    unsigned state = seed;
    if (!chance(&state, 6))
        return LLVMFuzzerMutate(data, size, most);
    for (unsigned i = 0; i <= chance(&state, 3); i++)
        size = mutate_text(data, size, most, &state, words, sizeof words / sizeof *words);
    return size;
}
