/* SHA-256, by GnuTLS; as hex digits: td_digest of api.h. Internal to api/. */
#ifndef TD_API_DIGEST_H
#define TD_API_DIGEST_H

#include <stdbool.h>
#include <stddef.h>

void td_sha256(const void *bytes, size_t size, unsigned char hash[32]);
/* As td_digest, piece by piece. go_on: asked before each; NULL: always. False: it has said
 * no, and hex is none. */
bool td_digest_while(const void *bytes, size_t size, char hex[65], bool (*go_on)(void *arg),
                     void *arg);
/* Whether two are the same; takes as long whichever of their bytes differ. */
bool td_sha256_is_same(const unsigned char a[32], const unsigned char b[32]);

#endif
