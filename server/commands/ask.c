/* A question over plain HTTP or TLS, with one answer, after which the connection ends: see ask.h.
 */
#include "server/commands/ask.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MOST ((size_t)16 << 20) /* bytes of an answer */
#define PATIENCE 10             /* seconds for a piece of it */
#define HTTPS "https://"

struct line { /* to the server */
    int fd;
    bool stranger; /* whoever answers will do, and is told no secret */
    char host[256];
    gnutls_session_t tls; /* NULL: it is plain */
    gnutls_certificate_credentials_t trusted;
};

/* Connects. 0 or a negative errno. */
static int reach(struct line *line, const char *where)
{
    const char *colon = strrchr(where, ':');
    bool bracketed = *where == '[' && colon && colon[-1] == ']'; /* an IPv6 address */
    struct addrinfo wanted = {.ai_socktype = SOCK_STREAM}, *found = NULL;
    snprintf(line->host, sizeof line->host, "%.*s",
             colon ? (int)(colon - where) - 2 * bracketed : 200, where + bracketed);
    if (!colon || getaddrinfo(line->host, colon + 1, &wanted, &found))
        return -EINVAL;
    int err = -ECONNREFUSED;
    for (struct addrinfo *a = found; a && line->fd < 0; a = a->ai_next) {
        line->fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
        if (line->fd >= 0 && connect(line->fd, a->ai_addr, a->ai_addrlen)) {
            err = -errno;
            close(line->fd);
            line->fd = -1;
        }
    }
    freeaddrinfo(found);
    struct timeval patience = {.tv_sec = PATIENCE};
    if (line->fd >= 0)
        setsockopt(line->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return line->fd < 0 ? err : 0;
}

/* The certificate must be for the host, of an authority that is trusted here. */
static int trust(struct line *line)
{
    const char *ca = getenv("TENSORD_CA");
    gnutls_certificate_set_x509_system_trust(line->trusted);
    gnutls_session_set_verify_cert(line->tls, line->host, 0);
    return ca && gnutls_certificate_set_x509_trust_file(line->trusted, ca, GNUTLS_X509_FMT_PEM) <= 0
               ? -EKEYREJECTED
               : 0;
}

static int encrypt(struct line *line)
{
    if (gnutls_certificate_allocate_credentials(&line->trusted) ||
        gnutls_init(&line->tls, GNUTLS_CLIENT))
        return -ENOMEM;
    int err = line->stranger ? 0 : trust(line);
    if (err)
        return err;
    gnutls_set_default_priority(line->tls);
    gnutls_credentials_set(line->tls, GNUTLS_CRD_CERTIFICATE, line->trusted);
    gnutls_server_name_set(line->tls, GNUTLS_NAME_DNS, line->host, strlen(line->host));
    gnutls_transport_set_int(line->tls, line->fd);
    int got;
    do
        got = gnutls_handshake(line->tls);
    while (got == GNUTLS_E_INTERRUPTED);
    return !got                                             ? 0
           : got == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR ? -EKEYREJECTED
           : got == GNUTLS_E_AGAIN                          ? -ETIMEDOUT
                                                            : -EPROTO;
}

static void hang_up(struct line *line)
{
    if (line->tls)
        gnutls_deinit(line->tls);
    if (line->trusted)
        gnutls_certificate_free_credentials(line->trusted);
    if (line->fd >= 0)
        close(line->fd);
}

static ssize_t say(struct line *line, const char *text, size_t size)
{
    return line->tls ? gnutls_record_send(line->tls, text, size)
                     : send(line->fd, text, size, MSG_NOSIGNAL);
}

/* As read(2). */
static ssize_t hear(struct line *line, char *to, size_t room)
{
    if (!line->tls)
        return read(line->fd, to, room);
    ssize_t got;
    do
        got = gnutls_record_recv(line->tls, to, room);
    while (got == GNUTLS_E_INTERRUPTED);
    if (got == GNUTLS_E_PREMATURE_TERMINATION) /* many servers end so */
        return 0;
    errno = got == GNUTLS_E_AGAIN ? EAGAIN : EPROTO;
    return got < 0 ? -1 : got;
}

/* All that the server says until it ends; NULL with errno. */
static char *converse(struct line *line, const char *path, size_t *size)
{
    char request[1024], *text = NULL;
    const char *token = line->stranger ? NULL : getenv("TENSORD_TOKEN");
    size_t room = 0, n = 0;
    snprintf(request, sizeof request,
             "GET %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sConnection: close\r\n\r\n", path,
             token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "");
    ssize_t got = say(line, request, strlen(request));
    while (got > 0 && n < MOST) {
        if (n + 65536 > room) {
            char *more = realloc(text, room = 2 * room + 131072);
            if (!more)
                break;
            text = more;
        }
        got = hear(line, text + n, room - n - 1);
        n += got > 0 ? (size_t)got : 0;
    }
    int err = got < 0 ? errno == EAGAIN ? ETIMEDOUT : errno : got ? EPROTO : 0;
    if (text && n > 12 && (!memcmp(text + 9, "401", 3) || !memcmp(text + 9, "403", 3)))
        err = EACCES;
    *size = n;
    if (!err)
        return text;
    free(text);
    errno = err;
    return NULL;
}

static char *ask(const char *where, const char *path, bool stranger)
{
    struct line line = {.fd = -1, .stranger = stranger};
    bool encrypted = !strncmp(where, HTTPS, strlen(HTTPS));
    size_t n;
    int err = reach(&line, encrypted ? where + strlen(HTTPS) : where);
    if (!err && encrypted)
        err = encrypt(&line);
    char *text = err ? NULL : converse(&line, path, &n);
    err = err ? -err : errno;
    hang_up(&line);
    char *body = text ? memmem(text, n, "\r\n\r\n", 4) : NULL;
    if (!body || body < text + 12 || memcmp(text + 9, "200", 3) != 0) {
        errno = text ? EPROTO : err;
        free(text);
        return NULL;
    }
    n -= (size_t)(body + 4 - text);
    memmove(text, body + 4, n);
    text[n] = 0;
    for (size_t i = 0; i < n; i++) /* a terminal would obey what is no letter */
        if (text[i] != '\n' && (text[i] < ' ' || text[i] > '~'))
            text[i] = '?';
    return text;
}

char *td_ask(const char *where, const char *path)
{
    return ask(where, path, false);
}

bool td_ask_is_ready(const char *where)
{
    char *answer = ask(where, "/v2/health/ready", true);
    free(answer);
    return answer;
}
