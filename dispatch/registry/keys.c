/* Keys, sets of keys and their algebra. Tables are made from keys.def, so that the blocks of
 * runtime keys, their names and their places in a dispatch table cannot drift apart. */
#include "dispatch/registry/keys.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *name, *prefix;
    bool per_backend;
} functionalities[TD_FUNCTIONALITIES + 1] = {
    {"Undefined", "", false},
#define TD_FUNCTIONALITY(id, per_backend, prefix) {#id, prefix, per_backend},
#include "dispatch/registry/keys.def"
#undef TD_FUNCTIONALITY
};

/* The nth per-backend functionality, and where in a table each functionality begins. */
static const enum td_key blocks[TD_PER_BACKEND] = {TD_KEY_Dense, TD_KEY_Quantized, TD_KEY_Sparse,
                                                   TD_KEY_SparseCsr, TD_KEY_AutogradFunctionality};

enum {
    OFFSET_0 = 0,
#define TD_FUNCTIONALITY(id, per_backend, prefix)                                                  \
    OFFSET_##id, END_##id = OFFSET_##id + ((per_backend) ? TD_BACKENDS - 1 : 0),
#include "dispatch/registry/keys.def"
#undef TD_FUNCTIONALITY
};
static const uint8_t offsets[TD_FUNCTIONALITIES + 1] = {
    0,
#define TD_FUNCTIONALITY(id, per_backend, prefix) OFFSET_##id,
#include "dispatch/registry/keys.def"
#undef TD_FUNCTIONALITY
};
static const uint8_t per_backend_mask[TD_FUNCTIONALITIES + 1] = {
    0,
#define TD_FUNCTIONALITY(id, per_backend, prefix) (per_backend) ? 0xff : 0,
#include "dispatch/registry/keys.def"
#undef TD_FUNCTIONALITY
};
_Static_assert(END_TESTING_ONLY_GenericMode == TD_TABLE_SIZE - 1, "a table has a place for each");

static const char *const backend_ids[TD_BACKENDS_END] = {
    "none",
#define TD_BACKEND(id, device) #id,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
};
static const char *const devices[TD_BACKENDS_END] = {
    "none",
#define TD_BACKEND(id, device) device,
#include "dispatch/registry/keys.def"
#undef TD_BACKEND
};
static const char *const elsewhere[] = {
#define TD_ELSEWHERE(name) name,
#include "dispatch/registry/keys.def"
#undef TD_ELSEWHERE
};
static const char *const aliases[] = {
#define TD_ALIAS(id) #id,
#include "dispatch/registry/keys.def"
#undef TD_ALIAS
};

/* Names of renamed backends, and of all runtime keys: written by main alone. */
static char renamed[TD_BACKENDS_END][32];
static char names[TD_KEY_EndOfRuntimeBackendKeys][64];

enum td_key td_key_functionality(enum td_key key)
{
    if (key < TD_KEY_EndOfFunctionalityKeys)
        return key;
    if (key > TD_KEY_BeforeRuntimeKeys && key < TD_KEY_EndOfRuntimeBackendKeys)
        return blocks[(key - TD_KEY_BeforeRuntimeKeys - 1) / TD_BACKENDS];
    return TD_KEY_Undefined;
}

enum td_backend td_key_backend(enum td_key key)
{
    if (key > TD_KEY_BeforeRuntimeKeys && key < TD_KEY_EndOfRuntimeBackendKeys)
        return (enum td_backend)((key - TD_KEY_BeforeRuntimeKeys - 1) % TD_BACKENDS + 1);
    return TD_BACKEND_none;
}

bool td_key_per_backend(enum td_key functionality)
{
    return functionality < TD_KEY_EndOfFunctionalityKeys &&
           functionalities[functionality].per_backend;
}

bool td_key_is_alias(enum td_key key)
{
    return key > TD_KEY_BeforeAliases && key < TD_KEYS;
}

enum td_key td_key_runtime(enum td_key functionality, enum td_backend backend)
{
    if (!td_key_per_backend(functionality))
        return functionality;
    if (!backend)
        return TD_KEY_Undefined;
    int block = 0;
    while (blocks[block] != functionality)
        block++;
    return (enum td_key)(TD_KEY_BeforeRuntimeKeys + block * TD_BACKENDS + (int)backend);
}

/* ---- names ---- */

