/* The watch against slow clients: libmicrohttpd's own timeout only sees silence, and one byte every
 * 20 s would keep a connection for ever. A head must have come within idle_s; a body, and a reply
 * that is being read, must move at SLOW_RATE in every window, not on average since it began: a
 * client could else send all but the end at once and then take its time. The window of a reply is
 * longer, as a socket reports in steps what was read.
 *
 * While nothing happens on a connection but waiting for a request, the oldest of these is all that
 * is looked at; the others are looked at four times a second.
 *
 * A client that has closed in the middle of a request is cut off too: libmicrohttpd is told of the
 * last bytes and of the end in one event, reads the bytes and waits for another event. */
#include "server/watch.h"

#include "server/listen.h"

#include <errno.h>
#include <linux/tcp.h> /* netinet/tcp.h does not have tcpi_bytes_acked */
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#define SLOW_RATE 1024 /* bytes a second */
#define BODY_WINDOW_NS INT64_C(10000000000)
#define LOOK_EVERY_NS 250000000

static void ring_init(struct td_client *ring)
{
    ring->next = ring->last = ring;
}

static void unlink_client(struct td_client *client)
{
    client->last->next = client->next;
    client->next->last = client->last;
}

static void append(struct td_client *ring, struct td_client *client)
{
    client->next = ring;
    client->last = ring->last;
    ring->last->next = client;
    ring->last = client;
}

void td_watch_init(struct td_watch *watch, int idle_s)
{
    *watch = (struct td_watch){.idle_ns = idle_s * INT64_C(1000000000)};
    ring_init(&watch->waiting);
    ring_init(&watch->active);
}

struct td_client *td_watch_add(struct td_watch *watch, int fd, int64_t now)
{
    struct td_client *client = calloc(1, sizeof *client);
    if (!client)
        return NULL;
    client->fd = fd;
    socklen_t size = sizeof client->address;
    getpeername(fd, (struct sockaddr *)&client->address, &size);
    client->loopback = td_address_is_loopback(&client->address);
    client->since_ns = now;
    append(&watch->waiting, client);
    watch->n++;
    return client;
}

void td_watch_remove(struct td_watch *watch, struct td_client *client)
{
    unlink_client(client);
    watch->n--;
    free(client->repeat);
    free(client);
}

void td_watch_phase(struct td_watch *watch, struct td_client *client, enum td_phase phase,
                    int64_t now)
{
    if ((client->phase == TD_PHASE_waits) != (phase == TD_PHASE_waits)) {
        unlink_client(client);
        append(phase == TD_PHASE_waits ? &watch->waiting : &watch->active, client);
    }
    client->phase = phase;
    client->since_ns = now;
    if (atomic_load_explicit(&client->gone, memory_order_relaxed)) /* a store costs more */
        atomic_store(&client->gone, false);
}

int64_t td_watch_due(const struct td_watch *watch, int64_t now)
{
    const struct td_client *oldest = watch->waiting.next;
    int64_t due = -1;
    if (watch->active.next != &watch->active)
        due = watch->look_ns - now;
    else if (oldest != &watch->waiting)
        due = oldest->since_ns + watch->idle_ns - now;
    else
        return -1;
    return due > 0 ? due : 0;
}

/* Bytes that have moved so far in the direction that counts. Of a Unix socket nobody says what was
 * read; who can reach it is on this machine. */
static uint64_t moved(const struct td_client *client, int64_t now)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (client->phase == TD_PHASE_body)
        return client->received;
    if (getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, &info, &size))
        return (uint64_t)now;
    return info.tcpi_bytes_acked;
}

static bool is_slow(const struct td_watch *watch, struct td_client *client, int64_t now)
{
    int64_t age = now - client->since_ns, window = watch->idle_ns;
    if (client->phase == TD_PHASE_head)
        return age > watch->idle_ns;
    if (client->phase == TD_PHASE_works)
        return false;
    if (client->phase == TD_PHASE_body && window > BODY_WINDOW_NS)
        window = BODY_WINDOW_NS;
    if (client->seen == client->phase && age <= window)
        return false;
    uint64_t before = client->moved;
    bool slow = client->seen == client->phase &&
                moved(client, now) - before < (uint64_t)(window / 1000000000) * SLOW_RATE;
    client->moved = moved(client, now);
    client->since_ns = now;
    return slow;
}

/* Nothing more will come of the request: so it was at the last look too, and its HTTP thread has
 * read what there was. A client that closes only its own side after a whole request is not meant:
 * that is with the server by then. */
static bool has_ended(struct td_client *client)
{
    char next;
    bool arrives = client->phase == TD_PHASE_head || client->phase == TD_PHASE_body;
    bool ended = arrives && !recv(client->fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
    bool again = ended && client->ended && client->seen == client->phase &&
                 client->at_end == client->received;
    client->ended = ended;
    client->at_end = client->received;
    return again;
}

/* A request that still waits in a queue is not run then. The client may only have closed its own
 * side; but most that do so have gone, and TCP does not tell. */
static void note_gone(struct td_client *client)
{
    char next;
    if (client->phase != TD_PHASE_works)
        return;
    ssize_t n = recv(client->fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
        atomic_store(&client->gone, true);
}

void td_watch_look(struct td_watch *watch, int64_t now)
{
    for (struct td_client *c = watch->active.next; c != &watch->active; c = c->next) {
        if (has_ended(c) || is_slow(watch, c, now))
            shutdown(c->fd, SHUT_RDWR);
        note_gone(c);
        c->seen = c->phase;
    }
    struct td_client *c = watch->waiting.next;
    for (; c != &watch->waiting && now - c->since_ns > watch->idle_ns; c = watch->waiting.next) {
        shutdown(c->fd, SHUT_RDWR);
        unlink_client(c); /* to the end: it goes as soon as its thread has seen it */
        append(&watch->waiting, c);
        c->since_ns = now;
    }
    watch->look_ns = now + LOOK_EVERY_NS;
}
