/* The JSON reader on anything: it must not fail in any other way than by a sentence. What it takes,
 * it must take again after being written, as the same bits. The first byte picks a type. */
#include "api/json/json.h"

#include <stdlib.h>
#include <string.h>

static void must(bool good)
{
    if (!good)
        abort();
}

/* Elements of a span: as many as make the decoder content. */
static int64_t decode(const struct td_json_span *span, enum td_dtype dtype, void *out,
                      struct td_problem *problem)
{
    for (int64_t count = 0; count <= (int64_t)span->length; count++) {
        *problem->text = 0;
        if (!td_json_decode(span, dtype, count, out, "x", problem))
            return count;
        must(*problem->text);
        if (!strstr(problem->text, "more elements"))
            break;
    }
    return -1;
}

static void round_trip(const struct td_json_span *span, enum td_dtype dtype)
{
    struct td_problem problem;
    size_t bytes = (span->length + 1) * td_dtype_size(dtype);
    char *first = calloc(2, bytes), *second = first + bytes;
    int64_t count = decode(span, dtype, first, &problem);
    if (count >= 0) {
        struct td_tensor t = {.data = first, .dtype = dtype, .rank = 1, .shape = {count}};
        size_t room = td_json_data_bound(&t);
        char *text = malloc(room);
        struct td_json_span again = {text, td_json_encode(&t, text)};
        must(again.length <= room);
        must(!td_json_decode(&again, dtype, count, second, "x", &problem));
        must(!memcmp(first, second, td_nbytes(&t)));
        free(text);
    }
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct td_json json;
    struct td_problem problem = {""};
    if (!size)
        return 0;
    enum td_dtype dtype = 1 << (*data + 2) % 10;  /* '0' is the first */
    char *text = malloc(size - 1 ? size - 1 : 1); /* exact, so that reading on is noticed */
    memcpy(text, data + 1, size - 1);
    int err = td_json_parse(&json, text, size - 1, 32, &problem);
    must(!err == !!json.root && !err == !*problem.text);
    for (int i = 0; !err && i < json.n_spans; i++)
        round_trip(&json.span[i], dtype);
    td_json_free(&json);
    free(text);
    return 0;
}
