/* Texts that come again. A client that calls one operator over and over sends the same JSON each
 * time, and only the binary tensors behind it differ; parsing was half of what such a call cost. So
 * the last trees are kept by their texts, and requests with the same bytes read one tree together.
 *
 * The tree is shared: what it says (pools, stored tensors, options, operators) is looked up anew by
 * every request, so nothing here can be out of date, and a text says the same whenever it is
 * parsed. What can be made of a text once and for all goes along with it (infer/call_cache.c).
 *
 * A text's hash chooses a set of four places, the compare of all its bytes decides. New trees take
 * a set's last place and move to the first when they are used, so that texts which come once (each
 * with an id of its own) do not drive out those that come often. Texts with data arrays, and long
 * ones, are parsed each time. Every HTTP thread enters; a set's lock guards its places, and a tree
 * goes with its last reader. A text that comes twice in a row stays at hand for the thread, which
 * then needs neither hash nor lock for it. */
#include "api/json/json.h"
#include "api/json/kept.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SETS 32
#define PLACES 4
#define LONGEST 2048 /* bytes of a text; with 128 places it bounds what is kept */

struct set {
    pthread_mutex_t lock;
    struct td_json_kept *place[PLACES];
    long long hits, misses;
};

struct td_json_cache {
    int depth;
    atomic_llong at_hand; /* texts that were */
    struct set set[SETS];
};

static _Thread_local struct {
    const struct td_json_cache *cache;
    struct td_json_kept *kept; /* with a reference, which goes with the thread */
    uint64_t before;           /* the last hash */
} hand;
static pthread_key_t hand_key;
static pthread_once_t hand_once = PTHREAD_ONCE_INIT;

static void drop_hand(void *kept)
{
    td_json_kept_drop(kept);
    hand.kept = NULL;
}

static void make_hand(void)
{
    if (pthread_key_create(&hand_key, drop_hand))
        abort(); /* 1,024 of them are in use */
}

/* Keeps the tree at hand when its text comes the second time. */
static void keep_at_hand(const struct td_json_cache *cache, struct td_json_kept *kept, uint64_t h)
{
    if (hand.before == h && !pthread_setspecific(hand_key, kept)) {
        atomic_fetch_add_explicit(&kept->readers, 1, memory_order_relaxed);
        td_json_kept_drop(hand.kept);
        hand.kept = kept;
        hand.cache = cache;
    }
    hand.before = h;
}

struct td_json_cache *td_json_cache_create(int depth)
{
    pthread_once(&hand_once, make_hand);
    struct td_json_cache *cache = calloc(1, sizeof *cache);
    if (cache)
        cache->depth = depth;
    for (int i = 0; cache && i < SETS; i++)
        pthread_mutex_init(&cache->set[i].lock, NULL);
    return cache;
}

void td_json_cache_destroy(struct td_json_cache *cache)
{
    for (int i = 0; cache && i < SETS; i++) {
        for (int k = 0; k < PLACES; k++)
            td_json_kept_drop(cache->set[i].place[k]);
        pthread_mutex_destroy(&cache->set[i].lock);
    }
    free(cache);
}

static uint64_t mix(uint64_t h, const uint64_t word[2])
{
    __uint128_t wide = (__uint128_t)(h ^ word[0]) * (word[1] ^ 0x9e3779b97f4a7c15);
    return (uint64_t)wide ^ (uint64_t)(wide >> 64);
}

static uint64_t hash(const char *text, size_t length)
{
    uint64_t h = length, word[2];
    for (; length >= sizeof word; text += sizeof word, length -= sizeof word) {
        memcpy(word, text, sizeof word);
        h = mix(h, word);
    }
    memset(word, 0, sizeof word);
    memcpy(word, text, length);
    return mix(mix(h, word), (uint64_t[]){h, 0});
}

/* A reference to the tree of the text, which moves to the set's first place; NULL: not there. */
static struct td_json_kept *take(struct set *set, uint64_t h, const char *text, size_t length)
{
    struct td_json_kept *kept = NULL;
    pthread_mutex_lock(&set->lock);
    for (int i = 0; i < PLACES && !kept; i++) {
        kept = set->place[i];
        if (!kept || kept->hash != h || kept->length != length ||
            memcmp(kept->text, text, length)) {
            kept = NULL;
            continue;
        }
        memmove(set->place + 1, set->place, (size_t)i * sizeof *set->place);
        set->place[0] = kept;
        atomic_fetch_add_explicit(&kept->readers, 1, memory_order_relaxed);
    }
    *(kept ? &set->hits : &set->misses) += 1;
    pthread_mutex_unlock(&set->lock);
    return kept;
}

/* Gives the json's tree a place; the json is its other reader. NULL when there is no memory. */
static struct td_json_kept *put(struct set *set, uint64_t h, const char *text, size_t length,
                                struct td_json *json)
{
    size_t size = sizeof(struct td_json_kept) + length;
    struct td_json_kept *kept = td_budget_take(&td_memory, size) ? NULL : malloc(size);
    if (!kept)
        return NULL;
    atomic_init(&kept->readers, 2);
    atomic_init(&kept->companion, NULL);
    kept->root = json->root;
    kept->hash = h;
    kept->length = length;
    kept->bytes = size + json->tree_bytes_;
    json->tree_bytes_ = 0;
    memcpy(kept->text, text, length);
    pthread_mutex_lock(&set->lock);
    struct td_json_kept **place = &set->place[PLACES - 1], *old = *place;
    *place = kept;
    pthread_mutex_unlock(&set->lock);
    td_json_kept_drop(old);
    return kept;
}

int td_json_cache_parse(struct td_json_cache *cache, struct td_json *json, const char *text,
                        size_t length, struct td_problem *problem)
{
    if (length > LONGEST)
        return td_json_parse(json, text, length, cache->depth, problem);
    struct td_json_kept *near = hand.kept;
    if (near && near->length == length && hand.cache == cache &&
        !memcmp(near->text, text, length)) {
        atomic_fetch_add_explicit(&near->readers, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&cache->at_hand, 1, memory_order_relaxed);
        td_json_init(json);
        json->root = near->root;
        json->kept_ = near;
        return 0;
    }
    uint64_t h = hash(text, length);
    struct set *set = &cache->set[h % SETS];
    struct td_json_kept *kept = take(set, h, text, length);
    if (kept) {
        td_json_init(json);
        json->root = kept->root;
        keep_at_hand(cache, kept, h);
    } else {
        int err = td_json_parse(json, text, length, cache->depth, problem);
        if (err || json->n_spans)
            return err;
        kept = put(set, h, text, length, json);
    }
    json->kept_ = kept;
    return 0;
}

void td_json_cache_counts(struct td_json_cache *cache, long long *hits, long long *misses)
{
    *hits = atomic_load(&cache->at_hand);
    *misses = 0;
    for (int i = 0; i < SETS; i++) {
        pthread_mutex_lock(&cache->set[i].lock);
        *hits += cache->set[i].hits;
        *misses += cache->set[i].misses;
        pthread_mutex_unlock(&cache->set[i].lock);
    }
}
