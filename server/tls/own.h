/* What the files of tls.c share. Internal to these. */
#ifndef TD_SERVER_TLS_OWN_H
#define TD_SERVER_TLS_OWN_H

#include "server/tls/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <sys/stat.h>

#define TD_TLS_CHAIN 16 /* the longest chain of certificates */

struct td_tls_identity; /* a certificate and its key */

enum { TD_TLS_CERT, TD_TLS_KEY, TD_TLS_CA }; /* the files */

struct td_tls {
    char *path[3];                    /* certificate, key, authorities; NULL: none */
    struct stat seen[3];              /* just before they were last read; zeros: there was none */
    char *first;                      /* the text of the authorities as first read; NULL: none */
    struct td_tls_identity *old;      /* replaced ones, newest first */
    pthread_mutex_t lock;             /* for trusted */
    gnutls_x509_trust_list_t trusted; /* NULL: clients are asked for no certificate */
};

#endif
