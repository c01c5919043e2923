/* Tensors that stay in the server, mostly weights. A name maps to a reference-counted td_weight;
 * replacing or deleting one only drops the store's reference, so calls under way keep theirs. The
 * list is walked under a lock: stores hold tens of tensors, and a look-up compares a few bytes. */
#include "api/handlers.h"
#include "api/shm/shm.h"
#include "api/tensors/files.h"
#include "kernels/weight.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 200

struct entry {
    struct entry *next;
    struct td_weight *weight;
    char name[];
};

struct td_tensors {
    pthread_mutex_t lock; /* guards the list; never held while a tensor is read or written */
    struct entry *first;
};

struct td_tensors *td_tensors_create(void)
{
    struct td_tensors *tensors = calloc(1, sizeof *tensors);
    if (tensors)
        pthread_mutex_init(&tensors->lock, NULL);
    return tensors;
}

void td_tensors_destroy(struct td_tensors *tensors)
{
    if (!tensors)
        return;
    while (tensors->first) {
        struct entry *entry = tensors->first;
        tensors->first = entry->next;
        td_weight_unref(&entry->weight);
        free(entry);
    }
    pthread_mutex_destroy(&tensors->lock);
    free(tensors);
}

static struct entry **find(struct td_tensors *tensors, const char *name)
{
    struct entry **at = &tensors->first;
    while (*at && strcmp((*at)->name, name))
        at = &(*at)->next;
    return at;
}

struct td_weight *td_tensors_find(struct td_tensors *tensors, const char *name)
{
    pthread_mutex_lock(&tensors->lock);
    struct entry *entry = *find(tensors, name);
    struct td_weight *weight = entry ? td_weight_ref(entry->weight) : NULL;
    pthread_mutex_unlock(&tensors->lock);
    return weight;
}

int td_tensors_put(struct td_tensors *tensors, const char *name, struct td_weight *weight,
                   const struct td_weight *expected)
{
    size_t size = strlen(name) + 1;
    struct entry *entry = malloc(sizeof *entry + size);
    if (!entry) {
        td_weight_unref(&weight);
        return -ENOMEM;
    }
    memcpy(entry->name, name, size);
    entry->weight = weight;
    pthread_mutex_lock(&tensors->lock);
    struct entry **at = find(tensors, name), *old = *at;
    if (expected && (!old || old->weight != expected)) {
        pthread_mutex_unlock(&tensors->lock);
        td_weight_unref(&weight);
        free(entry);
        return -EBUSY;
    }
    entry->next = old ? old->next : NULL;
    *at = entry;
    pthread_mutex_unlock(&tensors->lock);
    if (old)
        td_weight_unref(&old->weight);
    free(old);
    return old ? 200 : 201;
}

/* Letters, digits, . _ - in segments split by '/', none of them "." or "..". */
bool td_tensors_name_is_right(const char *name)
{
    if (strlen(name) > NAME_MAX_)
        return false;
    for (const char *segment = name;; segment++) {
        size_t n = strcspn(segment, "/");
        if (!n || strspn(segment, ".") == n)
            return false;
        for (size_t i = 0; i < n; i++)
            if (!isalnum((unsigned char)segment[i]) && !strchr("._-", segment[i]))
                return false;
        segment += n;
        if (!*segment)
            return true;
    }
}

/* ---- routes ---- */

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
    td_write_open(w, "packed", '[');
    write_forms(w, weight);
    td_write_close(w, ']');
    if (data) {
        td_write_raw(w, "data", "", 0);
        char *room = td_write_room(w, td_json_data_bound(t));
        if (room)
            td_write_took(w, td_json_encode(t, room));
    }
    td_write_close(w, '}');
}

int td_api_tensors_list(struct td_request *req, struct td_response *res)
{
    struct td_tensors *tensors = req->service->tensors;
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "tensors", '[');
    pthread_mutex_lock(&tensors->lock);
    for (struct entry *e = tensors->first; e; e = e->next)
        write_tensor(&w, e->name, e->weight, false);
    pthread_mutex_unlock(&tensors->lock);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

static int no_tensor(struct td_request *req)
{
    return td_api_problem(req, -ENOENT, "no stored tensor '%.100s'; GET /v1/tensors lists them",
                          req->var[0]);
}

int td_api_tensors_get(struct td_request *req, struct td_response *res)
{
    struct td_weight *weight = td_tensors_find(req->service->tensors, req->var[0]);
    if (!weight)
        return no_tensor(req);
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    write_tensor(&w, req->var[0], weight, true);
    td_weight_unref(&weight);
    return td_write_response(&w, res, 200);
}

