/* The watch against slow clients: libmicrohttpd's own timeout only sees silence, and one byte every
 * 20 s would keep a connection for ever. A thread looks four times a second at all of them and
 * shuts down those whose head takes longer than idle_s, or whose body comes at under SLOW_RATE. So
 * it does where the client has closed in the middle of a request: libmicrohttpd is told of the last
 * bytes and of the end in one event, reads the bytes and waits for another event. The connection's
 * HTTP thread then sees the end of the stream and frees it in its own way. */
#include "server/watch.h"

#include "pools/pools.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

#define SLOW_AFTER_S 10 /* a body must come at SLOW_RATE on average from then on */
#define SLOW_RATE 1024  /* bytes a second */
#define LOOK_EVERY_NS 250000000

static bool is_slow(struct td_client *client, int idle_s, int64_t now)
{
    double age = (double)(now - atomic_load(&client->since_ns)) * 1e-9;
    long long received = atomic_load(&client->received);
    if (!atomic_load(&client->arriving))
        return false;
    if (!received)
        return age > idle_s;
    return age > SLOW_AFTER_S && (double)received < age * SLOW_RATE;
}

/* Nothing more will come of the request: so it was at the last look too, and its HTTP thread has
 * read what there was. A client that closes only its own side after a whole request is not meant:
 * that is handled by then, and not arriving. */
static bool has_ended(struct td_client *client)
{
    char next;
    int64_t since = atomic_load(&client->since_ns);
    long long received = atomic_load(&client->received);
    bool ended = atomic_load(&client->arriving) &&
                 !recv(client->fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
    bool again = ended && client->ended && client->ended_since_ns == since &&
                 client->ended_received == received;
    client->ended = ended;
    client->ended_since_ns = since;
    client->ended_received = received;
    return again;
}

static void *look(void *arg)
{
    struct td_watch *watch = arg;
    pthread_mutex_lock(&watch->lock);
    while (!watch->stopping) {
        struct timespec next;
        clock_gettime(CLOCK_MONOTONIC, &next);
        next.tv_nsec += LOOK_EVERY_NS;
        next.tv_sec += next.tv_nsec / 1000000000;
        next.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watch->wake, &watch->lock, &next);
        int64_t now = td_now_ns();
        for (struct td_client *c = watch->clients; c; c = c->next)
            if (is_slow(c, watch->idle_s, now) || has_ended(c))
                shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&watch->lock);
    return NULL;
}

int td_watch_start(struct td_watch *watch, int idle_s)
{
    pthread_condattr_t attr;
    *watch = (struct td_watch){.idle_s = idle_s};
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_cond_init(&watch->wake, &attr);
    pthread_condattr_destroy(&attr);
    int err = -pthread_create(&watch->thread, NULL, look, watch);
    watch->runs = !err;
    return err;
}

void td_watch_stop(struct td_watch *watch)
{
    pthread_mutex_lock(&watch->lock);
    watch->stopping = true;
    pthread_cond_signal(&watch->wake);
    pthread_mutex_unlock(&watch->lock);
    if (watch->runs)
        pthread_join(watch->thread, NULL);
    pthread_cond_destroy(&watch->wake);
    pthread_mutex_destroy(&watch->lock);
}

struct td_client *td_watch_add(struct td_watch *watch, int fd)
{
    struct td_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->fd = fd;
    client->since_ns = td_now_ns();
    client->arriving = true;
    pthread_mutex_lock(&watch->lock);
    client->next = watch->clients;
    client->link = &watch->clients;
    if (client->next)
        client->next->link = &client->next;
    watch->clients = client;
    pthread_mutex_unlock(&watch->lock);
    return client;
}

void td_watch_remove(struct td_watch *watch, struct td_client *client)
{
    pthread_mutex_lock(&watch->lock);
    *client->link = client->next;
    if (client->next)
        client->next->link = client->link;
    pthread_mutex_unlock(&watch->lock);
    free(client);
}
