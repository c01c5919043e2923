/* Runs a program on inputs, node by node: each node is lowered to operator calls by its format's
 * function, and each call is bound by the operator's own rules and run at once. If a plan is
 * recorded, a call is run only if it depends on no input. After each node the values whose last use
 * it was are freed. */
#include "dispatch/walk/walk.h"
#include "kernels/view.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int td_walk_refuse(struct td_walk *walk, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(walk->problem->text, sizeof walk->problem->text, format, args);
    va_end(args);
    walk->misfit = false;
    return -EINVAL;
}

int td_walk_unfit(struct td_walk *walk, int err)
{
    walk->misfit = err == -EINVAL;
    return err;
}

int td_walk_no_room(struct td_walk *walk, const char *what)
{
    return td_problem_set(walk->problem, ENOMEM, "no memory for %s", what);
}

int td_walk_stopped(struct td_walk *walk)
{
    if (td_stopped())
        return td_problem_set(walk->problem, ETIMEDOUT, "the model was stopped");
    return walk->call->threads > 1 && !walk->recorder && td_team_is_crowded() ? -EAGAIN : 0;
}

static int no_memory(struct td_walk *walk)
{
    return td_walk_no_room(walk, "the model's tensors");
}

/* ---- one call ---- */

/* Converts an item to an argument of dispatch; a list becomes an array of tensors. */
static int as_value(struct td_walk *walk, const struct td_item *item, struct td_value *value)
{
    *value = item->v;
    if (item->v.kind != TD_KIND_tensors)
        return 0;
    struct td_tensor *v = td_arena_alloc(walk->once, sizeof *v * (size_t)(item->n + 1));
    if (!v)
        return no_memory(walk);
    for (int i = 0; i < item->n; i++)
        v[i] =
            item->list[i].v.kind == TD_KIND_tensor ? item->list[i].v.tensor : (struct td_tensor){0};
    value->tensors.v = v;
    value->tensors.n = item->n;
    return 0;
}

/* The argument, or element of one, whose data begin there; NULL: there is none. */
static const struct td_item *item_at(const struct td_given *args, int n_args, const void *data)
{
    for (int i = 0; i < n_args; i++) {
        const struct td_item *item = &args[i].item;
        if (item->v.kind == TD_KIND_tensor && item->v.tensor.data == data)
            return item;
        for (int k = 0; k < item->n; k++)
            if (item->list[k].v.tensor.data == data)
                return &item->list[k];
    }
    return NULL;
}

/* Whether result i is a dense view of an argument, which *result is then: nothing is run. */
static bool is_view(struct td_walk *walk, int i, const struct td_given *args, int n_args,
                    struct td_item *result)
{
    struct td_run *run = &walk->run;
    struct td_view view;
    if (run->parts || run->n_casts || !td_view_of(&run->call, i, &view) || !view.from->data ||
        !td_is_dense(&run->call.out[i], view.stride))
        return false;
    const struct td_tensor *from = view.from;
    *result = (struct td_item){.v = {.kind = TD_KIND_tensor, .tensor = run->call.out[i]}};
    result->v.tensor.data = (char *)from->data + (size_t)view.offset * td_dtype_size(from->dtype);
    if (from->weight && td_nbytes(from) == td_nbytes(&result->v.tensor))
        result->v.tensor.weight = from->weight;
    const struct td_item *item = item_at(args, n_args, from->data);
    result->block = item ? item->block : NULL;
    result->recorded = item ? item->recorded : 0;
    result->varies = item && item->varies;
    return item != NULL;
}

static int place(struct td_walk *walk, struct td_item *result)
{
    struct td_call *call = &walk->run.call;
    for (int i = 0; i < call->n_out; i++) {
        struct td_block *block = td_block_make(walk, td_nbytes(&call->out[i]));
        if (!block)
            return no_memory(walk);
        call->out[i].data = block->data;
        result[i] =
            (struct td_item){.v = {.kind = TD_KIND_tensor}, .block = block, .varies = walk->varies};
    }
    return 0;
}

/* Makes the walk's scratch block at least that large. */
static int have_scratch(struct td_walk *walk, size_t bytes)
{
    if (walk->scratch && walk->scratch->bytes >= bytes)
        return 0;
    td_block_release(walk, walk->scratch);
    walk->scratch = td_block_make(walk, bytes);
    if (!walk->scratch)
        return no_memory(walk);
    walk->scratch->refs++;
    return 0;
}

void td_figures_count(struct td_model_figures *figures, enum td_isa isa, enum td_dtype compute_type)
{
    figures->isa = isa > figures->isa ? isa : figures->isa;
    if (!figures->calls)
        figures->compute_type = compute_type;
    else if (figures->compute_type != compute_type)
        figures->compute_type = TD_DTYPE_none;
    figures->calls++;
}

