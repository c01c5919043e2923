/* server/http/origin.c: which hosts and origins are taken. */
#include "server/http/origin.h"
#include "tests/run_tests.h"

static const struct td_given none, some = {{"api.example", "tensord"}, 2}, all = {{"*"}, 1};

START_TEST(test_host_texts)
{
    static const char *const right[] = {"localhost", "a.example:8080", "127.0.0.1:80",
                                        "[::1]",     "[::1]:8080",     "a:"};
    static const char *const wrong[] = {"",     "a b", "a/b",    "u@a",     ":80", "a:8x",
                                        "[::1", "::1", "[::1]x", "a:80:80", "a\t"};
    for (size_t i = 0; i < sizeof right / sizeof *right; i++)
        ck_assert_msg(td_host_is_right(right[i]), "'%s'", right[i]);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!td_host_is_right(wrong[i]), "'%s'", wrong[i]);
}
END_TEST

START_TEST(test_hosts)
{
    static const char *const ours[] = {"localhost", "LocalHost:8080", "127.0.0.1", "127.8.9.1:80",
                                       "[::1]:8080"};
    static const char *const foreign[] = {"evil.example",
                                          "localhost.evil.example",
                                          "127.0.0.1.evil.example",
                                          "10.0.0.1:8080",
                                          "[::2]",
                                          "localhostx",
                                          "0.0.0.0",
                                          "2130706433"};
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        ck_assert_msg(td_host_is_ours(ours[i], &none), "'%s'", ours[i]);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        ck_assert_msg(!td_host_is_ours(foreign[i], &some), "'%s'", foreign[i]);
        ck_assert(td_host_is_ours(foreign[i], &all));
    }
    ck_assert(td_host_is_ours("API.example:8080", &some));
    ck_assert(!td_host_is_ours("api.example.org", &some));
}
END_TEST

/* Over another network: what only the owner of a network can name, and nobody in the public one. */
START_TEST(test_inside)
{
    static const char *const inside[] = {"localhost",
                                         "10.0.0.1:8080",
                                         "172.17.0.2",
                                         "[2001:db8::1]:8080",
                                         "tensord",
                                         "tensord:8080",
                                         "tensord.default.svc",
                                         "tensord.default.svc.cluster.local:80",
                                         "Box.Local",
                                         "box.local.",
                                         "box.home.arpa",
                                         "ip-10-0-0-1.eu-west-1.compute.internal",
                                         "a.localhost"};
    static const char *const foreign[] = {
        "evil.example",  "tensord.prod",       "10.0.0.1.evil.example",
        "evil.example.", "a.svc.evil.example", "svc.dev",
        "1.2.3.4.5",     "notlocal.notlocal"};
    static const struct td_given under = {{".prod", ".corp.example"}, 2};
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
        ck_assert_msg(td_host_is_inside(inside[i], &none), "'%s'", inside[i]);
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        ck_assert_msg(!td_host_is_inside(foreign[i], &some), "'%s'", foreign[i]);
        ck_assert(td_host_is_inside(foreign[i], &all));
    }
    ck_assert(td_host_is_inside("api.example:80", &some));
    ck_assert(td_host_is_inside("tensord.prod", &under));
    ck_assert(td_host_is_ours("a.b.corp.example:8080", &under));
    ck_assert(!td_host_is_inside("evilcorp.example", &under));
    ck_assert(!td_host_is_inside(".prod.example", &under));
}
END_TEST

START_TEST(test_origins)
{
    static const struct td_given pages = {{"https://page.example"}, 1};
    ck_assert(td_origin_is_ours("http://localhost:8080", "localhost:8080", &none));
    ck_assert(td_origin_is_ours("https://api.example", "api.example", &none));
    ck_assert(!td_origin_is_ours("http://localhost:3000", "localhost:8080", &none));
    ck_assert(!td_origin_is_ours("http://evil.example", "localhost:8080", &pages));
    ck_assert(!td_origin_is_ours("null", "localhost:8080", &pages));
    ck_assert(!td_origin_is_ours("http://localhost:8080", NULL, &none));
    ck_assert(td_origin_is_ours("https://page.example", "localhost:8080", &pages));
    ck_assert(!td_origin_is_ours("https://page.example.evil", "localhost:8080", &pages));
    ck_assert(td_origin_is_ours("null", "localhost:8080", &all));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_host_texts, test_hosts, test_inside, test_origins};
    return td_run_tests("server_origin", tests, sizeof tests / sizeof *tests);
}
