/* The watch against slow clients: libmicrohttpd's own timeout only sees silence, and one byte every
 * 20 s would keep a connection for ever. A head must have come within idle_s; a body, and a reply
 * that is being read, must move at SLOW_RATE in every window, not on average since it began: a
 * client could else send all but the end at once and then take its time. The window of a reply is
 * longer, as a socket reports in steps what was read. None may take longer than transfer_s in all.
 *
 * Under pressure, when td_memory has refused somebody or all connections are taken, what moves more
 * slowly than PRESSED_RATE is cut off: many slow clients would else keep everybody out, each within
 * its own limits.
 *
 * While nothing happens on a connection but waiting for a request, the oldest of these is all that
 * is looked at; the others are looked at four times a second.
 *
 * A client that has closed in the middle of a request is cut off too: libmicrohttpd is told of the
 * last bytes and of the end in one event, reads the bytes and waits for another event. So it does
 * where a client has closed its own side behind a whole request: END_LOOK_NS after requests have
 * been answered those are looked for that have ended, and nothing is left of what they sent. */
#include "server/http/watch.h"

#include "pools/pools.h"
#include "server/http/listen.h"
#include "server/http/tcp.h"
#include "server/tls/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SLOW_RATE 1024 /* bytes a second */
#define BODY_WINDOW_NS INT64_C(10000000000)
#define LOOK_EVERY_NS 250000000
#define PRESSED_RATE (64 * 1024)
#define PRESSED_WINDOW_NS INT64_C(2000000000)
#define DRAIN_LOOK_NS 20000000
#define DRAIN_IDLE_NS INT64_C(1000000000) /* how long an idle connection is kept then */
#define LINGER_NS INT64_C(1000000000)     /* for the client's end, after ours */
#define END_LOOK_NS INT64_C(1000000000)
#define GONE_NS                                                                                    \
    INT64_C(1000000000) /* how long a request waits before its client is taken for gone */
#define ROOM_LOOKS 32   /* of idle ones, when one must go */

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

int td_watch_init(struct td_watch *watch, const struct td_watch_limits *limits,
                  struct td_peers *peers)
{
    *watch = (struct td_watch){.idle_ns = limits->idle_s * INT64_C(1000000000),
                               .transfer_ns = limits->transfer_s * INT64_C(1000000000),
                               .most = limits->most,
                               .peers = peers,
                               .refused = td_memory.refused};
    ring_init(&watch->waiting);
    ring_init(&watch->active);
    ring_init(&watch->closing);
    watch->heard.next_heard = watch->heard.last_heard = &watch->heard;
    watch->events = epoll_create1(EPOLL_CLOEXEC);
    return watch->events < 0 ? -errno : 0;
}

void td_watch_fini(struct td_watch *watch)
{
    if (watch->events > 0)
        close(watch->events);
    watch->events = -1;
}

static void note_heard(struct td_watch *watch, struct td_client *client)
{
    client->next_heard = &watch->heard;
    client->last_heard = watch->heard.last_heard;
    watch->heard.last_heard->next_heard = client;
    watch->heard.last_heard = client;
}

static void unhear(struct td_client *client)
{
    if (!client->next_heard)
        return;
    client->last_heard->next_heard = client->next_heard;
    client->next_heard->last_heard = client->last_heard;
    client->next_heard = client->last_heard = NULL;
}

void td_watch_phase(struct td_watch *watch, struct td_client *client, enum td_phase phase,
                    int64_t now)
{
    struct td_client *ring = phase == TD_PHASE_waits    ? &watch->waiting
                             : phase == TD_PHASE_closes ? &watch->closing
                                                        : &watch->active;
    bool moves =
        (client->phase == TD_PHASE_waits) != (phase == TD_PHASE_waits) || phase == TD_PHASE_closes;
    if (moves) {
        unlink_client(client);
        append(ring, client);
        unhear(client);
    }
    if (phase == TD_PHASE_waits && !watch->answered_ns)
        watch->answered_ns = now;
    if (phase == TD_PHASE_waits && client->half && !client->next_heard)
        note_heard(watch, client);
    if (phase == TD_PHASE_waits && client->tls)
        td_tcp_mark(client);
    client->phase = phase;
    client->phase_ns = client->since_ns = now;
    if (atomic_load_explicit(&client->gone, memory_order_relaxed)) /* a store costs more */
        atomic_store(&client->gone, false);
}

