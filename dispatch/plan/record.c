/* Recording. While a program is walked, each call that depends on the inputs becomes a step of a
 * plan: its arguments as they were given, and which of them are results of steps. The operator's
 * rule gives its results' types and shapes; nothing is computed. So the plan ends where the walk
 * has to know an element of a result. */
#include "dispatch/plan/plan.h"
#include "kernels/trap.h"
#include "kernels/view.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the inputs that a plan serves ---- */

#define SMALL 16    /* elements, at most, of an input that may be fixed: a rate, a length */
#define SHARED 4096 /* bytes, at least, of a view that plans for values do not copy */

bool td_tensor_is_like(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           !memcmp(a->shape, b->shape, sizeof *a->shape * (size_t)a->rank);
}

bool td_input_is_small(const struct td_tensor *input)
{
    return input->dtype & (TD_INTS | TD_UINTS | TD_bool) && td_numel(input) <= SMALL;
}

bool td_plan_is_for(const struct td_plan *plan, const struct td_tensor *inputs,
                    const struct td_model_call *call)
{
    bool same = plan->threads == call->threads && plan->node == call->node &&
                plan->traps == atomic_load(&td_traps_barred);
    for (int i = 0; i < plan->n_inputs && same; i++)
        same = td_tensor_is_like(&plan->input[i], &inputs[i]) &&
               (!plan->fixed[i] ||
                !memcmp(plan->input[i].data, inputs[i].data, td_nbytes(&inputs[i])));
    return same;
}

/* ---- growing ---- */

bool td_grow(void **array, int n, int *room, size_t size)
{
    if (n < *room)
        return true;
    int more = *room ? 2 * *room : 64;
    void *bigger = realloc(*array, size * (size_t)more);
    if (!bigger)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

int td_record_refuse(struct td_walk *walk, const char *why)
{
    if (!*walk->why)
        snprintf(walk->why, TD_PLAN_WHY, "%s: node '%.60s' (%.40s)", why,
                 walk->node ? walk->node->name : "", walk->node ? walk->node->op : "");
    return -ECANCELED;
}

bool td_record_is_decided(struct td_walk *walk, uint64_t from)
{
    if (*walk->why || walk->path->n || from & walk->root->large)
        return false;
    walk->root->decides = from;
    return true;
}

int td_plan_add_value(struct td_plan *plan, const struct td_tensor *like, int step, int result)
{
    if (!td_grow((void **)&plan->value, plan->n_values, &plan->values_room, sizeof *plan->value))
        return -ENOMEM;
    plan->value[plan->n_values] =
        (struct td_plan_value){.like = *like, .step = step, .result = result};
    return plan->n_values++;
}

int td_plan_add_step(struct td_plan *plan, const struct td_plan_step *step)
{
    if (!td_grow((void **)&plan->step, plan->n_steps, &plan->steps_room, sizeof *plan->step))
        return -ENOMEM;
    plan->step[plan->n_steps] = *step;
    return plan->n_steps++;
}

/* A unique address range for so many bytes that do not exist. */
static void *take_address(struct td_walk *walk, size_t bytes)
{
    uintptr_t at = walk->addresses + 64;
    walk->addresses = at + ((bytes + 63) & ~(size_t)63);
    return (void *)at;
}

int td_record_value(struct td_walk *walk, const struct td_tensor *like, int step, int result,
                    uint64_t from, struct td_item *item)
{
    struct td_block *block = td_block_make(walk, 0);
    if (!block || !td_grow((void **)&walk->recorded, walk->n_recorded, &walk->recorded_room,
                           sizeof *walk->recorded))
        return -ENOMEM;
    struct td_recorded *recorded = &walk->recorded[walk->n_recorded++];
    *recorded = (struct td_recorded){
        .like = *like, .block = block, .from = from, .input = step < 0 ? result : -1};
    recorded->like.data = take_address(walk, td_nbytes(like));
    recorded->like.weight =
        NULL; /* a stored tensor may be an input of this call, not of the next */
    block->number = walk->n_recorded;
    *item = (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = recorded->like},
                             .block = block,
                             .recorded = walk->n_recorded};
    if (!walk->plan)
        return 0;
    recorded->in = walk->plan;
    recorded->value = td_plan_add_value(walk->plan, &recorded->like, step, result);
    return recorded->value < 0 ? recorded->value : 0;
}

