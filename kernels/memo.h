/* A bounded memory of things that are dear to make, found again by a key that is compared byte for
 * byte: primitives, plans. That something cannot be made is remembered too. Any thread may enter.
 */
#ifndef TD_KERNELS_MEMO_H
#define TD_KERNELS_MEMO_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#define TD_MEMO_SETS 256
#define TD_MEMO_WAYS 4 /* 1024 items at most; a full set drops the one used longest ago */

struct td_memo_item; /* counted reference: give it back with td_memo_unref */

struct td_memo {
    size_t key_len; /* bytes a key */
    /* Makes the value for key; NULL with *error 0: it cannot be made, now or later; NULL with
     * *error negative: not now (-ENOMEM), ask again. Runs outside all locks. */
    void *(*create)(const void *key, int *error);
    void (*destroy)(void *value); /* not called for values that could not be made */
    struct td_memo_set {
        pthread_mutex_t lock;
        uint64_t clock;
        struct td_memo_item *way[TD_MEMO_WAYS];
    } set[TD_MEMO_SETS];
};

/* Static storage: static struct td_memo primitives = TD_MEMO(sizeof(struct key), make, drop); */
#define TD_MEMO(bytes, make, drop)                                                                 \
    {                                                                                              \
        .key_len = (bytes), .create = (make), .destroy = (drop),                                   \
        .set = {[0 ... TD_MEMO_SETS - 1] = {.lock = PTHREAD_MUTEX_INITIALIZER}},                   \
    }

/* The item of this key, if need be made now; NULL only when there is no memory for it. */
struct td_memo_item *td_memo_get(struct td_memo *memo, const void *key);

/* The item of this key if it is there; NULL otherwise. */
struct td_memo_item *td_memo_find(struct td_memo *memo, const void *key);

/* The item of this key, whose value it becomes where there is none yet; a value that is not taken
 * is destroyed. NULL only when there is no memory for it: then value is still the caller's. */
struct td_memo_item *td_memo_put(struct td_memo *memo, const void *key, void *value);

/* What create gave; NULL when the value cannot be made. Lives as long as the reference. */
void *td_memo_value(const struct td_memo_item *item);

struct td_memo_item *td_memo_ref(struct td_memo_item *item);
void td_memo_unref(struct td_memo_item **item); /* nulls the pointer */

/* Drops every item that nobody holds a reference to beyond this call. */
void td_memo_clear(struct td_memo *memo);

/* ---- primitives of oneDNN, which a memo keeps ---- */

struct td_weight_room;
/* From here on room (borrowed for good, any thread) is asked for what primitives hold, kept false;
 * one that it refuses is not made. To be called before there are any. */
void td_onednn_count(struct td_weight_room *room);
size_t td_onednn_bytes(void); /* that were taken so */

/* Drops all primitives that are not in use: what they hold is wanted, or a test wants them anew. */
void td_onednn_forget(void);

#endif
