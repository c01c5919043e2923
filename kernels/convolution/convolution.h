/* A checked call of a convolution in one to three dimensions, its numbers by name. */
#ifndef TD_KERNELS_CONVOLUTION_H
#define TD_KERNELS_CONVOLUTION_H

#include "kernels/gemm/gemm.h"
#include "kernels/kernels.h"
#include "kernels/move/move.h"
#include "kernels/post.h"

#define TD_CONV_DIMS 3

/* td_op.family: the arguments' places; -1 where there is none. */
struct td_conv_args {
    int dims; /* 0: as many as weight has */
    int stride, padding, dilation, groups, output_padding;
    int transposed; /* the argument that says so; -1: none does, and always says it */
    bool always;
    bool last; /* channels are the last dimension of input and result, which have images */
    int post; /* the argument that names post-ops, before that of their tensors; 0: there is none */
};

struct td_conv {
    const struct td_tensor *input, *weight, *bias, *out; /* borrowed; bias NULL: none */
    int64_t images, groups;
    int64_t in_channels, out_channels; /* of one group */
    int dims;
    /* Of each dimension, outermost first; those beyond dims are 1, without padding. */
    int64_t in[TD_CONV_DIMS], kernel[TD_CONV_DIMS], size[TD_CONV_DIMS]; /* size: the output's */
    int64_t stride[TD_CONV_DIMS], dilation[TD_CONV_DIMS];
    int64_t padding[TD_CONV_DIMS], after[TD_CONV_DIMS]; /* before and behind the input */
    bool transposed;     /* the gradient of such a convolution: weight is [in, out / groups, ..] */
    bool last;           /* input and out are [images, .., channels] */
    struct td_post post; /* its tensors' elements are out's, as they lie */
};

void td_conv_of(const struct td_call *call, struct td_conv *c);

/* Leaves out dimensions in which there is nothing but one element and one position of the kernel;
 * one stays. Libraries know the rest better: a column is as well a row. */
void td_conv_squeeze(struct td_conv *c);

/* Makes a column in two dimensions with channels last, whose pixels lie as those of a row do, a
 * row: rows are what our loops are for. */
void td_conv_lie_down(struct td_conv *c);

/* Positions of the kernel, and elements of an image's channel: inside and out. */
int64_t td_conv_positions(const struct td_conv *c);
int64_t td_conv_pixels(const struct td_conv *c, const int64_t *size);

/* Whether all numbers of the weight are finite. */
bool td_conv_is_finite(const struct td_conv *c);

/* Where an element of a channel, counted over all groups, lies in input or out. */
static inline int64_t td_conv_at(const struct td_conv *c, int64_t image, int64_t channel,
                                 int64_t channels, int64_t pixel, int64_t pixels)
{
    return c->last ? (image * pixels + pixel) * channels + channel
                   : (image * channels + channel) * pixels + pixel;
}

/* From channels last to channels first, or back: images of so many channels and pixels. */
static inline size_t td_conv_turned(const struct td_tensor *t) /* bytes that it takes */
{
    return (td_nbytes(t) + 127) & ~(size_t)63;
}
/* Transposes matrices [images][rows][columns] of any type (convolution_turned.c). */
typedef void td_conv_transpose(const struct td_tensor *from, int64_t images, int64_t rows,
                               int64_t columns, int threads, void *to);
td_conv_transpose td_conv_transpose_default, td_conv_transpose_avx2, td_conv_transpose_avx512;

/* A kernel of one position with a stride and without padding, in one group, reads a part of the
 * elements. Makes c the convolution of these, dense, with a stride of 1; its input is picked then,
 * to whose data piece is to be copied first. False: it is none, and c stays as it is. */
bool td_conv_pick(struct td_conv *c, struct td_tensor *picked, struct td_piece *piece);

/* The convolution as td_gemm_any's product: for each image and group, weight [o, c * positions]
 * times what lies under the kernel, gathered. weight: in that order, which a transposed
 * convolution's is not. Lives as long as c and weight. */
void td_conv_gemm(const struct td_conv *c, const struct td_tensor *weight, int threads,
                  struct td_gemm *g);

/* Whether a td_gemm_run can compute that product, g: nothing is gathered, and it takes the type. */
bool td_conv_is_matmul(const struct td_conv *c, const struct td_gemm *g);

/* Channels last and a kernel of one position: a row a pixel, as linear has them. False: it is none,
 * or of another type than td_gemm_run takes. */
bool td_conv_linear(const struct td_conv *c, int threads, struct td_gemm *g);

/* Its weight in that order, for an element of that many bytes. */
void td_conv_turn_weight(const struct td_conv *c, void *to);

