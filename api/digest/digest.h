/* SHA-256, by GnuTLS; as hex digits: td_digest of api.h. Internal to api/. */
#ifndef TD_API_DIGEST_H
#define TD_API_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

void td_sha256(const void *bytes, size_t size, unsigned char hash[32]);
/* Whether two are the same; takes as long whichever of their bytes differ. */
bool td_sha256_is_same(const unsigned char a[32], const unsigned char b[32]);

#endif
