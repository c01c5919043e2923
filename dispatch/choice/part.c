/* A part of a call, on which rows are timed where the whole would take long: the same call of fewer
 * rows, of its first argument and of its results, and of fewer columns where few rows take long
 * too. Which row is faster hardly depends on how many there are, once they are many. */
#include "dispatch/choice/part.h"

#include <math.h>
#include <string.h>

#define WHOLE_FLOPS 6e7 /* a call of fewer, for each thread, is timed as it is; */
#define PART_FLOPS 2e7  /* a part has about so many: a tenth of a millisecond and more, */
#define LEAST_ROWS 64   /* and at least so many rows: of fewer the weights take as long to read; */
#define MANY_ROWS 256   /* so many where a second dimension is cut: Winograd's wants many */
#define LEAST_SIDE 8    /* no dimension is cut to fewer: nearly every window would touch an edge */

/* Has the operator's rule make the results of the part's arguments. False: it refuses them, or they
 * are not those of the call with other sizes. */
static bool has_results(struct td_part *part, const struct td_call *call)
{
    struct td_tensor made[TD_MAX_OUTS] = {{0}};
    struct td_call *c = &part->call;
    c->out = made;
    if (call->op->rule(c) || c->n_out != call->n_out || c->counted)
        return false;
    for (int i = 0; i < c->n_out; i++) {
        part->out[i] = call->out[i];
        memcpy(part->out[i].shape, made[i].shape, sizeof made[i].shape);
        if (made[i].rank != call->out[i].rank || made[i].dtype != call->out[i].dtype)
            return false;
    }
    c->out = part->out;
    return true;
}

/* The call with a first argument of other sizes. */
static bool make(struct td_part *part, const struct td_call *call, const int64_t shape[TD_MAX_RANK])
{
    part->call = *call;
    part->call.problem = NULL;
    part->call.arg = part->arg;
    memcpy(part->arg, call->arg, sizeof *part->arg * (size_t)call->n_args);
    memcpy(part->arg[0].tensor.shape, shape, sizeof part->arg[0].tensor.shape);
    part->arg[0].tensor.stride = NULL;
    if (!has_results(part, call))
        return false;
    part->times = call->op->flops(call) / call->op->flops(&part->call);
    return part->times < INFINITY;
}

/* To how few a dimension is cut: with the other dimensions, none of which is 0, there are so many
 * rows then. */
static int64_t least_of(const int64_t *shape, int rank, int d, int64_t rows)
{
    int64_t others = 1;
    for (int i = 0; i < rank - 1 && others < rows; i++)
        others *= i == d ? 1 : shape[i];
    int64_t least = (rows + others - 1) / others;
    return least < LEAST_SIDE ? LEAST_SIDE : least;
}

bool td_part_of(const struct td_call *call, struct td_part *part)
{
    const struct td_tensor *first = call->n_args ? td_arg(call, 0) : NULL;
    double whole =
        call->op->flops ? call->op->flops(call) / (call->threads > 1 ? call->threads : 1) : 0;
    double left = whole;
    int64_t shape[TD_MAX_RANK];
    if (!first || first->weight || !td_numel(first) || whole < WHOLE_FLOPS || call->counted)
        return false;
    memcpy(shape, first->shape, sizeof shape);
    for (int d = 0; d < first->rank - 1 && left >= WHOLE_FLOPS; d++) {
        int64_t rows = (int64_t)((double)shape[d] * PART_FLOPS / left),
                least = least_of(shape, first->rank, d, left < whole ? MANY_ROWS : LEAST_ROWS);
        rows = rows < least ? least : rows;
        if (2 * rows > shape[d])
            continue;
        shape[d] = rows;
        if (make(part, call, shape))
            left = whole / part->times;
        else
            shape[d] = first->shape[d];
    }
    return left * 1.5 < whole && make(part, call, shape);
}
