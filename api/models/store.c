/* Models under their names. A name leads to a reference-counted model; replacing or removing one
 * only drops the store's reference, so calls under way keep theirs. One lock guards the names; it
 * is never held while a model is read, run or freed, nor while lists are sorted or written. */
#include "api/models/models.h"
#include "api/names/names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct td_models {
    struct td_tensors *tensors;
    td_models_end *end; /* or NULL */
    void *end_arg;
    pthread_mutex_t lock;
    struct td_names *names; /* of served models */
    uint64_t changes;       /* of the names */
    struct index {          /* the index's text, made after so many changes; or NULL */
        atomic_int refs;
        uint64_t changes;
        size_t size;
        char text[];
    } * index;
};

/* ---- plans that go where there is no room ---- */

static void shed(void *arg)
{
    struct td_models *models = arg;
    struct td_models_listed *list;
    struct td_arena *arena = td_arena_create();
    int n = arena ? td_models_list(models, arena, &list) : 0;
    for (int i = 0; i < n; i++) {
        td_model_shed(list[i].served->model);
        td_served_unref(&list[i].served);
    }
    td_arena_destroy(arena);
}

/* ---- life ---- */

struct td_models *td_models_create(struct td_tensors *tensors)
{
    struct td_models *models = calloc(1, sizeof *models);
    if (!models)
        return NULL;
    models->names = td_names_create(td_tensors_budget(tensors));
    if (!models->names) {
        free(models);
        return NULL;
    }
    models->tensors = tensors;
    pthread_mutex_init(&models->lock, NULL);
    td_tensors_shed_by(tensors, shed, models);
    return models;
}

static void drop_index(struct index *index)
{
    if (!index || atomic_fetch_sub(&index->refs, 1) != 1)
        return;
    td_budget_give(&td_memory, sizeof *index + index->size);
    free(index);
}

void td_models_destroy(struct td_models *models)
{
    if (!models)
        return;
    struct td_name *name;
    td_tensors_shed_by(models->tensors, NULL, NULL);
    while ((name = td_names_first(models->names))) {
        struct td_served *served = td_names_drop(models->names, name);
        td_served_unref(&served);
    }
    td_names_destroy(models->names);
    drop_index(models->index);
    pthread_mutex_destroy(&models->lock);
    free(models);
}

void td_models_tell(struct td_models *models, td_models_end *end, void *arg)
{
    models->end = end;
    models->end_arg = arg;
}

void td_models_end_old(struct td_models *models, const char *name)
{
    struct td_served *now = td_models_find(models, name);
    if (now && models->end) /* without one it has been told already */
        models->end(models->end_arg, name, now);
    td_served_unref(&now);
}

bool td_models_name_is_right(const char *name)
{
    return td_tensors_name_is_right(name) && !strchr(name, '/') && strncmp(name, "op.", 3) != 0;
}

/* ---- references ---- */

