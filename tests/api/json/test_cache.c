/* api/json/text_cache.c: what comes out of it is what td_json_parse gives for the same bytes,
 * whatever came before, whoever else reads it, and however many texts there are. */
#include "api/json/json.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const heads[] = {
    "{\"inputs\":[{\"name\":\"self\",\"shape\":[256],\"datatype\":\"FP32\",\"parameters\":{"
    "\"binary_data_size\":1024}},{\"name\":\"other\",\"shape\":[256],\"datatype\":\"FP32\","
    "\"parameters\":{\"binary_data_size\":1024}}],\"parameters\":{\"binary_data_output\":true}}",
    "{\"inputs\":[{\"name\":\"self\",\"parameters\":{\"tensor\":\"w\"}}],\"id\":\"\\u00e9\"}",
    "{\"a\":-1.5e-7,\"b\":[true,false,null,[]],\"c\":{\"d\":\"data\"},\"data\":{}}",
    " [ ] ",
};
enum { HEADS = sizeof heads / sizeof *heads };

static struct td_json_cache *cache;

static void setup(void)
{
    cache = td_json_cache_create(32);
    ck_assert_ptr_nonnull(cache);
}

static void teardown(void)
{
    td_json_cache_destroy(cache);
}

static int parse(struct td_json *json, const char *text)
{
    struct td_problem problem;
    return td_json_cache_parse(cache, json, text, strlen(text), &problem);
}

/* The same outcome as without a cache: error and sentence, or tree and spans. From text of its own,
 * so that a sanitizer sees who reads it afterwards. */
static void check_same(const char *text, size_t length)
{
    struct td_json plain, json;
    struct td_problem why = {""}, sentence = {""};
    char *copy = malloc(length + 1);
    memcpy(copy, text, length);
    copy[length] = 0;
    int want = td_json_parse(&plain, text, length, 32, &why);
    int err = td_json_cache_parse(cache, &json, copy, length, &sentence);
    ck_assert_msg(err == want, "%d, not %d: %s", err, want, copy);
    ck_assert_str_eq(sentence.text, why.text);
    ck_assert_int_eq(json.n_spans, plain.n_spans);
    for (int i = 0; i < json.n_spans; i++)
        ck_assert_int_eq(json.span[i].text - copy, plain.span[i].text - text);
    if (!json.n_spans)
        free(copy);
    ck_assert_msg(err || cJSON_Compare(json.root, plain.root, true), "%.*s", (int)length, text);
    if (json.n_spans)
        free(copy);
    td_json_free(&json);
    td_json_free(&plain);
}

START_TEST(shares)
{
    struct td_json first, second, third;
    long long hits, misses;
    for (int i = 0; i < HEADS; i++) {
        ck_assert_int_eq(parse(&first, heads[i]), 0);
        ck_assert_int_eq(parse(&second, heads[i]), 0);
        ck_assert_ptr_eq(first.root, second.root);
        td_json_free(&first);
        ck_assert_int_eq(parse(&third, heads[i]), 0);
        ck_assert_ptr_eq(third.root, second.root);
        td_json_free(&second);
        td_json_free(&third);
        check_same(heads[i], strlen(heads[i]));
    }
    td_json_cache_counts(cache, &hits, &misses);
    ck_assert_int_eq(misses, HEADS);
    ck_assert_int_eq(hits, 3 * HEADS);
}
END_TEST

/* What is at hand for a thread is another cache's, whose limits it has. */
START_TEST(two_caches)
{
    struct td_json json;
    struct td_problem problem;
    struct td_json_cache *shallow = td_json_cache_create(2);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(parse(&json, heads[0]), 0);
        td_json_free(&json);
        ck_assert_int_eq(td_json_cache_parse(shallow, &json, heads[0], strlen(heads[0]), &problem),
                         -EINVAL);
        td_json_free(&json);
    }
    td_json_cache_destroy(shallow);
}
END_TEST

