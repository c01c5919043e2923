/* The HTTP interface without HTTP: a request comes in as a struct, a response goes out as one, and
 * what lies between is routes.def and a function a route. Handlers never see a socket; tests call
 * them directly.
 *
 * Errors are 0 or a negative errno; problems.def says which status each becomes. */
#ifndef TD_API_H
#define TD_API_H

#include "dispatch/dispatch.h"
#include "pools/pools.h"

#include <stdatomic.h>

/* ---- what all requests share: built by main, in this order, and torn down in reverse ---- */

struct td_limits {
    size_t body;          /* bytes of a request body; 256 MiB */
    size_t headers;       /* bytes of the header block; 32 KiB */
    int json_depth;       /* 32 */
    int task_ttl_s;       /* seconds for which the result of a task is kept; 60 */
    int tasks;            /* at a time, kept results included; 1024 */
    size_t task_bytes;    /* that their results may have of td_memory */
    size_t store_bytes;   /* and stored tensors with all their forms, and models */
    size_t session_bytes; /* and sessions */
    int session_ttl_s;    /* for which one is kept that nobody calls; 600 */
    int timeout_ms;       /* of calls that do not say; 0: none; 300,000 */
};

struct td_tensors;    /* the stored tensors, by name: api/tensors/store.c */
struct td_models;     /* the models, by name: api/models/store.c */
struct td_sessions;   /* what models remember for clients: api/sessions/store.c */
struct td_metrics;    /* counters and histograms: api/metrics/metrics.c */
struct td_shm;        /* regions of clients' shared memory: api/shm/shm.c */
struct td_task_table; /* calls answered 202, and their results: api/tasks/table.c */
struct td_asset;      /* a text kept compressed: api/web/web.h */
struct td_access;     /* who may do what: api/access/access.h */
struct td_token;      /* of a client */
struct td_json_cache; /* JSON texts that come again: api/json/text_cache.c */

/* Whose shared memory is taken; auto: that of clients on the same machine. */
enum td_shm_clients { TD_SHM_auto, TD_SHM_on, TD_SHM_off };

/* What the server in front does and counts while it runs; the api counts its tasks with it. */
struct td_front {
    atomic_bool starting; /* until all addresses are listened on and models are loaded: not ready */
    atomic_bool draining; /* set on SIGTERM: not ready any more */
    atomic_int in_flight; /* requests begun and not yet replied to, and tasks that are not done */
    /* How often an HTTP thread's wait for events ended while it polled, and in sleep. */
    atomic_ullong io_polls, io_sleeps;
    /* Requests that the log has left out, and lines for which it had no room or no reader. */
    atomic_ullong log_skipped, log_lost;
};

struct td_service {
    struct td_topology *topology; /* borrowed */
    struct td_pools *pools;       /* borrowed */
    struct td_limits limits;
    enum td_shm_clients shm_clients;
    struct td_front front;
    const char *choices; /* the file of measured choices (--choices), borrowed; NULL or "": none */
    bool insecure;       /* others than this machine may reach it, and are asked for no token */
    struct {
        bool files, calls; /* the process can open, and call, what it needs and nothing else */
    } sandbox;
    bool certificates; /* clients are asked for a certificate: that or, where there are tokens, a
                          token's secret */
    _Atomic int64_t certificate_ends; /* when the server's own ends, in seconds of the clock; 0:
                                         there is none */
    /* Made by td_service_guard; NULL: nobody is asked for a token. */
    struct td_access *access;
    /* Made by td_service_init: */
    struct td_tensors *tensors;
    struct td_models *models;
    struct td_sessions *sessions;
    struct td_metrics *metrics;
    struct td_shm *shm;
    struct td_task_table *tasks;
    struct td_json_cache *json_cache;
    /* The description of the API in its two forms, once asked for: api/openapi/openapi.c */
    _Atomic(struct td_asset *) described_[2];
    void *fixed_; /* replies that never change, formatted once: api/routes/fixed.c */
};

/* Fills the api's part of a service whose topology, pools, limits and shm_clients are set, and has
 * SIGBUS handled for clients' shared memory. -ENOMEM. */
int td_service_init(struct td_service *service);
void td_service_fini(struct td_service *service);

/* From now on requests need the tokens of that file (api/access/access.h). -EINVAL, -ENOMEM, with
 * the sentence. */
int td_service_guard(struct td_service *service, const char *tokens, struct td_problem *problem);

/* Loads the models of a directory: NAME.onnx, NAME.pt2 and NAME/VERSION/model.onnx or model.pt2, of
 * which the highest version; what is left when the service drains is left out. say: told of each
 * what became of it. How many could not be loaded, or -errno: the directory cannot be read. */
int td_api_load_models(struct td_service *service, const char *directory,
                       void (*say)(const char *sentence));

/* Reads what earlier processes have measured on such a machine from service->choices, before there
 * are calls. say: is told what was read, or why the file is ignored. -ENOMEM. And writes what has
 * been measured since, from any thread: 1; 0: there is nothing new, or no file; -errno, with the
 * sentence. */
