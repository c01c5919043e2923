/* server/watch.c: who is cut off, at times that the test makes up, and who is not. */
#include "server/watch.h"
#include "tests/run_tests.h"

#include <arpa/inet.h>
#include <fcntl.h>
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
    td_watch_init(&watch, IDLE_S);
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
    ck_assert(!is_kept(32 * S, 32 * S));
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
    ck_assert(!is_kept(129 * S, 131 * S));
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
    ck_assert(!is_kept(19 * S, 22 * S));
}
END_TEST

START_TEST(test_body_that_ends)
{
    begin();
    td_watch_phase(&watch, client, TD_PHASE_body, 0);
    ck_assert(is_kept(0, S));
    shutdown(peer, SHUT_WR);
    usleep(1000);
    ck_assert(!is_kept(S, 2 * S));
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

int main(void)
{
    const TTest *const tests[] = {
        test_waiting,        test_head, test_body_in_time,       test_body_that_stops,
        test_body_that_ends, test_work, test_reply_that_is_read, test_reply_that_is_not_read};
    return td_run_tests("server_watch", tests, sizeof tests / sizeof *tests);
}
