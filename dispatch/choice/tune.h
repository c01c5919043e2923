/* What is kept of measurements (td_tune): for those who look, who ask for one, and who keep them
 * beyond the process. */
#ifndef TD_DISPATCH_TUNE_H
#define TD_DISPATCH_TUNE_H

#include "kernels/kernels.h"

struct td_run;

struct td_tuned {
    int64_t kinds;             /* of calls that are kept now */
    int64_t most;              /* that are kept at a time */
    int64_t measured, evicted; /* kinds since the start */
    int64_t postponed; /* selections by the rows' order: the set was full, and had just evicted */
};
struct td_tuned td_tuned(void);

#define TD_MEASURED 6    /* rows of one table at most, the first that take the call */
#define TD_KIND_TEXT 160 /* of a kind */

struct td_measured {           /* of a kind of calls: what its rows took */
    const struct td_op *op;    /* whose call it was, */
    const struct td_impl *of;  /* the table that was chosen from, */
    uint64_t signature;        /* and its arguments as far as they make the kind: see kinds.h */
    bool asked;                /* by td_run_tune, whatever the table */
    char call[TD_KIND_TEXT];   /* the call that was measured, for people */
    const struct td_impl *row; /* the one to take */
    int n;
    struct { /* in the table's order, whose choice is the first one */
        const struct td_impl *row;
        double us; /* the least of some runs; 0: it has trapped */
    } tried[TD_MEASURED];
};

struct td_choices {         /* of one operator */
    int kept;               /* kinds */
    long long hits, misses; /* selections for which one was kept, and for which none was; a race
                               may lose one */
};
struct td_choices td_choices_of(const struct td_op *op);
/* Shows each kind that is kept, in no order. By one thread at a time, and nothing is kept anew
 * meanwhile. hits: of this kind alone. */
typedef void td_choice_visit(void *arg, const struct td_measured *measured, long long hits);
void td_choices_visit(td_choice_visit *visit, void *arg);
/* Counts what td_choices_visit would show another way: it changes with each that is kept. */
long long td_choices_changes(void);

/* Measures a bound call that has no parts on the calling thread and its team, also where no library
 * takes part or something is kept: on memory of its own, so that data need not be there. What it
 * finds is kept, and taken by all calls of the kind. -EINVAL: nothing can be measured, -ENOMEM,
 * -ETIMEDOUT: it was stopped; problem says what. */
int td_run_tune(struct td_run *run, struct td_measured *measured, struct td_problem *problem);
/* Keeps what another process has measured of kinds that are not kept here: false where it does not
 * fit, because the operator's rows are others, or none of them may run. */
bool td_choice_restore(const struct td_measured *measured);

#endif
