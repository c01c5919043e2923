/* Looking into the dispatcher: keys and sets of keys, what is registered for an operator, the table
 * computed from it, and schemas. */
#include "api/routes/routes.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- registrations ---- */

static void write_registration(struct td_writer *w, const struct td_registration *list,
                               const struct td_registration *r)
{
    bool active = true; /* unless a newer one stands before it */
    for (; list != r && active; list = list->next)
        active = list->def.key != r->def.key;
    td_write_open(w, NULL, '{');
    td_write_str(w, "key", td_key_name(r->def.key));
    td_write_registered(w, r);
    td_write_bool(w, "active", active);
    td_write_bool(w, "alias", td_key_is_alias(r->def.key));
    if (r->def.rows) {
        td_write_open(w, "rows", '[');
        for (const struct td_impl *i = r->def.rows; i->run; i++) {
            char name[64];
            snprintf(name, sizeof name, "%s@%s", i->name, td_isa_name(i->isa));
            td_write_str(w, NULL, name);
        }
        td_write_close(w, ']');
    }
    td_write_close(w, '}');
}

int td_api_dispatch_state(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = td_api_find_op(req);
    if (!handle)
        return -ENOENT;
    struct td_writer w;
    char schema[1024];
    td_schema_format(&handle->schema, schema, sizeof schema);
    td_write_init(&w, req->arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "operator", handle->full);
    td_write_str(&w, "schema", schema);
    td_write_str(&w, "origin", handle->origin);
    if (handle->op->composite)
        td_write_str(&w, "composite", handle->op->composite);
    td_write_open(&w, "registrations", '[');
    for (const struct td_registration *r = handle->kernels; r; r = r->next)
        write_registration(&w, handle->kernels, r);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* ---- the table ---- */

int td_api_dispatch_table(struct td_request *req, struct td_response *res)
{
    const struct td_handle *handle = td_api_find_op(req);
    if (!handle)
        return -ENOENT;
    struct td_writer w;
    td_write_init(&w, req->arena, 8192);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "operator", handle->full);
    td_write_int(&w, "size", TD_TABLE_SIZE);
    td_write_table(&w, handle);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_dispatch_dangling(struct td_request *req, struct td_response *res)
{
    const char *names[64];
    int n = td_registry_dangling(names, 64);
    struct td_writer w;
    td_write_init(&w, req->arena, 512);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "dangling", '[');
    for (int i = 0; i < n && i < 64; i++)
        td_write_str(&w, NULL, names[i]);
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* ---- keys ---- */

int td_api_dispatch_keys(struct td_request *req, struct td_response *res)
{
    struct td_writer w;
    td_write_init(&w, req->arena, 8192);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "backends", '[');
    for (int b = 1; b < TD_BACKENDS_END; b++)
        td_write_str(&w, NULL, td_backend_name((enum td_backend)b));
    td_write_close(&w, ']');
    td_write_open(&w, "functionalities", '['); /* lowest priority first */
    for (int f = 1; f < TD_KEY_EndOfFunctionalityKeys; f++) {
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "name", td_key_name((enum td_key)f));
        td_write_bool(&w, "per_backend", td_key_per_backend((enum td_key)f));
        td_write_close(&w, '}');
    }
    td_write_close(&w, ']');
    td_write_open(&w, "aliases", '[');
    for (int k = TD_KEY_BeforeAliases + 1; k < TD_KEYS; k++)
        td_write_str(&w, NULL, td_key_name((enum td_key)k));
    td_write_close(&w, ']');
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* "CPU,AutocastCPU" */
static int parse_names(struct td_request *req, const char *names, td_keyset *keys)
{
    while (*names) {
        struct td_problem why;
        char name[64];
        size_t n = strcspn(names, ",");
        snprintf(name, sizeof name, "%.*s", (int)(n < 60 ? n : 60), names);
        enum td_key key = td_key_find(name);
        if (key == TD_KEYS)
            return td_api_problem(req, td_key_refuse("keys", name, &why), "%s", why.text);
        if (td_key_is_alias(key))
            return td_api_problem(req, -EINVAL,
                                  "keys: %s is an alias: it names keys to register for and is "
                                  "never in a set",
                                  name);
        *keys |= td_keyset_of(key);
        names += n + (names[n] == ',');
    }
    return 0;
}