int td_api_load_choices(struct td_service *service, void (*say)(const char *sentence));
int td_api_keep_choices(struct td_service *service, struct td_problem *problem);

/* ---- requests and responses ---- */

enum td_method { TD_GET, TD_POST, TD_PUT, TD_DELETE, TD_HEAD, TD_OPTIONS, TD_METHODS };

struct td_route;
struct td_request;

struct td_header {
    const char *name, *value; /* borrowed, or in the request's arena */
};

#define TD_MAX_HEADERS 6

/* A reply that is made while it is sent: request/stream.c. create: with a reference for each side,
 * which append and end, and read and close, are of; NULL: out of memory. */
struct td_stream;
struct td_stream *td_stream_create(void);
/* From any thread; false: nobody reads any more, or there is no memory. */
bool td_stream_append(struct td_stream *stream, const char *text, size_t size);
void td_stream_end(struct td_stream *stream);
/* How many bytes, -1 behind the last. 0: there are none yet; hold has been called, and wake will
 * be, once, from another thread. */
long td_stream_read(struct td_stream *stream, char *to, size_t room, void (*hold)(void *reader),
                    void (*wake)(void *reader), void *reader);
void td_stream_close(struct td_stream *stream);

struct td_response {
    int status;       /* HTTP's; 0 until somebody has set it */
    const char *type; /* Content-Type; a constant */
    const void *body; /* in the request's arena, or constant */
    size_t size;
    struct td_stream *stream;                /* borrowed, in place of a body; or NULL */
    struct td_header header[TD_MAX_HEADERS]; /* further ones, up to the first without name */
    bool constant;       /* the body is the same whenever there is one at its place, as long as the
                            service lives: what the server makes of it can be kept */
    const char *problem; /* its type (problems.def); NULL when all went well */
};

struct td_trail {   /* what became of a call; the texts are borrowed until td_api_end */
    const char *op; /* the operator or expression that was asked for; NULL: it was no call of one */
    const char *model;   /* the model, or NULL */
    const char *session; /* that it was a step of, or NULL */
    int64_t step;        /* which */
    const char *pool;
    const struct td_impl
        *impl; /* of the kernel that ran; NULL: none did, and the rest is not set */
    enum td_isa isa;
    enum td_dtype compute_type; /* none: several */
    int64_t queue_ns, compute_ns;
};

#define TD_MAX_VARS 2

struct td_request { /* lives in its own arena */
    struct td_service *service;
    struct td_arena *arena;
    /* Set by the server before td_api_begin: */
    enum td_method method;
    const char *path;                  /* as sent: percent-escapes kept, without the query */
    const char *query;                 /* after the '?', "" when none */
    const char *content_type, *prefer; /* header values or NULL */
    const char *json_length_text;      /* Inference-Header-Content-Length or NULL */
    const char *authorization;         /* the first of so many, or NULL */
    int authorizations;
    const char *certificate; /* the common name in the client's certificate, "" if it has none;
                                NULL: no certificate */
    const char *untrusted;   /* why the client's certificate was refused, or NULL */
    uint64_t content_length; /* UINT64_MAX when unknown (chunked) */
    int64_t begin_ns;        /* CLOCK_MONOTONIC when its head had come */
    const char
        *beside; /* where the file lies that the body is, for one who may read there; else NULL */
    bool local;  /* only the same machine can reach where it came in, and no proxy said more */
    const char *home;     /* the name of the pool on whose CPU the calling thread sits, or NULL:
                             small calls for it may be run at once */
    struct td_busy *busy; /* borrowed, that thread's own, or NULL */
    /* To be called by a handler before the request may be seen by another thread; from then on only
       reply sends the response, once, from any thread, and the handler returns -EINPROGRESS. */
    void (*defer)(struct td_request *req);
    void (*reply)(struct td_request *req);
    /* Looks a header up that few handlers ask for, before the request is deferred; NULL when there
     * is none. Itself NULL: no request has headers here. */
    const char *(*header)(struct td_request *req, const char *name);
    /* Set by td_api_begin: */
    const struct td_route *route;
    struct td_token *token;       /* whose it is, a reference; NULL: none is asked for */
    size_t flight_;               /* bytes that count for the token */
    const char *var[TD_MAX_VARS]; /* the route's {variables}, unescaped */
    int64_t json_length;          /* bytes of JSON at the body's start; -1: all of it */
    /* Set by the server before td_api_handle: */
    char *body; /* in the arena. When json_length is given, body + json_length is 64-byte
                   aligned (see td_api_body), so that binary tensors are used in place */
    size_t body_size;
    struct td_response response;
    struct td_trail trail;
    struct td_worker *worker; /* borrowed; the one that runs the handler, the request then being
                                 deferred already and replied to in its place; NULL: none does */
    struct td_stop stop;      /* what is computed for it obeys */
    /* Borrowed, or NULL: set by the server once the client has closed its side and the request has
       waited for a second. The client may have gone, or wait for the response all the same: what is
       computed already goes on, nothing begins. */
    const atomic_bool *gone;
    /* Whether its client has yet to read more than it may have under way, which the response then
       says: to be asked before anything begins. NULL: nobody reads the reply as it is made. */
    bool (*crowded)(struct td_request *req);
    void *call_; /* the handler's own, between its return and the reply */
    void (*release_)(struct td_request *req); /* frees what call_ holds, once the reply is sent */
    /* Why the kernel that ran was chosen, as JSON in the arena; NULL, or gives NULL: none has. */
    const char *(*explain_)(struct td_request *req);
};

