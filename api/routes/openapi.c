/* The API's own description: openapi.yaml as it was built in, which ends where the schemas of
 * operators belong, and these from the operators' own schemas: OpName, their names; OpRequest, any
 * operator's request; and for each operator op.NAME, any of its overloads. An overload says in its
 * title how it is declared, and then what it makes of an InferRequest: the tensors' names, the
 * other arguments with types and defaults, and what must be there unless arguments are given by
 * position. Each is one line of JSON, which is YAML as well; /openapi.json is all JSON. It is
 * written when asked for: it is half a megabyte that few read. */
#include "api/routes/routes.h"
#include "api/web/web.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REF "#/components/schemas/"

/* YAML between the pieces of JSON. */
static void put(struct td_writer *w, const char *text, size_t n)
{
    w->comma = false;
    td_write_raw(w, NULL, text, n);
    w->comma = false;
}

/* Which of the two forms is written. */
struct form {
    const char *file, *key, *end,
        *last; /* before a schema's name, after it, after the schema, all */
};
static const struct form as_yaml = {"openapi.yaml", "    %s%s: ", "\n", ""};
static const struct form as_json = {"openapi.json", ",\"%s%s\":", "", "}}}"};

static void put_key(struct td_writer *w, const struct form *form, const char *prefix,
                    const char *name)
{
    char line[TD_NAME_SIZE + 32];
    put(w, line, (size_t)snprintf(line, sizeof line, form->key, prefix, name));
    td_write_open(w, NULL, '{');
}

static void end_key(struct td_writer *w, const struct form *form)
{
    td_write_close(w, '}');
    put(w, form->end, strlen(form->end));
}

static void write_ref(struct td_writer *w, const char *prefix, const char *name)
{
    char ref[TD_NAME_SIZE + 64];
    snprintf(ref, sizeof ref, REF "%s%s", prefix, name);
    td_write_open(w, NULL, '{');
    td_write_str(w, "$ref", ref);
    td_write_close(w, '}');
}

static bool is_tensor(const struct td_param *param)
{
    return param->type.base == TD_BASE_Tensor;
}

static bool is_optional(const struct td_param *param)
{
    return td_type_takes_none(&param->type);
}

/* ---- an argument that is no tensor ---- */

/* The JSON types of a value, without null and lists. */
static void write_types(struct td_writer *w, enum td_base base)
{
    if (base == TD_BASE_int)
        td_write_str(w, NULL, "integer");
    else if (base == TD_BASE_float || base == TD_BASE_Scalar)
        td_write_str(w, NULL, "number");
    if (base == TD_BASE_bool || base == TD_BASE_Scalar)
        td_write_str(w, NULL, "boolean");
    if (base != TD_BASE_int && base != TD_BASE_bool) /* "NaN" is a number's too */
        td_write_str(w, NULL, "string");
}

static void write_type(struct td_writer *w, const struct td_type *type)
{
    td_write_open(w, "type", '[');
    if (type->list)
        td_write_str(w, NULL, "array");
    if (!type->list || type->list_size)
        write_types(w, type->base);
    if (type->optional || type->list_optional)
        td_write_str(w, NULL, "null");
    td_write_close(w, ']');
    if (!type->list)
        return;
    td_write_open(w, "items", '{');
    td_write_open(w, "type", '[');
    write_types(w, type->base);
    td_write_close(w, ']');
    td_write_close(w, '}');
}

static void write_default(struct td_writer *w, const struct td_param *param)
{
    const struct td_value *v = &param->def;
    const char *text = param->default_text;
    size_t n = strcspn(text, "e"); /* up to an exponent */
    char number[sizeof param->default_text + 3];
    switch (v->kind) {
    case TD_KIND_int:
        td_write_int(w, "default", v->i);
        break;
    case TD_KIND_bool:
        td_write_bool(w, "default", v->i);
        break;
    case TD_KIND_float: /* before an exponent, YAML 1.1 needs a point; after one, JSON a digit */
        snprintf(number, sizeof number, "%.*s%s%s", (int)n, text,
                 text[n] && !memchr(text, '.', n) ? ".0"
                 : n && text[n - 1] == '.'        ? "0"
                                                  : "",
                 text + n);
        td_write_raw(w, "default", number, strlen(number));
        break;
    case TD_KIND_ints:
    case TD_KIND_bools:
        td_write_open(w, "default", '[');
        for (int i = 0; i < v->ints.n; i++)
            if (v->kind == TD_KIND_bools)
                td_write_bool(w, NULL, v->ints.v[i]);
            else
                td_write_int(w, NULL, v->ints.v[i]);
        td_write_close(w, ']');
        break;
    default:
        td_write_str(w, "default", v->kind == TD_KIND_str ? param->default_str : NULL);
    }
}

