/* How addresses of clients and of listeners are written. */
#include "server/log/log.h"

#include <arpa/inet.h>
#include <stdio.h>

void td_address_name(const struct sockaddr_storage *address, char *name, size_t size)
{
    char host[INET6_ADDRSTRLEN];
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)address;
    const struct sockaddr_in *in = (const struct sockaddr_in *)address;
    if (address->ss_family == AF_INET6)
        snprintf(name, size, "[%s]:%d", inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host),
                 ntohs(in6->sin6_port));
    else if (address->ss_family == AF_INET)
        snprintf(name, size, "%s:%d", inet_ntop(AF_INET, &in->sin_addr, host, sizeof host),
                 ntohs(in->sin_port));
    else
        snprintf(name, size, "unix");
}
