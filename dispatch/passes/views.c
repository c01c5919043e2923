/* Removes steps that only move elements (slice, transpose, ...) if all users of their results can
 * read the argument's memory with strides. Otherwise the step stays, and makes one copy for all
 * users. */
#include "dispatch/call/own.h"
#include "dispatch/passes/passes.h"
#include "kernels/loops/fused.h"
#include "kernels/view.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define READERS 2 /* of what lies apart: for more, one copy costs less */

struct reader { /* a use of a value */
    int step, use;
    int next; /* the index of the value's next reader; -1: it is the last */
};

struct looking { /* the state of the pass; view and like are of the present step */
    struct td_plan *plan;
    struct td_binding *binding;
    struct reader *reader;
    int *first;                         /* by value: its first reader before the pass; -1: none */
    bool *is_output;                    /* by value */
    const struct td_plan_use *base;     /* the step's use of the tensor whose elements it moves */
    struct td_view view[TD_MAX_OUTS];   /* its results as views of that tensor */
    struct td_tensor like[TD_MAX_OUTS]; /* their types and shapes, with the views' strides */
};

/* Whether the step only moves elements (*moves); then finds its results as views. -ENOMEM. */
static int look_at(struct looking *l, const struct td_plan_step *step, bool *moves)
{
    const struct td_run *run = &l->binding->run;
    const struct td_call *call = &run->call;
    *moves = false;
    l->base = td_step_use(step, 0, -1);
    if (!step->handle || !td_is_move(step->handle->op) || !l->base)
        return 0;
    int err = td_binding_bind(l->binding, step);
    if (err || run->parts || run->n_casts)
        return err == -ENOMEM ? err : 0;
    *moves = true;
    for (int i = 0; i < step->n_outs && *moves; i++) {
        l->like[i] = call->out[i];
        l->like[i].stride = l->view[i].stride;
        *moves = td_view_of(call, i, &l->view[i]) && l->view[i].from == &call->arg[0].tensor &&
                 td_view_through(&l->view[i], &l->like[i], td_step_tensor(step, l->base));
    }
    return 0;
}

/* Converts a use of a result to a use (now, t) of the tensor that it is a view of; false: no
 * strides express that. stride: memory for t's strides. */
static bool see_through(const struct looking *l, const struct td_plan_step *step,
                        const struct td_plan_use *use, int result, struct td_plan_use *now,
                        struct td_tensor *t, int64_t *stride)
{
    const struct td_tensor *seen = td_step_tensor(step, use);
    int64_t size = (int64_t)td_dtype_size(seen->dtype);
    struct td_view view = {.offset = (int64_t)use->offset / size};
    if (!td_view_seen(&view, seen, &l->like[result]))
        return false;
    memcpy(stride, view.stride, sizeof view.stride);
    *t = *seen;
    t->stride = td_is_dense(seen, stride) ? NULL : stride;
    *now = *use;
    now->value = l->base->value;
    now->offset =
        (size_t)((int64_t)l->base->offset + (l->view[result].offset + view.offset) * size);
    return true;
}

/* Whether more than READERS read the step's results, or a reduction reads what the reader makes. */
static bool is_shared(const struct looking *l, const struct td_plan_step *step,
                      const struct td_plan_step *reader)
{
    bool reduced = false;
    int n = 0;
    for (int i = 0; i < step->n_outs; i++)
        for (int r = l->first[step->value + i]; r >= 0 && n <= READERS; r = l->reader[r].next)
            n++;
    for (int r = l->first[reader->value]; r >= 0; r = l->reader[r].next) {
        const struct td_handle *handle = l->plan->step[l->reader[r].step].handle;
        reduced = reduced || (handle && td_is_reduction(handle->op));
    }
    return n > READERS || reduced;
}

/* Why the reader would need a dense copy of the step's view t; NULL: it can read it with strides.
 */
static const char *object(struct looking *l, const struct td_plan_step *step,
                          const struct td_plan_step *reader, const struct td_plan_use *use,
                          const struct td_tensor *t)
{
    const struct td_impl *row = reader->handle->op->impls;
    struct td_tensor *place = td_step_tensor(reader, use), before = *place;
    struct td_run *run = &l->binding->run;
    size_t scratch;
    while (row->run && !row->strided)
        row++;
    if (!t->stride || !row->run)
        return t->stride ? "who reads it takes no strides" : NULL;
    if (td_is_pointwise(reader->handle->op) && !td_pointwise_takes(t))
        return "it lies in short runs, or far apart: a copy costs less";
    if (td_is_pointwise(reader->handle->op) && td_is_apart(t) && is_shared(l, step, reader))
        return "its elements are apart, and a copy serves several steps, or a reduction";
    *place = *t;
    bool taken = !td_binding_bind(l->binding, reader) && !td_run_select(run, &scratch);
    taken = taken && !run->parts && (!run->strided || td_run_takes_strides(run));
    td_run_release(run);
    *place = before;
    return taken ? NULL : "who reads it does not take these strides";
}

