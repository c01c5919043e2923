/* Loops whose condition depends on computed values. Each turn becomes a plan of its own
 * (model/cut.c), and most turns make the same calls. This file finds such turns: the calls that a
 * plan has recorded are hashed, and a plan whose hash equals that of an earlier plan on the path
 * shares the earlier plan's bound steps, with its own inputs. It needs no passes, no binding and no
 * packed weights of its own. Its values lie in a workspace of the earlier plan whose former values
 * nobody reads any more, or in a new workspace.
 *
 * Two plans are alike when they have the same calls with the same arguments and the same constants;
 * a constant is compared by its address, a small one by its elements. A tensor that changes from
 * turn to turn (td_walk_turn) is an input of the plan, not a constant. */
#include "dispatch/choice/hash.h"
#include "dispatch/plan/plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SMALL 1024 /* bytes, at most, of a constant that is compared by its elements */
#define BACK 16    /* plans at the end of the path that are compared with */

/* ---- the hash of a recorded plan: two hashes with different seeds, 128 bits, so that different
 * plans never have the same one by chance ---- */

static void add(uint64_t *h, uint64_t x)
{
    h[0] = td_hash(h[0], x);
    h[1] = td_hash(h[1], ~x);
}

static void add_type(uint64_t *h, const struct td_tensor *t)
{
    add(h, (uint64_t)t->dtype << 8 | (uint64_t)t->rank);
    for (int d = 0; d < t->rank; d++)
        add(h, (uint64_t)t->shape[d]);
    for (int d = 0; d < t->rank && t->stride; d++)
        add(h, (uint64_t)t->stride[d]);
}

static void add_constant(uint64_t *h, const struct td_tensor *t)
{
    const unsigned char *data = t->data;
    size_t bytes = td_nbytes(t);
    add_type(h, t);
    if (bytes > SMALL || t->weight || t->stride || !data) {
        add(h, (uintptr_t)data);
        return;
    }
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word = 0;
        memcpy(&word, data + i, bytes - i < 8 ? bytes - i : 8);
        add(h, word);
    }
}

static void add_tensor(uint64_t *h, const struct td_plan_step *step, int arg, int element,
                       const struct td_tensor *t)
{
    const struct td_plan_use *use = td_step_use(step, arg, element);
    if (!use)
        return add_constant(h, t);
    add_type(h, t);
    add(h, (uint64_t)use->value);
    add(h, use->offset);
}

static void add_step(uint64_t *h, const struct td_plan_step *step)
{
    add(h, (uintptr_t)step->handle);
    add(h, (uintptr_t)step->node);
    add(h, (uint64_t)step->in_place << 32 | (uint64_t)step->n_args);
    for (int i = 0; i < step->n_args; i++) {
        const struct td_named *arg = &step->arg[i];
        const struct td_value *v = &arg->value;
        for (const char *c = arg->name; c && *c; c++)
            add(h, (uint64_t)*c);
        add(h, (uint64_t)v->kind << 32 | (v->kind == TD_KIND_tensors ? (uint64_t)v->tensors.n : 0));
        if (v->kind == TD_KIND_tensor)
            add_tensor(h, step, i, -1, &v->tensor);
        for (int k = 0; v->kind == TD_KIND_tensors && k < v->tensors.n; k++)
            add_tensor(h, step, i, k, &v->tensors.v[k]);
        if (v->kind == TD_KIND_tensor || v->kind == TD_KIND_tensors)
            continue;
        h[0] = td_hash_value(h[0], v);
        h[1] = td_hash_value(h[1], v);
    }
}

static void find_likeness(struct td_plan *plan)
{
    uint64_t *h = plan->likeness;
    h[0] = (uint64_t)plan->n_steps << 32 | (uint64_t)plan->n_values;
    h[1] = ~h[0];
    for (int s = 0; s < plan->n_steps; s++)
        add_step(h, &plan->step[s]);
    for (int i = 0; i < plan->n_values; i++) {
        const struct td_plan_value *value = &plan->value[i];
        add_type(h, &value->like);
        add(h, (uint64_t)(int64_t)value->step);
        add(h, (uint64_t)value->result);
    }
    add(h, (uint64_t)plan->n_outputs);
    for (int i = 0; i < plan->n_outputs; i++) {
        const struct td_plan_output *output = &plan->output[i];
        add(h, (uint64_t)(int64_t)output->value);
        add(h, output->offset);
        if (output->value < 0)
            add_constant(h, &output->tensor);
        else
            add_type(h, &output->tensor);
    }
}