/* A convolution of FP32, BF16 or FP16 with channels first in one or two dimensions, cut into strips
 * of rows of the result (convolution_cut.c). What a strip takes of its group's channels is laid out
 * with its padding, columns that are a stride apart side by side, so that each position of the
 * kernel over neighbouring results is a run in memory (convolution_laid.c). */
#define TD_LAID_TILE 64 /* floats: rows are laid out for whole ones */
struct td_laid {
    int h, w;              /* the dimensions */
    int64_t positions;     /* of the kernel over all channels of a group */
    int64_t columns;       /* of a row that matter, with the padding */
    int64_t wide;          /* floats: of columns of a row that are a stride apart, side by side */
    int64_t row;           /* of a row that is laid out: of as many such parts as the stride is */
    int64_t line;          /* of a row before that; 0: it is not needed */
    int64_t strip, strips; /* rows of the result; how many in one image */
    int64_t rows;          /* of a channel that are laid out for a strip, at most */
    int slots;             /* that work at a time */
    size_t at, weight;     /* bytes in a slot before the positions' places, and weights as FP32 */
    size_t slot;           /* bytes of scratch each */
};
/* False: it is none, or none that is worth it. */
bool td_conv_cut_laid(const struct td_conv *c, int threads, struct td_laid *cut);
typedef void td_conv_laid(const struct td_conv *c, const struct td_laid *cut, void *scratch);
td_conv_laid td_conv_laid_default, td_conv_laid_avx2, td_conv_laid_avx512;

/* A convolution of FP32 by Winograd's F(2x2,3x3) (convolution_winograd.c), cut into blocks of rows
 * of tiles, each 2x2 results. */
struct td_winograd {
    int64_t outs, ins;       /* channels */
    int64_t width;           /* results side by side in a panel of weights; 0: rows [outs][ins] */
    int64_t plane;           /* floats from one tap's weights to the next's, or one matrix's */
    int64_t down, across;    /* tiles of an image */
    int64_t rows, blocks;    /* of tiles in a block, at most; of those in an image */
    int64_t ld;              /* tiles in a matrix, filled up to whole panels */
    int64_t ldc;             /* with channels last: floats from a tile's results to the next's */
    int slots;               /* that work at a time */
    size_t taps, weights;    /* bytes of scratch: those, and all matrices of weights, */
    size_t inputs, products; /* in a slot those of the input and of results, */
    size_t line;             /* a line of tiles, */
    size_t slot;             /* and all of a slot's */
};
/* width: of panels, two of the level's vectors. NULL, or why it is none that this serves. */
const char *td_conv_cut_winograd(const struct td_conv *c, int64_t width, int threads,
                                 struct td_winograd *w);

/* The weight's nine taps, planes of [outs][ins] or panels [ins][width], in which result o's of
 * channel i is at td_winograd_place. Kept with a stored weight; else, and for want of memory, made
 * in the scratch of w->taps bytes. */
const float *td_winograd_taps(const struct td_tensor *weight, const struct td_winograd *w,
                              float *scratch);
/* The same where they are kept with the weight, else NULL. */
const float *td_winograd_kept(const struct td_tensor *weight, const struct td_winograd *w);
int64_t td_winograd_place(const struct td_winograd *w, int64_t o, int64_t i);

/* td_impl.rounding: by what factor the bound on the rounding error exceeds the direct sum's, for
 * inputs of one magnitude. It is the sum of the absolute values of the algorithm's terms, divided
 * by the sum of the absolute values of the formula's terms (N. J. Higham, "Accuracy and Stability
 * of Numerical Algorithms", section 3.1). About 3.5 for weights without a pattern; 16 where all
 * kernels have the same corner as their only tap, which is the most, and where no taps are kept. */
double td_winograd_rounding_avx512(const struct td_call *call);
double td_winograd_rounding_avx2(const struct td_call *call);

/* td_impl.prepare of the levels' rows. */
const char *td_winograd_prepare_avx512(const struct td_call *call, struct td_prepared *prepared);
const char *td_winograd_prepare_avx2(const struct td_call *call, struct td_prepared *prepared);

/* A transposed convolution of FP32 with channels first in one or two dimensions, as a product and
 * sums of its rows (convolution_col2im.c), cut into blocks of channels and strips of the result.
 * Strips are rows, or, where there is one row alone, columns. */
