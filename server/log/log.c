/* The log's lines on their way to standard error.
 *
 * Who has a line copies it into memory under a lock that nobody holds for longer than such a copy
 * takes; one thread takes what there is and writes it. So a reader that has stopped keeps that
 * thread alone, and a line that finds the memory full is counted instead. The thread lets a while
 * pass between two looks: it may need the CPU of an HTTP thread, which polls less when it must
 * share.
 *
 * Standard error is other programs' as well, so it is not made non-blocking: before each piece it
 * is asked whether there is room, and no more is written than a pipe then takes without waiting,
 * PIPE_BUF. */
#include "server/log/log.h"

#include "server/log/line.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROOM (256 << 10)     /* bytes of lines that wait, and as many that are being written */
#define BETWEEN_NS 100000000 /* two looks */
#define LINE_NS 1000000      /* a line of a thread's, as 1,000 make a second */
#define BURST 1000           /* lines at once after a pause */
#define RESERVE 200          /* lines more for what has failed or was slow */
#define LAST_NS 1000000000   /* to be rid of the rest at the end */

struct td_log {
    struct td_front *front;
    bool json, requests;
    int64_t slow_ns; /* INT64_MAX: none is slow */
    pthread_mutex_t lock;
    pthread_cond_t some;
    char *lines, *written; /* ROOM bytes each: those that wait, and the thread's */
    size_t used;
    int n;         /* lines */
    int64_t until; /* when the thread gives up; 0: it goes on */
    pthread_t thread;
};

/* ---- the thread ---- */

static bool is_over(struct td_log *log)
{
    pthread_mutex_lock(&log->lock);
    bool over = log->until && td_now_ns() > log->until;
    pthread_mutex_unlock(&log->lock);
    return over;
}

/* As many whole lines as a pipe takes at once, so that they stay whole beside others' there. */
static size_t piece(const char *text, size_t n)
{
    const char *end = n > PIPE_BUF ? memrchr(text, '\n', PIPE_BUF) : NULL;
    return end ? (size_t)(end + 1 - text) : n < PIPE_BUF ? n : PIPE_BUF;
}

/* False when nobody reads, or not in time. */
static bool write_out(struct td_log *log, const char *text, size_t n)
{
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    while (n) {
        int ready = poll(&room, 1, 100);
        if (ready > 0 && (room.revents & (POLLERR | POLLNVAL)))
            return false;
        ssize_t some = ready > 0 ? write(STDERR_FILENO, text, piece(text, n)) : 0;
        if (some < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (some > 0) {
            text += some;
            n -= (size_t)some;
        } else if (is_over(log)) {
            return false;
        }
    }
    return true;
}

/* Until there are lines, and a while has passed or there are many. Holds the lock. */
static void wait_for_lines(struct td_log *log)
{
    while (!log->used && !log->until)
        pthread_cond_wait(&log->some, &log->lock);
    int64_t at = td_now_ns() + BETWEEN_NS;
    struct timespec end = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000};
    while (log->used < ROOM / 2 && !log->until)
        if (pthread_cond_timedwait(&log->some, &log->lock, &end))
            break;
}

static void *run(void *arg)
{
    struct td_log *log = arg;
    for (bool last = false; !last;) {
        pthread_mutex_lock(&log->lock);
        wait_for_lines(log);
        last = log->until;
        char *lines = log->lines;
        size_t used = log->used;
        int n = log->n;
        log->lines = log->written;
        log->written = lines;
        log->used = 0;
        log->n = 0;
        pthread_mutex_unlock(&log->lock);
        if (!write_out(log, lines, used))
            atomic_fetch_add(&log->front->log_lost, (unsigned)n);
    }
    return NULL;
}

static void hand_over(struct td_log *log, struct td_line *line)
{
    td_line_end(line);
    pthread_mutex_lock(&log->lock);
    bool fits = line->length <= ROOM - log->used, first = !log->used, few = log->used < ROOM / 2;
    if (fits) {
        memcpy(log->lines + log->used, line->text, line->length);
        log->used += line->length;
        log->n++;
    }
    bool many = few && log->used >= ROOM / 2;
    pthread_mutex_unlock(&log->lock);
    if (!fits)
        atomic_fetch_add(&log->front->log_lost, 1);
    else if (first || many)
        pthread_cond_signal(&log->some);
}

/* ---- begin and end ---- */

int td_log_start(struct td_log **result, enum td_log_form form, int slow_ms, struct td_front *front)
{
    struct td_log *log = calloc(1, sizeof *log);
    if (!log)
        return -ENOMEM;
    log->front = front;
    log->json = form == TD_LOG_json || (form == TD_LOG_auto && !isatty(STDERR_FILENO));
    log->requests = form != TD_LOG_off;
    log->slow_ns = slow_ms ? slow_ms * INT64_C(1000000) : INT64_MAX;
    log->lines = malloc(ROOM);
    log->written = malloc(ROOM);
    pthread_mutex_init(&log->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&log->some, &attr);
    int err = log->lines && log->written ? -pthread_create(&log->thread, NULL, run, log) : -ENOMEM;
    if (err) {
        free(log->lines);
        free(log->written);
        free(log);
        return err;
    }
    pthread_setname_np(log->thread, "td log");
    *result = log;
    return 0;
}

