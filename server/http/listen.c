/* Addresses. All HTTP threads of a server share one TCP port through SO_REUSEPORT, which would also
 * let a second server of the same user creep in and take half of the connections: so a port is
 * first bound without that option, which fails where anybody listens. For the same reason a Unix
 * socket is removed only when it is one and nobody answers on it. */
#include "server/http/listen.h"

#include "server/log/log.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* A decimal port from 0 to 65535; getaddrinfo would take 99999 modulo 65536. */
static bool is_port(const char *text)
{
    size_t n = strspn(text, "0123456789");
    int port = 0;
    for (size_t i = 0; i < n && port <= 65535; i++)
        port = 10 * port + (text[i] - '0');
    return n && !text[n] && port <= 65535;
}

static int parse_tcp(struct td_listener *listener, const char *text, socklen_t *length)
{
    char host[64];
    const char *colon = strrchr(text, ':');
    size_t n = colon ? (size_t)(colon - text) : 0;
    if (!colon || n >= sizeof host || !is_port(colon + 1))
        return -EINVAL;
    bool is_v6 = n > 2 && *text == '[' && text[n - 1] == ']';
    if (is_v6) {
        text++;
        n -= 2;
    }
    memcpy(host, text, n);
    host[n] = 0;
    if (!is_v6 && strchr(host, ':')) /* "::1" with its last part taken for the port */
        return -EINVAL;
    struct addrinfo hints = {.ai_flags = AI_NUMERICSERV | AI_PASSIVE,
                             .ai_family = is_v6 ? AF_INET6 : AF_INET,
                             .ai_socktype = SOCK_STREAM};
    struct addrinfo *info;
    if (getaddrinfo(n ? host : NULL, colon + 1, &hints, &info))
        return -EINVAL;
    memcpy(&listener->address, info->ai_addr, info->ai_addrlen);
    *length = info->ai_addrlen;
    freeaddrinfo(info);
    return 0;
}

/* Binds for a moment. Connections of an earlier server that linger are no hindrance. */
static int find_free(const struct td_listener *listener, socklen_t length)
{
    int on = 1;
    int fd = socket(listener->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (listener->address.ss_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
    int err = bind(fd, (const struct sockaddr *)&listener->address, length) ? -errno : 0;
    close(fd);
    return err;
}

/* Makes way for a Unix socket: removes one that a killed server left behind. */
static int clear_path(const struct sockaddr_un *address)
{
    struct stat st;
    if (lstat(address->sun_path, &st))
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    bool dead =
        connect(fd, (const struct sockaddr *)address, sizeof *address) && errno == ECONNREFUSED;
    close(fd);
    if (!dead)
        return -EADDRINUSE;
    return unlink(address->sun_path) ? -errno : 0;
}

/* Octal digits up to 777; -1: it is something else. */
static int read_mode(const char *text)
{
    size_t n = strspn(text, "01234567");
    long mode = n && n <= 4 && !text[n] ? strtol(text, NULL, 8) : -1;
    return mode <= 0777 ? (int)mode : -1;
}

/* At no moment may more connect than mode says: the socket has it before it has a name, and after
 * that what the umask has taken of it. */
static int bind_unix(int fd, const struct sockaddr_un *address, int mode)
{
    if (fchmod(fd, (mode_t)mode) || bind(fd, (const struct sockaddr *)address, sizeof *address))
        return -errno;
    int err = chmod(address->sun_path, (mode_t)mode) || listen(fd, 1024) ? -errno : 0;
    if (err)
        unlink(address->sun_path);
    return err;
}

static int open_unix(struct td_listener *listener, const char *path, int mode)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (!*path)
        return -EINVAL;
    if (strlen(path) >= sizeof address.sun_path)
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    int err = clear_path(&address);
    if (err)
        return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    err = bind_unix(fd, &address, mode);
    if (err) {
        close(fd);
        return err;
    }
    strcpy(listener->path, path);
    listener->fd = fd;
    return 0;
}

int td_listener_open(struct td_listener *listener, const char *text, const char *mode,
                     struct td_problem *problem)
{
    socklen_t length;
    *listener = (struct td_listener){.fd = -1};
    int err;
    if (read_mode(mode) < 0)
        return td_problem_set(problem, EINVAL,
                              "unix-mode: '%.40s': right are octal digits, 0 to 777", mode);
    if (!strncmp(text, "unix:", 5)) {
        err = open_unix(listener, text + 5, read_mode(mode));
    } else if (!(err = parse_tcp(listener, text, &length))) {
        err = find_free(listener, length);
    }
    if (err)
        td_problem_set(problem, -err, "listen: '%.120s': %s", text,
                       err == -EINVAL ? "right are ADDR:PORT, [ADDR]:PORT and unix:PATH, "
                                        "with a port from 0 to 65535"
                                      : strerror(-err));
    return err;
}

bool td_address_is_loopback(const struct sockaddr_storage *address)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    return address->ss_family == AF_INET6 ? IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)
                                          : address->ss_family == AF_INET &&
                                                ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

bool td_listener_is_local(const struct td_listener *listener)
{
    return !listener->address.ss_family || td_address_is_loopback(&listener->address);
}

void td_listener_name(const struct td_listener *listener, bool tls, char *name, size_t size)
{
    char host[80];
    td_address_name(&listener->address, host, sizeof host);
    bool is_tcp = listener->address.ss_family;
    snprintf(name, size, "%s%s",
             !is_tcp ? "unix:"
             : tls   ? "https://"
                     : "http://",
             is_tcp ? host : listener->path);
}

void td_listener_unlink(struct td_listener *listener)
{
    if (*listener->path)
        unlink(listener->path);
    *listener->path = 0;
}

void td_listener_close(struct td_listener *listener)
{
    td_listener_unlink(listener);
    if (listener->fd >= 0)
        close(listener->fd);
    listener->fd = -1;
}
