/* Finds a request's token and judges whether that is enough. Only hashes of secrets are kept. The
 * hash of the secret that came is compared with all of them, each in constant time, so how long
 * that takes does not tell how close a guess was.
 *
 * Each reading of the file makes a new set of tokens, which replaces the old set under the lock and
 * never changes. A request holds a reference to its token, so it finishes with it even if the set
 * is replaced. The next request on the connection is judged by the new set: a head that is taken
 * for one that came before (td_access_take) must have been judged in the same round. */
#include "api/access/table.h"
#include "api/digest/digest.h"
#include "api/files/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

/* ---- references ---- */

struct td_token *td_token_ref(struct td_token *token)
{
    if (token)
        atomic_fetch_add_explicit(&token->refs, 1, memory_order_relaxed);
    return token;
}

void td_token_unref(struct td_token *token)
{
    if (token && atomic_fetch_sub(&token->refs, 1) == 1)
        free(token);
}

/* The lock is held. */
static void leave_tokens(struct td_tokens *tokens)
{
    if (!tokens || --tokens->refs)
        return;
    for (int i = 0; i < tokens->n; i++)
        td_token_unref(tokens->token[i]);
    free(tokens);
}

/* ---- the file ---- */

/* The lock is held. */
static struct td_tokens *make_tokens(struct td_access *access, const struct td_token_line *lines,
                                     int n, uint64_t round)
{
    struct td_tokens *tokens = calloc(1, sizeof *tokens + (size_t)n * sizeof(struct td_token *));
    if (!tokens)
        return NULL;
    tokens->refs = 1;
    for (int i = 0; i < n; i++) {
        struct td_account *account = td_account_get(access, lines[i].name);
        struct td_token *token = account ? malloc(sizeof *token) : NULL;
        if (!token) {
            leave_tokens(tokens);
            return NULL;
        }
        memcpy(token, &lines[i].token, sizeof *token);
        atomic_init(&token->refs, 1);
        token->account = account;
        token->round = round;
        tokens->token[tokens->n++] = token;
    }
    for (int i = 0; i < n; i++)
        td_account_limit(tokens->token[i]->account, &tokens->token[i]->limits);
    return tokens;
}

static int read_file(struct td_access *access, struct td_problem *problem)
{
    struct td_token_line *lines = NULL;
    int n = td_access_read(access, &lines, problem);
    if (n < 0)
        return n;
    uint64_t round = atomic_load(&access->round) + 1;
    pthread_mutex_lock(&access->lock);
    struct td_tokens *tokens = make_tokens(access, lines, n, round), *old = access->tokens;
    if (tokens) {
        access->tokens = tokens;
        atomic_store(&access->round, round);
        leave_tokens(old);
    }
    pthread_mutex_unlock(&access->lock);
    free(lines);
    return tokens ? 0 : td_problem_set(problem, ENOMEM, "tokens: no memory for them");
}

int td_access_create(struct td_access **result, struct td_service *service, struct td_budget *store,
                     const char *path, struct td_problem *problem)
{
    struct td_access *access = calloc(1, sizeof *access);
    if (!access || !(access->path = access->called = strdup(path))) {
        free(access);
        return td_problem_set(problem, ENOMEM, "tokens: no memory for them");
    }
    access->service = service;
    access->store = store;
    pthread_mutex_init(&access->lock, NULL);
    td_file_changed(path, &access->seen);
    int err = read_file(access, problem);
    if (err) {
        td_access_destroy(access);
        return err;
    }
    atomic_fetch_add(&access->read, 1);
    *result = access;
    return 0;
}

void td_access_destroy(struct td_access *access)
{
    if (!access)
        return;
    leave_tokens(access->tokens);
    for (struct td_account *next, *account = access->accounts; account; account = next) {
        next = account->next;
        free(account);
    }
    pthread_mutex_destroy(&access->lock);
    free((char *)(uintptr_t)access->path);
    free(access);
}