static void write_argument(struct td_writer *w, const struct td_param *param)
{
    char type[64];
    td_type_format(&param->type, type, sizeof type);
    td_write_open(w, param->name, '{');
    td_write_str(w, "description", type);
    if (param->type.base != TD_BASE_ScalarType || param->type.list) {
        write_type(w, &param->type);
    } else if (!is_optional(param)) {
        td_write_str(w, "$ref", REF "Datatype");
    } else {
        static const char or_null[] = "[{\"$ref\":\"" REF "Datatype\"},{\"type\":\"null\"}]";
        td_write_raw(w, "anyOf", or_null, sizeof or_null - 1);
    }
    if (param->has_default)
        write_default(w, param);
    td_write_close(w, '}');
}

/* ---- an overload ---- */

static bool is_required(const struct td_param *param)
{
    return !param->has_default && !is_optional(param);
}

/* How many arguments are tensors, or are not, and must be given if only those count. */
static int count(const struct td_schema *schema, bool tensors, bool required)
{
    int n = 0;
    for (int i = 0; i < schema->n_params; i++)
        n += is_tensor(&schema->param[i]) == tensors &&
             (!required || is_required(&schema->param[i]));
    return n;
}

static bool has_list(const struct td_schema *schema)
{
    for (int i = 0; i < schema->n_params; i++)
        if (is_tensor(&schema->param[i]) && schema->param[i].type.list)
            return true;
    return false;
}

/* The names that inputs may have: elements of a list are NAME.0, NAME.1, ... */
static void write_tensor_names(struct td_writer *w, const struct td_schema *schema)
{
    char pattern[TD_MAX_ARGS * (TD_NAME_SIZE + 16)] = "^(";
    bool lists = has_list(schema);
    size_t n = 2;
    if (!lists)
        td_write_open(w, "enum", '[');
    for (int i = 0; i < schema->n_params; i++) {
        const struct td_param *param = &schema->param[i];
        if (!is_tensor(param))
            continue;
        if (!lists)
            td_write_str(w, NULL, param->name);
        n += (size_t)snprintf(pattern + n, sizeof pattern - n, "%s%s%s", n > 2 ? "|" : "",
                              param->name, param->type.list ? "\\.[0-9]+" : "");
    }
    snprintf(pattern + n, sizeof pattern - n, ")$");
    if (lists)
        td_write_str(w, "pattern", pattern);
    else
        td_write_close(w, ']');
}

static void write_arguments(struct td_writer *w, const struct td_schema *schema)
{
    td_write_open(w, "properties", '{');
    td_write_open(w, "inputs", '{');
    if (!count(schema, true, false)) {
        td_write_int(w, "maxItems", 0);
    } else {
        td_write_open(w, "items", '{');
        td_write_open(w, "properties", '{');
        td_write_open(w, "name", '{');
        write_tensor_names(w, schema);
        for (int i = 0; i < 3; i++)
            td_write_close(w, '}');
    }
    td_write_close(w, '}');
    td_write_open(w, "parameters", '{');
    td_write_open(w, "properties", '{');
    for (int i = 0; i < schema->n_params; i++)
        if (!is_tensor(&schema->param[i]))
            write_argument(w, &schema->param[i]);
    for (int i = 0; i < 3; i++)
        td_write_close(w, '}');
}

/* One item of inputs is the argument. */
static void write_contains(struct td_writer *w, const struct td_param *param)
{
    char name[TD_NAME_SIZE + 2];
    snprintf(name, sizeof name, "%s%s", param->name, param->type.list ? ".0" : "");
    td_write_open(w, "contains", '{');
    td_write_open(w, "properties", '{');
    td_write_open(w, "name", '{');
    td_write_str(w, "const", name);
    for (int i = 0; i < 3; i++)
        td_write_close(w, '}');
}

static void write_required_inputs(struct td_writer *w, const struct td_schema *schema, int n)
{
    td_write_open(w, "inputs", '{');
    if (n > 1) /* for one alone the linter wants it plain */
        td_write_open(w, "allOf", '[');
    for (int i = 0; i < schema->n_params; i++) {
        if (!is_tensor(&schema->param[i]) || !is_required(&schema->param[i]))
            continue;
        if (n > 1)
            td_write_open(w, NULL, '{');
        write_contains(w, &schema->param[i]);
        if (n > 1)
            td_write_close(w, '}');
    }
    if (n > 1)
        td_write_close(w, ']');
    td_write_close(w, '}');
}

