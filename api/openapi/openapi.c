/* The API's own description: openapi.yaml as it was built in, with what follows from the operators.
 * Behind its paths comes an operation for each overload, POST /v1/ops/NAME, with an example; behind
 * its schemas OpName, the operators' names, and those of the overloads (schema.c). Each is one line
 * of JSON, which is YAML as well; /openapi.json is all JSON.
 *
 * It is written when first asked for, in some milliseconds, and then kept compressed: it is two
 * megabytes of much the same. */
#include "api/openapi/openapi.h"
#include "api/web/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Which of the two forms is written. */
struct form {
    const char *file;
    const char *paths_end;        /* what stands behind the last path */
    const char *path, *key, *end; /* how a path and a schema begin; how either ends */
    const char *last;             /* what closes all */
};
static const struct form forms[] = {
    {"openapi.yaml", "\ncomponents:", "  %s%s: ", "    %s%s: ", "\n", ""},
    {"openapi.json", "},\"components\":", ",\"%s%s\":", ",\"%s%s\":", "", "}}}\n"},
};
#define ROOM (3 << 20) /* bytes that it takes, about */
#define TAG 32

/* YAML between the pieces of JSON. */
static void put(struct td_writer *w, const char *text, size_t n)
{
    w->comma = false;
    td_write_raw(w, NULL, text, n);
    w->comma = false;
}

static void begin(struct td_writer *w, const char *key, const char *prefix, const char *name)
{
    char line[3 * TD_NAME_SIZE];
    put(w, line, (size_t)snprintf(line, sizeof line, key, prefix, name));
    td_write_open(w, NULL, '{');
}

static void end(struct td_writer *w, const struct form *form)
{
    td_write_close(w, '}');
    put(w, form->end, strlen(form->end));
}

/* ---- operations ---- */

static void write_ref(struct td_writer *w, const char *prefix, const char *name)
{
    char ref[2 * TD_NAME_SIZE + 40];
    snprintf(ref, sizeof ref, TD_OPENAPI_REF "%s%s", prefix, name);
    td_write_open(w, NULL, '{');
    td_write_str(w, "$ref", ref);
    td_write_close(w, '}');
}

static void write_examples(struct td_writer *w, const struct td_handle *handle)
{
    td_write_open(w, "examples", '{');
    for (int brief = 1; brief >= 0; brief--) {
        size_t length = w->length;
        bool comma = w->comma;
        td_write_open(w, brief ? "brief" : "full", '{');
        if (td_openapi_example(w, "value", handle, brief)) {
            td_write_close(w, '}');
        } else {
            w->length = length;
            w->comma = comma;
        }
    }
    td_write_close(w, '}');
}

/* The path of an overload without a name serves all overloads of the operator. */
static void write_body(struct td_writer *w, const struct td_handle *handle)
{
    bool all = !*handle->schema.overload;
    td_write_open(w, "requestBody", '{');
    td_write_bool(w, "required", true);
    td_write_open(w, "content", '{');
    td_write_open(w, "application/json", '{');
    td_write_open(w, "schema", '{');
    td_write_open(w, "anyOf", '[');
    for (const struct td_handle *h = all ? td_registry_find(handle->full) : handle; h;
         h = all ? h->next : NULL) {
        write_ref(w, "op.", h->full);
        write_ref(w, "brief.", h->full);
    }
    td_write_close(w, ']');
    td_write_close(w, '}');
    write_examples(w, handle);
    td_write_close(w, '}');
    static const char binary[] = "{\"schema\":{\"$ref\":\"" TD_OPENAPI_REF "BinaryRequest\"}}";
    td_write_raw(w, "application/octet-stream", binary, sizeof binary - 1);
    td_write_close(w, '}');
    td_write_close(w, '}');
}

/* same: the members that all of them have, as text. */
static void write_operation(struct td_writer *w, const struct form *form, const char *same,
                            const struct td_handle *handle)
{
    char schema[1024] = "`"; /* of Markdown */
    td_schema_format(&handle->schema, schema + 1, sizeof schema - 2);
    strcat(schema, "`");
    begin(w, form->path, "/v1/ops/", handle->full);
    td_write_open(w, "post", '{');
    td_write_str(w, "operationId", handle->full);
    td_write_str(w, "summary", handle->op->doc);
    td_write_str(w, "description", schema);
    td_write_raw(w, NULL, same, strlen(same));
    write_body(w, handle);
    td_write_close(w, '}');
    end(w, form);
}

/* ---- schemas ---- */

