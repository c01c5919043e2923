/* Running a row: its data are checked, a net is under it, and what it has counted is told. */
#include "kernels/trap.h"

struct row {
    const struct td_impl *impl;
    struct td_call *call;
    int err;
};

bool td_call_is_nothing(const struct td_call *call)
{
    bool nothing = call->n_out > 0 && !call->counted;
    for (int i = 0; i < call->n_out; i++)
        nothing = nothing && !td_numel(&call->out[i]);
    return nothing;
}

static void run_row(void *arg)
{
    struct row *row = arg;
    struct td_call *call = row->call;
    if (call->op->check) {
        row->err = call->op->check(call);
        if (row->err)
            return;
        td_net_note(row->impl, call);
    }
    if (td_call_is_nothing(call))
        return;
    if (row->impl->library && td_net_now)
        td_net_now->stays = true;
    row->impl->run(call);
}

int td_impl_run(const struct td_impl *impl, struct td_call *call)
{
    int64_t rows = 0;
    struct row row = {impl, call, 0};
    int err = td_trap_refuse(call->op, impl, call->problem);
    call->rows = &rows;
    if (!err)
        err = td_trap_run(call->op->check ? NULL : impl, call, run_row, &row, call->problem);
    call->rows = NULL;
    if (err || row.err)
        return err ? err : row.err;
    for (int i = 0; i < call->n_out; i++)
        if (call->counted >> i & 1)
            call->out[i].shape[call->counted_dim] = rows;
    return 0;
}
