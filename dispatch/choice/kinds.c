/* The cache of measured kinds: see kinds.h. A set has eight kinds, whose keys share a cache line;
 * the keys of all sets lie together, for who goes through them all. A reader takes no lock: it
 * compares keys, reads the row and compares the key again; a writer sets the key to 0 first. The
 * time of the last use is the number of kinds added until then. */
#include "dispatch/choice/kinds.h"

#include "dispatch/choice/hash.h"
#include "dispatch/choice/tune.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

#define SETS 256
#define WAYS 8
#define COUNTED 1024 /* operators whose hits and misses are counted: more than there are */
#define SHARE 20     /* measuring takes at most 1 / SHARE of the time between two evictions */

static _Alignas(64) _Atomic uint64_t keys[SETS][WAYS]; /* 0: free */
static struct set {
    _Alignas(64) _Atomic(const struct td_impl *) row[WAYS];
    atomic_llong used[WAYS], hits[WAYS];
    struct td_measured measured[WAYS]; /* guarded by lock */
} sets[SETS];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_llong kinds, measured, evicted, postponed, asked;

/* By operator: the hits of kinds that were evicted, and selections without an entry. An operator
 * claims an element once, the first free one from its hash on. */
static struct count {
    _Atomic(const struct td_op *) op;
    atomic_llong gone_hits, misses;
} counts[COUNTED];
static _Atomic int64_t next_eviction_ns;

struct td_tuned td_tuned(void)
{
    return (struct td_tuned){.kinds = kinds,
                             .most = SETS * WAYS,
                             .measured = measured,
                             .evicted = evicted,
                             .postponed = postponed};
}

static struct set *set_of(uint64_t key)
{
    return &sets[(key >> 1) % SETS];
}

static _Atomic uint64_t *keys_of(const struct set *set)
{
    return keys[set - sets];
}

static int find(const struct set *set, uint64_t key)
{
    for (int i = 0; i < WAYS; i++)
        if (atomic_load_explicit(&keys_of(set)[i], memory_order_acquire) == key)
            return i;
    return -1;
}

/* The operator's counts, which are claimed if need be; NULL: there are too many operators. */
static struct count *count_of(const struct td_op *op)
{
    uint64_t hash = td_hash(0, (uintptr_t)op);
    for (int i = 0; i < COUNTED; i++) {
        struct count *c = &counts[(hash + (uint64_t)i) % COUNTED];
        const struct td_op *found = NULL;
        if (atomic_compare_exchange_strong(&c->op, &found, op) || found == op)
            return c;
    }
    return NULL;
}

static void count(const struct td_op *op, long long gone_hits, int misses)
{
    struct count *c = op ? count_of(op) : NULL;
    if (!c)
        return;
    atomic_fetch_add_explicit(&c->gone_hits, gone_hits, memory_order_relaxed);
    atomic_fetch_add_explicit(&c->misses, misses, memory_order_relaxed);
}

const struct td_impl *td_kind_row(uint64_t key, bool selects)
{
    struct set *set = set_of(key);
    int i = find(set, key);
    if (i < 0)
        return NULL;
    const struct td_impl *row = atomic_load_explicit(&set->row[i], memory_order_relaxed);
    long long now = atomic_load_explicit(&measured, memory_order_relaxed);
    if (atomic_load_explicit(&set->used[i], memory_order_relaxed) != now)
        atomic_store_explicit(&set->used[i], now, memory_order_relaxed);
    if (selects) { /* no atomic increment: a race may lose a hit */
        long long hits = atomic_load_explicit(&set->hits[i], memory_order_relaxed);
        atomic_store_explicit(&set->hits[i], hits + 1, memory_order_relaxed);
    }
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&keys_of(set)[i], memory_order_relaxed) == key ? row : NULL;
}

bool td_kind_copy(uint64_t key, struct td_measured *m)
{
    struct set *set = set_of(key);
    pthread_mutex_lock(&lock);
    int i = find(set, key);
    if (i >= 0)
        *m = set->measured[i];
    pthread_mutex_unlock(&lock);
    return i >= 0;
}

