/* Questions to TCP: see tcp.h. */
#include "server/http/tcp.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* netinet/tcp.h does not have tcpi_bytes_acked */
#include <netinet/in.h>
#include <sys/ioctl.h>

#define CLOSE_WAIT 8 /* a tcpi_state: the client's side has ended */

/* False for a Unix socket. */
static bool ask(const struct td_client *client, struct tcp_info *info)
{
    socklen_t size = sizeof *info;
    *info = (struct tcp_info){0};
    return !getsockopt(client->fd, IPPROTO_TCP, TCP_INFO, info, &size);
}

uint64_t td_tcp_moved(const struct td_client *client, int64_t now)
{
    struct tcp_info info;
    if (client->phase == TD_PHASE_body)
        return client->received;
    return ask(client, &info) ? info.tcpi_bytes_acked : (uint64_t)now;
}

ssize_t td_tcp_peek(const struct td_client *client)
{
    char next;
    struct tcp_info info;
    if (client->tls && ask(client, &info) && info.tcpi_state == CLOSE_WAIT)
        return 0;
    return recv(client->fd, &next, sizeof next, MSG_PEEK | MSG_DONTWAIT);
}

void td_tcp_mark(struct td_client *client)
{
    struct tcp_info info;
    int unread;
    if (ask(client, &info) && !ioctl(client->fd, SIOCINQ, &unread))
        client->before = info.tcpi_bytes_received - (uint64_t)unread;
}

bool td_tcp_tells(const struct td_client *client)
{
    return client->address.ss_family != AF_UNIX &&
           (client->tls ? client->before : !client->chunked);
}

uint64_t td_tcp_surplus(const struct td_client *client, uint64_t *unread)
{
    struct tcp_info info;
    int left = 0;
    *unread = 0;
    if (!td_tcp_tells(client) || !ask(client, &info) || ioctl(client->fd, SIOCINQ, &left))
        return 1;
    *unread = (uint64_t)left;
    bool ended = info.tcpi_state == CLOSE_WAIT;
    if (client->tls) /* whose end is the last that is sent */
        return ended ? 0 : info.tcpi_bytes_received - client->before;
    return info.tcpi_bytes_received - client->heads - client->received - ended; /* a byte */
}