static struct td_plan *find_alike(const struct td_path *path, const struct td_plan *plan)
{
    for (int k = path->n - 1; k > 0 && k >= path->n - BACK; k--) {
        struct td_plan *by = path->plan[k]->by;
        if (by->likeness[0] == plan->likeness[0] && by->likeness[1] == plan->likeness[1])
            return by;
    }
    return NULL;
}

/* ---- the workspace ---- */

/* Whether values in run's workspace are still needed: the walk's plan reads one, one says which
 * plan comes next, or the walk still holds one. run: the last plan that used the workspace. */
static bool is_wanted(const struct td_walk *walk, const struct td_plan *run)
{
    const struct td_plan *plan = walk->plan;
    bool so = plan->wanted.of && plan->wanted.of->workspace == run->workspace;
    for (int i = 0; i < plan->n_outer && !so; i++)
        so = plan->outer[i].of && plan->outer[i].of->workspace == run->workspace;
    for (int i = 0; i < run->n_outputs && !so; i++)
        so = walk->recorded[run->number[i]].block;
    return so;
}

/* A workspace of an earlier run of the steps whose values nobody needs; NULL: there is none. Only
 * the last run in each workspace matters, since its own values replaced those before. */
static struct td_workspace *find_left(const struct td_walk *walk, const struct td_plan *by)
{
    const struct td_path *path = walk->path;
    const struct td_workspace *seen[BACK];
    int n = 0;
    for (int k = path->n - 1; k > 0 && k >= path->n - BACK; k--) {
        const struct td_plan *run = path->plan[k];
        bool later = false;
        for (int i = 0; i < n; i++)
            later |= seen[i] == run->workspace;
        seen[n++] = run->workspace;
        if (run->by == by && !later && !is_wanted(walk, run))
            return run->workspace;
    }
    return NULL;
}

static struct td_workspace *take_another(struct td_plan *by)
{
    struct td_workspace **more = realloc(by->more, sizeof(*more) * (size_t)(by->n_more + 1));
    if (!more)
        return NULL;
    by->more = more;
    more[by->n_more] = td_workspace_take(by->of, by->bytes + by->scratch);
    return more[by->n_more] ? more[by->n_more++] : NULL;
}

/* ---- sharing steps ---- */

/* Makes the plan share the steps of by: keeps its outputs, its outer values, and plan->values,
 * which have so many bytes; everything else that was recorded is freed. */
static int give_up_steps(struct td_plan *plan, struct td_plan *by, size_t bytes)
{
    struct td_arena *small = td_plan_arena(plan), *large = plan->arena;
    size_t n = (size_t)plan->n_outputs;
    struct td_plan_output *output = small ? td_arena_alloc(small, sizeof *output * (n + 1)) : NULL;
    int *number = output ? td_arena_alloc(small, sizeof *number * (n + 1)) : NULL;
    void *values = number ? td_arena_alloc(small, bytes + 1) : NULL;
    struct td_plan_outer *outer = realloc(plan->outer, sizeof *outer * ((size_t)plan->n_outer + 1));
    if (outer) {
        plan->outer = outer;
        plan->outer_room = plan->n_outer + 1;
    }
    if (!values) {
        td_arena_destroy(small);
        return -ENOMEM;
    }
    plan->output = memcpy(output, by->output, sizeof *output * n);
    plan->number = plan->number ? memcpy(number, plan->number, sizeof *number * n) : NULL;
    plan->values = memcpy(values, plan->values, bytes);
    free(plan->step);
    free(plan->value);
    plan->step = NULL;
    plan->value = NULL;
    plan->n_steps = plan->steps_room = plan->n_values = plan->values_room = 0;
    plan->arena = small;
    plan->observed = true;
    plan->by = by;
    td_arena_destroy(large);
    return 0;
}

int td_plan_find_turn(struct td_walk *walk)
{
    struct td_plan *plan = walk->plan;
    if (!walk->path->n)
        return 0;
    find_likeness(plan);
    struct td_plan *by = find_alike(walk->path, plan);
    if (!by)
        return 0;
    struct td_workspace *workspace = find_left(walk, by);
    workspace = workspace ? workspace : take_another(by);
    const struct td_plan *before = walk->path->plan[walk->path->n - 1];
    int err = workspace ? give_up_steps(plan, by, before->wanted.bytes) : -ENOMEM;
    if (!err)
        plan->workspace = workspace;
    return err;
}
