/* A set-associative table: the key's hash names a set of four items under one mutex. A look-up
 * holds that mutex for four hash compares and one memcmp (some 50 ns all told), and two calls only
 * meet there when they are alike. Creating happens outside the lock, so that a slow one (a JIT
 * compiler's milliseconds) stops nobody; when two threads make the same thing, the second throws
 * its own away. Items are counted, so one that is in use survives being pushed out. */
#include "kernels/memo.h"

#include "kernels/kernels.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct td_memo_item {
    atomic_int refs;
    void (*destroy)(void *value);
    uint64_t hash, used; /* used: the set's clock at the last look-up */
    void *value;
    unsigned char key[];
};

/* Eight bytes a step, mixed as in wyhash: a product's two halves folded together. */
static uint64_t hash_of(const unsigned char *key, size_t len)
{
    uint64_t h = 0x9e3779b97f4a7c15u ^ len;
    for (size_t i = 0; i < len; i += 8) {
        uint64_t word = 0;
        memcpy(&word, key + i, len - i < 8 ? len - i : 8);
        __uint128_t wide = (__uint128_t)(h ^ word) * 0xa0761d6478bd642fu;
        h = (uint64_t)wide ^ (uint64_t)(wide >> 64) ^ i;
    }
    return h;
}

static void drop(struct td_memo_item *item)
{
    if (!item || atomic_fetch_sub(&item->refs, 1) != 1)
        return;
    if (item->value)
        item->destroy(item->value);
    free(item);
}

/* With the set locked: a new reference to the item of this key, or NULL. */
static struct td_memo_item *look(struct td_memo *memo, struct td_memo_set *set, uint64_t hash,
                                 const void *key)
{
    for (int i = 0; i < TD_MEMO_WAYS; i++) {
        struct td_memo_item *item = set->way[i];
        if (item && item->hash == hash && !memcmp(item->key, key, memo->key_len)) {
            atomic_fetch_add(&item->refs, 1);
            item->used = ++set->clock;
            return item;
        }
    }
    return NULL;
}

/* With the set locked: puts item in place of an empty or the oldest one, which is handed back. */
static struct td_memo_item *place(struct td_memo_set *set, struct td_memo_item *item)
{
    int at = 0;
    for (int i = 1; i < TD_MEMO_WAYS && set->way[at]; i++)
        if (!set->way[i] || set->way[i]->used < set->way[at]->used)
            at = i;
    struct td_memo_item *old = set->way[at];
    atomic_fetch_add(&item->refs, 1);
    item->used = ++set->clock;
    set->way[at] = item;
    return old;
}

/* value: NULL: what create gives. */
static struct td_memo_item *make(struct td_memo *memo, uint64_t hash, const void *key, void *value)
{
    struct td_memo_item *item = malloc(sizeof *item + memo->key_len);
    int error = 0;
    if (!item)
        return NULL;
    item->value = value ? value : memo->create(key, &error);
    if (!item->value && error) {
        free(item);
        return NULL;
    }
    atomic_init(&item->refs, 1);
    item->destroy = memo->destroy;
    item->hash = hash;
    item->used = 0;
    memcpy(item->key, key, memo->key_len);
    return item;
}

static struct td_memo_item *get(struct td_memo *memo, const void *key, bool may_create, void *value)
{
    uint64_t hash = hash_of(key, memo->key_len);
    struct td_memo_set *set = &memo->set[hash % TD_MEMO_SETS];
    struct td_memo_item *item = NULL, *mine = NULL, *old = NULL;
    if (!value) {
        pthread_mutex_lock(&set->lock);
        item = look(memo, set, hash, key);
        pthread_mutex_unlock(&set->lock);
    }
    if (item || !may_create || !(mine = make(memo, hash, key, value)))
        return item;

    pthread_mutex_lock(&set->lock);
    item = look(memo, set, hash, key);
    if (!item)
        old = place(set, mine);
    pthread_mutex_unlock(&set->lock);
    drop(item ? mine : old);
    return item ? item : mine;
}

struct td_memo_item *td_memo_get(struct td_memo *memo, const void *key)
{
    return get(memo, key, true, NULL);
}

struct td_memo_item *td_memo_find(struct td_memo *memo, const void *key)
{
    return get(memo, key, false, NULL);
}

struct td_memo_item *td_memo_put(struct td_memo *memo, const void *key, void *value)
{
    return get(memo, key, true, value);
}

void *td_memo_value(const struct td_memo_item *item)
{
    return item->value;
}

struct td_memo_item *td_memo_ref(struct td_memo_item *item)
{
    atomic_fetch_add(&item->refs, 1);
    return item;
}

void td_memo_unref(struct td_memo_item **item)
{
    drop(*item);
    *item = NULL;
}

void td_memo_clear(struct td_memo *memo)
{
    for (int s = 0; s < TD_MEMO_SETS; s++) {
        struct td_memo_item *old[TD_MEMO_WAYS];
        pthread_mutex_lock(&memo->set[s].lock);
        memcpy(old, memo->set[s].way, sizeof old);
        memset(memo->set[s].way, 0, sizeof old);
        pthread_mutex_unlock(&memo->set[s].lock);
        for (int i = 0; i < TD_MEMO_WAYS; i++)
            drop(old[i]);
    }
}

void td_prepared_release(struct td_prepared *prepared)
{
    for (int i = 0; i < TD_MAX_STATES && prepared->state[i]; i++)
        td_memo_unref(&prepared->state[i]);
    *prepared = (struct td_prepared){.only_look = prepared->only_look};
}
