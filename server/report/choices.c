/* NUM-8: in how many cells, by type and by size, the default is as fast as the best kernel; before
 * anything was measured by request, and after. */
#include "server/bench/bench.h"
#include "server/report/report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SIZES 6 /* from 1 to 1M elements, each 16 times the one before */

struct tally {
    long cells, within, within_tuned;
};

struct choices {
    struct tally all, by_type[TD_DTYPES], by_size[SIZES];
    long strictly; /* within 5 % whatever the difference in time */
    double worst;
    char worst_text[300];
    double ref_logs; /* of how much faster the default is than the reference */
    long refs;
};

static void count(struct tally *t, const struct td_bench_found *found)
{
    t->cells++;
    t->within += !found->is_behind;
    t->within_tuned += !found->is_behind_tuned;
}

static int size_of(int64_t elements)
{
    int size = 0;
    while (size < SIZES - 1 && elements > (int64_t)1 << 4 * size)
        size++;
    return size;
}

static void take(void *arg, const struct td_bench_found *found)
{
    struct choices *c = arg;
    const struct td_bench_cell *cell = found->cell;
    double ratio = found->own_ns / found->best_ns;
    count(&c->all, found);
    count(&c->by_type[__builtin_ctz(cell->dtype)], found);
    count(&c->by_size[size_of(cell->elements)], found);
    c->strictly += ratio <= TD_BENCH_LOSES;
    if (found->ref_ns > 0 && found->own_ns > 0) {
        c->ref_logs += log(found->ref_ns / found->own_ns);
        c->refs++;
    }
    if (!found->is_behind || ratio <= c->worst)
        return;
    c->worst = ratio;
    snprintf(c->worst_text, sizeof c->worst_text, "%s of %s%s, %s, %lld elements: %s@%s, not %s@%s",
             cell->handle->full, cell->sample, cell->stored ? " (stored)" : "",
             td_dtype_name(cell->dtype), (long long)cell->elements, found->own->name,
             td_isa_name(found->own->isa), found->best->name, td_isa_name(found->best->isa));
}

static double share(long part, long all)
{
    return all ? td_report_digits((double)part / (double)all) : 0;
}

static void write_tally(struct td_writer *w, const char *key, const char *name,
                        const struct tally *t)
{
    if (!t->cells)
        return;
    td_write_open(w, NULL, '{');
    td_write_str(w, key, name);
    td_write_int(w, "cells", t->cells);
    td_write_int(w, "within", t->within);
    td_write_num(w, "share", share(t->within, t->cells));
    td_write_int(w, "within_tuned", t->within_tuned);
    td_write_num(w, "share_tuned", share(t->within_tuned, t->cells));
    td_write_close(w, '}');
}

static void write_all(struct td_report *r, const struct choices *c)
{
    struct td_writer *w = td_report_data(r, 8);
    char name[40];
    td_write_int(w, "cells", c->all.cells);
    td_write_num(w, "limit", TD_BENCH_LOSES);
    td_write_num(w, "unseen_ns", TD_BENCH_UNSEEN_NS);
    td_write_int(w, "within_strictly", c->strictly);
    td_write_open(w, "by_type", '[');
    for (int i = 0; i < TD_DTYPES; i++)
        write_tally(w, "datatype", td_dtype_name(1 << i), &c->by_type[i]);
    td_write_close(w, ']');
    td_write_open(w, "by_size", '[');
    for (int i = 0; i < SIZES; i++) {
        snprintf(name, sizeof name, "%ld", 1L << 4 * i);
        write_tally(w, "elements", name, &c->by_size[i]);
    }
    td_write_close(w, ']');
    td_write_open(w, "worst", '{');
    td_write_num(w, "ratio", c->worst ? td_report_digits(c->worst) : 1);
    td_write_str(w, "cell", *c->worst_text ? c->worst_text : NULL);
    td_write_close(w, '}');
    td_report_say(r, 8, "cells whose default is " TD_BENCH_NEAR " the best", "share",
                  share(c->all.within, c->all.cells));
    td_report_say(r, 8, "cells whose default is within 5 % of it, without that exception", "share",
                  share(c->strictly, c->all.cells));
    td_report_say(r, 8, "cells whose kernel after tune is " TD_BENCH_NEAR " the best", "share",
                  share(c->all.within_tuned, c->all.cells));
    td_report_say(r, 8, "the worst default's time divided by the best kernel's", "times",
                  c->worst ? c->worst : 1);
    if (c->refs)
        td_report_say(r, 8, "the reference's time divided by the default's, geometric mean",
                      "times", exp(c->ref_logs / (double)c->refs));
}

void td_report_choices(struct td_report *r)
{
    struct choices c = {.worst = 0};
    const struct td_bench_sweep sweep = {
        .seconds = r->o.quick ? 3 : 90, .tune = true, .take = take, .arg = &c};
    if (td_bench_sweep(&sweep) || !c.all.cells)
        td_report_miss(r, 8, "defaults by type and size",
                       "no cell was timed: no thread could be bound");
    else
        write_all(r, &c);
}
