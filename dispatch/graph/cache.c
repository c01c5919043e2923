/* The cache of bound expressions. Parsing, binding and fusing an expression take five times as long
 * as everything else in a small call, and follow from its text and from what its arguments are, not
 * from the elements of tensors. So a bound run is kept with the step that was made of it. The next
 * call only sets the addresses of its inputs and results.
 *
 * An entry is used by one thread at a time: it leaves the cache when it is taken. If several
 * threads evaluate one expression, each binds an entry of its own, and all of these are kept. What
 * an entry follows from besides its key (registered kernels, measured choices, barred rows) is
 * compared when it is taken.
 *
 * The cache is bounded by bytes, which td_memory is charged for; the least recently used entry is
 * evicted first, and all of them when memory is wanted. No lock is held while memory is taken or
 * freed. */
#include "dispatch/graph/cache.h"
#include "dispatch/call/own.h"
#include "dispatch/choice/hash.h"
#include "dispatch/graph/graph.h"
#include "dispatch/step/step.h"
#include "kernels/trap.h"
#include "pools/pools.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS 1024
#define MOST_BYTES ((size_t)32 << 20) /* of all entries */
#define ENTRY_BYTES ((size_t)2 << 20) /* of one */
#define KEY_BYTES 2048                /* of a key; longer ones are not kept */

struct key {
    size_t n;
    uint64_t word[KEY_BYTES / sizeof(uint64_t)];
};

struct state { /* of the process, on which binding and selection depend */
    unsigned registered, barred;
    long long measured;
};