/* Looks at a request whose headers are there and whose body is not: finds the route, judges method,
 * length and header values. 0, or the response is filled with the error (the server then drops
 * the body) and -1. */
int td_api_begin(struct td_request *req);

/* The longest body that the request's route takes. */
size_t td_api_body_limit(const struct td_request *req);

/* Room for a body of size bytes in the arena, placed as req->body says, of which td_api_body_fill
 * counts what is written: to be asked before the first size bytes are (-ENOMEM), and the last time
 * for all of the body. NULL when out of memory. td_api_body_drop: it is not needed any more. */
char *td_api_body(struct td_request *req, size_t size);
int td_api_body_fill(struct td_request *req, char *body, size_t size);
void td_api_body_drop(struct td_request *req, char *body);

/* Answers a request whose body is there. 0: req->response is filled. -EINPROGRESS: it will be, and
 * req->reply(req) called by a worker, perhaps already. Nothing else. */
int td_api_handle(struct td_request *req);

/* Gives the response, which is there, the form that the client asked of any: before it is sent. */
void td_api_finish(struct td_request *req);

/* To be called once the response has been sent or given up, before the arena goes. */
void td_api_end(struct td_request *req, int64_t now_ns);

/* ---- tokens, of a service with td_service_guard: api/access/ ---- */

/* Reads the file again if it is another one than the last time, or in any case. 1: its tokens hold
 * from the next request on; 0: nothing has changed; negative, with the sentence: the old ones stay.
 * By one thread at a time. */
int td_access_refresh(struct td_access *access, bool in_any_case, struct td_problem *problem);

/* SHA-256 as hex digits: by which a token's secret, and a model's file, are known again. */
void td_digest(const void *bytes, size_t size, char hex[65]);

/* Returns the number of tokens in the file at path, for commands, which have no service. Its owner
 * and mode do not matter. called is the path in the sentence. -EINVAL, -ENOMEM. */
int td_access_try(const char *path, const char *called, struct td_problem *problem);

struct td_access_stats {
    int tokens;
    int64_t read, not_read; /* how often the file was, and was not, taken */
    int64_t missing, unknown, expired, lacking, limited; /* requests refused, by the reason */
};
void td_access_stats(struct td_access *access, struct td_access_stats *stats);

/* For a head that is known to be that of a request with this token, or none, and of the same route,
 * in place of td_api_begin; takes a new reference. False: the token holds no longer, and the head
 * is to be judged. */
bool td_access_take(struct td_request *req, struct td_token *token);
struct td_token *td_token_ref(struct td_token *token); /* NULL is fine, in both */
void td_token_unref(struct td_token *token);
/* To be asked for each request with a token, once: its rate. -EDQUOT with the response filled. */
int td_access_enter(struct td_request *req);
/* The request holds so many bytes of bodies and replies, of all that the token may have under way.
 * -EDQUOT, -EMSGSIZE, with the response filled, and then it holds what it did; note: in any case.
 */
int td_access_hold(struct td_request *req, size_t bytes);
void td_access_note(struct td_request *req, size_t bytes);
/* Whether noted replies have led the token beyond that limit; if so, the response is filled. */
bool td_access_is_crowded(struct td_request *req);
void td_access_leave(struct td_request *req); /* holds nothing any more, and has no token */
/* Its token's name, or NULL. */
const char *td_access_token(const struct td_request *req);

/* ---- for handlers ---- */

typedef int td_handler(struct td_request *req, struct td_response *res);

/* What a token must be allowed for a route: see routes.def. */
enum td_access_scope {
    TD_SCOPE_open,
    TD_SCOPE_any,
    TD_SCOPE_read,
    TD_SCOPE_run,
    TD_SCOPE_store,
    TD_SCOPE_admin,
    TD_SCOPES
};
const char *td_access_scope_name(enum td_access_scope scope); /* of read and those behind it */

struct td_route {
    enum td_method method;
    const char *pattern; /* "/v1/tensors/{name}"; {name*} takes the rest of the path; behind
                            a ? the query's parameters, split by & */
    enum td_body_size { TD_BODY_small, TD_BODY_any } body; /* how long it may be; see routes.def */
    enum td_access_scope scope;
    td_handler
        *handler; /* 0, -EINPROGRESS, or a negative errno that td_api_problem has explained */
};
extern const struct td_route td_routes[]; /* from routes.def, ended by a row without handler */

/* Fills res with the problem for a negative errno (problems.def) and gives it back. */
int td_api_problem(struct td_request *req, int error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* One fixed JSON text as the response. */
int td_api_text(struct td_response *res, int status, const char *type, const char *text);

#endif
