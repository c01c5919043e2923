/* A walk as the files of it share it: the one that sets it up, and the one that runs it. Internal
 * to the family and kernels/loops/. */
#ifndef TD_KERNELS_POINTWISE_WALK_H
#define TD_KERNELS_POINTWISE_WALK_H

#include "kernels/jit/loop.h"
#include "kernels/loops/fused.h"
#include "kernels/pointwise/pointwise.h"

#define TD_POINT_ROOM 16384 /* bytes of all tiles: a third of a 48 KiB cache */
#define TD_POINT_SHORT 128  /* runs below are laid out many at a time, */
#define TD_POINT_STILL                                                                             \
    512 /* and these where an operand's element stays all along them, or                           \
           where what is laid out is the same for each */

struct td_point_value {        /* an operand in memory, or what an op makes */
    char *data;                /* NULL: it is in its tile alone */
    void *const *place;        /* where its tensor says where data lie; NULL: it has none */
    size_t size;               /* bytes an element */
    size_t slot;               /* bytes an element of the tiles before its own */
    int64_t step[TD_MAX_RANK]; /* elements; 0 where it is broadcast */
    uint64_t number;           /* where a Scalar's element stands */
    bool made;                 /* by an op */
    bool tiled;                /* has a tile */
    bool dense;                /* lies exactly like the result */
    bool constant;             /* one element for all */
    bool again;                /* its elements come again with each innermost row */
    bool still;                /* one element for each innermost row */
    bool apart;                /* its elements are, along the last dimension of several */
};

struct td_point_op { /* a row over values */
    struct td_point_args args;
    td_point_row *row;
    int unit, n_in, in[TD_POINT_OPERANDS], out;
    const struct td_impl *impl; /* of several calls' rows, whose it is; NULL: it is the only one */
    const struct td_call *call; /* that it computes */
};

struct td_point_walk {
    int rank, n_values, n_ops;
    int64_t tile;               /* elements that have room */
    td_point_turn *turn;        /* of the first call's level */
    int64_t brief;              /* rows of fewer elements are taken many at a time */
    int64_t whole;              /* of a tile: whole rows, where operands come again with these */
    int64_t shape[TD_MAX_RANK]; /* folded, outermost first; never empty */
    int down;                   /* the dimension that blocks go down; -1: nothing is apart */
    bool cheap;                 /* memory is what its calls wait for */
    const struct td_tensor *out;
    struct td_point_value *value; /* TD_FUSED_VALUES, once it is closed n_values */
    struct td_point_op *op;       /* so many, and n_ops */
    td_loop_code *code;           /* what is run in place of the rows; NULL: these are */
    const int *summed;            /* the value whose rows' sums code gives; NULL: none */
};
_Static_assert(TD_FUSED_VALUES * 8 * 32 <= TD_POINT_ROOM, "the widest tiles hold 32 elements");

/* ---- pointwise_set.c ---- */

/* What a row is told of the call; where operands lie is still to be said. */
void td_point_begin_op(struct td_point_op *op, const struct td_call *call,
                       const struct td_point_way *way);
/* Adds the call, and gives the value that it makes. made: of the calls before, the values that they
 * make; of: which of these an argument is, NULL: none. Operands with the same data are one. */
int td_point_add_call(struct td_point_walk *w, const struct td_call *call,
                      const struct td_point_way *way, const signed char *of, const int *made);
/* All calls are there: settles what is walked as one and how values lie. */
void td_point_close_walk(struct td_point_walk *w);

/* ---- pointwise_walk.c ---- */

struct td_point_running { /* of a closed walk: how it is split */
    int threads;
    int64_t n, grain;
    struct td_point_walk *walk;
};
/* Closes the walk, whose calls take so many operations. */
struct td_point_running td_point_ready(struct td_point_walk *w, double flops, int threads);
void td_point_run(void *running);
/* By its rows: the result's elements [begin, end). */
void td_point_run_rows(void *walk, int64_t begin, int64_t end);
/* Computes n elements of an op, of which at has each value's. */
void td_point_run_op(const struct td_point_op *op, int64_t n, char *const *at);
/* Where an operand's, or a result's, elements for the result's n from number begin on are, which
 * all are of one innermost row; or where rows are brief, of several: in memory, or laid out in the
 * tile. What is constant or made for other ops alone is in its tile. */
char *td_point_at(const struct td_point_walk *w, const struct td_point_value *v, int64_t begin,
                  int64_t n, char *tile);

/* ---- pointwise_blocks.c ---- */

/* In blocks of several rows, by w->code or its rows: of a walk with operands that are apart. */
void td_point_run_blocks(const struct td_point_walk *w, int threads, int64_t grain);

/* ---- pointwise_still.c ---- */

/* Which operand of a closed walk's one op of two is a single element for each innermost row, where
 * td_point_run_still takes it; -1: none is. */
int td_point_find_still(const struct td_point_walk *w);
/* Computes the walk by rows that have this operand in a register. */
void td_point_run_still(const struct td_point_walk *w, td_point_still_rows *rows, int threads,
                        int64_t grain);

/* ---- pointwise_code.c ---- */

/* Sets w->code of a closed walk of several calls where a generated loop computes what their rows
 * do, bit for bit but for NaN's. NULL; or why there is none, a text that stays. */
const char *td_point_generate(struct td_point_walk *w);
/* By w->code: the result's elements from begin on. */
void td_point_run_code(void *walk, int64_t begin, int64_t end);
/* By w->code: rows of n elements. at and row_step: where each value in memory begins, and elements
 * from a row of it to the next. */
void td_point_run_block(const struct td_point_walk *w, char *const *at, const int64_t *row_step,
                        int64_t n, int64_t rows);
/* Sums of rows of n elements, step apart from element `at` on, by the code of a walk that sums up.
 * False: they do not lie as it takes them. */
bool td_point_run_sums(const struct td_point_walk *w, int64_t at, int64_t n, int64_t rows,
                       int64_t step, float *to);

#endif
