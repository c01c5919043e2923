/* Creating, compiling and freeing plans. To compile a plan for inputs of given types and shapes, a
 * walk records the calls that depend on the inputs, without computing them (record.c), passes
 * rewrite them, and the remaining calls are bound and placed. This takes some microseconds for each
 * node, so it is done when such inputs first come, and already that call runs by the plan. */
#include "dispatch/passes/passes.h"
#include "kernels/trap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int copy_inputs(struct td_plan *plan, const struct td_tensor *inputs, int n, uint64_t fix)
{
    plan->n_inputs = n;
    plan->input = td_arena_zalloc(plan->arena, sizeof *plan->input * (size_t)(n + 1));
    plan->fixed = td_arena_zalloc(plan->arena, sizeof *plan->fixed * (size_t)(n + 1));
    if (!plan->input || !plan->fixed)
        return -ENOMEM;
    for (int i = 0; i < n; i++) {
        struct td_tensor *t = &plan->input[i];
        *t = inputs[i];
        t->data = NULL;
        t->weight = NULL;
        plan->fixed[i] = fix & td_input_bit(i) && td_input_is_small(t);
        plan->large |= td_input_is_small(t) ? 0 : td_input_bit(i);
        if (!plan->fixed[i])
            continue;
        t->data = td_arena_alloc(plan->arena, td_nbytes(t) + 1);
        if (!t->data)
            return -ENOMEM;
        memcpy(t->data, inputs[i].data, td_nbytes(t));
    }
    return 0;
}

static struct td_plan *create(struct td_model *model, int threads, int node, struct td_plan *root)
{
    struct td_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->of = model;
    plan->root = root ? root : plan;
    plan->by = plan;
    plan->threads = threads;
    plan->node = node;
    plan->traps = atomic_load(&td_traps_barred);
    plan->arena = td_plan_arena(plan);
    if (!plan->arena)
        td_plan_free(&plan);
    return plan;
}

struct td_plan *td_plan_create(struct td_model *model, const struct td_tensor *inputs,
                               const struct td_model_call *call, uint64_t fix)
{
    struct td_plan *plan = create(model, call->threads, call->node, NULL);
    if (plan && copy_inputs(plan, inputs, model->n_inputs, fix))
        td_plan_free(&plan);
    return plan;
}

struct td_plan *td_plan_create_after(struct td_plan *before, const void *values)
{
    size_t bytes = before->wanted.bytes;
    struct td_plan *plan = create(before->of, before->threads, before->node, before->root);
    if (!plan)
        return NULL;
    plan->n_inputs = before->n_inputs;
    plan->input = before->input;
    plan->fixed = before->fixed;
    plan->large = before->large;
    if (!(plan->values = td_arena_alloc(plan->arena, bytes)))
        td_plan_free(&plan);
    else
        memcpy(plan->values, values, bytes);
    return plan;
}

/* Frees all but its inputs' types and shapes. */
void td_plan_clear(struct td_plan *p)
{
    while (p->after) {
        struct td_plan *next = p->after->beside;
        td_plan_free(&p->after);
        p->after = next;
    }
    td_plan_unpin(p);
    for (int i = 0; i < p->n_held; i++) {
        struct td_block *block = p->held[i];
        p->root->constant_bytes -= block->bytes;
        block->holder = block->holder == p ? NULL : block->holder;
        if (!--block->refs)
            td_block_free(block);
    }
    for (int i = 0; i < p->n_steps; i++)
        td_step_release(&p->step[i].made);
    if (p->by == p)
        td_workspace_free(p->of, &p->workspace);
    for (int i = 0; i < p->n_more; i++)
        td_workspace_free(p->of, &p->more[i]);
    free(p->more);
    free(p->held);
    free(p->step);
    free(p->value);
    free(p->outer);
    if (p->counted)
        td_plan_give(p, p->counted);
    p->held = NULL;
    p->step = NULL;
    p->value = NULL;
    p->outer = NULL;
    p->more = NULL;
    p->workspace = NULL;
    p->n_more = 0;
    p->n_held = p->n_steps = p->n_values = p->n_outer = p->held_room = p->steps_room = 0;
    p->values_room = p->outer_room = p->n_outputs = p->n_taken = p->n_passes = 0;
    p->counted = 0;
}

void td_plan_free(struct td_plan **plan)
{
    struct td_plan *p = *plan;
    *plan = NULL;
    if (!p)
        return;
    td_plan_clear(p);
    td_arena_destroy(p->arena);
    free(p);
}

/* Charges the model's budget for the plan's struct and lists. */
static int count_lists(struct td_plan *plan)
{
    size_t bytes = sizeof *plan + sizeof *plan->step * (size_t)plan->steps_room +
                   sizeof *plan->value * (size_t)plan->values_room +
                   sizeof *plan->outer * (size_t)plan->outer_room +
                   sizeof *plan->held * (size_t)plan->held_room;
    int err = td_plan_charge(plan, bytes);
    plan->counted = err ? 0 : bytes;
    return err;
}

/* ---- compiling ---- */

/* Runs the passes, closes and pins the plan. If a call cannot be bound in the plan, it may still be
 * in the walk: then walk->why gets the reason, and no plan is made. */
static int close(struct td_walk *walk)
{
    struct td_plan *plan = walk->plan;
    int err = td_passes_run(plan->of, plan);
    if (!err && plan->root->until)
        return -ECANCELED;
    err = err ? err : td_plan_close(plan, walk->problem);
    if (err == -EINVAL || err == -ENOSYS) {
        snprintf(walk->why, TD_PLAN_WHY, "%.199s", walk->problem->text);
        return -ECANCELED;
    }
    return err ? err : td_plan_pin(plan->of, plan);
}

int td_path_add(struct td_path *path, struct td_plan *plan)
{
    if (!td_grow((void **)&path->plan, path->n, &path->room, sizeof(struct td_plan *)))
        return -ENOMEM;
    path->plan[path->n++] = plan;
    return 0;
}

int td_plan_finish(struct td_walk *walk)
{
    int err = td_plan_find_turn(walk);
    if (!err && walk->plan->by == walk->plan)
        err = close(walk);
    err = err ? err : count_lists(walk->plan);
    err = err ? err : td_path_add(walk->path, walk->plan);
    return err ? err : td_plan_execute(walk->plan, walk->inputs, &walk->figures, walk->problem);
}
