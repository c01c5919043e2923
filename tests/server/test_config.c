/* server/config/config.c: which of flag, environment and file wins, lists, and what each mistake is
 * told.
 */
#include "api/api.h"
#include "server/config/config.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct td_config config;
static struct td_problem problem;

/* Reads the flags, which end with NULL; what td_config_read says. */
static int read_flags(char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    return td_config_read(&config, argc, argv, &problem);
}
#define READ(...) read_flags((char *[]){__VA_ARGS__, NULL})

/* Leaves text in a file of its own, whose path is the result until the next call. */
static char *file_of(const char *text, size_t size)
{
    static char path[64];
    strcpy(path, "/tmp/td_config_XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, size), (ssize_t)size);
    close(fd);
    return path;
}

static int read_file(const char *text)
{
    char *path = file_of(text, strlen(text));
    int err = READ("--config", path);
    unlink(path);
    return err;
}

START_TEST(test_defaults)
{
    ck_assert_int_eq(read_flags((char *[]){NULL}), 0);
    ck_assert_int_eq(config.listen.n, 1);
    ck_assert_str_eq(config.listen.text[0], "127.0.0.1:8080");
    ck_assert_int_eq(config.pool.n, 0);
    ck_assert_str_eq(config.cpu_capability, "");
    ck_assert(config.max_body == 268435456 && config.max_headers == 32768);
    ck_assert(config.json_depth == 32 && config.connections == 1024);
    ck_assert_int_eq(config.client_shared_memory, TD_SHM_auto);
    ck_assert(config.task_ttl_s == 60 && config.tasks == 1024 && config.task_bytes == 0);
    ck_assert(config.idle_s == 30 && config.drain_s == 30 && config.io_threads == 0);
    td_config_fini(&config);
}
END_TEST

START_TEST(test_flags)
{
    ck_assert_int_eq(READ("--listen=[::1]:9", "--listen", "unix:/a=b", "--idle-s", "7",
                          "--drain_s=8", "--pool", "a=0:threads=1"),
                     0);
    ck_assert_int_eq(config.listen.n, 2);
    ck_assert_str_eq(config.listen.text[0], "[::1]:9");
    ck_assert_str_eq(config.listen.text[1], "unix:/a=b");
    ck_assert(config.idle_s == 7 && config.drain_s == 8 && config.pool.n == 1);
    ck_assert_str_eq(config.pool.text[0], "a=0:threads=1");
    ck_assert(!config.insecure);
    ck_assert_int_eq(READ("--insecure", "--idle-s", "7"), 0);
    ck_assert(config.insecure && config.idle_s == 7);
    ck_assert_int_eq(READ("--insecure=off", "--idle-s=8"), 0);
    ck_assert(!config.insecure && config.idle_s == 8);
    ck_assert_int_eq(READ("--insecure=maybe"), -EINVAL);
    ck_assert_int_eq(READ("--idle-s", "7", "--idle-s", "9"), 0); /* the last one of a place */
    ck_assert_int_eq(config.idle_s, 9);
    ck_assert_int_eq(READ("--idle-s", "7", "--help"), 1);
    td_config_fini(&config);
}
END_TEST

START_TEST(test_environment)
{
    setenv("TENSORD_POOL", " a=0-1,3  b=2 ", 1);
    setenv("TENSORD_MAX_BODY", "4096", 1);
    setenv("TENSORD_IDLE_S", "", 1); /* as if it were not there */
    ck_assert_int_eq(read_flags((char *[]){NULL}), 0);
    ck_assert(config.pool.n == 2 && config.max_body == 4096 && config.idle_s == 30);
    ck_assert_str_eq(config.pool.text[0], "a=0-1,3");
    ck_assert_str_eq(config.pool.text[1], "b=2");
    setenv("TENSORD_MAX_BODY", "4x", 1);
    ck_assert_int_eq(read_flags((char *[]){NULL}), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "max-body: '4x'"));
    td_config_fini(&config);
}
END_TEST

START_TEST(test_precedence)
{
    const char *text = "{\"idle_s\":1,\"drain_s\":2,\"connections\":3,\"pool\":[\"f=0\",\"g=1\"],"
                       "\"listen\":\"f:1\"}";
    char *path = file_of(text, strlen(text));
    setenv("TENSORD_CONFIG", path, 1);
    setenv("TENSORD_IDLE_S", "11", 1);
    setenv("TENSORD_DRAIN_S", "12", 1);
    setenv("TENSORD_POOL", "e=0", 1);
    ck_assert_int_eq(READ("--idle-s", "21", "--listen", "c:1"), 0);
    unlink(path);
    ck_assert_int_eq(config.idle_s, 21);
    ck_assert_int_eq(config.drain_s, 12);
    ck_assert_int_eq(config.connections, 3);
    ck_assert_int_eq(config.pool.n, 1); /* a list is one place's, not a mixture */
    ck_assert_str_eq(config.pool.text[0], "e=0");
    ck_assert_int_eq(config.listen.n, 1);
    ck_assert_str_eq(config.listen.text[0], "c:1");
    td_config_fini(&config);
}
END_TEST

START_TEST(test_file)
{
    ck_assert_int_eq(read_file("{\"max_headers\":4096,\"max-body\":\"2048\","
                               "\"listen\":[\"a:1\",\"b:2\"]}"),
                     0);
    ck_assert(config.max_headers == 4096 && config.max_body == 2048 && config.listen.n == 2);
    ck_assert_str_eq(config.listen.text[1], "b:2");
    td_config_fini(&config);
}
END_TEST

