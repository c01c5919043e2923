/* Tensors that stay in the server, mostly weights. A name maps to a reference-counted td_weight;
 * replacing or removing one only drops the store's reference, so calls under way keep theirs. One
 * lock guards the names; it is never held while elements are read, written or freed. What weights
 * and their forms hold is taken from one budget as long as they live, whoever has the last
 * reference. */
#include "api/tensors/tensors.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* No memory for a name is an answer, and not the end of the process; the entry is then in no table.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((void)(entry))
#include <uthash.h>

#define NAME_MAX_ 200

struct entry {
    struct td_weight *weight;
    UT_hash_handle hh;
    char name[];
};

struct td_tensors {
    struct td_weight_room room; /* first, so that weights lead back here */
    struct td_budget budget;
    pthread_mutex_t lock;
    struct entry *entries; /* uthash's head: also the first of all, in the order they came */
};

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    return td_budget_take(kept ? &((struct td_tensors *)room)->budget : &td_memory, bytes);
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    td_budget_give(kept ? &((struct td_tensors *)room)->budget : &td_memory, bytes);
}

struct td_tensors *td_tensors_create(size_t bytes)
{
    struct td_tensors *tensors = calloc(1, sizeof *tensors);
    if (!tensors)
        return NULL;
    tensors->room = (struct td_weight_room){take, give};
    td_budget_init(&tensors->budget, &td_memory, bytes, ENOSPC);
    pthread_mutex_init(&tensors->lock, NULL);
    return tensors;
}

const struct td_budget *td_tensors_budget(const struct td_tensors *tensors)
{
    return &tensors->budget;
}

struct td_weight_room *td_tensors_room(struct td_tensors *tensors)
{
    return &tensors->room;
}

int td_tensors_make(struct td_tensors *tensors, struct td_weight **weight,
                    const struct td_tensor *like)
{
    return td_weight_create(weight, like, &tensors->room);
}

/* ---- entries; the lock is held ---- */

static struct entry *find(struct td_tensors *tensors, const char *name)
{
    struct entry *entry;
    HASH_FIND_STR(tensors->entries, name, entry);
    return entry;
}

/* What an entry takes, with its share of the table. */
static size_t entry_bytes(size_t length)
{
    return sizeof(struct entry) + length + 1 + 2 * sizeof(UT_hash_bucket);
}

/* A new one, without a tensor yet. */
static int add(struct td_tensors *tensors, const char *name)
{
    size_t length = strlen(name);
    int err = td_budget_take(&tensors->budget, entry_bytes(length));
    if (err)
        return err;
    struct entry *entry = malloc(sizeof *entry + length + 1);
    if (entry) {
        memset(entry, 0, sizeof *entry);
        memcpy(entry->name, name, length + 1);
        HASH_ADD_KEYPTR(hh, tensors->entries, entry->name, length, entry);
        if (entry->hh.tbl)
            return 0;
    }
    free(entry);
    td_budget_give(&tensors->budget, entry_bytes(length));
    return -ENOMEM;
}

/* What it held is the caller's. */
static struct td_weight *drop(struct td_tensors *tensors, struct entry *entry)
{
    struct td_weight *weight = entry->weight;
    td_budget_give(&tensors->budget, entry_bytes(entry->hh.keylen));
    HASH_DEL(tensors->entries, entry);
    free(entry);
    return weight;
}

/* ---- the store ---- */

void td_tensors_destroy(struct td_tensors *tensors)
{
    if (!tensors)
        return;
    while (tensors->entries) {
        struct td_weight *weight = drop(tensors, tensors->entries);
        td_weight_unref(&weight);
    }
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
    struct entry *entry = find(tensors, name);
    struct td_weight *weight = entry ? td_weight_ref(entry->weight) : NULL;
    pthread_mutex_unlock(&tensors->lock);
    return weight;
}

int td_tensors_remove(struct td_tensors *tensors, const char *name)
{
    pthread_mutex_lock(&tensors->lock);
    struct entry *entry = find(tensors, name);
    struct td_weight *weight = entry ? drop(tensors, entry) : NULL;
    pthread_mutex_unlock(&tensors->lock);
    bool found = weight != NULL;
    td_weight_unref(&weight);
    return found ? 0 : -ENOENT;
}

int td_tensors_count(struct td_tensors *tensors)
{
    pthread_mutex_lock(&tensors->lock);
    int n = (int)HASH_COUNT(tensors->entries);
    pthread_mutex_unlock(&tensors->lock);
    return n;
}

/* Copies, as writing them out under the lock would hold up whoever looks for one. */
int td_tensors_list(struct td_tensors *tensors, struct td_arena *arena,
                    struct td_tensors_listed **list)
{
    pthread_mutex_lock(&tensors->lock);
    int n = 0, room = (int)HASH_COUNT(tensors->entries);
    struct td_tensors_listed *at = *list = td_arena_alloc(arena, (size_t)room * sizeof *at + 1);
    for (struct entry *entry = tensors->entries; at && entry; entry = entry->hh.next, n++) {
        char *name = td_arena_alloc(arena, entry->hh.keylen + 1);
        if (!name)
            break;
        memcpy(name, entry->name, entry->hh.keylen + 1);
        at[n] = (struct td_tensors_listed){name, td_weight_ref(entry->weight)};
    }
    pthread_mutex_unlock(&tensors->lock);
    if (at && n == room)
        return n;
    while (n)
        td_weight_unref(&at[--n].weight);
    return -ENOMEM;
}

/* An entry for each name that has none. */
static int add_names(struct td_tensors *tensors, const struct td_tensors_new *list)
{
    int status = 200;
    for (; list; list = list->next) {
        const struct entry *entry = find(tensors, list->name);
        if (list->expected && (!entry || entry->weight != list->expected))
            return -EBUSY;
        if (entry)
            continue;
        int err = add(tensors, list->name);
        if (err)
            return err;
        status = 201;
    }
    return status;
}

/* Nobody sees the entries that are still without a tensor, as the lock is held over both steps: the
 * first can fail and leaves nothing but such entries, the second cannot. */
int td_tensors_put(struct td_tensors *tensors, struct td_tensors_new *list)
{
    struct td_tensors_new *one;
    pthread_mutex_lock(&tensors->lock);
    int status = add_names(tensors, list);
    for (one = list; one; one = one->next) {
        struct entry *entry = find(tensors, one->name);
        if (status > 0) {
            struct td_weight *old = entry->weight;
            entry->weight = one->weight;
            one->weight = old;
        } else if (entry && !entry->weight) {
            drop(tensors, entry);
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
    if (err != -ENOSPC)
        return td_problem_set(problem, -err, "no memory for %s", what);
    return td_problem_set(problem, ENOSPC,
                          "no room for %s: stored tensors and models have %zu of their %zu bytes "
                          "(store-bytes); DELETE /v1/tensors/{name} or /v1/models/{name} makes "
                          "some",
                          what, (size_t)tensors->budget.used, (size_t)tensors->budget.limit);
}
