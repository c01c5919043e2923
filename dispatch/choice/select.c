/* Selects an implementation. The rows of a key are tried in order, best first, and the first is
 * taken whose ISA level is available and whose prepare accepts the call; but if a library's rows
 * are among them, measurements decide (measure.c). This takes some tens of nanoseconds, because
 * rows are few and decide by comparisons; a library's rows cache what they make for a call. */
#include "dispatch/choice/kinds.h"

const struct td_impl *td_rows_choose(const struct td_impl *rows, const struct td_call *call,
                                     struct td_prepared *prepared)
{
    const struct td_impl *row = NULL;
    /* Most tables' first rows ask nothing, and hardly ever was a table asked for. */
    if ((rows->prepare || td_kinds_were_asked()) && !td_call_is_nothing(call))
        row = td_measure(rows, call);
    if (row && !td_row_objection(call, row, prepared))
        return row;
    while (td_row_objection(call, rows, prepared) && rows[1].run)
        rows++;
    return rows;
}

/* The row chosen by measurement, if there is one and it still takes the call; else NULL. */
static const struct td_impl *measured_for(const struct td_run *run, struct td_prepared *prepared,
                                          bool *open)
{
    *open = false;
    if (run->forced || !run->rows || td_call_is_nothing(&run->call))
        return NULL;
    const struct td_impl *row = td_measured_row(run->rows, &run->call, open);
    return row && !td_row_objection(&run->call, row, prepared) ? row : NULL;
}

const struct td_impl *td_row_likely(const struct td_run *run, bool *ready)
{
    struct td_prepared prepared = {.only_look = true};
    const struct td_impl *impl = run->rows;
    bool open = false;
    const struct td_impl *measured = measured_for(run, &prepared, &open);
    if (measured) {
        *ready = !prepared.unmade;
        td_prepared_release(&prepared);
        return measured;
    }
    while (impl[1].run && ((run->forced && !td_row_is_named(impl, run->forced)) ||
                           td_row_objection(&run->call, impl, &prepared)))
        impl++;
    *ready = !prepared.unmade && !open;
    td_prepared_release(&prepared);
    return impl;
}

double td_measured_us(const struct td_measured *m, const struct td_impl *row)
{
    for (int i = 0; i < m->n; i++)
        if (m->tried[i].row == row)
            return m->tried[i].us;
    return 0;
}

/* Of a row that takes the call; runs: it is the one that does. */
static const char *verdict(const struct td_measured *m, const struct td_why *why, bool runs)
{
    if (runs)
        return m && m->n > 1 ? "chosen by measurement" : "chosen";
    return why->us > 0 ? "accepted, but was slower when measured"
                       : "accepted, but a better one stands before it";
}

int td_run_explain(const struct td_run *run, struct td_why *why, int max)
{
    int n = 0;
    bool chosen = false, open;
    struct td_prepared of_best = {0};
    struct td_measured measured, *m = NULL;
    if (measured_for(run, &of_best, &open) && td_measured_of(run->rows, &run->call, &measured))
        m = &measured;
    td_prepared_release(&of_best);
    for (const struct td_impl *i = run->rows; i && i->run && n < max; i++, n++) {
        struct td_prepared prepared = {0};
        const char *no = run->forced && !td_row_is_named(i, run->forced)
                             ? "not the kernel asked for"
                             : td_row_objection(&run->call, i, &prepared);
        why[n] = (struct td_why){.impl = i,
                                 .isa = td_row_level(&run->call, i, &prepared),
                                 .us = m ? td_measured_us(m, i) : 0};
        td_prepared_release(&prepared);
        bool runs = !no && (m ? i == m->row : !chosen);
        why[n].reason = no ? no : verdict(m, &why[n], runs);
        why[n].rounding = runs && i->rounding ? i->rounding(&run->call) : 0;
        chosen = chosen || !no;
    }
    return n;
}
