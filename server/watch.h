/* Connections whose requests do not keep arriving are cut off. Internal to server/. */
#ifndef TD_SERVER_WATCH_H
#define TD_SERVER_WATCH_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct td_client { /* one connection; its HTTP thread writes, the watch reads */
    struct td_client *next, **link;
    int fd;
    atomic_llong since_ns; /* when the request now arriving began, or the last one ended */
    atomic_llong received; /* bytes of its body so far */
    atomic_bool arriving;  /* its head is being waited for, or its body */
    /* The watch's own: at its last look nothing was left to read, and how far the request was. */
    bool ended;
    int64_t ended_since_ns;
    long long ended_received;
};

struct td_watch {
    pthread_mutex_t lock; /* guards clients and stopping */
    pthread_cond_t wake;
    pthread_t thread;
    struct td_client *clients;
    int idle_s;
    bool runs, stopping;
};

/* Starts the thread. idle_s: seconds that a head may take. -EAGAIN, -ENOMEM; td_watch_stop is right
 * after an error too, and must come after the last client has been removed. */
int td_watch_start(struct td_watch *watch, int idle_s);
void td_watch_stop(struct td_watch *watch);

/* A connection has come (NULL: out of memory), and goes: to be removed before its fd is closed. */
struct td_client *td_watch_add(struct td_watch *watch, int fd);
void td_watch_remove(struct td_watch *watch, struct td_client *client);

#endif
