/* Generation by token ids: a model that gives logits is run on its own tokens, one after the other,
 * in a session or in one of the call's own. read.c reads what is asked for, sample.c draws tokens,
 * generate.c runs. Internal to this room. */
#ifndef TD_API_GENERATE_H
#define TD_API_GENERATE_H

#include "api/sessions/sessions.h"

#define TD_GENERATE_MOST 100000 /* tokens that a call may ask for */

struct td_sampling { /* in this order: penalty, temperature, top_k, top_p */
    double repetition_penalty, temperature, top_p;
    int64_t top_k; /* 0: all */
    uint64_t seed;
};

struct td_sampler {
    const float *logits; /* n, of the next token */
    int64_t n;
    const unsigned char *seen; /* by token: whether it came before; for the penalty */
    double *weight;            /* room for n */
    struct ranked {
        double weight;
        int64_t token;
    } * ranked; /* the same */
};
/* The next token; number: of the draw, which follows from it and the seed alone. Ties go to the
 * lowest one. logprob: of the logits as they are. */
int64_t td_sample(const struct td_sampler *sampler, const struct td_sampling *how, uint64_t number,
                  double *logprob);

struct td_generation { /* lives in its request's arena */
    struct td_job job;
    struct td_request *req;
    struct td_served *served; /* a reference */
    struct td_pool *pool;     /* a reference */
    /* Of the session, or the call's own: */
    const char *session; /* NULL: none is named */
    bool start;
    struct td_session *taken;
    struct td_contents *contents; /* a reference; NULL: where the model begins */
    struct td_contents *spare;    /* what it had before, for the next turn; or NULL */
    int64_t step;
    /* What was asked for: */
    struct td_sampling how;
    int64_t n_prompt, most, n_stop, timeout_ms;
    int64_t *prompt, *stop;
    const char *pool_name, *id;
    bool logprobs;
    int priority;
    /* What has come: */
    int input, output; /* the ports of tokens and of logits */
    int64_t fed, n;    /* of the prompt; tokens that were drawn */
    int64_t *token;
    double *logprob;
    struct td_sampler sampler;
    const char *finish;
    struct td_stream *stream; /* told of each token; NULL: the answer comes at the end */
    bool streams, begun;      /* it is to be one; and its reply has been */
    int64_t queued_ns, compute_ns;
    struct td_problem problem;
};

/* ---- answer.c ---- */

/* The reply begins, with what has come so far. From here on the request may end at any time: the
 * generation has the arena, and touches nothing else of it that the server does. False: there is no
 * memory. */
bool td_generate_begin_stream(struct td_generation *g);
/* The token that came last, in the arena; false: nobody reads any more. */
bool td_generate_send_token(struct td_generation *g, struct td_arena *arena);
/* Answers, err being why there are no more tokens, or 0; g is gone afterwards. */
void td_generate_end(struct td_generation *g, int err);
void td_generate_free(struct td_generation *g); /* what it has references of */

/* ---- read.c ---- */

/* Reads the request's JSON into g, whose arrays are the arena's. -EINVAL, -ENOMEM. */
int td_generate_read(struct td_generation *g, struct td_problem *problem);

#endif
