/* Connections whose requests do not keep arriving, or whose replies are not read, are cut off; idle
 * ones are closed, all of them when the server drains. Each HTTP thread has a watch of its own.
 * Internal to server/. */
#ifndef TD_SERVER_WATCH_H
#define TD_SERVER_WATCH_H

#include "server/http/peers.h"
#include "server/tls/tls.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum td_phase {                  /* of a connection */
                TD_PHASE_waits,  /* for a request, of which there may be some bytes */
                TD_PHASE_head,   /* its request line is there */
                TD_PHASE_body,   /* its head is there */
                TD_PHASE_works,  /* the server has it */
                TD_PHASE_sends,  /* the reply is on its way */
                TD_PHASE_closes, /* our side is shut; what still comes is not answered */
};

struct td_client { /* one connection */
    struct td_client *next, *last;
    struct td_client *next_heard, *last_heard; /* in td_watch.heard, or NULL */
    int fd;
    enum td_phase phase, seen;       /* now, and at the last look */
    struct sockaddr_storage address; /* where it comes from */
    bool loopback;                   /* that is this machine */
    bool half;                       /* the client's side has ended, as far as was heard */
    bool ended;                      /* at the last look nothing was left to read */
    atomic_bool gone;                /* it has closed its side while the server has its request */
    int64_t phase_ns;                /* when the phase began */
    int64_t since_ns;                /* the same; from the first look on, the last window's begin */
    uint64_t received, heads;        /* bytes of bodies, and of heads */
    bool chunked;                    /* there were bytes that are neither */
    uint64_t moved, at_end; /* of what counts: at the window's begin, and at the last look */
    struct td_peer *peer;   /* the address, or NULL; the server's own */
    void *tls;              /* its session, or NULL */
    struct td_tls_hook handshake;
    uint64_t before; /* under TLS: encrypted bytes up to the end of the last request, or of the
                        handshake; 0: that goes on */
    void *exchange;  /* the server's own: the request, or NULL */
    bool judged;     /* it has been asked for its certificate */
    char *certificate,
        *untrusted; /* the name in it; or what is wrong with it; NULL: it is not so */
    struct td_http_repeat *repeat; /* and its last head, or NULL; freed with the connection */
};

struct td_watch_limits {
    int idle_s;     /* how long a connection may be silent, and a head may take */
    int transfer_s; /* how long a body may take to arrive, and a reply to be read; 0: for ever */
    int most;       /* connections; 0: any number */
};

struct td_watch {
    struct td_client waiting, active,
        closing;            /* rings; of waiting and closing the oldest is next */
    struct td_client heard; /* a ring: those that wait and may have begun a request */
    int events;             /* an epoll descriptor: who has sent something of late */
    struct td_peers *peers; /* borrowed, or NULL */
    int64_t idle_ns, transfer_ns, look_ns; /* look_ns: when to look again */
    int64_t drain_ns;                      /* when draining began, or 0 */
    int64_t answered_ns; /* when the first request was answered since ends were looked for, or 0 */
    size_t refused;      /* td_memory's at the last look */
    int n, most;         /* connections */
};

/* -errno: no descriptor. peers: may be NULL. */
int td_watch_init(struct td_watch *watch, const struct td_watch_limits *limits,
                  struct td_peers *peers);
void td_watch_fini(struct td_watch *watch);

/* A connection has come (NULL: out of memory), and goes: to be removed before its fd is closed.
 * When there are as many as there may be, one that is idle is closed for the next. */
struct td_client *td_watch_add(struct td_watch *watch, int fd, int64_t now);
void td_watch_remove(struct td_watch *watch, struct td_client *client);

void td_watch_phase(struct td_watch *watch, struct td_client *client, enum td_phase phase,
                    int64_t now);

/* Nanoseconds from now until it must look; negative: as long as nothing happens, never. */
int64_t td_watch_due(const struct td_watch *watch, int64_t now);
/* Shuts the sockets down that are too slow: their HTTP thread then sees the end of the stream and
 * frees them in its own way. Idle ones are shut on our side first, so that a request that is on its
 * way meets no reset (RFC 9112, 9.6). */
void td_watch_look(struct td_watch *watch, int64_t now);
/* From now on what is idle is closed soon, but not at once: a client that has just been answered
 * sends its next request, and is told with the answer that it was the last. */
void td_watch_drain(struct td_watch *watch, int64_t now);

/* One of those that wait which is in the middle of a request's first line, as far as TCP knows, or
 * NULL. n: how many there are, 2 for more. */
struct td_client *td_watch_begun(struct td_watch *watch, int *n);

#endif
