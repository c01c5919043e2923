/* json [N]: tensor data between text and memory beside cJSON, on N floats (98,304 by default).
 * Rounds of all four alternate, so that a neighbour's load hits them alike; medians, and how many
 * times as fast as cJSON we are. Decoding is all of it on both sides: from the text of a tensor
 * object to an array of floats. */
#include "api/json/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 41

/* Of this thread: what runs beside it on the machine does not count. */
static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *us)
{
    qsort(us, ROUNDS, sizeof *us, by_value);
    return us[ROUNDS / 2];
}

static void check(bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "json: %s\n", what);
    exit(1);
}

/* Normally distributed, as activations and weights are. */
static void fill(float *x, int n)
{
    srand(1);
    for (int i = 0; i < n; i++) {
        double u = (rand() + 1.0) / (RAND_MAX + 2.0), v = rand() / (RAND_MAX + 1.0);
        x[i] = (float)(sqrt(-2 * log(u)) * cos(2 * M_PI * v));
    }
}

static void decode_ours(const char *text, size_t length, float *x, int n)
{
    struct td_json json;
    struct td_problem problem;
    check(!td_json_parse(&json, text, length, 32, &problem), "our parse");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(json.root, "data");
    check(!td_json_decode(td_json_span(&json, data), TD_f32, n, x, "x", &problem), "our decode");
    td_json_free(&json);
}

static void decode_cjson(const char *text, size_t length, float *x)
{
    cJSON *root = cJSON_ParseWithLength(text, length), *item;
    cJSON_ArrayForEach(item, cJSON_GetObjectItemCaseSensitive(root, "data"))
    {
        *x++ = (float)item->valuedouble;
    }
    cJSON_Delete(root);
}

static size_t encode_cjson(const float *x, int n)
{
    cJSON *array = cJSON_CreateFloatArray(x, n);
    char *text = cJSON_PrintUnformatted(array);
    size_t length = strlen(text);
    free(text);
    cJSON_Delete(array);
    return length;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 98304;
    check(n > 0, "N must be above 0");
    float *x = malloc((size_t)n * sizeof *x), *y = malloc((size_t)n * sizeof *y);
    check(x && y, "no memory");
    fill(x, n);
    struct td_tensor t = {.data = x, .dtype = TD_f32, .rank = 1, .shape = {n}};
    char *text = malloc(td_json_data_bound(&t) + 32);
    check(text, "no memory");
    size_t head = (size_t)sprintf(text, "{\"data\":"), size = 0, cjson_size = 0;
    static double us[4][ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        int64_t at[5];
        at[0] = now_ns();
        size = td_json_encode(&t, text + head);
        at[1] = now_ns();
        cjson_size = encode_cjson(x, n);
        text[head + size] = '}';
        at[2] = now_ns();
        decode_ours(text, head + size + 1, y, n);
        at[3] = now_ns();
        check(!memcmp(x, y, (size_t)n * sizeof *x), "our round trip is not exact");
        int64_t begin = now_ns();
        decode_cjson(text, head + size + 1, y);
        at[4] = now_ns();
        for (int i = 0; i < 3; i++)
            us[i][round] = (double)(at[i + 1] - at[i]) / 1e3;
        us[3][round] = (double)(at[4] - begin) / 1e3;
    }
    double encode = median(us[0]), encode_c = median(us[1]);
    double decode = median(us[2]), decode_c = median(us[3]);
    printf("encode %8.0f us %5.0f MB/s   cJSON %8.0f us %5.0f MB/s   %5.1f times as fast\n", encode,
           (double)size / encode, encode_c, (double)cjson_size / encode_c, encode_c / encode);
    printf("decode %8.0f us %5.0f MB/s   cJSON %8.0f us %5.0f MB/s   %5.1f times as fast\n", decode,
           (double)size / decode, decode_c, (double)size / decode_c, decode_c / decode);
    free(text);
    free(y);
    free(x);
    return 0;
}
