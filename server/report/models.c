/* What the suites consist of: the networks that the program composes, and the models of a
 * directory, DIR/SUITE/FILE, or DIR/FILE, whose suite is seen from its operators. */
#include "api/files/files.h"
#include "server/report/suites.h"

#include "kernels/elementwise.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUICK_EVERY 4 /* with --quick: one of our own networks of so many */
#define SIDE 224      /* of an image, and */
#define LENGTH 128    /* of a sequence, where the file leaves them open */

const char *const td_suites[] = {"vision", "transformer", "sequence", NULL};

static struct td_tried *add(struct td_suites *s, const char *suite, const char *name)
{
    struct td_tried *t = &s->tried[s->n];
    if (s->n == TD_REPORT_NETWORKS)
        return NULL;
    s->n++;
    *t = (struct td_tried){.own = NULL};
    snprintf(t->suite, sizeof t->suite, "%s", suite);
    snprintf(t->name, sizeof t->name, "%.79s", name);
    return t;
}

/* ---- files ---- */

static bool is_model(const char *name)
{
    const char *dot = strrchr(name, '.');
    return *name != '.' && dot && (!strcmp(dot, ".onnx") || !strcmp(dot, ".pt2"));
}

/* In the order of their names. */
static void add_files(struct td_suites *s, const char *suite, const char *directory)
{
    struct dirent **entry = NULL;
    int n = scandir(directory, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        struct td_tried *t = is_model(name) ? add(s, suite, name) : NULL;
        if (t) {
            snprintf(t->file, sizeof t->file, "%.250s/%.250s", directory, name);
            char *dot = strrchr(t->name, '.');
            if (dot)
                *dot = 0;
        }
        free(entry[i]);
    }
    free(entry);
}

void td_suites_gather(struct td_suites *s)
{
    const char *models = s->r->o.models;
    char directory[300];
    int at = 0;
    for (const struct td_network *network = td_networks; network->name; network++, at++) {
        struct td_tried *t =
            s->r->o.quick && at % QUICK_EVERY ? NULL : add(s, network->suite, network->name);
        if (t)
            t->own = network;
    }
    for (const char *const *suite = td_suites; models && *suite; suite++) {
        snprintf(directory, sizeof directory, "%.250s/%s", models, *suite);
        add_files(s, *suite, directory);
    }
    if (models)
        add_files(s, "", models);
}

/* ---- sizes ---- */

/* What the file of inputs says of it; NULL: nothing. */
static const cJSON *find_input(const struct td_suites *s, const char *name)
{
    const char *slash = strrchr(s->at->file, '/'), *file = slash ? slash + 1 : s->at->file;
    const cJSON *model, *input;
    cJSON_ArrayForEach(model, td_json_member(s->shapes.root, "models"))
    {
        const cJSON *called = td_json_member(model, "file");
        if (!cJSON_IsString(called) || strcmp(called->valuestring, file) != 0)
            continue;
        cJSON_ArrayForEach(input, td_json_member(model, "inputs"))
        {
            const cJSON *own = td_json_member(input, "name");
            if (cJSON_IsString(own) && !strcmp(own->valuestring, name))
                return input;
        }
    }
    return NULL;
}

/* A size that the file leaves open: one of a batch, images of three channels, some length. */
static int guess(int rank, int dim)
{
    return !dim ? 1 : rank == 4 ? dim == 1 ? 3 : SIDE : LENGTH;
}

/* "x=1,3,224,224", in s->once; NULL: no memory. */
static const char *say_shape(struct td_suites *s, const cJSON *input)
{
    char text[512];
    const char *name = td_json_member(input, "name")->valuestring;
    const cJSON *own = td_json_member(input, "shape"), *size;
    const cJSON *given = td_json_member(find_input(s, name), "shape");
    const cJSON *shape = cJSON_IsArray(given) ? given : own;
    int rank = cJSON_GetArraySize(own), dim = 0;
    int n = snprintf(text, sizeof text, "%.200s=", name);
    cJSON_ArrayForEach(size, shape)
    {
        double d = size->valuedouble < 0 ? guess(rank, dim) : size->valuedouble;
        n += snprintf(text + n, sizeof text - (size_t)n, "%s%.0f", dim++ ? "," : "", d);
        if (n > 400)
            return NULL;
    }
    return td_arena_strdup(s->once, text, (size_t)n);
}

