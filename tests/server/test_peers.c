/* server/http/peers.c: whose share is how much. */
#include "pools/pools.h"
#include "server/http/peers.h"
#include "tests/run_tests.h"

#include <arpa/inet.h>
#include <errno.h>

#define MIB ((size_t)1 << 20)

static struct td_peers peers;

static struct td_peer *come(const char *text)
{
    struct sockaddr_storage address = {.ss_family = AF_INET};
    if (inet_pton(AF_INET, text, &((struct sockaddr_in *)&address)->sin_addr) != 1) {
        address.ss_family = AF_INET6;
        ck_assert_int_eq(inet_pton(AF_INET6, text, &((struct sockaddr_in6 *)&address)->sin6_addr),
                         1);
    }
    struct td_peer *peer = td_peers_add(&peers, &address);
    ck_assert_ptr_nonnull(peer);
    return peer;
}

START_TEST(test_addresses)
{
    td_peers_init(&peers);
    struct td_peer *a = come("10.0.0.1"), *b = come("10.0.0.2"), *c = come("2001:db8::1");
    ck_assert_ptr_ne(a, b);
    ck_assert_ptr_eq(come("10.0.0.1"), a);
    ck_assert_ptr_eq(come("2001:db8::ffff:1"), c); /* of one network */
    ck_assert_ptr_ne(come("2001:db8:0:1::1"), c);
    ck_assert_int_eq(td_peers_connections(&peers, a), 2);
    td_peers_remove(&peers, a);
    ck_assert_ptr_eq(come("10.0.0.1"), a);
    td_peers_remove(&peers, a);
    td_peers_remove(&peers, a);
    td_peers_remove(&peers, b);
    td_peers_fini(&peers);
}
END_TEST

START_TEST(test_shares)
{
    td_peers_init(&peers);
    struct td_peer *a = come("10.0.0.1"), *b = come("10.0.0.2");
    td_memory.limit = 100 * MIB;
    td_memory.used = 10 * MIB;
    ck_assert(!td_peers_take(&peers, a, 0, 40 * MIB)); /* there is room for all */
    ck_assert(!td_peers_take(&peers, a, 0, 40 * MIB));
    td_memory.used = 90 * MIB;
    ck_assert_int_eq(td_peers_take(&peers, a, 40 * MIB, MIB), -ENOMEM); /* beyond three quarters */
    ck_assert(!td_peers_take(&peers, b, 0, 30 * MIB)); /* the only one of its address */
    ck_assert(!td_peers_take(&peers, b, 30 * MIB, 20 * MIB));
    ck_assert_int_eq(td_peers_take(&peers, b, 0, MIB),
                     -ENOMEM); /* a second one, beyond half of them */
    td_peers_give(&peers, a, 40 * MIB);
    td_peers_give(&peers, b, 50 * MIB);
    ck_assert(!td_peers_take(&peers, b, 0, MIB));
    ck_assert_int_eq(td_peers_take(&peers, a, 0, MIB),
                     -ENOMEM); /* 40 of 37.5 that are due with two */
    td_peers_note(&peers, a, 40 * MIB, 100 * MIB);
    td_peers_give(&peers, a, 140 * MIB);
    ck_assert_int_eq(peers.holding, 1);
    td_peers_give(&peers, b, MIB);
    ck_assert_int_eq(peers.holding, 0);
    td_peers_remove(&peers, a);
    td_peers_remove(&peers, b);
    td_peers_fini(&peers);
}
END_TEST

START_TEST(test_limits)
{
    td_peers_init(&peers);
    td_memory.limit = 100 * MIB;
    td_memory.used = 0;
    peers.limits = (struct td_peer_limits){.connections = 2, .bodies = 2, .bytes = 10 * MIB};
    struct td_peer *a = come("10.0.0.1"), *b = come("10.0.0.2");
    struct sockaddr_storage from = {.ss_family = AF_INET}, local = {.ss_family = AF_UNIX};
    inet_pton(AF_INET, "10.0.0.1", &((struct sockaddr_in *)&from)->sin_addr);
    ck_assert(!td_peers_is_full(&peers, a) && !td_peers_refuses(&peers, &from));
    ck_assert_ptr_eq(come("10.0.0.1"), a);
    ck_assert(td_peers_is_full(&peers, a) && !td_peers_is_full(&peers, b));
    ck_assert_ptr_eq(td_peers_refuses(&peers, &from), a);
    ck_assert(!td_peers_take(&peers, a, 0, 6 * MIB));
    ck_assert_int_eq(td_peers_take(&peers, a, 6 * MIB, 5 * MIB), -EDQUOT); /* too many bytes */
    ck_assert(!td_peers_take(&peers, a, 0, MIB));
    ck_assert_int_eq(td_peers_take(&peers, a, 0, MIB), -EDQUOT); /* a third one */
    ck_assert(!td_peers_take(&peers, a, MIB, MIB));
    ck_assert(!td_peers_take(&peers, b, 0, MIB)); /* another address */
    td_peers_give(&peers, a, 6 * MIB);
    ck_assert(!td_peers_take(&peers, a, 0, MIB));
    struct td_peer *u = td_peers_add(&peers, &local);
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_eq(td_peers_add(&peers, &local), u);
        ck_assert(!td_peers_take(&peers, u, 0, 20 * MIB));
    }
    ck_assert(!td_peers_is_full(&peers, u) && !td_peers_refuses(&peers, &local));
    ck_assert(!td_peers_is_full(NULL, a) && !td_peers_is_full(&peers, NULL));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_addresses, test_shares, test_limits};
    return td_run_tests("server_peers", tests, sizeof tests / sizeof *tests);
}
