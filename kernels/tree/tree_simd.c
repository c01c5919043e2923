/* tree_ensemble, fast form: several walks go on in turn, through one tree for some rows, or through
 * several trees for one row, so that each waits for memory while the others step, and no step is a
 * jump that depends on data. Sums are in doubles, tree after tree. */
#include "kernels/tree/tree.h"

#include <string.h>

enum {
    TREES_AT_ONCE = 12, /* of one row */
    ROWS_AT_ONCE = 16,  /* in one tree */
    ROWS_WORTH = 12,    /* fewer rows than this that are left over are taken one by one */
    ROWS = 64,          /* of a block at most */
    SUMS = 2048,        /* that it may have */
};

struct job {
    struct td_trees t;
    int64_t block; /* rows */
};

#define T float
#define NAME(what) what##_f32
#include "kernels/tree/tree_rows.def"
#undef T
#undef NAME
#define T double
#define NAME(what) what##_f64
#include "kernels/tree/tree_rows.def"

TD_KERNEL(tree)
{
    struct job job = {.t = td_trees_of(call)};
    int64_t most = SUMS / job.t.outputs, each = 1 + 32 * job.t.count;
    if (!td_numel(job.t.out))
        return;
    job.block = most < 1 ? 1 : most > ROWS ? ROWS : most;
    int64_t blocks = (job.t.rows + job.block - 1) / job.block;
    td_parallel(call->threads, blocks, 1 + 32768 / (each * job.block),
                job.t.x->dtype == TD_f32 ? blocks_f32 : blocks_f64, &job);
}
