/* A call cut into parts along its batch, which run side by side on their pool's streams. Internal
 * to api/; part of infer.h. */
#ifndef TD_API_STREAMS_H
#define TD_API_STREAMS_H

#include "api/json/json.h"

struct td_infer;

enum { /* in place of a dimension */
       TD_WHOLE =
           -1,       /* an input that every part gets; an output of which the first part's counts */
       TD_OPEN = -2, /* an output whose dimension follows from its shapes */
};

struct td_streams {
    const cJSON *asked, *hints, *strict; /* as the client gives them; NULL: not at all */
    int parts;                           /* 1: not cut */
    int64_t batch;                       /* what is cut, over that many parts */
    signed char in[TD_MAX_ARGS * 2], out[TD_MAX_OUTS]; /* dimensions, of args and outputs */
    char warning[160];
};

/* Reads the parameter when it is streams, stream_hints or strict_divisible. */
bool td_streams_parameter(struct td_infer *in, const cJSON *item);

/* Settles how the bound call is cut; parts is at least 1 afterwards. -EINVAL (nothing can be cut,
 * or hints do not fit), -ENOMEM; the sentence is in the run's problem. */
int td_streams_plan(struct td_infer *in);

/* The arguments of the part of count rows from the begin-th on, as the plan has it. Inputs cut
 * along dimension 0 are views, of others data is still the whole's. */
void td_streams_cut(const struct td_infer *in, struct td_named *args, int64_t begin, int64_t count);
/* Binds a part with them. room: its memory. What td_run_bind says, in run->problem. */
int td_streams_bind(const struct td_infer *in, struct td_run *run, const struct td_named *args,
                    struct td_arena *room);

/* Runs the parts of the selected call, in place of td_run_execute. -ENOMEM, -EINVAL (a part does
 * not take the kernel asked for), in the run's problem. */
int td_streams_run(struct td_infer *in, struct td_worker *worker);

#endif
