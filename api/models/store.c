/* Models under their names: a list in the order of names, as there are few. A name leads to a
 * reference-counted model; replacing or removing one only drops the store's reference, so calls
 * under way keep theirs. One lock guards the list; it is never held while a model is read, run or
 * freed. */
#include "api/models/models.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    struct entry *next;
    struct td_served *served;
    char name[];
};

struct td_models {
    struct td_tensors *tensors;
    pthread_mutex_t lock;
    struct entry *entries;
    int n;
};

struct td_models *td_models_create(struct td_tensors *tensors)
{
    struct td_models *models = calloc(1, sizeof *models);
    if (!models)
        return NULL;
    models->tensors = tensors;
    pthread_mutex_init(&models->lock, NULL);
    return models;
}

void td_models_destroy(struct td_models *models)
{
    if (!models)
        return;
    while (models->entries) {
        struct entry *entry = models->entries;
        models->entries = entry->next;
        td_served_unref(&entry->served);
        free(entry);
    }
    pthread_mutex_destroy(&models->lock);
    free(models);
}

bool td_models_name_is_right(const char *name)
{
    return td_tensors_name_is_right(name) && !strchr(name, '/') && strncmp(name, "op.", 3) != 0;
}

/* ---- references ---- */

static void free_served(struct td_served *served)
{
    td_model_unref(&served->model);
    served->room->give(served->room, served->bytes, true);
    free(served);
}

void td_served_unref(struct td_served **served)
{
    struct td_served *old = *served;
    *served = NULL;
    if (old && atomic_fetch_sub(&old->refs, 1) == 1)
        free_served(old);
}

static int judge_ports(const struct td_served *served, struct td_problem *problem)
{
    if (served->n_inputs <= TD_MAX_PORTS && served->n_outputs <= TD_MAX_PORTS)
        return 0;
    return td_problem_set(problem, EINVAL,
                          "the model has %d inputs and %d outputs; a request can have %d of each",
                          served->n_inputs, served->n_outputs, TD_MAX_PORTS);
}

static int load(struct td_models *models, struct td_served **result, size_t name_bytes,
                const void *file, size_t size, struct td_problem *problem)
{
    struct td_weight_room *room = td_tensors_room(models->tensors);
    struct td_served *served = calloc(1, sizeof *served);
    size_t bytes = sizeof *served + sizeof(struct entry) + name_bytes;
    int64_t begin = td_now_ns();
    int err = served ? room->take(room, bytes, true) : -ENOMEM;
    if (err) {
        free(served);
        return td_tensors_no_room(models->tensors, err, "the model", problem);
    }
    served->room = room;
    served->bytes = bytes;
    served->file_bytes = size;
    atomic_init(&served->refs, 1);
    err = td_model_load(&served->model, file, size, room, problem);
    if (err && err != -EINVAL)
        td_tensors_no_room(models->tensors, err, "the model", problem);
    if (!err) {
        served->n_inputs = td_model_inputs(served->model, &served->input);
        served->n_outputs = td_model_outputs(served->model, &served->output);
        served->load_ns = td_now_ns() - begin;
        err = judge_ports(served, problem);
    }
    if (err)
        free_served(served);
    else
        *result = served;
    return err;
}

/* ---- names; the lock is held ---- */

/* Where the entry of that name hangs, or would. */
static struct entry **place_of(struct td_models *models, const char *name)
{
    struct entry **at = &models->entries;
    while (*at && strcmp((*at)->name, name) < 0)
        at = &(*at)->next;
    return at;
}

static bool is_there(struct entry *const *at, const char *name)
{
    return *at && !strcmp((*at)->name, name);
}

/* ---- the store ---- */

struct td_served *td_models_find(struct td_models *models, const char *name)
{
    pthread_mutex_lock(&models->lock);
    struct entry **at = place_of(models, name);
    struct td_served *served = is_there(at, name) ? (*at)->served : NULL;
    if (served)
        atomic_fetch_add(&served->refs, 1);
    pthread_mutex_unlock(&models->lock);
    return served;
}

int td_models_remove(struct td_models *models, const char *name)
{
    struct entry *entry = NULL;
    pthread_mutex_lock(&models->lock);
    struct entry **at = place_of(models, name);
    if (is_there(at, name)) {
        entry = *at;
        *at = entry->next;
        models->n--;
    }
    pthread_mutex_unlock(&models->lock);
    if (!entry)
        return -ENOENT;
    td_served_unref(&entry->served);
    free(entry);
    return 0;
}

int td_models_count(struct td_models *models)
{
    pthread_mutex_lock(&models->lock);
    int n = models->n;
    pthread_mutex_unlock(&models->lock);
    return n;
}

int td_models_load(struct td_models *models, const char *name, const void *file, size_t size,
                   struct td_problem *problem)
{
    size_t length = strlen(name) + 1;
    struct entry *entry = malloc(sizeof *entry + length);
    struct td_served *old = NULL;
    if (!entry)
        return td_problem_set(problem, ENOMEM, "no memory for the model");
    memcpy(entry->name, name, length);
    int err = load(models, &entry->served, length, file, size, problem);
    if (err) {
        free(entry);
        return err;
    }
    pthread_mutex_lock(&models->lock);
    struct entry **at = place_of(models, name);
    bool replaces = is_there(at, name);
    if (replaces) {
        old = (*at)->served;
        (*at)->served = entry->served;
    } else {
        entry->next = *at;
        *at = entry;
        models->n++;
    }
    pthread_mutex_unlock(&models->lock);
    if (replaces)
        free(entry);
    td_served_unref(&old);
    return replaces ? 200 : 201;
}

int td_models_list(struct td_models *models, struct td_arena *arena, struct td_models_listed **list)
{
    pthread_mutex_lock(&models->lock);
    int n = 0;
    struct td_models_listed *at = *list =
        td_arena_alloc(arena, (size_t)models->n * sizeof **list + 1);
    for (struct entry *entry = models->entries; at && entry; entry = entry->next) {
        char *name = td_arena_strdup(arena, entry->name, strlen(entry->name));
        if (!name)
            break;
        atomic_fetch_add(&entry->served->refs, 1);
        at[n++] = (struct td_models_listed){name, entry->served};
    }
    bool all = at && n == models->n;
    pthread_mutex_unlock(&models->lock);
    while (!all && n)
        td_served_unref(&at[--n].served);
    return all ? n : -ENOMEM;
}

int td_models_unknown(struct td_models *models, struct td_arena *arena, const char *name,
                      struct td_problem *problem)
{
    struct td_models_listed *list;
    int n = td_models_list(models, arena, &list);
    const char **names = n > 0 ? td_arena_alloc(arena, (size_t)n * sizeof *names) : NULL;
    for (int i = 0; i < n; i++) {
        if (names)
            names[i] = list[i].name;
        td_served_unref(&list[i].served);
    }
    const char *near = names ? td_nearest(name, names, n) : NULL;
    return td_problem_set(problem, ENOENT,
                          "no model '%.80s'; %s%s%sGET /v1/models lists them, and operators are "
                          "models called op.NAME, as in op.add",
                          name, near ? "the nearest is " : "", near ? near : "", near ? "; " : "");
}
