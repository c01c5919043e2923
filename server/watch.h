/* Connections whose requests do not keep arriving, or whose replies are not read, are cut off. Each
 * HTTP thread has a watch of its own. Internal to server/. */
#ifndef TD_SERVER_WATCH_H
#define TD_SERVER_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

enum td_phase {                 /* of a connection */
                TD_PHASE_waits, /* for a request, of which there may be some bytes */
                TD_PHASE_head,  /* its request line is there */
                TD_PHASE_body,  /* its head is there */
                TD_PHASE_works, /* the server has it */
                TD_PHASE_sends, /* the reply is on its way */
};

struct td_client { /* one connection */
    struct td_client *next, *last;
    int fd;
    enum td_phase phase, seen;       /* now, and at the last look */
    struct sockaddr_storage address; /* where it comes from */
    bool loopback;                   /* that is this machine */
    bool ended;                      /* at the last look nothing was left to read */
    atomic_bool gone;                /* it has closed its side while the server has its request */
    int64_t since_ns;                /* of the phase; from the first look on, of the last window */
    uint64_t received, heads;        /* bytes of bodies, and of heads */
    bool chunked;                    /* there were bytes that are neither */
    uint64_t moved, at_end;        /* of what counts: at the window's begin, and at the last look */
    void *exchange;                /* the server's own: the request, or NULL */
    struct td_http_repeat *repeat; /* and its last head, or NULL; freed with the connection */
};

struct td_watch {
    struct td_client waiting, active; /* rings; of waiting ones the oldest is next */
    int64_t idle_ns, look_ns;         /* look_ns: when to look again */
    int n;                            /* connections */
};

void td_watch_init(struct td_watch *watch, int idle_s);

/* A connection has come (NULL: out of memory), and goes: to be removed before its fd is closed. */
struct td_client *td_watch_add(struct td_watch *watch, int fd, int64_t now);
void td_watch_remove(struct td_watch *watch, struct td_client *client);

void td_watch_phase(struct td_watch *watch, struct td_client *client, enum td_phase phase,
                    int64_t now);

/* Nanoseconds from now until it must look; negative: as long as nothing happens, never. */
int64_t td_watch_due(const struct td_watch *watch, int64_t now);
/* Shuts the sockets down that are too slow: their HTTP thread then sees the end of the stream and
 * frees them in its own way. */
void td_watch_look(struct td_watch *watch, int64_t now);

#endif
