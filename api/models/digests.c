/* SHA-256 of models' files, which only sessions ask for. Where the CPU has no instructions for it
 * (235 MB/s), it took more than half of a load. So a load keeps the bytes of a large file, where
 * they have arrived, and answers, and a thread that gives way to all others hashes them.
 *
 * A caller that needs a digest before the thread has finished computes it itself, from the first
 * byte, since busy workers may leave the thread no time for a second. Before each piece the thread
 * checks whether the digest is still needed. It takes no lock that others hold for long.
 *
 * The arena that bytes lie in counts them in td_memory. One lock guards the queue, the number of
 * readers of each file's bytes, and the last reference; it is not held while bytes are read or
 * given back. */
#include "api/digest/digest.h"
#include "api/models/kept.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SMALL ((size_t)256 << 10) /* bytes of a file that is hashed at once: a millisecond */
/* Files that are not hashed yet take this many bytes at most, and an eighth of what td_memory may
 * hold; and none is kept while more than half of that is used. */
#define MOST ((size_t)512 << 20)
#define PART 8

struct td_digests {
    const struct td_topology *topology;
    pthread_mutex_t lock;
    pthread_cond_t some;          /* in the queue, or stopping */
    struct td_served_file *first; /* of the queue */
    size_t bytes;                 /* of files that are kept */
    pthread_t thread;
    bool runs;
    atomic_bool stopping;
};

/* Called by the last that knows of its bytes. */
static void drop_bytes(struct td_served_file *file)
{
    struct td_digests *digests = file->of;
    td_arena_destroy(file->holder);
    file->holder = NULL;
    pthread_mutex_lock(&digests->lock);
    digests->bytes -= file->size;
    pthread_mutex_unlock(&digests->lock);
}

/* ---- computing ---- */

/* With the lock held. */
static void unqueue(struct td_served_file *file)
{
    struct td_served_file **at = &file->of->first;
    if (!file->queued)
        return;
    while (*at != file)
        at = &(*at)->next;
    *at = file->next;
    file->queued = false;
}

/* go_on: NULL, or whether to go on with the next piece. */
static void hash(struct td_served_file *file, bool (*go_on)(void *file))
{
    struct td_digests *digests = file->of;
    char digest[sizeof file->digest];
    pthread_mutex_lock(&digests->lock);
    bool known = file->known;
    unqueue(file);
    file->readers += !known;
    pthread_mutex_unlock(&digests->lock);
    if (known)
        return;
    bool whole = td_digest_while(file->bytes, file->size, digest, go_on, file);
    pthread_mutex_lock(&digests->lock);
    if (whole && !file->known) {
        memcpy(file->digest, digest, sizeof digest);
        file->known = true;
    }
    bool last = !--file->readers && file->known;
    pthread_mutex_unlock(&digests->lock);
    if (last)
        drop_bytes(file);
}

const char *td_served_digest(const struct td_served *served)
{
    if (!served->file->known)
        hash(served->file, NULL);
    return served->file->digest;
}

size_t td_served_unhashed(const struct td_served *served)
{
    return served->file->known ? 0 : served->file->size;
}

bool td_served_is_alike(const struct td_served *a, const struct td_served *b)
{
    return a->file == b->file ||
           (a->file_bytes == b->file_bytes && !strcmp(td_served_digest(a), td_served_digest(b)));
}

bool td_served_must_hash(const struct td_served *a, const struct td_served *b)
{
    return a->file != b->file && a->file_bytes == b->file_bytes &&
           (!a->file->known || !b->file->known);
}

/* ---- the thread ---- */

static bool is_wanted(void *arg)
{
    const struct td_served_file *file = arg;
    return !file->known && file->refs > 1 && !file->of->stopping;
}

static void *work(void *arg)
{
    struct td_digests *digests = arg;
    pthread_setname_np(pthread_self(), "td digests");
    td_bind_allowed(digests->topology); /* its creator may be pinned to fewer CPUs */
    td_thread_give_way();
    pthread_mutex_lock(&digests->lock);
    while (!digests->stopping) {
        struct td_served_file *file = digests->first;
        if (!file) {
            pthread_cond_wait(&digests->some, &digests->lock);
            continue;
        }
        unqueue(file);
        file->refs++;
        pthread_mutex_unlock(&digests->lock);
        hash(file, is_wanted);
        td_served_file_unref(file);
        pthread_mutex_lock(&digests->lock);
    }
    pthread_mutex_unlock(&digests->lock);
    return NULL;
}

/* ---- files ---- */

/* Whether so many bytes may be kept; they count from now on. */
static bool take_room(struct td_digests *digests, size_t size)
{
    pthread_mutex_lock(&digests->lock);
    size_t limit = td_memory.limit, most = limit / PART < MOST ? limit / PART : MOST;
    bool fits = size <= most && digests->bytes <= most - size && td_memory.used <= limit / 2;
    if (fits && !digests->runs)
        fits = digests->runs = !pthread_create(&digests->thread, NULL, work, digests);
    digests->bytes += fits ? size : 0;
    pthread_mutex_unlock(&digests->lock);
    return fits;
}

/* False: there is no room for it, or it is not worth a thread's turn. */
static bool queue(struct td_served_file *file, const struct td_model_file *of)
{
    struct td_digests *digests = file->of;
    if (of->size <= SMALL || !take_room(digests, of->size))
        return false;
    td_arena_ref(of->holder);
    file->holder = of->holder;
    file->bytes = of->bytes;
    file->size = of->size;
    pthread_mutex_lock(&digests->lock);
    struct td_served_file **last = &digests->first;
    while (*last)
        last = &(*last)->next;
    *last = file;
    file->queued = true;
    pthread_cond_signal(&digests->some);
    pthread_mutex_unlock(&digests->lock);
    return true;
}

struct td_served_file *td_served_file_create(struct td_digests *digests,
                                             const struct td_model_file *of)
{
    struct td_served_file *file = calloc(1, sizeof *file);
    if (!file)
        return NULL;
    file->of = digests;
    atomic_init(&file->refs, 1);
    if (!queue(file, of)) {
        td_digest(of->bytes, of->size, file->digest);
        file->known = true;
    }
    return file;
}

void td_served_file_unref(struct td_served_file *file)
{
    pthread_mutex_lock(&file->of->lock); /* the thread takes what it finds in the queue */
    bool last = atomic_fetch_sub(&file->refs, 1) == 1;
    if (last)
        unqueue(file);
    pthread_mutex_unlock(&file->of->lock);
    if (!last)
        return;
    if (file->holder)
        drop_bytes(file);
    free(file);
}

/* ---- life ---- */

struct td_digests *td_digests_create(const struct td_topology *topology)
{
    struct td_digests *digests = calloc(1, sizeof *digests);
    if (!digests)
        return NULL;
    digests->topology = topology;
    pthread_mutex_init(&digests->lock, NULL);
    pthread_cond_init(&digests->some, NULL);
    return digests;
}

void td_digests_destroy(struct td_digests *digests)
{
    if (!digests)
        return;
    pthread_mutex_lock(&digests->lock);
    digests->stopping = true;
    pthread_cond_signal(&digests->some);
    pthread_mutex_unlock(&digests->lock);
    if (digests->runs)
        pthread_join(digests->thread, NULL);
    pthread_cond_destroy(&digests->some);
    pthread_mutex_destroy(&digests->lock);
    free(digests);
}
