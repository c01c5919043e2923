/* The cache of measurements (td_tune), for callers that show it, request a measurement, or save and
 * restore it. */
#ifndef TD_DISPATCH_TUNE_H
#define TD_DISPATCH_TUNE_H

#include "kernels/kernels.h"

struct td_run;

struct td_tuned {
    int64_t kinds;             /* of calls, in the cache now */
    int64_t most;              /* its capacity */
    int64_t measured, evicted; /* kinds since the start */
    int64_t postponed;         /* selections by the rows' order: a full set had just evicted */
};
struct td_tuned td_tuned(void);

#define TD_MEASURED 9    /* rows timed at most: the first ones that take the call */
#define TD_KIND_TEXT 160 /* bytes of a kind's text */

struct td_measured { /* the measurement of a kind of calls */
    const struct td_op *op;
    const struct td_impl *of;  /* the table of rows */
    uint64_t signature;        /* a hash of its arguments: td_kind_signature */
    uint64_t family;           /* and of all but their large sizes; 0: not known (a file's) */
    double flops;              /* of the call that was measured */
    bool asked;                /* measured by td_run_tune, so of any table */
    char call[TD_KIND_TEXT];   /* the call that was measured, of this kind or the family */
    const struct td_impl *row; /* the row to use */
    int n;
    struct { /* in the table's order; without measuring, the first that takes the call is used */
        const struct td_impl *row;
        double us; /* its fastest round, per run; 0: it has trapped */
    } tried[TD_MEASURED];
};

struct td_choices {         /* of one operator */
    int kept;               /* kinds in the cache */
    long long hits, misses; /* selections with and without an entry; a race may lose a hit */
};
struct td_choices td_choices_of(const struct td_op *op);
/* Calls visit for each kind in the cache, in no order, with the cache's lock: nothing is added
 * meanwhile. hits: of this kind. */
typedef void td_choice_visit(void *arg, const struct td_measured *measured, long long hits);
void td_choices_visit(td_choice_visit *visit, void *arg);
/* A counter that changes whenever an entry is added: td_choices_visit then shows something else. */
long long td_choices_changes(void);

/* Measures a bound call without parts on the calling thread and its team, even if no row is a
 * library's or the kind is in the cache. It uses memory of its own, so the call needs no data. All
 * calls of the kind use the result, which is cached. -EINVAL: the call cannot be measured, -ENOMEM,
 * -ETIMEDOUT: it was stopped; problem says which. */
int td_run_tune(struct td_run *run, struct td_measured *measured, struct td_problem *problem);
/* Adds what another process has measured, unless the kind is in the cache. False: the entry does
 * not fit: its row is not in the table or may not run here, or the table is never measured. */
bool td_choice_restore(const struct td_measured *measured);

#endif
