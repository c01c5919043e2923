/* api/json/json.c and api/json/write.c: what is cut out and what becomes a tree, the sentences for
 * what is wrong with a text, and what the writer makes of any string. */
#include "api/request/request.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct td_problem problem;
static struct td_json json;

static int parse(const char *text)
{
    *problem.text = 0;
    return td_json_parse(&json, text, strlen(text), 32, &problem);
}

static const struct td_json_span *span_of(const cJSON *object)
{
    return td_json_span(&json, cJSON_GetObjectItemCaseSensitive(object, "data"));
}

/* ---- the tree and its holes ---- */

START_TEST(cuts_data)
{
    ck_assert_int_eq(parse(" {\"a\" : [1, {\"data\" : [[1,2],\n[3,4]] }],\"data\":[ ]} "), 0);
    ck_assert_int_eq(json.n_spans, 2);
    const struct td_json_span *outer = span_of(json.root);
    const struct td_json_span *inner =
        span_of(cJSON_GetArrayItem(cJSON_GetObjectItem(json.root, "a"), 1));
    ck_assert_ptr_eq(inner, &json.span[0]);
    ck_assert_ptr_eq(outer, &json.span[1]);
    ck_assert_int_eq(strncmp(inner->text, "[[1,2],\n[3,4]]", inner->length), 0);
    ck_assert_uint_eq(inner->length, 14);
    ck_assert_int_eq(strncmp(outer->text, "[ ]", outer->length), 0);
    td_json_free(&json);
}
END_TEST

/* What is called data and is no array, or is an array and not called data, stays in the tree. */
START_TEST(keeps_the_rest)
{
    ck_assert_int_eq(parse("{\"k\":\"data\",\"l\":[\"data\",[1]],\"data\":{\"data\":7},"
                           "\"s\":\"[\\\"]{\\\\\",\"Data\":[1],\"t\":{\"d\\u0061ta\":0}}"),
                     0);
    ck_assert_int_eq(json.n_spans, 0);
    ck_assert_str_eq(cJSON_GetObjectItem(json.root, "k")->valuestring, "data");
    ck_assert_str_eq(cJSON_GetObjectItem(json.root, "s")->valuestring, "[\"]{\\");
    const cJSON *data = cJSON_GetObjectItemCaseSensitive(json.root, "data");
    ck_assert(cJSON_IsObject(data));
    ck_assert_int_eq(cJSON_GetObjectItemCaseSensitive(data, "data")->valueint, 7);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItemCaseSensitive(json.root, "Data")), 1);
    td_json_free(&json);
}
END_TEST

/* No number or text of a client's passes for a span. */
START_TEST(spans_cannot_be_forged)
{
    static const char *const forged[] = {"0",    "\"0\"", "\"\\u00ff00\"", "\"\\u000000\"",
                                         "true", "null"};
    for (size_t i = 0; i < sizeof forged / sizeof *forged; i++) {
        char text[128];
        snprintf(text, sizeof text, "[{\"data\":[1]},{\"data\":%s},{\"d\\u0061ta\":%s}]", forged[i],
                 forged[i]);
        int err = parse(text);
        for (int j = 1; !err && j < 3; j++)
            ck_assert_ptr_null(span_of(cJSON_GetArrayItem(json.root, j)));
        td_json_free(&json);
    }
    ck_assert_int_eq(parse("{\"data\":\"\xff"
                           "00\"}"),
                     -EINVAL);
    td_json_free(&json);
    ck_assert_ptr_null(td_json_span(&json, NULL));
}
END_TEST

/* At any depth, beside any others, and however its name is written. */
START_TEST(members_come_once)
{
    const char *twice[] = {"{\"data\":[1],\"data\":[2]}", "{\"a\":1,\"a\":1}",
                           "[{\"b\":{\"a\":1,\"c\":2,\"\\u0061\":3}}]", "{\"\":1,\"\":2}"};
    char many[8192] = "{", *at = many + 1;
    for (size_t i = 0; i < sizeof twice / sizeof *twice; i++) {
        ck_assert_int_eq(parse(twice[i]), -EINVAL);
        ck_assert_ptr_nonnull(strstr(problem.text, "twice"));
        td_json_free(&json);
    }
    for (int i = 0; i < 500; i++)
        at += sprintf(at, "\"k%d\":%d,", i, i);
    strcpy(at, "\"K0\":0}");
    ck_assert_int_eq(parse(many), 0);
    td_json_free(&json);
    strcpy(at, "\"k7\":0}");
    ck_assert_int_eq(parse(many), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "'k7'"));
    td_json_free(&json);
    ck_assert_int_eq(parse("[{\"a\":1},{\"a\":1,\"A\":{\"a\":2}}]"), 0);
    td_json_free(&json);
}
END_TEST

