/* Tensors that stay in the server, mostly weights. A name maps to a reference-counted td_weight;
 * replacing or removing one only drops the store's reference, so calls under way keep theirs. One
 * lock guards the names; it is never held while elements are read, written or freed. What weights
 * and their forms hold is taken from one budget as long as they live, whoever has the last
 * reference. */
#include "api/names/names.h"
#include "api/tensors/tensors.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define NAME_MAX_ 200

struct td_tensors {
    struct td_weight_room room; /* first, so that weights lead back here */
    struct td_budget budget;
    void (*shed)(void *arg); /* makes room in the budget; or NULL */
    void *shed_arg;
    pthread_mutex_t lock;
    struct td_names *names; /* of weights */
};

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    return td_budget_take(kept ? &((struct td_tensors *)room)->budget : &td_memory, bytes);
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    td_budget_give(kept ? &((struct td_tensors *)room)->budget : &td_memory, bytes);
    if (kept)
        td_heap_freed(bytes);
}

struct td_tensors *td_tensors_create(size_t bytes)
{
    struct td_tensors *tensors = calloc(1, sizeof *tensors);
    if (!tensors)
        return NULL;
    tensors->names = td_names_create(&tensors->budget);
    if (!tensors->names) {
        free(tensors);
        return NULL;
    }
    tensors->room = (struct td_weight_room){take, give};
    td_budget_init(&tensors->budget, &td_memory, bytes, ENOSPC);
    pthread_mutex_init(&tensors->lock, NULL);
    return tensors;
}

struct td_budget *td_tensors_budget(struct td_tensors *tensors)
{
    return &tensors->budget;
}

void td_tensors_shed_by(struct td_tensors *tensors, void (*shed)(void *arg), void *arg)
{
    tensors->shed = shed;
    tensors->shed_arg = arg;
}

struct td_weight_room *td_tensors_room(struct td_tensors *tensors)
{
    return &tensors->room;
}

int td_tensors_make(struct td_tensors *tensors, struct td_weight_room *room,
                    struct td_weight **weight, const struct td_tensor *like)
{
    room = room ? room : &tensors->room;
    int err = td_weight_create(weight, like, room);
    if (err != -ENOSPC || !tensors->shed)
        return err;
    tensors->shed(tensors->shed_arg);
    return td_weight_create(weight, like, room);
}

/* ---- the store ---- */

void td_tensors_destroy(struct td_tensors *tensors)
{
    if (!tensors)
        return;
    struct td_name *name;
    while ((name = td_names_first(tensors->names))) {
        struct td_weight *weight = td_names_drop(tensors->names, name);
        td_weight_unref(&weight);
    }
    td_names_destroy(tensors->names);
    pthread_mutex_destroy(&tensors->lock);
    free(tensors);
}

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

struct td_weight *td_tensors_find(struct td_tensors *tensors, const char *name)
{
    pthread_mutex_lock(&tensors->lock);
    const struct td_name *found = td_names_find(tensors->names, name);
    struct td_weight *weight = found ? td_weight_ref(found->item) : NULL;
    pthread_mutex_unlock(&tensors->lock);
    return weight;
}

int td_tensors_remove(struct td_tensors *tensors, const char *name)
{
    pthread_mutex_lock(&tensors->lock);
    struct td_name *found = td_names_find(tensors->names, name);
    struct td_weight *weight = found ? td_names_drop(tensors->names, found) : NULL;
    pthread_mutex_unlock(&tensors->lock);
    td_weight_unref(&weight);
    return found ? 0 : -ENOENT;
}

int td_tensors_count(struct td_tensors *tensors)
{
    pthread_mutex_lock(&tensors->lock);
    int n = td_names_count(tensors->names);
    pthread_mutex_unlock(&tensors->lock);
    return n;
}

static bool is_under(const struct td_name *name, const char *under)
{
    size_t n = under ? strlen(under) : 0;
    return !under || (name->length > n && name->text[n] == '/' && !memcmp(name->text, under, n));
}

