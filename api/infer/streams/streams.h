/* A call cut into parts along its batch, which run side by side on their pool's streams. Internal
 * to this room; part of call.h. */
#ifndef TD_API_STREAMS_H
#define TD_API_STREAMS_H

#include "api/request/request.h"

struct td_infer;

/* In place of a dimension. */
enum {
    TD_WHOLE = -1, /* an input that every part gets; an output of which the first part's counts */
    TD_OPEN = -2,  /* an output whose dimension follows from its shapes */
};

struct td_model_part {        /* of a model's call */
    struct td_arena *arena;   /* of what follows, and of inputs that are copied */
    struct td_tensor *inputs; /* which results may lie in */
    struct td_model_results *results;
};

struct td_apart {                 /* a result of which each part keeps its own */
    struct td_tensor shape_of[2]; /* of the first parts, and of later ones with a row less */
};

struct td_streams {
    const cJSON *asked, *hints, *strict, *concat, *mode; /* as the client gives them, or NULL */
    struct td_apart *apart; /* one an output, when results are not joined; or NULL */
    int parts;              /* 1: not cut */
    int64_t batch;          /* what is cut, over that many parts */
    /* Dimensions, of args (of a model its inputs) and outputs. */
    signed char in[TD_MAX_INPUTS], out[TD_MAX_INPUTS];
    struct td_model_part *part; /* as many as parts, once a model's have run; or NULL */
    char warning[160];
};

#define TD_STREAMS_PARAMETERS                                                                      \
    "streams", "strict_divisible", "stream_hints", "concat_output", "stream_mode"
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

/* The arguments of the part of count rows from the begin-th on, as the plan has it. Inputs cut
 * along dimension 0 are views, of others data is still the whole's. */
void td_streams_cut(const struct td_infer *in, struct td_named *args, int64_t begin, int64_t count);
/* Binds a part with them. room: its memory. What td_run_bind says, in run->problem. */
int td_streams_bind(const struct td_infer *in, struct td_run *run, const struct td_named *args,
                    struct td_arena *room);

/* Runs the parts of the selected call, in place of td_run_execute. -ENOMEM, -EINVAL (a part does
 * not take the kernel asked for), in the run's problem. */
int td_streams_run(struct td_infer *in, struct td_worker *worker);

/* Runs each part once, on the worker and on others of its pool: a part with a team to itself on
 * threads, one of several on 1. -ENOMEM: none has run. */
typedef void td_each_part(void *arg, int part, int threads, struct td_worker *worker);
int td_streams_each(const struct td_infer *in, struct td_worker *worker, td_each_part *run,
                    void *arg);

/* ---- model.c: of a model, whose results show only afterwards how they join ---- */

/* Without hints: cuts what has the batch in a first dimension that the model leaves open. And
 * judges parts that are cut, by its ports. -EINVAL, -ENOMEM. */
int td_streams_cut_model(struct td_infer *in, int wanted);
int td_streams_try_model(struct td_infer *in);

/* ---- run_model.c ---- */

/* Runs the parts and gives the outputs their joined shapes, but no places yet. What td_model_run
 * says; -EINVAL: they do not join. */
int td_streams_run_model(struct td_infer *in, struct td_worker *worker, const struct td_stop *stop);

/* ---- parts.c ---- */

/* Bytes that the output takes: of the whole, or of all parts' results one behind the other. */
size_t td_streams_bytes(const struct td_infer *in, int output);
/* Where results stay apart: that of a part. Returns where it begins in the output's bytes. */
size_t td_streams_result(const struct td_infer *in, int output, int part, struct td_tensor *t);

/* Count rows of the tensor along dim, from the begin-th on; along another than dimension 0 data is
 * still the whole's. */
void td_streams_rows(const struct td_streams *s, struct td_tensor *t, int dim, int64_t begin,
                     int64_t count);
/* Copies rows [begin, begin + count) of whole along dim out of it into part, or back in. */
void td_streams_copy_rows(const struct td_tensor *whole, int dim, int64_t begin, int64_t count,
                          char *part, bool back);

/* Of a model's parts: the result of one; writes what all have of an output to where it lies; frees
 * them. */
const struct td_tensor *td_streams_part_result(const struct td_streams *s, int part, int output);
void td_streams_join(const struct td_infer *in, int output);
void td_streams_free_parts(struct td_streams *s);

#endif
