/* The operators with their parsed schemas, found by name. Made once by main from the const table of
 * kernels/, read-only afterwards, so any thread may look. A name is found by hashing: open
 * addressing over a table at most a third full. */
#include "dispatch/dispatch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct td_handle *handles;
static int n_handles;
static int *slots; /* index + 1 into handles; 0 is free */
static size_t n_slots;

static size_t hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325; /* FNV-1a */
    for (; *name; name++)
        h = (h ^ (unsigned char)*name) * 0x100000001b3;
    return (size_t)(h ^ h >> 29);
}

static int *slot_of(const char *name)
{
    for (size_t i = hash(name);; i++) {
        int *slot = &slots[i % n_slots];
        if (!*slot)
            return slot;
        const struct td_handle *handle = &handles[*slot - 1];
        if (!strcmp(handle->full, name) ||
            (handle->n_overloads && !strcmp(handle->schema.name, name)))
            return slot;
    }
}

static int add(struct td_handle *handle, struct td_problem *problem)
{
    struct td_problem why;
    int err = td_schema_parse(&handle->schema, handle->op->schema, &why);
    if (err)
        return td_problem_set(problem, -err, "%s: %s", handle->op->schema, why.text);
    const char *dot = *handle->schema.overload ? "." : "";
    strcpy(handle->full, handle->schema.name);
    strcat(handle->full, dot);
    strcat(handle->full, handle->schema.overload);
    struct td_handle *before = handle - 1;
    if (handle->index && !strcmp(before->schema.name, handle->schema.name)) {
        while (!before->n_overloads)
            before--;
        before->n_overloads++;
    } else {
        handle->n_overloads = 1;
        *slot_of(handle->schema.name) = handle->index + 1;
    }
    int *slot = slot_of(handle->full);
    if (*slot && *slot != handle->index + 1)
        return td_problem_set(problem, EINVAL, "%s: registered multiple times", handle->full);
    *slot = handle->index + 1;
    return 0;
}

int td_registry_init(struct td_problem *problem)
{
    if (handles)
        return 0;
    while (td_ops[n_handles])
        n_handles++;
    n_slots = 6 * (size_t)n_handles + 1; /* two names an overload */
    handles = calloc((size_t)n_handles, sizeof *handles);
    slots = calloc(n_slots, sizeof *slots);
    if (!handles || !slots) {
        td_registry_fini();
        return td_problem_set(problem, ENOMEM, "out of memory");
    }
    for (int i = 0; i < n_handles; i++) {
        handles[i].op = td_ops[i];
        handles[i].index = i;
        int err = add(&handles[i], problem);
        if (err) {
            td_registry_fini();
            return err;
        }
    }
    return 0;
}

void td_registry_fini(void)
{
    free(handles);
    free(slots);
    handles = NULL;
    slots = NULL;
    n_handles = 0;
}

int td_registry_count(void)
{
    return n_handles;
}

const struct td_handle *td_registry_at(int index)
{
    return &handles[index];
}

const struct td_handle *td_registry_find(const char *name)
{
    int index = *slot_of(name);
    return index ? &handles[index - 1] : NULL;
}
