/* Closing and running plans. Closing binds the recorded steps, and places the values in one
 * workspace (place.c); a run is then a loop over the steps. */
#include "dispatch/plan/plan.h"
#include "dispatch/step/own.h"
#include "kernels/loops/fused.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- closing ---- */

struct td_binding *td_binding_create(struct td_plan *plan)
{
    struct td_binding *b = calloc(1, sizeof *b);
    if (b)
        b->plan = plan;
    return b;
}

void td_binding_free(struct td_binding **binding)
{
    if (*binding)
        td_arena_destroy((*binding)->once);
    free(*binding);
    *binding = NULL;
}

static int make_step(struct td_binding *b, struct td_plan_step *step)
{
    struct td_plan *plan = b->plan;
    size_t scratch;
    int err = td_run_select(&b->run, &scratch);
    if (err)
        return err;
    step->kernel = b->run.impl->name;
    step->isa = b->run.isa;
    step->compute_type = b->run.compute_type;
    step->alone = !b->run.parts && !b->run.n_casts && !b->run.strided;
    step->overwrites = 0;
    for (int i = 0; i < b->run.call.n_args; i++)
        step->overwrites |= (unsigned)td_run_may_overwrite(&b->run, i) << i;
    err = td_step_make(&step->made, &b->run, td_alloc_in_arena, plan->arena);
    td_run_release(&b->run);
    if (!err && td_step_scratch(step->made) > plan->scratch)
        plan->scratch = td_step_scratch(step->made);
    return err;
}

int td_binding_bind(struct td_binding *b, const struct td_plan_step *step)
{
    const struct td_schema *schema = &step->handle->schema;
    const char *underscore = step->in_place ? "_" : "", *dot = *schema->overload ? "." : "";
    char name[2 * TD_NAME_SIZE + 1];
    b->once = b->once ? td_arena_reset(b->once) : td_arena_create();
    if (!b->once)
        return td_problem_set(&b->run.problem, ENOMEM, "no memory for the model's plan");
    struct td_options options = {.alloc = td_alloc_in_arena, .alloc_arg = b->once};
    snprintf(name, sizeof name, "%s%s%s%s", schema->name, underscore, dot, schema->overload);
    int err = td_run_bind(&b->run, name, step->arg, step->n_args, &options);
    b->run.call.threads = b->plan->threads;
    b->run.node = b->plan->node;
    return err;
}

static int bind_steps(struct td_plan *plan, struct td_problem *problem)
{
    struct td_binding *b = td_binding_create(plan);
    int err = b ? 0 : td_problem_set(problem, ENOMEM, "no memory for the model's plan");
    for (int s = 0; s < plan->n_steps && !err; s++) {
        struct td_plan_step *step = &plan->step[s];
        if (td_stopped()) {
            err = td_problem_set(problem, ETIMEDOUT, "the model was stopped");
            break;
        }
        err = step->handle ? td_binding_bind(b, step) : 0;
        err = err || !step->handle ? err : make_step(b, step);
        if (err)
            td_problem_set(problem, -err, "a call cannot be bound: node '%.60s' (%.40s): %.80s",
                           step->node, step->handle->full, b->run.problem.text);
    }
    td_binding_free(&b);
    return err;
}

static void point(const struct td_plan_step *step, const struct td_plan_use *use, void *data)
{
    td_step_set_input(step->made, td_plan_argument(step, use->arg), use->element, data);
}

/* The base address of values before the first run, when there is no workspace: it is never
 * accessed, but the values have distinct addresses already. */
#define NOWHERE ((unsigned char *)((uintptr_t)1 << 52))

static void point_steps(struct td_plan *plan, unsigned char *memory)
{
    plan->memory = memory;
    for (int s = 0; s < plan->n_steps; s++) {
        struct td_plan_step *step = &plan->step[s];
        for (int i = 0; step->handle && i < step->n_outs; i++) {
            const struct td_plan_value *value = &plan->value[step->value + i];
            td_step_set_result(step->made, i, value->inside ? NULL : memory + value->at);
        }
        for (int k = 0; step->handle && k < step->n_uses; k++) {
            const struct td_plan_value *value = &plan->value[step->use[k].value];
            if (value->step >= 0 && !value->inside)
                point(step, &step->use[k], memory + value->at + step->use[k].offset);
        }
    }
}