int td_api_tensors_delete(struct td_request *req, struct td_response *res)
{
    struct td_tensors *tensors = req->service->tensors;
    pthread_mutex_lock(&tensors->lock);
    struct entry **at = find(tensors, req->var[0]), *old = *at;
    if (old)
        *at = old->next;
    pthread_mutex_unlock(&tensors->lock);
    if (!old)
        return no_tensor(req);
    td_weight_unref(&old->weight);
    free(old);
    res->status = 204;
    return 0;
}

/* The tensor of a JSON body, or of its binary part. */
static int read_json(struct td_request *req, struct td_tensor *t, struct td_problem *problem)
{
    struct td_json json;
    size_t length = req->json_length >= 0 ? (size_t)req->json_length : req->body_size;
    int err = td_json_parse(&json, req->body, length, req->service->limits.json_depth, problem);
    const cJSON *root = json.root;
    const cJSON *parameters = cJSON_GetObjectItemCaseSensitive(root, "parameters");
    if (!err && !cJSON_IsObject(root))
        err = td_problem_set(problem, EINVAL, "the body: must be a tensor object");
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
    return err == -E2BIG ? -EINVAL : err;
}

/* One tensor of the body into the store. name: the whole name. Status, or a negative errno. */
static int store(struct td_request *req, const char *name, const struct td_tensor *t,
                 struct td_problem *problem)
{
    struct td_weight *weight;
    if (!td_tensors_name_is_right(name))
        return td_problem_set(problem, EINVAL,
                              "'%.60s': a tensor's name is letters, digits and . _ - in segments "
                              "split by '/'",
                              name);
    int err = td_check_bools(t, name, problem);
    if (err)
        return err;
    err = td_weight_create(&weight, t);
    if (!err && req->home) /* this thread sits on its first CPU */
        td_weight_set_home(weight, td_pool_home_node(req->home));
    if (!err)
        err = td_tensors_put(req->service->tensors, name, weight, NULL);
    return err < 0 ? td_problem_set(problem, -err, "no memory for the tensor") : err;
}

struct each {
    struct td_request *req;
    int status;
};

static int store_one(void *arg, const char *key, const struct td_tensor *t,
                     struct td_problem *problem)
{
    struct each *each = arg;
    const char *name = td_arena_printf(each->req->arena, "%s/%s", each->req->var[0], key);
    int status = name ? store(each->req, name, t, problem)
                      : td_problem_set(problem, ENOMEM, "no memory for a name");
    if (status == 201 || (status > 0 && !each->status))
        each->status = status;
    return status < 0 ? status : 0;
}

static bool is_type(const struct td_request *req, const char *type)
{
    size_t n = strlen(type);
    return req->content_type && !strncasecmp(req->content_type, type, n) &&
           strchr("; ", req->content_type[n]);
}

int td_api_tensors_put(struct td_request *req, struct td_response *res)
{
    struct td_tensor t = {0};
    struct td_problem problem;
    struct each each = {req, 0};
    int status;
    if (!td_tensors_name_is_right(req->var[0]))
        return td_api_problem(req, -EINVAL,
                              "'%.60s': a tensor's name is letters, digits and . _ - in segments "
                              "split by '/'",
                              req->var[0]);
    if (is_type(req, "application/x-safetensors")) {
        status = td_read_safetensors(req, store_one, &each, &problem);
        status = status ? status : each.status ? each.status : 200;
    } else if (is_type(req, "application/x-npy")) {
        status = td_read_npy(req, &t, &problem);
        status = status ? status : store(req, req->var[0], &t, &problem);
    } else if (!req->content_type || is_type(req, "application/json") ||
               is_type(req, "application/octet-stream") ||
               is_type(req, "application/x-www-form-urlencoded")) { /* curl's word for -d */
        status = read_json(req, &t, &problem);
        status = status ? status : store(req, req->var[0], &t, &problem);
    } else {
        status = td_problem_set(&problem, EPROTONOSUPPORT,
                                "Content-Type: '%.60s' is not understood; right are "
                                "application/json, application/x-npy, application/x-safetensors",
                                req->content_type);
    }
    if (status < 0)
        return td_api_problem(req, status, "%s", problem.text);
    struct td_writer w;
    td_write_init(&w, req->arena, 256);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_close(&w, '}');
    return td_write_response(&w, res, status);
}
