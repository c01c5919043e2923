/* JSON as the api needs it: number arrays go straight between text and tensor buffers, everything
 * else through cJSON. Internal to api/. */
#ifndef TD_API_JSON_H
#define TD_API_JSON_H

#include "api/json/numbers.h"
#include "dispatch/choice/peaks.h"
#include "dispatch/dispatch.h"
#include "pools/pools.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

/* ---- text -> tree with holes ----
 * td_json_parse walks the text once. Every array that is the value of a member called "data" is cut
 * out: the tree holds a mark in its place, which td_json_span knows. The rest becomes a cJSON tree.
 * So the tree's size follows the request's structure and never its tensors. */
struct td_json_span {
    const char *text; /* from '[' on; borrowed from the parsed text */
    size_t length;    /* up to and with its ']' */
};

#define TD_MAX_SPANS 64
#define TD_MAX_VALUES (1 << 17) /* in the tree; each takes 80 bytes for two of the text */

struct td_json {
    cJSON *root; /* freed by td_json_free */
    struct td_json_span span[TD_MAX_SPANS];
    int n_spans;
    char *copy_;
    size_t copy_bytes_, tree_bytes_; /* taken from td_memory */
    struct td_json_kept *kept_;      /* the root's owner, when others read it too */
};

/* text need not end in 0. depth: deepest nesting allowed, inside of data arrays too. -EINVAL with
 * the sentence in problem (where: byte offset, and what is wrong), -ENOMEM.
 * Members of an object have different names. json is to be freed in any case; its root is NULL
 * where the text is refused. */
int td_json_parse(struct td_json *json, const char *text, size_t length, int depth,
                  struct td_problem *problem);
/* Whether a number was written as a float: 2.0 or 2e0, and not 2. */
#define TD_JSON_FLOAT (1 << 16) /* set in the type of a cJSON item */
static inline bool td_json_is_float(const cJSON *item)
{
    return item->type & TD_JSON_FLOAT;
}
/* A whole number to its last digit, where an INT64 or a UINT64 holds it; else false. */
#define TD_JSON_WIDE (1 << 17) /* in the type: valueint is what is to be added to valuedouble */
bool td_json_whole(const cJSON *item, __int128 *value);
void td_json_free(struct td_json *json); /* also after a failed parse, and when zeroed */
/* As good as zeroed, for td_json_free; writes no span. */
static inline void td_json_init(struct td_json *json)
{
    json->root = NULL;
    json->n_spans = 0;
    json->copy_ = NULL;
    json->copy_bytes_ = json->tree_bytes_ = 0;
    json->kept_ = NULL;
}
/* As td_json_parse with the cache's depth, but the tree may be that of an earlier text with the
 * same bytes, which other requests read at the same time: nobody may change it. A text with spans
 * is always parsed. */
struct td_json_cache;
int td_json_cache_parse(struct td_json_cache *cache, struct td_json *json, const char *text,
                        size_t length, struct td_problem *problem);
struct td_json_cache *td_json_cache_create(int depth); /* NULL: out of memory */
void td_json_cache_destroy(struct td_json_cache *cache);
void td_json_cache_counts(struct td_json_cache *cache, long long *hits, long long *misses);
/* What a reader has made of a kept text, for those that come later: one piece of malloc's memory,
 * freed with the text, which nobody changes. accompany takes it over, and frees it when there is
 * one already. */
bool td_json_is_kept(const struct td_json *json);
const void *td_json_companion(const struct td_json *json); /* NULL: none */
void td_json_accompany(struct td_json *json, void *companion);
/* The member of that name; NULL when there is none, or when it is no object. */
static inline const cJSON *td_json_member(const cJSON *object, const char *key)
{
    const cJSON *item = object ? object->child : NULL;
    while (item && (!item->string || *item->string != *key || strcmp(item->string, key)))
        item = item->next;
    return item;
}
/* Reads a member that is a whole number of bytes; absent leaves *value. who: goes before the
 * sentence, or NULL. -EINVAL. */
int td_json_bytes(const cJSON *object, const char *key, const char *who, size_t *value,
                  struct td_problem *problem);
/* No object in the tree has two members of one name; else -EINVAL. -ENOMEM. */
int td_json_unique(const cJSON *item, struct td_problem *problem);
/* The value is an object (NULL and null are none) and every member of it is among right,
 * NULL-ended; else the sentence names the one that was likely meant. who: the object's name. 0 or
 * -EINVAL. */
int td_json_members(const cJSON *object, const char *who, const char *const *right,
                    struct td_problem *problem);
/* The span that a member called "data" stands for; NULL when it is something else. */
const struct td_json_span *td_json_span(const struct td_json *json, const cJSON *item);

/* Calls each for the texts of an array, flat or nested, which may be a span; each says whether one
 * more is right. who: goes before the sentence. -EINVAL. */
typedef bool td_json_text(void *arg, const char *text);
int td_json_texts(const struct td_json *json, const cJSON *item, td_json_text *each, void *arg,
                  const char *who, struct td_problem *problem);

/* Decodes a span, flat or nested in any mix, into exactly count elements at out (aligned to the
 * element). Integers must fit their type and be whole; FP16 and BF16 are rounded to nearest even;
 * NaN, Infinity and -Infinity, as strings or bare, are numbers for floating types; BOOL takes true,
 * false, 0 and 1. name: the tensor's, for the sentence. -EINVAL. */
