/* server/http/watch.c: who is cut off, at times that the test makes up, and who is not. */
#include "server/http/watch.h"

#include "pools/pools.h"
#include "tests/run_tests.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define S INT64_C(1000000000)
#define IDLE_S 30

static struct td_watch watch;
static struct td_client *client;
static int peer;
static char piece[65536];

/* A connection over loopback: peer is the client's end. */
static void connect_pair(int64_t now)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert(!bind(listener, (struct sockaddr *)&address, size) && !listen(listener, 1));
    ck_assert(!getsockname(listener, (struct sockaddr *)&address, &size));
    peer = socket(AF_INET, SOCK_STREAM, 0);
    int small = 16384; /* and so it stays: what is not read is not acknowledged either */
    setsockopt(peer, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    ck_assert(!connect(peer, (struct sockaddr *)&address, size));
    int fd = accept(listener, NULL, NULL);
    ck_assert_int_ge(fd, 0);
    fcntl(fd, F_SETFL, O_NONBLOCK);
    fcntl(peer, F_SETFL, O_NONBLOCK);
    close(listener);
    client = td_watch_add(&watch, fd, now);
    ck_assert_ptr_nonnull(client);
    ck_assert(client->loopback);
}

static void begin(void)
{
    struct td_watch_limits limits = {.idle_s = IDLE_S, .transfer_s = 600};
    ck_assert_int_eq(td_watch_init(&watch, &limits, NULL), 0);
    connect_pair(0);
}

/* Looks as the HTTP thread does, from begin to end; whether the client is still there then. */
static bool is_kept(int64_t from, int64_t to)
{
    for (int64_t now = from; now < to; now += S / 4)
        td_watch_look(&watch, now);
    ssize_t n;
    do /* what was sent may still be coming */
        n = recv(peer, piece, sizeof piece, 0);
    while (n > 0);
    return n < 0;
}

/* Looks likewise; whether the client has been told the end, for which it waits. */
static bool is_gone(int64_t from, int64_t to)
{
    struct pollfd at_peer = {.fd = peer, .events = POLLIN};
    bool kept = is_kept(from, to);
    while (kept && poll(&at_peer, 1, 2000) > 0)
        kept = is_kept(to, to);
    return !kept;
}

START_TEST(test_waiting)
{
    begin();
    ck_assert_int_eq(td_watch_due(&watch, S), (IDLE_S - 1) * S);
    ck_assert(is_kept(0, 29 * S));
    struct td_client *old = client;
    int old_peer = peer;
    connect_pair(20 * S);
    ck_assert(is_kept(29 * S, 32 * S)); /* the younger one */
    peer = old_peer;
    ck_assert(is_gone(32 * S, 32 * S));
    td_watch_remove(&watch, old);
    /* A look beside one that sends a body leaves the waiting alone, however many there are. */
    struct td_client *idle = client;
    idle->seen = TD_PHASE_body;
    connect_pair(32 * S);
    td_watch_phase(&watch, client, TD_PHASE_body, 32 * S);
    ck_assert(is_kept(32 * S, 33 * S));
    ck_assert(client->seen == TD_PHASE_body && idle->seen == TD_PHASE_body);
    td_watch_remove(&watch, idle);
    td_watch_remove(&watch, client);
    ck_assert_int_eq(watch.n, 0);
    ck_assert_int_lt(td_watch_due(&watch, 33 * S), 0);
}
END_TEST

START_TEST(test_head)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_head, 100 * S);
    ck_assert(is_kept(100 * S, 129 * S));
    ck_assert(is_gone(129 * S, 131 * S));
}
END_TEST

START_TEST(test_body_in_time)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_body, 0);
    for (int64_t s = 0; s < 100; s++) {
        client->received += 2000;
        ck_assert(is_kept(s * S, s * S + S));
    }
}
END_TEST

/* Nearly all at once, and then as little as does not count as silence. */
START_TEST(test_body_that_stops)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_body, 0);
    client->received = 255 << 20;
    ck_assert(is_kept(0, 9 * S));
    client->received++;
    is_kept(9 * S, 19 * S);
    client->received++;
    ck_assert(is_gone(19 * S, 22 * S));
}
END_TEST

START_TEST(test_body_that_ends)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_body, 0);
    ck_assert(is_kept(0, S));
    shutdown(peer, SHUT_WR);
    usleep(1000);
    ck_assert(is_gone(S, 2 * S));
}
END_TEST

START_TEST(test_work)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_works, 0);
    ck_assert(is_kept(0, 1000 * S));
}
END_TEST

static void fill(void)
{
    while (send(client->fd, piece, sizeof piece, MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
}

START_TEST(test_reply_that_is_read)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_sends, 0);
    for (int64_t s = 0; s < 100; s++) {
        fill();
        usleep(500);
        ck_assert(is_kept(s * S, s * S + S)); /* reads all */
    }
}
END_TEST

