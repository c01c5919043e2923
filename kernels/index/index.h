/* The index family: operators that read or write where whole numbers, or masks, point.
 *
 * All of them are one walk over positions. At each position, indices say which element of one
 * tensor is meant, the one that is pointed into; beside it lies an element of another: a result
 * where the operator reads (gather), a source where it writes (scatter). A plan says how positions
 * become places in both. */
#ifndef TD_KERNELS_INDEX_H
#define TD_KERNELS_INDEX_H

#include "kernels/kernels.h"

enum td_index_form {                      /* how the arguments make a plan */
                     TD_INDEX_BY_along,   /* a position of the index is one of self's, but in one
                                             dimension */
                     TD_INDEX_BY_aligned, /* the same, index and self broadcast to each other before
                                           */
                     TD_INDEX_BY_slices,  /* each index says one slice of a dimension */
                     TD_INDEX_BY_rows,    /* each index says one row, a slice of dimension 0 */
                     TD_INDEX_BY_flat,    /* each index says one element, as if self were flat */
                     TD_INDEX_BY_tensors, /* one index, mask or nothing a dimension, broadcast to
                                             each other */
                     TD_INDEX_BY_hot, /* each index says which of a new last dimension's elements is
                                         1 */
                     TD_INDEX_BY_planes, /* each index says one element of its plane, the last two
                                            dimensions */
                     TD_INDEX_BY_select, /* no index: a part of self that numbers say */
                     TD_INDEX_BY_slice,
                     TD_INDEX_BY_diagonal,
                     TD_INDEX_BY_strided,
};

enum td_index_way { /* what is done with both elements; all but read write into a copy of self */
                    TD_INDEX_read,
                    TD_INDEX_write,
                    TD_INDEX_add,
                    TD_INDEX_mul,
                    TD_INDEX_min,
                    TD_INDEX_max,
                    TD_INDEX_mean, /* adds, and divides by how many there were in the end */
                    TD_INDEX_said, /* by argument reduce or accumulate */
};

struct td_index { /* of a td_op: its family */
    enum td_index_form form;
    enum td_index_way way;
    const char *args; /* places of self, dim, index and source among the arguments, '-' for none */
    bool wraps;       /* negative indices count from the end */
};

struct td_index_plan {
    int rank;
    int64_t size[TD_MAX_RANK]; /* positions */
    /* Steps, in elements, through what is pointed into and what lies beside. */
    int64_t into[TD_MAX_RANK], beside[TD_MAX_RANK];
    int64_t base;  /* where it begins to be pointed into */
    bool overlaps; /* positions may meet in one element without an index */
    int n;
    struct td_pointer {
        struct td_tensor t;        /* INT32 or INT64 */
        int64_t step[TD_MAX_RANK]; /* through its elements */
        int64_t bound, stride;     /* how many there are to point at, and how far apart they are */
    } by[TD_MAX_RANK];
};

/* The plan of a call that the rule has accepted. room: as td_index_room says, where masks become
 * indices. */
void td_index_plan(const struct td_call *call, struct td_index_plan *plan, void *room);
size_t td_index_room(const struct td_call *call);
/* Leaves out dimensions of size 1, and joins those that can be walked as one. */
void td_index_fold(struct td_index_plan *plan);

enum td_index_way td_index_way(const struct td_call *call);
const struct td_value *td_index_arg(const struct td_call *call,
                                    int which); /* 0 self ... 3 source */

/* What a writer writes: the tensor, or a number as one element in room. */
struct td_tensor td_index_source(const struct td_call *call, uint64_t *room);
/* Whether self's elements where something is written count; and what they are before if not. */
bool td_index_keeps_self(const struct td_call *call);
void td_index_neutral(enum td_index_way way, enum td_dtype dtype, uint64_t *room);

/* What is added is multiplied by it. */
const struct td_value *td_index_alpha(const struct td_call *call);

/* What the gradient of embedding has besides: rows of one index that are left out (-1: of none),
 * and whether rows are divided by how often their index comes. */
struct td_index_rows {
    int64_t skip;
    bool by_frequency;
};
struct td_index_rows td_index_rows(const struct td_call *call);

/* ---- tensors.c: lists of indices ---- */

struct td_index_list { /* one for each dimension of self; without type: the whole dimension */
    int n;
    struct td_tensor t[TD_MAX_RANK];
    struct td_tensor common; /* the shape that they broadcast to */
    int at;                  /* the result's dimension where it stands */
    int unknown;             /* of common's dimensions the one that is not known; -1: none */
};

/* Reads call's list; masks become indices in room where it is given, else one of their size is
 * unknown, and the biggest that it can be. -EINVAL, in call->problem. */
int td_index_list(const struct td_call *call, struct td_index_list *list, int64_t *room);
/* The shape of what the list selects of self. -EINVAL: too many dimensions. */
int td_index_selected(const struct td_call *call, const struct td_index_list *list,
                      struct td_tensor *out);

/* Whether one of n indices is not from low to low + range - 1, found without a branch: of index -
 * low and range - 1 - (index - low) one is negative then. range: up to 2^63. */
bool td_index_leaves(const int64_t *index, int64_t n, uint64_t low, uint64_t range);

/* The check of all: indices within bounds, masks as long as their values. */
int td_index_check(const struct td_call *call);

/* ---- rules: index_rules.c, index_parts.c ---- */

typedef int td_index_rule(struct td_call *call);
td_index_rule td_index_rule_gather, td_index_rule_scatter, td_index_rule_select,
    td_index_rule_slices, td_index_rule_fill, td_index_rule_take, td_index_rule_put,
    td_index_rule_take_along, td_index_rule_rows, td_index_rule_rows_backward,
    td_index_rule_tensors, td_index_rule_tensors_put, td_index_rule_hot, td_index_rule_planes,
    td_index_rule_select_part, td_index_rule_slice_part, td_index_rule_diagonal_part,
    td_index_rule_strided_part;

#endif
