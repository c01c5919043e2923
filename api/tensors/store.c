/* Tensors that stay in the server, mostly weights. A name maps to a reference-counted td_weight;
 * replacing or removing one only drops the store's reference, so calls under way keep theirs. One
 * lock guards the names; it is never held while elements are read, written or freed. */
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
    pthread_mutex_t lock;
    struct entry *entries; /* uthash's head: also the first of all, in the order they came */
};

struct td_tensors *td_tensors_create(void)
{
    struct td_tensors *tensors = calloc(1, sizeof *tensors);
    if (tensors)
        pthread_mutex_init(&tensors->lock, NULL);
    return tensors;
}

/* ---- entries; the lock is held ---- */

static struct entry *find(struct td_tensors *tensors, const char *name)
{
    struct entry *entry;
    HASH_FIND_STR(tensors->entries, name, entry);
    return entry;
}

/* A new one, without a tensor yet. */
static struct entry *add(struct td_tensors *tensors, const char *name)
{
    size_t length = strlen(name);
    struct entry *entry = malloc(sizeof *entry + length + 1);
    if (!entry)
        return NULL;
    memset(entry, 0, sizeof *entry);
    memcpy(entry->name, name, length + 1);
    HASH_ADD_KEYPTR(hh, tensors->entries, entry->name, length, entry);
    if (!entry->hh.tbl) {
        free(entry);
        return NULL;
    }
    return entry;
}

/* What it held is the caller's. */
static struct td_weight *drop(struct td_tensors *tensors, struct entry *entry)
{
    struct td_weight *weight = entry->weight;
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

void td_tensors_each(struct td_tensors *tensors, td_tensors_each_fn *each, void *arg)
{
    pthread_mutex_lock(&tensors->lock);
    for (const struct entry *entry = tensors->entries; entry; entry = entry->hh.next)
        each(arg, entry->name, entry->weight);
    pthread_mutex_unlock(&tensors->lock);
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
        if (!add(tensors, list->name))
            return -ENOMEM;
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