const char *td_backend_name(enum td_backend backend)
{
    return *renamed[backend] ? renamed[backend] : backend_ids[backend];
}

const char *td_key_name(enum td_key key)
{
    if (key < TD_KEY_EndOfFunctionalityKeys)
        return functionalities[key].name;
    if (td_key_is_alias(key))
        return aliases[key - TD_KEY_BeforeAliases - 1];
    enum td_backend backend = td_key_backend(key);
    if (!backend)
        return "none";
    if (!*names[key])
        for (int k = TD_KEY_BeforeRuntimeKeys + 1; k < TD_KEY_EndOfRuntimeBackendKeys; k++)
            snprintf(names[k], sizeof names[k], "%s%s",
                     functionalities[td_key_functionality((enum td_key)k)].prefix,
                     td_backend_name(td_key_backend((enum td_key)k)));
    return names[key];
}

int td_backend_rename(enum td_backend backend, const char *name)
{
    if (backend < TD_BACKEND_PrivateUse1 || backend > TD_BACKEND_PrivateUse3 || !*name ||
        strlen(name) >= sizeof *renamed)
        return -EINVAL;
    strcpy(renamed[backend], name);
    memset(names, 0, sizeof names);
    td_key_name(TD_KEY_CPU); /* makes them all, before there are threads */
    return 0;
}

enum td_key td_key_find(const char *name)
{
    for (int k = 0; k < TD_KEYS; k++)
        if (k != TD_KEY_EndOfFunctionalityKeys && k != TD_KEY_EndOfRuntimeBackendKeys &&
            !strcmp(td_key_name((enum td_key)k), name))
            return (enum td_key)k;
    if (!strcmp(name, "CatchAll"))
        return TD_KEY_CatchAll;
    for (int b = 1; b < TD_BACKENDS_END && !strncmp(name, "Dense", 5); b++)
        if (!strcmp(name + 5, td_backend_name((enum td_backend)b)))
            return td_key_runtime(TD_KEY_Dense, (enum td_backend)b);
    for (int b = TD_BACKEND_PrivateUse1; b <= TD_BACKEND_PrivateUse3; b++) /* by the first name */
        for (int i = 0; i < TD_PER_BACKEND; i++) {
            char first[64];
            snprintf(first, sizeof first, "%s%s", functionalities[blocks[i]].prefix,
                     backend_ids[b]);
            if (!strcmp(first, name))
                return td_key_runtime(blocks[i], (enum td_backend)b);
        }
    return TD_KEYS;
}

/* Whether a device, with or without an index ("cuda:1"), is called so, in any case. */
static bool is_called(const char *device, const char *name)
{
    size_t n = strlen(name);
    if (!n || strncasecmp(device, name, n))
        return false;
    const char *index = device + n;
    return !*index || (*index == ':' && index[1] && !index[1 + strspn(index + 1, "0123456789")]);
}

enum td_backend td_backend_find(const char *device)
{
    for (int b = 1; b < TD_BACKENDS_END; b++)
        if (is_called(device, devices[b]) || is_called(device, renamed[b]))
            return (enum td_backend)b;
    return TD_BACKEND_none;
}

static bool is_elsewhere(const char *device)
{
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (is_called(device, elsewhere[i]))
            return true;
    return false;
}

int td_key_refuse(const char *what, const char *name, struct td_problem *problem)
{
    return is_elsewhere(name)
               ? td_problem_set(problem, ENOSYS,
                                "%s: %s is a key of PyTorch's that nothing stands behind here; GET "
                                "/v1/dispatch/keys lists those that are",
                                what, name)
               : td_problem_set(problem, EINVAL,
                                "%s: '%.60s' is no key; GET /v1/dispatch/keys lists them", what,
                                name);
}

/* ---- sets ---- */

static td_keyset functionality_bit(enum td_key functionality)
{
    return functionality ? UINT64_C(1) << (TD_BACKENDS + functionality - 1) : 0;
}

static td_keyset backend_bit(enum td_backend backend)
{
    return backend ? UINT64_C(1) << (backend - 1) : 0;
}

td_keyset td_keyset_of(enum td_key key)
{
    return functionality_bit(td_key_functionality(key)) | backend_bit(td_key_backend(key));
}

