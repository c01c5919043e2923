/* A request of the inference protocol, between its reading (infer_read.c) and its running
 * (infer.c). Internal to api/. */
#ifndef TD_API_INFER_H
#define TD_API_INFER_H

#include "api/handlers.h"
#include "kernels/weight.h"

enum td_form { /* how an output goes back */
               TD_FORM_json,
               TD_FORM_binary,
               TD_FORM_none, /* not asked for */
};

struct td_infer { /* lives in the request's arena */
    struct td_job job;
    struct td_request *req;
    const char *op, *model, *id;
    struct td_json json;

    int n_args;
    struct td_weight *held[TD_MAX_ARGS]; /* references to stored tensors in use */
    int n_held;
    size_t binary_at; /* where in the body the next binary tensor begins */

    /* The parameters that all calls share. */
    struct td_pool *pool; /* a reference */
    const char *forced;
    int64_t timeout_ms;
    int priority;
    bool explain, meta, binary_output;

    struct {
        const char *name;
        enum td_form form;
        size_t offset; /* of a binary one, behind the JSON */
    } output[TD_MAX_OUTS];
    const cJSON *outputs; /* what was asked for; NULL: all */
    bool ran_inline, in_place;
    char *binary;
    size_t binary_size;

    int64_t queued_ns, begin_ns, end_ns;

    /* From here on not zeroed: 8 KiB that td_infer_read and td_run_bind fill as far as needed. */
    struct td_named args[TD_MAX_ARGS * 2];
    struct td_run run;
};

/* Reads the request's body into in. On failure problem says why: -EINVAL, -ENOENT (pool or stored
 * tensor), -ENOMEM. */
int td_infer_read(struct td_infer *in, struct td_problem *problem);

/* Names the outputs of the bound call and settles the form of each. -EINVAL, in run.problem. */
int td_infer_outputs(struct td_infer *in);

#endif