struct td_expr_entry {
    struct td_expr_entry *next;          /* in its bucket, or in a list of those to be freed */
    struct td_expr_entry *newer, *older; /* by last use */
    uint64_t hash, *key;
    size_t n_key; /* words */
    struct state state;
    struct td_arena *arena; /* of the key, and of all that run refers to */
    size_t bytes;           /* of the arena and of this */
    bool kept;              /* it was in the cache before */
    struct td_run run;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static struct td_expr_entry *bucket[BUCKETS], *newest, *oldest;
static struct td_expr_counts counts;

/* ---- keys ---- */

static bool put(struct key *key, const void *what, size_t bytes)
{
    size_t n = (bytes + sizeof *key->word - 1) / sizeof *key->word;
    if (n > sizeof key->word / sizeof *key->word - key->n)
        return false;
    if (n)
        key->word[key->n + n - 1] = 0;
    memcpy(&key->word[key->n], what, bytes);
    key->n += n;
    return true;
}

static bool put_number(struct key *key, uint64_t number)
{
    return put(key, &number, sizeof number);
}

static bool put_text(struct key *key, const char *text)
{
    size_t bytes = strlen(text);
    return put_number(key, bytes) && put(key, text, bytes);
}

static bool put_tensor(struct key *key, const struct td_tensor *t)
{
    return t->data && !t->weight && !t->stride &&
           put_number(key, (uint64_t)t->dtype << 8 | (uint64_t)t->rank) &&
           put(key, t->shape, (size_t)t->rank * sizeof *t->shape);
}

/* Appends a value to the key; false: calls with such a value are not cached. A stored tensor would
 * live as long as the entry, and its packed forms depend on its elements. */
static bool put_value(struct key *key, const struct td_value *v)
{
    if (!put_number(key, (uint64_t)v->kind << 1 | v->wide))
        return false;
    switch (v->kind) {
    case TD_KIND_tensor:
        return put_tensor(key, &v->tensor);
    case TD_KIND_tensors:
        return false;
    case TD_KIND_ints:
    case TD_KIND_bools:
        return put_number(key, (uint64_t)v->ints.n) &&
               put(key, v->ints.v, (size_t)v->ints.n * sizeof *v->ints.v);
    case TD_KIND_floats:
        return put_number(key, (uint64_t)v->floats.n) &&
               put(key, v->floats.v, (size_t)v->floats.n * sizeof *v->floats.v);
    case TD_KIND_str:
        return v->str && put_text(key, v->str);
    case TD_KIND_dtype:
        return put_number(key, v->dtype);
    default: /* the bits of a float, too */
        return v->kind == TD_KIND_none || put(key, &v->i, sizeof v->i);
    }
}

/* False: such a call is not kept. */
static bool make_key(struct key *key, const char *expr, const struct td_named *args, int n_args,
                     const struct td_options *options)
{
    struct td_key_scope scope = td_keys_enter(0, 0); /* changes nothing */
    key->n = 0;
    bool right = n_args <= TD_MAX_ARGS && !options->trace && put_number(key, scope.include) &&
                 put_number(key, scope.exclude) &&
                 put_number(key, (uint64_t)options->autocast << 32 | options->number_type) &&
                 put_number(key, (uint64_t)n_args) && put_text(key, expr);
    for (int i = 0; i < n_args && right; i++)
        right = put_text(key, args[i].name ? args[i].name : "") && put_number(key, args[i].keys) &&
                put_value(key, &args[i].value);
    return right;
}

static uint64_t hash_of(const struct key *key)
{
    uint64_t h = key->n;
    for (size_t i = 0; i < key->n; i++)
        h = td_hash(h, key->word[i]);
    return h;
}

static struct state state_now(void)
{
    return (struct state){td_registry_changes(), atomic_load(&td_traps_barred),
                          td_choices_changes()};
}

static bool is_now(const struct state *s)
{
    struct state now = state_now();
    return s->registered == now.registered && s->barred == now.barred &&
           s->measured == now.measured;
}

/* ---- entries ---- */

static int take_bytes(void *arg, size_t bytes)
{
    struct td_expr_entry *e = arg;
    int err = td_budget_take(&td_memory, bytes);
    e->bytes += err ? 0 : bytes;
    return err;
}

static void give_bytes(void *arg, size_t bytes)
{
    struct td_expr_entry *e = arg;
    e->bytes -= bytes;
    td_budget_give(&td_memory, bytes);
}

static void free_entry(struct td_expr_entry *e)
{
    td_step_release(&e->run.step);
    td_arena_destroy(e->arena);
    td_budget_give(&td_memory, sizeof *e);
    free(e);
}

/* NULL: there is no memory. */
static struct td_expr_entry *create(const struct key *key, uint64_t hash)
{
    struct td_expr_entry *e = td_budget_take(&td_memory, sizeof *e) ? NULL : malloc(sizeof *e);
    if (!e)
        return NULL;
    memset(e, 0, offsetof(struct td_expr_entry, run));
    e->run.step = NULL;
    e->bytes = sizeof *e;
    e->hash = hash;
    e->n_key = key->n;
    e->state = state_now();
    struct td_arena_room room = {take_bytes, give_bytes, e};
    size_t bytes = key->n * sizeof *key->word;
    e->arena = td_arena_create_in(&room);
    e->key = e->arena ? td_arena_alloc(e->arena, bytes) : NULL;
    if (e->key)
        memcpy(e->key, key->word, bytes);
    else
        free_entry(e);
    return e->key ? e : NULL;
}

static void free_all(struct td_expr_entry *e)
{
    while (e) {
        struct td_expr_entry *next = e->next;
        free_entry(e);
        e = next;
    }
}

/* ---- the cache; with the lock held ---- */

static void take_out(struct td_expr_entry *e)
{
    struct td_expr_entry **at = &bucket[e->hash % BUCKETS];
    while (*at != e)
        at = &(*at)->next;
    *at = e->next;
    *(e->newer ? &e->newer->older : &newest) = e->older;
    *(e->older ? &e->older->newer : &oldest) = e->newer;
    counts.bytes -= e->bytes;
}

static void put_in(struct td_expr_entry *e)
{
    struct td_expr_entry **at = &bucket[e->hash % BUCKETS];
    e->next = *at;
    *at = e;
    e->newer = NULL;
    e->older = newest;
    *(newest ? &newest->newer : &oldest) = e;
    newest = e;
    counts.bytes += e->bytes;
}

/* Evicts entries until the others have at most so many bytes: a list of them. */
static struct td_expr_entry *evict(size_t most)
{
    struct td_expr_entry *gone = NULL;
    while (counts.bytes > most) {
        struct td_expr_entry *e = oldest;
        take_out(e);
        counts.evicted++;
        e->next = gone;
        gone = e;
    }
    return gone;
}

static struct td_expr_entry *find(const struct key *key, uint64_t hash)
{
    struct td_expr_entry *e = bucket[hash % BUCKETS];
    while (e && (e->hash != hash || e->n_key != key->n ||
                 memcmp(e->key, key->word, key->n * sizeof *key->word) != 0))
        e = e->next;
    if (e)
        take_out(e);
    return e;
}

/* ---- taking and leaving ---- */

static void use(struct td_expr_entry *e, struct td_run *run, const struct td_named *args,
                int n_args)
{
    td_run_copy(run, &e->run);
    run->step = e->run.step;
    e->run.step = NULL;
    for (int i = 0; i < n_args; i++)
        run->call.arg[i] = args[i].value;
}

int td_expr_take(struct td_expr_entry **entry, struct td_run *run, const char *expr,
                 const struct td_named *args, int n_args, const struct td_options *options)
{
    struct key key;
    *entry = NULL;
    if (!make_key(&key, expr, args, n_args, options))
        return td_run_bind_expr(run, expr, args, n_args, options);
    uint64_t hash = hash_of(&key);
    pthread_mutex_lock(&lock);
    struct td_expr_entry *e = find(&key, hash);
    bool hit = e && is_now(&e->state);
    *(hit ? &counts.hits : &counts.misses) += 1;
    pthread_mutex_unlock(&lock);
    if (hit) {
        use(e, run, args, n_args);
        *entry = e;
        return 0;
    }
    if (e)
        free_entry(e);
    e = create(&key, hash);
    if (!e)
        return td_run_bind_expr(run, expr, args, n_args, options);
    struct td_options own = *options;
    own.alloc = td_alloc_in_arena;
    own.alloc_arg = e->arena;
    int err = td_run_bind_expr(run, expr, args, n_args, &own);
    run->lasting = true;
    if (err) {
        run->parts = NULL;
        free_entry(e);
    } else {
        *entry = e;
    }
    return err;
}

static bool draws_chance(const struct td_run *run)
{
    bool draws = td_op_draws_chance(run->handle->schema.name);
    for (const struct td_run *part = run->parts; part && !draws; part = part->next)
        draws = draws_chance(part);
    return draws;
}

/* Whether the run is the same whenever it runs. The size of a result that is counted is in the run
 * once it has run. An entry grows if it runs with another number of threads than before, because
 * its step is made anew. */
static bool is_kept(const struct td_expr_entry *e, const struct td_run *run)
{
    return run->lasting && run->step && !run->error && e->bytes <= ENTRY_BYTES &&
           (e->kept || (!run->call.counted && !draws_chance(run)));
}

void td_expr_leave(struct td_expr_entry **entry, struct td_run *run)
{
    struct td_expr_entry *e = *entry;
    *entry = NULL;
    if (!e)
        return;
    if (!is_kept(e, run)) {
        run->lasting = false;
        td_run_release(run);
        free_entry(e);
        return;
    }
    td_run_copy(&e->run, run);
    e->run.step = run->step;
    e->run.stop = NULL;
    e->kept = true;
    pthread_mutex_lock(&lock);
    put_in(e);
    struct td_expr_entry *gone = evict(MOST_BYTES);
    pthread_mutex_unlock(&lock);
    free_all(gone);
}

void td_expr_forget(void)
{
    pthread_mutex_lock(&lock);
    struct td_expr_entry *gone = evict(0);
    pthread_mutex_unlock(&lock);
    free_all(gone);
}

static void (*relieve_before)(void);

static void relieve(void)
{
    td_expr_forget();
    if (relieve_before)
        relieve_before();
}

void td_expr_watch_memory(void)
{
    if (td_memory.relieve == relieve)
        return;
    relieve_before = td_memory.relieve;
    td_memory.relieve = relieve;
}

struct td_expr_counts td_expr_count(void)
{
    pthread_mutex_lock(&lock);
    struct td_expr_counts now = counts;
    pthread_mutex_unlock(&lock);
    return now;
}
