/* A tree that several requests read at the same time, and what one of them has made of it. It goes
 * with its last reader. */
#include "api/json/kept.h"

#include <stdlib.h>

void td_json_kept_drop(struct td_json_kept *kept)
{
    if (!kept || atomic_fetch_sub(&kept->readers, 1) != 1)
        return;
    cJSON_Delete(kept->root);
    free(kept->companion);
    td_budget_give(&td_memory, kept->bytes);
    free(kept);
}

bool td_json_is_kept(const struct td_json *json)
{
    return json->kept_ != NULL;
}

const void *td_json_companion(const struct td_json *json)
{
    return json->kept_ ? atomic_load_explicit(&json->kept_->companion, memory_order_acquire) : NULL;
}

void td_json_accompany(struct td_json *json, void *companion)
{
    void *none = NULL;
    if (!atomic_compare_exchange_strong(&json->kept_->companion, &none, companion))
        free(companion);
}
