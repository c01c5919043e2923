/* Running steps: pointers into place, then one unit after the other. */
#include "dispatch/step/own.h"

#include "dispatch/call/own.h"

void td_step_release(struct td_step **step)
{
    for (int i = 0; *step && (*step)->unit && i < (*step)->n_units; i++)
        td_prepared_release(&(*step)->unit[i].prepared);
    *step = NULL;
}

size_t td_step_scratch(const struct td_step *step)
{
    return step->scratch;
}

void td_step_set_source(struct td_step *step, int from, void *data)
{
    for (int i = step->first[from]; i < step->first[from + 1]; i++)
        *step->link[i].slot = data ? (char *)data + step->link[i].at : NULL;
}

void td_step_set_input(struct td_step *step, int arg, int element, const void *data)
{
    td_step_set_source(step, step->input[arg] + (element < 0 ? 0 : element), (void *)data);
}

void td_step_set_result(struct td_step *step, int i, void *data)
{
    step->out[i].data = data;
    td_step_set_source(step, step->results + i, data);
}

const struct td_tensor *td_step_result(const struct td_step *step, int i)
{
    return i < step->n_out ? &step->out[i] : NULL;
}

struct td_work td_step_work(const struct td_step *step)
{
    struct td_work all = {0, 0};
    for (int i = 0; i < step->n_units; i++) {
        if (!step->unit[i].call.op)
            continue;
        struct td_work work = td_work_of(&step->unit[i].call);
        all.operations += work.operations;
        all.bytes += work.bytes;
    }
    return all;
}

void td_step_set_scratch(struct td_step *step, void *scratch)
{
    if (scratch == step->placed)
        return;
    for (int i = step->first[step->results + step->n_out]; i < step->n_links; i++)
        *step->link[i].slot = (char *)scratch + step->link[i].at;
    step->placed = scratch;
}

static int execute(struct unit *u, struct td_problem *problem)
{
    u->call.problem = problem;
    for (int i = 0; u->call.counted && i < u->call.n_out; i++) /* the run before has set it */
        if (u->call.counted >> i & 1)
            u->call.out[i].shape[u->call.counted_dim] = u->bound;
    return td_impl_run(u->impl, &u->call);
}

static int run_unit(struct unit *u, struct td_problem *problem)
{
    int err = u->fusion ? td_fusion_run(u->fusion, problem) : 0;
    return !err && u->impl ? execute(u, problem) : err;
}

/* What the operator has counted is the step's, too. */
static void count(struct td_step *step)
{
    for (int i = 0; i < step->n_out; i++)
        if (step->made[i])
            step->out[i].shape[step->counted_dim] = step->made[i]->shape[step->counted_dim];
}

double td_step_rounding(const struct td_step *step)
{
    double most = 0;
    for (int i = 0; i < step->n_units; i++) {
        const struct unit *unit = &step->unit[i];
        double rounding =
            unit->impl && unit->impl->rounding ? unit->impl->rounding(&unit->call) : 0;
        most = rounding > most ? rounding : most;
    }
    return most;
}

const char *td_step_why_rows(const struct td_step *step)
{
    const char *why = NULL;
    for (int i = 0; i < step->n_units && !why; i++)
        why = step->unit[i].fusion ? td_fusion_why_rows(step->unit[i].fusion) : NULL;
    return why;
}

int td_step_execute(struct td_step *step, void *scratch, struct td_problem *problem)
{
    int err = 0;
    td_step_set_scratch(step, scratch);
    for (int i = 0; i < step->n_units && !err && !td_stopped(); i++)
        err = run_unit(&step->unit[i], problem);
    if (step->counted && !err)
        count(step);
    return err;
}

static void learn(struct td_run *of, int64_t ns, int threads)
{
    of->ns = ns;
    if (!td_stopped() && !td_call_is_nothing(&of->call))
        td_run_learn(of, ns, threads);
}

/* The unit took so long, with the conversions before it; of those that are computed together each
 * has its share. */
static void share(struct unit *u, int64_t ns, bool team)
{
    int threads = team || (u->impl && u->impl->library) ? u->call.threads : 1;
    for (int i = 0; i < u->n_fused; i++)
        learn(((struct unit *)u->fused[i].call)->of, ns / u->n_fused, threads);
    if (u->impl)
        learn(u->of, ns, threads);
}

int td_step_execute_timed(struct td_step *step, void *scratch, struct td_problem *problem)
{
    int err = 0;
    int64_t begin = td_clock_ns();
    unsigned teams = td_teams_opened();
    td_step_set_scratch(step, scratch);
    for (int i = 0; i < step->n_units && !err && !td_stopped(); i++) {
        struct unit *u = &step->unit[i];
        err = run_unit(u, problem);
        if (err || !u->of || (!u->impl && !u->fusion))
            continue;
        int64_t end = td_clock_ns();
        share(u, end - begin, td_teams_opened() != teams);
        begin = end;
        teams = td_teams_opened();
    }
    if (step->counted && !err)
        count(step);
    return err;
}