static void write_required_parameters(struct td_writer *w, const struct td_schema *schema)
{
    td_write_open(w, "parameters", '{');
    for (int pass = 0; pass < 2; pass++) { /* the linter wants what is required named */
        td_write_open(w, pass ? "required" : "properties", pass ? '[' : '{');
        for (int i = 0; i < schema->n_params; i++) {
            const struct td_param *param = &schema->param[i];
            if (is_tensor(param) || !is_required(param))
                continue;
            if (pass)
                td_write_str(w, NULL, param->name);
            else
                td_write_bool(w, param->name, true);
        }
        td_write_close(w, pass ? ']' : '}');
    }
    td_write_close(w, '}');
}

/* What must be there by name, unless there are arguments by position. */
static void write_required(struct td_writer *w, const struct td_schema *schema)
{
    static const char by_position[] = "{\"properties\":{\"args\":true},\"required\":[\"args\"]}";
    int tensors = count(schema, true, true), others = count(schema, false, true);
    if (!tensors && !others)
        return;
    td_write_raw(w, "if", by_position, sizeof by_position - 1);
    td_write_open(w, "else", '{');
    td_write_open(w, "properties", '{');
    if (tensors)
        write_required_inputs(w, schema, tensors);
    if (others)
        write_required_parameters(w, schema);
    td_write_close(w, '}');
    td_write_open(w, "required", '[');
    if (tensors)
        td_write_str(w, NULL, "inputs");
    if (others)
        td_write_str(w, NULL, "parameters");
    td_write_close(w, ']');
    td_write_close(w, '}');
}

static void write_overload(struct td_writer *w, const struct td_handle *handle)
{
    char schema[1024];
    td_schema_format(&handle->schema, schema, sizeof schema);
    td_write_str(w, "title", schema);
    td_write_str(w, "description", handle->op->doc);
    td_write_open(w, "allOf", '[');
    write_ref(w, "", "InferRequest");
    td_write_close(w, ']');
    write_arguments(w, &handle->schema);
    write_required(w, &handle->schema);
}

static void write_op(struct td_writer *w, const struct form *form, const struct td_handle *handle)
{
    put_key(w, form, "op.", handle->schema.name);
    if (!handle->next) {
        write_overload(w, handle);
    } else {
        td_write_open(w, "anyOf", '[');
        for (; handle; handle = handle->next) {
            td_write_open(w, NULL, '{');
            write_overload(w, handle);
            td_write_close(w, '}');
        }
        td_write_close(w, ']');
    }
    end_key(w, form);
}

/* ---- all ---- */

static void write_names(struct td_writer *w, const struct form *form)
{
    static const char in_place[] =
        "{\"description\":\"To be run in place.\",\"pattern\":\"_([.]|$)\"}";
    put_key(w, form, "", "OpName");
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
    end_key(w, form);
}

static void write_schemas(struct td_writer *w, const struct form *form)
{
    write_names(w, form);
    put_key(w, form, "", "OpRequest");
    td_write_str(w, "description", "The request of the operator that the path names.");
    td_write_open(w, "anyOf", '[');
    for (int i = 0; i < td_registry_count(); i++)
        if (td_registry_at(i)->first)
            write_ref(w, "op.", td_registry_at(i)->schema.name);
    td_write_close(w, ']');
    end_key(w, form);
    for (int i = 0; i < td_registry_count(); i++)
        if (td_registry_at(i)->first)
            write_op(w, form, td_registry_at(i));
}

static int answer(struct td_request *req, struct td_response *res, const struct form *form)
{
    const struct td_asset *asset = td_asset_find(form->file);
    if (td_api_is_bulk(req, 8 * asset->size, 0))
        return td_api_hand_over(req);
    const char *text = td_asset_text(req->arena, asset);
    struct td_writer w;
    td_write_init(&w, req->arena, 8 * asset->size);
    if (!text)
        return -ENOMEM;
    put(&w, text, asset->size);
    write_schemas(&w, form);
    put(&w, form->last, strlen(form->last));
    int err = td_write_response(&w, res, 200);
    res->type = asset->type;
    return err;
}

int td_api_openapi_yaml(struct td_request *req, struct td_response *res)
{
    return answer(req, res, &as_yaml);
}

int td_api_openapi_json(struct td_request *req, struct td_response *res)
{
    return answer(req, res, &as_json);
}
