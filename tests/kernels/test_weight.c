/* kernels/weight.c: ownership, and packed forms that are made once. */
#include "kernels/weight.h"
#include "tests/run_tests.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#define PAGE 4096
#define LARGE ((size_t)1 << 20)

static struct td_weight *make(const float *data)
{
    struct td_tensor like = {.data = (void *)data, .dtype = TD_f32, .rank = 2, .shape = {3, 5}};
    struct td_weight *w = NULL;
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    return w;
}

START_TEST(test_data)
{
    float data[15];
    for (int i = 0; i < 15; i++)
        data[i] = (float)i;
    struct td_weight *w = make(data), *zero = make(NULL);
    const struct td_tensor *t = td_weight_tensor(w);
    ck_assert_ptr_ne(t->data, data);
    ck_assert_int_eq((uintptr_t)t->data % 64, 0);
    ck_assert(!memcmp(t->data, data, sizeof data));
    for (int i = 0; i < 15; i++)
        ck_assert(((float *)td_weight_tensor(zero)->data)[i] == 0);
    volatile char beyond = ((char *)t->data)[sizeof data + 63]; /* allowed: the sanitizer says so */
    (void)beyond;
    ck_assert_ptr_eq(t->weight, w);
    struct td_weight *second = td_weight_ref(w);
    td_weight_unref(&w);
    ck_assert_ptr_null(w);
    ck_assert(!memcmp(td_weight_tensor(second)->data, data, sizeof data));
    td_weight_unref(&second);
    td_weight_unref(&second); /* NULL is fine */
    td_weight_unref(&zero);
}
END_TEST

/* The address sanitizer ends the process where malloc gives NULL, unless told otherwise. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

START_TEST(test_empty)
{
    struct td_tensor like = {.dtype = TD_f32, .rank = 2, .shape = {0, 5}};
    struct td_weight *w;
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    ck_assert_ptr_nonnull(td_weight_tensor(w)->data);
    td_weight_unref(&w);
    like.shape[0] = INT64_MAX / 40; /* more than there is */
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), -ENOMEM);
}
END_TEST

START_TEST(test_views)
{
    struct td_weight *w = make(NULL);
    struct td_tensor view = *td_weight_tensor(w);
    ck_assert_ptr_eq(td_weight_of(&view), w);
    view.rank = 1, view.shape[0] = 15; /* all of it in another shape */
    ck_assert_ptr_eq(td_weight_of(&view), w);
    view.shape[0] = 10; /* a part */
    ck_assert_ptr_null(td_weight_of(&view));
    view = *td_weight_tensor(w);
    view.dtype = TD_i32;
    ck_assert_ptr_null(td_weight_of(&view));
    view = *td_weight_tensor(w);
    view.data = NULL; /* converted, its data not there yet */
    ck_assert_ptr_null(td_weight_of(&view));
    td_weight_unref(&w);
}
END_TEST

static atomic_int filled;
static int fill_result;

static int fill(void *packed, const struct td_tensor *plain, void *arg)
{
    filled++;
    memset(packed, *(char *)arg, 100);
    return plain->shape[1] == 5 ? fill_result : -EINVAL;
}

START_TEST(test_pack)
{
    struct td_weight *w = make(NULL);
    ck_assert_ptr_null(td_weight_forms(w));
    const char *a = td_weight_pack(w, "key", 3, "first", 100, fill, "a", NULL);
    ck_assert_ptr_nonnull(a);
    ck_assert_int_eq((uintptr_t)a % 64, 0);
    ck_assert(a[0] == 'a' && a[99] == 'a');
    ck_assert_ptr_eq(td_weight_pack(w, "key", 3, "first", 100, fill, "x", NULL), a);
    ck_assert_int_eq(filled, 1);
    const char *b = td_weight_pack(w, "keys", 4, "second", 200, fill, "b", NULL);
    ck_assert_ptr_ne(a, b);
    ck_assert_int_eq(b[150], 0);
    const struct td_weight_form *form = td_weight_forms(w);
    ck_assert_str_eq(form->name, "second");
    ck_assert_uint_eq(form->bytes, 200);
    ck_assert_ptr_eq(form->data, b);
    ck_assert_str_eq(form->next->name, "first");
    ck_assert_ptr_null(form->next->next);
    td_weight_unref(&w);
}
END_TEST