/* "0x8001" as the answer has it, or decimal as other numbers of queries. */
static int parse_bits(struct td_request *req, const char *bits, td_keyset *keys)
{
    if (strncmp(bits, "0x", 2) != 0) {
        long long number;
        int err = td_api_query_number(req, "bits", 0, (long long)TD_KEYSET_FULL, 0, &number);
        *keys = (td_keyset)number;
        return err;
    }
    char *end;
    *keys = strtoull(bits + 2, &end, 16);
    return isxdigit((unsigned char)bits[2]) && !*end && !(*keys & ~TD_KEYSET_FULL)
               ? 0
               : td_api_problem(req, -EINVAL,
                                "bits: '%.40s' is no set of keys; at most 0x%" PRIx64 " is", bits,
                                TD_KEYSET_FULL);
}

int td_api_dispatch_keyset(struct td_request *req, struct td_response *res)
{
    const char *names, *bits;
    td_keyset keys = 0;
    int err = td_api_query(req, "keys", &names);
    if (!err)
        err = td_api_query(req, "bits", &bits);
    if (err)
        return err;
    if (!names == !bits)
        return td_api_problem(req, -EINVAL,
                              "keyset: give ?keys=CPU,Tracer or ?bits=0x8001, one of them");
    if (names && (err = parse_names(req, names, &keys)))
        return err;
    if (bits && (err = parse_bits(req, bits, &keys)))
        return err;
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIx64, keys);
    struct td_writer w;
    td_write_init(&w, req->arena, 1024);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "bits", text);
    td_write_keys(&w, "keys", keys);
    td_write_str(&w, "highest", td_key_name(td_keyset_highest(keys)));
    td_write_int(&w, "index", td_keyset_index(keys));
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

/* ---- schemas ---- */

static int write_schema(struct td_request *req, const char *text, struct td_response *res)
{
    struct td_schema schema;
    struct td_problem problem;
    int err = td_schema_parse(&schema, text, &problem);
    if (err)
        return td_api_problem(req, err, "schema: %s", problem.text);
    char canonical[2048];
    td_schema_format(&schema, canonical, sizeof canonical);
    struct td_writer w;
    td_write_init(&w, req->arena, 2048);
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "schema", canonical);
    td_write_str(&w, "namespace", schema.ns);
    td_write_str(&w, "name", schema.name);
    td_write_str(&w, "overload", schema.overload);
    td_write_params(&w, "arguments", schema.param, schema.n_params);
    td_write_bool(&w, "vararg", schema.vararg);
    td_write_params(&w, "returns", schema.ret, schema.n_returns);
    td_write_bool(&w, "varret", schema.varret);
    td_write_close(&w, '}');
    return td_write_response(&w, res, 200);
}

int td_api_dispatch_schema_get(struct td_request *req, struct td_response *res)
{
    const char *text;
    int err = td_api_query(req, "schema", &text);
    if (err)
        return err;
    return text ? write_schema(req, text, res)
                : td_api_problem(req, -EINVAL, "schema: missing; ?schema=... or a POST is right");
}

int td_api_dispatch_schema(struct td_request *req, struct td_response *res)
{
    struct td_json json = {0};
    struct td_problem problem;
    int err =
        td_json_parse(&json, req->body, req->body_size, req->service->limits.json_depth, &problem);
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(json.root, "schema");
    if (err)
        err = td_api_problem(req, err, "%s", problem.text);
    else if (cJSON_IsString(text))
        err = write_schema(req, text->valuestring, res);
    else
        err = td_api_problem(req, -EINVAL,
                             "the body: must be {\"schema\": \"add.Tensor(Tensor self, ...\"}");
    td_json_free(&json);
    return err;
}
