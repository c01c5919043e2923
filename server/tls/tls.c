/* The server's certificate and key, and the authorities of clients. Each handshake asks for the
 * certificate anew, so it can be replaced without losing a connection. GnuTLS does not say when a
 * handshake no longer needs it, so a replaced one is kept for LONGEST_S. No handshake takes that
 * long, because silent connections are closed after idle-s. */
#include "server/tls/own.h"

#include "api/files/files.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LONGEST_S (2 * 86400) /* twice the most that idle-s may be */

const char td_tls_priorities[] =
    "NONE:+VERS-TLS1.3:+VERS-TLS1.2:+ECDHE-RSA:+ECDHE-ECDSA:+AES-256-GCM:+CHACHA20-POLY1305:"
    "+AES-128-GCM:+AEAD:+COMP-NULL:+GROUP-X25519:+GROUP-SECP256R1:+GROUP-SECP384R1:+SIGN-ALL:"
    "-SIGN-RSA-SHA1:-SIGN-ECDSA-SHA1:-SIGN-DSA-SHA1";

struct td_tls_identity { /* a certificate and its key; only older and replaced change */
    struct td_tls_identity *older;
    time_t replaced;
    gnutls_pcert_st chain[TD_TLS_CHAIN];
    unsigned n;
    gnutls_privkey_t key;
    int64_t ends;
};

static const char *const names[] = {"tls-cert", "tls-key", "tls-client-ca"};

static _Atomic(struct td_tls_identity *) current; /* for new handshakes */

/* ---- files ---- */

/* The text of one of the files, which the caller frees. data is NULL if it cannot be read; problem
 * has the sentence. */
static gnutls_datum_t read_pem(const struct td_tls *tls, int which, struct td_problem *problem)
{
    const struct td_file file = {names[which], tls->path[which], tls->path[which],
                                 which == TD_TLS_KEY ? td_file_judge_secret : NULL};
    size_t size = 0;
    unsigned char *text = (unsigned char *)td_file_text(&file, &size, problem);
    return (gnutls_datum_t){text, (unsigned)size};
}

static int wrong(const struct td_tls *tls, int which, const char *why, struct td_problem *problem)
{
    return td_problem_set(problem, EINVAL, "%s: %.200s: %.200s", names[which], tls->path[which],
                          why);
}

/* ---- the certificate ---- */

static void free_identity(struct td_tls_identity *id)
{
    if (!id)
        return;
    for (unsigned i = 0; i < id->n; i++)
        gnutls_pcert_deinit(&id->chain[i]);
    gnutls_privkey_deinit(id->key);
    free(id);
}

/* Whether the key belongs to the certificate: both have the same public key. */
static bool is_its_key(const struct td_tls_identity *id)
{
    unsigned char a[64], b[64];
    size_t n = sizeof a, m = sizeof b;
    gnutls_pubkey_t public;
    if (gnutls_pubkey_init(&public))
        return false;
    bool same = !gnutls_pubkey_import_privkey(public, id->key, 0, 0) &&
                !gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, a, &n) &&
                !gnutls_pubkey_get_key_id(id->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, b, &m) &&
                n == m && !memcmp(a, b, n);
    gnutls_pubkey_deinit(public);
    return same;
}

/* What is wrong with the certificate's period of validity, or NULL. */
static const char *judge_time(struct td_tls_identity *id)
{
    gnutls_x509_crt_t cert;
    if (gnutls_pcert_export_x509(&id->chain[0], &cert))
        return "no memory for it";
    time_t now = time(NULL), begins = gnutls_x509_crt_get_activation_time(cert);
    id->ends = gnutls_x509_crt_get_expiration_time(cert);
    gnutls_x509_crt_deinit(cert);
    return begins > now      ? "the certificate is not valid yet"
           : id->ends <= now ? "the certificate has expired"
                             : NULL;
}