static void free_served(struct td_served *served)
{
    td_model_unref(&served->model);
    free(served->state_in);
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

/* Whose ports states are, and which file this is. -ENOMEM. */
static int note_states(struct td_served *served, const void *file, size_t size)
{
    size_t n = (size_t)served->all_inputs + (size_t)served->all_outputs + 1;
    served->n_states = td_model_states(served->model, &served->state);
    served->state_in = malloc(n * sizeof *served->state_in);
    if (!served->state_in)
        return -ENOMEM;
    memset(served->state_in, -1, n * sizeof *served->state_in);
    served->state_out = served->state_in + served->all_inputs;
    for (int i = 0; i < served->n_states; i++) {
        served->state_in[served->state[i].input] = i;
        served->state_out[served->state[i].output] = i;
        served->n_needed += served->state[i].needed;
    }
    if (served->n_states)
        td_digest(file, size, served->digest);
    return 0;
}

static int load_once(struct td_models *models, struct td_weight_room *room,
                     struct td_served **result, const void *file, size_t size, const char *beside,
                     struct td_problem *problem)
{
    struct td_served *served = calloc(1, sizeof *served);
    size_t bytes = sizeof *served;
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
    err = td_model_load(&served->model, file, size, beside, room, problem);
    if (err && err != -EINVAL)
        td_tensors_no_room(models->tensors, err, "the model", problem);
    if (!err) {
        served->n_inputs = td_model_inputs(served->model, &served->input);
        served->n_outputs = td_model_outputs(served->model, &served->output);
        served->all_inputs = td_model_all_inputs(served->model);
        served->all_outputs = td_model_all_outputs(served->model);
        err = note_states(served, file, size);
        if (err)
            td_tensors_no_room(models->tensors, err, "the model", problem);
        served->load_ns = td_now_ns() - begin;
    }
    if (err)
        free_served(served);
    else
        *result = served;
    return err;
}

static int load(struct td_models *models, struct td_weight_room *room, struct td_served **result,
                const void *file, size_t size, const char *beside, struct td_problem *problem)
{
    room = room ? room : td_tensors_room(models->tensors);
    int err = load_once(models, room, result, file, size, beside, problem);
    if (err != -ENOSPC && err != -EDQUOT)
        return err;
    shed(models);
    return load_once(models, room, result, file, size, beside, problem);
}

/* ---- the store ---- */

/* With the lock held: the name's model, or NULL. */
static struct td_served *served_of(const struct td_name *name)
{
    return name ? name->item : NULL;
}

struct td_served *td_models_find(struct td_models *models, const char *name)
{
    pthread_mutex_lock(&models->lock);
    struct td_served *served = served_of(td_names_find(models->names, name));
    if (served)
        atomic_fetch_add(&served->refs, 1);
    pthread_mutex_unlock(&models->lock);
    return served;
}

int td_models_remove(struct td_models *models, const char *name)
{
    pthread_mutex_lock(&models->lock);
    struct td_name *found = td_names_find(models->names, name);
    struct td_served *served = found ? td_names_drop(models->names, found) : NULL;
    models->changes += found != NULL;
    pthread_mutex_unlock(&models->lock);
    if (found && models->end)
        models->end(models->end_arg, name, NULL);
    td_served_unref(&served);
    return found ? 0 : -ENOENT;
}

int td_models_count(struct td_models *models)
{
    pthread_mutex_lock(&models->lock);
    int n = td_names_count(models->names);
    pthread_mutex_unlock(&models->lock);
    return n;
}

int td_models_load(struct td_models *models, struct td_weight_room *room, const char *name,
                   const void *file, size_t size, const char *beside, struct td_problem *problem)
{
    struct td_served *served;
    int status = load(models, room, &served, file, size, beside, problem);
    if (status)
        return status;
    pthread_mutex_lock(&models->lock);
    struct td_name *of = td_names_find(models->names, name);
    status = of ? 200 : td_names_add(models->names, name, &of);
    if (status >= 0) {
        struct td_served *old = of->item;
        of->item = served;
        served = old;
        models->changes += !old;
        status = old ? 200 : 201;
    }
    pthread_mutex_unlock(&models->lock);
    td_served_unref(&served);
    return status < 0 ? td_tensors_no_room(models->tensors, status, "the model", problem) : status;
}

/* ---- lists ---- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct td_models_listed *)a)->name,
                  ((const struct td_models_listed *)b)->name);
}

int td_models_list(struct td_models *models, struct td_arena *arena, struct td_models_listed **list)
{
    pthread_mutex_lock(&models->lock);
    int n = 0, room = td_names_count(models->names);
    struct td_models_listed *at = *list = td_arena_alloc(arena, (size_t)room * sizeof **list + 1);
    const struct td_name *of = td_names_first(models->names);
    for (; at && of; of = td_names_next(of)) {
        char *name = td_arena_strdup(arena, of->text, of->length);
        if (!name)
            break;
        struct td_served *served = of->item;
        atomic_fetch_add(&served->refs, 1);
        at[n++] = (struct td_models_listed){name, served};
    }
    pthread_mutex_unlock(&models->lock);
    if (at && n == room) {
        qsort(at, (size_t)n, sizeof *at, by_name);
        return n;
    }
    while (n)
        td_served_unref(&at[--n].served);
    return -ENOMEM;
}

bool td_models_index(struct td_models *models, struct td_arena *arena, const char **text,
                     size_t *size, uint64_t *changes)
{
    pthread_mutex_lock(&models->lock);
    struct index *index = models->index;
    *changes = models->changes;
    index = index && index->changes == *changes ? index : NULL;
    if (index)
        atomic_fetch_add(&index->refs, 1);
    pthread_mutex_unlock(&models->lock);
    *text = index ? td_arena_strdup(arena, index->text, index->size) : NULL;
    *size = index ? index->size : 0;
    drop_index(index);
    return *text != NULL;
}

void td_models_keep_index(struct td_models *models, const char *text, size_t size, uint64_t changes)
{
    struct index *index = NULL, *old = NULL;
    if (!td_budget_take(&td_memory, sizeof *index + size)) {
        index = malloc(sizeof *index + size);
        if (!index)
            td_budget_give(&td_memory, sizeof *index + size);
    }
    if (!index)
        return;
    atomic_init(&index->refs, 1);
    index->changes = changes;
    index->size = size;
    memcpy(index->text, text, size);
    pthread_mutex_lock(&models->lock);
    bool current = changes == models->changes;
    if (current) {
        old = models->index;
        models->index = index;
    }
    pthread_mutex_unlock(&models->lock);
    drop_index(current ? old : index);
}

int td_models_unknown(struct td_models *models, struct td_arena *arena, const char *name,
                      struct td_problem *problem)
{
    pthread_mutex_lock(&models->lock);
    const char *near = td_names_nearest(models->names, name, arena);
    pthread_mutex_unlock(&models->lock);
    return td_problem_set(
        problem, ENOENT,
        "no model '%.80s'; %s%s%sGET /v1/models lists them, and operators are "
        "models called op.NAME, as in op.add; PUT /v1/models/NAME with a file as the "
        "body makes one",
        name, near ? "the nearest is " : "", near ? near : "", near ? "; " : "");
}
