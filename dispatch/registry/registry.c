/* The operators with their parsed schemas, found by name, and the kernels registered for them.
 *
 * Handles stand in one array of fixed size and a name is found by hashing (open addressing over a
 * table at most a third full), so that readers need no lock: a writer fills a handle and then
 * publishes its place. A registration changes its operator's list and publishes a new table; the
 * old one stays until the end, since a call may just be looking at it. */
#include "dispatch/registry/registry.h"

#include "dispatch/registry/table.h"
#include "kernels/hash.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SPARE 64 /* operators that may be defined beyond td_ops */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct td_handle *handles;
static atomic_int n_handles;
static int capacity;
static _Atomic int *slots; /* index + 1 into handles; 0 is free */
static size_t n_slots;
static struct td_registration *fallbacks; /* newest first, as is */
static struct td_registration *dangling;  /* of names that have no schema yet */

/* ---- names ---- */

static _Atomic int *slot_of(const char *name)
{
    uint64_t hash = td_hash_bytes(name, strlen(name));
    for (size_t i = (size_t)(hash ^ hash >> 29);; i++) {
        _Atomic int *slot = &slots[i % n_slots];
        int index = atomic_load_explicit(slot, memory_order_acquire);
        if (!index)
            return slot;
        const struct td_handle *handle = &handles[index - 1];
        if (!strcmp(handle->full, name) || (handle->first && !strcmp(handle->schema.name, name)))
            return slot;
    }
}

int td_registry_count(void)
{
    return atomic_load(&n_handles);
}

const struct td_handle *td_registry_at(int index)
{
    return &handles[index];
}

static struct td_handle *find(const char *name)
{
    int index = *slot_of(name);
    return index ? &handles[index - 1] : NULL;
}

const struct td_handle *td_registry_find(const char *name)
{
    return find(name);
}

/* ---- defining ---- */

/* Behind the overloads of its name that are there; the one without a name of its own goes before
 * them, as their common name is its full one. */
static void link_overload(struct td_handle *handle)
{
    struct td_handle *before = find(handle->schema.name);
    if (!before || !*handle->schema.overload) {
        handle->first = true;
        handle->next = before;
        if (before)
            before->first = false;
        return;
    }
    while (before->next)
        before = &handles[before->next->index];
    before->next = handle;
}

/* Takes the operator's registrations out of the dangling ones, in their order. */
static int adopt(struct td_handle *handle, struct td_problem *problem)
{
    struct td_registration **from = &dangling, **to = &handle->kernels;
    while (*from) {
        struct td_registration *r = *from;
        if (strcmp(r->op, handle->full)) {
            from = &r->next;
            continue;
        }
        int err = td_check_signature(handle, &r->def, problem);
        if (err)
            return err;
        *from = r->next;
        *to = r;
        to = &r->next;
        *to = NULL;
    }
    return 0;
}

static int define(const struct td_op *op, const char *origin, struct td_problem *problem)
{
    if (n_handles == capacity)
        return td_problem_set(problem, ENOSPC, "%s: no room for more operators", op->schema);
    struct td_handle *handle = &handles[n_handles];
    struct td_problem why;
    *handle = (struct td_handle){.op = op, .index = n_handles, .origin = origin};
    int err = td_schema_parse(&handle->schema, op->schema, &why);
    if (err)
        return td_problem_set(problem, -err, "%s: %s", op->schema, why.text);
    const char *dot = *handle->schema.overload ? "." : "";
    strcpy(handle->full, handle->schema.name);
    strcat(handle->full, dot);
    strcat(handle->full, handle->schema.overload);
    const struct td_handle *there = find(handle->full);
    if (there && !strcmp(there->full, handle->full))
        return td_problem_set(problem, EEXIST, "%s: registered multiple times: %s, and now %s",
                              handle->full, there->origin, origin);
    if ((err = adopt(handle, problem)))
        return err;
    struct td_table *table = td_table_make(handle, fallbacks);
    if (!table)
        return td_problem_set(problem, ENOMEM, "out of memory");
    atomic_store(&handle->table, table);
    link_overload(handle);
    n_handles++;
    *slot_of(handle->full) = handle->index + 1;
    if (handle->first && *handle->schema.overload)
        *slot_of(handle->schema.name) = handle->index + 1;
    return 0;
}

int td_define(const struct td_op *op, const char *origin, struct td_problem *problem)
{
    pthread_mutex_lock(&lock);
    int err = define(op, origin, problem);
    pthread_mutex_unlock(&lock);
    return err;
}

/* ---- registering ---- */

static bool open; /* there are tables, which follow every registration */
static atomic_uint changes;

unsigned td_registry_changes(void)
{
    return atomic_load(&changes);
}

static int recompute(struct td_handle *handle)
{
    if (!open)
        return 0;
    struct td_table *table = td_table_make(handle, fallbacks);
    if (!table)
        return -ENOMEM;
    table->retired = atomic_load(&handle->table);
    atomic_store(&handle->table, table);
    atomic_fetch_add(&changes, 1);
    return 0;
}

static struct td_registration *make(const char *op, const struct td_kernel_def *def)
{
    assert(!def->boxed || !def->rows);
    struct td_registration *r = calloc(1, sizeof *r);
    if (r) {
        r->def = *def;
        strncpy(r->op, op, sizeof r->op - 1);
    }
    return r;
}

