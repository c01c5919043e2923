/* A question to a running server. Internal to server/commands. */
#ifndef TD_SERVER_ASK_H
#define TD_SERVER_ASK_H

#include <stdbool.h>

/* The body of what GET path answers, as text of letters and line feeds, to be freed. where:
 * ADDR:PORT, [ADDR]:PORT or https:// before it. With the token in TENSORD_TOKEN, if there is one;
 * the certificate of https must be for ADDR, of an authority of the system or of the file
 * TENSORD_CA. NULL: there is none, and errno says why: EACCES, the server wants another token;
 * EKEYREJECTED, the certificate is not taken; ETIMEDOUT, EPROTO, those of connect(2). */
char *td_ask(const char *where, const char *path);
/* Whether GET /v2/health/ready is answered with 200, for which anybody may ask: no token is sent,
 * and any certificate taken. False: errno as above, EPROTO where it is answered with something
 * else. */
bool td_ask_is_ready(const char *where);

#endif
