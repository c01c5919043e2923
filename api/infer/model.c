/* A model's call, where it differs from an operator's: inputs are matched by the names that the
 * file gives them, and what the results are is known only when it has run. They lie where the run
 * has left them, and are copied or written out from there. */
#include "api/infer/call.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* A model's kernels are the ways in which it can be run. */
static int read_kernel(struct td_infer *in)
{
    if (in->forced && !strcmp(in->forced, "eager"))
        in->eager = true;
    else if (in->forced && strcmp(in->forced, "model") != 0)
        return td_problem_set(&in->run.problem, EINVAL,
                              "kernel: a model has no '%.40s'; right are model and eager",
                              in->forced);
    return 0;
}

/* ---- inputs ---- */

static int find_input(const struct td_infer *in, const char *port)
{
    for (int i = 0; i < in->n_args; i++)
        if (td_infer_is_port(port, in->args[i].name))
            return i;
    return -1;
}

/* Into the model's order. */
static int match_inputs(struct td_infer *in)
{
    const struct td_served *served = in->served;
    for (int i = 0; i < in->n_args; i++)
        if (!td_infer_find_port(in, in->args[i].name))
            return td_infer_no_port(in, in->args[i].name, &in->run.problem);
    for (int i = 0; i < served->n_inputs; i++) {
        int at = find_input(in, served->input[i].name);
        if (at < 0 && in->session.session && (served->state_in[i] >= 0 || served->derives[i]))
            continue;
        if (at < 0)
            return td_problem_set(&in->run.problem, EINVAL,
                                  "inputs: '%.60s' is missing; the inputs of %.80s: %s",
                                  served->input[i].name, in->model, td_infer_list_ports(in));
        const struct td_named *arg = &in->args[at];
        if (arg->keys & ~td_keyset_of(TD_KEY_CPU))
            return td_infer_refuse(&in->run.problem, arg->name,
                                   "a model's inputs are dense, on the CPU and without gradients");
        in->inputs[i] = arg->value.tensor;
    }
    return td_infer_fill_states(in);
}

int td_infer_bind_model(struct td_infer *in)
{
    const struct td_served *served = in->served;
    memset(&in->run, 0, sizeof in->run);
    in->inputs =
        td_arena_zalloc(in->req->arena, (size_t)served->all_inputs * sizeof *in->inputs + 1);
    in->out = td_arena_zalloc(in->req->arena, (size_t)served->all_outputs * sizeof *in->out + 1);
    if (!in->inputs || !in->out)
        return td_problem_set(&in->run.problem, ENOMEM, "no memory for the request");
    if (in->meta || in->shapes_only)
        return td_infer_refuse(&in->run.problem, "meta",
                               "shapes alone are to be had of operators, not of models");
    int err = read_kernel(in);
    if (!err)
        err = match_inputs(in);
    if (!err)
        err = td_model_check(served->model, in->inputs, served->all_inputs, &in->run.problem);
    if (!err)
        err = td_infer_outputs(in);
    if (!err)
        err = td_streams_plan(in);
    return err || !in->npy ? err : td_infer_check_npy(in);
}

/* ---- running ---- */

/* What replies and the log call the ways in which it is run. */
static const struct td_impl kernels[] = {{.name = "model"}, {.name = "eager"}};

double td_infer_model_cost(const struct td_infer *in)
{
    return td_served_cost(in->served, in->inputs, in->eager);
}

int td_infer_run_model(struct td_infer *in, struct td_worker *worker, const struct td_stop *stop)
{
    struct td_served *served = in->served;
    struct td_model_call call = {.threads = worker && !in->alone ? td_worker_threads(worker) : 1,
                                 .node = worker ? td_worker_numa_node(worker)
                                                : td_pool_home_node(in->pool),
                                 .eager = in->eager,
                                 .stop = stop};
    in->run.call.threads = call.threads;
    in->begin_ns = td_now_ns();
    bool whole = in->streams.parts < 2;
    int err = whole ? td_model_run(served->model, in->inputs, &call, &in->results, &in->run.problem)
                    : td_streams_run_model(in, worker, stop);
    in->end_ns = td_now_ns();
    in->run.ns = in->end_ns - in->begin_ns;
    if (whole && (!err || err == -ETIMEDOUT))
        td_served_learn(served, in->inputs, in->eager, in->run.ns);
    if (err)
        return err;
    if (whole)
        in->figures = td_model_figures(in->results);
    in->run.impl = &kernels[in->eager];
    in->run.isa = in->figures.isa;
    in->run.compute_type = in->figures.compute_type;
    for (int i = 0; i < served->all_outputs && whole; i++) {
        in->out[i] = *td_model_result(in->results, i);
        if (in->streams.apart) /* one part, which is listed all the same */
            in->streams.apart[i].shape_of[0] = in->out[i];
    }
    atomic_fetch_add(&served->calls, 1);
    atomic_fetch_add(&served->compute_ns, in->run.ns);
    return 0;
}

void td_infer_free_results(struct td_infer *in)
{
    td_model_free_results(&in->results);
    td_streams_free_parts(&in->streams);
}

void td_infer_write_model(const struct td_infer *in, struct td_writer *w, const char *key)
{
    td_write_open(w, key, '{');
    td_write_str(w, "model", in->model);
    td_write_str(w, "format", td_model_format(in->served->model));
    td_write_int(w, "nodes", td_model_count_nodes(in->served->model));
    td_write_bool(w, "eager", in->eager);
    td_write_int(w, "threads", in->run.call.threads);
    td_write_bool(w, "inline", in->ran_inline);
    td_write_num(w, "estimate_us", round(td_infer_model_cost(in) * 1e9) / 1e3);
    td_write_int(w, "calls", in->figures.calls);
    td_write_us(w, "kernel_us", in->figures.kernel_ns);
    td_write_int(w, "most_bytes", (int64_t)in->figures.most_bytes);
    td_write_close(w, '}');
}
