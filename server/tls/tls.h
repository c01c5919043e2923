/* TLS by GnuTLS: the server's certificate, and whose certificate a client shows. libmicrohttpd
 * makes the connections; what it needs of these, and what is done to them beside it, is here.
 * Internal to server/. */
#ifndef TD_SERVER_TLS_H
#define TD_SERVER_TLS_H

#include "kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

struct td_tls;

#define TD_TLS_NAME 64 /* bytes of a client's name, with the 0 */

/* Protocols and ciphers: TLS 1.2 and 1.3, keys that are agreed on anew for each connection, and
 * ciphers that authenticate (RFC 9325, 4.2). A priority string of GnuTLS's. */
extern const char td_tls_priorities[];

struct td_tls_files { /* borrowed; PEM */
    const char *cert; /* the server's certificate, and behind it those that lead to its authority */
    const char *key;  /* its private key, without a password */
    const char
        *client_ca; /* authorities of clients' certificates; "": clients are asked for none */
};

/* Reads the files. One at a time: the handshakes of all of libmicrohttpd's threads take the
 * certificate from here. -EINVAL: a file is missing or cannot be read, others may read the key, it
 * is not the certificate's, or the certificate is not valid yet or any more; -ENOMEM. The sentence
 * is in problem. */
int td_tls_create(struct td_tls **tls, const struct td_tls_files *files,
                  struct td_problem *problem);
/* After all connections; NULL is fine. */
void td_tls_destroy(struct td_tls *tls);
/* Reads the files again where they are others than before, or in any case: 1, and new handshakes
 * have the new certificate and authorities; 0: they are the same; or as td_tls_create, and the old
 * ones stay. For one thread. */
int td_tls_refresh(struct td_tls *tls, bool in_any_case, struct td_problem *problem);
/* When the certificate ends, in seconds of the clock. */
int64_t td_tls_ends(const struct td_tls *tls);
/* The text of client_ca as it was first read, for the list of authorities that clients are told;
 * NULL: there is none. */
const char *td_tls_authorities(const struct td_tls *tls);
/* gnutls_certificate_retrieve_function2. */
void *td_tls_retrieve(void);

/* ---- a connection; session: a gnutls_session_t ---- */

struct td_tls_hook {
    void (*done)(void *arg); /* the client's last message of the handshake has been read */
    void *arg;
};
/* Before the handshake. hook: borrowed as long as the session lives. */
void td_tls_begin(void *session, struct td_tls_hook *hook);

/* Whose certificate the client has shown: 1, and the certificate's common name in name, "" where it
 * has none that fits, or several; 0: it has shown none; -EINVAL: it is not one that client_ca
 * vouches for, with the sentence. */
int td_tls_client(struct td_tls *tls, void *session, char name[TD_TLS_NAME],
                  struct td_problem *problem);
/* Sends the bytes as far as there is room for them now. */
void td_tls_send(void *session, const void *bytes, size_t size);
/* Tells the client that nothing more comes, before the socket is shut. */
void td_tls_end(void *session);

#endif