/* Whether all whole pages of so many bytes are there. */
static bool has_pages(const void *data, size_t bytes)
{
    static unsigned char there[LARGE / PAGE];
    uintptr_t from = ((uintptr_t)data + PAGE - 1) / PAGE * PAGE;
    bool all = true;
    ck_assert_int_eq(mincore((void *)from, bytes - PAGE, there), 0);
    for (size_t i = 0; i < bytes / PAGE - 1; i++)
        all = all && there[i] & 1;
    return all;
}

/* A large block's pages are there before it is written, and a larger one can have large pages. */
START_TEST(test_pages)
{
    struct td_tensor like = {.dtype = TD_f32, .rank = 1, .shape = {LARGE / 2}};
    struct td_weight *w = NULL;
    void *other = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bool at_once = !madvise(other, LARGE, MADV_POPULATE_WRITE); /* since Linux 5.14 */
    munmap(other, LARGE);
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    ck_assert_uint_eq((uintptr_t)td_weight_tensor(w)->data % ((size_t)2 << 20), 0);
    const struct td_tensor *unwritten = td_weight_tensor(td_weight_as(w, TD_bf16));
    ck_assert(has_pages(unwritten->data, LARGE) || !at_once);
    td_weight_unref(&w);
}
END_TEST

START_TEST(test_pack_fails)
{
    struct td_weight *w = make(NULL);
    fill_result = -EIO;
    ck_assert_ptr_null(td_weight_pack(w, "key", 3, "form", 100, fill, "a", NULL));
    ck_assert_ptr_null(td_weight_forms(w));
    ck_assert_ptr_null(td_weight_pack(w, "key", 3, "form", SIZE_MAX - 3, fill, "a", NULL));
    ck_assert_int_eq(filled, 1);
    fill_result = 0;
    ck_assert_ptr_nonnull(td_weight_pack(w, "key", 3, "form", 100, fill, "a", NULL));
    td_weight_unref(&w);
}
END_TEST

static void *pack_many(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        char key = (char)(i % 10);
        const char *form = td_weight_pack(arg, &key, 1, "form", 100, fill, &key, NULL);
        if (!form || form[99] != key)
            return "wrong form";
    }
    return NULL;
}

START_TEST(test_threads)
{
    struct td_weight *w = make(NULL);
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, pack_many, w), 0);
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
    ck_assert_int_eq(filled, 10);
    td_weight_unref(&w);
}
END_TEST

static int halve(void *out, const struct td_tensor *from, void *arg)
{
    filled++;
    for (int i = 0; i < 15; i++)
        ((int16_t *)out)[i] = (int16_t)(((float *)from->data)[i] / *(float *)arg);
    return fill_result;
}

static void *convert_one(void *arg)
{
    float two = 2;
    struct td_weight *as = td_weight_as(arg, TD_i16);
    if (!as || td_weight_convert(as, halve, &two))
        return "not converted";
    return ((int16_t *)td_weight_tensor(as)->data)[14] == 7 ? NULL : "wrong elements";
}

START_TEST(test_as)
{
    float data[15], two = 2;
    for (int i = 0; i < 15; i++)
        data[i] = (float)i;
    struct td_weight *w = make(data), *as = td_weight_as(w, TD_i16);
    const struct td_tensor *view = td_weight_tensor(as);
    ck_assert_int_eq(view->dtype, TD_i16);
    ck_assert_int_eq(view->shape[1], 5);
    ck_assert_ptr_eq(td_weight_of(view), as);
    ck_assert_int_eq(filled, 0); /* not yet */
    fill_result = -EIO;
    ck_assert_int_eq(td_weight_convert(as, halve, &two), -EIO);
    fill_result = 0;
    pthread_t thread[8];
    for (int i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, convert_one, w), 0);
    for (int i = 0; i < 8; i++) {
        void *wrong;
        pthread_join(thread[i], &wrong);
        ck_assert_msg(!wrong, "%s", (char *)wrong);
    }
    ck_assert_int_eq(filled, 2); /* the failure, and once */
    ck_assert_ptr_nonnull(td_weight_pack(as, "key", 3, "its own", 100, fill, "a", NULL));
    const struct td_weight_form *form = td_weight_forms(w);
    ck_assert_str_eq(form->name, "INT16");
    ck_assert_uint_eq(form->bytes, 30);
    ck_assert_ptr_eq(form->weight, as);
    ck_assert_ptr_null(form->next);
    ck_assert_str_eq(td_weight_forms(as)->name, "its own");
    td_weight_unref(&w); /* and all of that */
}
END_TEST