START_TEST(test_reply_that_is_not_read)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_sends, 0);
    fill();
    usleep(10000);
    for (int64_t now = 0; now < 29 * S; now += S / 4)
        td_watch_look(&watch, now);
    ck_assert_int_gt(recv(peer, piece, 100, 0), 0); /* one more sip, which moves nothing */
    for (int64_t now = 29 * S; now < 31 * S; now += S / 4)
        td_watch_look(&watch, now);
    ck_assert_int_lt(send(client->fd, piece, 1, MSG_DONTWAIT | MSG_NOSIGNAL), 0);
    ck_assert_int_eq(recv(client->fd, piece, 1, 0), 0); /* shut on our side */
}
END_TEST

/* Each window is right, but not all of it together; so for a reply. */
START_TEST(test_whole_deadline)
{
    for (int sends = 0; sends < 2; sends++) {
        begin();
        td_watch_phase(&watch, client, sends ? TD_PHASE_sends : TD_PHASE_body, 0);
        for (int64_t s = 0; s < 599; s += 10) {
            client->received += 20000;
            fill();
            usleep(500);
            ck_assert(is_kept(s * S, s * S + S));
        }
        ck_assert(is_gone(601 * S, 602 * S));
        td_watch_remove(&watch, client);
    }
}
END_TEST

/* What is slow, but not too slow, goes when memory has been refused to somebody. */
START_TEST(test_body_under_pressure)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_body, 0);
    for (int64_t s = 0; s < 5; s++) {
        client->received += 20000;
        ck_assert(is_kept(s * S, s * S + S));
    }
    td_memory.refused++;
    ck_assert(is_gone(5 * S, 6 * S));
    td_watch_remove(&watch, client);
    connect_pair(6 * S);
    td_watch_phase(&watch, client, TD_PHASE_body, 6 * S);
    for (int64_t s = 6; s < 20; s++) { /* one that is fast enough */
        client->received += 100000;
        td_memory.refused++;
        ck_assert(is_kept(s * S, s * S + S));
    }
}
END_TEST

/* As many as may be: the one that is idle for longest goes, when it is idle for long enough. */
START_TEST(test_room)
{
    begin();
    watch.most = 2;
    struct td_client *first = client;
    int first_peer = peer;
    connect_pair(3 * S);
    ck_assert(first->phase == TD_PHASE_closes);
    ck_assert_int_eq(recv(first_peer, piece, 1, 0), 0);
    ck_assert_int_eq(send(first_peer, piece, 1, 0), 1); /* which meets no reset */
    usleep(1000);
    ck_assert_int_eq(recv(first_peer, piece, 1, 0), 0);
    ck_assert_int_eq(recv(first->fd, piece, 2, MSG_DONTWAIT), 1);
    ck_assert(is_kept(3 * S, 4 * S));
    td_watch_look(&watch, 9 * S); /* nor does it stay for ever */
    ck_assert_int_eq(recv(first->fd, piece, 1, MSG_DONTWAIT), 0);
    ck_assert(client->phase == TD_PHASE_waits);
    td_watch_remove(&watch, first);
    td_watch_remove(&watch, client);
}
END_TEST

/* Idle ones are kept for a moment, for the request that is on its way. */
START_TEST(test_drain)
{
    begin();
    struct td_client *idle = client;
    int idle_peer = peer;
    connect_pair(S);
    ck_assert_int_eq(send(peer, "GET", 3, 0), 3); /* one that has begun is waited for */
    usleep(1000);
    ck_assert_int_eq(recv(client->fd, piece, 3, 0), 3);
    td_watch_drain(&watch, 10 * S);
    ck_assert_int_ge(td_watch_due(&watch, 10 * S), 0);
    ck_assert_int_lt(td_watch_due(&watch, 10 * S), S);
    td_watch_look(&watch, 10 * S + S / 2);
    ck_assert(idle->phase == TD_PHASE_waits);
    td_watch_look(&watch, 12 * S);
    ck_assert(idle->phase == TD_PHASE_closes && client->phase == TD_PHASE_waits);
    ck_assert_int_eq(recv(idle_peer, piece, 1, 0), 0);
    ck_assert(is_kept(12 * S, 30 * S));
    ck_assert(is_gone(31 * S, 33 * S));
    td_watch_remove(&watch, idle);
    td_watch_remove(&watch, client);
    ck_assert_int_lt(td_watch_due(&watch, 33 * S), 0);
}
END_TEST

/* A client that has closed its own side behind its request goes soon after the answer, but not with
 * another request unread or half read; while the server drains it holds nothing up. */
