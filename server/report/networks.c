/* The networks that `tensord report` composes, so that it needs no file: networks.def has each as a
 * short text, which becomes an ONNX file here. Readers of models then see what they would see of
 * anybody's. */
#include "server/report/net.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST 32 /* numbers in a list */

const struct td_network td_networks[] = {
#define TD_NETWORK(suite, name, inputs, ...) {#suite, #name, inputs, #__VA_ARGS__},
#include "server/report/networks.def"
#undef TD_NETWORK
    {NULL, NULL, NULL, NULL}};

struct reading {
    struct td_netfile onnx;
    const char *at;  /* what is read next */
    char out[8][32]; /* of the last statement */
    int n_outs;
};

static char next(struct reading *r)
{
    r->at += strspn(r->at, " ");
    return *r->at;
}

static bool take(struct reading *r, char c)
{
    if (next(r) != c)
        return false;
    r->at++;
    return true;
}

static bool take_name(struct reading *r, char name[32])
{
    size_t n = 0;
    next(r);
    while (isalnum((unsigned char)r->at[n]) || r->at[n] == '_')
        n++;
    if (!n || n > 31)
        return false;
    memcpy(name, r->at, n);
    name[n] = 0;
    r->at += n;
    return true;
}

/* What stands before `end`, with commas between. */
static bool take_list(struct reading *r, char end, int64_t *values, int *n)
{
    for (*n = 0; !take(r, end);) {
        char *behind;
        if (*n == MOST || (*n && !take(r, ',')))
            return false;
        values[*n] = strtoll(r->at, &behind, 10);
        if (behind == r->at)
            return false;
        r->at = behind;
        ++*n;
    }
    return true;
}

/* A name, [2,3] weights, +[2] positive ones, {1,-1} whole numbers, 0.5 a number, _ nothing. */
static bool read_operand(struct reading *r)
{
    int64_t values[MOST];
    char name[32] = "";
    int n;
    char c = next(r);
    if (c == '[' || c == '+') {
        r->at += c == '+';
        if (!take(r, '[') || !take_list(r, ']', values, &n) || n > TD_MAX_RANK)
            return false;
        td_netfile_weights(&r->onnx, name, n, values, c == '+');
    } else if (c == '{') {
        r->at++;
        if (!take_list(r, '}', values, &n))
            return false;
        td_netfile_ints(&r->onnx, name, values, n);
    } else if (isdigit((unsigned char)c) || c == '-') {
        char *behind;
        float value = strtof(r->at, &behind);
        if (behind == r->at)
            return false;
        r->at = behind;
        td_netfile_number(&r->onnx, name, value);
    } else if (!take_name(r, name)) {
        return false;
    }
    td_netfile_operand(&r->onnx, strcmp(name, "_") ? name : "");
    return true;
}

/* axis=1, alpha=0.1, pads=[1,1,1,1], mode=nearest */
static bool read_attribute(struct reading *r)
{
    int64_t values[MOST];
    char name[32], text[32];
    int n;
    if (!take_name(r, name) || !take(r, '='))
        return false;
    char c = next(r);
    if (c == '[') {
        r->at++;
        if (!take_list(r, ']', values, &n))
            return false;
        td_netfile_attribute_ints(&r->onnx, name, values, n);
    } else if (isdigit((unsigned char)c) || c == '-') {
        char *behind, *point;
        double value = strtod(r->at, &behind);
        point = memchr(r->at, '.', (size_t)(behind - r->at));
        r->at = behind;
        if (point)
            td_netfile_attribute_float(&r->onnx, name, (float)value);
        else
            td_netfile_attribute_int(&r->onnx, name, (int64_t)value);
    } else if (take_name(r, text)) {
        td_netfile_attribute_text(&r->onnx, name, text);
    } else {
        return false;
    }
    return true;
}

/* y, h = Op(x, [2,3], 0.5) axis=1; */
static bool read_statement(struct reading *r)
{
    char op[32];
    r->n_outs = 0;
    do
        if (r->n_outs == 8 || !take_name(r, r->out[r->n_outs++]))
            return false;
    while (take(r, ','));
    if (!take(r, '=') || !take_name(r, op) || !take(r, '('))
        return false;
    td_netfile_node(&r->onnx, op);
    do
        if (!read_operand(r))
            return false;
    while (take(r, ','));
    if (!take(r, ')'))
        return false;
    for (int i = 0; i < r->n_outs; i++)
        td_netfile_result(&r->onnx, strcmp(r->out[i], "_") ? r->out[i] : "");
    while (next(r) && *r->at != ';')
        if (!read_attribute(r))
            return false;
    td_netfile_node_end(&r->onnx);
    return true;
}

/* "x=[1,3,8,8] ids:INT64=[1,16]" */
static bool read_inputs(struct reading *r)
{
    while (next(r)) {
        int64_t shape[MOST];
        char name[32], type[32] = "FP32";
        int n;
        if (!take_name(r, name) || (take(r, ':') && !take_name(r, type)) || !take(r, '=') ||
            !take(r, '[') || !take_list(r, ']', shape, &n) || n > TD_MAX_RANK)
            return false;
        td_netfile_port(&r->onnx, TD_NETFILE_INPUT, name, td_dtype_find(type), n, shape);
    }
    return true;
}

char *td_network_file(const struct td_network *network, struct td_arena *arena, size_t *size,
                      const char **wrong)
{
    struct reading r = {.at = network->inputs};
    td_netfile_begin(&r.onnx, arena);
    bool right = read_inputs(&r);
    if (right)
        r.at = network->text;
    while (right && next(&r) && (right = read_statement(&r)))
        take(&r, ';');
    *wrong = r.at;
    if (!right)
        return NULL;
    for (int i = 0; i < r.n_outs; i++)
        if (strcmp(r.out[i], "_"))
            td_netfile_port(&r.onnx, TD_NETFILE_OUTPUT, r.out[i], TD_f32, -1, NULL);
    *wrong = NULL;
    return td_netfile_end(&r.onnx, size);
}