int td_json_decode(const struct td_json_span *span, enum td_dtype dtype, int64_t count, void *out,
                   const char *name, struct td_problem *problem);

/* ---- tensor -> text ---- */

/* An upper bound on the bytes of a tensor's data as a flat array, brackets included. */
size_t td_json_data_bound(const struct td_tensor *t);
/* Writes the flat array at out, which has room for the bound; floats in the shortest form that
 * reads back to the same bits, what is not finite as "NaN", "Infinity", "-Infinity". Returns the
 * bytes. */
size_t td_json_encode(const struct td_tensor *t, char *out);

/* Bytes of the UTF-8 character at text, 1 to 4; 0 when what stands there is none. text < end. */
int td_utf8_length(const char *text, const char *end);

/* ---- a small writer for everything else ----
 * Appends to a buffer in an arena; a failed allocation is remembered and reported at the end. Keys
 * are words of ours and written as they are; values are escaped. */
struct td_writer {
    struct td_arena *arena;
    char *text;
    size_t length, room;
    bool comma; /* the next value is not the first of its object or array */
    bool failed;
};
void td_write_init(struct td_writer *w, struct td_arena *arena, size_t room);
void td_write_open(struct td_writer *w, const char *key,
                   char bracket);                       /* '{' or '['; key or NULL */
void td_write_close(struct td_writer *w, char bracket); /* '}' or ']' */
void td_write_str(struct td_writer *w, const char *key,
                  const char *value); /* escaped, what is not UTF-8 as U+FFFD; NULL: null */
/* A key that is not ours, escaped; the next value is written without one. */
void td_write_key(struct td_writer *w, const char *key);
void td_write_int(struct td_writer *w, const char *key, int64_t value);
/* Nanoseconds as microseconds: 1678 is 1.678. */
void td_write_us(struct td_writer *w, const char *key, int64_t ns);
void td_write_num(struct td_writer *w, const char *key,
                  double value); /* shortest; not finite: null */
void td_write_bool(struct td_writer *w, const char *key, bool value);
void td_write_raw(struct td_writer *w, const char *key, const char *json, size_t length);
/* Room for n more bytes at the returned place, for td_write_took afterwards; NULL when failed. */
char *td_write_room(struct td_writer *w, size_t n);
void td_write_took(struct td_writer *w, size_t n);
/* A stream for printf and its kin: what is written to it is appended to the writer's text. NULL:
 * there is no memory, and the writer has failed. The caller closes the stream before writing on. */
FILE *td_write_file(struct td_writer *w);

/* ---- one tensor object of the protocol ---- */

/* Reads "shape" (required) into t. who: the tensor's name, for the sentence. -EINVAL. */
int td_json_shape(const cJSON *object, struct td_tensor *t, const char *who,
                  struct td_problem *problem);
/* The same where sizes may be unknown. unknown: asked of each, gives the number below 0 that is to
 * stand for it, or 0 where it must be a size as ever; NULL: all must. */
typedef int64_t td_json_unknown(void *arg, const cJSON *size);
int td_json_open_shape(const cJSON *object, struct td_tensor *t, const char *who,
                       td_json_unknown *unknown, void *arg, struct td_problem *problem);
int td_json_dtype(const cJSON *object, struct td_tensor *t, const char *who,
                  struct td_problem *problem);
/* "data", decoded into the arena; t's shape and type are set. -EINVAL, -ENOMEM. */
int td_json_data(const struct td_json *json, const cJSON *object, struct td_tensor *t,
                 const char *who, struct td_arena *arena, struct td_problem *problem);
/* A BOOL from outside may hold any byte; kernels count on 0 and 1. -EINVAL. */
int td_check_bools(const struct td_tensor *t, const char *who, struct td_problem *problem);
void td_write_shape(struct td_writer *w, const struct td_tensor *t); /* "shape":[...] */
void td_write_data(struct td_writer *w, const struct td_tensor *t);  /* "data":[...] */

/* ---- what the dispatcher knows of an operator ---- */

/* "arguments" or "returns" of a schema: n of them. */
void td_write_params(struct td_writer *w, const char *key, const struct td_param *param, int n);
void td_write_keys(struct td_writer *w, const char *name, td_keyset keys);
void td_write_table(struct td_writer *w, const struct td_handle *handle); /* "table":[...] */
/* Members of what was measured: call, kernel, level, first, differs, asked, measured. */
struct td_measured;
void td_write_measured(struct td_writer *w, const struct td_measured *m);
/* Members flops and bytes; where the peaks of such teams are known, bound, what the work takes at
 * least and by what, and percent_of_bound, how near the time came to that. ns 0: it has not run. */
void td_write_work(struct td_writer *w, const struct td_work *work, enum td_dtype type, int threads,
                   int64_t ns);
/* Member rounding, a td_impl.rounding to two digits behind the point; 0: there is none. */
void td_write_rounding(struct td_writer *w, double rounding);
/* Members "kernel" (how it is called) and "origin" of a registration. */
void td_write_registered(struct td_writer *w, const struct td_registration *r);

#endif
