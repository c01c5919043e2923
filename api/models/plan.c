/* GET /v1/models/{name}/plan: what a model consists of, and how it is run on inputs that have come:
 * as a list of calls made ready, or, where that cannot be, node by node, and why. */
#include "api/models/models.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct census {
    const char **op; /* of each node */
    int n, room;
    int inner; /* of them, in inner graphs */
};

static void note(void *arg, const char *name, const char *op, int depth)
{
    struct census *census = arg;
    (void)name;
    if (census->n < census->room)
        census->op[census->n++] = op;
    census->inner += depth > 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct tally {
    const char *op;
    int count;
};

static int by_count(const void *a, const void *b)
{
    const struct tally *x = a, *y = b;
    return x->count != y->count ? y->count - x->count : strcmp(x->op, y->op);
}

/* How many nodes each operator has, the most first; returns how many operators. */
static int tally_up(struct census *census, struct tally *tally)
{
    int n = 0;
    qsort(census->op, (size_t)census->n, sizeof *census->op, by_name);
    for (int i = 0; i < census->n; i++) {
        if (!n || strcmp(tally[n - 1].op, census->op[i]) != 0)
            tally[n++] = (struct tally){census->op[i], 0};
        tally[n - 1].count++;
    }
    qsort(tally, (size_t)n, sizeof *tally, by_count);
    return n;
}

static void write_census(struct td_writer *w, const struct census *census,
                         const struct tally *tally, int n)
{
    td_write_int(w, "nodes", census->n);
    td_write_int(w, "inner_nodes", census->inner);
    td_write_open(w, "operators", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "operator", tally[i].op);
        td_write_int(w, "nodes", tally[i].count);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* ---- plans ---- */

static void write_step(struct td_writer *w, int i, const struct td_model_step *step, int threads)
{
    td_write_open(w, NULL, '{');
    td_write_int(w, "step", i);
    if (step->with >= 0)
        td_write_int(w, "with", step->with);
    if (step->in_place)
        td_write_bool(w, "in_place", true);
    td_write_str(w, "node", step->node);
    td_write_str(w, "operator", step->op);
    td_write_str(w, "kernel", step->kernel);
    if (step->why_rows)
        td_write_str(w, "not_generated", step->why_rows);
    td_write_str(w, "isa", td_isa_name(step->isa));
    if (step->compute_type)
        td_write_str(w, "compute_type", td_dtype_name(step->compute_type));
    td_write_rounding(w, step->rounding);
    if (step->result) {
        td_write_str(w, "datatype", td_dtype_name(step->result->dtype));
        td_write_shape(w, step->result);
    }
    td_write_us(w, "us", step->ns);
    if (step->work.bytes > 0)
        td_write_work(w, &step->work, step->compute_type, threads, step->ns);
    td_write_close(w, '}');
}

static void write_steps(struct td_writer *w, const struct td_model_plan *plan)
{
    struct td_model_step step;
    td_write_open(w, "steps", '[');
    for (int i = 0; i < plan->n_steps; i++)
        if (td_model_plan_step(plan, i, &step))
            write_step(w, i, &step, plan->threads);
    td_write_close(w, ']');
}

static void write_passes(struct td_writer *w, const struct td_model_plan *plan)
{
    td_write_open(w, "passes", '[');
    for (int i = 0; i < plan->n_passes; i++) {
        const struct td_model_pass *pass = &plan->pass[i];
        td_write_open(w, NULL, '{');
        td_write_str(w, "name", pass->name);
        td_write_int(w, "done", pass->done);
        td_write_int(w, "refused", pass->n_refused);
        td_write_open(w, "why", '[');
        for (int k = 0; k < pass->n_refused && k < TD_MODEL_REFUSED; k++) {
            td_write_open(w, NULL, '{');
            td_write_str(w, "node", pass->refused[k].node);
            td_write_str(w, "why", pass->refused[k].why);
            td_write_close(w, '}');
        }
        td_write_close(w, ']');
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
}

/* Of inputs that have come, how they are run. */
static void write_plan(const struct td_model_plan *plan, void *arg)
{
    struct td_writer *w = arg;
    td_write_open(w, NULL, '{');
    td_write_open(w, "inputs", '[');
    for (int i = 0; i < plan->n_inputs; i++) {
        td_write_open(w, NULL, '{');
        td_write_str(w, "datatype", td_dtype_name(plan->input[i].dtype));
        td_write_shape(w, &plan->input[i]);
        td_write_bool(w, "fixed", plan->input[i].data != NULL);
        td_write_close(w, '}');
    }
    td_write_close(w, ']');
    td_write_int(w, "threads", plan->threads);
    td_write_str(w, "op_by_op", *plan->refused ? plan->refused : NULL);
    td_write_int(w, "folded_calls", plan->n_folded);
    td_write_int(w, "memory_bytes", (int64_t)plan->bytes);
    td_write_int(w, "unshared_bytes", (int64_t)plan->bytes_before);
    td_write_int(w, "scratch_bytes", (int64_t)plan->scratch);
    td_write_int(w, "turns", plan->turns);
    write_passes(w, plan);
    write_steps(w, plan);
    td_write_close(w, '}');
}

/* Which plans there have been, and for the values of which inputs. */
static void write_planning(struct td_writer *w, struct td_model *model)
{
    const struct td_model_port *input;
    int recorded, evicted, n = td_model_inputs(model, &input);
    td_model_count_plans(model, &recorded, &evicted);
    td_write_int(w, "recorded_plans", recorded);
    td_write_int(w, "evicted_plans", evicted);
    td_write_open(w, "deciding_inputs", '[');
    for (int i = 0; i < n; i++)
        if (td_model_input_decides(model, i))
            td_write_str(w, NULL, input[i].name);
    td_write_close(w, ']');
}

static int answer(struct td_request *req, struct td_response *res, struct td_model *model)
{
    struct census census = {.room = td_model_count_nodes(model)};
    if (td_api_is_bulk(req, 64 * (size_t)census.room, 0))
        return td_api_hand_over(req);
    struct td_writer w;
    struct tally *tally = td_arena_alloc(req->arena, (size_t)census.room * sizeof *tally + 1);
    census.op = td_arena_alloc(req->arena, (size_t)census.room * sizeof *census.op + 1);
    if (!tally || !census.op)
        return td_api_problem(req, -ENOMEM, "no memory for the plan");
    td_write_init(&w, req->arena, 2048);
    td_model_each_node(model, note, &census);
    int n = tally_up(&census, tally);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "name", req->var[0]);
    td_write_str(&w, "format", td_model_format(model));
    td_write_int(&w, "constant_bytes", (int64_t)td_model_bytes(model));
    td_write_int(&w, "folded_nodes", td_model_count_folded(model));
    write_census(&w, &census, tally, n);
    write_planning(&w, model);
    td_write_open(&w, "plans", '[');
    td_model_visit_plans(model, write_plan, &w);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_models_plan(struct td_request *req, struct td_response *res)
{
    struct td_served *served = td_models_find(req->service->models, req->var[0]);
    if (!served)
        return td_api_no_model(req);
    int err = answer(req, res, served->model);
    td_served_unref(&served);
    return err;
}
