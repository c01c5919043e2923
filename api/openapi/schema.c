/* An operator's request as a JSON schema, from its own schema. There are two, as there are two
 * forms of requests: op.NAME for InferRequest, with the tensors' names, all other arguments with
 * types and defaults, and what must be there unless arguments are given by position; and
 * brief.NAME, with all arguments side by side. Neither takes what the operator does not have. */
#include "api/openapi/openapi.h"

#include <stdio.h>
#include <string.h>

static bool is_tensor(const struct td_param *param)
{
    return param->type.base == TD_BASE_Tensor;
}

static bool is_optional(const struct td_param *param)
{
    return td_type_takes_none(&param->type);
}

/* ---- an argument that is no tensor ---- */

/* The JSON types of a value, without null and lists. Generators are given by their seeds. */
static void write_types(struct td_writer *w, enum td_base base)
{
    bool number = base == TD_BASE_float || base == TD_BASE_Scalar;
    bool whole = base == TD_BASE_int || base == TD_BASE_Generator;
    if (whole || number)
        td_write_str(w, NULL, whole ? "integer" : "number");
    if (base == TD_BASE_bool || base == TD_BASE_Scalar)
        td_write_str(w, NULL, "boolean");
    if (!whole && base != TD_BASE_bool)
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
    if (!type->list && (type->base == TD_BASE_float || type->base == TD_BASE_Scalar))
        td_write_str(w, "pattern", "^(NaN|-?Infinity)$");
    if (!type->list)
        return;
    td_write_open(w, "items", '{');
    td_write_str(w, "type",
                 type->base == TD_BASE_int    ? "integer"
                 : type->base == TD_BASE_bool ? "boolean"
                                              : "number");
    td_write_close(w, '}');
    td_write_int(w, "maxItems", TD_MAX_LIST);
}

/* Before an exponent, YAML 1.1 needs a point; after one, JSON a digit. */
void td_openapi_number(struct td_writer *w, const char *key, const char *text)
{
    size_t n = strcspn(text, "e"); /* up to an exponent */
    char number[64];
    snprintf(number, sizeof number, "%.*s%s%s", (int)n, text,
             text[n] && !memchr(text, '.', n) ? ".0"
             : n && text[n - 1] == '.'        ? "0"
                                              : "",
             text + n);
    td_write_raw(w, key, number, strlen(number));
}

static void write_default(struct td_writer *w, const struct td_param *param)
{
    const struct td_value *v = &param->def;
    switch (v->kind) {
    case TD_KIND_int:
        td_write_int(w, "default", v->i);
        break;
    case TD_KIND_bool:
        td_write_bool(w, "default", v->i);
        break;
    case TD_KIND_float:
        td_openapi_number(w, "default", param->default_text);
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
        td_write_str(w, "$ref", TD_OPENAPI_REF "Datatype");
    } else {
        static const char or_null[] =
            "[{\"$ref\":\"" TD_OPENAPI_REF "Datatype\"},{\"type\":\"null\"}]";
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

/* What stands beside each other in parameters, and in the short form in all: the arguments of the
 * operator, and what all calls take. */
static void write_others(struct td_writer *w, const struct td_schema *schema)
{
    td_write_str(w, "$ref", TD_OPENAPI_REF "CallParameters");
    td_write_open(w, "properties", '{');
    for (int i = 0; i < schema->n_params; i++)
        if (!is_tensor(&schema->param[i]))
            write_argument(w, &schema->param[i]);
    td_write_close(w, '}');
    td_write_bool(w, "unevaluatedProperties", false);
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
    write_others(w, schema);
    td_write_close(w, '}');
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

/* ---- the short form ---- */

static void write_tensor(struct td_writer *w, const struct td_param *param)
{
    const char *ref =
        param->type.list ? TD_OPENAPI_REF "PlainTensors" : TD_OPENAPI_REF "PlainTensor";
    td_write_open(w, param->name, '{');
    if (param->type.optional && !param->type.list) {
        static const char or_null[] =
            "[{\"$ref\":\"" TD_OPENAPI_REF "PlainTensor\"},{\"type\":\"null\"}]";
        td_write_raw(w, "anyOf", or_null, sizeof or_null - 1);
    } else {
        td_write_str(w, "$ref", ref);
    }
    td_write_close(w, '}');
}

void td_openapi_brief(struct td_writer *w, const struct td_handle *handle)
{
    const struct td_schema *schema = &handle->schema;
    td_write_str(w, "title", "The short form");
    td_write_str(w, "type", "object");
    td_write_str(w, "$ref", TD_OPENAPI_REF "CallParameters");
    td_write_open(w, "properties", '{');
    for (int i = 0; i < schema->n_params; i++)
        (is_tensor(&schema->param[i]) ? write_tensor : write_argument)(w, &schema->param[i]);
    if (td_schema_find(schema, "dtype") < 0) {
        td_write_open(w, "dtype", '{');
        td_write_str(w, "$ref", TD_OPENAPI_REF "Datatype");
        td_write_close(w, '}');
    }
    td_write_open(w, "parameters", '{');
    td_write_str(w, "$ref", TD_OPENAPI_REF "CallParameters");
    td_write_close(w, '}');
    td_write_close(w, '}');
    td_write_open(w, "required", '[');
    for (int i = 0; i < schema->n_params; i++)
        if (is_required(&schema->param[i]))
            td_write_str(w, NULL, schema->param[i].name);
    td_write_close(w, ']');
    td_write_bool(w, "unevaluatedProperties", false);
}

void td_openapi_full(struct td_writer *w, const struct td_handle *handle)
{
    char schema[1024];
    td_schema_format(&handle->schema, schema, sizeof schema);
    td_write_str(w, "title", schema);
    td_write_str(w, "description", handle->op->doc);
    td_write_str(w, "$ref", TD_OPENAPI_REF "InferRequest");
    write_arguments(w, &handle->schema);
    write_required(w, &handle->schema);
}