/* Strings with brackets inside of data, where the nearest 64 bytes hold all kinds of them. */
START_TEST(strings_in_data)
{
    ck_assert_int_eq(parse("{\"data\":[\"]\",\"\\\"]\",\"[[{\"],\"after\":[1]}"), 0);
    ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(json.root, "after")), 1);
    ck_assert_uint_eq(span_of(json.root)->length, strlen("[\"]\",\"\\\"]\",\"[[{\"]"));
    td_json_free(&json);
}
END_TEST

/* A tree is 40 times as large as a text of numbers, so there is a bound; data is not counted. */
START_TEST(many_values)
{
    size_t most = TD_MAX_VALUES - 2, at = 0; /* the commas within, and the two brackets */
    static char text[4 * TD_MAX_VALUES + 100];
    at += (size_t)sprintf(text, "{\"data\":[0");
    for (size_t i = 0; i < 2 * most; i++)
        at += (size_t)sprintf(text + at, ",0");
    sprintf(text + at, "]}");
    ck_assert_int_eq(parse(text), 0);
    td_json_free(&json);
    memcpy(text + 2, "else", 4);
    ck_assert_int_eq(parse(text), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "131072"));
    td_json_free(&json);
    strcpy(text + 10 + 2 * most, "]}");
    ck_assert_int_eq(parse(text), 0);
    td_json_free(&json);
}
END_TEST

START_TEST(truncated_text)
{
    static const char sample[] =
        "{\"id\":\"\\u00e9\xc3\xa9\",\"inputs\":[{\"name\":\"self\",\"shape\""
        ":[2,2],\"datatype\":\"FP32\",\"data\":[[1.5,-2e-7],[NaN,1]]},{"
        "\"data\":[\"]\"]}],\"parameters\":{\"a\":true}}";
    for (size_t n = 0; n < sizeof sample - 1; n++) {
        char *text = malloc(n + 1); /* of its own, so that a sanitizer sees reading on */
        memcpy(text, sample, n);
        *problem.text = 0;
        ck_assert_int_eq(td_json_parse(&json, text, n, 32, &problem), -EINVAL);
        ck_assert_str_ne(problem.text, "");
        td_json_free(&json);
        free(text);
    }
    ck_assert_int_eq(parse(sample), 0);
    td_json_free(&json);
}
END_TEST

static int parse_nested(int n, const char *open, const char *close, int depth)
{
    char *text = malloc((size_t)n * (strlen(open) + strlen(close)) + 1), *at = text;
    for (int i = 0; i < n; i++)
        at = stpcpy(at, open);
    for (int i = 0; i < n; i++)
        at = stpcpy(at, close);
    int err = td_json_parse(&json, text, (size_t)(at - text), depth, &problem);
    td_json_free(&json);
    free(text);
    return err;
}

START_TEST(depth)
{
    ck_assert_int_eq(parse_nested(32, "[", "]", 32), 0);
    ck_assert_int_eq(parse_nested(33, "[", "]", 32), -EINVAL);
    ck_assert_int_eq(parse_nested(100000, "[", "]", 32), -EINVAL);
    ck_assert_int_eq(parse_nested(100000, "{\"data\":[", "]}", 32), -EINVAL);
    ck_assert_int_eq(parse_nested(100000, "{\"a\":", "}", 32), -EINVAL);
    ck_assert_int_eq(
        parse("{\"data\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"), 0);
    td_json_free(&json);
    ck_assert_int_eq(
        parse("{\"data\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}"),
        -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "at most 32 levels"));
    td_json_free(&json);
}
END_TEST

START_TEST(too_many_spans)
{
    char text[2048] = "[";
    for (int i = 0; i < TD_MAX_SPANS; i++)
        strcat(text, i ? ",{\"data\":[1]}" : "{\"data\":[1]}");
    char *end = text + strlen(text);
    strcpy(end, "]");
    ck_assert_int_eq(parse(text), 0);
    ck_assert_ptr_eq(span_of(cJSON_GetArrayItem(json.root, TD_MAX_SPANS - 1)),
                     &json.span[TD_MAX_SPANS - 1]);
    td_json_free(&json);
    strcpy(end, ",{\"data\":[1]}]");
    ck_assert_int_eq(parse(text), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "more data arrays than the 64"));
    td_json_free(&json);
}
END_TEST

