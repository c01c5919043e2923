/* The trials by which unknown sizes are found that a call is right with. Internal to dispatch/. */
#ifndef TD_DISPATCH_TRIALS_H
#define TD_DISPATCH_TRIALS_H

#include "dispatch/graph/unknown.h"

#define TD_TRIALS_KEPT 24
#define TD_HINTS 12

struct td_trial {
    int64_t size[TD_MAX_UNKNOWNS];
    /* Of a refused one: */
    uint64_t words;         /* the sentence without its numbers, as a hash */
    int often;              /* trials that were refused so */
    int n_hints;            /* 0: it names none, or was accepted */
    int64_t hint[TD_HINTS]; /* the sentence's numbers, the first ones */
    int n_unlike;           /* how many different ones it has */
};

struct td_trials {                    /* zeroed but for unknown */
    const struct td_unknown *unknown; /* borrowed */
    struct td_trial now;
    int n_tried;               /* trials */
    int n_begun;               /* of these, with all sizes alike */
    int n_turns;               /* and with one size changed, each in turn */
    int n_last;                /* n_tried when one last taught something */
    int n_accepted, n_refused; /* that are kept */
    struct td_trial accepted[TD_TRIALS_KEPT], refused[TD_TRIALS_KEPT];
    uint32_t chance;
};

/* Makes the next one: its sizes are now's. */
void td_trials_next(struct td_trials *t);
/* What became of it: refused with a sentence, which is another one where more of the call is right,
 * progress; or accepted, which taught something or not. */
void td_trials_refused(struct td_trials *t, const char *sentence, int progress);
void td_trials_accepted(struct td_trials *t, bool news);

#endif
