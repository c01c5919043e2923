/* Recording: while a program is walked, each call that depends on the inputs becomes a step of a
 * plan, which names its arguments as they were given, and which of them are results of steps. Its
 * results are what its rule says of types and shapes; nothing is computed. So a walk that is
 * recorded ends where it would have to know an element. */
#include "dispatch/model/plan.h"
#include "kernels/trap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a plan is for ---- */

#define SMALL 16 /* elements of an input that may decide what is computed: a rate, a length */

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

static int take(void *arg, size_t bytes)
{
    struct td_plan *plan = arg;
    int err = td_program_take(plan->of, bytes);
    plan->held_bytes += err ? 0 : bytes;
    return err;
}

static void give(void *arg, size_t bytes)
{
    struct td_plan *plan = arg;
    plan->held_bytes -= bytes;
    td_program_give(plan->of, bytes);
}

struct td_plan *td_plan_create(struct td_model *model, const struct td_tensor *inputs,
                               const struct td_model_call *call, uint64_t fix)
{
    struct td_plan *plan = calloc(1, sizeof *plan);
    if (!plan)
        return NULL;
    plan->of = model;
    plan->threads = call->threads;
    plan->traps = atomic_load(&td_traps_barred);
    plan->node = call->node;
    plan->addresses = 64;
    plan->arena = td_arena_create_in(&(struct td_arena_room){take, give, plan});
    if (!plan->arena || copy_inputs(plan, inputs, model->n_inputs, fix))
        td_plan_free(&plan);
    return plan;
}

void td_plan_free(struct td_plan **plan)
{
    struct td_plan *p = *plan;
    *plan = NULL;
    if (!p)
        return;
    td_plan_unpin(p);
    for (int i = 0; i < p->n_held; i++)
        if (!--p->held[i]->refs)
            td_block_free(p->held[i]);
    for (int i = 0; i < p->n_steps; i++)
        td_step_release(&p->step[i].made);
    free(p->held);
    free(p->step);
    free(p->value);
    td_arena_destroy(p->arena);
    give(p, p->held_bytes); /* its lists */
    free(p);
}

int td_plan_count(struct td_plan *plan)
{
    size_t bytes = sizeof *plan + sizeof *plan->step * (size_t)plan->steps_room +
                   sizeof *plan->value * (size_t)plan->values_room +
                   sizeof *plan->held * (size_t)plan->held_room;
    return take(plan, bytes);
}

/* ---- growing ---- */

static bool grow(void **array, int n, int *room, size_t size)
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

/* Why there will be no steps: the walk ends. */
static int refuse(struct td_plan *plan, const char *why, const struct td_node *node)
{
    if (!*plan->refused)
        snprintf(plan->refused, sizeof plan->refused, "%s: node '%.60s' (%.40s)", why,
                 node ? node->name : "", node ? node->op : "");
    return -ECANCELED;
}

int td_plan_add_value(struct td_plan *plan, const struct td_tensor *like, int step, int result)
{
    if (!grow((void **)&plan->value, plan->n_values, &plan->values_room, sizeof *plan->value))
        return -ENOMEM;
    plan->value[plan->n_values] =
        (struct td_plan_value){.like = *like, .step = step, .result = result};
    return plan->n_values++;
}

int td_plan_add_step(struct td_plan *plan, const struct td_plan_step *step)
{
    if (!grow((void **)&plan->step, plan->n_steps, &plan->steps_room, sizeof *plan->step))
        return -ENOMEM;
    plan->step[plan->n_steps] = *step;
    return plan->n_steps++;
}

/* An address for so many bytes that are nowhere. */
static void *take_address(struct td_plan *plan, size_t bytes)
{
    plan->addresses += (bytes + 64) & ~(size_t)63;
    return (void *)(plan->addresses - ((bytes + 64) & ~(size_t)63)); // NOLINT: compared only
}

/* The item becomes one of the plan's, with the tensor's type and shape. */
static int record_value(struct td_plan *plan, const struct td_tensor *like, int step, int result,
                        uint64_t from, struct td_item *item)
{
    *item = (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = *like}};
    item->v.tensor.data = take_address(plan, td_nbytes(like));
    item->v.tensor.weight =
        NULL; /* a stored tensor may be an input of this call, not of the next */
    int value = td_plan_add_value(plan, &item->v.tensor, step, result);
    if (value < 0)
        return value;
    plan->value[value].from = from;
    item->recorded = value + 1;
    return 0;
}

int td_record_input(struct td_plan *plan, int i, const struct td_tensor *input,
                    struct td_item *item)
{
    if (!plan->fixed[i])
        return record_value(plan, input, -1, i, td_input_bit(i), item);
    *item = (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = plan->input[i]}};
    return 0;
}

/* For the values of these inputs, whose next plan is for them where they are small. */
static int refuse_values(struct td_plan *plan, const char *why, const struct td_node *node,
                         uint64_t from)
{
    if (!*plan->refused && !(from & plan->large))
        plan->decides = from;
    return refuse(plan, why, node);
}

int td_record_read(struct td_walk *walk, const struct td_item *item)
{
    return walk->plan && item->recorded
               ? refuse_values(walk->plan, "what is computed depends on values", walk->node,
                               walk->plan->value[item->recorded - 1].from)
               : 0;
}