/* Our side is closed; the client's is read until it closes too, or for LINGER_NS. */
static void close_gently(struct td_watch *watch, struct td_client *client, int64_t now)
{
    if (client->tls)
        td_tls_end(client->tls);
    shutdown(client->fd, SHUT_WR);
    td_watch_phase(watch, client, TD_PHASE_closes, now);
}

/* Among the connections that have been idle for longest, one of the address that has most. */
static void make_room(struct td_watch *watch, int64_t now)
{
    struct td_client *found = NULL, *c = watch->waiting.next;
    int most = -1;
    for (int i = 0; i < ROOM_LOOKS && c != &watch->waiting && now - c->since_ns > LINGER_NS; i++) {
        int n = c->peer && watch->peers ? td_peers_connections(watch->peers, c->peer) : 0;
        if (n > most)
            found = c;
        most = n > most ? n : most;
        c = c->next;
    }
    if (found)
        close_gently(watch, found, now);
}

static bool is_full(const struct td_watch *watch)
{
    return watch->most && watch->n >= watch->most;
}

struct td_client *td_watch_add(struct td_watch *watch, int fd, int64_t now)
{
    struct td_client *client = calloc(1, sizeof *client);
    /* An event is told of only while it still holds; that it can be written to always does. */
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                                .data.ptr = client};
    if (!client || epoll_ctl(watch->events, EPOLL_CTL_ADD, fd, &event)) {
        free(client);
        return NULL;
    }
    client->fd = fd;
    socklen_t size = sizeof client->address;
    getpeername(fd, (struct sockaddr *)&client->address, &size);
    client->loopback = td_address_is_loopback(&client->address);
    client->phase_ns = client->since_ns = now;
    append(&watch->waiting, client);
    watch->n++;
    if (is_full(watch))
        make_room(watch, now);
    return client;
}

void td_watch_remove(struct td_watch *watch, struct td_client *client)
{
    epoll_ctl(watch->events, EPOLL_CTL_DEL, client->fd, NULL);
    unhear(client);
    unlink_client(client);
    watch->n--;
    free(client->repeat);
    free(client);
}