START_TEST(test_half_closed)
{
    for (int late = 0; late < 2; late++) { /* its end comes after the answer, or with the request */
        begin();
        ck_assert_int_eq(send(peer, "GET /GET /", 10, 0), 10);
        if (!late)
            shutdown(peer, SHUT_WR);
        usleep(1000);
        ck_assert_int_eq(recv(client->fd, piece, 8, 0), 8);
        td_watch_phase(&watch, client, TD_PHASE_works, 0);
        td_watch_look(&watch, S / 4);
        client->heads += 5;
        td_watch_phase(&watch, client, TD_PHASE_waits, S);
        if (late)
            shutdown(peer, SHUT_WR);
        usleep(1000);
        ck_assert_int_eq(td_watch_due(&watch, S), S);
        ck_assert(is_kept(S, 5 * S)); /* two bytes are unread */
        ck_assert_int_eq(recv(client->fd, piece, 8, 0), 2);
        td_watch_phase(&watch, client, TD_PHASE_head, 5 * S);
        client->heads += 5;
        td_watch_phase(&watch, client, TD_PHASE_waits, 6 * S);
        ck_assert(is_kept(6 * S, 7 * S));
        ck_assert(is_gone(7 * S, 7 * S + S / 2));
        ck_assert_int_gt(td_watch_due(&watch, 8 * S), S); /* once is enough */
        td_watch_remove(&watch, client);
        td_watch_fini(&watch);
    }
    begin();
    shutdown(peer, SHUT_WR);
    td_watch_drain(&watch, 10 * S);
    ck_assert(is_gone(10 * S, 13 * S));
    td_watch_remove(&watch, client);
    td_watch_fini(&watch);
}
END_TEST

/* Who closes its side while its request waits is taken for gone once that has waited for a second,
 * and not before; the next request of a connection is another matter. */
START_TEST(test_gone)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_works, 0);
    ck_assert(is_kept(0, 3 * S) && !atomic_load(&client->gone));
    td_watch_phase(&watch, client, TD_PHASE_works, 3 * S);
    shutdown(peer, SHUT_WR);
    ck_assert(is_kept(3 * S, 4 * S) && !atomic_load(&client->gone));
    td_watch_look(&watch, 4 * S);
    ck_assert(atomic_load(&client->gone));
    td_watch_phase(&watch, client, TD_PHASE_sends, 4 * S);
    ck_assert(!atomic_load(&client->gone));
    td_watch_remove(&watch, client);
    td_watch_fini(&watch);
}
END_TEST

static int n_heard(void)
{
    int n = 0;
    for (struct td_client *c = watch.heard.next_heard; c != &watch.heard; c = c->next_heard)
        n++;
    return n;
}

/* However many are idle, only those are asked about that have sent something since. */
START_TEST(test_begun)
{
    struct td_client *all[100];
    int peers[100], n;
    begin();
    td_watch_remove(&watch, client);
    for (int i = 0; i < 100; i++) {
        connect_pair(0);
        all[i] = client;
        peers[i] = peer;
    }
    ck_assert_ptr_null(td_watch_begun(&watch, &n));
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(n_heard(), 0);
    for (int round = 0; round < 3; round++) {
        ck_assert_int_eq(send(peers[50], "GET /", 5, 0), 5);
        usleep(1000);
        ck_assert_int_eq(recv(all[50]->fd, piece, 100, 0), 5); /* read before anybody asks */
        ck_assert_ptr_eq(td_watch_begun(&watch, &n), all[50]);
        ck_assert_int_eq(n, 1);
        ck_assert_int_eq(n_heard(), 1);
        ck_assert_ptr_eq(td_watch_begun(&watch, &n), all[50]); /* it still has */
        all[50]->heads += 5;
        ck_assert_ptr_null(td_watch_begun(&watch, &n));
        ck_assert_int_eq(n_heard(), 0);
    }
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(send(peers[i], "x", 1, 0), 1);
        usleep(1000);
        ck_assert_int_eq(recv(all[i]->fd, piece, 100, 0), 1);
        td_watch_begun(&watch, &n);
        ck_assert_int_eq(n, i < 2 ? i + 1 : 2);
    }
    for (int i = 0; i < 100; i++)
        td_watch_remove(&watch, all[i]);
    ck_assert_int_eq(n_heard(), 0);
    td_watch_fini(&watch);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_waiting,
                                  test_head,
                                  test_body_in_time,
                                  test_body_that_stops,
                                  test_body_that_ends,
                                  test_work,
                                  test_reply_that_is_read,
                                  test_reply_that_is_not_read,
                                  test_whole_deadline,
                                  test_body_under_pressure,
                                  test_room,
                                  test_drain,
                                  test_half_closed,
                                  test_gone,
                                  test_begun};
    return td_run_tests("server_watch", tests, sizeof tests / sizeof *tests);
}
