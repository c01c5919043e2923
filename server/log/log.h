/* What the server says on standard error: a line for each request, and lines of its own. Internal
 * to server/. */
#ifndef TD_SERVER_LOG_H
#define TD_SERVER_LOG_H

#include "api/api.h"

#include <sys/socket.h>

enum td_log_form { TD_LOG_auto, TD_LOG_text, TD_LOG_json, TD_LOG_off }; /* as in options.def */

/* Lines go into memory, and a thread of the log's own writes them: whoever says something never
 * waits for the reader. What there is no room or no reader for is counted in front->log_lost. */
struct td_log;

/* form: auto is text on a terminal, json elsewhere; off leaves out the requests, the rest is text.
 * slow_ms: requests that took as long say why their kernel was chosen; 0: none do. front: borrowed.
 * -ENOMEM, -EAGAIN (no thread). */
int td_log_start(struct td_log **log, enum td_log_form form, int slow_ms, struct td_front *front);
/* Writes what is left, for a second at most; later lines are lost. False: its reader still holds
 * the log's thread, so that it must stay. */
bool td_log_finish(struct td_log *log);
/* That, and frees the log; nobody else may have it any more. NULL is fine. */
void td_log_stop(struct td_log *log);

/* A line of the server's own; event: a word for what it is about. log: NULL says nothing. */
void td_log_event(struct td_log *log, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A line before the end of the process, from a signal's handler; sentence: without quotes. */
void td_log_last_words(const struct td_log *log, const char *event, const char *sentence);

/* Catches the traps of kernels (kernels/trap.h) and says each here; leave: the process lives
 * on. log: borrowed, as long as kernels run. */
void td_traps_log(struct td_log *log, bool leave);

/* ---- requests ---- */

struct td_log_turn { /* of one HTTP thread, zeroed at first */
    int64_t next_ns;
    unsigned long long skipped; /* requests since the last line that got none */
};

struct td_log_request {
    struct td_request *req;          /* with its response */
    const char *id, *method, *trace; /* trace: NULL where there is none */
    const struct sockaddr_storage *client;
    uint64_t received; /* bytes of its body, taken or not */
    int64_t now;       /* when it ended */
};

/* Whether a request that has ended gets a line. A thread writes 1,000 a second, after a pause as
 * many at once; where more end, some are left out, and of these first those that went well. */
bool td_log_wants(struct td_log *log, struct td_log_turn *turn, const struct td_request *req,
                  int64_t now);
/* Writes it. In its turn, if td_log_wants. */
void td_log_write(struct td_log *log, struct td_log_turn *turn, const struct td_log_request *r);

/* "127.0.0.1:40000", "[::1]:40000" or "unix". */
void td_address_name(const struct sockaddr_storage *address, char *name, size_t size);

#endif