/* Executes a run whose row is selected. */
static int execute(struct td_walk *walk, size_t scratch, struct td_item *result)
{
    struct td_run *run = &walk->run;
    int err = have_scratch(walk, scratch);
    if (!err)
        err = place(walk, result);
    if (err)
        return err;
    td_run_execute(run, walk->scratch->data);
    td_figures_count(&walk->figures, run->isa, run->compute_type);
    walk->figures.kernel_ns += run->ns;
    for (int i = 0; i < run->call.n_out; i++)
        result[i].v.tensor = run->call.out[i];
    err = td_walk_stopped(walk);
    return err ? err : run->error;
}

/* Whether the call exceeds the walk's limit of operations. It is counted before the call runs,
 * because a library's kernel cannot be stopped. */
static bool is_too_much(struct td_walk *walk)
{
    const struct td_call *call = &walk->run.call;
    double more = call->op->flops ? call->op->flops(call) : 0;
    for (int i = 0; i < call->n_out; i++)
        more += (double)td_numel(&call->out[i]);
    if (walk->most_work > 0 && walk->work + more > walk->most_work)
        return true;
    walk->work += more;
    return false;
}

static int compute(struct td_walk *walk, struct td_item *result)
{
    struct td_run *run = &walk->run;
    size_t scratch = 0;
    if (is_too_much(walk))
        return td_walk_refuse(walk, "would take too long");
    run->call.threads = walk->call->threads;
    run->node = walk->call->node;
    int err = td_run_select(run, &scratch);
    if (err)
        return err;
    err = execute(walk, scratch, result);
    td_run_release(run);
    return err;
}

static int call_bound(struct td_walk *walk, const struct td_given *args, int n_args,
                      struct td_item *result)
{
    int n = walk->run.call.n_out, views = 0;
    while (views < n && is_view(walk, views, args, n_args, &result[views]))
        views++;
    if (views == n && n)
        return 0;
    bool chance = td_op_draws_chance(walk->run.handle->schema.name), recorded = false;
    walk->chance |= chance;
    int err =
        walk->recorder ? walk->recorder->call(walk, args, n_args, chance, result, &recorded) : 0;
    return err || recorded ? err : compute(walk, result);
}

int td_walk_call(struct td_walk *walk, const char *op, const struct td_given *args, int n_args,
                 struct td_item *result, int *n)
{
    struct td_item several[TD_MAX_OUTS];
    struct td_named named[TD_MAX_ARGS];
    int err = 0, given = 0;
    walk->once = td_arena_reset(walk->once);
    if (!walk->once)
        return no_memory(walk);
    struct td_options options = {
        .alloc = td_alloc_in_arena, .alloc_arg = walk->once, .numbers = true};
    for (int i = 0; i < n_args && !err; i++) {
        if (given == TD_MAX_ARGS)
            return td_walk_refuse(walk, "%s: too many arguments", op);
        named[given] = (struct td_named){.name = args[i].name};
        if (!args[i].name || args[i].item.v.kind != TD_KIND_none) /* else: left out */
            err = as_value(walk, &args[i].item, &named[given++].value);
    }
    err = err ? err : td_run_bind(&walk->run, op, named, given, &options);
    walk->misfit = err == -EINVAL && !walk->run.sized;
    if (err == -EINVAL && walk->recorder && walk->recorder->refused)
        walk->recorder->refused(walk, op, named, given);
    if (!err && td_run_is_meta(&walk->run))
        err = td_problem_set(&walk->run.problem, ENOSYS, "there is no kernel for it");
    if (!err && walk->run.numbers) {
        struct td_given own[TD_MAX_ARGS];
        given = 0;
        for (int i = 0; i < n_args; i++)
            if (!args[i].name || args[i].item.v.kind != TD_KIND_none)
                own[given++] = args[i];
        err = td_walk_keep_numbers(walk, own, given);
        return err ? err : td_walk_call(walk, op, own, given, result, n);
    }
    if (!err)
        err = call_bound(walk, args, n_args, n ? result : several);
    if (err && *walk->run.problem.text)
        return td_problem_set(walk->problem, -err, "%s: %s", op, walk->run.problem.text);
    if (err)
        return err;
    if (n) {
        *n = walk->run.call.n_out;
        return 0;
    }
    *result = several[0];
    return walk->run.call.n_out ? 0 : td_walk_refuse(walk, "%s gives nothing", op);
}

/* ---- nodes ---- */

static int operand_item(struct td_walk *walk, const struct td_node_operand *o, struct td_item *item)
{
    *item = (struct td_item){0};
    if (o->kind == TD_OPERAND_value)
        *item = walk->item[o->value];
    else if (o->kind == TD_OPERAND_constant)
        item->v = o->constant;
    if (o->kind != TD_OPERAND_list)
        return 0;
    struct td_item few[16], *list = o->n <= 16 ? few : malloc(sizeof *list * (size_t)o->n);
    int err = list ? 0 : no_memory(walk);
    for (int i = 0; i < o->n && !err; i++)
        err = operand_item(walk, &o->list[i], &list[i]);
    err = err ? err : td_walk_list(walk, list, o->n, item);
    if (list != few)
        free(list);
    return err;
}

