/* What each client address holds: connections, bodies that are arriving, and replies that it has
 * not read yet. All functions are safe to call from any thread. Internal to server/. */
#ifndef TD_SERVER_PEERS_H
#define TD_SERVER_PEERS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

struct td_peer { /* an IPv4 address, an IPv6 network of 64 bits, or all Unix sockets */
    struct td_peer *next;
    uint64_t key;
    int family, connections;
    int holding; /* requests that hold bytes */
    size_t held; /* bytes that they hold */
};

struct td_peer_limits {      /* of one address; not of Unix sockets; 0: none */
    int connections, bodies; /* bodies: requests that hold bytes */
    size_t bytes;            /* that these hold */
};

#define TD_PEER_BUCKETS 256

struct td_peers {
    pthread_mutex_t lock;
    struct td_peer *bucket[TD_PEER_BUCKETS];
    int holding;                  /* addresses that hold bytes */
    struct td_peer_limits limits; /* as set after td_peers_init */
};

void td_peers_init(struct td_peers *peers);
void td_peers_fini(struct td_peers *peers); /* no connection is left */

/* Counts a connection of the address, and one less. NULL: out of memory. */
struct td_peer *td_peers_add(struct td_peers *peers, const struct sockaddr_storage *address);
void td_peers_remove(struct td_peers *peers, struct td_peer *peer);
/* How many connections the address has. */
int td_peers_connections(struct td_peers *peers, const struct td_peer *peer);

/* Whether the address has as many connections as it may. peers and peer may be NULL: false. */
bool td_peers_is_full(struct td_peers *peers, const struct td_peer *peer);
/* For a new connection from the address: its peer if it already has as many as it may, otherwise
 * NULL. The peer lives as long as one of its connections; use it only to compare, unless you hold
 * one. */
const struct td_peer *td_peers_refuses(struct td_peers *peers,
                                       const struct sockaddr_storage *address);

/* A request of the peer that holds held bytes wants to hold bytes more. -EDQUOT: that is beyond a
 * limit of the address; -ENOMEM: more than half of td_memory is in use, and it is beyond the
 * address's share. All addresses that hold bytes share three quarters of td_memory equally; the
 * only request of an address is never beyond its share. */
int td_peers_take(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes);
/* The same without asking, for bytes that are there already. */
void td_peers_note(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes);
/* Whether replies that were noted have led the address beyond its limits. */
bool td_peers_is_crowded(struct td_peers *peers, const struct td_peer *peer);
/* The request gives back all that it holds. */
void td_peers_give(struct td_peers *peers, struct td_peer *peer, size_t held);

#endif
