/* api/names/names.c: names are found, counted and dropped, in the order they came, and one that is
 * near is found among more than are looked at. */
#include "api/names/names.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static struct td_budget budget;
static struct td_names *names;

static void begin(void)
{
    td_budget_init(&budget, NULL, 4 << 20, ENOSPC);
    names = td_names_create(&budget);
    ck_assert_ptr_nonnull(names);
}

static void end(void)
{
    while (td_names_count(names))
        td_names_drop(names, td_names_first(names));
    td_names_destroy(names);
    ck_assert_uint_eq(budget.used, 0);
}

static struct td_name *add(const char *text)
{
    struct td_name *name = NULL;
    ck_assert_int_eq(td_names_add(names, text, &name), 0);
    ck_assert_str_eq(name->text, text);
    ck_assert_uint_eq(name->length, strlen(text));
    ck_assert_ptr_null(name->item);
    return name;
}

START_TEST(test_life)
{
    int item = 0;
    ck_assert_ptr_null(td_names_first(names));
    ck_assert_ptr_null(td_names_find(names, "b"));
    add("b")->item = &item;
    add("a");
    add("b/c");
    ck_assert_int_eq(td_names_count(names), 3);
    struct td_name *b = td_names_find(names, "b");
    ck_assert_ptr_eq(td_names_first(names), b);
    ck_assert_str_eq(td_names_next(b)->text, "a");
    ck_assert_ptr_null(td_names_next(td_names_find(names, "b/c")));
    size_t used = budget.used;
    ck_assert_ptr_eq(td_names_drop(names, b), &item);
    ck_assert_uint_lt(budget.used, used);
    ck_assert_ptr_null(td_names_find(names, "b"));
    ck_assert_ptr_nonnull(td_names_find(names, "b/c"));
}
END_TEST

START_TEST(test_full)
{
    struct td_name *name;
    char text[32];
    int n = 0, err = 0;
    for (; !err; n++) {
        snprintf(text, sizeof text, "name%d", n);
        err = td_names_add(names, text, &name);
    }
    ck_assert_int_eq(err, -ENOSPC);
    ck_assert_int_gt(n, 5000);
    ck_assert_int_eq(td_names_count(names), n - 1);
    ck_assert_ptr_null(td_names_find(names, text));
    ck_assert_ptr_nonnull(td_names_find(names, "name4999"));
}
END_TEST

START_TEST(test_nearest)
{
    struct td_arena *arena = td_arena_create();
    ck_assert_ptr_null(td_names_nearest(names, "classify", arena));
    add("clasify");
    add("detector");
    ck_assert_str_eq(td_names_nearest(names, "classify", arena), "clasify");
    ck_assert_str_eq(td_names_nearest(names, "detecter", arena), "detector");
    ck_assert_ptr_null(td_names_nearest(names, "segment", arena));
    ck_assert_ptr_null(td_names_nearest(names, "", arena));
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("names");
    TCase *tcase = tcase_create("names");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_test(tcase, test_life);
    tcase_add_test(tcase, test_full);
    tcase_add_test(tcase, test_nearest);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