int td_record_input(struct td_walk *walk, int i, struct td_item *item)
{
    const struct td_plan *root = walk->root;
    if (!root->fixed[i])
        return td_record_value(walk, &walk->inputs[i], -1, i, td_input_bit(i), item);
    *item = (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = root->input[i]}};
    return 0;
}

/* The number of walk->plan's value that the item is or views; adds one for an input of the model or
 * an output of an earlier plan that the plan has not used yet. */
static int value_of(struct td_walk *walk, const struct td_item *item)
{
    struct td_plan *plan = walk->plan;
    struct td_recorded *recorded = &walk->recorded[item->recorded - 1];
    if (recorded->in == plan)
        return recorded->value;
    int result = recorded->input;
    if (result < 0) {
        assert(recorded->of);
        if (!td_grow((void **)&plan->outer, plan->n_outer, &plan->outer_room, sizeof *plan->outer))
            return -ENOMEM;
        plan->outer[plan->n_outer] = (struct td_plan_outer){recorded->of, recorded->output};
        result = plan->n_inputs + plan->n_outer++;
    }
    recorded->in = plan;
    return recorded->value = td_plan_add_value(plan, &recorded->like, -1, result);
}

size_t td_record_offset(const struct td_walk *walk, const struct td_item *item)
{
    return (size_t)((char *)item->v.tensor.data -
                    (char *)walk->recorded[item->recorded - 1].like.data);
}

/* Gives the plan a reference to the memory of a constant that was computed while recording. */
static int hold(struct td_plan *plan, struct td_block *block)
{
    if (!block || block->holder == plan)
        return 0;
    if (!td_grow((void **)&plan->held, plan->n_held, &plan->held_room, sizeof(struct td_block *)))
        return -ENOMEM;
    plan->held[plan->n_held++] = block;
    plan->root->constant_bytes += block->bytes;
    block->holder = plan;
    block->refs++;
    return 0;
}

/* ---- calls ---- */

static uint64_t from_of(const struct td_walk *walk, const struct td_item *item)
{
    return item->recorded ? walk->recorded[item->recorded - 1].from : 0;
}

/* The inputs on which the arguments depend. */
static uint64_t from_of_all(const struct td_walk *walk, const struct td_given *args, int n_args)
{
    uint64_t from = 0;
    for (int i = 0; i < n_args; i++) {
        from |= from_of(walk, &args[i].item);
        for (int k = 0; k < args[i].item.n; k++)
            from |= from_of(walk, &args[i].item.list[k]);
    }
    return from;
}

/* Makes a known tensor that differs from turn to turn of a loop an outer value of the plan and not
 * a constant, so that the turns can share one plan. */
static int use_varying(struct td_walk *walk, struct td_plan_step *step, int arg, int element,
                       const struct td_item *item, struct td_tensor *t)
{
    struct td_plan *plan = walk->plan;
    if (hold(plan, item->block) ||
        !td_grow((void **)&plan->outer, plan->n_outer, &plan->outer_room, sizeof *plan->outer))
        return -ENOMEM;
    plan->outer[plan->n_outer] = (struct td_plan_outer){.data = t->data};
    t->data = take_address(walk, td_nbytes(t));
    t->weight = NULL;
    int value = td_plan_add_value(plan, t, -1, plan->n_inputs + plan->n_outer++);
    step->use[step->n_uses++] =
        (struct td_plan_use){.arg = arg, .element = element, .value = value};
    return value < 0 ? value : 0;
}