int td_access_refresh(struct td_access *access, bool in_any_case, struct td_problem *problem)
{
    bool changed =
        td_file_changed(access->path, &access->seen); /* again from here on: the next time */
    if (!changed && !in_any_case)
        return 0;
    int err = read_file(access, problem);
    atomic_fetch_add(err ? &access->not_read : &access->read, 1);
    return err ? err : 1;
}

void td_access_stats(struct td_access *access, struct td_access_stats *stats)
{
    pthread_mutex_lock(&access->lock);
    int n = access->tokens->n;
    pthread_mutex_unlock(&access->lock);
    *stats = (struct td_access_stats){.tokens = n,
                                      .read = access->read,
                                      .not_read = access->not_read,
                                      .missing = access->missing,
                                      .unknown = access->unknown,
                                      .expired = access->expired,
                                      .lacking = access->lacking,
                                      .limited = access->limited};
}

/* ---- a request's token ---- */

/* What follows "Bearer ", whose case does not matter, without blanks around it; NULL: the value has
 * another form. */
static const char *secret_of(const char *value, size_t *size)
{
    static const char scheme[] = "bearer";
    size_t n = sizeof scheme - 1;
    if (strncasecmp(value, scheme, n) != 0 || value[n] != ' ')
        return NULL;
    const char *secret = value + n + strspn(value + n, " ");
    *size = strcspn(secret, " \t");
    bool ends = !secret[*size + strspn(secret + *size, " \t")];
    return ends && *size ? secret : NULL;
}

/* A reference to the token with this secret; NULL: there is none. */
static struct td_token *find(struct td_access *access, const char *secret, size_t size)
{
    unsigned char hash[TD_HASH_BYTES];
    td_sha256(secret, size, hash);
    pthread_mutex_lock(&access->lock);
    struct td_tokens *tokens = access->tokens;
    tokens->refs++;
    pthread_mutex_unlock(&access->lock);
    size_t found = 0;
    for (size_t i = 0; i < (size_t)tokens->n; i++)
        found |= (i + 1) & -(size_t)td_sha256_is_same(hash, tokens->token[i]->hash);
    struct td_token *token = found ? td_token_ref(tokens->token[found - 1]) : NULL;
    pthread_mutex_lock(&access->lock);
    leave_tokens(tokens);
    pthread_mutex_unlock(&access->lock);
    return token;
}

/* A reference to the token of that name; NULL: there is none. */
static struct td_token *find_named(struct td_access *access, const char *name)
{
    struct td_token *token = NULL;
    pthread_mutex_lock(&access->lock);
    for (int i = 0; i < access->tokens->n && !token; i++)
        if (!strcmp(access->tokens->token[i]->account->name, name))
            token = td_token_ref(access->tokens->token[i]);
    pthread_mutex_unlock(&access->lock);
    return token;
}

static bool has_expired(const struct td_token *token)
{
    struct timespec now;
    if (!token->expires_s)
        return false;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    return now.tv_sec >= token->expires_s;
}

static int refuse(struct td_request *req, atomic_llong *count, const char *challenge,
                  const char *sentence)
{
    atomic_fetch_add(count, 1);
    td_api_problem(req, -ENOKEY, "%s", sentence);
    req->response.header[0] = (struct td_header){"WWW-Authenticate", challenge};
    return -ENOKEY;
}

