/* A request with what the server needs of it, which request.c leads through its life. Internal
 * to the files of http.c. */
#ifndef TD_SERVER_HTTP_EXCHANGE_H
#define TD_SERVER_HTTP_EXCHANGE_H

#include "server/http/threads.h"

enum td_exchange_state {             /* between its worker and its HTTP thread */
                         ST_own,     /* the HTTP thread's */
                         ST_running, /* suspended, a worker has it */
                         ST_replied, /* the response is there and not queued yet */
};

struct td_exchange {       /* lives in the request's arena */
    struct td_request req; /* first, so that one leads to the other */
    struct MHD_Connection *connection;
    struct td_http_thread *thread;
    struct td_client *client;
    struct td_http_line line;
    struct td_http_head head;
    bool begun;        /* its head has come */
    bool repeats;      /* behind the request line it came as the connection's last one */
    size_t room;       /* bytes that fit at req.body */
    uint64_t received; /* bytes of the body, taken or dropped */
    size_t held;       /* bytes that count for its address, see server/http/peers.h */
    bool refused;      /* the response was settled before the body; the body is dropped */
    bool counted;      /* in service->front.in_flight */
    _Atomic enum td_exchange_state state;
    char made[TD_ID_SIZE]; /* its id, where the client gave none */
};

/* Sends the response. MHD_NO: there is no memory for it; the connection is to be closed. */
enum MHD_Result td_http_send(struct td_exchange *x);
/* Frees what the thread has kept of responses. */
void td_http_drop_kept(struct td_http_thread *thread);

/* ---- upload.c ---- */

/* Reserves room for a body of known length, or refuses it. */
void td_http_upload_begin(struct td_exchange *x);
/* A piece of the body. -EMSGSIZE when the client goes on and on after its request has been refused:
 * libmicrohttpd takes a response only before the body or after it. */
int td_http_upload_take(struct td_exchange *x, const char *data, size_t size);
/* Whether its token or address has yet to read more than it may; the response is then filled. */
bool td_http_is_crowded(struct td_request *req);
/* The reply, whose body counts for the client's address until it has been sent. */
void td_http_hold_reply(struct td_exchange *x);
void td_http_let_go(struct td_exchange *x);

#endif
