/* server/tls: a certificate that is replaced stays for handshakes that have taken it already. */
#include "server/tls/tls.h"
#include "tests/run_tests.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/tensord-tls-XXXXXX", cert_path[64], key_path[64];

static void write_pem(const char *path, const gnutls_datum_t *pem)
{
    FILE *file = fopen(path, "w");
    ck_assert(file && fwrite(pem->data, 1, pem->size, file) == pem->size && !fclose(file));
    ck_assert_int_eq(chmod(path, 0600), 0);
}

/* Another certificate that signs itself, and its key, in the place of the files. */
static void renew(void)
{
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    time_t now = time(NULL);
    ck_assert(!gnutls_x509_privkey_init(&key) && !gnutls_x509_crt_init(&cert));
    ck_assert(!gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                            GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    ck_assert(!gnutls_x509_crt_set_dn(cert, "CN=localhost", NULL) &&
              !gnutls_x509_crt_set_serial(cert, "1", 1) && !gnutls_x509_crt_set_version(cert, 3) &&
              !gnutls_x509_crt_set_activation_time(cert, now - 60) &&
              !gnutls_x509_crt_set_expiration_time(cert, now + 3600) &&
              !gnutls_x509_crt_set_key(cert, key) &&
              !gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
    ck_assert(!gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(cert_path, &pem);
    gnutls_free(pem.data);
    ck_assert(!gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
    write_pem(key_path, &pem);
    gnutls_free(pem.data);
    gnutls_x509_crt_deinit(cert);
    gnutls_x509_privkey_deinit(key);
}

struct taken { /* by a handshake */
    gnutls_pcert_st *chain;
    unsigned n;
    gnutls_privkey_t key;
};

static struct taken take(void)
{
    gnutls_certificate_retrieve_function2 *retrieve =
        (gnutls_certificate_retrieve_function2 *)(uintptr_t)td_tls_retrieve();
    struct taken t;
    ck_assert_int_eq(retrieve(NULL, NULL, 0, NULL, 0, &t.chain, &t.n, &t.key), 0);
    return t;
}

/* As a handshake does: what its key signs, its certificate's verifies. */
static bool is_whole(const struct taken *t)
{
    const gnutls_datum_t data = {(unsigned char *)"what is signed", 14};
    gnutls_datum_t signature;
    if (gnutls_privkey_sign_data(t->key, GNUTLS_DIG_SHA256, 0, &data, &signature))
        return false;
    bool right = gnutls_pubkey_verify_data2(t->chain[0].pubkey, GNUTLS_SIGN_ECDSA_SHA256, 0, &data,
                                            &signature) >= 0;
    gnutls_free(signature.data);
    return right;
}

START_TEST(test_replaced)
{
    struct td_tls *tls;
    struct td_problem problem;
    ck_assert(mkdtemp(folder));
    snprintf(cert_path, sizeof cert_path, "%s/cert.pem", folder);
    snprintf(key_path, sizeof key_path, "%s/key.pem", folder);
    renew();
    const struct td_tls_files files = {cert_path, key_path, ""};
    ck_assert_msg(!td_tls_create(&tls, &files, &problem), "%s", problem.text);
    struct taken t[4];
    for (int i = 0; i < 4; i++) {
        t[i] = take();
        renew();
        ck_assert_int_eq(td_tls_refresh(tls, true, &problem), 1);
    }
    for (int i = 0; i < 4; i++)
        ck_assert(is_whole(&t[i]) && t[i].key != take().key);
    td_tls_destroy(tls);
    ck_assert(!unlink(cert_path) && !unlink(key_path) && !rmdir(folder));
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_replaced};
    return td_run_tests("server_tls", tests, sizeof tests / sizeof *tests);
}
