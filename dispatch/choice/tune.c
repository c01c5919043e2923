/* Measuring on request, and adding measurements of other processes: see tune.h. */
#include "dispatch/choice/kinds.h"

#include <errno.h>

/* Why the call cannot be measured; NULL: it can. */
static const char *unfit(const struct td_run *run)
{
    const struct td_call *call = &run->call;
    if (!td_tune_is_on())
        return "the server measures nothing (tune is off)";
    if (!run->rows || run->parts)
        return "it is computed by other operators, or by none: those have kernels to choose from";
    if (!run->rows[1].run)
        return "there is one kernel, and nothing to choose";
    if (call->op->follows || call->counted)
        return "its values say where it reads or writes, and are not looked at for measuring";
    if (td_call_is_nothing(call))
        return "its results have no elements";
    if (!td_measure_fits(call))
        return "it is too large: 32 MiB of tensors and 4e9 operations are the most";
    return NULL;
}

int td_run_tune(struct td_run *run, struct td_measured *m, struct td_problem *problem)
{
    const char *no = unfit(run);
    if (no)
        return td_problem_set(problem, EINVAL, "tune: %s", no);
    int err = td_measure_all(run->rows, &run->call, m);
    if (!err)
        return 0;
    return td_problem_set(problem, -err, "tune: %s",
                          err == -ETIMEDOUT ? "it was stopped"
                                            : "there is no memory for a copy of the call, or only "
                                              "its reference takes it");
}

bool td_choice_restore(const struct td_measured *m)
{
    uint64_t key = td_kind_key(m->signature, m->of, m->op);
    bool contested = false, has_row = false;
    for (const struct td_impl *row = m->of; row->run; row++) {
        contested = contested || row->library;
        has_row = has_row || row == m->row;
    }
    if (!has_row || !td_impl_is_usable(m->row) || (!contested && !m->asked))
        return false;
    if (!td_kind_row(key, false))
        td_kind_add(key, m, 0);
    return true;
}
