/* A step's inside, between the file that makes steps and the one that runs them. Internal to
 * dispatch/.
 *
 * A step is a run and all runs that it consists of, laid out flat, as units that are executed one
 * after the other. What a unit's tensors are is fixed; where their data lie comes from outside (an
 * input, a result) or from the step's scratch, and each place that wants such a pointer is a link.
 * Links are sorted by what they come from, so that setting an input writes to its few places and to
 * nothing else. */
#ifndef TD_DISPATCH_STEPS_H
#define TD_DISPATCH_STEPS_H

#include "dispatch/step/step.h"
#include "kernels/loops/fused.h"

struct unit {
    struct td_call call;
    const struct td_impl *impl; /* NULL: it is computed with others, or nothing */
    struct td_prepared prepared;
    struct td_fused *fused; /* it and those before it that are computed with it, n_fused of them */
    int n_fused;
    struct td_fusion *fusion; /* which computes them */
    int64_t bound;            /* of a size that is counted */
    struct td_run
        *of; /* whose kernel it is, while that is there; of a conversion before it: NULL */
};

struct link {
    void **slot;
    int from;  /* by its number: an input, a result, the kernels' scratch, what is between units */
    size_t at; /* bytes, of what it comes from */
};

struct td_step {
    int n_units, n_links, n_args, n_out;
    int threads, node; /* of the run that it was made of */
    struct unit *unit;
    struct link *link;
    int *first;   /* link of each number; and one more, the end */
    int *input;   /* the number of each argument's first tensor */
    int results;  /* the number of the first result; behind the last one, of the kernels' scratch */
    bool counted; /* some result's size is */
    struct td_tensor *out;
    const struct td_tensor **made; /* of each result the unit's own, or NULL */
    int counted_dim;
    size_t scratch;
    void *placed; /* the scratch that links have */
};

/* Why some of those that are computed together did not run as one generated loop, a text that
 * stays; NULL: all did, or none are. */
const char *td_step_why_rows(const struct td_step *step);

/* Tells kernels where their scratch is. */
void td_step_set_scratch(struct td_step *step, void *scratch);

/* Tells all links where what they come from lies. */
void td_step_set_source(struct td_step *step, int from, void *data);

/* As td_step_execute, for the run that the step was made of: its parts have their times then, and
 * costs are learned. */
int td_step_execute_timed(struct td_step *step, void *scratch, struct td_problem *problem);

/* ---- views.c ---- */

/* Before a part of run is selected: where an argument is the result of a selected part that only
 * moves elements, the part is to read that part's argument, with strides. Returns whether there is
 * such an argument. Where there is no memory for strides, the part reads the result. */
bool td_parts_read_through(struct td_run *run, struct td_run *part);
/* Undoes that: the part reads the results. */
void td_parts_read_results(struct td_run *part);
/* Once all parts are selected: which of them are views. */
void td_parts_find_views(struct td_run *run);

/* ---- fuse.c ---- */

#define TD_FUSER_OPEN 32 /* groups that further calls may join */

struct td_fuser { /* gives calls to groups that are computed together */
    /* A call joins no group but that of the call right before it: a plan's live ranges and listings
     * take a group for steps in a row. */
    bool next_only;
    int n_open;
    struct td_fuser_group {
        int n, values; /* its calls, and the sum of their td_fused_values */
        double flops;
        bool turns; /* td_fused_turns of one of them */
        int *with[TD_FUSED_MOST];
        const struct td_tensor *like; /* the result of its first call, whose shape all have */
    } open[TD_FUSER_OPEN];
};
/* Gives the next call, which is number at and runs by impl (NULL: it is to stay alone), to the last
 * group that it may join, or begins one. *with, which stays where it is, is the number of the last
 * call of the group from then on; -1: it is alone. */
void td_fuser_place(struct td_fuser *f, int at, int *with, const struct td_call *call,
                    const struct td_impl *impl);
/* Whether the next call, number at, is a reduction that joins the group that ends with the call
 * `of`, whose member makes its argument. The group is closed then, and ends with it. */
bool td_fuser_reduce(struct td_fuser *f, int at, int *with, const struct td_call *call,
                     const struct td_impl *impl, int of);
/* Says that no further call may join the group that ends with that call, as one that is not of the
 * group reads a result of it. -1 is fine. */
void td_fuser_close(struct td_fuser *f, int with);
/* Closes all groups; those of one call are none. */
void td_fuser_end(struct td_fuser *f);
/* Whether both have one shape, but for leading dimensions of 1. */
bool td_fuser_has_shape(const struct td_tensor *a, const struct td_tensor *b);

/* Settles which parts of a run run together, once they are selected. */
void td_fuse_parts(struct td_run *run);

#endif
