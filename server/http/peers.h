/* What each client address holds: requests that are arriving, and replies that it has yet to read.
 * Internal to server/. */
#ifndef TD_SERVER_PEERS_H
#define TD_SERVER_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct td_peer { /* an address: of IPv4, the first 64 bits of IPv6, or all Unix sockets */
    struct td_peer *next;
    uint64_t key;
    int family, connections;
    int holding; /* requests that hold something */
    size_t held; /* bytes */
};

struct td_peer_limits {      /* of one address, but for Unix sockets; 0: none */
    int connections, bodies; /* bodies: requests that hold something */
    size_t bytes;            /* that they hold */
};

#define TD_PEER_BUCKETS 256

struct td_peers { /* any thread may enter */
    pthread_mutex_t lock;
    struct td_peer *bucket[TD_PEER_BUCKETS];
    int holding;                  /* addresses that hold something */
    struct td_peer_limits limits; /* as set after td_peers_init */
};

void td_peers_init(struct td_peers *peers);
void td_peers_fini(struct td_peers *peers); /* no connection is left */

/* A connection comes (NULL: out of memory), and goes. */
struct td_peer *td_peers_add(struct td_peers *peers, const struct sockaddr_storage *address);
void td_peers_remove(struct td_peers *peers, struct td_peer *peer);
/* How many connections it has. */
int td_peers_connections(struct td_peers *peers, const struct td_peer *peer);

/* Whether the address has as many connections as it may. peers, peer: may be NULL, which is false.
 */
bool td_peers_is_full(struct td_peers *peers, const struct td_peer *peer);
/* The address from which a connection wants to come, if it has as many already; or NULL. Borrowed,
 * as long as the caller has one of its connections, or only to compare. */
const struct td_peer *td_peers_refuses(struct td_peers *peers,
                                       const struct sockaddr_storage *address);

/* A request of the peer that holds held bytes is to hold more of them. -EDQUOT: that would be
 * beyond a limit of the address; -ENOMEM: half of td_memory is in use, and it would be more than
 * the address's share of three quarters, which are shared evenly by all that hold something; a
 * request that is the address's only one is never too much for that. */
int td_peers_take(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes);
/* The same for what is there already. */
void td_peers_note(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes);
/* Whether replies that were noted have led the address beyond its limits. */
bool td_peers_is_crowded(struct td_peers *peers, const struct td_peer *peer);
void td_peers_give(struct td_peers *peers, struct td_peer *peer, size_t held); /* all of it */

#endif
