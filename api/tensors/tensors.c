/* The routes of stored tensors: bodies in three formats, listings, removal. */
#include "api/tensors/tensors.h"
#include "api/access/access.h"
#include "api/request/request.h"
#include "api/shm/shm.h"
#include "api/tensors/files.h"
#include "api/web/web.h"

#include <errno.h>
#include <string.h>

static void write_forms(struct td_writer *w, const struct td_weight *weight)
{
    for (const struct td_weight_form *f = td_weight_forms(weight); f; f = f->next) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "form", f->name);
        td_write_int(w, "bytes", (int64_t)f->bytes);
        td_write_close(w, '}');
        if (f->weight)
            write_forms(w, f->weight);
    }
}

static void write_tensor(struct td_writer *w, const char *name, const struct td_weight *weight,
                         bool data)
{
    const struct td_tensor *t = td_weight_tensor(weight);
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name);
    td_write_str(w, "datatype", td_dtype_name(t->dtype));
    td_write_shape(w, t);
    td_write_int(w, "bytes", (int64_t)td_nbytes(t));
    td_write_int(w, "total_bytes", (int64_t)td_weight_bytes(weight));
    td_write_open(w, "packed", '[');
    write_forms(w, weight);
    td_write_close(w, ']');
    if (data)
        td_write_data(w, t);
    td_write_close(w, '}');
}

static void write_budget(struct td_writer *w, const char *key, const struct td_budget *budget)
{
    td_write_open(w, key, '{');
    td_write_int(w, "bytes", (int64_t)budget->used);
    td_write_int(w, "limit_bytes", (int64_t)budget->limit);
    td_write_close(w, '}');
}

#define LISTED 100 /* bytes of a tensor's text, about */

static int no_tensor(struct td_request *req)
{
    return td_api_problem(req, -ENOENT, "no stored tensor '%.100s'; GET /v1/tensors lists them",
                          req->var[0]);
}

/* A .safetensors of them, whose references it takes; under their names without so many first bytes.
 */
static int answer_file(struct td_request *req, struct td_tensors_listed *list, int n, size_t skip)
{
    size_t bytes = 0;
    struct td_file_tensor *file = td_arena_alloc(req->arena, sizeof *file * (size_t)n + 1);
    for (int i = 0; i < n && file; i++) {
        file[i] = (struct td_file_tensor){list[i].name + skip, td_weight_tensor(list[i].weight)};
        bytes += td_nbytes(file[i].tensor);
    }
    bool bulk = td_api_is_bulk(req, 0, bytes);
    int err = bulk   ? 0
              : file ? td_safetensors_response(req, file, n, NULL)
                     : td_api_problem(req, -ENOMEM, "no memory for the reply");
    for (int i = 0; i < n; i++)
        td_weight_unref(&list[i].weight);
    return bulk ? td_api_hand_over(req) : err;
}

/* under: the tensors under that name alone; NULL: all. */
static int answer_list(struct td_request *req, struct td_response *res, const char *under)
{
    struct td_tensors_listed *list;
    struct td_writer w;
    if (td_api_is_bulk(req, LISTED * (size_t)td_tensors_count(req->service->tensors), 0))
        return td_api_hand_over(req);
    int n = td_tensors_list(req->service->tensors, req->arena, under, &list);
    if (n < 0)
        return td_api_problem(req, n, "no memory for the list");
    if (under && !n)
        return no_tensor(req);
    if (under && td_asks_for(req, "Accept", "application/x-safetensors"))
        return answer_file(req, list, n, strlen(under) + 1);
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "tensors", '[');
    for (int i = 0; i < n; i++) {
        write_tensor(&w, list[i].name, list[i].weight, false);
        td_weight_unref(&list[i].weight);
    }
    td_write_close(&w, ']');
    write_budget(&w, "store", td_tensors_budget(req->service->tensors));
    write_budget(&w, "memory", &td_memory);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_tensors_list(struct td_request *req, struct td_response *res)
{
    return answer_list(req, res, NULL);
}

/* "mlp/" are the tensors whose names begin so: the slash at the end, which no name has, says it. */
static bool is_prefix(const struct td_request *req)
{
    size_t n = strlen(req->path);
    return n && req->path[n - 1] == '/';
}

