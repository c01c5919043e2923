/* A request of the inference protocol, between its reading (read/) and its running (infer.c): of
 * an operator, an expression or a model. Internal to this room. */
#ifndef TD_API_INFER_CALL_H
#define TD_API_INFER_CALL_H

#include "api/infer/infer.h"
#include "api/infer/streams/streams.h"
#include "api/models/models.h"
#include "api/sessions/sessions.h"
#include "api/shm/shm.h"
#include "api/tensors/tensors.h"
#include "kernels/weight.h"

#include <errno.h>

/* How an output goes back. */
enum td_form {
    TD_FORM_json,
    TD_FORM_binary,
    TD_FORM_shared, /* into the client's shared memory */
    TD_FORM_stored, /* kept in the server under a name */
    TD_FORM_none,   /* not asked for */
};

struct td_infer_output {
    const char *name;
    enum td_form form;
    size_t offset;               /* of a binary one, behind the JSON */
    const char *store;           /* of a stored one: the name it is to take */
    struct td_weight *expected;  /* what must have had the name until then, or NULL */
    struct td_weight *made;      /* a reference, until it has the name, */
    struct td_tensors_new entry; /* which it gets as this */
};

struct td_infer_session { /* that the call is a step of; see session.c */
    const char *name;     /* NULL: not said; "": none, a run from where the model begins */
    bool sequence;        /* and it is called so, as Triton has them */
    bool start, end, counts, waits; /* counts: step is given; waits: wait_ms is */
    int64_t step, wait_ms;
    struct td_session *session;         /* while it is taken; or NULL */
    struct td_contents *before, *after; /* references, or NULL */
    int64_t step_before, made;
    struct td_session_waiter waiter;
    struct td_job job; /* which goes on with the call once the session is its own */
};

struct td_infer { /* lives in the request's arena */
    struct td_job job;
    struct td_request *req;
    const char *op, *model, *id;
    bool eval;                   /* an expression, in place of an operator */
    bool tune;                   /* its kernels are timed, in place of a result */
    bool ours;                   /* not by the protocol's route: the short form is taken */
    struct td_served *served;    /* a reference: a model, in place of an operator; or NULL */
    const char *expr;            /* it, once read */
    struct td_expr_entry *entry; /* its own in the cache of bound expressions, or NULL */

    int n_args;
    struct {
        const char *name;
        struct td_weight *weight;
    } stored[TD_MAX_INPUTS];               /* where args[i] came from; borrowed of held */
    struct td_weight *held[TD_MAX_INPUTS]; /* references to stored tensors in use */
    int n_held;
    struct td_streams streams;
    struct td_infer_session session;
    size_t binary_at; /* where in the body the next binary tensor begins */

    /* The parameters that all calls share. */
    struct td_pool *pool;  /* a reference */
    const char *pool_name; /* as asked for; NULL: the default one */
    const char *forced;
    int64_t timeout_ms;
    int priority;
    bool explain, meta, binary_output;
    bool brief;                       /* in the short form, and to be answered so */
    bool typed;                       /* and it says a type for all */
    bool file;                        /* the body is a .npy */
    bool npy;                         /* to be answered with a .npy of its only result */
    bool shapes_only;                 /* an input came without data */
    bool open;                        /* a size is unknown */
    int n_sizes;                      /* unknown ones that have names */
    bool eager;                       /* a model: node by node */
    struct td_tensor *inputs;         /* of a model, in its order */
    struct td_model_results *results; /* of a model, which outputs may lie in */
    struct td_model_figures figures;  /* of its run */
    struct td_options options;
    const char *device, *layout; /* of all tensors that do not say; NULL: cpu, strided */
    struct td_key_scope scope;   /* keys that the client adds and takes away */

    int n_outputs;
    struct td_infer_output *output; /* as many */
    struct td_tensor *out;          /* they; of an operator its call's */
    struct td_json *asked;          /* what the query has, or NULL */
    const cJSON *outputs;           /* what was asked for; NULL: all */
    bool ran_inline, is_task;       /* a task: answered 202, req is its own */
    bool alone;                     /* too little for a team */
    const char *front;              /* the reply's JSON up to its parameters, when known already */
    size_t front_size;
    char *binary;
    size_t binary_size;
    struct td_writer text; /* the reply's JSON */
    size_t text_size;      /* bytes that the JSON outputs' elements may take */