/* Whether a value's data are known and the same in each run: only the turns of a loop share steps
 * and differ in them. */
static bool is_settled(const struct td_plan *plan, const struct td_plan_value *value)
{
    int i = value->result - plan->n_inputs;
    return plan == plan->root && i >= 0 && !plan->outer[i].of;
}

/* Lists the uses of inputs and outer values, so that a run need not search for them. Those whose
 * data are settled get them once. */
static int find_taken(struct td_plan *plan)
{
    int n = 0;
    for (int s = 0; s < plan->n_steps; s++)
        n += plan->step[s].handle ? plan->step[s].n_uses : 0;
    plan->taken = td_arena_alloc(plan->arena, sizeof *plan->taken * (size_t)(n + 1));
    for (int s = 0; s < plan->n_steps && plan->taken; s++)
        for (int k = 0; plan->step[s].handle && k < plan->step[s].n_uses; k++) {
            const struct td_plan_use *use = &plan->step[s].use[k];
            const struct td_plan_value *value = &plan->value[use->value];
            if (value->step >= 0)
                continue;
            if (is_settled(plan, value))
                point(&plan->step[s], use,
                      (char *)plan->outer[value->result - plan->n_inputs].data + use->offset);
            else
                plan->taken[plan->n_taken++] = (struct td_plan_taken){.step = s, .use = use};
        }
    return plan->taken ? 0 : -ENOMEM;
}

/* The address of a value, of plan->by, when the plan runs on these inputs. */
static char *data_of(const struct td_plan *plan, int value, const struct td_tensor *inputs)
{
    const struct td_plan_value *v = &plan->by->value[value];
    if (v->step >= 0)
        return (char *)plan->by->memory + v->at;
    if (v->result < plan->n_inputs)
        return inputs[v->result].data;
    const struct td_plan_outer *outer = &plan->outer[v->result - plan->n_inputs];
    return outer->of ? outer->of->output[outer->output].tensor.data : outer->data;
}

/* Sets the addresses of inputs and outer values, which differ from run to run. */
static void point_to_inputs(const struct td_plan *plan, const struct td_tensor *inputs)
{
    const struct td_plan *by = plan->by;
    for (int i = 0; i < by->n_taken; i++) {
        const struct td_plan_taken *t = &by->taken[i];
        point(&by->step[t->step], t->use, data_of(plan, t->use->value, inputs) + t->use->offset);
    }
}

/* Makes the fused loops of all groups. Inputs get unique addresses for this, which are only
 * compared. */
static int fuse(struct td_plan *plan)
{
    struct td_tensor *apart = calloc((size_t)plan->n_inputs + 1, sizeof *apart);
    uintptr_t at = 64;
    int err = apart ? 0 : -ENOMEM;
    for (int i = 0; i < plan->n_inputs && !err; i++) {
        apart[i].data = (void *)at;
        at += td_nbytes(&plan->input[i]) + 64;
    }
    if (!err)
        point_to_inputs(plan, apart);
    for (int s = 0; s < plan->n_steps && !err; s++)
        if (plan->step[s].handle && plan->step[s].with == s)
            err = td_plan_fuse(plan, s);
    free(apart);
    return err;
}

int td_plan_close(struct td_plan *plan, struct td_problem *problem)
{
    int err = bind_steps(plan, problem);
    if (err)
        return err;
    td_plan_group(plan);
    if (td_plan_place(plan) || find_taken(plan))
        return td_problem_set(problem, ENOMEM, "no memory for the model's plan");
    point_steps(plan, NOWHERE);
    return fuse(plan) ? td_problem_set(problem, ENOMEM, "no memory for the model's plan") : 0;
}

/* ---- running ---- */