static const struct {
    const char *text, *says;
} wrong_files[] = {
    {"", ""},
    {"[1]", "one JSON object"},
    {"{\"idle_s\":1", ""},
    {"{\"idle\":1}", "unknown option 'idle'"},
    {"{\"config\":\"x\"}", "unknown option 'config'"},
    {"{\"idle_s\":{}}", "idle_s: must be"},
    {"{\"idle_s\":1.5}", "idle-s: '1.5'"},
    {"{\"idle_s\":true}", "idle-s: 'true'"},
};

START_TEST(test_wrong_files)
{
    for (size_t i = 0; i < sizeof wrong_files / sizeof *wrong_files; i++) {
        ck_assert_int_eq(read_file(wrong_files[i].text), -EINVAL);
        ck_assert_msg(strstr(problem.text, wrong_files[i].says) != NULL, "%s: '%s'",
                      wrong_files[i].text, problem.text);
        td_config_fini(&config);
    }
    ck_assert_int_eq(READ("--config", "/nowhere/x"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "/nowhere/x"));
    ck_assert_int_eq(READ("--config", "/tmp"), -EINVAL);
}
END_TEST

/* Short numbers become long texts: more of them than there is room for are refused, and so is a
 * file that would be cut. */
START_TEST(test_long_files)
{
    enum { SIZE = (1 << 20) + 100 };
    char *text = malloc(SIZE);
    size_t n = (size_t)sprintf(text, "{\"idle_s\":[9e9");
    while (n < SIZE - 300)
        n += (size_t)sprintf(text + n, ",9e9");
    strcpy(text + n, "]}");
    for (int i = 0; i < 2; i++) {
        char *path = file_of(text, i ? SIZE : n + 2);
        ck_assert_int_eq(READ("--config", path), -EINVAL);
        ck_assert_ptr_nonnull(strstr(problem.text, i ? "less than" : "more values"));
        unlink(path);
        td_config_fini(&config);
        memset(text + n, ' ', SIZE - n);
    }
    free(text);
}
END_TEST

static const struct {
    char *flag[2];
    const char *says;
} wrong_flags[] = {
    {{"--nope", "1"}, "unknown option '--nope'"},
    {{"serve", "1"}, "unknown option 'serve'"},
    {{"--", "1"}, "unknown option '--'"},
    {{"--idle", "1"}, "unknown option '--idle'"},
    {{"--idle-s"}, "wants SECONDS"},
    {{"--idle-s", "0"}, "from 1 to 86400"},
    {{"--idle-s", "1x"}, "idle-s: '1x'"},
    {{"--idle-s", ""}, "idle-s: ''"},
    {{"--idle-s", "nan"}, "idle-s: 'nan'"},
    {{"--json-depth", "1e3000"}, "json-depth"},
    {{"--io-threads", "-1"}, "from 0 to 64"},
    {{"--client-shared-memory", "o"}, "right is one of auto|on|off"},
    {{"--port", "80"}, "unknown option '--port'; did you mean '--listen'?"},
    {{"--model_repository", "/m"}, "did you mean '--models'?"},
    {{"--memroy", "1G"}, "unknown option '--memroy'; did you mean '--memory'?"},
    {{"--task_tl_s=1"}, "did you mean '--task-ttl-s'?"},
    {{"--memory", "1X"}, "memory: '1X' is wrong; right is a whole number"},
    {{"--memory", "G"}, "or one with K, M, G or T"},
    {{"--memory", "1Gi"}, "'1Gi'"},
    {{"--memory", "0.3K"}, "'0.3K'"},
    {{"--memory", "9999999T"}, "'9999999T'"},
    {{"--idle-s", "1K"}, "idle-s: '1K' is wrong; right is a whole number from 1 to 86400"},
};

START_TEST(test_units)
{
    ck_assert_int_eq(READ("--memory", "2G", "--max-body=512KiB", "--store-bytes", "1.5m"), 0);
    ck_assert(config.memory == (size_t)2 << 30 && config.max_body == 512 << 10);
    ck_assert(config.store_bytes == 3 << 19);
    td_config_fini(&config);
    ck_assert_int_eq(read_file("{\"memory\":\"1T\",\"task_bytes\":4096}"), 0);
    ck_assert(config.memory == (size_t)1 << 40 && config.task_bytes == 4096);
    td_config_fini(&config);
}
END_TEST

START_TEST(test_wrong_flags)
{
    for (size_t i = 0; i < sizeof wrong_flags / sizeof *wrong_flags; i++) {
        ck_assert_int_eq(READ(wrong_flags[i].flag[0], wrong_flags[i].flag[1]), -EINVAL);
        ck_assert_msg(strstr(problem.text, wrong_flags[i].says) != NULL, "'%s'", problem.text);
    }
    char *many[2 * TD_MAX_GIVEN + 3] = {0};
    for (int i = 0; i <= TD_MAX_GIVEN; i++) {
        many[2 * i] = "--pool";
        many[2 * i + 1] = "a=0";
    }
    ck_assert_int_eq(read_flags(many), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "pool: at most 64"));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_defaults,   test_flags,       test_environment,
                                  test_precedence, test_file,        test_wrong_files,
                                  test_long_files, test_wrong_flags, test_units};
    return td_run_tests("server_config", tests, sizeof tests / sizeof *tests);
}
