/* From a settled call to its result: have the implementation chosen (select.c), convert what was
 * promoted, run. */
#include "dispatch/call/own.h"
#include "dispatch/step/own.h"
#include "kernels/weight.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* Rows for several types have one name. */
static bool has_name_of_another(const struct td_impl *rows, const struct td_impl *row)
{
    while (rows < row && (rows->isa != row->isa || strcmp(rows->name, row->name)))
        rows++;
    return rows < row;
}

static int no_such_row(struct td_run *run)
{
    char list[300] = "";
    for (const struct td_impl *i = run->rows; i->run; i++)
        if (!has_name_of_another(run->rows, i))
            snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s@%s", *list ? ", " : "",
                     i->name, td_isa_name(i->isa));
    const struct td_impl *named = NULL; /* best one that could run here */
    for (const struct td_impl *i = run->rows; i->run; i++)
        if (td_row_is_named(i, run->forced) &&
            (!named || (!td_impl_is_usable(named) && td_impl_is_usable(i))))
            named = i;
    if (named)
        return td_problem_set(&run->problem, EINVAL,
                              "kernel: '%.40s' cannot run this call: %s; %s has: %s", run->forced,
                              td_row_objection(&run->call, named, &run->prepared),
                              run->handle->full, list);
    return td_problem_set(&run->problem, EINVAL, "kernel: %s has no '%.40s'; it has: %s",
                          run->handle->full, run->forced, list);
}

/* What stands for the kernel of a call that is computed by its parts. */
static const struct td_impl composite = {.name = "composite", .isa = TD_ISA_default};

/* The same where parts are computed together, at a level. */
static const struct td_impl fused[TD_ISAS] = {
#define TD_ISA(id, ...) {.name = "fused", .isa = TD_ISA_##id},
#include "kernels/isa.def"
#undef TD_ISA
};

/* And where that is by generated loops. */
static const struct td_impl generated[TD_ISAS] = {
#define TD_ISA(id, ...) {.name = "jit", .isa = TD_ISA_##id},
#include "kernels/isa.def"
#undef TD_ISA
};

static bool is_converted(const struct td_run *run) /* itself, and its result's conversion */
{
    return run->parts->handle == run->handle;
}

/* Scratch for a converted argument: none where it is a form of a stored tensor, or is not read. */
static size_t cast_room(const struct td_run *run, int i)
{
    const struct td_tensor *to = &run->call.arg[run->cast[i].arg].tensor;
    return to->weight || !td_run_reads(run, run->cast[i].arg) ? 0 : td_room_of(td_nbytes(to));
}

bool td_run_is_meta(const struct td_run *run)
{
    while (run->parts) /* all go to one backend, whatever key the whole stopped at */
        run = run->parts;
    return !run->rows;
}

/* Stored tensors in the memory of the node that computes; not those that autocast converts. */
static void use_replicas(struct td_run *run)
{
    for (int i = 0; i < run->call.n_args; i++) {
        struct td_tensor *t = &run->call.arg[i].tensor;
        struct td_weight *w = run->call.arg[i].kind == TD_KIND_tensor ? td_weight_of(t) : NULL;
        bool converted = false;
        for (int k = 0; k < run->n_casts; k++)
            converted |= run->cast[k].arg == i;
        struct td_weight *here = w && !converted ? td_weight_on(w, run->node) : NULL;
        if (here) {
            t->data = td_weight_tensor(here)->data;
            t->weight = here;
        }
    }
}

void td_run_release(struct td_run *run)
{
    for (struct td_run *part = run->parts; part; part = part->next)
        td_run_release(part);
    td_prepared_release(&run->prepared);
    if (!run->lasting)
        td_step_release(&run->step);
}

/* Whether the step of an earlier selection is right for this one. */
static bool has_step(struct td_run *run)
{
    const struct td_step *step = run->step;
    run->lasting = run->lasting && !run->forced;
    return run->lasting && step && step->threads == run->call.threads && step->node == run->node;
}