static int link_kernel(const char *op, struct td_registration *r, struct td_problem *problem)
{
    struct td_handle *handle = find(op);
    if (handle && strcmp(handle->full, op))
        handle = NULL; /* the name alone is no operator where there are overloads */
    int err = handle ? td_check_signature(handle, &r->def, problem) : 0;
    if (err)
        return err;
    struct td_registration **list = handle ? &handle->kernels : &dangling;
    for (const struct td_registration *old = *list; old; old = old->next)
        if (old->def.key == r->def.key && !strcmp(old->op, op)) {
            td_problem_set(problem, EEXIST, "%s: the kernel for %s from %s shadows that from %s",
                           op, td_key_name(r->def.key), r->def.origin, old->def.origin);
            break;
        }
    r->next = *list;
    *list = r;
    if (handle && recompute(handle)) {
        *list = r->next;
        return td_problem_set(problem, ENOMEM, "out of memory");
    }
    return 0;
}

static int recompute_all(void)
{
    int err = 0;
    for (int i = 0; i < n_handles && !err; i++)
        err = recompute(&handles[i]);
    return err;
}

int td_registry_open(struct td_problem *problem)
{
    pthread_mutex_lock(&lock);
    open = true;
    int err = recompute_all();
    pthread_mutex_unlock(&lock);
    return err ? td_problem_set(problem, ENOMEM, "out of memory") : 0;
}

static int link_fallback(struct td_registration *r, struct td_problem *problem)
{
    for (const struct td_registration *old = fallbacks; old; old = old->next)
        if (old->def.key == r->def.key)
            return td_problem_set(problem, EEXIST, "the fallback of %s is registered already: %s",
                                  td_key_name(r->def.key), old->def.origin);
    r->next = fallbacks;
    fallbacks = r;
    if (recompute_all()) {
        fallbacks = r->next;
        return td_problem_set(problem, ENOMEM, "out of memory");
    }
    return 0;
}

int td_register(const char *op, const struct td_kernel_def *def, struct td_registration **made,
                struct td_problem *problem)
{
    *problem->text = 0;
    struct td_registration *r = make(op, def);
    if (!r)
        return td_problem_set(problem, ENOMEM, "out of memory");
    pthread_mutex_lock(&lock);
    int err = *op ? link_kernel(r->op, r, problem) : link_fallback(r, problem);
    pthread_mutex_unlock(&lock);
    if (err)
        free(r);
    else if (made)
        *made = r;
    return err;
}

int td_register_fallback(const struct td_kernel_def *def, struct td_registration **made,
                         struct td_problem *problem)
{
    return td_register("", def, made, problem);
}

static void unlink_from(struct td_registration **list, const struct td_registration *r)
{
    while (*list && *list != r)
        list = &(*list)->next;
    if (*list)
        *list = r->next;
}

void td_unregister(struct td_registration **made)
{
    struct td_registration *r = *made;
    if (!r)
        return;
    *made = NULL;
    pthread_mutex_lock(&lock);
    struct td_handle *handle = *r->op ? find(r->op) : NULL;
    unlink_from(!*r->op ? &fallbacks : handle ? &handle->kernels : &dangling, r);
    /* Without memory for new tables the old ones go on pointing to it: then it has to stay. */
    int err = handle ? recompute(handle) : *r->op ? 0 : recompute_all();
    pthread_mutex_unlock(&lock);
    if (!err)
        td_table_bury(r);
}

/* ---- looking ---- */

int td_registry_dangling(const char **names, int max)
{
    int n = 0;
    pthread_mutex_lock(&lock);
    for (const struct td_registration *r = dangling; r; r = r->next) {
        bool seen = false;
        for (int i = 0; i < n && i < max && !seen; i++)
            seen = !strcmp(names[i], r->op);
        if (!seen && n++ < max)
            names[n - 1] = r->op;
    }
    pthread_mutex_unlock(&lock);
    return n;
}

int td_registry_check(struct td_problem *problem)
{
    int err = 0;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < n_handles && !err; i++)
        err = td_table_check(&handles[i], fallbacks, problem);
    pthread_mutex_unlock(&lock);
    return err;
}

/* ---- the whole ---- */

static const char *const origins[] = {
#define TD_OP(id) "kernels/ops.def:" TD_HERE_TEXT(__LINE__),
#include "kernels/ops.def"
#undef TD_OP
};

int td_registry_define(struct td_problem *problem)
{
    capacity = (int)(sizeof origins / sizeof *origins) + SPARE;
    n_slots = 6 * (size_t)capacity + 1; /* two names an overload */
    handles = calloc((size_t)capacity, sizeof *handles);
    slots = calloc(n_slots, sizeof *slots);
    int err = handles && slots ? 0 : td_problem_set(problem, ENOMEM, "out of memory");
    for (int i = 0; td_ops[i] && !err; i++)
        err = td_define(td_ops[i], origins[i], problem);
    return err;
}

static void free_list(struct td_registration **list)
{
    while (*list) {
        struct td_registration *next = (*list)->next;
        free(*list);
        *list = next;
    }
}

void td_registry_fini(void)
{
    open = false;
    for (int i = 0; i < n_handles; i++) {
        td_table_free(handles[i].table);
        free_list(&handles[i].kernels);
    }
    free_list(&fallbacks);
    free_list(&dangling);
    td_table_bury(NULL);
    free(handles);
    free(slots);
    handles = NULL;
    slots = NULL;
    n_handles = 0;
}
