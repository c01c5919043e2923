/* What the files of the grid family share: which elements of an image a place in it is made of. */
#ifndef TD_KERNELS_GRID_H
#define TD_KERNELS_GRID_H

#include "kernels/kernels.h"

#define TD_GRID_TAPS 16

enum td_grid_mode { TD_GRID_linear, TD_GRID_nearest, TD_GRID_cubic };
enum td_grid_padding { TD_GRID_zeros, TD_GRID_border, TD_GRID_reflection };

struct td_grid {
    int dims;
    int64_t size[3]; /* of the image: depth, height, width; 1 where it has no such dimension */
    int64_t images, channels, places; /* places looked up in an image */
    enum td_grid_mode mode;
    enum td_grid_padding padding;
    bool align_corners;
    bool wide; /* places are computed in FP64, else in FP32 */
    int taps;
};

struct td_grid td_grid_of(const struct td_call *call);

/* Place number i of the call's grid: elements at[k] of a plane, times weight[k], k below
 * grid->taps; at is -1 outside of the image. */
void td_grid_taps(const struct td_grid *grid, const struct td_tensor *t, int64_t i,
                  int64_t at[TD_GRID_TAPS], double weight[TD_GRID_TAPS]);

#endif