/* Every text that differs from a known one in one byte, or is cut or longer, has its own outcome.
 */
START_TEST(neighbours)
{
    static const char bytes[] = {'0', '9', '"', '}', ']', ',', ' ', '\\', 'e', '\0', '\xff'};
    for (int i = 0; i < HEADS; i++) {
        size_t length = strlen(heads[i]);
        char text[1024];
        for (size_t at = 0; at < length; at++)
            for (size_t b = 0; b < sizeof bytes; b++) {
                memcpy(text, heads[i], length + 1);
                text[at] = bytes[b];
                check_same(text, length);
                check_same(heads[i], length);
            }
        for (size_t n = 0; n < length + 8; n++) {
            memset(text, ' ', sizeof text);
            memcpy(text, heads[i], length);
            check_same(text, n);
        }
    }
}
END_TEST

/* Data arrays lie in the text, which is another one each time; failures say why each time. */
START_TEST(parsed_each_time)
{
    static const char *const texts[] = {"{\"data\":[1,2]}", "{", "", "{\"a\":\"\\u0000\"}",
                                        "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]"};
    long long hits, misses;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        for (int again = 0; again < 3; again++)
            check_same(texts[i], strlen(texts[i]));
    static char longer[4096];
    memset(longer, ' ', sizeof longer - 1);
    longer[0] = '1';
    check_same(longer, sizeof longer - 1);
    check_same(longer, sizeof longer - 1);
    td_json_cache_counts(cache, &hits, &misses);
    ck_assert_int_eq(hits, 0);
}
END_TEST

/* A tree that lost its place is there until its readers are gone; texts that come once do not
 * drive out one that comes often. */
START_TEST(many_texts)
{
    struct td_json reader, often, json;
    ck_assert_int_eq(parse(&reader, heads[1]), 0);
    ck_assert_int_eq(parse(&often, heads[0]), 0);
    const cJSON *root = often.root;
    td_json_free(&often);
    for (int i = 0; i < 20000; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"id\":\"%d\"}", i);
        ck_assert_int_eq(parse(&json, text), 0);
        ck_assert_int_eq(atoi(cJSON_GetObjectItem(json.root, "id")->valuestring), i);
        td_json_free(&json);
        ck_assert_int_eq(parse(&often, heads[0]), 0);
        ck_assert_ptr_eq(often.root, root);
        td_json_free(&often);
    }
    ck_assert_str_eq(cJSON_GetObjectItem(reader.root, "id")->valuestring, "\xc3\xa9");
    ck_assert_int_eq(parse(&json, heads[1]), 0);
    ck_assert_ptr_ne(json.root, reader.root);
    td_json_free(&json);
    td_json_free(&reader);
}
END_TEST

static void *use(void *arg)
{
    unsigned seed = *(unsigned *)arg;
    for (int i = 0; i < 20000; i++) {
        struct td_json json;
        char text[64];
        int n = (int)(rand_r(&seed) % 200);
        snprintf(text, sizeof text, "{\"n\":%d,\"t\":\"%d\"}", n, n);
        if (parse(&json, text) || cJSON_GetObjectItem(json.root, "n")->valueint != n ||
            atoi(cJSON_GetObjectItem(json.root, "t")->valuestring) != n)
            return arg;
        td_json_free(&json);
    }
    return NULL;
}

START_TEST(threads)
{
    pthread_t thread[4];
    unsigned seed[4] = {1, 2, 3, 4};
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, use, &seed[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("json_cache");
    TCase *tests = tcase_create("json_cache");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, shares);
    tcase_add_test(tests, two_caches);
    tcase_add_test(tests, neighbours);
    tcase_add_test(tests, parsed_each_time);
    tcase_add_test(tests, many_texts);
    tcase_add_test(tests, threads);
    tcase_set_timeout(tests, 120);
    suite_add_tcase(suite, tests);
    return td_run_suite(suite);
}