START_TEST(wrong_text)
{
    static const struct {
        const char *text, *sentence;
    } wrong[] = {
        {"", "the JSON is empty"},
        {" \n", "the JSON is empty"},
        {"{\"a\":1 2}", "the JSON is wrong near"},
        {"{\"a\":[1}", "the JSON is wrong near"},
        {"{} x", "the JSON is wrong near"},
        {"{\"a\":\"\xc3\"}", "at byte 6: not UTF-8"},
        {"{\"a\":\"\xed\xa0\x80\"}", "at byte 6: not UTF-8"},
        {"{\"a\":\"\xc0\x80\"}", "at byte 6: not UTF-8"},
        {"{\"a\":\"b\\u0000\"}", "at byte 7: a zero character"},
        {"{\"a\":\"\n\"}", "at byte 6: a control character"},
        {"{\"data\":[{\"a\":1}]}", "at byte 9: an object inside of tensor data"},
        {"{\"data\":[1}", "at byte 10: an object inside of tensor data"},
        {"{\"data\":[1", "at byte 10: the text ends in a data array"},
        {"{\"data\":[1]", "at byte 11: the text ends early"},
        {"{\xc3\xa9:1}", "at byte 1: a character that is no JSON"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        ck_assert_int_eq(parse(wrong[i].text), -EINVAL);
        ck_assert_msg(strstr(problem.text, wrong[i].sentence), "%s: %s", wrong[i].text,
                      problem.text);
        td_json_free(&json);
    }
}
END_TEST

/* ---- the writer ---- */

START_TEST(writes)
{
    struct td_arena *arena = td_arena_create();
    struct td_response res = {0};
    struct td_writer w;
    td_write_init(&w, arena, 4); /* has to grow */
    td_write_open(&w, NULL, '{');
    td_write_str(&w, "a", "\"\\b\n\x01\xc3\xa9\xc3"); /* the last character is cut */
    td_write_str(&w, "n", NULL);
    td_write_open(&w, "l", '[');
    td_write_int(&w, NULL, INT64_MIN);
    td_write_num(&w, NULL, 0.1);
    td_write_num(&w, NULL, (double)NAN);
    static const int64_t ns[] = {0, 7, 70, 700, 1000, 1678, 12000034, 120};
    for (size_t i = 0; i < sizeof ns / sizeof *ns; i++)
        td_write_us(&w, NULL, ns[i]);
    td_write_open(&w, NULL, '{');
    td_write_close(&w, '}');
    td_write_close(&w, ']');
    td_write_bool(&w, "t", true);
    td_write_raw(&w, "r", "[1]", 3);
    td_write_close(&w, '}');
    ck_assert_int_eq(td_write_response(&w, &res, 200), 0);
    ck_assert_str_eq(td_arena_strdup(arena, res.body, res.size),
                     "{\"a\":\"\\\"\\\\b\\u000a\\u0001\xc3\xa9\\ufffd\",\"n\":null,\"l\":["
                     "-9223372036854775808,0.1,null,0,0.007,0.07,0.7,1,1.678,12000.034,0.12,{}],"
                     "\"t\":true,\"r\":[1]}\n");
    ck_assert_int_eq(res.status, 200);
    ck_assert_ptr_nonnull(td_write_room(&w, 1000));
    ck_assert_ptr_null(td_write_room(&w, (size_t)1 << 60));
    ck_assert_int_eq(td_write_response(&w, &res, 200), -ENOMEM);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json");
    TCase *tests = tcase_create("json");
    tcase_add_test(tests, cuts_data);
    tcase_add_test(tests, keeps_the_rest);
    tcase_add_test(tests, spans_cannot_be_forged);
    tcase_add_test(tests, members_come_once);
    tcase_add_test(tests, strings_in_data);
    tcase_add_test(tests, many_values);
    tcase_add_test(tests, truncated_text);
    tcase_add_test(tests, depth);
    tcase_add_test(tests, too_many_spans);
    tcase_add_test(tests, wrong_text);
    tcase_add_test(tests, writes);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    return td_run_suite(suite);
}