/* Adds the use of an item by a step. t: the step's argument, or that element of it. */
static int use(struct td_walk *walk, struct td_plan_step *step, int arg, int element,
               const struct td_item *item, struct td_tensor *t)
{
    if (!item->recorded && item->varies)
        return use_varying(walk, step, arg, element, item, t);
    if (!item->recorded)
        return hold(walk->plan, item->block);
    int value = value_of(walk, item);
    step->use[step->n_uses++] = (struct td_plan_use){
        .arg = arg, .element = element, .value = value, .offset = td_record_offset(walk, item)};
    return value < 0 ? value : 0;
}

/* Copies an argument into the plan's memory. */
static int copy_arg(struct td_walk *walk, struct td_plan_step *step, int i,
                    const struct td_given *given)
{
    struct td_plan *plan = walk->plan;
    struct td_named *arg = &step->arg[i];
    const struct td_item *item = &given->item;
    *arg = (struct td_named){.value = item->v};
    if (given->name &&
        !(arg->name = td_arena_strdup(plan->arena, given->name, strlen(given->name))))
        return -ENOMEM;
    if (item->v.kind == TD_KIND_str) {
        arg->value.str = td_arena_strdup(plan->arena, item->v.str, strlen(item->v.str));
        return arg->value.str ? 0 : -ENOMEM;
    }
    if (item->v.kind == TD_KIND_tensor)
        return use(walk, step, i, -1, item, &arg->value.tensor);
    if (item->v.kind != TD_KIND_tensors)
        return 0;
    struct td_tensor *v = td_arena_zalloc(plan->arena, sizeof *v * (size_t)(item->n + 1));
    int err = v ? 0 : -ENOMEM;
    for (int k = 0; k < item->n && !err; k++) {
        bool there = item->list[k].v.kind == TD_KIND_tensor;
        if (there)
            v[k] = item->list[k].v.tensor;
        err = there ? use(walk, step, i, k, &item->list[k], &v[k]) : 0;
    }
    arg->value.tensors.v = v;
    arg->value.tensors.n = item->n;
    return err;
}

static int copy_args(struct td_walk *walk, struct td_plan_step *step, const struct td_given *args,
                     int n_args)
{
    struct td_plan *plan = walk->plan;
    size_t most = 0;
    for (int i = 0; i < n_args; i++)
        most += 1 + (size_t)args[i].item.n;
    step->arg = td_arena_zalloc(plan->arena, sizeof *step->arg * (size_t)(n_args + 2)); /* passes */
    step->use = td_arena_alloc(plan->arena, sizeof *step->use * (most + 1));
    int err = step->arg && step->use ? 0 : -ENOMEM;
    for (int i = 0; i < n_args && !err; i++)
        if (!args[i].name || args[i].item.v.kind != TD_KIND_none)
            err = copy_arg(walk, step, step->n_args++, &args[i]);
    return err;
}

static int record_step(struct td_walk *walk, const struct td_given *args, int n_args)
{
    const struct td_run *run = &walk->run;
    struct td_plan *plan = walk->plan;
    if (plan->n_steps == TD_PLAN_STEPS)
        return td_record_refuse(walk, "there are more calls than a plan may have");
    struct td_plan_step step = {.handle = run->handle,
                                .in_place = run->in_place && run->parts, /* it converts */
                                .node = walk->node ? walk->node->name : "",
                                .n_outs = run->call.n_out};
    int err = copy_args(walk, &step, args, n_args);
    step.value = plan->n_values; /* after the values that copy_args has added */
    return err ? err : td_plan_add_step(plan, &step) < 0 ? -ENOMEM : 0;
}

/* The bit of inputs on which an item depends that is known but recorded: no plan can be made for
 * their values. */
#define KNOWN td_input_bit(63)

/* Whether the call shows a large part of a known tensor in other strides, in a plan for values.
 * Which part that is may follow from the values, so each of these plans would have a copy of its
 * own, which is cold when it is read; so the call is recorded, and its readers may read the tensor
 * itself, which all plans share (passes/views.c). */
