/* What the files of the reductions share: steps, folds and reductions by number, and the walk over
 * a tensor's kept and reduced dimensions. The walk is compiled once with base flags; the rows that
 * it calls are the level's own. */
#ifndef TD_KERNELS_REDUCE_H
#define TD_KERNELS_REDUCE_H

#include "kernels/dims.h"

enum td_fold {
#define TD_STEP(id, ...) TD_FOLD_##id,
#include "kernels/reduce/reduce.def"
    TD_FOLD_moments,
    TD_FOLD_exponents,
    TD_FOLD_argmax,
    TD_FOLD_argmin,
    TD_FOLDS
};

enum td_reduce {
#define TD_REDUCE(id, ...) TD_REDUCE_##id,
#include "kernels/reduce/reduce.def"
    TD_REDUCE_none
};

enum td_reduce_result {
    TD_REDUCE_IS_same,
    TD_REDUCE_IS_total,
    TD_REDUCE_IS_truth,
    TD_REDUCE_IS_count,
    TD_REDUCE_IS_place,
};

/* td_op.family of a reduction. */
struct td_reduced {
    enum td_reduce id[2]; /* of each result; the second may be TD_REDUCE_none */
    const char *args;     /* dim, keepdim and the parameter: a digit each, or -; its default */
};

/* Of a checked call: the reduced dimensions as bits; the parameter; what computes result k, and the
 * fold that it is made from. */
unsigned td_reduce_dims(const struct td_call *call);
double td_reduce_param(const struct td_call *call);
enum td_reduce td_reduce_of(const struct td_call *call, int k);
enum td_fold td_reduce_fold(enum td_reduce id);
enum td_reduce_result td_reduce_result(enum td_reduce id);

/* What is known of n elements: s and t of reduce.def, in double where the elements are real. */
union td_total {
    double f;
    int64_t i;
};

/* Totals of many elements of the type that the row computes in. along: of each of `rows` rows of n
 * elements that lie step apart. down: of each of n <= TD_REDUCE_COLUMNS columns, over rows that lie
 * step apart. t is for folds that have one. */
#define TD_REDUCE_COLUMNS 512
typedef void td_fold_row(const void *x, int64_t n, int64_t rows, int64_t step, double p,
                         union td_total *s, union td_total *t);

struct td_fold_rows {
    td_fold_row *along, *down;
};

/* n elements of another type into the one that rows compute in. */
typedef void td_fold_load(void *to, const void *from, int64_t n, enum td_dtype type);

/* How two pieces become one. */
enum td_join {
    TD_JOIN_add,
    TD_JOIN_mul,
    TD_JOIN_max,
    TD_JOIN_min,
    TD_JOIN_xor, /* of whole numbers alone */
    TD_JOIN_moments,
    TD_JOIN_exponents,
    TD_JOIN_argmax,
    TD_JOIN_argmin,
};

/* Totals of a piece of each of some results' reductions: n elements, from number `first` on. */
struct td_piece {
    union td_total *s, *t;
    int64_t first, n;
};

/* Joins the totals of count results over two pieces in the first: the second lies behind it, or
 * both have the same `first`, from which their places are counted. */
void td_join(enum td_fold fold, bool whole, int64_t count, struct td_piece *piece,
             const struct td_piece *next);

/* Writes results [at, at + count) of the call's result k from their totals over n elements. */
typedef void td_finish_results(const struct td_call *call, int k, int64_t at, int64_t count,
                               int64_t n, const union td_total *s, const union td_total *t);
td_finish_results td_finish;
/* A level's, of real elements alone, and of no places. */
td_finish_results TD_NAME(reduce_finish);

struct td_reduce_way {               /* a level's */
    const struct td_fold_rows *rows; /* TD_FOLDS of them */
    enum td_dtype type;              /* that they compute in */
    td_fold_load *load;              /* NULL: only elements of that type come */
    int64_t run;                     /* elements of a row that rows join in one total at a time */
    td_finish_results *finish;       /* of real elements' totals; NULL: td_finish */
};
/* Runs the call; splits big ones over the team. A kernel of the family calls this and does nothing
 * else: where call->threads is 0, td_fusion_make asks for the way, which is left in call->scratch,
 * and nothing runs. */
void td_reduce(const struct td_call *call, const struct td_reduce_way *way);

struct td_reduce_source { /* self's elements, which are computed when they are wanted, each once */
    /* n of them from number `at` on: in room, or where they lie for others as well. Any thread of
     * the team asks. */
    const void *(*compute)(void *arg, int64_t at, int64_t n, void *room);
    /* Sums of rows of n elements, step apart from number `at` on, by the rows' way to sum up at
     * most a run of theirs; what others read is where it lies. false: they are to be computed
     * instead. NULL: so are all. */
    bool (*sum)(void *arg, int64_t at, int64_t n, int64_t rows, int64_t step, float *to);
    void *arg;
    double flops; /* of all of them */
};
/* Whether td_reduce_computed takes the call: it has one result, each element of which is made of
 * elements that follow on each other; and where these take so many operations that all threads had
 * better have their share, there is one for each. */
bool td_reduce_takes(const struct td_call *call, double flops);
/* Runs the call with self's elements from the source, and with the same bits as td_reduce. */
void td_reduce_computed(const struct td_call *call, const struct td_reduce_way *way,
                        const struct td_reduce_source *source);
/* Bytes of scratch that it needs where self, the first argument, lies so. */
size_t td_reduce_scratch(const struct td_call *call, const struct td_tensor *self);

#endif
