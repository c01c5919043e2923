/* Prints a plan as it was before the passes, or after one of them. Plans do not keep these stages,
 * so a plan for the youngest plan's inputs is recorded anew, the passes up to that one run over it,
 * and it is printed instead of bound and run. If control flow depends on values, it ends where the
 * first of these has to be known. */
#include "dispatch/passes/passes.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define WAIT_NS 1000000 /* between two checks whether another thread still records */

/* An empty plan for the same inputs as the youngest plan; NULL: there is none, or no memory (*err).
 * With the model's lock_ held. */
static struct td_plan *copy_youngest(struct td_model *model, const char *until, int *err)
{
    const struct td_plan *p = model->plans_;
    uint64_t fix = 0;
    while (p && *p->refused)
        p = p->next;
    *err = p ? -ENOMEM : -ENOENT;
    for (int i = 0; p && i < p->n_inputs; i++)
        fix |= p->fixed[i] ? td_input_bit(i) : 0;
    struct td_model_call call = {.threads = p ? p->threads : 1, .node = p ? p->node : -1};
    struct td_plan *copy = p ? td_plan_create(model, p->input, &call, fix) : NULL;
    if (copy)
        copy->until = until;
    return copy;
}

/* Waits until no other thread records, and begins to record. 0, or the error. */
static int begin(struct td_model *model, const char *until, struct td_plan **plan)
{
    for (;;) {
        int err = 0;
        pthread_mutex_lock(&model->lock_);
        bool may = !model->recording_;
        if (may && (*plan = copy_youngest(model, until, &err)))
            model->recording_ = true;
        pthread_mutex_unlock(&model->lock_);
        if (may)
            return *plan ? 0 : err;
        if (td_stopped())
            return -ETIMEDOUT;
        nanosleep(&(struct timespec){.tv_nsec = WAIT_NS}, NULL);
    }
}

static void end(struct td_model *model, struct td_plan **plan)
{
    pthread_mutex_lock(&model->lock_);
    model->recording_ = false;
    pthread_mutex_unlock(&model->lock_);
    td_plan_free(plan);
}

static int record(struct td_model *model, struct td_plan *plan, struct td_problem *problem)
{
    struct td_model_call call = {.threads = plan->threads, .node = plan->node};
    struct td_model_figures figures = {0};
    struct td_path path = {0};
    char why[TD_PLAN_WHY] = "";
    td_model_wake(model);
    int err = td_plan_make(plan, &path, plan->input, &call, &figures, why, problem);
    td_model_walked(model);
    return err == -ECANCELED ? 0 : err ? err : td_problem_set(problem, EINVAL, "%s", why);
}

static void print(struct td_model *model, const struct td_plan *plan, FILE *to)
{
    const struct td_model_pass *pass = plan->n_passes ? &plan->pass[plan->n_passes - 1] : NULL;
    const struct td_model_plan shown = td_plan_shown(plan);
    if (pass)
        fprintf(to, "// after %s, which changed %d steps and left %d\n", pass->name, pass->done,
                pass->n_refused);
    else
        fputs("// as recorded, before the passes\n", to);
    td_model_plan_print(model, &shown, false, to);
}

int td_model_print_after(struct td_model *model, const char *pass, FILE *to,
                         struct td_problem *problem)
{
    struct td_plan *plan = NULL;
    char names[TD_PASS_NAMES];
    td_passes_list(names);
    if (td_passes_until(pass) < 0)
        return td_problem_set(problem, EINVAL, "there is no pass '%.60s'; there are %s", pass,
                              names);
    int err = begin(model, pass, &plan);
    if (err)
        return err;
    err = record(model, plan, problem);
    if (!err)
        print(model, plan, to);
    end(model, &plan);
    return err;
}
