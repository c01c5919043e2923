/* Load for a server: connections that stay open, each of which sends its request as soon as it was
 * answered, driven by one thread. What the replies hold is not looked at beyond their status. */
#include "server/report/client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST 256 /* connections */
#define WARM_NS 50000000
#define PATIENCE_NS 20000000000

struct line { /* a connection */
    int fd;
    bool waits;               /* for room to send */
    size_t sent, got, length; /* of its request and reply; length 0: not known yet */
    int64_t begin_ns;
    char head[2048]; /* of the reply, as far as it goes */
};

struct crowd {
    const struct td_load *load;
    struct td_load_result *result;
    struct line *line;
    int poll, n;
    bool counts; /* it is warm */
    long replies;
    char *sink; /* where replies' bodies go */
    size_t sink_size;
};

/* Has the poll tell of room to send as well, or no more. */
static int await_room(struct crowd *c, struct line *line, bool waits)
{
    struct epoll_event event = {.events = EPOLLIN | (waits ? (uint32_t)EPOLLOUT : 0),
                                .data.ptr = line};
    if (waits == line->waits)
        return 0;
    line->waits = waits;
    return epoll_ctl(c->poll, EPOLL_CTL_MOD, line->fd, &event) ? -errno : 0;
}

static int send_more(struct crowd *c, struct line *line)
{
    while (line->sent < c->load->size) {
        ssize_t n = send(line->fd, c->load->request + line->sent, c->load->size - line->sent,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? await_room(c, line, true) : -errno;
        line->sent += (size_t)n;
    }
    return await_room(c, line, false);
}

static int begin(struct crowd *c, struct line *line)
{
    line->sent = line->got = line->length = 0;
    line->begin_ns = td_now_ns();
    return send_more(c, line);
}

static void note(struct crowd *c, const struct line *line)
{
    if (!c->counts)
        return;
    c->replies++;
    c->result->errors += memcmp(line->head + 9, "200", 3) != 0;
    td_times_add(&c->result->times, (double)(td_now_ns() - line->begin_ns) * 1e-3);
}

/* 1: the reply is whole; 0: there is more to come. */
static int read_more(struct crowd *c, struct line *line)
{
    for (;;) {
        bool in_head = !line->length;
        char *to = in_head ? line->head + line->got : c->sink;
        size_t room = in_head ? sizeof line->head - line->got : c->sink_size, body;
        ssize_t n = room ? recv(line->fd, to, room, MSG_DONTWAIT) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            return 0;
        if (n <= 0)
            return n ? -errno : -EPROTO;
        line->got += (size_t)n;
        if (in_head)
            line->length = td_reply_length(line->head, line->got, &body);
        if (line->length && line->got >= line->length)
            return line->got == line->length ? 1 : -EPROTO;
    }
}

static int serve(struct crowd *c, const struct epoll_event *event)
{
    struct line *line = event->data.ptr;
    int err = event->events & EPOLLOUT ? send_more(c, line) : 0;
    if (err || !(event->events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        return err;
    int whole = read_more(c, line);
    if (whole <= 0)
        return whole;
    note(c, line);
    return begin(c, line);
}

/* Until that time, whatever is under way then included where it has come. */
static int drive(struct crowd *c, int64_t end_ns)
{
    struct epoll_event event[64];
    int err = 0;
    while (!err && td_now_ns() < end_ns) {
        int n = epoll_wait(c->poll, event, 64, 100);
        for (int i = 0; i < n && !err; i++)
            err = serve(c, &event[i]);
    }
    return err;
}

static int open_lines(struct crowd *c, const struct td_child *child)
{
    c->poll = epoll_create1(EPOLL_CLOEXEC);
    if (c->poll < 0)
        return -errno;
    for (; c->n < c->load->connections; c->n++) {
        struct line *line = &c->line[c->n];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = line};
        line->fd = td_child_connect(child);
        if (line->fd < 0)
            return line->fd;
        if (epoll_ctl(c->poll, EPOLL_CTL_ADD, line->fd, &event)) {
            close(line->fd);
            return -errno;
        }
    }
    return 0;
}

static int run(struct crowd *c, const struct td_child *child)
{
    int err = open_lines(c, child);
    for (int i = 0; i < c->n && !err; i++)
        err = begin(c, &c->line[i]);
    err = err ? err : drive(c, td_now_ns() + WARM_NS);
    c->counts = true;
    int64_t begin_ns = td_now_ns();
    err = err ? err : drive(c, begin_ns + (int64_t)(c->load->seconds * 1e9));
    while (!err && !c->replies && td_now_ns() < begin_ns + PATIENCE_NS)
        err = drive(c, td_now_ns() + 1000000); /* one at least */
    c->result->rate = (double)c->replies * 1e9 / (double)(td_now_ns() - begin_ns);
    td_times_sort(&c->result->times);
    for (int i = 0; i < c->n; i++)
        close(c->line[i].fd);
    if (c->poll >= 0)
        close(c->poll);
    return err;
}

int td_load_run(const struct td_child *child, const struct td_load *load,
                struct td_load_result *result)
{
    struct crowd c = {.load = load, .result = result, .poll = -1, .sink_size = 1 << 18};
    char cpu[16];
    *result = (struct td_load_result){.rate = 0};
    c.line = calloc((size_t)load->connections, sizeof *c.line);
    c.sink = malloc(c.sink_size);
    snprintf(cpu, sizeof cpu, "%d", load->cpu);
    int err = !c.line || !c.sink || load->connections > MOST ? -ENOMEM
              : load->cpu >= 0                               ? td_bind_cpus(cpu)
                                                             : 0;
    err = err == -ENOSYS ? 0 : err;
    err = err ? err : run(&c, child);
    free(c.line);
    free(c.sink);
    return err;
}
