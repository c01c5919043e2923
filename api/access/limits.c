/* Accounts count what a token's name has made and uses, and hold its limits. The rate is kept as a
 * time, at which the next request would be due if requests came evenly. A request may come up to a
 * second before that, so a second's worth may come at once (the generic cell rate algorithm). */
#include "api/access/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND_NS INT64_C(1000000000)

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    return td_budget_take(kept ? &((struct td_account *)room)->store : &td_memory, bytes);
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    td_budget_give(kept ? &((struct td_account *)room)->store : &td_memory, bytes);
    if (kept)
        td_heap_freed(bytes);
}

struct td_account *td_account_get(struct td_access *access, const char *name)
{
    struct td_account *account = access->accounts;
    while (account && strcmp(account->name, name) != 0)
        account = account->next;
    if (account || !(account = calloc(1, sizeof *account)))
        return account;
    account->room = (struct td_weight_room){take, give};
    td_budget_init(&account->store, access->store, SIZE_MAX, EDQUOT);
    td_budget_init(&account->memory, NULL, SIZE_MAX, EDQUOT);
    td_budget_init(&account->flight, NULL, SIZE_MAX, EDQUOT);
    snprintf(account->name, sizeof account->name, "%s", name);
    account->of = access;
    account->next = access->accounts;
    access->accounts = account;
    return account;
}

void td_account_limit(struct td_account *account, const struct td_token_limits *limits)
{
    account->store.limit = limits->store ? limits->store : SIZE_MAX;
    account->memory.limit = limits->memory ? limits->memory : SIZE_MAX;
    account->flight.limit = limits->flight ? limits->flight : SIZE_MAX;
}

const char *td_account_name(const struct td_account *account)
{
    return account ? account->name : "";
}

/* ---- requests ---- */

static int refuse(struct td_request *req)
{
    atomic_fetch_add(&req->service->access->limited, 1);
    atomic_fetch_add(&req->token->account->limited, 1);
    return -EDQUOT;
}

/* Whether a request may come now, which then counts. */
static bool is_due(struct td_account *account, int rate, int64_t now)
{
    int64_t step = SECOND_NS / rate, due = atomic_load(&account->due_ns), from;
    do {
        from = due > now ? due : now;
        if (from - now > SECOND_NS - step)
            return false;
    } while (!atomic_compare_exchange_weak(&account->due_ns, &due, from + step));
    return true;
}

int td_access_enter(struct td_request *req)
{
    const struct td_token *token = req->token;
    if (!token)
        return 0;
    atomic_fetch_add_explicit(&token->account->requests, 1, memory_order_relaxed);
    if (!token->limits.rate || is_due(token->account, token->limits.rate, req->begin_ns))
        return 0;
    td_api_problem(req, -EDQUOT, "the token may have %d requests a second (rate)",
                   token->limits.rate);
    return refuse(req);
}

static int refuse_flight(struct td_request *req)
{
    td_api_problem(req, -EDQUOT,
                   "the token's requests and replies under way hold %zu of the %zu bytes that they "
                   "may (flight)",
                   (size_t)req->token->account->flight.used, req->token->limits.flight);
    return refuse(req);
}

int td_access_hold(struct td_request *req, size_t bytes)
{
    const struct td_token *token = req->token;
    if (!token || !token->limits.flight || bytes <= req->flight_)
        return 0;
    struct td_budget *flight = &token->account->flight;
    if (bytes > token->limits.flight) {
        td_api_problem(req, -EMSGSIZE, "the request has %zu bytes; the token may have %zu (flight)",
                       bytes, token->limits.flight);
        return -EMSGSIZE;
    }
    if (td_budget_take(flight, bytes - req->flight_))
        return refuse_flight(req);
    req->flight_ = bytes;
    return 0;
}

/* Replies are not refused once they are there, so they can lead beyond the limit. */
bool td_access_is_crowded(struct td_request *req)
{
    const struct td_token *token = req->token;
    return token && token->limits.flight && token->account->flight.used > token->limits.flight &&
           refuse_flight(req);
}

void td_access_note(struct td_request *req, size_t bytes)
{
    if (!req->token || !req->token->limits.flight || !bytes)
        return;
    td_budget_force(&req->token->account->flight, bytes);
    req->flight_ += bytes;
}

void td_access_leave(struct td_request *req)
{
    if (req->flight_)
        td_budget_give(&req->token->account->flight, req->flight_);
    req->flight_ = 0;
    td_token_unref(req->token);
    req->token = NULL;
}

/* ---- what is stored ---- */

struct td_weight_room *td_access_room(const struct td_request *req)
{
    return req->token ? &req->token->account->room : NULL;
}

/* ---- what is kept for a client ---- */

int td_account_keep(struct td_account *account, size_t bytes)
{
    return account ? td_budget_take(&account->memory, bytes) : 0;
}

void td_account_give(struct td_account *account, size_t bytes)
{
    if (account)
        td_budget_give(&account->memory, bytes);
}

int td_account_no_room(struct td_account *account, const char *what, struct td_problem *problem)
{
    atomic_fetch_add(&account->of->limited, 1);
    return td_problem_set(problem, EDQUOT,
                          "no room for %s: the token's sessions and results of tasks hold %zu of "
                          "the %zu bytes that they may (memory); DELETE one, or wait until one "
                          "expires",
                          what, (size_t)account->memory.used, (size_t)account->memory.limit);
}

/* ---- pools ---- */

int td_access_pool(struct td_request *req, const char *pool)
{
    struct td_access *access = req->service->access;
    if (!req->token)
        return 0;
    const struct td_account *account = req->token->account;
    int n = 0, free_at = -1, known = -1, most = req->token->limits.pools;
    pthread_mutex_lock(&access->lock);
    for (int i = 0; i < TD_MAX_POOLS; i++) {
        n += access->pool[i].by == account;
        free_at = !access->pool[i].by ? i : free_at;
        known = access->pool[i].by && !strcmp(access->pool[i].name, pool) ? i : known;
    }
    bool right = known >= 0 || !most || n < most, noted = right && known < 0 && free_at >= 0;
    if (noted) {
        access->pool[free_at].by = account;
        snprintf(access->pool[free_at].name, TD_POOL_NAME, "%s", pool);
    }
    pthread_mutex_unlock(&access->lock);
    if (right)
        return noted;
    td_api_problem(req, -EDQUOT, "the token has made %d pools, and may have %d (pools)", n, most);
    return refuse(req);
}

void td_access_pool_gone(struct td_request *req, const char *pool)
{
    struct td_access *access = req->service->access;
    if (!access)
        return;
    pthread_mutex_lock(&access->lock);
    for (int i = 0; i < TD_MAX_POOLS; i++)
        if (access->pool[i].by && !strcmp(access->pool[i].name, pool))
            access->pool[i].by = NULL;
    pthread_mutex_unlock(&access->lock);
}