bool td_log_finish(struct td_log *log)
{
    struct timespec until;
    pthread_mutex_lock(&log->lock);
    log->until = td_now_ns() + LAST_NS;
    pthread_mutex_unlock(&log->lock);
    pthread_cond_signal(&log->some);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    if (!pthread_timedjoin_np(log->thread, NULL, &until))
        return true;
    pthread_detach(log->thread); /* a stopped terminal holds it in a write */
    return false;
}

void td_log_stop(struct td_log *log)
{
    if (!log || !td_log_finish(log))
        return;
    free(log->lines);
    free(log->written);
    free(log);
}

void td_log_event(struct td_log *log, const char *event, const char *format, ...)
{
    struct td_line line;
    char sentence[2048];
    va_list args;
    if (!log)
        return;
    va_start(args, format);
    vsnprintf(sentence, sizeof sentence, format, args);
    va_end(args);
    td_line_begin(&line, log->json);
    if (log->json)
        td_line_text(&line, "event", event);
    td_line_sentence(&line, "message", sentence);
    hand_over(log, &line);
}

void td_log_last_words(const struct td_log *log, const char *event, const char *sentence)
{
    const char *text[] = {"tensord: ", sentence, "\n", NULL};
    const char *json[] = {"{\"event\":\"", event, "\",\"message\":\"", sentence, "\"}\n", NULL};
    struct pollfd room = {.fd = STDERR_FILENO, .events = POLLOUT};
    char said[500];
    size_t n = 0;
    for (const char **part = log->json ? json : text; *part; part++)
        for (const char *at = *part; *at && n < sizeof said; at++)
            said[n++] = *at;
    if (poll(&room, 1, 0) == 1 && write(STDERR_FILENO, said, n) < 0)
        return;
}

/* ---- requests ---- */

static bool is_slow(const struct td_log *log, const struct td_request *req, int64_t now)
{
    return now - req->begin_ns >= log->slow_ns;
}

bool td_log_wants(struct td_log *log, struct td_log_turn *turn, const struct td_request *req,
                  int64_t now)
{
    if (!log || !log->requests)
        return false;
    bool first = req->response.status >= 400 || is_slow(log, req, now);
    int64_t earliest = now - BURST * (int64_t)LINE_NS;
    if (turn->next_ns < earliest)
        turn->next_ns = earliest;
    if (turn->next_ns > now + (first ? RESERVE * (int64_t)LINE_NS : 0)) {
        turn->skipped++;
        return false;
    }
    turn->next_ns += LINE_NS;
    return true;
}

static void write_call(struct td_line *line, const struct td_trail *trail)
{
    td_line_text(line, "op", trail->op);
    td_line_text(line, "model", trail->model);
    td_line_text(line, "session", trail->session);
    if (trail->session)
        td_line_int(line, "step", trail->step);
    if (!trail->impl)
        return;
    td_line_us(line, "queue_us", trail->queue_ns);
    td_line_us(line, "compute_us", trail->compute_ns);
    td_line_text(line, "pool", trail->pool);
    td_line_text(line, "kernel", trail->impl->name);
    td_line_text(line, "isa", td_isa_name(trail->isa));
    if (trail->compute_type)
        td_line_text(line, "compute_type", td_dtype_name(trail->compute_type));
}

void td_log_write(struct td_log *log, struct td_log_turn *turn, const struct td_log_request *r)
{
    struct td_line line;
    struct td_request *req = r->req;
    char client[80], route[80] = "";
    td_address_name(r->client, client, sizeof client);
    if (req->route)
        snprintf(route, sizeof route, "%.*s", (int)strcspn(req->route->pattern, "?"),
                 req->route->pattern);
    td_line_begin(&line, log->json);
    td_line_text(&line, "id", r->id);
    td_line_text(&line, "client", client);
    td_line_text(&line, "method", r->method);
    td_line_text(&line, req->route ? "route" : "path", req->route ? route : req->path);
    td_line_int(&line, "status", req->response.status);
    td_line_int(&line, "in", (int64_t)r->received);
    td_line_int(&line, "out", req->method == TD_HEAD ? 0 : (int64_t)req->response.size);
    td_line_us(&line, "us", r->now - req->begin_ns);
    write_call(&line, &req->trail);
    td_line_text(&line, "token", td_access_token(req));
    td_line_text(&line, "problem", req->response.problem);
    td_line_text(&line, "traceparent", r->trace);
    if (turn->skipped)
        td_line_int(&line, "skipped", (int64_t)turn->skipped);
    if (is_slow(log, req, r->now) && req->explain_)
        td_line_raw(&line, "explain", req->explain_(req));
    hand_over(log, &line);
    atomic_fetch_add(&log->front->log_skipped, turn->skipped);
    turn->skipped = 0;
}