int64_t td_watch_due(const struct td_watch *watch, int64_t now)
{
    const struct td_client *oldest = watch->waiting.next;
    int64_t due = -1, ends = watch->answered_ns + END_LOOK_NS - now;
    if (watch->active.next != &watch->active || watch->closing.next != &watch->closing ||
        ((watch->drain_ns || is_full(watch)) && watch->n))
        due = watch->look_ns - now;
    else if (oldest != &watch->waiting)
        due = oldest->since_ns + watch->idle_ns - now;
    else
        return -1;
    due = watch->answered_ns && ends < due ? ends : due;
    return due > 0 ? due : 0;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* pressed: others wait for what it holds. */
static bool is_slow(const struct td_watch *watch, struct td_client *client, bool pressed,
                    int64_t now)
{
    int64_t age = now - client->since_ns, window = watch->idle_ns, rate = SLOW_RATE;
    if (client->phase == TD_PHASE_head)
        return age > (is_full(watch) ? least(PRESSED_WINDOW_NS, window) : window);
    if (client->phase == TD_PHASE_works)
        return false;
    if (watch->transfer_ns && now - client->phase_ns > watch->transfer_ns)
        return true;
    if (client->phase == TD_PHASE_body)
        window = least(window, BODY_WINDOW_NS);
    bool hurried = pressed && age > PRESSED_WINDOW_NS;
    if (hurried) {
        window = age;
        rate = PRESSED_RATE;
    }
    if (client->seen == client->phase && age <= window && !hurried)
        return false;
    uint64_t before = client->moved;
    bool slow = client->seen == client->phase &&
                td_tcp_moved(client, now) - before < (uint64_t)(window / 1000000 * rate / 1000);
    client->moved = td_tcp_moved(client, now);
    client->since_ns = now;
    return slow;
}

/* Nothing more will come of the request: so it was at the last look too, and its HTTP thread has
 * read what there was. A client that closes only its own side after a whole request is not meant:
 * that is with the server by then. */
static bool has_ended(struct td_client *client)
{
    bool arrives = client->phase == TD_PHASE_head || client->phase == TD_PHASE_body;
    bool ended = arrives && !td_tcp_peek(client);
    bool again = ended && client->ended && client->seen == client->phase &&
                 client->at_end == client->received;
    client->ended = ended;
    client->at_end = client->received;
    return again;
}

/* A request that still waits in a queue, and has for GONE_NS, is not run then. The client may only
 * have closed its own side; but most that do so and wait for long have gone, and TCP does not tell.
 */
static void note_gone(struct td_client *client, int64_t now)
{
    bool waits = client->phase == TD_PHASE_works && now - client->phase_ns >= GONE_NS;
    ssize_t n = waits ? td_tcp_peek(client) : 1;
    if (!n || (n < 0 && errno != EAGAIN && errno != EINTR))
        atomic_store(&client->gone, true);
}

/* ---- who has begun a request ---- */

static void hear(struct td_watch *watch)
{
    struct epoll_event events[64];
    int n;
    while ((n = epoll_wait(watch->events, events, 64, 0)) > 0)
        for (int i = 0; i < n; i++) {
            struct td_client *client = events[i].data.ptr;
            client->half |= (events[i].events & EPOLLRDHUP) != 0;
            if (client->phase == TD_PHASE_waits && !client->next_heard)
                note_heard(watch, client);
        }
}

/* Idle connections cost nothing here, however many there are: only those are asked after that have
 * sent something since they were last found to have begun nothing. */
struct td_client *td_watch_begun(struct td_watch *watch, int *n)
{
    struct td_client *found = NULL;
    *n = 0;
    hear(watch);
    for (struct td_client *c = watch->heard.next_heard, *next; c != &watch->heard && *n < 2;
         c = next) {
        uint64_t unread, more = td_tcp_surplus(c, &unread);
        next = c->next_heard;
        if (!more)
            unhear(c);
        if (more <= unread)
            continue;
        found = c;
        ++*n;
    }
    return found;
}

/* Clients that wait for nothing more and will ask for nothing more. Their replies are with TCP. */
static void look_for_ends(struct td_watch *watch, int64_t now)
{
    uint64_t unread;
    if (!watch->answered_ns || now - watch->answered_ns < END_LOOK_NS)
        return;
    watch->answered_ns = 0;
    hear(watch);
    for (struct td_client *c = watch->heard.next_heard; c != &watch->heard; c = c->next_heard)
        if (c->half && !td_tcp_surplus(c, &unread))
            shutdown(c->fd, SHUT_RDWR);
}

/* ---- looking ---- */

static bool is_pressed(struct td_watch *watch)
{
    size_t refused = td_memory.refused, before = watch->refused;
    watch->refused = refused;
    return refused != before || is_full(watch);
}

/* While the server drains an idle connection is kept for DRAIN_IDLE_NS, and one on which a request
 * has begun to come for as long as at other times. */
static void look_at_waiting(struct td_watch *watch, int64_t now)
{
    struct td_client *c = watch->waiting.next, *next;
    for (; c != &watch->waiting; c = next) {
        int64_t idle_ns = now - c->since_ns;
        uint64_t unread;
        next = c->next;
        if (!watch->drain_ns && idle_ns <= watch->idle_ns)
            return;
        if (idle_ns > watch->idle_ns || (least(idle_ns, now - watch->drain_ns) > DRAIN_IDLE_NS &&
                                         (!td_tcp_tells(c) || !td_tcp_surplus(c, &unread))))
            close_gently(watch, c, now);
    }
}

void td_watch_look(struct td_watch *watch, int64_t now)
{
    bool pressed = is_pressed(watch);
    for (struct td_client *c = watch->active.next; c != &watch->active; c = c->next) {
        if (has_ended(c) ||
            is_slow(watch, c, pressed || td_peers_is_full(watch->peers, c->peer), now))
            shutdown(c->fd, SHUT_RDWR);
        note_gone(c, now);
        c->seen = c->phase;
    }
    look_for_ends(watch, now);
    look_at_waiting(watch, now);
    if (is_full(watch) && watch->closing.next == &watch->closing)
        make_room(watch, now);
    for (struct td_client *c = watch->closing.next, *next;
         c != &watch->closing && now - c->since_ns > LINGER_NS; c = next) {
        next = c->next;
        shutdown(c->fd, SHUT_RDWR);
        td_watch_phase(watch, c, TD_PHASE_closes, now); /* it goes as soon as its thread sees it */
    }
    watch->look_ns = now + (watch->drain_ns ? DRAIN_LOOK_NS : LOOK_EVERY_NS);
}

void td_watch_drain(struct td_watch *watch, int64_t now)
{
    if (!watch->drain_ns)
        watch->look_ns = watch->drain_ns = now;
}