START_TEST(test_on)
{
    float data[15] = {1, 2, 3};
    struct td_weight *w = make(data), *here = td_weight_on(w, 1);
    ck_assert_ptr_ne(here, w);
    ck_assert_ptr_eq(td_weight_on(w, 1), here);
    ck_assert_ptr_eq(td_weight_on(here, 1), here);
    ck_assert_ptr_ne(td_weight_on(w, 0), here);
    const struct td_tensor *view = td_weight_tensor(here);
    ck_assert_ptr_eq(td_weight_of(view), here);
    ck_assert(!memcmp(view->data, data, sizeof data));
    ck_assert_str_eq(td_weight_forms(w)->name, "node 0");
    ck_assert_str_eq(td_weight_forms(w)->next->name, "node 1");
    td_weight_unref(&w);
    w = make(data);
    td_weight_set_home(w, 1);
    ck_assert_ptr_eq(td_weight_on(w, 1), w);
    ck_assert_ptr_null(td_weight_forms(w));
    td_weight_unref(&w);
}
END_TEST

/* ---- what it takes ---- */

struct room {
    struct td_weight_room room;
    size_t used, limit;
};

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    struct room *r = (struct room *)room;
    if (bytes > r->limit - r->used)
        return kept ? -ENOSPC : -ENOMEM;
    r->used += bytes;
    return 0;
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    (void)kept;
    ((struct room *)room)->used -= bytes;
}

START_TEST(test_room)
{
    struct room r = {{take, give}, 0, 5000};
    struct td_tensor like = {.dtype = TD_f32, .rank = 2, .shape = {100, 5}};
    struct td_weight *w, *second;
    struct td_weight_room *room = &r.room;
    ck_assert_int_eq(td_weight_create(&w, &like, room), 0);
    ck_assert_uint_ge(r.used, 2000);
    ck_assert_uint_eq(r.used, td_weight_bytes(w));
    ck_assert_ptr_nonnull(td_weight_pack(w, "key", 3, "form", 100, fill, "a", NULL));
    ck_assert_ptr_nonnull(td_weight_as(w, TD_i16)); /* 1000 bytes */
    ck_assert_uint_ge(r.used, 3100);
    ck_assert_uint_eq(r.used, td_weight_bytes(w));
    size_t used = r.used;
    ck_assert_int_eq(td_weight_create(&second, &like, room), -ENOSPC);
    ck_assert_ptr_null(td_weight_pack(w, "keys", 4, "form", 3000, fill, "a", NULL));
    ck_assert_ptr_null(td_weight_as(w, TD_f64));
    ck_assert_ptr_null(td_weight_on(w, 1));
    ck_assert_ptr_null(td_weight_pack_once(w, 3000, fill, "a"));
    fill_result = -EIO;
    ck_assert_ptr_null(td_weight_pack(w, "keys", 4, "form", 100, fill, "x", NULL));
    ck_assert_ptr_null(td_weight_pack_once(w, 100, fill, "x"));
    fill_result = 0;
    ck_assert_uint_eq(r.used, used);
    char *once = td_weight_pack_once(w, 100, fill, "b");
    ck_assert_ptr_nonnull(once);
    ck_assert(once[0] == 'b');
    ck_assert_uint_gt(r.used, used);
    td_weight_unpack(w, once, 100);
    td_weight_unpack(w, NULL, 100);
    ck_assert_uint_eq(r.used, used);
    td_weight_unref(&w);
    ck_assert_uint_eq(r.used, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("weight");
    TCase *tcase = tcase_create("weight");
    tcase_add_test(tcase, test_data);
    tcase_add_test(tcase, test_empty);
    tcase_add_test(tcase, test_views);
    tcase_add_test(tcase, test_pack);
    tcase_add_test(tcase, test_pages);
    tcase_add_test(tcase, test_pack_fails);
    tcase_add_test(tcase, test_threads);
    tcase_add_test(tcase, test_as);
    tcase_add_test(tcase, test_on);
    tcase_add_test(tcase, test_room);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