#define AHEAD 3      /* steps whose memory is fetched before they run */
#define FETCHED 1024 /* bytes of a step, which has some hundred for each of its tensors */

/* Has a step's memory read, and its struct for the next time. Of a model with many plans it has
 * left the caches since the plan ran last, and a kernel that takes half a microsecond would wait as
 * long for it. Inlined, because gcc leaves out calls of functions that only do this. */
static inline __attribute__((always_inline)) void fetch(const struct td_plan *plan, int s)
{
    const char *at = s >= 0 && s < plan->n_steps ? (const char *)plan->step[s].made : NULL;
    const char *next = s + AHEAD < plan->n_steps ? (const char *)&plan->step[s + AHEAD] : NULL;
    for (size_t i = 0; next && i < sizeof *plan->step; i += 64)
        __builtin_prefetch(next + i);
    for (int i = 0; at && i < FETCHED; i += 64)
        __builtin_prefetch(at + i);
}

static int run_step(const struct td_plan *plan, int s, struct td_problem *problem)
{
    struct td_plan_step *step = &plan->step[s];
    struct td_problem why = {0};
    int err = 0;
    td_weight_forget();
    if (step->with == s) {
        td_step_set_scratch(step->made, plan->memory + plan->bytes); /* a reduction's */
        err = td_fusion_run(step->fusion, &why);
    } else
        err = td_step_execute(step->made, plan->memory + plan->bytes, &why);
    step->taken = td_weight_taken();
    if (td_stopped())
        return td_problem_set(problem, ETIMEDOUT, "the model was stopped");
    return err ? td_problem_set(problem, -err, "node '%.100s': %s: %.400s", step->node,
                                step->handle->full, why.text)
               : 0;
}

/* Runs all steps in order. is_first: this is the first or only turn of a loop; step->ns sums up the
 * time of all turns. */
static int run_steps(struct td_plan *plan, bool is_first, struct td_model_figures *figures,
                     struct td_problem *problem)
{
    int64_t begin = td_clock_ns(), last = begin;
    int err = 0;
    for (int s = 0; s < plan->n_steps && !err; s++) {
        struct td_plan_step *step = &plan->step[s];
        fetch(plan, s + AHEAD);
        if (!step->handle)
            continue;
        td_figures_count(figures, step->isa, step->compute_type);
        if (step->with >= 0 && step->with != s)
            continue; /* the group's last step runs all of it, and has its time */
        err = run_step(plan, s, problem);
        int64_t now = td_clock_ns();
        int64_t before = is_first ? 0 : atomic_load_explicit(&step->ns, memory_order_relaxed);
        atomic_store_explicit(&step->ns, before + now - last, memory_order_relaxed);
        last = now;
        if (plan->threads > 1 && !err && td_team_is_crowded())
            err = -EAGAIN;
    }
    figures->kernel_ns += last - begin;
    return err;
}

int td_plan_execute(struct td_plan *plan, const struct td_tensor *inputs,
                    struct td_model_figures *figures, struct td_problem *problem)
{
    struct td_plan *by = plan->by;
    for (int s = -AHEAD; s < AHEAD; s++)
        fetch(by, s);
    if (!plan->workspace &&
        !(plan->workspace = td_workspace_take(plan->of, plan->bytes + plan->scratch)))
        return td_problem_set(problem, ENOMEM, "no memory for the model's run");
    if (by->memory != plan->workspace->data)
        point_steps(by, plan->workspace->data);
    figures->most_bytes += by->bytes + by->scratch;
    point_to_inputs(plan, inputs);
    int turns = plan == by ? 0 : atomic_load_explicit(&by->turns, memory_order_relaxed);
    atomic_store_explicit(&by->turns, turns + 1, memory_order_relaxed);
    int err = run_steps(by, plan == by, figures, problem);
    for (int i = 0; i < plan->n_outputs; i++)
        if (plan->output[i].value >= 0)
            plan->output[i].tensor.data =
                data_of(plan, plan->output[i].value, inputs) + plan->output[i].offset;
    if (!err && !plan->observed)
        td_plan_unpin_taken(plan);
    return err;
}
