/* What the files of embedding_bag share. */
#ifndef TD_KERNELS_BAG_H
#define TD_KERNELS_BAG_H

#include "kernels/kernels.h"

enum td_bag_mode { TD_BAG_sum, TD_BAG_mean, TD_BAG_max };

struct td_bag {
    const struct td_tensor *weight, *indices, *offsets, *factors, *out; /* factors NULL: ones */
    struct td_tensor of_index, sizes, largest; /* the other results, as ATen fills them */
    enum td_bag_mode mode;
    int64_t bags, indexed, width; /* indices in all; elements of a row */
    int64_t padding;              /* the row that counts for nothing; negative: none */
};

struct td_bag td_bag_of(const struct td_call *call);

/* Where the bag begins and ends among the indices. */
struct td_bag_span {
    int64_t begin, end;
};
struct td_bag_span td_bag_at(const struct td_bag *b, int64_t bag);

#endif
