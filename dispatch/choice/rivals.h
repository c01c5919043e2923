/* The rows that are timed for a call. Internal to dispatch/choice. */
#ifndef TD_DISPATCH_RIVALS_H
#define TD_DISPATCH_RIVALS_H

#include "dispatch/choice/copy.h"
#include "dispatch/choice/part.h"

/* Behind one of our rows that takes no longer than this no row is timed. To call a library takes
 * half of it, and to make its primitive a millisecond or more. */
#define TD_SHORT_NS 2000

struct td_rival {
    const struct td_impl *row;
    struct td_prepared prepared;
    bool later; /* it is asked when its turn comes: to make a library's primitive takes longer than
                   to time a row */
    bool put_off; /* it was stopped before others were timed, and has its turn behind them */
    double ns;
};

struct td_timing {
    struct td_copy copy;
    const struct td_call *whole; /* that of the client */
    const struct td_call *of;    /* the call that is copied: that of the client, or */
    struct td_part part;         /* a part of it, */
    double times;                /* which is so many times smaller */
    size_t scratch;
    bool asked; /* a client asked: times all rows to their end */
    /* What an FP32 call takes at the CPU's FP32 peak. 0: the call has another type, or a client
     * asked; negative: not computed yet. */
    double peak_ns;
    int n;
    struct td_rival rival[TD_MEASURED];
};

/* Finds the rows to be timed, which take the call: not the reference, and, unless a client asked,
 * no rows that cannot win. A library's row that stands behind one of ours is asked when its turn
 * comes; where our rows take less than a library's first run, that is after all of ours. If
 * td_timing_may_be_short, rows that copy their data to another layout come last, too. */
void td_rivals_find(struct td_timing *t, const struct td_impl *rows);
/* Asks the rival's row whether it takes the call. False: it does not, or is not to be timed. */
bool td_rival_ask(struct td_timing *t, struct td_rival *r);

/* Nanoseconds in which a row comes near what the CPU can do at best; 0: not known. A further row of
 * the same multiplications could hardly be faster then, and would pack the weights once more. */
double td_timing_near_peak_ns(struct td_timing *t);
/* If one of our rows takes no longer than this, no library's row is asked after it, and none of
 * ours that copies its data to another layout. */
double td_timing_short_ns(const struct td_timing *t);
/* Nanoseconds in which a row packs the call's weights, at most 1 ns a byte. */
double td_timing_packing_ns(const struct td_timing *t);
/* Whether a library's row that came to the CPU's peak would make up for its trial in a hundred
 * calls, beside a row that takes ns. True where the peak is not known. */
bool td_timing_may_pay(struct td_timing *t, double ns);
/* Whether the CPU's FP32 peak allows one of our rows to be that short. */
bool td_timing_may_be_short(struct td_timing *t);

#endif
