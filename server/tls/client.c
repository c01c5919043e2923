/* TLS of one connection: the client's certificate, and what is sent without libmicrohttpd. */
#include "server/tls/own.h"

#include <errno.h>

static int finished(gnutls_session_t session, unsigned type, unsigned when, unsigned incoming,
                    const gnutls_datum_t *message)
{
    (void)type, (void)when, (void)message;
    const struct td_tls_hook *hook = gnutls_db_get_ptr(session);
    if (incoming)
        hook->done(hook->arg);
    return 0;
}

/* GnuTLS's callback has no argument of ours. The session's database pointer serves as one: it is
 * meant for resumption, which is off. */
void td_tls_begin(void *session, struct td_tls_hook *hook)
{
    gnutls_db_set_ptr(session, hook);
    gnutls_handshake_set_hook_function(session, GNUTLS_HANDSHAKE_FINISHED, GNUTLS_HOOK_POST,
                                       finished);
}

static void free_chain(gnutls_x509_crt_t *chain, int n)
{
    for (int i = 0; i < n; i++)
        gnutls_x509_crt_deinit(chain[i]);
}

/* Parses the client's certificates. Returns their number, or a negative error of GnuTLS's. */
static int take_chain(gnutls_session_t session, gnutls_x509_crt_t chain[TD_TLS_CHAIN])
{
    unsigned came = 0;
    const gnutls_datum_t *raw = gnutls_certificate_get_peers(session, &came);
    if (!raw)
        return 0;
    if (came > TD_TLS_CHAIN)
        return GNUTLS_E_CERTIFICATE_ERROR;
    int n = 0, err = 0;
    while (n < (int)came && !err && !(err = gnutls_x509_crt_init(&chain[n]))) {
        err = gnutls_x509_crt_import(chain[n], &raw[n], GNUTLS_X509_FMT_DER);
        n++;
    }
    if (!err)
        return n;
    free_chain(chain, n);
    return err;
}

/* 0: an authority of client_ca has signed the chain, for a client; else
 * gnutls_certificate_status_t.
 */
static unsigned judge_chain(struct td_tls *tls, gnutls_x509_crt_t *chain, unsigned n)
{
    unsigned status = GNUTLS_CERT_INVALID;
    gnutls_typed_vdata_st purpose = {.type = GNUTLS_DT_KEY_PURPOSE_OID,
                                     .data = (void *)(uintptr_t)GNUTLS_KP_TLS_WWW_CLIENT};
    pthread_mutex_lock(&tls->lock);
    int err =
        gnutls_x509_trust_list_verify_crt2(tls->trusted, chain, n, &purpose, 1, 0, &status, NULL);
    pthread_mutex_unlock(&tls->lock);
    return err ? GNUTLS_CERT_INVALID : status;
}

/* The certificate's common name. "" where there is none, or one with a zero byte, which GnuTLS does
 * not give; and where there are several, of which some programs take the first and others the last.
 */
static void read_name(gnutls_x509_crt_t cert, char name[TD_TLS_NAME])
{
    const char *oid = GNUTLS_OID_X520_COMMON_NAME;
    char second[TD_TLS_NAME];
    size_t size = TD_TLS_NAME, more = sizeof second;
    if (gnutls_x509_crt_get_dn_by_oid(cert, oid, 0, 0, name, &size) ||
        gnutls_x509_crt_get_dn_by_oid(cert, oid, 1, 0, second, &more) !=
            GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        *name = 0;
}

int td_tls_client(struct td_tls *tls, void *session, char name[TD_TLS_NAME],
                  struct td_problem *problem)
{
    gnutls_x509_crt_t chain[TD_TLS_CHAIN];
    *name = 0;
    if (!tls->path[TD_TLS_CA])
        return 0;
    int n = take_chain(session, chain);
    if (n < 0)
        return td_problem_set(problem, EINVAL, "the client's certificate cannot be read: %s",
                              gnutls_strerror(n));
    if (!n)
        return 0;
    unsigned status = judge_chain(tls, chain, (unsigned)n);
    if (!status)
        read_name(chain[0], name);
    free_chain(chain, n);
    if (!status)
        return 1;
    return td_problem_set(problem, EINVAL, "the client's certificate is not taken: %s",
                          status & GNUTLS_CERT_EXPIRED         ? "it has expired"
                          : status & GNUTLS_CERT_NOT_ACTIVATED ? "it is not valid yet"
                          : status & GNUTLS_CERT_PURPOSE_MISMATCH
                              ? "it is not made for clients (extendedKeyUsage clientAuth)"
                          : status & GNUTLS_CERT_SIGNER_NOT_FOUND
                              ? "no authority of tls-client-ca has signed it"
                              : "it is not one that tls-client-ca vouches for");
}

void td_tls_send(void *session, const void *bytes, size_t size)
{
    (void)gnutls_record_send(session, bytes, size);
}

void td_tls_end(void *session)
{
    (void)gnutls_bye(session, GNUTLS_SHUT_WR);
}
