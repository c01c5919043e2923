/* A server of its own process, as a report measures it, and its clients: one that asks and waits
 * (client.c), and many connections at once (load.c). process.c starts it. Internal to
 * server/report.
 */
#ifndef TD_SERVER_REPORT_CLIENT_H
#define TD_SERVER_REPORT_CLIENT_H

#include "server/commands/run.h"

#include <sys/types.h>

struct td_child { /* a process; `tensord serve` on a port of the loopback interface */
    pid_t pid;
    int port;
    int log; /* what it says */
    int to;  /* what it is told; -1 of a server */
};
/* Starts a program, found as a shell finds it (NULL: this one), with these words, NULL-ended. It
 * ends with this process at the latest. 0, or a negative errno. */
int td_child_spawn(struct td_child *child, const char *program, const char *const *words,
                   struct td_problem *problem);
/* All that it says until it ends, in the arena; NULL with the problem: it has failed. */
char *td_child_read(struct td_child *child, struct td_arena *arena, struct td_problem *problem);
/* Starts a server with these options, and waits until it is ready; problem says what it said. */
int td_child_start(struct td_child *child, const char *const *options, struct td_problem *problem);
void td_child_stop(struct td_child *child); /* also of one that did not start */

struct td_question {
    const char *method, *path, *type; /* type of the body, or NULL */
    const void *body;
    size_t size;
    size_t head; /* of the body, the bytes of JSON before elements; 0: it is all of one kind */
};
struct td_reply {
    int status;
    size_t head; /* of the body, the bytes of JSON before elements; size where all of it is */
    char *body;  /* in the arena */
    size_t size;
};
/* The bytes of a request for connections that stay open, in the arena; NULL: no memory. */
char *td_question_bytes(struct td_arena *arena, const struct td_question *q, size_t *size);
/* Asks on a connection of its own: 0, or a negative errno. */
int td_child_ask(const struct td_child *child, struct td_arena *arena, const struct td_question *q,
                 struct td_reply *reply);
int td_child_connect(const struct td_child *child); /* a socket, or a negative errno */

/* Where a reply ends, as far as it has come: 0, its head is not whole yet; else its bytes, head and
 * body. body: where that begins. */
size_t td_reply_length(const char *text, size_t size, size_t *body);

struct td_load { /* the same request over and over on each of these connections */
    const char *request;
    size_t size;
    int connections, cpu; /* of the client's thread; -1: any */
    double seconds;
};
struct td_load_result {
    double rate;           /* replies a second */
    long errors;           /* of them not 200 */
    struct td_times times; /* us from the first byte sent to the last received, sorted */
};
/* On the calling thread. 0, or a negative errno; times are to be freed in any case. */
int td_load_run(const struct td_child *child, const struct td_load *load,
                struct td_load_result *result);

#endif