/* Constants that were made under way stay with the plan. */
static int hold(struct td_plan *plan, struct td_block *block)
{
    if (!block)
        return 0;
    if (plan->n_held && plan->held[plan->n_held - 1] == block)
        return 0;
    if (!grow((void **)&plan->held, plan->n_held, &plan->held_room, sizeof(struct td_block *)))
        return -ENOMEM;
    plan->held[plan->n_held++] = block;
    block->refs++;
    return 0;
}

/* ---- calls ---- */

static uint64_t from_of(const struct td_plan *plan, const struct td_item *item)
{
    return item->recorded ? plan->value[item->recorded - 1].from : 0;
}

/* The inputs on which the arguments depend. */
static uint64_t from_of_all(const struct td_plan *plan, const struct td_given *args, int n_args)
{
    uint64_t from = 0;
    for (int i = 0; i < n_args; i++) {
        from |= from_of(plan, &args[i].item);
        for (int k = 0; k < args[i].item.n; k++)
            from |= from_of(plan, &args[i].item.list[k]);
    }
    return from;
}

static int use(struct td_plan *plan, struct td_plan_step *step, int arg, int element,
               const struct td_item *item)
{
    if (!item->recorded)
        return hold(plan, item->block);
    const struct td_plan_value *value = &plan->value[item->recorded - 1];
    step->use[step->n_uses++] = (struct td_plan_use){
        .arg = arg,
        .element = element,
        .value = item->recorded - 1,
        .offset = (size_t)((char *)item->v.tensor.data - (char *)value->like.data)};
    return 0;
}

/* A copy of an argument that lives as long as the plan. */
static int copy_arg(struct td_plan *plan, struct td_plan_step *step, int i,
                    const struct td_given *given)
{
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
        return use(plan, step, i, -1, item);
    if (item->v.kind != TD_KIND_tensors)
        return 0;
    struct td_tensor *v = td_arena_zalloc(plan->arena, sizeof *v * (size_t)(item->n + 1));
    int err = v ? 0 : -ENOMEM;
    for (int k = 0; k < item->n && !err; k++) {
        bool there = item->list[k].v.kind == TD_KIND_tensor;
        if (there)
            v[k] = item->list[k].v.tensor;
        err = there ? use(plan, step, i, k, &item->list[k]) : 0;
    }
    arg->value.tensors.v = v;
    arg->value.tensors.n = item->n;
    return err;
}

static int copy_args(struct td_plan *plan, struct td_plan_step *step, const struct td_given *args,
                     int n_args)
{
    size_t most = 0;
    for (int i = 0; i < n_args; i++)
        most += 1 + (size_t)args[i].item.n;
    step->arg = td_arena_zalloc(plan->arena, sizeof *step->arg * (size_t)(n_args + 2)); /* passes */
    step->use = td_arena_alloc(plan->arena, sizeof *step->use * (most + 1));
    int err = step->arg && step->use ? 0 : -ENOMEM;
    for (int i = 0; i < n_args && !err; i++)
        if (!args[i].name || args[i].item.v.kind != TD_KIND_none)
            err = copy_arg(plan, step, step->n_args++, &args[i]);
    return err;
}

int td_record_call(struct td_walk *walk, const struct td_given *args, int n_args, bool chance,
                   struct td_item *result, bool *recorded)
{
    struct td_plan *plan = walk->plan;
    const struct td_run *run = &walk->run;
    uint64_t from = from_of_all(plan, args, n_args);
    *recorded = from;
    if (*plan->refused)
        return -ECANCELED;
    if (chance)
        return refuse(plan, "chance is drawn anew in each run", walk->node);
    if (!from) {
        plan->n_folded++;
        return 0;
    }
    if (run->call.counted)
        return refuse_values(plan, "the size of a result depends on values", walk->node, from);
    if (plan->n_steps == TD_PLAN_STEPS)
        return refuse(plan, "there are more calls than a plan may have", walk->node);
    struct td_plan_step step = {.handle = run->handle,
                                .in_place = run->in_place && run->parts, /* and converts */
                                .node = walk->node ? walk->node->name : "",
                                .n_outs = run->call.n_out,
                                .value = plan->n_values};
    int err = copy_args(plan, &step, args, n_args);
    for (int i = 0; i < step.n_outs && !err; i++)
        err = record_value(plan, &run->call.out[i], plan->n_steps, i, from, &result[i]);
    if (!err && td_plan_add_step(plan, &step) < 0)
        err = -ENOMEM;
    return err;
}

int td_record_outputs(struct td_walk *walk, const struct td_item *item, int n)
{
    struct td_plan *plan = walk->plan;
    if (*plan->refused)
        return -ECANCELED;
    plan->output = td_arena_zalloc(plan->arena, sizeof *plan->output * (size_t)(n + 1));
    plan->n_outputs = n;
    int err = plan->output ? 0 : -ENOMEM;
    for (int i = 0; i < n && !err; i++) {
        struct td_plan_output *out = &plan->output[i];
        *out = (struct td_plan_output){.tensor = item[i].v.tensor, .value = item[i].recorded - 1};
        if (out->value < 0)
            err = hold(plan, item[i].block);
        else
            out->offset =
                (size_t)((char *)out->tensor.data - (char *)plan->value[out->value].like.data);
    }
    return err;
}
