/* A request's body as it arrives: what has come is counted, not what was announced, so clients that
 * announce much and send little hold little. The room for a body of known length is reserved at
 * once, so that each byte is copied once, to where it is used; one of unknown length moves to four
 * times the room as it grows.
 *
 * From HELD on a body counts for the address that sends it, see server/http/peers.h. */
#include "server/http/exchange.h"

#include <errno.h>
#include <string.h>

#define HELD ((size_t)64 << 10)
#define STEP ((size_t)256 << 10) /* in which an address's share is asked for */

/* The rest of the body is dropped, and what has come of it, which its address no longer holds. */
static void refuse(struct td_exchange *x)
{
    if (x->req.body)
        td_api_body_drop(&x->req, x->req.body);
    x->req.body = NULL;
    x->req.body_size = 0;
    x->refused = true;
    td_http_let_go(x);
}

static void refuse_for_memory(struct td_exchange *x)
{
    td_api_problem(&x->req, -ENOMEM, "no memory for the body");
    refuse(x);
}

/* td_memory was not asked, so it counts nothing itself; while this counter moves, the watch cuts
 * off clients that are slow. */
static void count_refused(void)
{
    atomic_fetch_add(&td_memory.refused, 1);
}

/* A body that would not fit now is refused before its client sends it; blocks that are only kept
 * give way. */
static bool is_hopeless(uint64_t size)
{
    size_t used = td_memory.used, kept = td_memory_kept(), limit = td_memory.limit;
    used -= kept < used ? kept : used;
    return size > HELD && (used > limit || size > limit - used);
}

void td_http_upload_begin(struct td_exchange *x)
{
    struct td_request *req = &x->req;
    if (td_access_hold(req, req->content_length)) {
        refuse(x);
        return;
    }
    if (is_hopeless(req->content_length))
        count_refused();
    else
        req->body = td_api_body(req, req->content_length);
    x->room = req->content_length;
    if (!req->body)
        refuse_for_memory(x);
}

/* Other room, for a body that has outgrown what it has. */
static bool move(struct td_exchange *x, size_t need)
{
    struct td_request *req = &x->req;
    size_t most = td_api_body_limit(req), room = need < HELD / 4 ? HELD / 4 : 4 * need;
    room = room < most ? room : most;
    char *body = td_api_body(req, room);
    if (!body || td_api_body_fill(req, body, need)) {
        if (body)
            td_api_body_drop(req, body);
        return false;
    }
    if (req->body) {
        memcpy(body, req->body, req->body_size);
        td_api_body_drop(req, req->body);
    }
    req->body = body;
    x->room = room;
    return true;
}

static int refuse_peer(struct td_exchange *x)
{
    return td_api_problem(&x->req, -EDQUOT,
                          "your address has as many bodies, or bytes of them and of replies, under "
                          "way as it may (peer-bodies, peer-bytes)");
}

bool td_http_is_crowded(struct td_request *req)
{
    struct td_exchange *x = (struct td_exchange *)req;
    return td_access_is_crowded(req) ||
           (td_peers_is_crowded(&x->thread->http->peers, x->client->peer) && refuse_peer(x));
}

/* The address is to hold so many bytes of this body. -EDQUOT, -ENOMEM, with the response filled. */
static int hold(struct td_exchange *x, size_t need)
{
    if (need <= HELD || need <= x->held)
        return 0;
    size_t more = (need - x->held + STEP - 1) / STEP * STEP;
    int err = td_peers_take(&x->thread->http->peers, x->client->peer, x->held, more);
    if (err == -EDQUOT)
        return refuse_peer(x);
    if (!err) {
        x->held += more;
        return 0;
    }
    count_refused();
    return td_api_problem(&x->req, err,
                          "what your address sends or has yet to read is more than its share of "
                          "the memory while others want it");
}

int td_http_upload_take(struct td_exchange *x, const char *data, size_t size)
{
    struct td_request *req = &x->req;
    size_t need = req->body_size + size, most = td_api_body_limit(req);
    x->client->received += size;
    x->client->chunked |= req->content_length == UINT64_MAX;
    x->received += size;
    if (x->refused)
        return x->received / 2 > req->service->limits.body ? -EMSGSIZE : 0;
    if (need > most) {
        td_api_problem(req, -EMSGSIZE, "the body has more than the %zu bytes that are taken here",
                       most);
        refuse(x);
    } else if (td_access_hold(req, need)) {
        refuse(x);
    } else if (hold(x, need)) {
        refuse(x);
    } else if (need > x->room ? !move(x, need) : td_api_body_fill(req, req->body, need)) {
        refuse_for_memory(x);
    } else {
        memcpy(req->body + req->body_size, data, size);
        req->body_size = need;
    }
    return 0;
}

void td_http_hold_reply(struct td_exchange *x)
{
    const struct td_response *res = &x->req.response;
    td_access_note(&x->req, res->size);
    if (res->constant || res->size <= HELD)
        return;
    td_peers_note(&x->thread->http->peers, x->client->peer, x->held, res->size);
    x->held += res->size;
}

void td_http_let_go(struct td_exchange *x)
{
    if (x->held)
        td_peers_give(&x->thread->http->peers, x->client->peer, x->held);
    x->held = 0;
}
