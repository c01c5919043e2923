/* A stored tensor: its dense data, and the forms, packed or converted, made of it. It has no
 * name (the store that holds it does) and lives until its last reference is gone. The data does not
 * change once the weight can be seen by others, so forms are made once and found without a lock. */
#ifndef TD_KERNELS_WEIGHT_H
#define TD_KERNELS_WEIGHT_H

#include "kernels/kernels.h"

struct td_weight_form {
    const void *data; /* 64-byte aligned */
    size_t bytes;
    char name[64];            /* what it is, for listings: "onednn AB8b8a" */
    struct td_weight *weight; /* of td_weight_as and _on: has forms of its own; else NULL */
    const struct td_weight_form *next; /* the one made before; NULL at the end */
};

/* Who answers for the memory of weights and of all their forms. take is asked before bytes are
 * allocated, and what is not to be had is not made: 0 or a negative errno. kept: for as long as the
 * weight lives, else for one call. */
struct td_weight_room {
    int (*take)(struct td_weight_room *room, size_t bytes, bool kept);
    void (*give)(struct td_weight_room *room, size_t bytes, bool kept);
};

/* A new weight of like's type and shape with one reference, caller owns. Copies like's data; when
 * that is NULL the elements are zero, to be written through td_weight_tensor() before anybody else
 * sees the weight. room: borrowed, must outlive it; NULL: nobody counts. -ENOMEM, what room says.
 */
int td_weight_create(struct td_weight **weight, const struct td_tensor *like,
                     struct td_weight_room *room);
/* The elements are products of like's, in FP32, with a number in FP64 for each run of so many, the
 * numbers over again where there are more runs; each is rounded once. */
int td_weight_create_scaled(struct td_weight **weight, const struct td_tensor *like, int64_t run,
                            const double *number, int64_t n, struct td_weight_room *room);
struct td_weight *td_weight_ref(struct td_weight *weight);
void td_weight_unref(struct td_weight **weight); /* nulls the pointer; NULL is fine */

/* The view to compute with (its weight field leads back here). Borrowed. Its data is 64-byte
 * aligned, and 64 bytes may be read beyond its end. */
const struct td_tensor *td_weight_tensor(const struct td_weight *weight);

/* The weight behind a view that shows all of it in its own type (in whichever shape), else NULL. */
struct td_weight *td_weight_of(const struct td_tensor *view);

/* The same where forms of it may be packed, else NULL: whether weights lie anew for kernels. */
struct td_weight *td_weight_to_pack(const struct td_tensor *view);
void td_weights_pack(bool allowed); /* at first they may */

struct td_packed {
    long long first, further; /* forms that were made of weights without one, and of others */
    long long bytes;          /* that forms hold */
};
struct td_packed td_packed(void);

/* Writes the packed form of plain, which is the weight's own view. 0 or -errno. */
typedef int td_weight_fill(void *packed, const struct td_tensor *plain, void *arg);

/* The way back: writes plain, which is the weight's own view, from the form that key is of. */
typedef void td_weight_undo(const struct td_tensor *plain, const void *packed, const void *key);

/* The packed form under this key, if need be made now by fill (under the weight's lock, so only
 * once). undo: NULL, or who has got the form reads no plain elements, and the weight may rest. NULL
 * when there is no memory or fill fails. Borrowed; lives as long as the weight. */
const void *td_weight_pack(struct td_weight *weight, const void *key, size_t key_len,
                           const char *name, size_t bytes, td_weight_fill *fill, void *arg,
                           td_weight_undo *undo);

/* The form under this key where it has been made, else NULL. */
const void *td_weight_packed(const struct td_weight *weight, const void *key, size_t key_len);

/* A form for one call, where none can be kept; the caller's, for td_weight_unpack. */
void *td_weight_pack_once(struct td_weight *weight, size_t bytes, td_weight_fill *fill, void *arg);
void td_weight_unpack(struct td_weight *weight, void *form, size_t bytes); /* NULL is fine */

/* The weight in another type, which is a weight too, with packed forms of its own: for calls that
 * convert it. Borrowed; lives as long as the first. Nobody may read its elements, through its view
 * or its forms, before td_weight_convert. NULL when there is no memory. */
struct td_weight *td_weight_as(struct td_weight *weight, enum td_dtype type);

/* The weight on a NUMA node: itself where that is its home, else a replica, a weight too, with
 * packed forms of its own. The calling thread makes it, and its pages come from where that runs: so
 * call this on the node. Borrowed; lives as long as the first. NULL when there is no memory. */
struct td_weight *td_weight_on(struct td_weight *weight, int node);
/* Says on which node its memory is, before anybody else sees the weight; -1, unknown, at first. */
void td_weight_set_home(struct td_weight *weight, int node);

/* Has fill write the elements of what td_weight_as gave from the first weight's, once; others wait.
 * 0 or fill's -errno. */
int td_weight_convert(struct td_weight *as, td_weight_fill *fill, void *arg);

/* ---- resting: plain elements that nobody reads give their memory back ---- */

/* The weight of which this thread has last been given a form with a way back, since it forgot. */
struct td_weight *td_weight_taken(void);
void td_weight_forget(void);

/* Somebody reads its plain elements, and no more: they are there meanwhile, made of a form again
 * where they have rested. */
void td_weight_pin(struct td_weight *weight);
void td_weight_unpin(struct td_weight *weight);

/* Gives the memory of plain elements that are not pinned and can be had again back to the system.
 * Their room stays taken. For who knows that nobody reads them who has not pinned them. */
void td_weight_rest(struct td_weight *weight);

/* What it has taken, with all its forms. */
size_t td_weight_bytes(const struct td_weight *weight);

/* The forms, the youngest first; NULL when there is none. */
const struct td_weight_form *td_weight_forms(const struct td_weight *weight);

#endif
