/* Hashes of calls: see hash.h. */
#include "dispatch/choice/hash.h"

#include <string.h>

static uint64_t hash_tensor(uint64_t h, const struct td_tensor *t)
{
    h = td_hash(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
    for (int d = 0; d < t->rank; d++)
        h = td_hash(h, (uint64_t)t->shape[d]);
    return t->weight ? td_hash(h, (uintptr_t)t->weight) : h; /* its first call packs it */
}

uint64_t td_hash_value(uint64_t h, const struct td_value *v)
{
    uint64_t bits = 0;
    switch (v->kind) {
    case TD_KIND_tensor:
        return hash_tensor(h, &v->tensor);
    case TD_KIND_tensors:
        for (int i = 0; i < v->tensors.n; i++)
            h = hash_tensor(h, &v->tensors.v[i]);
        return td_hash(h, (uint64_t)v->tensors.n);
    case TD_KIND_ints:
    case TD_KIND_bools:
        for (int i = 0; i < v->ints.n; i++)
            h = td_hash(h, (uint64_t)v->ints.v[i]);
        return td_hash(h, (uint64_t)v->ints.n);
    case TD_KIND_floats:
        for (int i = 0; i < v->floats.n; i++) {
            memcpy(&bits, &v->floats.v[i], sizeof bits);
            h = td_hash(h, bits);
        }
        return td_hash(h, (uint64_t)v->floats.n);
    case TD_KIND_str:
        for (const char *c = v->str; c && *c; c++)
            h = td_hash(h, (uint64_t)*c);
        return h;
    case TD_KIND_float:
        memcpy(&bits, &v->f, sizeof bits);
        return td_hash(h, bits);
    case TD_KIND_dtype:
        return td_hash(h, v->dtype);
    default:
        h = v->kind == TD_KIND_int && v->wide ? td_hash(h, 11) : h;
        return td_hash(h, v->kind == TD_KIND_none ? 7 : (uint64_t)v->i);
    }
}
