/* One question at a time to a server that a report has started. */
#include "server/report/client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#define PATIENCE_S 20 /* for a reply to come */

int td_child_connect(const struct td_child *child)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)child->port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval patience = {.tv_sec = PATIENCE_S};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (struct sockaddr *)&to, sizeof to)) {
        int err = errno;
        close(fd);
        return -err;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return fd;
}

char *td_question_bytes(struct td_arena *arena, const struct td_question *q, size_t *size)
{
    char *bytes = td_arena_alloc(arena, q->size + 1024);
    if (!bytes)
        return NULL;
    int n =
        snprintf(bytes, 1024, "%s %.400s HTTP/1.1\r\nHost: localhost\r\n%s%s%s", q->method, q->path,
                 q->type ? "Content-Type: " : "", q->type ? q->type : "", q->type ? "\r\n" : "");
    if (q->head)
        n += snprintf(bytes + n, 1024 - (size_t)n, "Inference-Header-Content-Length: %zu\r\n",
                      q->head);
    n += snprintf(bytes + n, 1024 - (size_t)n, "Content-Length: %zu\r\n\r\n", q->size);
    if (q->size)
        memcpy(bytes + n, q->body, q->size);
    *size = (size_t)n + q->size;
    return bytes;
}

/* The number behind a header's name, which ends in ": "; otherwise where there is none. */
static size_t header(const char *text, size_t size, const char *name, size_t otherwise)
{
    size_t n = strlen(name);
    for (const char *at = text; at + n < text + size; at++)
        if (at[-(at > text)] == '\n' && !strncasecmp(at, name, n))
            return strtoull(at + n, NULL, 10);
    return otherwise;
}

size_t td_reply_length(const char *text, size_t size, size_t *body)
{
    const char *end = memmem(text, size, "\r\n\r\n", 4);
    if (!end)
        return 0;
    *body = (size_t)(end - text) + 4;
    return *body + header(text, *body, "content-length: ", 0);
}

static int send_all(int fd, const char *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t n = send(fd, bytes + done, size - done, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR)
            return -errno;
        done += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

static int read_reply(int fd, struct td_arena *arena, struct td_reply *reply)
{
    size_t room = 1 << 16, n = 0, body = 0, length = 0;
    char *text = td_arena_alloc(arena, room + 1);
    while (text && (!length || n < length)) {
        if (length >= room || n == room) {
            size_t more = length > 2 * room ? length : 2 * room;
            char *wider = td_arena_alloc(arena, more + 1);
            if (!wider)
                return -ENOMEM;
            memcpy(wider, text, n);
            text = wider;
            room = more;
        }
        ssize_t got = recv(fd, text + n, room - n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got ? -errno : -EPROTO;
        n += (size_t)got;
        text[n] = 0;
        length = length ? length : td_reply_length(text, n, &body);
    }
    if (!text)
        return -ENOMEM;
    *reply =
        (struct td_reply){.status = atoi(text + 9), .body = text + body, .size = length - body};
    reply->head = header(text, body, "inference-header-content-length: ", reply->size);
    return 0;
}

int td_child_ask(const struct td_child *child, struct td_arena *arena, const struct td_question *q,
                 struct td_reply *reply)
{
    size_t size;
    char *bytes = td_question_bytes(arena, q, &size);
    int fd = bytes ? td_child_connect(child) : -ENOMEM;
    if (fd < 0)
        return fd;
    int err = send_all(fd, bytes, size);
    err = err ? err : read_reply(fd, arena, reply);
    close(fd);
    return err;
}
