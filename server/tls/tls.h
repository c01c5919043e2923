/* TLS by GnuTLS: the server's certificate, and clients' certificates. libmicrohttpd runs the
 * connections and takes the certificate from here; the server asks here for a client's name. tls.c
 * has the files, client.c the connections. Internal to server/. */
#ifndef TD_SERVER_TLS_H
#define TD_SERVER_TLS_H

#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

struct td_tls;

#define TD_TLS_NAME 64 /* bytes of a client's name, with the 0 */

/* GnuTLS's priority string: TLS 1.2 and 1.3, ephemeral key exchange and AEAD ciphers (RFC 9325,
 * 4.2). */
extern const char td_tls_priorities[];

struct td_tls_files { /* paths of PEM files; borrowed; "": none */
    const char
        *cert; /* the server's certificate, and then the intermediate ones up to its authority */
    const char *key; /* its private key, without a password */
    const char
        *client_ca; /* authorities of clients' certificates; none: clients are asked for none */
};

/* Reads the files. A process has at most one of these, because the callback that gives handshakes
 * their certificate has no argument. -EINVAL: a file is missing or cannot be read, others may read
 * the key, the key does not belong to the certificate, or that is not valid yet or has expired;
 * -ENOMEM. problem has the sentence. */
int td_tls_create(struct td_tls **tls, const struct td_tls_files *files,
                  struct td_problem *problem);
/* Once all connections are closed. tls may be NULL. */
void td_tls_destroy(struct td_tls *tls);
/* Reads the files again if they have changed, or in any case. 1: new handshakes have the new
 * certificate and authorities; 0: nothing has changed; negative as td_tls_create: the old ones
 * stay. Not for two threads at a time. */
int td_tls_refresh(struct td_tls *tls, bool in_any_case, struct td_problem *problem);
/* When the certificate expires, in seconds since 1970. */
int64_t td_tls_ends(const struct td_tls *tls);
/* The text of client_ca as it was first read: the server sends clients the names of these
 * authorities. NULL: there is none. */
const char *td_tls_authorities(const struct td_tls *tls);
/* The callback that gives a handshake its certificate: a gnutls_certificate_retrieve_function2. */
void *td_tls_retrieve(void);

/* ---- a connection; session: a gnutls_session_t ---- */

struct td_tls_hook {
    void (*done)(void *arg); /* called when the client's last message of the handshake has come */
    void *arg;
};
/* Before the handshake. hook is borrowed as long as the session lives. */
void td_tls_begin(void *session, struct td_tls_hook *hook);

/* The client's certificate, after the handshake. 1: client_ca has signed it, and name has its
 * common name, or "" if it has none, several, or one that is too long; 0: there is none; -EINVAL:
 * client_ca has not signed it, or it is not valid; problem has the sentence. */
int td_tls_client(struct td_tls *tls, void *session, char name[TD_TLS_NAME],
                  struct td_problem *problem);
/* Sends as many of the bytes as the socket takes now, without waiting. */
void td_tls_send(void *session, const void *bytes, size_t size);
/* Tells the client that nothing more comes (close_notify). To be called before the socket is shut.
 */
void td_tls_end(void *session);

#endif
