/* Parts of a run that only move elements, a permute before an add: who reads the result of one may
 * read the tensor that it is a view of instead, with strides, where its row takes those. Then the
 * part has nothing to do, unless others read its result as it is. dispatch/passes/views.c does so
 * for the steps of a plan. */
#include "dispatch/call/own.h"
#include "dispatch/step/own.h"

#include "kernels/loops/fused.h"
#include "kernels/view.h"

#include <string.h>

/* Whether the selected part does nothing but move elements of its first argument, which it leaves
 * where they are. */
static bool moves(const struct td_run *part)
{
    return td_is_move(part->call.op) && !part->parts && !part->n_casts && !part->forced &&
           !part->call.op->check && part->call.arg[0].kind == TD_KIND_tensor &&
           (!part->strided || td_run_takes_strides(part));
}

/* Result i of the part as a view of its first argument. */
static bool view_of(const struct td_run *part, int i, struct td_view *view)
{
    return td_view_of(&part->call, i, view) && view->from == &part->call.arg[0].tensor;
}

/* Whether a row of the reader's might read a tensor with these strides well. */
static bool may_take(const struct td_run *part, const struct td_tensor *t)
{
    const struct td_impl *row = part->rows;
    while (row->run && !row->strided)
        row++;
    return row->run && (!td_is_pointwise(part->call.op) || td_pointwise_takes(t));
}

#define READERS 2

/* Whether a copy would serve more than READERS, or the reader's result is reduced at once, which
 * needs its elements row by row: then the reader had better read a copy than what lies apart. */
static bool is_shared(const struct td_run *run, const struct td_run *of,
                      const struct td_run *reader)
{
    int readers = 0;
    bool reduced = false;
    for (const struct td_run *part = run->parts; part; part = part->next)
        for (int i = 0; i < part->n_feeds; i++) {
            readers += part->feed[i].of == of;
            reduced |= part->feed[i].of == reader && td_is_reduction(part->call.op);
        }
    return td_is_pointwise(reader->call.op) && (readers > READERS || reduced);
}

/* Feed i of the part; false: it reads the result. */
static bool read_through(struct td_run *run, struct td_run *part, int i)
{
    const size_t bytes = (size_t)part->n_feeds * sizeof *part->seen;
    const struct td_run *of = part->feed[i].of;
    struct td_value *arg = &part->call.arg[part->feed[i].arg];
    struct td_view view, seen = {0};
    struct td_tensor like, strided = arg->tensor;
    if (!of || arg->kind != TD_KIND_tensor || !moves(of) || !td_numel(&arg->tensor))
        return false;
    const struct td_tensor *base = &of->call.arg[0].tensor;
    like = of->call.out[part->feed[i].result];
    like.stride = view.stride;
    if (!view_of(of, part->feed[i].result, &view) || !td_view_through(&view, &like, base) ||
        !td_view_seen(&seen, &arg->tensor, &like))
        return false;
    strided.stride = seen.stride;
    bool dense = td_is_dense(&strided, seen.stride);
    if (!dense &&
        (!may_take(part, &strided) || (td_is_apart(&strided) && is_shared(run, of, part))))
        return false;
    if (!part->seen && (part->seen = run->options.alloc(run->options.alloc_arg, bytes)))
        memset(part->seen, 0, bytes);
    if (!part->seen)
        return false;
    struct td_seen *to = &part->seen[i];
    memcpy(to->stride, seen.stride, sizeof seen.stride);
    to->through = true;
    to->at = (size_t)(view.offset + seen.offset) * td_dtype_size(strided.dtype);
    arg->tensor.stride = dense ? NULL : to->stride;
    return true;
}

bool td_parts_read_through(struct td_run *run, struct td_run *part)
{
    bool any = false;
    td_parts_read_results(part);
    for (int i = 0; i < part->n_feeds; i++)
        if (!part->parts && part->rows && !part->n_casts && !part->forced &&
            read_through(run, part, i))
            any = true;
    part->strided = td_call_count_strides(&part->call);
    return any;
}

void td_parts_read_results(struct td_run *part)
{
    for (int i = 0; i < part->n_feeds && part->seen; i++)
        if (part->seen[i].through) {
            part->call.arg[part->feed[i].arg].tensor.stride = NULL;
            part->seen[i].through = false;
        }
    part->strided = td_call_count_strides(&part->call);
}

/* Whether results that the whole does not give lie without gaps in the argument: readers need no
 * strides. */
static bool lies_there(const struct td_run *part)
{
    bool lies = !part->strided;
    for (int i = 0; i < part->call.n_out && lies; i++) {
        struct td_view view;
        lies = view_of(part, i, &view) && td_is_dense(&part->call.out[i], view.stride);
    }
    return lies;
}

void td_parts_find_views(struct td_run *run)
{
    for (struct td_run *part = run->parts; part; part = part->next) {
        struct td_view view;
        part->view = moves(part);
        for (int i = 0; i < part->call.n_out; i++)
            part->view = part->view && !part->gives[i] && view_of(part, i, &view);
    }
    for (struct td_run *part = run->parts; part; part = part->next)
        for (int i = 0; i < part->n_feeds; i++) {
            struct td_run *of = part->feed[i].of;
            if (of && of->view && !(part->seen && part->seen[i].through))
                of->view = lies_there(of);
        }
}