struct td_col2im {
    int h, w, strips_of;   /* the dimensions, and which of them is cut */
    int64_t positions;     /* of the kernel */
    int64_t channels;      /* of the result in a block, at most */
    int64_t blocks;        /* in a group */
    int64_t strip, strips; /* rows, or columns; how many strips an image has */
    int64_t columns;       /* of a product: pixels of the input that a strip takes, filled up */
    int64_t line;          /* floats: columns of a row that are a stride apart, side by side */
    int slots;             /* that work at a time */
    size_t weight_bytes;   /* of scratch for the weights, before the slots */
    /* In a slot, bytes before the product, the lines of a row, and their runs; a panel of the input
     * comes first. */
    size_t at_sums, at_lines, at_runs;
    size_t slot_bytes;
};
/* Columns [from, from + n) of a row of the product are added to the lines' floats from to on. */
struct td_col2im_run {
    int64_t from, to, n;
};
/* NULL, or why it is none that this serves. */
const char *td_conv_cut_col2im(const struct td_conv *c, int threads, struct td_col2im *cut);
size_t td_col2im_scratch(const struct td_col2im *cut); /* bytes */
/* td_impl.prepare of a row for kernels that do not overlap (kernel <= stride), for which no library
 * has been seen to be faster. */
const char *td_col2im_prepare(const struct td_call *call, struct td_prepared *prepared);
/* The input's elements [begin, end) that contribute to results [at, at + n) of dimension d. */
void td_col2im_range(const struct td_conv *c, int d, int64_t at, int64_t n, int64_t *begin,
                     int64_t *end);
/* The weight as [groups][channels of the result][positions][channels of the input], kept with a
 * stored one; else, and for want of memory, made in the scratch. */
const float *td_col2im_weight(const struct td_conv *c, int threads, float *scratch);
typedef void td_conv_col2im(const struct td_conv *c, const struct td_col2im *cut, void *scratch);
td_conv_col2im td_conv_col2im_default, td_conv_col2im_avx2, td_conv_col2im_avx512;

/* Depthwise convolutions of FP32 with channels last in two dimensions (convolution_depth.c);
 * scratch of td_conv_depth_scratch(c) bytes. */
bool td_conv_is_depth(const struct td_conv *c);
size_t td_conv_depth_scratch(const struct td_conv *c);
typedef void td_conv_depth(const struct td_conv *c, int threads, void *scratch);
td_conv_depth td_conv_depth_default, td_conv_depth_avx2, td_conv_depth_avx512;

/* Why our rows are not to walk it, or NULL: its kernel reaches little beyond its input, there are
 * few holes between the elements of a transposed one's, and there is something to compute. */
const char *td_conv_ungathered(const struct td_conv *c);

/* Convolutions of FP32 with channels last in two dimensions of which the columns of the input that
 * TD_CONV_TILE results next to each other take at one column of the kernel are no more than
 * TD_CONV_LINE elements (convolution_direct.c); scratch of td_conv_direct_scratch(c) bytes. */
#define TD_CONV_TILE 12
#define TD_CONV_LINE (1024 * TD_CONV_TILE)
bool td_conv_is_direct(const struct td_conv *c);
/* Whether it is one with more than TD_CONV_DOTS channels of the result and at most 8, which fill
 * half a vector of AVX-512. */
bool td_conv_is_narrow(const struct td_conv *c);
size_t td_conv_direct_scratch(const struct td_conv *c);
typedef void td_conv_direct(const struct td_conv *c, int threads, void *scratch);
td_conv_direct td_conv_direct_default, td_conv_direct_avx2, td_conv_direct_avx512;

/* The same of up to TD_CONV_DOTS channels of the result (convolution_dots.c), with as much scratch.
 */
#define TD_CONV_DOTS 3
typedef void td_conv_dots(const struct td_conv *c, int threads, void *scratch);
td_conv_dots td_conv_dots_default, td_conv_dots_avx2, td_conv_dots_avx512;

/* td_impl.prepare of the rows of FP32 that compute channels last where they lie
 * (convolution_last.c). */
const char *td_conv_last_prepare_avx512(const struct td_call *call, struct td_prepared *prepared);
const char *td_conv_last_prepare(const struct td_call *call, struct td_prepared *prepared);

/* Makes last a convolution with channels first, in one or two dimensions, of a tensor with channels
 * last, as an image: its input and out are the other's still. */
void td_conv_turn(const struct td_conv *c, struct td_conv *last);
/* td_impl.prepare of the rows that compute it so (convolution_turned.c). */
const char *td_conv_turned_prepare(const struct td_call *call, struct td_prepared *prepared);

/* What oneDNN is to do, described as TD_ONEDNN_conv or, transposed, as TD_ONEDNN_deconv. */
struct td_onednn_desc;
void td_conv_describe(const struct td_conv *c, int threads, struct td_onednn_desc *d);

/* Why the library is not to be asked for it at all, or NULL: there is something to compute, its
 * loops run over the tensors and little else (paddings and dilations of any size would be walked),
 * and in each dimension some position of the kernel lies on the input somewhere: where it only ever
 * meets padding, oneDNN 3.2 crashes while it makes the primitive for AMX. */
const char *td_conv_unfit_for_onednn(const struct td_conv *c);

#endif