static int select_row(struct td_run *run, size_t *scratch);

/* The level is the highest of all parts. The type is the one that all of them compute in, but for
 * conversions, which bring what is computed with into it; none where they differ. */
static void sum_up(struct td_run *run)
{
    const struct td_run *computes = NULL;
    run->isa = TD_ISA_default;
    run->compute_type = run->parts->compute_type;
    for (const struct td_run *part = run->parts; part; part = part->next) {
        run->isa = part->isa > run->isa ? part->isa : run->isa;
        if (!strcmp(part->handle->full, "cast"))
            continue;
        run->compute_type = !computes || part->compute_type == run->compute_type
                                ? part->compute_type
                                : TD_DTYPE_none;
        computes = part;
    }
}

static int select_parts(struct td_run *run, size_t *scratch)
{
    const struct td_impl *impl = run->parts->next ? &composite : NULL;
    for (struct td_run *part = run->parts; part; part = part->next) {
        part->call.threads = run->call.threads;
        part->node = run->node;
        if (run->names || part->handle == run->handle)
            part->forced = run->forced;
        bool through = td_parts_read_through(run, part);
        int err = select_row(part, scratch);
        if (!err && through && part->strided && !td_run_takes_strides(part)) {
            td_prepared_release(&part->prepared);
            td_parts_read_results(part);
            err = select_row(part, scratch);
        }
        if (err) {
            run->problem = part->problem;
            return err;
        }
    }
    td_parts_find_views(run);
    td_fuse_parts(run);
    for (struct td_run *part = run->parts; part; part = part->next)
        impl = part->with >= 0 ? &fused[part->isa] : impl;
    run->impl = is_converted(run) || !impl ? run->parts->impl : impl;
    sum_up(run);
    return 0;
}

static int select_row(struct td_run *run, size_t *scratch)
{
    if (run->node >= 0)
        use_replicas(run);
    if (run->parts && (!run->forced || is_converted(run) || run->names))
        return select_parts(run, scratch);
    if (!run->rows)
        return td_problem_set(&run->problem, EINVAL,
                              "kernel: %s is composite on %s: it has no '%.40s'", run->handle->full,
                              td_key_name(run->key), run->forced);
    const struct td_impl *impl = run->rows;
    run->call.prepared = &run->prepared;
    for (int i = 0; i < run->n_casts && !run->forced; i++)
        if (run->call.arg[run->cast[i].arg].tensor.weight && td_run_reads(run, run->cast[i].arg)) {
            int err = td_run_convert_stored(run, i);
            if (err == -EFAULT) /* its kernel has trapped, and has said so */
                return err;
            if (err)
                return td_problem_set(&run->problem, ENOMEM,
                                      "no memory for a stored tensor's type");
        }
    if (!run->forced) /* which may run rows, to measure them, on stored tensors */
        impl = td_rows_choose(impl, &run->call, &run->prepared);
    while (
        run->forced && impl->run &&
        (!td_row_is_named(impl, run->forced) || td_row_objection(&run->call, impl, &run->prepared)))
        impl++;
    if (!impl->run)
        return no_such_row(run);
    run->impl = impl;
    run->isa = td_row_level(&run->call, impl, &run->prepared);
    run->compute_type = td_row_dtype(&run->call);
    size_t own = td_call_is_nothing(&run->call) ? 0 : run->prepared.scratch;
    if (own > TD_SCRATCH_MOST)
        return td_problem_set(&run->problem, ENOMEM, "no memory for %zu bytes of scratch", own);
    *scratch = own ? td_room_of(own) : 0;
    for (int i = 0; i < run->n_casts; i++)
        *scratch += cast_room(run, i);
    return 0;
}