/* Copies the tensor's strides, which are a caller's, to the plan's memory; false: no memory. */
static bool keep_strides(struct td_plan *plan, struct td_tensor *t)
{
    const size_t bytes = TD_MAX_RANK * sizeof *t->stride;
    int64_t *kept = t->stride ? td_arena_alloc(plan->arena, bytes) : NULL;
    if (kept)
        t->stride = memcpy(kept, t->stride, bytes);
    return kept || !t->stride;
}

/* Whether a reader of the step's result can read the base tensor instead: NULL, or why not. change:
 * changes it to do so. */
static const char *ask(struct looking *l, const struct td_plan_step *from, int result,
                       const struct reader *r, bool change)
{
    struct td_plan_step *step = &l->plan->step[r->step];
    struct td_plan_use now;
    struct td_tensor t;
    int64_t stride[TD_MAX_RANK];
    l->plan->visits++;
    if (!see_through(l, step, &step->use[r->use], result, &now, &t, stride))
        return "who reads it sees it in a shape that no strides have";
    if (!change)
        return object(l, from, step, &now, &t);
    if (!keep_strides(l->plan, &t))
        return "there is no memory";
    *td_step_tensor(step, &step->use[r->use]) = t;
    step->use[r->use] = now;
    return NULL;
}

/* Calls ask for all readers of a step's results: the first reason why one cannot, or NULL. Readers
 * that are changed stay in the list of the value that they read before, and not of the base: the
 * step that makes the base has been passed already. */
static const char *each_reader(struct looking *l, const struct td_plan_step *step, bool change)
{
    const char *why = NULL;
    for (int i = 0; i < step->n_outs; i++)
        for (int r = l->first[step->value + i]; r >= 0 && !why; r = l->reader[r].next)
            if (l->plan->step[l->reader[r].step].handle)
                why = ask(l, step, i, &l->reader[r], change);
    return why;
}

static const char *refuse_outputs(const struct looking *l, const struct td_plan_step *step)
{
    for (int i = 0; i < step->n_outs; i++)
        if (l->is_output[step->value + i])
            return "it is a result of the model";
    return NULL;
}

static int find_readers(struct looking *l)
{
    const struct td_plan *plan = l->plan;
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++)
        n += plan->step[s].handle ? plan->step[s].n_uses : 0;
    l->reader = calloc((size_t)n + 1, sizeof *l->reader);
    l->first = malloc(((size_t)plan->n_values + 1) * sizeof *l->first);
    l->is_output = calloc((size_t)plan->n_values + 1, sizeof *l->is_output);
    if (!l->reader || !l->first || !l->is_output)
        return -ENOMEM;
    for (int i = 0; i < plan->n_values; i++)
        l->first[i] = -1;
    for (int s = plan->n_steps - 1; s >= 0; s--)
        for (int k = plan->step[s].n_uses - 1; plan->step[s].handle && k >= 0; k--) {
            int *first = &l->first[plan->step[s].use[k].value];
            l->reader[--n] = (struct reader){.step = s, .use = k, .next = *first};
            *first = n;
        }
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0)
            l->is_output[plan->output[i].value] = true;
    return 0;
}

int td_pass_views(struct td_model *model, struct td_plan *plan, struct td_model_pass *pass)
{
    (void)model;
    struct looking *l = calloc(1, sizeof *l);
    int err = l && (l->binding = td_binding_create(plan)) ? 0 : -ENOMEM;
    if (l)
        l->plan = plan;
    err = err ? err : find_readers(l);
    for (int s = 0; s < plan->n_steps && !err; s++) {
        struct td_plan_step *step = &plan->step[s];
        bool moves;
        err = look_at(l, step, &moves);
        if (err || !moves)
            continue;
        const char *why = refuse_outputs(l, step);
        why = why ? why : each_reader(l, step, false);
        if (why) {
            td_pass_refuse(pass, step, why);
            continue;
        }
        err = each_reader(l, step, true) ? -ENOMEM : 0;
        step->handle = NULL;
        pass->done++;
    }
    if (l) {
        td_binding_free(&l->binding);
        free(l->reader);
        free(l->first);
        free(l->is_output);
    }
    free(l);
    return err;
}