static bool is_shared_view(const struct td_walk *walk)
{
    const struct td_call *call = &walk->run.call;
    struct td_view view;
    bool fixed = false;
    for (int i = 0; i < walk->root->n_inputs && !fixed; i++)
        fixed = walk->root->fixed[i];
    return fixed && call->n_out == 1 && !walk->run.parts && !walk->run.n_casts && !call->counted &&
           call->out[0].dtype & TD_FLOATS && td_nbytes(&call->out[0]) >= SHARED &&
           td_view_of(call, 0, &view) && view.from == &call->arg[0].tensor && !view.from->weight;
}

/* Records the call, whose first argument becomes an outer value of the plan. */
static int record_shared_view(struct td_walk *walk, const struct td_given *args, int n_args,
                              struct td_item *result)
{
    struct td_given known[TD_MAX_ARGS];
    for (int i = 0; i < n_args; i++) {
        known[i] = args[i];
        known[i].item.varies |= args[i].item.v.kind == TD_KIND_tensor;
    }
    walk->root->large |= KNOWN;
    int err = walk->plan ? record_step(walk, known, n_args) : 0;
    return err ? err
               : td_record_value(walk, &walk->run.call.out[0],
                                 walk->plan ? walk->plan->n_steps - 1 : 0, 0, KNOWN, result);
}

int td_record_call(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                   struct td_item *result, bool *recorded)
{
    const struct td_run *run = &walk->run;
    uint64_t from = from_of_all(walk, args, n_args);
    bool shared = !from && is_shared_view(walk);
    *recorded = from || shared;
    if (*walk->why || walk->root->decides)
        return -ECANCELED;
    if (chance)
        return td_record_refuse(walk, "chance is drawn anew in each run");
    if (shared)
        return record_shared_view(walk, args, n_args, result);
    if (!from) {
        if (walk->plan)
            walk->plan->n_folded++;
        return 0;
    }
    if (run->call.counted)
        return td_record_is_decided(walk, from)
                   ? -ECANCELED
                   : td_record_refuse(walk, "the size of a result depends on values");
    int err = walk->plan ? record_step(walk, args, n_args) : 0;
    for (int i = 0; i < run->call.n_out && !err; i++)
        err = td_record_value(walk, &run->call.out[i], walk->plan ? walk->plan->n_steps - 1 : 0, i,
                              from, &result[i]);
    return err;
}

static int record_output(struct td_walk *walk, const struct td_item *item,
                         struct td_plan_output *out)
{
    *out = (struct td_plan_output){.tensor = item->v.tensor, .value = -1};
    if (!item->recorded)
        return hold(walk->plan, item->block);
    out->value = value_of(walk, item);
    out->offset = td_record_offset(walk, item);
    return out->value < 0 ? out->value : 0;
}

int td_record_outputs(struct td_walk *walk, const struct td_item *item, int n)
{
    struct td_plan *plan = walk->plan;
    if (*walk->why || walk->root->decides)
        return -ECANCELED;
    plan->output = td_arena_zalloc(plan->arena, sizeof *plan->output * (size_t)(n + 1));
    plan->n_outputs = n;
    int err = plan->output ? 0 : -ENOMEM;
    for (int i = 0; i < n && !err; i++)
        err = record_output(walk, &item[i], &plan->output[i]);
    return err;
}

/* ---- reading steps ---- */

int td_plan_argument(const struct td_plan_step *step, int arg)
{
    const char *name = step->arg[arg].name;
    return name ? td_schema_find(&step->handle->schema, name) : arg;
}

struct td_plan_use *td_step_use(const struct td_plan_step *step, int arg, int element)
{
    for (int k = 0; k < step->n_uses; k++)
        if (step->use[k].arg == arg && step->use[k].element == element)
            return &step->use[k];
    return NULL;
}
