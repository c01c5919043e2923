/* Expressions as runs of their own: of no operator, with the results' names of their text. */
#include "dispatch/call/own.h"
#include "dispatch/graph/graph.h"

#include <errno.h>
#include <string.h>

static const struct td_op no_op = {.schema = "eval", .doc = "an expression"};
static struct td_handle no_handle; /* not initialised: it would be 7 KB of the program */

void td_graph_init(void)
{
    no_handle.op = &no_op;
    no_handle.index = -1;
    strcpy(no_handle.schema.name, no_op.schema);
    strcpy(no_handle.full, no_op.schema);
}

const char *td_run_result_name(const struct td_run *run, int i)
{
    const struct td_result_names *names = run->names;
    const struct td_schema *schema =
        names && names->unnamed ? names->unnamed : &run->handle->schema;
    if (names && i < names->n)
        return names->name[i];
    if (i < schema->n_returns && *schema->ret[i].name)
        return schema->ret[i].name;
    return run->call.n_out == 1 && !schema->ret[0].type.list ? "out" : NULL;
}

/* The names of its results outlive the graph. */
static int keep_names(struct td_run *run, const struct td_graph *g)
{
    const struct td_options *options = &run->options;
    size_t n = g->named ? (size_t)g->n_results : 0;
    struct td_result_names *names =
        options->alloc(options->alloc_arg, sizeof *names + n * sizeof *names->name);
    if (!names)
        return td_problem_set(&run->problem, ENOMEM, "no memory for the expression");
    names->unnamed = NULL;
    names->n = 0;
    for (size_t i = 0; i < n; i++)
        if (g->result[i].name[0] != '_')
            strcpy(names->name[names->n++], g->result[i].name);
    run->names = names;
    return 0;
}

/* An input that the text does not name is a mistake. */
static int check_used(struct td_run *run, const struct td_graph *g, const struct td_named *args,
                      int n_args)
{
    int n = 0, i = 0;
    while (i < n_args && (!args[i].name || g->used >> i & 1))
        i++;
    for (; run->options.also && run->options.also[n];)
        n++;
    if (i == n_args)
        return 0;
    const char *near = td_nearest(args[i].name, run->options.also, n);
    return td_problem_set(&run->problem, EINVAL, "%.60s: expr does not name it%s%s%s", args[i].name,
                          near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

int td_run_bind_expr(struct td_run *run, const char *expr, const struct td_named *args, int n_args,
                     const struct td_options *options)
{
    td_run_clear(run, options);
    run->options.numbers = true;
    run->handle = &no_handle;
    run->call.op = &no_op;
    run->call.problem = &run->problem;
    run->call.threads = 1;
    struct td_sources from = {.args = args, .own = n_args <= TD_MAX_ARGS, .who = "expr"};
    run->call.n_args = from.own ? n_args : 0;
    for (int i = 0; i < run->call.n_args; i++)
        run->call.arg[i] = args[i].value;
    struct td_graph_use use;
    int err = td_graph_read(&use, expr, args, n_args, from.who, &run->problem);
    if (!err)
        err = check_used(run, use.graph, args, n_args);
    if (!err)
        err = keep_names(run, use.graph);
    if (!err)
        err = td_graph_bind(run, use.graph, &from);
    td_graph_release(&use);
    for (const struct td_run *part = run->parts; part; part = part->next)
        run->keys |= part->keys;
    run->key = run->parts ? run->parts->key : TD_KEY_Undefined;
    return err;
}
