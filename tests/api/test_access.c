/* api/access: how long it takes to judge a secret says nothing of the hashes that there are. Time
 * is noise, so instructions are counted: a parent steps a child through one judgement. */
#include "api/access/access.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOKENS 5
#define CANNOT 77

static const char secret[] = "a-secret-that-somebody-guesses";

enum place { FAR, NEAR, FIRST, LAST };

/* A file of tokens whose hashes differ from the secret's in their first byte, or in their last one
 * alone; the first token, or the last, may have the secret itself. */
static void write_tokens(const char *path, enum place place)
{
    FILE *file = fopen(path, "w");
    ck_assert_ptr_nonnull(file);
    for (int i = 0; i < TOKENS; i++) {
        char hash[65];
        td_digest(secret, strlen(secret), hash);
        bool right = (place == FIRST && !i) || (place == LAST && i == TOKENS - 1);
        size_t at = place == NEAR ? 63 : 0;
        for (int more = right ? 0 : i + 1; more > 0; more--)
            hash[at] = hash[at] == 'f' ? '0' : hash[at] == '9' ? 'a' : (char)(hash[at] + 1);
        fprintf(file, "t%d %s read\n", i, hash);
    }
    fclose(file);
}

static int judge(struct td_service *service)
{
    static const struct td_route route = {.pattern = "/", .scope = TD_SCOPE_read};
    char header[64];
    snprintf(header, sizeof header, "Bearer %s", secret);
    struct td_request req = {
        .arena = td_arena_create(), .service = service, .route = &route, .authorization = header};
    int err = td_access_judge(&req);
    td_access_leave(&req);
    td_arena_destroy(req.arena);
    return err;
}

/* The child: judges twice, and stops before and after the second time. */
static void judge_in_steps(const char *path, int right)
{
    struct td_service service = {.limits = {.store_bytes = 1 << 20}};
    struct td_budget store;
    struct td_problem problem;
    td_budget_init(&store, NULL, SIZE_MAX, ENOSPC);
    if (td_access_create(&service.access, &service, &store, path, &problem) ||
        judge(&service) != right)
        _exit(1);
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
        _exit(CANNOT);
    raise(SIGSTOP);
    int err = judge(&service);
    raise(SIGSTOP);
    _exit(err != right);
}

/* Instructions of a judgement; -1: no process may be stepped here. */
static long steps(enum place place)
{
    char path[] = "/tmp/tensord-tokens-XXXXXX";
    int fd = mkstemp(path), status;
    ck_assert(fd >= 0 && !close(fd));
    write_tokens(path, place);
    fflush(NULL);
    pid_t child = fork();
    if (!child)
        judge_in_steps(path, place == FIRST || place == LAST ? 0 : -ENOKEY);
    ck_assert(child > 0 && waitpid(child, &status, 0) == child);
    long n = 0;
    if (WIFSTOPPED(status)) {
        do {
            n++;
            ck_assert(!ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) &&
                      waitpid(child, &status, 0) == child);
        } while (WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP);
        ck_assert(WIFSTOPPED(status));
        ck_assert(!ptrace(PTRACE_CONT, child, NULL, NULL) && waitpid(child, &status, 0) == child);
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT) {
        n = -1;
    }
    unlink(path);
    ck_assert(n < 0 || (WIFEXITED(status) && !WEXITSTATUS(status)));
    return n;
}

START_TEST(test_constant_time)
{
    long far = steps(FAR);
    if (far < 0) {
        printf("skipped: no process may be stepped here\n");
        return;
    }
    ck_assert_int_gt(far, 100);
    ck_assert_int_eq(steps(NEAR), far);
    ck_assert_int_eq(steps(FIRST), steps(LAST));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_constant_time};
    return td_run_tests("access", tests, sizeof tests / sizeof *tests);
}