    int64_t queued_ns, begin_ns, end_ns;

    /* From here on not zeroed: 30 KiB that td_infer_parse, td_infer_read and td_run_bind fill as
     * far as needed. */
    struct td_json json;
    const char *size[TD_MAX_UNKNOWNS]; /* the names of unknown sizes; borrowed of json */
    struct td_shm_call shm;
    struct td_named args[TD_MAX_INPUTS];
    struct td_run run;
};
_Static_assert(sizeof(struct td_infer) + (17 << 10) <= TD_ARENA_FIRST,
               "a call with 3 KiB each of JSON and tensors takes one allocation");

/* "WHO: WHAT" as what is wrong with the request: -EINVAL. */
static inline int td_infer_refuse(struct td_problem *problem, const char *who, const char *what)
{
    return td_problem_set(problem, EINVAL, "%s: %s", who, what);
}

/* A parameter that is true or false: 0, or -EINVAL. */
static inline int td_infer_read_bool(const cJSON *item, bool *value, struct td_problem *problem)
{
    if (!cJSON_IsBool(item))
        return td_infer_refuse(problem, item->string, "must be true or false");
    *value = cJSON_IsTrue(item);
    return 0;
}

/* Refuses the body of one of our own routes, and shows one that is right: "WHAT must be ...".
 * -EINVAL. */
int td_infer_refuse_body(const struct td_infer *in, const char *what, struct td_problem *problem);

/* Parses the request's JSON into in->json; then reads it into in. On failure problem says why:
 * -EINVAL, -ENOENT (pool or stored tensor), -ENOMEM. */
int td_infer_parse(struct td_infer *in, struct td_problem *problem);
/* The parameters that all calls share, NULL-ended. */
extern const char *const td_infer_shared[];
bool td_infer_is_shared(const char *name);
int td_infer_read(struct td_infer *in, struct td_problem *problem); /* in read/short.c */
/* The long form alone; and what the short one is read with, too: a member of parameters, and an
 * argument that has been read. name: NULL for one given by its position. -EINVAL, -ENOENT, -ENOMEM.
 */
int td_infer_read_full(struct td_infer *in, struct td_problem *problem);
int td_infer_read_expr(struct td_infer *in, struct td_problem *problem);
int td_infer_read_parameter(struct td_infer *in, const cJSON *item, struct td_problem *problem);
/* The operator's parameter that is called so, by ATen or elsewhere; name itself where it has none.
 */
const char *td_infer_param(const struct td_infer *in, const char *name);
int td_infer_add(struct td_infer *in, const char *name, const struct td_value *value,
                 td_keyset keys, struct td_problem *problem);

/* A tensor object, into v->tensor, and the keys that it brings. name: as which argument, NULL: the
 * next by position; who: for sentences. What td_infer_read says. */
int td_infer_input(struct td_infer *in, const cJSON *object, const char *name, const char *who,
                   struct td_value *v, td_keyset *keys, struct td_problem *problem);

/* A stored tensor as the next argument; object may say shape and datatype, which are compared.
 * -EINVAL, -ENOENT. */
int td_infer_stored(struct td_infer *in, const cJSON *object, const char *tensor, const char *who,
                    struct td_value *v, struct td_problem *problem);

/* "shape", with the names of unknown sizes. */
void td_infer_write_shape(const struct td_infer *in, struct td_writer *w,
                          const struct td_tensor *t);

/* Whether a name is that of a port as replies write it: a byte that is no UTF-8 is U+FFFD there. */
bool td_infer_is_port(const char *port, const char *name);

/* ---- infer.c ---- */

/* Runs the bound call, or has it run. 0 or -EINPROGRESS, as a handler. */
int td_infer_start(struct td_infer *in);

/* ---- session.c; sentences go to run.problem ---- */

#define TD_SESSION_PARAMETERS                                                                      \
    "session", "session_start", "session_end", "session_step", "session_wait_ms", "sequence_id",   \
        "sequence_start", "sequence_end"
/* Reads the parameter when it is one of a session. *err: 0, -EINVAL or -ENOMEM. */
bool td_infer_session_parameter(struct td_infer *in, const cJSON *item, int *err,
                                struct td_problem *problem);
