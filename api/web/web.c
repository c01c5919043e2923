/* Files for a browser, from the program itself. They are kept compressed and go so to whoever takes
 * that, as browsers do; others get them unpacked. A page may load from here and nowhere else, and
 * run no code that stands in it (Content-Security-Policy). */
#include "api/web/web.h"

#include "api/request/request.h"

#include <errno.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "              \
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const struct td_asset *td_asset_find(const char *name)
{
    const struct td_asset *asset = td_assets;
    while (asset->name && strcmp(asset->name, name))
        asset++;
    return asset->name ? asset : NULL;
}

char *td_asset_text(struct td_arena *arena, const struct td_asset *asset)
{
    char *text = td_arena_alloc(arena, asset->size + 1);
    z_stream z = {.next_in = (unsigned char *)asset->packed,
                  .avail_in = (unsigned)asset->packed_size,
                  .next_out = (unsigned char *)text,
                  .avail_out = (unsigned)asset->size};
    if (!text || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) /* 16: gzip's frame */
        return NULL;
    int end = inflate(&z, Z_FINISH);
    inflateEnd(&z);
    text[asset->size] = 0;
    return end == Z_STREAM_END ? text : NULL;
}

/* A weight of 0 behind the word takes it back. */
bool td_asks_for(struct td_request *req, const char *header, const char *word)
{
    const char *at = req->header ? req->header(req, header) : NULL;
    size_t n = strlen(word);
    for (; at && *at; at += strcspn(at, ","), at += *at == ',') {
        at += strspn(at, " \t");
        if (strncasecmp(at, word, n) || !strchr(" \t,;", at[n]))
            continue;
        const char *weight = at + n + strspn(at + n, " \t;");
        return strncasecmp(weight, "q=0", 3) ||
               strspn(weight + 2, "0.") < strcspn(weight + 2, ", ");
    }
    return false;
}

int td_asset_send(struct td_request *req, struct td_response *res, const struct td_asset *asset)
{
    bool packed = td_asks_for(req, "Accept-Encoding", "gzip");
    struct td_header header[TD_MAX_HEADERS] = {{"ETag", asset->tag},
                                               {"Cache-Control", "no-cache"},
                                               {"Vary", "Accept, Accept-Encoding"},
                                               {"Content-Security-Policy", POLICY},
                                               {"X-Content-Type-Options", "nosniff"},
                                               {packed ? "Content-Encoding" : NULL, "gzip"}};
    memcpy(res->header, header, sizeof header);
    if (td_asks_for(req, "If-None-Match", asset->tag)) {
        res->header[5].name = NULL;
        res->status = 304;
        return 0;
    }
    res->type = asset->type;
    res->body = packed ? (const void *)asset->packed : td_asset_text(req->arena, asset);
    res->size = packed ? asset->packed_size : asset->size;
    res->status = res->body ? 200 : 0;
    return 0;
}

int td_api_web_file(struct td_request *req, struct td_response *res)
{
    const struct td_asset *asset = td_asset_find(req->var[0]);
    if (!asset || strstr(asset->name, "openapi"))
        return td_api_problem(req, -ENOENT, "no file '%.80s'; the page at / names those it loads",
                              req->var[0]);
    return td_asset_send(req, res, asset);
}