/* Weights are freed without the lock, so some at a time. */
int td_tensors_remove_under(struct td_tensors *tensors, const char *under)
{
    struct td_weight *gone[64];
    int n, all = 0;
    do {
        n = 0;
        pthread_mutex_lock(&tensors->lock);
        struct td_name *next, *name = td_names_first(tensors->names);
        for (; name && n < 64; name = next) {
            next = td_names_next(name);
            if (is_under(name, under))
                gone[n++] = td_names_drop(tensors->names, name);
        }
        pthread_mutex_unlock(&tensors->lock);
        for (int i = 0; i < n; i++)
            td_weight_unref(&gone[i]);
        all += n;
    } while (n == 64);
    return all;
}

/* Copies, as writing them out under the lock would hold up whoever looks for one. */
int td_tensors_list(struct td_tensors *tensors, struct td_arena *arena, const char *under,
                    struct td_tensors_listed **list)
{
    pthread_mutex_lock(&tensors->lock);
    int n = 0, room = 0;
    const struct td_name *of = td_names_first(tensors->names);
    for (; of; of = td_names_next(of))
        room += is_under(of, under);
    struct td_tensors_listed *at = *list = td_arena_alloc(arena, (size_t)room * sizeof *at + 1);
    for (of = td_names_first(tensors->names); at && of; of = td_names_next(of)) {
        if (!is_under(of, under))
            continue;
        char *name = td_arena_strdup(arena, of->text, of->length);
        if (!name)
            break;
        at[n++] = (struct td_tensors_listed){name, td_weight_ref(of->item)};
    }
    pthread_mutex_unlock(&tensors->lock);
    if (at && n == room)
        return n;
    while (n)
        td_weight_unref(&at[--n].weight);
    return -ENOMEM;
}

/* Adds those that are not there. */
static int add_names(struct td_tensors *tensors, const struct td_tensors_new *list)
{
    int status = 200;
    for (; list; list = list->next) {
        struct td_name *name = td_names_find(tensors->names, list->name);
        if (list->expected && (!name || name->item != list->expected))
            return -EBUSY;
        if (name)
            continue;
        int err = td_names_add(tensors->names, list->name, &name);
        if (err)
            return err;
        status = 201;
    }
    return status;
}

/* Nobody sees the names that are still without a tensor, as the lock is held over both steps: the
 * first can fail and leaves nothing but such names, the second cannot. */
int td_tensors_put(struct td_tensors *tensors, struct td_tensors_new *list)
{
    struct td_tensors_new *one;
    pthread_mutex_lock(&tensors->lock);
    int status = add_names(tensors, list);
    for (one = list; one; one = one->next) {
        struct td_name *name = td_names_find(tensors->names, one->name);
        if (status > 0) {
            struct td_weight *old = name->item;
            name->item = one->weight;
            one->weight = old;
        } else if (name && !name->item) {
            td_names_drop(tensors->names, name);
        }
    }
    pthread_mutex_unlock(&tensors->lock);
    for (one = list; one; one = one->next)
        td_weight_unref(&one->weight);
    return status;
}

int td_tensors_no_room(const struct td_tensors *tensors, int err, const char *what,
                       struct td_problem *problem)
{
    if (err == -EDQUOT)
        return td_problem_set(problem, EDQUOT,
                              "no room for %s in what the token may store (store); GET /v1/access "
                              "says what it has, DELETE /v1/tensors/{name} or /v1/models/{name} "
                              "makes some",
                              what);
    if (err != -ENOSPC)
        return td_problem_set(problem, -err, "no memory for %s", what);
    return td_problem_set(problem, ENOSPC,
                          "no room for %s: stored tensors and models have %zu of their %zu bytes "
                          "(store-bytes); DELETE /v1/tensors/{name} or /v1/models/{name} makes "
                          "some",
                          what, (size_t)tensors->budget.used, (size_t)tensors->budget.limit);
}