static int judge_token(struct td_request *req, struct td_access *access)
{
    static const char invalid[] = "Bearer realm=\"tensord\", error=\"invalid_token\"";
    const char *named = req->authorization ? NULL : req->certificate, *secret = NULL;
    size_t size;
    if (!req->authorization && !named)
        return refuse(req, &access->missing, "Bearer realm=\"tensord\"",
                      req->service->certificates
                          ? "this server asks for a token: Authorization: Bearer SECRET is right, "
                            "or a certificate that has its name"
                          : "this server asks for a token: Authorization: Bearer SECRET is right");
    if (req->authorizations > 1)
        return td_api_problem(req, -EINVAL, "Authorization: comes more than once");
    if (!named)
        secret = secret_of(req->authorization, &size);
    struct td_token *token = named    ? find_named(access, named)
                             : secret ? find(access, secret, size)
                                      : NULL;
    if (!token)
        return refuse(req, &access->unknown, invalid,
                      named    ? "the certificate's common name is no token's"
                      : secret ? "Authorization: there is no such token"
                               : "Authorization: is not of the form Bearer SECRET");
    if (has_expired(token)) {
        td_token_unref(token);
        return refuse(req, &access->expired, invalid,
                      named ? "the token of the certificate's name has expired"
                            : "Authorization: the token has expired");
    }
    req->token = token;
    return 0;
}

static int refuse_certificate(struct td_request *req, const char *sentence)
{
    td_api_problem(req, -ENOKEY, "%s", sentence);
    req->response.header[0] =
        (struct td_header){"WWW-Authenticate", "Certificate realm=\"tensord\""};
    return -ENOKEY;
}

static int lacks(struct td_request *req, enum td_access_scope scope, const char *sentence)
{
    char *challenge = td_arena_printf(
        req->arena, "Bearer realm=\"tensord\", error=\"insufficient_scope\", scope=\"%s\"",
        td_access_scope_name(scope));
    atomic_fetch_add(&req->service->access->lacking, 1);
    td_api_problem(req, -EKEYREJECTED, "%s", sentence);
    req->response.header[0] =
        (struct td_header){"WWW-Authenticate", challenge ? challenge : "Bearer"};
    return -EKEYREJECTED;
}

int td_access_judge(struct td_request *req)
{
    struct td_access *access = req->service->access;
    enum td_access_scope scope = req->route->scope;
    if (scope == TD_SCOPE_open)
        return 0;
    if (req->untrusted)
        return refuse_certificate(req, req->untrusted);
    if (!access)
        return req->service->certificates && !req->certificate
                   ? refuse_certificate(req, "this server asks for a client's certificate, of an "
                                             "authority of tls-client-ca")
                   : 0;
    int err = judge_token(req, access);
    if (!err)
        err = td_access_enter(req);
    if (!err && scope != TD_SCOPE_any && !td_access_may(req, scope)) {
        char sentence[160];
        snprintf(sentence, sizeof sentence, "the token has not the scope %s, which %.60s takes",
                 td_access_scope_name(scope), req->route->pattern);
        err = lacks(req, scope, sentence);
    }
    return err;
}

bool td_access_take(struct td_request *req, struct td_token *token)
{
    const struct td_access *access = req->service->access;
    if (token && (token->round != atomic_load_explicit(&access->round, memory_order_acquire) ||
                  has_expired(token)))
        return false;
    req->token = td_token_ref(token);
    return true;
}

/* ---- for handlers ---- */

bool td_access_may(const struct td_request *req, enum td_access_scope scope)
{
    return !req->token || req->token->scopes >> scope & 1;
}

const char *td_access_token(const struct td_request *req)
{
    return req->token ? req->token->account->name : NULL;
}

int td_access_name(const struct td_request *req, const char *what, const char *name,
                   struct td_problem *problem)
{
    const struct td_token *token = req->token;
    if (!td_access_may(req, TD_SCOPE_store))
        return td_problem_set(problem, EKEYREJECTED,
                              "%s: the token has not the scope store, which giving and taking "
                              "names needs",
                              what);
    if (!token || !strncmp(name, token->prefix, strlen(token->prefix)))
        return 0;
    return td_problem_set(problem, EKEYREJECTED,
                          "%s: '%.60s' does not begin with '%.60s', as all names do that the token "
                          "may give and take",
                          what, name, token->prefix);
}

struct td_viewer td_access_viewer(const struct td_request *req)
{
    return req->token ? (struct td_viewer){req->token->account, td_access_may(req, TD_SCOPE_admin)}
                      : (struct td_viewer){NULL, true};
}
