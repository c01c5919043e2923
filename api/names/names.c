/* Names in a hash table (uthash), counted. */
#include "api/names/names.h"
#include "dispatch/dispatch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* No memory for a name is an answer, and not the end of the process; the entry is then in no table.
 */
#define HASH_NONFATAL_OOM 1
#define uthash_nonfatal_oom(entry) ((void)(entry))
#include <uthash.h>

#define LOOKED_AT 4096 /* names, for one that is near: some 50 us */
#define ALIKE 64       /* of these, whose letters are compared */

struct entry {
    struct td_name name; /* first, so that it leads back here */
    UT_hash_handle hh;
    char text[];
};

struct td_names {
    struct td_budget *budget;
    struct entry *entries; /* uthash's head: also the first of all, in the order they came */
};

struct td_names *td_names_create(struct td_budget *budget)
{
    struct td_names *names = calloc(1, sizeof *names);
    if (names)
        names->budget = budget;
    return names;
}

void td_names_destroy(struct td_names *names)
{
    free(names);
}

struct td_name *td_names_find(const struct td_names *names, const char *text)
{
    struct entry *entry;
    HASH_FIND_STR(names->entries, text, entry);
    return entry ? &entry->name : NULL;
}

/* What an entry takes, with its share of the table. */
static size_t entry_bytes(size_t length)
{
    return sizeof(struct entry) + length + 1 + 2 * sizeof(UT_hash_bucket);
}

int td_names_add(struct td_names *names, const char *text, struct td_name **name)
{
    size_t length = strlen(text);
    int err = td_budget_take(names->budget, entry_bytes(length));
    if (err)
        return err;
    struct entry *entry = malloc(sizeof *entry + length + 1);
    if (entry) {
        memset(entry, 0, sizeof *entry);
        memcpy(entry->text, text, length + 1);
        entry->name = (struct td_name){NULL, entry->text, length};
        *name = &entry->name;
        HASH_ADD_KEYPTR(hh, names->entries, entry->text, length, entry);
        if (entry->hh.tbl)
            return 0;
    }
    free(entry);
    td_budget_give(names->budget, entry_bytes(length));
    return -ENOMEM;
}

void *td_names_drop(struct td_names *names, struct td_name *name)
{
    struct entry *entry = (struct entry *)name;
    void *item = name->item;
    td_budget_give(names->budget, entry_bytes(name->length));
    HASH_DEL(names->entries, entry);
    free(entry);
    return item;
}

int td_names_count(const struct td_names *names)
{
    return (int)HASH_COUNT(names->entries);
}

struct td_name *td_names_first(const struct td_names *names)
{
    return names->entries ? &names->entries->name : NULL;
}

struct td_name *td_names_next(const struct td_name *name)
{
    struct entry *next = ((const struct entry *)name)->hh.next;
    return next ? &next->name : NULL;
}

/* Whether few letters may tell them apart: they are about as long, and begin or end alike. */
static bool is_like(const struct td_name *name, const char *text, size_t length)
{
    size_t more = name->length > length ? name->length - length : length - name->length;
    return length && more <= length / 3 + 1 &&
           (*name->text == *text || name->text[name->length - 1] == text[length - 1]);
}

const char *td_names_nearest(const struct td_names *names, const char *text, struct td_arena *arena)
{
    const char *alike[ALIKE];
    size_t length = strlen(text);
    int n = 0, looked = 0;
    const struct td_name *name = td_names_first(names);
    for (; name && n < ALIKE && looked < LOOKED_AT; name = td_names_next(name), looked++)
        if (is_like(name, text, length))
            alike[n++] = name->text;
    const char *near = td_nearest(text, alike, n);
    return near ? td_arena_strdup(arena, near, strlen(near)) : NULL;
}

int td_names_draw(char name[33])
{
    unsigned char bits[16];
    if (getrandom(bits, sizeof bits, 0) != sizeof bits)
        return -EIO;
    for (size_t i = 0; i < sizeof bits; i++)
        snprintf(name + 2 * i, 3, "%02x", bits[i]);
    return 0;
}