/* Has the session that the call names, if it names one. -EINPROGRESS: it waits, and goes on as
 * session.job says. -EINVAL, -ENOENT, -EBUSY, -ENOSPC, -ENOMEM. */
int td_infer_take_session(struct td_infer *in);
/* Of one that is taken: what it goes on from, and with which model. -EBUSY: it is at another step.
 */
int td_infer_enter_session(struct td_infer *in);
/* Gives those inputs that are state, and that the client has left out, their contents. -EINVAL,
 * -ENOMEM. */
int td_infer_fill_states(struct td_infer *in);
/* Keeps what the run has made of the states, and makes it the session's: the first may fail, and
 * nothing has changed then; with the second, which cannot, the session is free. -EINVAL, -ENOMEM,
 * -ENOSPC. */
int td_infer_prepare_step(struct td_infer *in);
void td_infer_commit_step(struct td_infer *in);
/* The session is as it was, and free: to be called before any answer. */
void td_infer_leave_session(struct td_infer *in);

/* ---- query.c ---- */

/* Has what the query says in in->asked. -EINVAL, -ENOMEM. */
int td_infer_parse_query(struct td_infer *in, struct td_problem *problem);
/* Reads the parameters there. -EINVAL, -ENOENT, -ENOMEM. */
int td_infer_read_query(struct td_infer *in, struct td_problem *problem);

/* ---- npy.c ---- */

/* The body is a .npy: it is the first tensor argument, or the model's only input. -EINVAL, -ENOMEM.
 */
int td_infer_read_npy(struct td_infer *in, struct td_problem *problem);
/* Whether a .npy can hold what is to be sent: one result of a type that it has. -EINVAL, in
 * run.problem. */
int td_infer_check_npy(struct td_infer *in);

/* ---- read/lists.c ---- */

/* A list of numbers or of bools. -EINVAL. */
int td_infer_read_list(const cJSON *item, const char *who, struct td_value *v,
                       struct td_problem *problem);
/* Makes one argument of the tensors that are called as elements of a list. -ENOMEM. */
int td_infer_gather_lists(struct td_infer *in, struct td_problem *problem);

/* ---- plain.c ---- */

/* dtype: none: the values say. -EINVAL, -ENOMEM. */
int td_infer_read_plain(struct td_infer *in, const cJSON *item, const char *who,
                        enum td_dtype dtype, struct td_tensor *t, struct td_problem *problem);
void td_infer_write_plain(struct td_writer *w, const struct td_tensor *t);
/* Nested arrays, of which leaf writes the innermost, of rank 1, or a tensor of rank 0. */
typedef void td_infer_leaf(struct td_writer *w, const struct td_tensor *t, void *arg);
void td_infer_write_nested(struct td_writer *w, const struct td_tensor *t, td_infer_leaf *leaf,
                           void *arg);

/* ---- read/short.c ---- */

/* Writes the reply up to its parameters. */
void td_infer_write_brief(struct td_infer *in, struct td_writer *w);

/* Texts of a model, which it knows by numbers: texts.c. An input's tensor object, or a plain array
 * of them: their numbers, in the request's arena. -EINVAL, -ENOMEM. */
int td_infer_read_texts(struct td_infer *in, const cJSON *item, const char *who,
                        const struct td_model_port *port, struct td_tensor *t,
                        struct td_problem *problem);
/* Whether output i is of texts; its type's name, "BYTES" then; and they, in arrays of one dimension
 * each, or one after the other. */
bool td_infer_gives_texts(const struct td_infer *in, int i);
const char *td_infer_type_name(const struct td_infer *in, int i);
void td_infer_write_texts(const struct td_infer *in, struct td_writer *w, const struct td_tensor *t,
                          bool nested);

/* ---- bind.c ---- */

/* What binding says. */
int td_infer_bind_operator(struct td_infer *in);

/* ---- call_cache.c ---- */

/* Takes the call that an earlier request with the same JSON has bound, in place of reading and
 * binding. False: there is none, or something else is amiss; read it. */
bool td_infer_replay(struct td_infer *in);
/* Keeps the bound call, before its outputs have places, for requests with the same JSON. */
void td_infer_keep(struct td_infer *in);

/* ---- ports.c ---- */

