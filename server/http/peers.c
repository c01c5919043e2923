/* Shares of memory by address. Without them, a client with many connections that leaves bodies half
 * sent or replies unread could take all of --memory, although each of its requests is within the
 * limits. While memory is free, an address may have all that it asks for: a proxy with many clients
 * is one address too. */
#include "server/http/peers.h"

#include "pools/pools.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

void td_peers_init(struct td_peers *peers)
{
    memset(peers, 0, sizeof *peers);
    pthread_mutex_init(&peers->lock, NULL);
}

void td_peers_fini(struct td_peers *peers)
{
    pthread_mutex_destroy(&peers->lock);
}

/* Who has one IPv6 address usually has all 2^64 of its network. */
static uint64_t key_of(const struct sockaddr_storage *address)
{
    uint64_t key = 0;
    if (address->ss_family == AF_INET)
        key = ((const struct sockaddr_in *)address)->sin_addr.s_addr;
    else if (address->ss_family == AF_INET6)
        memcpy(&key, &((const struct sockaddr_in6 *)address)->sin6_addr, sizeof key);
    return key;
}

static struct td_peer **find(struct td_peers *peers, uint64_t key, int family)
{
    uint64_t hash = (key + (uint64_t)family) * 0x9e3779b97f4a7c15;
    struct td_peer **at = &peers->bucket[hash >> 56];
    while (*at && ((*at)->key != key || (*at)->family != family))
        at = &(*at)->next;
    return at;
}

struct td_peer *td_peers_add(struct td_peers *peers, const struct sockaddr_storage *address)
{
    uint64_t key = key_of(address);
    pthread_mutex_lock(&peers->lock);
    struct td_peer **at = find(peers, key, address->ss_family), *peer = *at;
    if (!peer && (peer = *at = calloc(1, sizeof *peer))) {
        peer->key = key;
        peer->family = address->ss_family;
    }
    if (peer)
        peer->connections++;
    pthread_mutex_unlock(&peers->lock);
    return peer;
}

void td_peers_remove(struct td_peers *peers, struct td_peer *peer)
{
    pthread_mutex_lock(&peers->lock);
    if (!--peer->connections) {
        *find(peers, peer->key, peer->family) = peer->next;
        free(peer);
    }
    pthread_mutex_unlock(&peers->lock);
}

int td_peers_connections(struct td_peers *peers, const struct td_peer *peer)
{
    pthread_mutex_lock(&peers->lock);
    int n = peer->connections;
    pthread_mutex_unlock(&peers->lock);
    return n;
}

bool td_peers_is_full(struct td_peers *peers, const struct td_peer *peer)
{
    int most = peers && peer && peer->family != AF_UNIX ? peers->limits.connections : 0;
    return most && td_peers_connections(peers, peer) >= most;
}

const struct td_peer *td_peers_refuses(struct td_peers *peers,
                                       const struct sockaddr_storage *address)
{
    if (!peers->limits.connections || address->ss_family == AF_UNIX)
        return NULL;
    pthread_mutex_lock(&peers->lock);
    const struct td_peer *peer = *find(peers, key_of(address), address->ss_family);
    bool full = peer && peer->connections >= peers->limits.connections;
    pthread_mutex_unlock(&peers->lock);
    return full ? peer : NULL;
}

static bool is_beyond(const struct td_peers *peers, const struct td_peer *peer, size_t held,
                      size_t bytes)
{
    const struct td_peer_limits *most = &peers->limits;
    if (peer->family == AF_UNIX)
        return false;
    return (most->bodies && !held && peer->holding >= most->bodies) ||
           (most->bytes && peer->held + bytes > most->bytes);
}

bool td_peers_is_crowded(struct td_peers *peers, const struct td_peer *peer)
{
    const struct td_peer_limits *most = &peers->limits;
    if ((!most->bodies && !most->bytes) || peer->family == AF_UNIX)
        return false;
    pthread_mutex_lock(&peers->lock);
    bool crowded =
        (most->bodies && peer->holding > most->bodies) || (most->bytes && peer->held > most->bytes);
    pthread_mutex_unlock(&peers->lock);
    return crowded;
}

static bool is_too_much(const struct td_peers *peers, const struct td_peer *peer, size_t held,
                        size_t bytes)
{
    size_t limit = td_memory.limit;
    if (td_memory.used <= limit / 2 || peer->holding <= (held > 0))
        return false;
    return peer->held + bytes > limit / 4 * 3 / (size_t)(peers->holding + !peer->holding);
}

static void add(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes)
{
    if (!held && bytes)
        peers->holding += !peer->holding++;
    peer->held += bytes;
}

int td_peers_take(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes)
{
    pthread_mutex_lock(&peers->lock);
    int err = is_beyond(peers, peer, held, bytes)     ? -EDQUOT
              : is_too_much(peers, peer, held, bytes) ? -ENOMEM
                                                      : 0;
    if (!err)
        add(peers, peer, held, bytes);
    pthread_mutex_unlock(&peers->lock);
    return err;
}

void td_peers_note(struct td_peers *peers, struct td_peer *peer, size_t held, size_t bytes)
{
    pthread_mutex_lock(&peers->lock);
    add(peers, peer, held, bytes);
    pthread_mutex_unlock(&peers->lock);
}

void td_peers_give(struct td_peers *peers, struct td_peer *peer, size_t held)
{
    if (!held)
        return;
    pthread_mutex_lock(&peers->lock);
    peer->held -= held;
    peers->holding -= !--peer->holding;
    pthread_mutex_unlock(&peers->lock);
}