int td_api_tensors_get(struct td_request *req, struct td_response *res)
{
    struct td_weight *weight =
        is_prefix(req) ? NULL : td_tensors_find(req->service->tensors, req->var[0]);
    if (!weight)
        return answer_list(req, res, req->var[0]);
    if (td_asks_for(req, "Accept", "application/x-safetensors")) {
        struct td_tensors_listed one = {req->var[0], weight};
        const char *key = strrchr(one.name, '/');
        return answer_file(req, &one, 1, key ? (size_t)(key + 1 - one.name) : 0);
    }
    bool npy = td_asks_for(req, "Accept", "application/x-npy");
    size_t text = npy ? 0 : td_json_data_bound(td_weight_tensor(weight));
    if (td_api_is_bulk(req, text, npy ? td_nbytes(td_weight_tensor(weight)) : text)) {
        td_weight_unref(&weight);
        return td_api_hand_over(req);
    }
    struct td_writer w;
    int err = 0;
    if (npy) {
        err = td_npy_response(req, td_weight_tensor(weight));
    } else {
        td_write_init(&w, req->arena, 1024);
        write_tensor(&w, req->var[0], weight, true);
        err = td_write_response(&w, res, 200);
    }
    td_weight_unref(&weight);
    return err;
}

int td_api_tensors_delete(struct td_request *req, struct td_response *res)
{
    struct td_tensors *store = req->service->tensors;
    struct td_problem problem;
    bool all = is_prefix(req);
    const char *name = all ? td_arena_printf(req->arena, "%s/", req->var[0]) : req->var[0];
    int err = name ? td_access_name(req, "the tensor", name, &problem) : -ENOMEM;
    if (err)
        return td_api_problem(req, err, "%s", name ? problem.text : "no memory for the request");
    int n =
        all ? td_tensors_remove_under(store, req->var[0]) : td_tensors_remove(store, req->var[0]);
    struct td_tensors_listed *list;
    int under = !all && n < 0 ? td_tensors_list(store, req->arena, req->var[0], &list) : 0;
    for (int i = 0; i < under; i++)
        td_weight_unref(&list[i].weight);
    if (under > 0)
        return td_api_problem(req, -ENOENT,
                              "no stored tensor '%.100s'; with / behind the name the %d under it "
                              "are meant",
                              req->var[0], under);
    if (n < 0 || (all && !n))
        return no_tensor(req);
    res->status = 204;
    return 0;
}

/* The tensor of a JSON body, or of its binary part. */
static int read_json(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    static const char *const members[] = {"name", "shape", "datatype", "data", "parameters", NULL};
    struct td_json json;
    size_t length = req->json_length >= 0 ? (size_t)req->json_length : req->body_size;
    int err = td_json_parse(&json, req->body, length, req->service->limits.json_depth, problem);
    const cJSON *root = json.root;
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(root, "parameters");
    if (!err && !cJSON_IsObject(root))
        err = td_problem_set(problem, EINVAL, "the body: must be a tensor object");
    if (!err)
        err = td_json_members(root, "the tensor", members, problem);
    if (!err && !(err = td_json_shape(root, t, "the tensor", problem)))
        err = td_json_dtype(root, t, "the tensor", problem);
    if (!err && td_shm_is_meant(parameters)) {
        err = td_shm_copy(req, parameters, "the tensor", t, problem);
    } else if (!err && req->json_length >= 0) {
        t->data = req->body + length;
        if (td_nbytes(t) != req->body_size - length)
            err = td_problem_set(problem, EINVAL,
                                 "the tensor: needs %zu binary bytes, the body has %zu",
                                 td_nbytes(t), req->body_size - length);
    } else if (!err) {
        err = td_json_data(&json, root, t, "the tensor", req->arena, problem);
    }
    td_json_free(&json);
    return err;
}

static int no_room(const struct td_request *req, int err, struct td_problem *problem)
{
    return td_tensors_no_room(req->service->tensors, err, "the tensor", problem);
}

/* What a body brings: all of it takes its names when all of it has been read, or nothing does. */
struct batch {
    struct td_request *req;
    struct td_tensors_new *list, **end;
};

