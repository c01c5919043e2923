/* SHA-256 of GnuTLS, which libmicrohttpd links with already, behind four functions. */
#include "api/digest/digest.h"

#include "api/api.h"

#include <gnutls/crypto.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PIECE ((size_t)64 << 10) /* a quarter of a millisecond */

void td_sha256(const void *bytes, size_t size, unsigned char hash[32])
{
    if (gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, size, hash)) /* no library is built without it */
        memset(hash, 0, 32);
}

/* By words, without a branch: GnuTLS's own went byte by byte, 2 us for a hundred tokens. */
bool td_sha256_is_same(const unsigned char a[32], const unsigned char b[32])
{
    uint64_t x[4], y[4], differ = 0;
    memcpy(x, a, 32);
    memcpy(y, b, 32);
    for (int i = 0; i < 4; i++)
        differ |= x[i] ^ y[i];
    return !((differ | -differ) >> 63);
}

static void write_hex(char hex[65], const unsigned char hash[32])
{
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", hash[i]);
}

void td_digest(const void *bytes, size_t size, char hex[65])
{
    unsigned char hash[32];
    td_sha256(bytes, size, hash);
    write_hex(hex, hash);
}

bool td_digest_while(const void *bytes, size_t size, char hex[65], bool (*go_on)(void *arg),
                     void *arg)
{
    unsigned char hash[32] = {0};
    gnutls_hash_hd_t state;
    if (gnutls_hash_init(&state, GNUTLS_DIG_SHA256)) { /* no memory */
        td_digest(bytes, size, hex);
        return true;
    }
    size_t at = 0, n;
    for (; at < size && (!go_on || go_on(arg)); at += n) {
        n = size - at < PIECE ? size - at : PIECE;
        gnutls_hash(state, (const char *)bytes + at, n);
    }
    gnutls_hash_deinit(state, hash);
    write_hex(hex, hash);
    return at == size;
}
