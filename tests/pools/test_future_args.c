/* pools/future.c: the kinds of arguments and handles. */
#include "futures_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* A list of inputs that the callee may not change, results by reference, and memory that the copy
 * of the arguments owns. */
struct list {
    const double *const *input; /* n of them, of four numbers each */
    int n;
    double *sum, *product; /* the caller's */
    double *scratch;       /* the future's */
};

static int run_list(void *args, struct td_worker *worker, char *problem, size_t size)
{
    struct list *list = args;
    (void)worker, (void)problem, (void)size;
    for (int k = 0; k < 4; k++) {
        list->sum[k] = 0;
        list->product[k] = 1;
        for (int i = 0; i < list->n; i++) {
            list->scratch[k] = list->input[i][k];
            list->sum[k] += list->scratch[k];
            list->product[k] *= list->scratch[k];
        }
    }
    return list->n;
}

static atomic_int freed;

static void free_list(void *args)
{
    free(((struct list *)args)->scratch);
    atomic_fetch_add(&freed, 1);
}

static void *wait_too(void *arg)
{
    return (void *)(intptr_t)td_test_result(arg);
}

/* RT-22: lists, references, owned arguments, one list for several futures, and copied handles. */
START_TEST(test_argument_kinds)
{
    static const double x[4] = {1, 2, 3, 4}, y[4] = {5, 6, 7, 8};
    const double *const both[] = {x, y, x};
    double sum[6][4], product[6][4];
    struct td_future *future[6];
    pthread_t other[6];
    for (int i = 0; i < 6; i++) {
        struct list list = {both, 1 + i % 3, sum[i], product[i], malloc(4 * sizeof(double))};
        struct td_future_config config = {
            .run = run_list, .args = &list, .args_bytes = sizeof list, .fini = free_list};
        ck_assert_int_eq(td_future_submit(&future[i], i % 2 ? a : b, &config), 0);
        ck_assert_int_eq(pthread_create(&other[i], NULL, wait_too, future[i]), 0);
    }
    for (int i = 0; i < 6; i++) {
        void *told;
        ck_assert_int_eq(td_test_result(future[i]), 1 + i % 3);
        ck_assert_int_eq(pthread_join(other[i], &told), 0);
        ck_assert_int_eq((intptr_t)told, 1 + i % 3);
        for (int k = 0; k < 4; k++) {
            double want_sum = x[k], want_product = x[k];
            for (int j = 1; j <= i % 3; j++) {
                want_sum += both[j][k];
                want_product *= both[j][k];
            }
            ck_assert(sum[i][k] == want_sum && product[i][k] == want_product);
        }
        td_future_unref(future[i]);
    }
    for (int i = 0; i < 20000 && atomic_load(&freed) < 6; i++)
        usleep(1000); /* the queue's reference goes last */
    ck_assert_int_eq(atomic_load(&freed), 6);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("future_args");
    TCase *tcase = tcase_create("future_args");
    tcase_add_checked_fixture(tcase, set_up, tear_down);
    tcase_set_timeout(tcase, 30);
    tcase_add_test(tcase, test_argument_kinds);
    suite_add_tcase(suite, tcase);
    return td_test_run(suite);
}