int td_run_select(struct td_run *run, size_t *scratch)
{
    if (has_step(run)) {
        *scratch = td_step_scratch(run->step);
        return 0;
    }
    td_run_release(run);
    td_step_release(&run->step);
    const struct td_stop *before = td_stop_obeyed;
    if (run->stop) /* it may wait while another thread measures kernels */
        td_stop_obey(run->stop);
    int err = select_row(run, scratch);
    if (!err && (run->parts || run->strided)) {
        err = run->options.alloc
                  ? td_step_make(&run->step, run, run->options.alloc, run->options.alloc_arg)
                  : -ENOMEM;
        if (err)
            td_problem_set(&run->problem, -err,
                           err == -EFAULT ? "%s: a kernel has failed that converts a stored tensor"
                                          : "no memory for the parts of %s",
                           run->handle->full);
        else
            *scratch = td_step_scratch(run->step);
    }
    td_stop_obey(before);
    if (err)
        td_run_release(run);
    return err;
}

bool td_run_may_overwrite(const struct td_run *run, int arg)
{
    const struct td_tensor *t = td_arg(&run->call, arg), *out = &run->call.out[0];
    bool may = !run->parts && t && !t->stride && run->impl->in_place >> arg & 1;
    for (int i = 0; i < run->n_casts; i++)
        may = may && run->cast[i].arg != arg;
    return may && td_dtype_size(t->dtype) == td_dtype_size(out->dtype) &&
           td_numel(t) == td_numel(out);
}

/* A part that consists of others took what these did. */
static void add_up(struct td_run *run)
{
    for (struct td_run *part = run->parts; part; part = part->next) {
        add_up(part);
        run->ns = part == run->parts ? part->ns : run->ns + part->ns;
    }
}

/* By the step that select has made. */
static int execute_step(struct td_run *run, void *scratch)
{
    const struct td_call *call = &run->call;
    for (int i = 0; i < call->n_args; i++) {
        if (call->arg[i].kind == TD_KIND_tensor)
            td_step_set_input(run->step, i, -1, td_run_input(run, i));
        for (int k = 0; call->arg[i].kind == TD_KIND_tensors && k < call->arg[i].tensors.n; k++)
            td_step_set_input(run->step, i, k, call->arg[i].tensors.v[k].data);
    }
    for (int i = 0; i < call->n_out; i++)
        td_step_set_result(run->step, i, call->out[i].data);
    int err = td_step_execute_timed(run->step, scratch, &run->problem);
    if (run->impl == &fused[run->impl->isa] || run->impl == &generated[run->impl->isa]) {
        run->why_rows = td_step_why_rows(run->step);
        run->impl = &(run->why_rows ? fused : generated)[run->impl->isa];
    }
    add_up(run);
    for (int i = 0; i < call->n_out && !err; i++)
        if (call->counted >> i & 1)
            call->out[i].shape[call->counted_dim] =
                td_step_result(run->step, i)->shape[call->counted_dim];
    return err;
}

int64_t td_run_execute(struct td_run *run, void *scratch)
{
    int64_t begin = td_clock_ns(), end;
    char *at = scratch;
    run->error = 0;
    const struct td_stop *before = td_stop_obeyed;
    if (run->stop) /* else whom the whole obeys, of which this may be a part */
        td_stop_obey(run->stop);
    if (run->step) {
        run->error = execute_step(run, scratch);
        td_stop_obey(before);
        end = td_clock_ns();
        run->ns = end - begin;
        return end;
    }
    for (int i = 0; i < run->n_casts && !run->error; i++) {
        if (!td_run_reads(run, run->cast[i].arg))
            continue;
        run->error = td_run_convert_input(run, i, at);
        at += cast_room(run, i);
    }
    run->call.scratch = at;
    unsigned teams = td_teams_opened();
    if (!run->error)
        run->error = td_impl_run(run->impl, &run->call);
    end = td_clock_ns();
    run->ns = end - begin;
    bool alone = !run->impl->library && td_teams_opened() == teams; /* too small to be split */
    if (!td_stopped() && !run->error && !td_call_is_nothing(&run->call))
        td_run_learn(run, run->ns, alone ? 1 : run->call.threads);
    td_stop_obey(before);
    return end;
}
