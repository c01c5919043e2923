/* The workspaces of a model's plans. Idle plans share them: of the many plans, one for each set of
 * input shapes, at most as many run at a time as there are workers. A run takes an idle workspace,
 * the last used first, because its pages are in the caches, and gives it back when its results are
 * freed, unless other plans follow the plan (model/cut.c). */
#include "dispatch/plan/plan.h"

#include <stdlib.h>

#define PADDING 64 /* bytes that may be read beyond the end */

static size_t size_of(size_t bytes)
{
    return (sizeof(struct td_workspace) + bytes + PADDING + 63) & ~(size_t)63;
}

static void destroy(struct td_model *model, struct td_workspace *workspace)
{
    td_program_give(model, size_of(workspace->bytes));
    free(workspace);
}

static struct td_workspace *create(struct td_model *model, size_t bytes)
{
    if (bytes > (size_t)1 << 47 || td_program_take(model, size_of(bytes)))
        return NULL;
    struct td_workspace *workspace = aligned_alloc(64, size_of(bytes));
    if (!workspace)
        td_program_give(model, size_of(bytes));
    else
        workspace->bytes = bytes;
    return workspace;
}

static struct td_workspace *pop(struct td_model *model)
{
    pthread_mutex_lock(&model->lock_);
    struct td_workspace *workspace = model->idle_;
    if (workspace)
        model->idle_ = workspace->next;
    pthread_mutex_unlock(&model->lock_);
    return workspace;
}

/* Frees an idle one that is too small, so that there are never more than have been in use at a
 * time. */
struct td_workspace *td_workspace_take(struct td_model *model, size_t bytes)
{
    struct td_workspace *workspace = pop(model);
    if (workspace && workspace->bytes >= bytes)
        return workspace;
    if (workspace)
        destroy(model, workspace);
    return create(model, bytes);
}

void td_workspace_leave(struct td_model *model, struct td_workspace **workspace)
{
    struct td_workspace *left = *workspace;
    *workspace = NULL;
    if (!left)
        return;
    pthread_mutex_lock(&model->lock_);
    left->next = model->idle_;
    model->idle_ = left;
    pthread_mutex_unlock(&model->lock_);
}

void td_workspace_free(struct td_model *model, struct td_workspace **workspace)
{
    if (*workspace)
        destroy(model, *workspace);
    *workspace = NULL;
}

void td_workspaces_free(struct td_model *model)
{
    for (struct td_workspace *workspace; (workspace = pop(model));)
        destroy(model, workspace);
}

/* ---- other memory of plans ---- */

int td_plan_charge(struct td_plan *plan, size_t bytes)
{
    int err = td_program_take(plan->of, bytes);
    plan->root->held_bytes += err ? 0 : bytes;
    return err;
}

void td_plan_give(struct td_plan *plan, size_t bytes)
{
    plan->root->held_bytes -= bytes;
    td_program_give(plan->of, bytes);
}

static int charge(void *plan, size_t bytes)
{
    return td_plan_charge(plan, bytes);
}

static void give(void *plan, size_t bytes)
{
    td_plan_give(plan, bytes);
}

struct td_arena *td_plan_arena(struct td_plan *plan)
{
    return td_arena_create_in(&(struct td_arena_room){charge, give, plan});
}
