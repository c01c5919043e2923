/* A checked call of scaled_dot_product_attention, its numbers by name. */
#ifndef TD_KERNELS_ATTENTION_H
#define TD_KERNELS_ATTENTION_H

#include "kernels/kernels.h"

struct td_attention {
    const struct td_tensor *query, *key, *value, *mask, *out; /* borrowed; mask NULL: none */
    int64_t heads;                    /* of all batches: each has a result of its own */
    int64_t rows, keys, depth, width; /* of query; of key and value; of query and key; of value */
    int64_t repeat;                   /* heads of query that share one of key and value */
    size_t number;                    /* bytes of a number in the type that is computed in */
    bool causal;                      /* row i looks at keys up to i */
    double scale;
};

void td_attention_of(const struct td_call *call, struct td_attention *a);

/* Where head number i finds its query, key, value and mask, in elements, and how far rows are
 * apart; elements of a row are side by side, but for the mask's, which may be one for all keys. */
struct td_attention_place {
    int64_t query, key, value, mask, query_row, key_row, value_row, mask_row, mask_key;
};
struct td_attention_place td_attention_at(const struct td_attention *a, int64_t head);

/* How it is cut: blocks of rows, shared among slots, which have so many bytes of scratch each. */
#define TD_ATTENTION_ROWS 216 /* of a block, at most: whole registers of any level */
#define TD_ATTENTION_FILL(rows) (((rows) + 3) / 4 * 4) /* fewer rows at a time take as long */
#define TD_ATTENTION_KEYS 256
#define TD_ATTENTION_LANES 16 /* keys that are turned into columns together, at most */
struct td_attention_cut {
    int64_t rows, blocks, items; /* of a block but the last; of one head; in all */
    int64_t keys;                /* that a block meets at a time, whole panels of any level */
    int slots;
    int64_t wide_depth, wide_width; /* filled up to whole panels */
    size_t slot;
};
struct td_attention_cut td_attention_cut(const struct td_attention *a, int threads);

#endif
