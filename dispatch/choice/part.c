/* A part of a call, on which rows are timed where the whole would take long: the same call of fewer
 * rows, of its first argument and of its results. Which row is faster hardly depends on how many
 * rows there are, once they are many. */
#include "dispatch/choice/part.h"

#include <math.h>
#include <string.h>

#define WHOLE_FLOPS 2e8 /* a call of fewer, for each thread, is timed as it is; */
#define PART_FLOPS 1e8  /* a part has about so many: half a millisecond and more, */
#define LEAST_ROWS 24   /* and at least so many rows: their number in blocks tells less then */

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

/* The call with so many rows in a dimension of its first argument. */
static bool cut(struct td_part *part, const struct td_call *call, int d, int64_t rows, double whole)
{
    part->call = *call;
    part->call.problem = NULL;
    part->call.arg = part->arg;
    memcpy(part->arg, call->arg, sizeof *part->arg * (size_t)call->n_args);
    part->arg[0].tensor.shape[d] = rows;
    part->arg[0].tensor.stride = NULL;
    if (!has_results(part, call))
        return false;
    part->times = whole / call->op->flops(&part->call);
    return part->times > 1.5 && part->times < INFINITY;
}

bool td_part_of(const struct td_call *call, struct td_part *part)
{
    const struct td_tensor *first = call->n_args ? td_arg(call, 0) : NULL;
    double whole =
        call->op->flops ? call->op->flops(call) / (call->threads > 1 ? call->threads : 1) : 0;
    if (!first || first->weight || whole < WHOLE_FLOPS || call->counted)
        return false;
    for (int d = 0; d < first->rank - 1; d++) {
        int64_t rows = (int64_t)((double)first->shape[d] * PART_FLOPS / whole);
        rows = rows < LEAST_ROWS ? LEAST_ROWS : rows;
        if (2 * rows <= first->shape[d] && cut(part, call, d, rows, call->op->flops(call)))
            return true;
    }
    return false;
}
