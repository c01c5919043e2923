/* A call cut into parts along its batch, which run side by side on their pool's streams. Internal
 * to this room; part of call.h. */
#ifndef TD_API_STREAMS_H
#define TD_API_STREAMS_H

#include "api/handlers.h"

struct td_infer;

/* In place of a dimension. */
enum {
    TD_WHOLE = -1, /* an input that every part gets; an output of which the first part's counts */
    TD_OPEN = -2,  /* an output whose dimension follows from its shapes */
};

struct td_apart {                 /* a result of which each part keeps its own */
    struct td_tensor shape_of[2]; /* of the first parts, and of later ones with a row less */
};

struct td_streams {
    const cJSON *asked, *hints, *strict, *concat, *mode; /* as the client gives them, or NULL */
    struct td_apart *apart; /* one an output, when results are not joined; or NULL */
    int parts;              /* 1: not cut */
    int64_t batch;          /* what is cut, over that many parts */
    signed char in[TD_MAX_INPUTS], out[TD_MAX_OUTS]; /* dimensions, of args and outputs */
    char warning[160];
};

/* Reads the parameter when it is streams or one that belongs to it. */
bool td_streams_parameter(struct td_infer *in, const cJSON *item);

/* Settles how the bound call is cut; parts is at least 1 afterwards. -EINVAL (nothing can be cut,
 * or hints do not fit), -ENOSYS (threads are not bound), -ENOMEM; the sentence is in the run's
 * problem. */
int td_streams_plan(struct td_infer *in);

/* hints.c: the client's hints, as dimensions of inputs and outputs, and the batch that follows.
 * -EINVAL. */
int td_streams_read_hints(struct td_infer *in);
bool td_streams_is_tensor(const struct td_infer *in, int arg);

/* Bytes that the output takes: of the whole, or of all parts' results one behind the other. */
size_t td_streams_bytes(const struct td_infer *in, int output);
/* Where results stay apart: that of a part. Returns where it begins in the output's bytes. */
size_t td_streams_result(const struct td_infer *in, int output, int part, struct td_tensor *t);

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
