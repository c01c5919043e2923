/* HTTP by libmicrohttpd: sockets, threads, bytes. Internal to server/. */
#ifndef TD_SERVER_HTTP_H
#define TD_SERVER_HTTP_H

#include "api/api.h"
#include "server/config/config.h"
#include "server/http/peers.h"
#include "server/log/log.h"
#include "server/tls/tls.h"

struct td_http_config {
    const char *listen;  /* "127.0.0.1:8080", "[::1]:8080", "unix:/run/tensord.sock" */
    const char *io_cpus; /* CPU list for the HTTP threads, "": on CPUs of the pools */
    int io_threads;      /* 0: by the pools' threads, or one a CPU of io_cpus */
    int io_spin_us;      /* how long they poll before they sleep */
    int connections;     /* open at a time */
    struct td_peer_limits peer;
    int idle_s;     /* seconds after which a silent connection is closed */
    int transfer_s; /* how long a body may take to arrive, and a reply to be read; 0: for ever */
    struct td_tls *tls; /* borrowed, for addresses that are no Unix sockets; NULL: they are plain */
    bool insecure;      /* others than this machine may come without a token */
    const char *unix_mode;                            /* of a Unix socket, in octal: "0600" */
    struct td_log *log;                               /* borrowed; NULL: none */
    const struct td_given *allow_host, *allow_origin; /* borrowed; as in options.def */
};

struct td_http;

/* Opens the listener, which must be of this machine alone if no token and no certificate is asked
 * for and insecure is not said (it then notes in the service that it is not), and starts its HTTP
 * threads; several can serve one service. -EINVAL (the address), -EADDRINUSE and others of bind(2),
 * -ENOMEM; problem says which. service: borrowed until td_http_stop. */
int td_http_start(struct td_http **http, struct td_service *service,
                  const struct td_http_config *config, struct td_problem *problem);
/* Where it listens, with the port that was taken: "http://127.0.0.1:8080". Borrowed. */
const char *td_http_address(const struct td_http *http);
/* Listens no longer, and has each connection end with its next answer. What stood in the queue of
 * those to be accepted is answered too; idle ones are closed a little later. From any thread. */
void td_http_drain(struct td_http *http);
/* Whether no connection is left, and none can come. */
bool td_http_is_drained(const struct td_http *http);
/* Handles no request any more, waits for those that workers have (so the pools must still run),
 * closes everything and frees. NULL is fine. */
void td_http_stop(struct td_http *http);

#endif
