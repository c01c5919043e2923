/* Processes of the program that runs: servers that a report measures, and commands whose figures
 * differ with where a process happens to lie in memory, so that they want several. */
#include "server/report/client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 24
#define PATIENCE_MS 20000 /* for a server to be ready */

extern char **environ;

/* In the child: only what may be called between fork and exec of a program with threads. */
static void become(char *const *argv, char *const *environment, const int ends[2], pid_t parent)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent ||
        dup2(ends[0], STDIN_FILENO) < 0 || dup2(ends[1], STDOUT_FILENO) < 0 ||
        dup2(ends[1], STDERR_FILENO) < 0)
        _exit(127);
    execvpe(argv[0], argv, environment);
    _exit(127);
}

/* What is set for the person's own servers is not meant for this one. */
static char **make_environment(void)
{
    static char quiet[] = "TENSORD_LOG=off";
    size_t n = 0;
    while (environ[n])
        n++;
    char **made = calloc(n + 2, sizeof *made);
    for (size_t i = 0, at = 0; made && i < n; i++)
        if (strncmp(environ[i], "TENSORD_", 8) || !strncmp(environ[i], "TENSORD_CPU", 11))
            made[at++] = environ[i];
    size_t at = 0;
    while (made && made[at])
        at++;
    if (made)
        made[at] = quiet;
    return made;
}

/* Reads what it says until it is ready. */
static int await_ready(struct td_child *child, struct td_problem *problem)
{
    char said[4096] = "";
    size_t n = 0;
    static const char word[] = "ready on http://127.0.0.1:";
    for (;;) {
        struct pollfd ready = {.fd = child->log, .events = POLLIN};
        ssize_t got = poll(&ready, 1, PATIENCE_MS) == 1
                          ? read(child->log, said + n, sizeof said - 1 - n)
                          : -1;
        if (got <= 0)
            return td_problem_set(problem, EPROTO, "the server did not become ready: %.200s", said);
        n += (size_t)got;
        said[n] = 0;
        const char *at = strstr(said, word);
        if (at && strchr(at, '\n')) {
            child->port = atoi(at + sizeof word - 1);
            return 0;
        }
    }
}

int td_child_spawn(struct td_child *child, const char *program, const char *const *words,
                   struct td_problem *problem)
{
    static const char own[] = "/proc/self/exe";
    char *argv[MAX_WORDS + 2] = {(char *)(program ? program : own)}; /* exec changes none */
    int said[2] = {-1, -1}, told[2] = {-1, -1};
    *child = (struct td_child){.pid = -1, .log = -1, .to = -1};
    for (int n = 1; *words && n <= MAX_WORDS; words++)
        argv[n++] = (char *)*words;
    char **environment = make_environment();
    if (!environment || pipe2(said, O_CLOEXEC) || pipe2(told, O_CLOEXEC)) {
        free(environment);
        if (said[0] >= 0)
            close(said[0]), close(said[1]);
        return td_problem_set(problem, ENOMEM, "no process could be started: out of memory");
    }
    const int ends[] = {told[0], said[1]};
    pid_t parent = getpid();
    child->pid = fork();
    if (!child->pid)
        become(argv, environment, ends, parent);
    int err = child->pid < 0 ? errno : 0;
    close(told[0]);
    close(said[1]);
    free(environment);
    child->log = said[0];
    child->to = told[1];
    return err ? td_problem_set(problem, err, "no process could be started: %s", strerror(err)) : 0;
}

int td_child_start(struct td_child *child, const char *const *options, struct td_problem *problem)
{
    const char *words[MAX_WORDS + 1] = {"serve", "--listen", "127.0.0.1:0"};
    for (int n = 3; *options && n < MAX_WORDS; options++)
        words[n++] = *options;
    int err = td_child_spawn(child, NULL, words, problem);
    return err ? err : await_ready(child, problem);
}

char *td_child_read(struct td_child *child, struct td_arena *arena, struct td_problem *problem)
{
    struct td_writer said;
    td_write_init(&said, arena, 4096);
    for (ssize_t got = 1; got;) {
        char *room = td_write_room(&said, 4096);
        got = room ? read(child->log, room, 4095) : 0;
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            break;
        td_write_took(&said, (size_t)got);
    }
    char *end = td_write_room(&said, 1);
    int status = 0;
    waitpid(child->pid, &status, 0);
    child->pid = -1;
    td_child_stop(child);
    if (end)
        *end = 0;
    if (end && !status)
        return said.text;
    td_problem_set(problem, EPROTO, "it ended with status %d: %.200s", status,
                   end ? said.text : "out of memory");
    return NULL;
}

void td_child_stop(struct td_child *child)
{
    if (child->pid > 0) {
        kill(child->pid, SIGTERM);
        kill(child->pid, SIGTERM); /* nothing is under way that is to be waited for */
        waitpid(child->pid, NULL, 0);
    }
    if (child->log >= 0)
        close(child->log);
    if (child->to >= 0)
        close(child->to);
    *child = (struct td_child){.pid = -1, .log = -1, .to = -1};
}