td_keyset td_keyset_below(enum td_key key)
{
    td_keyset bit = functionality_bit(td_key_functionality(key));
    return bit ? (bit - 1) | TD_KEYSET_BACKENDS : TD_KEYSET_FULL;
}

td_keyset td_keyset_minus(td_keyset a, td_keyset b)
{
    return a & ~(b & ~TD_KEYSET_BACKENDS);
}

bool td_keyset_has(td_keyset keys, enum td_key key)
{
    td_keyset bits = td_keyset_of(key);
    return bits && (keys & bits) == bits;
}

static int highest_bit(uint64_t bits) /* from 1; 0 when there is none */
{
    return bits ? 64 - __builtin_clzll(bits) : 0;
}

static enum td_key highest_functionality(td_keyset keys)
{
    return (enum td_key)highest_bit(keys >> TD_BACKENDS);
}

static enum td_backend highest_backend(td_keyset keys)
{
    return (enum td_backend)highest_bit(keys & TD_KEYSET_BACKENDS);
}

enum td_key td_keyset_highest(td_keyset keys)
{
    return td_key_runtime(highest_functionality(keys), highest_backend(keys));
}

int td_keyset_index(td_keyset keys)
{
    int functionality = highest_bit(keys >> TD_BACKENDS);
    int backend = highest_bit(keys & TD_KEYSET_BACKENDS);
    int mask = per_backend_mask[functionality];
    if (mask && !backend)
        return 0; /* sparse, but on nothing */
    return offsets[functionality] + ((backend - 1) & mask);
}

int td_key_index(enum td_key key)
{
    return td_keyset_index(td_keyset_of(key));
}

enum td_key td_key_at(int index)
{
    int functionality = TD_FUNCTIONALITIES;
    while (offsets[functionality] > index)
        functionality--;
    return td_key_runtime((enum td_key)functionality,
                          (enum td_backend)(index - offsets[functionality] + 1));
}

/* Sets are small and this is for printing: every key is asked. */
enum td_key td_keyset_next(td_keyset keys, enum td_key before)
{
    int at = before ? td_key_index(before) + 1 : 1;
    for (; at < TD_TABLE_SIZE; at++)
        if (td_keyset_has(keys, td_key_at(at)))
            return td_key_at(at);
    return TD_KEY_Undefined;
}

/* ---- from a tensor's description ---- */

static bool is_quantized(const char *dtype)
{
    return !strcmp(dtype, "quint8") || !strcmp(dtype, "qint8") || !strcmp(dtype, "qint32");
}

int td_compute_key(enum td_key *key, const char *dtype, const char *layout, const char *device,
                   struct td_problem *problem)
{
    dtype = dtype ? dtype : "float32";
    layout = layout ? layout : "strided";
    device = device ? device : "cpu";
    enum td_backend backend = td_backend_find(device);
    if (!backend && is_elsewhere(device))
        return td_problem_set(problem, ENOSYS, "device: nothing here computes on %.40s", device);
    if (!backend)
        return td_problem_set(problem, EINVAL,
                              "device: '%.40s' is none; right are cpu, meta, %s, and by name cuda, "
                              "hip, xla, mps, ipu, xpu, hpu, ve, lazy, mtia",
                              device, td_backend_name(TD_BACKEND_PrivateUse1));
    if (!is_quantized(dtype) && !td_dtype_find(dtype))
        return td_problem_set(problem, EINVAL, "dtype: '%.40s' is none", dtype);
    enum td_key functionality = TD_KEY_Undefined;
    if (!strcmp(layout, "strided"))
        functionality = is_quantized(dtype) ? TD_KEY_Quantized : TD_KEY_Dense;
    else if (!strcmp(layout, "sparse_coo"))
        functionality = TD_KEY_Sparse;
    else if (!strcmp(layout, "sparse_csr"))
        functionality = TD_KEY_SparseCsr;
    else if (!strcmp(layout, "_mkldnn"))
        functionality = TD_KEY_MkldnnCPU;
    else
        return td_problem_set(problem, EINVAL,
                              "layout: '%.40s' is none; right are strided, sparse_coo, sparse_csr, "
                              "_mkldnn",
                              layout);
    if (functionality == TD_KEY_MkldnnCPU && backend != TD_BACKEND_CPU)
        return td_problem_set(problem, EINVAL, "layout: %s has no layout %s", device, layout);
    *key = td_key_runtime(functionality, backend);
    return 0;
}