void td_suites_size(struct td_suites *s, const cJSON *inputs)
{
    struct td_once *once = &s->r->once;
    const cJSON *input;
    once->n_shapes = 0;
    cJSON_ArrayForEach(input, inputs)
    {
        const char *shape = once->n_shapes < TD_ONCE_INPUTS ? say_shape(s, input) : NULL;
        if (shape)
            once->shape[once->n_shapes++] = shape;
    }
}

/* [WORD, NUMBER, NUMBER]: "ids", from the first one on, below that and the second; "const", the
 * first. */
int td_suites_fill(struct td_once *once, const char *name, struct td_arena *arena,
                   struct td_tensor *input)
{
    const struct td_suites *s = ((struct td_report *)once)->suites;
    const cJSON *rule = td_json_member(s ? find_input(s, name) : NULL, "rule");
    const cJSON *word = cJSON_GetArrayItem(rule, 0), *first = cJSON_GetArrayItem(rule, 1);
    const cJSON *second = cJSON_GetArrayItem(rule, 2);
    bool ids = cJSON_IsString(word) && !strcmp(word->valuestring, "ids") &&
               cJSON_IsNumber(second) && second->valuedouble >= 1;
    bool same = cJSON_IsString(word) && !strcmp(word->valuestring, "const");
    if (!cJSON_IsNumber(first) || !(ids || same))
        return 1;
    input->data = td_arena_zalloc(arena, td_nbytes(input) + 64);
    if (!input->data)
        return -ENOMEM;
    for (int64_t i = 0; i < td_numel(input); i++) {
        int64_t more = ids ? i * 7919 % second->valueint : 0;
        if (td_dtype_kind(input->dtype) == 'f')
            td_put_real(input, i, first->valuedouble + (double)more);
        else
            td_put_whole(input, i, first->valueint + more);
    }
    return 0;
}

/* ---- suites ---- */

static bool is_among(const char *op, const char *const *words)
{
    while (*words && !strstr(op, *words))
        words++;
    return *words != NULL;
}

/* What has a state that goes from step to step is a sequence's; of the rest, what multiplies
 * matrices more often than it convolves a transformer, and what convolves images sees. */
void td_suites_sort(struct td_suites *s, const cJSON *operators, const cJSON *inputs)
{
    static const char *const steps[] = {"LSTM", "GRU",  "RNN",   "Loop", "Scan",
                                        "lstm", "gru.", "while", NULL};
    static const char *const images[] = {"Conv", "conv", NULL};
    static const char *const products[] = {"MatMul", "Gemm", "Attention", "linear", "matmul",
                                           "addmm",  "bmm",  "attention", NULL};
    double stepped = 0, convolved = 0, multiplied = 0;
    bool sees = false; /* an image comes in */
    const cJSON *one;
    if (*s->at->suite)
        return;
    cJSON_ArrayForEach(one, inputs) sees |= cJSON_GetArraySize(td_json_member(one, "shape")) == 4;
    cJSON_ArrayForEach(one, operators)
    {
        const char *op = td_json_member(one, "operator")->valuestring;
        double nodes = td_json_member(one, "nodes")->valuedouble;
        stepped += is_among(op, steps) ? nodes : 0;
        convolved += is_among(op, images) ? nodes : 0;
        multiplied += is_among(op, products) ? nodes : 0;
    }
    int suite = stepped > 0 ? 2 : multiplied > convolved ? 1 : convolved > 0 && sees ? 0 : 2;
    snprintf(s->at->suite, sizeof s->at->suite, "%s", td_suites[suite]);
}