static int judge_name(const char *name, struct td_problem *problem)
{
    return td_tensors_name_is_right(name)
               ? 0
               : td_problem_set(problem, EINVAL,
                                "'%.60s': a tensor's name is letters, digits and . _ - in segments "
                                "split by '/'",
                                name);
}

/* name: the whole name. */
static int add(struct batch *batch, const char *name, const struct td_tensor *t,
               struct td_problem *problem)
{
    struct td_request *req = batch->req;
    int err = judge_name(name, problem);
    if (err || (err = td_access_name(req, "the tensor", name, problem)) ||
        (err = td_check_bools(t, name, problem)))
        return err;
    struct td_tensors_new *one = td_arena_zalloc(req->arena, sizeof *one);
    err = one ? td_tensors_make(req->service->tensors, td_access_room(req), &one->weight, t)
              : -ENOMEM;
    if (err)
        return no_room(req, err, problem);
    struct td_pool *home = req->home ? td_pools_find(req->service->pools, req->home) : NULL;
    if (req->worker)
        td_weight_set_home(one->weight, td_worker_numa_node(req->worker));
    else if (home) /* this thread sits on one of its CPUs */
        td_weight_set_home(one->weight, td_pool_home_node(home));
    td_pool_unref(home);
    one->name = name;
    *batch->end = one;
    batch->end = &one->next;
    return 0;
}

static int add_keyed(void *arg, const char *key, const struct td_tensor *t,
                     struct td_problem *problem)
{
    struct batch *batch = arg;
    const char *name = td_arena_printf(batch->req->arena, "%s/%s", batch->req->var[0], key);
    return name ? add(batch, name, t, problem)
                : td_problem_set(problem, ENOMEM, "no memory for a name");
}

/* Into the store, or, after an error, to nowhere. Status, or a negative errno. */
static int finish(struct batch *batch, int err, struct td_problem *problem)
{
    if (!err) {
        err = td_tensors_put(batch->req->service->tensors, batch->list);
        return err < 0 ? no_room(batch->req, err, problem) : err;
    }
    for (struct td_tensors_new *one = batch->list; one; one = one->next)
        td_weight_unref(&one->weight);
    return err;
}

/* As it says, or where it says nothing of use, by its first bytes: a length, and then a header. */
static bool is_safetensors(const struct td_request *req)
{
    uint64_t length = UINT64_MAX;
    if (td_api_is_type(req, "application/x-safetensors"))
        return true;
    if (req->body_size > 9 && td_api_is_json(req) && req->json_length < 0)
        memcpy(&length, req->body, 8);
    return length <= req->body_size - 8 && req->body[8] == '{';
}

int td_api_tensors_put(struct td_request *req, struct td_response *res)
{
    struct td_tensor t = {0};
    struct td_problem problem;
    struct batch batch = {req, NULL, &batch.list};
    int err = judge_name(req->var[0], &problem);
    if (err)
        return td_api_problem(req, err, "%s", problem.text);
    if (td_api_is_bulk(req, req->json_length >= 0 ? (size_t)req->json_length : req->body_size,
                       req->body_size))
        return td_api_hand_over(req);
    if (is_safetensors(req)) {
        err = td_read_safetensors(req, add_keyed, &batch, &problem);
    } else if (td_is_npy(req) || td_api_is_type(req, "application/x-npy")) {
        err = td_read_npy(req, &t, &problem);
        err = err ? err : add(&batch, req->var[0], &t, &problem);
    } else if (td_api_is_json(req)) {
        err = read_json(req, &t, &problem);
        err = err ? err : add(&batch, req->var[0], &t, &problem);
    } else {
        err = td_problem_set(&problem, EPROTONOSUPPORT,
                             "Content-Type: '%.60s' is not understood; right are "
                             "application/json, application/x-npy, application/x-safetensors",
                             req->content_type);
    }
    int status = finish(&batch, err, &problem);
    if (status < 0)
        return td_api_problem(req, status, "%s", problem.text);
    struct td_writer w;
    td_write_init(&w, req->arena, 256);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    if (is_safetensors(req)) {
        td_write_open(&w, "tensors", '[');
        for (const struct td_tensors_new *one = batch.list; one; one = one->next)
            td_write_str(&w, NULL, one->name);
        td_write_close(&w, ']');
    }
    td_write_close(&w, '}');
    return td_write_response(&w, res, status);
}