bool td_kind_nearest(const struct td_measured *like, double most, struct td_measured *found)
{
    const struct td_measured *nearest = NULL;
    pthread_mutex_lock(&lock);
    for (int s = 0; s < SETS; s++)
        for (int i = 0; i < WAYS; i++) {
            const struct td_measured *m = &sets[s].measured[i];
            if (!keys[s][i] || m->family != like->family || m->op != like->op || m->of != like->of)
                continue;
            double factor = fabs(log(m->flops / like->flops));
            if (factor <= log(most) &&
                (!nearest || factor < fabs(log(nearest->flops / like->flops))))
                nearest = m;
        }
    if (nearest)
        *found = *nearest;
    pthread_mutex_unlock(&lock);
    return nearest;
}

bool td_kind_may_add(uint64_t key)
{
    return find(set_of(key), 0) >= 0 || td_clock_ns() >= atomic_load(&next_eviction_ns);
}

void td_kind_postpone(const struct td_op *op)
{
    count(op, 0, 1);
    atomic_fetch_add_explicit(&postponed, 1, memory_order_relaxed);
}

/* The index of a free entry, or of the least recently used one. */
static int make_room(const struct set *set)
{
    int at = 0;
    for (int i = 0; i < WAYS && keys_of(set)[at]; i++)
        if (!keys_of(set)[i] || set->used[i] < set->used[at])
            at = i;
    return at;
}

void td_kind_add(uint64_t key, const struct td_measured *m, int64_t took_ns)
{
    struct set *set = set_of(key);
    pthread_mutex_lock(&lock);
    int before = find(set, key), i = before >= 0 ? before : make_room(set);
    bool full = keys_of(set)[i] && before < 0;
    long long hits = atomic_load(&set->hits[i]);
    atomic_fetch_sub(&asked, keys_of(set)[i] && set->measured[i].asked);
    if (full)
        count(set->measured[i].op, hits, 0);
    count(m->op, 0, 1);
    atomic_store_explicit(&keys_of(set)[i], 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&set->row[i], m->row, memory_order_relaxed);
    set->measured[i] = *m;
    atomic_store(&set->hits[i], before >= 0 ? hits : 0);
    atomic_store(&set->used[i], atomic_fetch_add(&measured, 1) + 1);
    atomic_store_explicit(&keys_of(set)[i], key, memory_order_release);
    atomic_fetch_add(&asked, m->asked);
    kinds += !full && before < 0;
    evicted += full;
    if (full)
        atomic_store(&next_eviction_ns, td_clock_ns() + SHARE * took_ns);
    pthread_mutex_unlock(&lock);
}

bool td_kinds_were_asked(void)
{
    return atomic_load_explicit(&asked, memory_order_relaxed) > 0;
}

void td_choices_visit(td_choice_visit *visit, void *arg)
{
    pthread_mutex_lock(&lock);
    for (int s = 0; s < SETS; s++)
        for (int i = 0; i < WAYS; i++)
            if (keys[s][i])
                visit(arg, &sets[s].measured[i], atomic_load(&sets[s].hits[i]));
    pthread_mutex_unlock(&lock);
}

long long td_choices_changes(void)
{
    return atomic_load(&measured);
}

struct of_op {
    const struct td_op *op;
    struct td_choices all;
};

static void sum(void *arg, const struct td_measured *m, long long hits)
{
    struct of_op *of = arg;
    of->all.kept += m->op == of->op;
    of->all.hits += m->op == of->op ? hits : 0;
}

struct td_choices td_choices_of(const struct td_op *op)
{
    struct of_op of = {.op = op};
    td_choices_visit(sum, &of);
    struct count *c = count_of(op);
    of.all.hits += c ? atomic_load(&c->gone_hits) : 0;
    of.all.misses = c ? atomic_load(&c->misses) : 0;
    return of.all;
}
