/* What `tensord run` prints and writes: for people a line an output with its first elements, for
 * programs JSON with all of them, and .npy files. A name in a model may hold any bytes; a file's is
 * made of the harmless ones. */
#include "server/commands/run.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SHOWN 8     /* elements of an output */
#define LONGEST 180 /* bytes of a file's name before its number and ending */

struct shown {
    const char *name;
    struct td_tensor tensor;
    const struct td_json_span *texts; /* in place of data: an array of them; or NULL */
    char file[LONGEST + 32];          /* within the directory; "" where none is written */
};

/* ---- files ---- */

/* NumPy's name of the type; it has none of BF16, which is written as FP32. */
static const char *npy_type(enum td_dtype dtype)
{
    static const struct {
        enum td_dtype dtype;
        const char *name;
    } types[] = {{TD_bool, "|b1"}, {TD_u8, "|u1"},   {TD_i8, "|i1"},  {TD_i16, "<i2"},
                 {TD_i32, "<i4"},  {TD_i64, "<i8"},  {TD_f16, "<f2"}, {TD_f32, "<f4"},
                 {TD_f64, "<f8"},  {TD_bf16, "<f4"}, {TD_u16, "<u2"}, {TD_u32, "<u4"},
                 {TD_u64, "<u8"}};
    size_t i = 0;
    while (types[i].dtype != dtype)
        i++;
    return types[i].name;
}

static bool write_elements(FILE *file, const struct td_tensor *t)
{
    if (t->dtype != TD_bf16)
        return fwrite(t->data, 1, td_nbytes(t), file) == td_nbytes(t);
    bool right = true;
    for (int64_t i = 0; i < td_numel(t) && right; i++) {
        uint16_t half;
        memcpy(&half, (const char *)t->data + 2 * i, sizeof half);
        uint32_t bits = (uint32_t)half << 16;
        right = fwrite(&bits, sizeof bits, 1, file) == 1;
    }
    return right;
}

/* Format 1.0: the header's end, and so the elements, at a multiple of 64. */
static bool write_npy(FILE *file, const struct td_tensor *t)
{
    char shape[TD_MAX_RANK * 22 + 4] = "", head[512];
    size_t n = 0;
    for (int d = 0; d < t->rank; d++)
        n += (size_t)snprintf(shape + n, sizeof shape - n, d ? ", %lld" : "%lld",
                              (long long)t->shape[d]);
    int size =
        snprintf(head, sizeof head, "{'descr': '%s', 'fortran_order': False, 'shape': (%s%s), }",
                 npy_type(t->dtype), shape, t->rank == 1 ? "," : "");
    int padded = (10 + size + 1 + 63) / 64 * 64 - 10;
    const unsigned char length[2] = {(unsigned char)(padded & 255), (unsigned char)(padded >> 8)};
    return fwrite("\x93NUMPY\1\0", 1, 8, file) == 8 && fwrite(length, 1, 2, file) == 2 &&
           fprintf(file, "%-*s\n", padded - 1, head) == padded && write_elements(file, t);
}

/* The name with a _ for each byte that files had better not have; told apart from those before. */
static void name_file(struct shown *list, int i)
{
    char stem[LONGEST + 1];
    size_t n = 0;
    for (const char *c = list[i].name; *c && n < LONGEST; c++)
        stem[n++] = isalnum((unsigned char)*c) || strchr("._-", *c) ? *c : '_';
    stem[n] = 0;
    if (*stem == '.' || *stem == '-')
        *stem = '_';
    snprintf(list[i].file, sizeof list[i].file, "%s.npy", n ? stem : "_");
    for (int k = 0, tries = 2; k < i; k++)
        if (!strcmp(list[k].file, list[i].file)) {
            snprintf(list[i].file, sizeof list[i].file, "%s-%d.npy", stem, tries++);
            k = -1; /* from the first again */
        }
}

static int write_files(const struct td_once *once, struct shown *list, int n)
{
    char path[4096], why[4500];
    if (!once->directory)
        return 0;
    if (mkdir(once->directory, 0777) && errno != EEXIST) {
        snprintf(why, sizeof why, "%.3000s: %s", once->directory, strerror(errno));
        return td_once_fail(once, why);
    }
    for (int i = 0; i < n; i++) {
        if (list[i].texts) /* which NumPy has no plain file for */
            continue;
        name_file(list, i);
        snprintf(path, sizeof path, "%.3000s/%s", once->directory, list[i].file);
        FILE *file = fopen(path, "we");
        bool right = file && write_npy(file, &list[i].tensor);
        right = file && !fclose(file) && right;
        if (!right) {
            snprintf(why, sizeof why, "%s: %s", path, strerror(errno));
            return td_once_fail(once, why);
        }
    }
    return 0;
}

/* ---- what the answer holds ---- */

static int read_outputs(const struct td_json *json, const cJSON *outputs, const char *blob,
                        struct td_arena *arena, struct shown **list)
{
    struct td_problem problem;
    const cJSON *item;
    int n = 0;
    *list = td_arena_zalloc(arena, (size_t)cJSON_GetArraySize(outputs) * sizeof **list + 1);
    if (!*list)
        return -ENOMEM;
    cJSON_ArrayForEach(item, outputs)
    {
        struct shown *one = &(*list)[n++];
        one->name = td_json_member(item, "name")->valuestring;
        one->texts = td_json_span(json, td_json_member(item, "data"));
        if (td_json_shape(item, &one->tensor, one->name, &problem))
            return -EINVAL;
        if (one->texts)
            continue;
        if (td_json_dtype(item, &one->tensor, one->name, &problem))
            return -EINVAL;
        size_t bytes = td_nbytes(&one->tensor);
        one->tensor.data = td_arena_alloc(arena, bytes + 1); /* aligned */
        if (!one->tensor.data)
            return -ENOMEM;
        memcpy(one->tensor.data, blob, bytes);
        blob += bytes;
    }
    return n;
}

