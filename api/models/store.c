/* Models under their names. A name leads to a reference-counted model; replacing or removing one
 * only drops the store's reference, so calls under way keep theirs. One lock guards the names; it
 * is never held while a model is read, run or freed, nor while lists are sorted or written. */
#include "api/models/kept.h"
#include "api/names/names.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SETTINGS_DEPTH 8 /* of objects in each other; what is right has three */

struct td_models {
    struct td_tensors *tensors;
    struct td_digests *digests;
    td_models_end *end; /* or NULL */
    td_models_set *set;
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

struct td_models *td_models_create(struct td_tensors *tensors, const struct td_topology *topology)
{
    struct td_models *models = calloc(1, sizeof *models);
    if (!models)
        return NULL;
    models->names = td_names_create(td_tensors_budget(tensors));
    models->digests = td_digests_create(topology);
    if (!models->names || !models->digests) {
        td_names_destroy(models->names);
        td_digests_destroy(models->digests);
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
    td_digests_destroy(models->digests);
    drop_index(models->index);
    pthread_mutex_destroy(&models->lock);
    free(models);
}

void td_models_tell(struct td_models *models, td_models_end *end, td_models_set *set, void *arg)
{
    models->end = end;
    models->set = set;
    models->end_arg = arg;
}

int td_models_set_by_file(struct td_models *models, const char *name, const char *text, size_t size,
                          struct td_problem *problem)
{
    return models->set ? models->set(models->end_arg, name, text, size, problem) : 0;
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

static int load(struct td_models *models, struct td_weight_room *room, struct td_served **result,
                const struct td_model_file *file, struct td_problem *problem)
{
    room = room ? room : td_tensors_room(models->tensors);
    int err = td_served_load(models->tensors, models->digests, room, result, file, problem);
    if (err != -ENOSPC && err != -EDQUOT)
        return err;
    shed(models);
    return td_served_load(models->tensors, models->digests, room, result, file, problem);
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

/* As the name's settings have it, which stay when the file is another. */
static int settle_again(struct td_models *models, struct td_served *served,
                        const struct td_served *old, struct td_problem *problem)
{
    struct td_json json;
    struct td_problem why;
    td_json_init(&json);
    int err = old && old->settings ? td_json_parse(&json, old->settings, strlen(old->settings),
                                                   SETTINGS_DEPTH, problem)
                                   : 0;
    if (!err)
        err = td_served_settle(served, json.root, models->tensors, 0, &why);
    if (err && json.root)
        td_problem_set(problem, -err,
                       "the model's settings do not fit this file: %.300s; PUT "
                       "/v1/models/NAME/settings with {} takes them back",
                       why.text);
    else if (err)
        *problem = why;
    td_json_free(&json);
    return err;
}

/* What the name leads to becomes another, if it is still that: 201 it is new, 200, -EAGAIN, what
 * td_names_add gives back. Takes the reference where it went well. */
static int replace(struct td_models *models, const char *name, const struct td_served *expected,
                   struct td_served *served)
{
    struct td_served *old = NULL;
    pthread_mutex_lock(&models->lock);
    struct td_name *of = td_names_find(models->names, name);
    int status = served_of(of) != expected ? -EAGAIN
                 : of                      ? 200
                                           : td_names_add(models->names, name, &of);
    if (status >= 0) {
        old = of->item;
        of->item = served;
        models->changes += !old;
        status = old ? 200 : 201;
    }
    pthread_mutex_unlock(&models->lock);
    td_served_unref(&old);
    return status;
}

int td_models_load(struct td_models *models, struct td_weight_room *room, const char *name,
                   const struct td_model_file *file, struct td_served **made,
                   struct td_problem *problem)
{
    struct td_served *served = NULL;
    int status = load(models, room, &served, file, problem);
    while (!status || status == -EAGAIN) {
        struct td_served *old = td_models_find(models, name);
        if (status == -EAGAIN) {
            struct td_served *again = td_served_copy(models->tensors, served, problem);
            td_served_unref(&served);
            served = again;
        }
        status = served ? settle_again(models, served, old, problem) : -ENOMEM;
        if (!status) {
            atomic_fetch_add(&served->refs, 1); /* the name's, beside this call's */
            status = replace(models, name, old, served);
            if (status < 0)
                atomic_fetch_sub(&served->refs, 1);
            if (status < 0 && status != -EAGAIN)
                td_tensors_no_room(models->tensors, status, "the model", problem);
        }
        td_served_unref(&old);
    }
    if (status >= 0 && made)
        *made = served;
    else
        td_served_unref(&served);
    return status;
}

int td_models_settle(struct td_models *models, const char *name, const cJSON *settings, size_t most,
                     struct td_problem *problem)
{
    int status = -EAGAIN;
    while (status == -EAGAIN) {
        struct td_served *old = td_models_find(models, name);
        bool say = td_settings_say(settings);
        const struct td_model_state *state;
        if (!old)
            return -ENOENT;
        if (!say && !old->settings) {
            bool none = !old->n_states;
            td_served_unref(&old);
            return none ? td_problem_set(problem, EINVAL,
                                         "%.80s has no state, so it has no sessions to set", name)
                        : 0;
        }
        struct td_served *served = td_served_copy(models->tensors, old, problem);
        status =
            served ? td_served_settle(served, settings, models->tensors, most, problem) : -ENOMEM;
        if (!status && say && !served->n_states && !td_model_states(served->model, &state))
            status =
                td_problem_set(problem, EINVAL,
                               "%.80s has no state, and these settings give it none; a context "
                               "is said as {\"state\":[{\"input\":\"%.60s\",\"dim\":1,"
                               "\"keep\":64}]}",
                               name, served->n_inputs ? served->input[0].name : "x");
        if (!status)
            status = replace(models, name, old, served);
        if (status < 0)
            td_served_unref(&served);
        td_served_unref(&old);
    }
    return status < 0 ? status : 0;
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
