/* Dispatch keys and key sets. A set is one 64-bit word: bit b-1 for backend b, and above them bit
 * TD_BACKENDS + k - 1 for functionality k. A key of a functionality that each backend has for
 * itself (SparseCPU) is therefore two bits, and several such keys in one set are a cross product.
 */
#ifndef TD_DISPATCH_KEYS_H
#define TD_DISPATCH_KEYS_H

#include "kernels/kernels.h"

enum td_backend { /* from 1; 0 is none */
                  TD_BACKEND_none,
#define TD_BACKEND(id, device) TD_BACKEND_##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
                  TD_BACKENDS_END,
                  TD_BACKENDS = TD_BACKENDS_END - 1,
};

/* Undefined, the functionalities, the runtime keys of each backend, block by block in the order of
 * the functionalities, and the aliases. */
enum td_key {
    TD_KEY_Undefined,
    TD_KEY_CatchAll = TD_KEY_Undefined, /* its older name */
#define TD_FUNCTIONALITY(id, per_backend, prefix) TD_KEY_##id,
#include "dispatch/registry/keys.def"
#undef TD_FUNCTIONALITY
    TD_KEY_EndOfFunctionalityKeys,
    TD_KEY_BeforeRuntimeKeys = TD_KEY_EndOfFunctionalityKeys,
#define TD_BACKEND(id, device) TD_KEY_##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
#define TD_BACKEND(id, device) TD_KEY_Quantized##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
#define TD_BACKEND(id, device) TD_KEY_Sparse##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
#define TD_BACKEND(id, device) TD_KEY_SparseCsr##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
#define TD_BACKEND(id, device) TD_KEY_Autograd##id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
    TD_KEY_EndOfRuntimeBackendKeys,
    TD_KEY_DenseCPU = TD_KEY_CPU, /* as PyTorch's documents also call it */
    TD_KEY_BeforeAliases = TD_KEY_EndOfRuntimeBackendKeys,
#define TD_ALIAS(id) TD_KEY_##id,
#include "dispatch/registry/keys.def"
#undef TD_ALIAS
    TD_KEYS
};

enum {
    TD_FUNCTIONALITIES = TD_KEY_EndOfFunctionalityKeys - 1,
    TD_PER_BACKEND = (TD_KEY_EndOfRuntimeBackendKeys - TD_KEY_BeforeRuntimeKeys - 1) / TD_BACKENDS,
    /* Places of a table: Undefined, and each key that can be dispatched to. */
    TD_TABLE_SIZE = 1 + TD_FUNCTIONALITIES + TD_PER_BACKEND * (TD_BACKENDS - 1),
};
_Static_assert(TD_BACKENDS <= 16, "at most 16 backends");
_Static_assert(TD_BACKENDS + TD_FUNCTIONALITIES <= 64, "a key set is one word");

typedef uint64_t td_keyset; /* |, & and ^ are what they are for sets */

#define TD_KEYSET_BACKENDS ((UINT64_C(1) << TD_BACKENDS) - 1)
#define TD_KEYSET_FULL ((UINT64_C(1) << (TD_BACKENDS + TD_FUNCTIONALITIES)) - 1)

/* The parts of a key. A functionality key is its own functionality and has no backend; Undefined
 * and the aliases have neither. */
enum td_key td_key_functionality(enum td_key key);
enum td_backend td_key_backend(enum td_key key);
bool td_key_per_backend(enum td_key functionality);
bool td_key_is_alias(enum td_key key);
/* The key that a functionality has on a backend, itself when it is not per backend; Undefined when
 * it is and there is none. */
enum td_key td_key_runtime(enum td_key functionality, enum td_backend backend);

/* "SparseCPU". Borrowed; a renamed backend (below) appears under its new name. */
const char *td_key_name(enum td_key key);
/* By name; CatchAll is Undefined, DenseCPU is CPU. TD_KEYS when there is none. */
enum td_key td_key_find(const char *name);
enum td_backend td_backend_find(const char *device); /* "cuda" or "cuda:0", any case; renamed too */
/* Refuses a name that td_key_find does not know, what: "keys". -ENOSYS when it is a key that
 * PyTorch has, else -EINVAL. */
int td_key_refuse(const char *what, const char *name, struct td_problem *problem);
const char *td_backend_name(enum td_backend backend);
/* Gives one of PrivateUse1 to 3 a name of its own. To be called before any other thread runs.
 * -EINVAL for other backends and for names beyond 31 bytes. */
int td_backend_rename(enum td_backend backend, const char *name);

/* One key's set: Undefined and aliases give 0, a functionality one bit, a runtime key of a backend
 * both its bits. */
td_keyset td_keyset_of(enum td_key key);
/* All functionalities below key's, and all backends: a wrapper kernel redispatches with keys &
 * td_keyset_below(its key). */
td_keyset td_keyset_below(enum td_key key);
/* Takes away functionalities; backends stay. */
td_keyset td_keyset_minus(td_keyset a, td_keyset b);
bool td_keyset_has(td_keyset keys, enum td_key key);
/* The next runtime key of a set after before (TD_KEY_Undefined to begin), in the order of the enum;
 * Undefined at the end. Of per-backend functionalities, one with each backend of the set. */
enum td_key td_keyset_next(td_keyset keys, enum td_key before);

/* The key that decides: the highest functionality, with the highest backend. */
enum td_key td_keyset_highest(td_keyset keys);
/* Its place in a table: 0 for Undefined. One count of leading zeros and two loads. */
int td_keyset_index(td_keyset keys);
int td_key_index(enum td_key key);
enum td_key td_key_at(int index); /* and back */

/* The key of a tensor, from what a client says of it; NULL is float32, strided, cpu. Never an
 * autograd key. dtype: a protocol or ATen name, or quint8, qint8, qint32. layout: strided,
 * sparse_coo, sparse_csr, _mkldnn. -EINVAL for names that are none and for a pair that does not
 * exist, which problem names; -ENOSYS for a device that exists, but not here. */
int td_compute_key(enum td_key *key, const char *dtype, const char *layout, const char *device,
                   struct td_problem *problem);

#endif
