/* server/http/listen.c: texts of addresses, ports that are taken, and Unix sockets left behind. */
#include "server/http/listen.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static struct td_listener listener;
static struct td_problem problem;
static char folder[64], path[80], text[96];

static void make_folder(void)
{
    strcpy(folder, "/tmp/td_listen_XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/s", folder);
    snprintf(text, sizeof text, "unix:%s", path);
}

static bool is_there(void)
{
    struct stat st;
    return !lstat(path, &st);
}

START_TEST(test_texts)
{
    static const char *const right[][3] = {{"127.0.0.1:0", "http://127.0.0.1:0", "local"},
                                           {"127.9.8.7:0", "http://127.9.8.7:0", "local"},
                                           {"[::1]:0", "http://[::1]:0", "local"},
                                           {":0", "http://0.0.0.0:0", ""},
                                           {"[::]:0", "http://[::]:0", ""}};
    static const char *const wrong[] = {"",
                                        "80",
                                        "127.0.0.1",
                                        "127.0.0.1:",
                                        "127.0.0.1:-1",
                                        "127.0.0.1: 1",
                                        "127.0.0.1:65536",
                                        "127.0.0.1:99999999999999999999",
                                        "127.0.0.1:http",
                                        "300.1.1.1:80",
                                        "::1:80",
                                        "[127.0.0.1]:80",
                                        "unix:"};
    char name[160];
    for (size_t i = 0; i < sizeof right / sizeof *right; i++) {
        int err = td_listener_open(&listener, right[i][0], "0600", &problem);
        if (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL) {
            printf("skipped: %s: no IPv6 here\n", right[i][0]);
            continue;
        }
        ck_assert_msg(!err, "%s: %s", right[i][0], problem.text);
        td_listener_name(&listener, false, name, sizeof name);
        ck_assert_str_eq(name, right[i][1]);
        ck_assert_int_eq(td_listener_is_local(&listener), *right[i][2] != 0);
        td_listener_close(&listener);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_msg(td_listener_open(&listener, wrong[i], "0600", &problem) == -EINVAL, "%s",
                      wrong[i]);
        ck_assert_ptr_nonnull(strstr(problem.text, "ADDR:PORT"));
    }
}
END_TEST

/* A port where somebody listens is refused even when he shares it with SO_REUSEPORT. */
START_TEST(test_taken_port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&in, size), 0);
    ck_assert_int_eq(listen(fd, 1), 0);
    ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&in, &size), 0);
    snprintf(text, sizeof text, "127.0.0.1:%d", ntohs(in.sin_port));
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), -EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(problem.text, text));
    close(fd);
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), 0);
    td_listener_close(&listener);
}
END_TEST

START_TEST(test_unix)
{
    struct td_listener other;
    make_folder();
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), 0);
    ck_assert(listener.fd >= 0 && is_there() && td_listener_is_local(&listener));
    ck_assert_int_eq(td_listener_open(&other, text, "0600", &problem), -EADDRINUSE);
    ck_assert(is_there());
    td_listener_unlink(&listener);
    ck_assert(!is_there() && listener.fd >= 0);
    td_listener_close(&listener);
    ck_assert_int_eq(listener.fd, -1);
    rmdir(folder);
}
END_TEST

START_TEST(test_unix_left_behind)
{
    make_folder();
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), 0);
    close(listener.fd); /* as a process that was killed does */
    ck_assert(is_there());
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), 0);
    td_listener_close(&listener);
    ck_assert(!is_there());
    rmdir(folder);
}
END_TEST

START_TEST(test_unix_spares_files)
{
    make_folder();
    FILE *file = fopen(path, "we");
    ck_assert_ptr_nonnull(file);
    fclose(file);
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), -EEXIST);
    ck_assert(is_there());
    unlink(path);
    rmdir(folder);
    ck_assert_int_eq(td_listener_open(&listener, text, "0600", &problem), -ENOENT);
    char longer[200] = "unix:/";
    memset(longer + 6, 'a', 150);
    ck_assert_int_eq(td_listener_open(&listener, longer, "0600", &problem), -ENAMETOOLONG);
}
END_TEST

START_TEST(test_unix_mode)
{
    static const struct {
        const char *text;
        mode_t mode;
    } modes[] = {{"0600", 0600}, {"660", 0660}, {"0666", 0666}, {"0777", 0777}, {"0", 0}};
    static const char *const wrong[] = {"", "9", "0800", "1000", "-1", "06 0", "rw", "00600"};
    make_folder();
    umask(022); /* which takes nothing of what is asked for */
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct stat st;
        ck_assert_int_eq(td_listener_open(&listener, text, modes[i].text, &problem), 0);
        ck_assert_int_eq(lstat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 07777, modes[i].mode);
        td_listener_close(&listener);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(td_listener_open(&listener, text, wrong[i], &problem), -EINVAL);
        ck_assert_ptr_nonnull(strstr(problem.text, "unix-mode"));
    }
    rmdir(folder);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {
        test_texts,    test_taken_port, test_unix, test_unix_left_behind, test_unix_spares_files,
        test_unix_mode};
    return td_run_tests("server_listen", tests, sizeof tests / sizeof *tests);
}
