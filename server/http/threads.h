/* What the files of http.c share: the threads, and the callbacks that libmicrohttpd makes on them.
 * Internal to these. */
#ifndef TD_SERVER_HTTP_THREADS_H
#define TD_SERVER_HTTP_THREADS_H

#include "server/http/http.h"
#include "server/http/listen.h"
#include "server/http/watch.h"

#include <microhttpd.h>
#include <pthread.h>

#define TD_MAX_HTTP_THREADS 64
#define TD_HTTP_PACE_NS 800000 /* between pieces of big replies, where small calls come as well */

#define TD_ID_HEADER "X-Request-Id"
#define TD_TRACE_HEADER "traceparent"
#define TD_ID_SIZE 17  /* bytes of an id of ours, with the 0 */
#define TD_HTTP_KEPT 2 /* there are so many constant bodies */

struct td_http_held { /* a reply that waits for its turn, with its connection suspended */
    struct td_http_held *next;
    struct MHD_Connection *connection;
};

struct td_http_line { /* a request's first line, in libmicrohttpd's buffer */
    const char *method, *target, *version;
    size_t size; /* of target, with the query */
    bool target_is_right;
    const char *end; /* behind the empty line after the last header */
    bool loopback;   /* it came over loopback */
    bool over_ip;    /* or over another network; else by a Unix socket */
};

struct td_http_head {   /* what the server itself makes of a head */
    const char *origin; /* the page's that sent it, which is to be allowed the reply; or NULL */
    const char *id;     /* the client's, or the exchange's own */
    const char *trace;  /* traceparent, or NULL */
    bool preflight;     /* the page asks what it may send */
    bool must_close;    /* nobody can tell where the next request begins */
};

struct td_http_thread { /* the fields without comment are its own */
    struct td_http *http;
    struct MHD_Daemon *daemon;
    unsigned silent_s; /* the daemon's timeout, or 0: it has none */
    pthread_t thread;
    bool runs;           /* thread was created */
    atomic_bool asleep;  /* cleared by who wakes it */
    atomic_uint replies; /* of workers, counted after each has resumed its connection */
    unsigned replies_seen;
    bool again;              /* a connection has gone: the daemon, when it runs, may listen again */
    int epoll, wake;         /* the daemon's descriptor, and the one that ends the thread's sleep */
    struct td_busy busy;     /* each run of the daemon is one thing; see td_pools_seat */
    char home[TD_POOL_NAME]; /* the pool on whose CPU it sits, or "" */
    int part, parts;         /* on which of them: td_pool_cpu */
    struct td_arena *spare;  /* of the last request, for the next; the thread's own, or NULL */
    atomic_int handling;     /* requests that are with a worker */
    /* When it last took a call with a small answer, sent a piece of much, and had to share its CPU.
     */
    int64_t small_ns, piece_ns, contended_ns, lost_ns; /* lost_ns: what sharing it took */
    /* How long it last waited for events; when it may poll again, and how long it does not. */
    int64_t pause_ns, poll_from_ns, rest_ns;
    unsigned long long callbacks; /* that libmicrohttpd has made */
    unsigned long long futile;    /* runs of the daemon since the last one */
    struct td_watch watch;
    int64_t drain_ns;      /* when it was first seen that the server drains, or 0 */
    bool deaf;             /* its daemon listens no longer */
    atomic_bool drained;   /* and has no connection */
    char host[64];         /* the last one that was taken */
    bool host_of_loopback; /* over loopback, so it is everywhere */
    uint64_t ids;          /* the last one that was made */
    struct td_log_turn turn;
    struct td_http_kept { /* a response that does not change but for its id, which lies at id */
        const void *body;
        struct MHD_Response *response;
        char *id;
    } kept[TD_HTTP_KEPT];
    int64_t now_ns;                         /* when the daemon was run or, since, a request done */
    struct td_http_held *held, **last_held; /* in the order of their turns */
};

struct td_http {
    struct td_service *service;
    struct td_http_config config;
    struct td_http_thread thread[TD_MAX_HTTP_THREADS];
    int n_threads;
    struct td_listener listener;
    struct td_tls *tls; /* borrowed; NULL: it is plain */
    struct td_peers peers;
    char address[160];
    int64_t spin_ns;      /* how long threads poll for events before they sleep */
    atomic_bool draining; /* td_http_drain has been called */
    atomic_bool closing;  /* no request is handled any more */
    atomic_bool stopping; /* the threads are to end */
};