static void write_names(struct td_writer *w, const struct form *form)
{
    static const char in_place[] =
        "{\"description\":\"To be run in place.\",\"pattern\":\"_([.]|$)\"}";
    begin(w, form->key, "", "OpName");
    td_write_str(w, "type", "string");
    td_write_open(w, "anyOf", '[');
    td_write_open(w, NULL, '{');
    td_write_open(w, "enum", '[');
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *handle = td_registry_at(i);
        if (handle->first && *handle->schema.overload)
            td_write_str(w, NULL, handle->schema.name);
        td_write_str(w, NULL, handle->full);
    }
    td_write_close(w, ']');
    td_write_close(w, '}');
    td_write_raw(w, NULL, in_place, sizeof in_place - 1);
    td_write_close(w, ']');
    end(w, form);
}

static void write_schemas(struct td_writer *w, const struct form *form,
                          const struct td_handle *handle)
{
    begin(w, form->key, "op.", handle->full);
    td_openapi_full(w, handle);
    end(w, form);
    begin(w, form->key, "brief.", handle->full);
    td_openapi_brief(w, handle);
    end(w, form);
}

/* ---- all ---- */

/* text: the file's; same: the operation's. -ENOMEM is left in w. */
static void write_all(struct td_writer *w, const struct form *form, const char *text,
                      const char *same)
{
    const char *paths_end = strstr(text, form->paths_end);
    int n = td_registry_count();
    paths_end += *paths_end == '\n'; /* a line's end belongs to it */
    put(w, text, (size_t)(paths_end - text));
    for (int i = 0; i < n; i++)
        write_operation(w, form, same, td_registry_at(i));
    put(w, paths_end, strlen(paths_end));
    write_names(w, form);
    for (int i = 0; i < n; i++)
        write_schemas(w, form, td_registry_at(i));
    put(w, form->last, strlen(form->last));
}

/* The text compressed, as an asset of its own, taken from td_memory; NULL: no memory. */
static struct td_asset *pack(const struct td_writer *w, const struct td_asset *file)
{
    z_stream z = {.next_in = (unsigned char *)w->text, .avail_in = (unsigned)w->length};
    if (w->failed || deflateInit2(&z, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0) != Z_OK) /* 16: gzip */
        return NULL;
    size_t bound = deflateBound(&z, w->length);
    unsigned char *packed = td_arena_alloc(w->arena, bound);
    z.next_out = packed;
    z.avail_out = (unsigned)bound;
    bool done = packed && deflate(&z, Z_FINISH) == Z_STREAM_END;
    size_t size = z.total_out, bytes = sizeof(struct td_asset) + TAG + size;
    deflateEnd(&z);
    if (!done || td_budget_take(&td_memory, bytes))
        return NULL;
    struct td_asset *asset = malloc(bytes);
    if (!asset) {
        td_budget_give(&td_memory, bytes);
        return NULL;
    }
    char *tag = (char *)(asset + 1);
    uLong sum = crc32(0, (unsigned char *)w->text, (unsigned)w->length);
    snprintf(tag, TAG, "W/\"%08lx\"", sum);
    memcpy(tag + TAG, packed, size);
    *asset =
        (struct td_asset){file->name, file->type, tag, (unsigned char *)tag + TAG, size, w->length};
    return asset;
}

static void drop(struct td_asset *asset)
{
    if (asset)
        td_budget_give(&td_memory, sizeof *asset + TAG + asset->packed_size);
    free(asset);
}

static struct td_asset *make(struct td_arena *arena, const struct form *form)
{
    const struct td_asset *file = td_asset_find(form->file);
    const char *text = td_asset_text(arena, file);
    const char *same = td_asset_text(arena, td_asset_find("openapi-operation.json"));
    struct td_writer w;
    td_write_init(&w, arena, ROOM);
    if (!text || !same)
        return NULL;
    write_all(&w, form, text, same);
    return pack(&w, file);
}

void td_openapi_fini(struct td_service *service)
{
    for (int i = 0; i < 2; i++)
        drop(atomic_exchange(&service->described_[i], NULL));
}

/* Who takes it compressed, or has it, is answered at once; to make or unpack it is a worker's. */
static int answer(struct td_request *req, struct td_response *res, int which)
{
    struct td_asset *kept = atomic_load(&req->service->described_[which]), *made;
    if (!req->worker) {
        bool short_answer = kept && (td_asks_for(req, "Accept-Encoding", "gzip") ||
                                     td_asks_for(req, "If-None-Match", kept->tag));
        return short_answer ? td_asset_send(req, res, kept) : td_api_hand_over(req);
    }
    if (!kept) {
        if (!(made = make(req->arena, &forms[which])))
            return td_api_problem(req, -ENOMEM, "no memory for the description");
        if (atomic_compare_exchange_strong(&req->service->described_[which], &kept, made))
            kept = made;
        else
            drop(made);
    }
    req->header = NULL; /* its time has gone: whole and as it is */
    return td_asset_send(req, res, kept);
}

int td_api_openapi_yaml(struct td_request *req, struct td_response *res)
{
    return answer(req, res, 0);
}

int td_api_openapi_json(struct td_request *req, struct td_response *res)
{
    return answer(req, res, 1);
}