int td_walk_in_node(struct td_walk *walk, const struct td_node *node, int err)
{
    struct td_problem why = *walk->problem;
    if (!*why.text)
        td_problem_set(&why, -err, "no memory");
    return td_problem_set(walk->problem, -err, "node '%.100s' (%.60s): %.400s", node->name,
                          node->op, why.text);
}

static bool varies(const struct td_item *item)
{
    bool so = item->varies;
    for (int i = 0; i < item->n && !so; i++)
        so = varies(&item->list[i]);
    return so;
}

int td_walk_node(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                 struct td_item *out)
{
    int err = 0;
    bool before = walk->varies; /* of the node whose inner graph has this one */
    walk->node = node;
    walk->varies = false;
    memset(out, 0, sizeof *out * (size_t)node->n_outs);
    *walk->problem->text = 0;
    for (int i = 0; i < node->n_operands && !err; i++) {
        err = operand_item(walk, &node->operand[i], &in[i]);
        walk->varies |= varies(&in[i]);
    }
    err = err ? err : node->lower(walk, node, in, out);
    walk->varies = before;
    return err;
}

/* in, out: room for the node's items. */
static int run_node_in(struct td_walk *walk, const struct td_node *node, struct td_item *in,
                       struct td_item *out)
{
    size_t mark = td_walk_mark(walk);
    const struct td_recorder *recorder = walk->recorder;
    int err = (recorder && recorder->node ? recorder->node : td_walk_node)(walk, node, in, out);
    for (int i = 0; i < node->n_outs && !err; i++)
        if (node->out[i] >= 0)
            walk->item[node->out[i]] = td_item_hold(&out[i]);
    td_walk_release(walk, mark, NULL, 0);
    for (int i = 0; i < node->n_last && !err; i++)
        td_item_drop(walk, &walk->item[node->last[i]]);
    return err ? td_walk_in_node(walk, node, err) : 0;
}

static int run_node(struct td_walk *walk, const struct td_node *node)
{
    struct td_item few[12], *items = few;
    size_t n = (size_t)node->n_operands + (size_t)node->n_outs;
    if (n > sizeof few / sizeof *few)
        items = malloc(sizeof *items * n);
    int err = items ? run_node_in(walk, node, items, items + node->n_operands) : no_memory(walk);
    if (items != few)
        free(items);
    return err;
}

int td_walk_graph(struct td_walk *walk, const struct td_node_graph *graph,
                  const struct td_item *inputs, struct td_item *outputs)
{
    int err = 0;
    if (walk->depth == TD_PROGRAM_DEPTH)
        return td_walk_refuse(walk, "graphs stand in each other more than %d deep",
                              TD_PROGRAM_DEPTH);
    walk->depth++;
    for (int i = 0; i < graph->n_inputs; i++)
        walk->item[graph->input[i]] = td_item_hold(&inputs[i]);
    for (int i = 0; i < graph->n_nodes && !err; i++) {
        err = td_walk_stopped(walk);
        err = err ? err : run_node(walk, &graph->node[i]);
    }
    if (!err && walk->recorder && walk->recorder->graph)
        err = walk->recorder->graph(walk, graph);
    for (int i = 0; i < graph->n_outputs && !err; i++) {
        outputs[i] = walk->item[graph->output[i]];
        if (outputs[i].block && !td_block_keep(walk, outputs[i].block))
            err = no_memory(walk);
    }
    for (int i = 0; i < graph->n_inputs; i++)
        td_item_drop(walk, &walk->item[graph->input[i]]);
    for (int i = 0; i < graph->n_nodes; i++) /* values that are live at the end, or at the error */
        for (int k = 0; k < graph->node[i].n_outs; k++)
            if (graph->node[i].out[k] >= 0)
                td_item_drop(walk, &walk->item[graph->node[i].out[k]]);
    walk->depth--;
    return err;
}

/* ---- beginning and end ---- */

int td_walk_begin(struct td_walk *walk)
{
    struct td_model *model = walk->model;
    walk->item = calloc((size_t)model->n_values + 1, sizeof *walk->item);
    walk->once = td_arena_create();
    if (!walk->item || !walk->once)
        return no_memory(walk);
    for (int i = 0; i < model->n_constants; i++)
        walk->item[model->constant[i].value].v =
            (struct td_value){.kind = TD_KIND_tensor, .tensor = model->constant[i].tensor};
    return have_scratch(walk, 4096);
}

void td_walk_end(struct td_walk *walk)
{
    td_block_release(walk, walk->scratch);
    walk->scratch = NULL;
    td_blocks_free(walk);
    free(walk->item);
    walk->item = NULL;
    td_arena_destroy(walk->once);
    walk->once = NULL;
}
