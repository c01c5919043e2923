/* The system shared memory extension of protocol v2: regions by name, and the routes that make and
 * list them. A region is a name for a segment (segment.c). Unregistering one only drops the table's
 * reference: calls under way keep theirs, so the mapping goes when the last of them ends. `lock`
 * guards the names; it is never held while memory is mapped or touched.
 *
 * A listener that is not open to shared memory sees no regions at all: it registers none, finds
 * none, and what it unregisters is not there. */
#include "api/shm/shm.h"
#include "api/names/names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 128
#define KEY_MAX 255 /* with the slash */

struct region {
    struct region *next; /* of those that are to be freed */
    struct td_segment *segment;
    size_t offset, size;
    char key[KEY_MAX + 1];
};

struct td_shm {
    pthread_mutex_t lock;   /* guards the names */
    struct td_names *names; /* of regions */
};

struct td_shm *td_shm_create(void)
{
    struct td_shm *shm = calloc(1, sizeof *shm);
    td_segment_init();
    if (shm && !(shm->names = td_names_create(&td_memory))) {
        free(shm);
        return NULL;
    }
    if (shm)
        pthread_mutex_init(&shm->lock, NULL);
    return shm;
}

static void free_regions(struct region *list)
{
    while (list) {
        struct region *next = list->next;
        td_segment_unref(&list->segment);
        free(list);
        list = next;
    }
}

/* With the lock held: takes out the name's region, or that of every name; a list. */
static struct region *take_out(struct td_shm *shm, const char *name)
{
    struct region *gone = NULL;
    struct td_name *of;
    while ((of = name ? td_names_find(shm->names, name) : td_names_first(shm->names))) {
        struct region *region = td_names_drop(shm->names, of);
        region->next = gone;
        gone = region;
    }
    return gone;
}

void td_shm_destroy(struct td_shm *shm)
{
    if (!shm)
        return;
    free_regions(take_out(shm, NULL));
    td_names_destroy(shm->names);
    pthread_mutex_destroy(&shm->lock);
    free(shm);
}

bool td_shm_is_open(const struct td_request *req)
{
    enum td_shm_clients clients = req->service->shm_clients;
    return clients == TD_SHM_on || (clients == TD_SHM_auto && req->local);
}

struct td_segment *td_shm_find(const struct td_request *req, const char *name)
{
    struct td_shm *shm = req->service->shm;
    struct td_segment *segment = NULL;
    pthread_mutex_lock(&shm->lock);
    const struct td_name *of = td_shm_is_open(req) ? td_names_find(shm->names, name) : NULL;
    if (of)
        segment = td_segment_ref(((const struct region *)of->item)->segment);
    pthread_mutex_unlock(&shm->lock);
    return segment;
}

/* ---- routes ---- */

static int refuse_closed(struct td_request *req)
{
    return td_api_problem(req, -EINVAL,
                          "clients' shared memory is not taken here: by default only from the same "
                          "machine (loopback and Unix sockets); --client-shared-memory on takes it "
                          "everywhere");
}

static bool is_name(const char *name)
{
    size_t n = strlen(name);
    return n && n <= NAME_MAX_ &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == n;
}

static bool is_key(const cJSON *key)
{
    const char *text = cJSON_IsString(key) ? key->valuestring : "";
    size_t n = strlen(text);
    return *text == '/' && n > 1 && n <= KEY_MAX && !strchr(text + 1, '/') && strcmp(text, "/.") &&
           strcmp(text, "/..");
}

static int read_region(struct td_request *req, struct region *region, struct td_problem *problem)
{
    struct td_json json;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, problem);
    const cJSON *key = cJSON_GetObjectItemCaseSensitive(json.root, "key");
    if (!err && !cJSON_IsObject(json.root))
        err = td_problem_set(problem, EINVAL,
                             "the body: must be an object with key, offset and byte_size");
    if (!err && !is_key(key))
        err = td_problem_set(problem, EINVAL,
                             "key: must be the object's name for shm_open, a '/' and then at most "
                             "%d letters without another one, as in \"/input\"",
                             KEY_MAX - 1);
    if (!err && !(err = td_json_bytes(json.root, "offset", NULL, &region->offset, problem)) &&
        !(err = td_json_bytes(json.root, "byte_size", NULL, &region->size, problem)) &&
        !region->size)
        err = td_problem_set(problem, EINVAL, "byte_size: must be given, 1 or more");
    if (!err)
        strcpy(region->key, key->valuestring);
    td_json_free(&json);
    return err;
}

