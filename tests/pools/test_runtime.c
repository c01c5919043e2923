/* pools/machine/runtime.c: when and by whom the OpenMP runtime is looked up. dlsym is this file's
 * own here (the linker wraps it). */
#include "pools_test.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

void *__real_dlsym(void *scope, const char *name); /* NOLINT: the linker's names */
void *__wrap_dlsym(void *scope, const char *name); /* NOLINT */

static atomic_int lookups, elsewhere; /* those on another thread than the main one */
static const char *seen[64];

void *__wrap_dlsym(void *scope, const char *name) /* NOLINT */
{
    int n = atomic_fetch_add(&lookups, 1);
    if (gettid() != getpid())
        atomic_fetch_add(&elsewhere, 1);
    if (n < 64)
        seen[n] = name;
    return __real_dlsym(scope, name);
}

static int use_team(void *args, struct td_worker *worker, char *problem, size_t size)
{
    (void)args, (void)problem, (void)size;
    struct td_scope *scope;
    struct td_runtime_facts facts;
    int error = td_scope_enter(td_worker_pool(worker), &scope);
#ifdef _OPENMP
#pragma omp parallel
    td_now_ns();
#endif
    td_runtime_facts(&facts);
    return error ? error : td_scope_leave(scope);
}

/* RT-13: symbols are looked up once, by the main thread, before there are workers. */
START_TEST(test_looked_up_by_main)
{
    struct td_machine machine;
    td_machine_init(&machine, NULL);
    int before = atomic_load(&lookups);
    ck_assert_int_gt(before, 0);
    for (int i = 0; i < before && i < 64; i++)
        for (int k = 0; k < i; k++)
            ck_assert_msg(strcmp(seen[i], seen[k]), "%s was looked up twice", seen[i]);
    struct td_pool *pool = td_machine_pool(&machine, "a=");
    for (int i = 0; i < 8; i++) {
        struct td_future *future = td_test_submit(pool, use_team, NULL, 0);
        ck_assert_int_eq(td_test_result(future), 0);
        td_future_unref(future);
    }
    ck_assert_int_eq(atomic_load(&lookups), before);
    ck_assert_int_eq(atomic_load(&elsewhere), 0);
    td_pool_unref(pool);
    td_machine_fini(&machine);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("runtime");
    TCase *tcase = tcase_create("runtime");
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_looked_up_by_main);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
