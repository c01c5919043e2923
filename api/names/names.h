/* Names of what the server keeps: tensors, models, regions. A hash table, so that looking one up
 * takes the same time however many there are. Whoever owns one holds his lock around each call.
 * Internal to api/. */
#ifndef TD_API_NAMES_H
#define TD_API_NAMES_H

#include "pools/pools.h"

struct td_names;

struct td_name {
    void *item; /* whose name it is; the owner's */
    const char *text;
    size_t length;
};

/* budget: borrowed, of which each name takes its room. NULL: out of memory. */
struct td_names *td_names_create(struct td_budget *budget);
void td_names_destroy(struct td_names *names); /* without names; NULL is fine */

struct td_name *td_names_find(const struct td_names *names, const char *text); /* NULL: no such */
/* A name that is not there yet, without an item. What the budget says, or -ENOMEM. */
int td_names_add(struct td_names *names, const char *text, struct td_name **name);
void *td_names_drop(struct td_names *names, struct td_name *name); /* its item */

int td_names_count(const struct td_names *names);
/* All of them, in the order they came; NULL at the end. */
struct td_name *td_names_first(const struct td_names *names);
struct td_name *td_names_next(const struct td_name *name);

/* A copy of the name that was most likely meant, among so many that looking takes no long time;
 * NULL: none is near, or there is no memory. */
const char *td_names_nearest(const struct td_names *names, const char *text,
                             struct td_arena *arena);

/* A name that nobody can guess: 128 random bits in hexadecimal. -EIO. */
int td_names_draw(char name[33]);

#endif