/* ---- for people ---- */

/* Control characters of a name could be taken for a terminal's orders. */
static void print_name(const char *name)
{
    for (; *name; name++)
        putchar((unsigned char)*name < ' ' || *name == 0x7f ? '?' : *name);
}

static void print_output(const struct shown *one, struct td_arena *arena)
{
    struct td_tensor first = one->tensor;
    int64_t n = td_numel(&one->tensor);
    first.rank = 1;
    first.shape[0] = n < SHOWN ? n : SHOWN;
    char *text = one->texts ? NULL : td_arena_alloc(arena, td_json_data_bound(&first) + 1);
    print_name(one->name);
    printf("  %s [", one->texts ? "BYTES" : td_dtype_name(one->tensor.dtype));
    for (int d = 0; d < one->tensor.rank; d++)
        printf("%s%lld", d ? "," : "", (long long)one->tensor.shape[d]);
    printf("]  ");
    if (one->texts) {
        printf("%.*s\n", (int)one->texts->length, one->texts->text);
        return;
    }
    if (text) {
        size_t length = td_json_encode(&first, text);
        for (size_t i = 1; i + 1 < length; i++)
            putchar(text[i] == ',' ? ' ' : text[i]);
    }
    puts(n > SHOWN ? " ..." : "");
}

static double number(const cJSON *object, const char *key)
{
    const cJSON *item = td_json_member(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static void print_head(const struct td_once *once, const cJSON *model, const cJSON *parameters)
{
    const cJSON *record = td_json_member(parameters, "explain");
    printf("%s: %s, %.0f nodes, read in %.1f ms; ran in %.3f ms on %.0f threads, %s\n", once->model,
           td_json_member(model, "format")->valuestring, number(model, "nodes"),
           number(model, "load_us") * 1e-3, number(parameters, "compute_us") * 1e-3,
           number(record, "threads"), td_json_member(parameters, "isa")->valuestring);
    if (once->explain)
        printf("  %.0f calls of operators, %.3f ms in their kernels, at most %.1f MB held\n",
               number(record, "calls"), number(record, "kernel_us") * 1e-3,
               number(record, "most_bytes") * 1e-6);
}

/* ---- for programs ---- */

static int print_json(const struct td_once *once, const cJSON *parameters, const struct shown *list,
                      int n, struct td_arena *arena)
{
    struct td_writer w;
    char *said = cJSON_PrintUnformatted(parameters);
    td_write_init(&w, arena, 4096);
    td_write_open(&w, NULL, '{');
    td_write_open(&w, "outputs", '[');
    for (int i = 0; i < n; i++) {
        td_write_open(&w, NULL, '{');
        td_write_str(&w, "name", list[i].name);
        const struct td_json_span *texts = list[i].texts;
        td_write_str(&w, "datatype", texts ? "BYTES" : td_dtype_name(list[i].tensor.dtype));
        td_write_shape(&w, &list[i].tensor);
        if (texts)
            td_write_raw(&w, "data", texts->text, texts->length);
        else
            td_write_data(&w, &list[i].tensor);
        if (once->directory && !texts)
            td_write_str(&w, "file", list[i].file);
        td_write_close(&w, '}');
    }
    td_write_close(&w, ']');
    if (said)
        td_write_raw(&w, "parameters", said, strlen(said));
    td_write_close(&w, '}');
    free(said);
    if (w.failed)
        return td_once_fail(once, "out of memory");
    fwrite(w.text, 1, w.length, stdout);
    putchar('\n');
    return 0;
}

static int show(struct td_once *once, const cJSON *model, const struct td_json *json,
                const char *blob, struct td_arena *arena)
{
    const cJSON *root = json->root;
    const cJSON *parameters = td_json_member(root, "parameters");
    struct shown *list;
    int n = read_outputs(json, td_json_member(root, "outputs"), blob, arena, &list);
    if (n < 0)
        return td_once_fail(once, "out of memory");
    if (write_files(once, list, n))
        return 1;
    if (once->json)
        return print_json(once, parameters, list, n, arena);
    print_head(once, model, parameters);
    for (int i = 0; i < n; i++) {
        print_output(&list[i], arena);
        if (once->directory && !list[i].texts)
            printf("  -> %s/%s\n", once->directory, list[i].file);
    }
    return 0;
}

int td_once_show(struct td_once *once, const cJSON *model, const struct td_response *res)
{
    const char *length =
        res->header[0].name ? res->header[0].value : NULL; /* JSON, then elements */
    size_t head = length ? strtoull(length, NULL, 10) : res->size;
    struct td_problem problem;
    struct td_json json;
    struct td_arena *arena = td_arena_create();
    if (!arena)
        return td_once_fail(once, "out of memory");
    int failed = td_json_parse(&json, res->body, head, 32, &problem)
                     ? td_once_fail(once, problem.text)
                     : show(once, model, &json, (const char *)res->body + head, arena);
    td_json_free(&json);
    td_arena_destroy(arena);
    return failed;
}
