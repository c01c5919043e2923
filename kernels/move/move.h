/* Operators that move elements and change none: views (transpose, slice, expand, split), and copies
 * (cat, roll, repeat). Each is one function that says where its elements come from; the rule takes
 * shapes from it, one kernel copies by it, and whoever can read strides need not copy at all. */
#ifndef TD_KERNELS_MOVE_H
#define TD_KERNELS_MOVE_H

#include "kernels/dims.h"

#define TD_BOX_RANK (2 * TD_MAX_RANK)

/* A box of elements and how it lies in a tensor; strides and the offset of its first one count
 * elements. */
struct td_layout {
    const struct td_tensor *from; /* borrowed; what it lies in */
    int64_t offset;
    int rank;
    int64_t shape[TD_BOX_RANK], stride[TD_BOX_RANK];
};

/* The layout of all of a tensor, which is taken for a dense one. */
void td_layout_of(struct td_layout *layout, const struct td_tensor *t);
/* Of one in a tensor that has strides, makes one of the memory in which that lies (move_view.c).
 * False: there is none. */
bool td_layout_through(struct td_layout *layout);

/* Result i of the call, as it lies in an argument: 0, or -EINVAL with the sentence. Needs neither
 * data nor results. Whether the result is such a view or a copy of it, the schema says: "(a)". */
typedef int td_lay(const struct td_call *call, int i, struct td_layout *layout);
/* How many results there are; -EINVAL. */
typedef int td_lay_count(const struct td_call *call);

/* A box and its place in a result: strides and offset there. */
struct td_piece {
    struct td_layout box;
    struct td_tensor *out; /* borrowed */
    int64_t offset, stride[TD_BOX_RANK];
};
/* Piece i of a call whose results have shapes; false: there are no more. */
typedef bool td_piece_at(const struct td_call *call, int i, struct td_piece *piece);

struct td_move { /* an operator's .family: lay, or pieces with a rule of its own */
    td_lay *lay;
    td_lay_count *count; /* NULL: one result */
    bool paired; /* each dimension of the result is two of the layout, the outer one first */
    td_piece_at *piece_at; /* set for all */
};

/* move_layout.c and move_shapes.c */
td_lay td_lay_all, td_lay_transpose, td_lay_t, td_lay_permute, td_lay_movedim, td_lay_select,
    td_lay_slice, td_lay_narrow, td_lay_unsqueeze, td_lay_squeeze, td_lay_view, td_lay_view_as,
    td_lay_flatten, td_lay_unflatten, td_lay_expand, td_lay_expand_as, td_lay_diagonal,
    td_lay_unfold, td_lay_as_strided;
int td_rule_view_dtype(struct td_call *call);
/* move_lists.c */
td_lay td_lay_split, td_lay_split_with_sizes, td_lay_chunk, td_lay_unbind, td_lay_meshgrid,
    td_lay_broadcast;
td_lay_count td_count_split, td_count_split_with_sizes, td_count_chunk, td_count_unbind,
    td_count_tensors;
/* what those share */
/* The dimension that argument i names, of a tensor that has some. */
int td_lay_dim_of(const struct td_call *call, int i, int rank, int *dim);
/* Leaves elements [start, start + length) of a dimension. */
void td_lay_cut(struct td_layout *layout, int dim, int64_t start, int64_t length);
void td_lay_drop(struct td_layout *layout, int dim);
/* To these sizes, as broadcasting has it. name: of the argument that wants them. */
int td_lay_broadcast_to(const struct td_call *call, struct td_layout *layout, const int64_t *size,
                        int rank, const char *name);

/* move_copies.c */
td_lay td_lay_flip, td_lay_repeat, td_lay_tile, td_lay_pixel_shuffle, td_lay_pixel_unshuffle,
    td_lay_channel_shuffle, td_lay_repeat_interleave;
td_piece_at td_piece_of_lay, td_piece_of_cat, td_piece_of_roll;
int td_rule_cat(struct td_call *call);
int td_rule_stack(struct td_call *call);
int td_rule_roll(struct td_call *call);
int td_rule_pixel_unshuffle(struct td_call *call);

/* move_simd.c: the level's copy of one piece, for others. */
typedef void td_move_piece_run(const struct td_piece *piece, int threads);
td_move_piece_run td_move_piece_default, td_move_piece_avx2, td_move_piece_avx512;

#endif