/* The input that is called so, or NULL; and what the inputs are, "x FP32 [-1,3], ...". */
const struct td_model_port *td_infer_find_port(const struct td_infer *in, const char *name);
const char *td_infer_list_ports(const struct td_infer *in);
/* The sentence for a name that no input has. */
int td_infer_no_port(const struct td_infer *in, const char *name, struct td_problem *problem);

/* ---- model.c; sentences go to run.problem ---- */

/* In place of binding: judges the inputs against the model's, and makes its outputs. -EINVAL,
 * -ENOMEM. */
int td_infer_bind_model(struct td_infer *in);
/* Runs it on a worker, or without one on the HTTP thread; its outputs lie where it left them. stop:
 * who may stop it. What td_model_run says. */
int td_infer_run_model(struct td_infer *in, struct td_worker *worker, const struct td_stop *stop);
void td_infer_free_results(struct td_infer *in);
double td_infer_model_cost(const struct td_infer *in); /* of a run; INFINITY: nobody knows */
void td_infer_write_model(const struct td_infer *in, struct td_writer *w, const char *key);

/* ---- reply/outputs.c; sentences go to run.problem ---- */

/* What is called, for sentences. */
static inline const char *td_infer_called(const struct td_infer *in)
{
    return in->served ? in->model : in->run.handle->full;
}
/* Makes the bound call's outputs, without places yet. -ENOMEM. */
int td_infer_begin_outputs(struct td_infer *in);
/* Does that, names the outputs, and settles the form of each. -EINVAL, -ENOMEM. */
int td_infer_outputs(struct td_infer *in);
/* Whether the size of output i is known only when it has been computed. */
static inline bool td_infer_is_counted(const struct td_infer *in, int i)
{
    return in->served || in->run.call.counted >> i & 1;
}

/* Memory for the stored outputs but counted ones; for the worker, since it is touched here.
 * -ENOMEM. */
int td_infer_place_stored(struct td_infer *in);
/* Counted results have their sizes: has binary outputs stand together again. */
void td_infer_close_gaps(struct td_infer *in);
/* Gives the stored outputs their names. -EBUSY, -ENOMEM. */
int td_infer_store(struct td_infer *in);
/* The reply's JSON up to its parameters: model and outputs. */
void td_infer_write_front(struct td_infer *in, struct td_writer *w);

/* ---- reply/buffers.c ---- */

/* Gives the outputs memory, and the reply's JSON. Those of a model are there, and go where the
 * client wants them. -EINVAL, -ENOMEM, in run.problem. */
int td_infer_place(struct td_infer *in);
size_t td_infer_reply_bytes(const struct td_infer *in); /* that the reply may then have */
void td_infer_reply(struct td_infer *in);               /* makes it */

/* ---- read/options.c: what the client says to the dispatcher ---- */

/* meta, device and layout, which are wanted before the tensors are read. */
int td_infer_key_defaults(struct td_infer *in, const cJSON *parameters, struct td_problem *problem);
/* Whether an input with these parameters (may be NULL) is asked for its shape alone. */
bool td_infer_is_meta(const struct td_infer *in, const cJSON *parameters);
/* Reads the parameter when it is one for the dispatcher: trace, autocast, ... *err: 0 or -EINVAL.
 */
bool td_infer_key_parameter(struct td_infer *in, const cJSON *item, int *err,
                            struct td_problem *problem);
/* The keys of an input, from its own parameters (may be NULL) and the call's. */
int td_infer_keys(struct td_infer *in, const cJSON *parameters, const struct td_tensor *t,
                  const char *who, td_keyset *keys, struct td_problem *problem);

/* ---- explain.c: what it says back ---- */

/* Writes the reply's parameters, explain and trace among them where asked for; in a brief reply
 * only where one of these was. */
void td_infer_write_parameters(struct td_infer *in, struct td_writer *w);
/* Notes for the log what has been computed, and where. */
void td_infer_note_trail(struct td_infer *in);
/* What the log says of a call that took long: td_request.explain_. */
const char *td_infer_explain(struct td_request *req);
/* The reply to a call that no kernel takes: the operator's computed table. */
int td_infer_no_kernel(struct td_infer *in);

/* ---- tune.c ---- */

/* What td_infer_start does, for a call whose kernels are to be timed. */
int td_infer_tune(struct td_infer *in);

#endif