/* The request's response with its body, without headers. NULL: no memory. */
struct MHD_Response *td_http_body(struct td_http_thread *thread, struct MHD_Connection *connection,
                                  const struct td_request *req);
/* To be called from a content reader, which then returns 0: the reply waits for its turn. */
void td_http_hold(struct td_http_thread *thread, struct td_http_held *held);
/* A connection of the thread has been resumed; from any thread. */
void td_http_wake(struct td_http_thread *thread);
/* While the server drains, on each turn of the thread: see drain.c. */
void td_http_drain_turn(struct td_http_thread *thread, int64_t now);
#define TD_HTTP_DRAIN_NS 20000000 /* between two turns */
/* Its daemon listens no longer; what is in the queue of its socket, if no other has that, is lost.
 */
void td_http_deafen(struct td_http_thread *thread);
/* Starts the thread that runs the daemon, and ends it once http->stopping is set; a thread that was
 * not started is fine. -EIO, -EAGAIN. */
int td_http_thread_start(struct td_http_thread *thread);
void td_http_thread_join(struct td_http_thread *thread);
/* Notes the path and query, which libmicrohttpd takes apart afterwards. */
void td_http_line_begin(struct td_http_line *line, const char *target);
/* Fills req with what the server reads of its head. 0, or the negative errno that td_api_problem
 * has explained. req: method, path and query are set; line: as the head came. */
int td_http_head_judge(struct td_http_thread *thread, struct MHD_Connection *connection,
                       const struct td_http_line *line, struct td_request *req,
                       struct td_http_head *head);
/* Notes what was made of a right head; *repeat: the connection's, NULL at first, to be freed. */
void td_http_repeat_keep(struct td_http_repeat **repeat, struct MHD_Connection *connection,
                         const struct td_http_line *line, const struct td_request *req,
                         const struct td_http_head *head);
/* It is no head any more; its memory stays. NULL is fine. */
void td_http_repeat_forget(struct td_http_repeat *repeat);
/* Whether what follows the request line, to the head's end, is that head's again: to be asked while
 * libmicrohttpd has not touched it. repeat: may be NULL. target: in its buffer. */
bool td_http_repeat_is(const struct td_http_repeat *repeat, const char *target);
/* Where that is so, whether the request line is the same too; req and head are then filled as
 * td_http_head_judge and td_api_begin would. */
bool td_http_repeat_take(const struct td_http_repeat *repeat, const struct td_http_line *line,
                         struct td_request *req, struct td_http_head *head);
/* The callback of MHD_OPTION_URI_LOG_CALLBACK; cls: the thread. A request begins; what it returns
 * becomes the request's context. */
void *td_http_on_target(void *cls, const char *target, struct MHD_Connection *connection);
/* MHD_AccessHandlerCallback; cls: the thread. */
enum MHD_Result td_http_on_request(void *cls, struct MHD_Connection *connection, const char *url,
                                   const char *method, const char *version, const char *data,
                                   size_t *size, void **context);
/* MHD_RequestCompletedCallback: the response has been sent, or the connection is lost. */
void td_http_on_completed(void *cls, struct MHD_Connection *connection, void **context,
                          enum MHD_RequestTerminationCode code);
/* MHD_AcceptPolicyCallback; cls: the thread. */
enum MHD_Result td_http_on_accept(void *cls, const struct sockaddr *from, socklen_t size);
/* MHD_NotifyConnectionCallback; cls: the thread. */
void td_http_on_connection(void *cls, struct MHD_Connection *connection, void **context,
                           enum MHD_ConnectionNotificationCode code);
/* Whether a request (td_client.exchange) whose head we have not been given has come with all of it.
 */
bool td_http_head_is_there(void *exchange);
/* MHD_LogCallback; cls: the thread. */
void td_http_on_log(void *cls, const char *format, va_list args);
/* UnescapeCallback that leaves the text as it is: the router unescapes, segment by segment. */
size_t td_http_keep_escapes(void *cls, struct MHD_Connection *connection, char *text);
/* Lets others have the CPU at time before; when it is back. Whether others wanted it of late. */
int64_t td_http_yield(struct td_http_thread *thread, int64_t before);
bool td_http_is_contended(const struct td_http_thread *thread, int64_t now);

/* ---- id.c ---- */

/* An id for a request whose client gave none; id, filled. */
const char *td_http_id_make(struct td_http_thread *thread, char id[TD_ID_SIZE]);
/* What came as X-Request-Id and as traceparent, or NULL where that is none or cannot be one. */
const char *td_http_id_judge(const char *id);
const char *td_http_trace_judge(const char *trace);

#endif