static int add_region(struct td_shm *shm, const char *name, struct region *region,
                      struct td_problem *problem)
{
    struct td_name *of;
    pthread_mutex_lock(&shm->lock);
    int err = td_names_find(shm->names, name) ? -EINVAL : td_names_add(shm->names, name, &of);
    if (!err)
        of->item = region;
    pthread_mutex_unlock(&shm->lock);
    if (err == -EINVAL)
        return td_problem_set(problem, EINVAL,
                              "the region '%s' is registered already; unregister it first", name);
    return err ? td_problem_set(problem, ENOMEM, "no memory for the region") : 0;
}

int td_api_shm_register(struct td_request *req, struct td_response *res)
{
    if (!td_shm_is_open(req))
        return refuse_closed(req);
    if (!is_name(req->var[0]))
        return td_api_problem(req, -EINVAL,
                              "'%.60s': a region's name is 1 to %d letters, digits and . _ -",
                              req->var[0], NAME_MAX_);
    struct region *region = calloc(1, sizeof *region);
    if (!region)
        return td_api_problem(req, -ENOMEM, "no memory for the region");
    struct td_problem problem;
    int err = read_region(req, region, &problem);
    if (!err)
        err =
            td_segment_open(&region->segment, region->key, region->offset, region->size, &problem);
    if (!err)
        err = add_region(req->service->shm, req->var[0], region, &problem);
    if (err) {
        free_regions(region);
        return td_api_problem(req, err, "%s", problem.text);
    }
    res->status = 200;
    return 0;
}

/* An unknown name is fine: clients that come after a crash clear up without knowing what is there.
 */
int td_api_shm_unregister(struct td_request *req, struct td_response *res)
{
    struct td_shm *shm = req->service->shm;
    struct region *gone = NULL;
    if (td_shm_is_open(req)) {
        pthread_mutex_lock(&shm->lock);
        gone = take_out(shm, req->var[0]);
        pthread_mutex_unlock(&shm->lock);
    }
    free_regions(gone);
    res->status = 200;
    return 0;
}

static void write_region(struct td_writer *w, const struct td_name *name)
{
    const struct region *r = name->item;
    td_write_open(w, NULL, '{');
    td_write_str(w, "name", name->text);
    td_write_str(w, "key", r->key);
    td_write_int(w, "offset", (int64_t)r->offset);
    td_write_int(w, "byte_size", (int64_t)r->size);
    td_write_close(w, '}');
}

int td_api_shm_status(struct td_request *req, struct td_response *res)
{
    struct td_shm *shm = req->service->shm;
    const char *one = req->var[0];
    struct td_writer w;
    bool found = !one;
    td_write_init(&w, req->arena, 512);
    td_write_open(&w, NULL, '[');
    pthread_mutex_lock(&shm->lock);
    const struct td_name *name = !td_shm_is_open(req) ? NULL
                                 : one                ? td_names_find(shm->names, one)
                                                      : td_names_first(shm->names);
    for (; name; name = one ? NULL : td_names_next(name)) {
        write_region(&w, name);
        found = true;
    }
    pthread_mutex_unlock(&shm->lock);
    td_write_close(&w, ']');
    if (!found)
        return td_api_problem(req, -ENOENT,
                              "no shared memory region '%.100s'; GET /v2/systemsharedmemory/status "
                              "lists them",
                              one);
    return td_write_response(&w, res, 200);
}

/* ---- the same for graphics cards, of which there are none: what clients ask on their way ---- */

int td_api_cuda_status(struct td_request *req, struct td_response *res)
{
    (void)req;
    return td_api_text(res, 200, NULL, "[]\n");
}

int td_api_cuda_unregister(struct td_request *req, struct td_response *res)
{
    (void)req;
    res->status = 200;
    return 0;
}
