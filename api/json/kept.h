/* A tree that is shared: the cache keeps it, requests read it. Internal to this room. */
#ifndef TD_API_JSON_KEPT_H
#define TD_API_JSON_KEPT_H

#include "api/json/json.h"

#include <stdatomic.h>

struct td_json_kept {
    atomic_int readers; /* and the place, as long as it has one */
    cJSON *root;
    _Atomic(void *) companion;
    uint64_t hash;
    size_t length, bytes; /* of the text; taken from td_memory, with the tree */
    char text[];
};

void td_json_kept_drop(struct td_json_kept *kept); /* a reader less; NULL is fine */

#endif
