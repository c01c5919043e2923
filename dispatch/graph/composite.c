/* Composite operators: a formula over other operators, "mul(self, sigmoid(self))", expanded into
 * calls of these with the keys that the whole was called with. It serves every backend that has no
 * kernel of the operator's own. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The operator's own arguments, as an expression's. */
static int own_arguments(const struct td_handle *handle, const struct td_value *values,
                         struct td_named *args)
{
    for (int i = 0; i < handle->schema.n_params; i++) {
        args[i] = (struct td_named){.name = handle->schema.param[i].name};
        args[i].value.kind = TD_KIND_tensor;
        if (values)
            args[i].value = values[i];
    }
    return handle->schema.n_params;
}

/* Whether an operand is right: what a part follows, the whole does; and of several results it is
 * said which. */
static bool is_right(const struct td_graph *g, const struct td_handle *own,
                     const struct td_operand *o, bool followed)
{
    const struct td_graph_node *node = &g->node[o->node];
    if (node->handle)
        return !td_graph_check_pick(node->handle, o, false, NULL);
    bool right = !followed || node->argument < 0 || node->argument >= own->schema.n_params ||
                 own->op->follows >> node->argument & 1;
    for (int i = 0; node->argument == TD_NODE_LIST && i < node->n; i++)
        right = right && is_right(g, own, &g->operand[node->first + i], followed);
    return right;
}

static bool are_right(const struct td_graph *g, const struct td_handle *own, bool whole)
{
    const struct td_handle *last = g->node[g->result[0].of.node].handle;
    bool right = !g->named && (!last || !td_graph_check_pick(last, &g->result[0].of, whole, NULL));
    for (int i = 0; i < g->n_nodes; i++) {
        const struct td_handle *handle = g->node[i].handle;
        right = right && (!handle || g->node[i].n <= handle->schema.n_params);
        for (int k = 0; handle && right && k < g->node[i].n; k++)
            right =
                is_right(g, own, &g->operand[g->node[i].first + k], handle->op->follows >> k & 1);
    }
    return right;
}

int td_formula_check(const struct td_handle *handle, const char *formula, const char *const *more,
                     struct td_problem *problem)
{
    struct td_named args[TD_MAX_ARGS + 8];
    struct td_graph_use use;
    bool whole = !*more; /* a composite, which may have all results of its last call */
    int n = own_arguments(handle, NULL, args);
    for (; *more; more++)
        args[n++] = (struct td_named){.name = *more, .value.kind = TD_KIND_tensor};
    int err = td_graph_read(&use, formula, args, n, handle->full, problem);
    if (!err && !are_right(use.graph, handle, whole))
        err = td_problem_set(problem, EINVAL, "%s: its formula '%s' goes wrong", handle->full,
                             formula);
    td_graph_release(&use);
    return err;
}

/* The problem is that of a part: says what it is a part of. */
static int no_part(struct td_run *run)
{
    struct td_problem why = run->problem;
    return td_problem_set(&run->problem, ENOSYS,
                          "could not run '%s', which is computed as %s: %.400s", run->handle->full,
                          run->call.op->composite, why.text);
}

int td_kernel_composite(struct td_run *run, td_keyset keys)
{
    (void)keys; /* what the whole fell through may well concern a part */

    int err = td_run_settle(run); /* as before a kernel: what is to be converted is known now */
    struct td_run *parts[TD_MAX_ARGS] = {0};
    struct td_named args[TD_MAX_ARGS];
    struct td_sources from = {.args = args, .parts = parts, .own = true};
    from.keys = td_keyset_minus(run->keys, run->done);
    from.who = run->handle->full;
    struct td_graph_use use = {0};
    if (!err && !run->options.alloc)
        err = td_problem_set(&run->problem, ENOMEM, "no memory for the parts of %s", from.who);
    if (err)
        return err;
    int n = own_arguments(run->handle, run->call.arg, args);
    for (int i = 0; i < run->n_casts && !err; i++) {
        int arg = run->cast[i].arg;
        enum td_dtype to = run->call.arg[arg].tensor.dtype;
        parts[arg] = td_run_add_cast(run, &run->cast[i].from, to, from.keys, &err);
        err = err ? err : td_run_feed(run, parts[arg], 0, -1, NULL, arg);
    }
    if (!err)
        err = td_graph_read(&use, run->call.op->composite, args, n, from.who, &run->problem);
    if (!err)
        err = td_graph_bind(run, use.graph, &from);
    td_graph_release(&use);
    if (err == -ENOSYS)
        return no_part(run);
    run->rows = NULL;
    return err;
}
