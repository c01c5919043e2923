/* kernels/memo.c: what is made once, what is remembered, what is dropped, and by whom. */
#include "kernels/memo.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

struct key {
    int64_t number, kind; /* kind 0: can be made, 1: never, 2: not now */
};

static atomic_int created, destroyed;

static void *create(const void *key, int *error)
{
    const struct key *k = key;
    created++;
    if (k->kind == 2)
        *error = -ENOMEM;
    if (k->kind)
        return NULL;
    int64_t *value = malloc(sizeof *value);
    *value = k->number;
    return value;
}

static void destroy(void *value)
{
    destroyed++;
    free(value);
}

static struct td_memo memo = TD_MEMO(sizeof(struct key), create, destroy);

START_TEST(test_once)
{
    struct key key = {7, 0}, other = {7, 0};
    struct td_memo_item *a = td_memo_get(&memo, &key), *b = td_memo_get(&memo, &other);
    ck_assert_ptr_nonnull(a);
    ck_assert_ptr_eq(a, b);
    ck_assert_int_eq(*(int64_t *)td_memo_value(a), 7);
    ck_assert_int_eq(created, 1);
    td_memo_unref(&a);
    ck_assert_ptr_null(a);
    td_memo_clear(&memo);
    ck_assert_int_eq(destroyed, 0); /* b still holds it */
    ck_assert_int_eq(*(int64_t *)td_memo_value(b), 7);
    td_memo_unref(&b);
    ck_assert_int_eq(destroyed, 1);
    ck_assert_ptr_null(td_memo_find(&memo, &key));
    ck_assert_int_eq(created, 1);
}
END_TEST

START_TEST(test_failures)
{
    struct key never = {1, 1}, not_now = {1, 2};
    for (int i = 0; i < 3; i++) {
        struct td_memo_item *item = td_memo_get(&memo, &never);
        ck_assert_ptr_nonnull(item);
        ck_assert_ptr_null(td_memo_value(item));
        td_memo_unref(&item);
    }
    ck_assert_int_eq(created, 1); /* it is remembered that it cannot be made */
    for (int i = 0; i < 3; i++)
        ck_assert_ptr_null(td_memo_get(&memo, &not_now));
    ck_assert_int_eq(created, 4); /* that it could not be made this time is not */
    td_memo_clear(&memo);
    ck_assert_int_eq(destroyed, 0);
}
END_TEST

START_TEST(test_bound)
{
    const int n = 5 * TD_MEMO_SETS * TD_MEMO_WAYS;
    for (int i = 0; i < n; i++) {
        struct key key = {i, 0};
        struct td_memo_item *item = td_memo_get(&memo, &key);
        ck_assert_int_eq(*(int64_t *)td_memo_value(item), i);
        td_memo_unref(&item);
        item = td_memo_find(&memo, &key); /* the one just made is not the one to go */
        ck_assert_ptr_nonnull(item);
        td_memo_unref(&item);
    }
    ck_assert_int_eq(created, n);
    ck_assert_int_ge(destroyed, n - TD_MEMO_SETS * TD_MEMO_WAYS);
    td_memo_clear(&memo);
    ck_assert_int_eq(destroyed, n);
}
END_TEST

START_TEST(test_put)
{
    struct key key = {7, 1}; /* create could not make it */
    int64_t *first = malloc(sizeof *first), *second = malloc(sizeof *second);
    *first = *second = 7;
    struct td_memo_item *a = td_memo_put(&memo, &key, first);
    ck_assert_ptr_eq(td_memo_value(a), first);
    struct td_memo_item *b = td_memo_put(&memo, &key, second); /* there is one */
    ck_assert_ptr_eq(a, b);
    ck_assert_int_eq(destroyed, 1);
    ck_assert_int_eq(created, 0);
    td_memo_unref(&b);
    b = td_memo_find(&memo, &key);
    ck_assert_ptr_eq(a, b);
    td_memo_unref(&a);
    td_memo_unref(&b);
    td_memo_clear(&memo);
    ck_assert_int_eq(destroyed, 2);
}
END_TEST

static void *many(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 20000; i++) {
        struct key key = {rand_r(&seed) % 3000, 0};
        struct td_memo_item *item = td_memo_get(&memo, &key);
        if (*(int64_t *)td_memo_value(item) != key.number)
            return "wrong value";
        td_memo_unref(&item);
    }
    return NULL;
}

START_TEST(test_threads)
{
    pthread_t thread[4];
    for (uintptr_t i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, many, (void *)(i + 1)), 0);
    for (int i = 0; i < 4; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
    td_memo_clear(&memo);
    ck_assert_int_eq(created, destroyed);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("memo");
    TCase *tcase = tcase_create("memo");
    tcase_add_test(tcase, test_once);
    tcase_add_test(tcase, test_failures);
    tcase_add_test(tcase, test_bound);
    tcase_add_test(tcase, test_put);
    tcase_add_test(tcase, test_threads);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
