/* Constants that passes compute from a model's constants: once each, for all its plans. */
#include "dispatch/choice/hash.h"
#include "dispatch/passes/passes.h"

#include <stdlib.h>
#include <string.h>

static size_t bucket_of(const struct td_derived_key *key)
{
    uint64_t words[sizeof *key / sizeof(uint64_t)], h = 0;
    memcpy(words, key, sizeof words);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        h = td_hash(h + 1, words[i]);
    return h % TD_DERIVED_BUCKETS;
}

const struct td_derived *td_derived_find(const struct td_model *model,
                                         const struct td_derived_key *key)
{
    const struct td_derived *d = model->derived_[bucket_of(key)];
    while (d && memcmp(&d->key, key, sizeof *key) != 0)
        d = d->next;
    return d;
}

const struct td_derived *td_derived_add(struct td_model *model, const struct td_derived *derived)
{
    struct td_derived *d = malloc(sizeof *d);
    if (!d)
        return NULL;
    struct td_derived **bucket = &model->derived_[bucket_of(&derived->key)];
    *d = *derived;
    d->next = *bucket;
    *bucket = d;
    return d;
}

void td_derived_free(struct td_model *model)
{
    for (int b = 0; b < TD_DERIVED_BUCKETS; b++)
        while (model->derived_[b]) {
            struct td_derived *d = model->derived_[b];
            model->derived_[b] = d->next;
            for (int i = 0; i < 2; i++)
                td_weight_unref(&d->weight[i]);
            free(d);
        }
}