static int read_chain(const struct td_tls *tls, struct td_tls_identity *id,
                      struct td_problem *problem)
{
    unsigned n = TD_TLS_CHAIN;
    gnutls_datum_t text = read_pem(tls, TD_TLS_CERT, problem);
    if (!text.data)
        return -EINVAL;
    int got = gnutls_pcert_list_import_x509_raw(id->chain, &n, &text, GNUTLS_X509_FMT_PEM,
                                                GNUTLS_X509_CRT_LIST_SORT |
                                                    GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    free(text.data);
    if (got < 0)
        return wrong(tls, TD_TLS_CERT, gnutls_strerror(got), problem);
    id->n = n;
    return 0;
}

static int read_key(const struct td_tls *tls, struct td_tls_identity *id,
                    struct td_problem *problem)
{
    gnutls_datum_t text = read_pem(tls, TD_TLS_KEY, problem);
    if (!text.data)
        return -EINVAL;
    int got = gnutls_privkey_init(&id->key);
    if (!got)
        got = gnutls_privkey_import_x509_raw(id->key, &text, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_memset(text.data, 0, text.size);
    free(text.data);
    return got ? wrong(tls, TD_TLS_KEY, gnutls_strerror(got), problem) : 0;
}

static int read_identity(const struct td_tls *tls, struct td_tls_identity **result,
                         struct td_problem *problem)
{
    struct td_tls_identity *id = *result = calloc(1, sizeof *id);
    if (!id)
        return td_problem_set(problem, ENOMEM, "tls-cert: no memory for it");
    const char *why;
    int err = read_chain(tls, id, problem);
    err = err ? err : read_key(tls, id, problem);
    if (!err && !is_its_key(id))
        err = wrong(tls, TD_TLS_KEY, "is not the key of the certificate (tls-cert)", problem);
    if (!err && (why = judge_time(id)))
        err = wrong(tls, TD_TLS_CERT, why, problem);
    if (err)
        free_identity(id);
    *result = err ? NULL : id;
    return err;
}

/* Gives new handshakes this certificate, and frees old ones that no handshake can use any more. */
static void use(struct td_tls *tls, struct td_tls_identity *id)
{
    struct td_tls_identity *before = atomic_exchange(&current, id), **at = &tls->old;
    time_t now = time(NULL);
    if (before) {
        before->replaced = now;
        before->older = tls->old;
        tls->old = before;
    }
    while (*at && now - (*at)->replaced <= LONGEST_S)
        at = &(*at)->older;
    for (struct td_tls_identity *next, *old = *at; old; old = next) {
        next = old->older;
        free_identity(old);
    }
    *at = NULL;
}

static int retrieve(gnutls_session_t session, const gnutls_datum_t *authorities, int n,
                    const gnutls_pk_algorithm_t *algorithms, int m, gnutls_pcert_st **chain,
                    unsigned *length, gnutls_privkey_t *key)
{
    (void)session, (void)authorities, (void)n, (void)algorithms, (void)m;
    struct td_tls_identity *id = atomic_load(&current);
    *chain = id->chain;
    *length = id->n;
    *key = id->key;
    return 0;
}

void *td_tls_retrieve(void)
{
    return (void *)(uintptr_t)retrieve;
}

/* ---- the authorities ---- */

static int read_trusted(struct td_tls *tls, gnutls_x509_trust_list_t *list,
                        struct td_problem *problem)
{
    *list = NULL;
    if (!tls->path[TD_TLS_CA])
        return 0;
    gnutls_datum_t text = read_pem(tls, TD_TLS_CA, problem);
    if (!text.data)
        return -EINVAL;
    int got = gnutls_x509_trust_list_init(list, 0);
    if (!got)
        got = gnutls_x509_trust_list_add_trust_mem(*list, &text, NULL, GNUTLS_X509_FMT_PEM, 0, 0);
    if (!tls->first)
        tls->first = (char *)text.data;
    else
        free(text.data);
    if (got > 0)
        return 0;
    if (*list)
        gnutls_x509_trust_list_deinit(*list, 1);
    return wrong(tls, TD_TLS_CA, got ? gnutls_strerror(got) : "holds no certificate", problem);
}

/* ---- all of it ---- */

int td_tls_refresh(struct td_tls *tls, bool in_any_case, struct td_problem *problem)
{
    struct td_tls_identity *id;
    gnutls_x509_trust_list_t trusted, before;
    bool others = in_any_case;
    for (int i = 0; i < 3; i++)
        others |= tls->path[i] && td_file_changed(tls->path[i], &tls->seen[i]);
    if (!others)
        return 0;
    int err = read_identity(tls, &id, problem);
    if (err)
        return err;
    if ((err = read_trusted(tls, &trusted, problem))) {
        free_identity(id);
        return err;
    }
    use(tls, id);
    pthread_mutex_lock(&tls->lock);
    before = tls->trusted;
    tls->trusted = trusted;
    pthread_mutex_unlock(&tls->lock);
    if (before)
        gnutls_x509_trust_list_deinit(before, 1);
    return 1;
}

int td_tls_create(struct td_tls **result, const struct td_tls_files *files,
                  struct td_problem *problem)
{
    const char *paths[] = {files->cert, files->key, files->client_ca};
    struct td_tls *tls = calloc(1, sizeof *tls);
    bool right = tls;
    for (int i = 0; i < 3 && right; i++)
        right = !*paths[i] || (tls->path[i] = strdup(paths[i]));
    if (tls)
        pthread_mutex_init(&tls->lock, NULL);
    int err = right ? 0 : td_problem_set(problem, ENOMEM, "tls-cert: no memory for it");
    if (!err && (!tls->path[TD_TLS_CERT] || !tls->path[TD_TLS_KEY]))
        err = td_problem_set(problem, EINVAL,
                             "%s: is missing; a certificate and its key are given "
                             "together",
                             names[tls->path[TD_TLS_CERT] ? TD_TLS_KEY : TD_TLS_CERT]);
    err = err ? err : td_tls_refresh(tls, true, problem);
    if (err < 0) {
        td_tls_destroy(tls);
        return err;
    }
    *result = tls;
    return 0;
}

void td_tls_destroy(struct td_tls *tls)
{
    if (!tls)
        return;
    use(tls, NULL);
    for (struct td_tls_identity *next, *old = tls->old; old; old = next) {
        next = old->older;
        free_identity(old);
    }
    if (tls->trusted)
        gnutls_x509_trust_list_deinit(tls->trusted, 1);
    for (int i = 0; i < 3; i++)
        free(tls->path[i]);
    free(tls->first);
    pthread_mutex_destroy(&tls->lock);
    free(tls);
}

int64_t td_tls_ends(const struct td_tls *tls)
{
    (void)tls;
    return atomic_load(&current)->ends;
}

const char *td_tls_authorities(const struct td_tls *tls)
{
    return tls->first;
}
