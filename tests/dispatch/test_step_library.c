/* dispatch/step/step.h, where a library runs: stored tensors, which it packs, and primitives, which
 * it forgets while steps hold them. */
#include "dispatch_test.h"
#include "kernels/onednn/onednn.h"
#include "kernels/weight.h"
#include "tests/dispatch/step_test.h"

#include <pthread.h>

/* As it is, and as autocast converts it; by the library, whose memo forgets all meanwhile. */
START_TEST(test_stored)
{
    static float x[2][2 * 32], w[16 * 32];
    struct td_weight *weight;
    struct td_run run;
    start();
    arena = td_arena_create();
    for (int i = 0; i < 16 * 32; i++)
        w[i] = (float)(i % 13 - 6) / 8;
    for (int i = 0; i < 128; i++)
        x[i / 64][i % 64] = (float)(i % 11 - 5);
    struct td_tensor plain = {w, TD_f32, 2, {16, 32}, NULL};
    ck_assert_int_eq(td_weight_create(&weight, &plain, NULL), 0);
    struct td_named args[] = {tensor_arg("input", x[0], 0), tensor_arg("weight", NULL, 0)};
    args[0].value.tensor = (struct td_tensor){x[0], TD_f32, 2, {2, 32}, NULL};
    args[1].value.tensor = *td_weight_tensor(weight);
    for (int cast = 0; cast < 2; cast++) {
        struct td_options casting = options;
        casting.autocast = cast ? TD_bf16 : TD_DTYPE_none;
        args[0].keys = td_keyset_of(TD_KEY_CPU) | (cast ? td_keyset_of(TD_KEY_AutocastCPU) : 0);
        ck_assert_int_eq(td_run_bind(&run, "linear", args, 2, &casting), 0);
        ck_assert_int_eq(run.n_casts, 2 * cast);
        run.forced = cast ? NULL : "onednn";
        struct td_step *step = step_of(&run);
        td_onednn_forget();
        for (int i = 0; i < 2; i++) {
            const struct td_tensor *got = td_step_result(step, 0);
            td_step_set_input(step, 0, -1, x[i]);
            td_step_set_result(step, 0, td_arena_alloc(arena, td_nbytes(got) + 64));
            execute_step(step);
            td_run_set_input(&run, 0, x[i]);
            run.call.out[0].data = td_arena_alloc(arena, td_nbytes(got) + 64);
            select_and_run(&run);
            td_run_release(&run);
            same(&run, step, "linear");
        }
        td_step_release(&step);
    }
    td_weight_unref(&weight);
    td_onednn_forget();
    td_arena_destroy(arena);
}
END_TEST

struct caller {
    pthread_t thread;
    struct td_step *step;
    float out[2 * 16];
    void *scratch;
    int failed;
};

static void *run_often(void *arg)
{
    struct caller *c = arg;
    for (int i = 0; i < 100; i++)
        c->failed += td_step_execute(c->step, c->scratch, NULL) != 0;
    return NULL;
}

/* Steps of one call, a thread each, hold one primitive, which is forgotten meanwhile. */
START_TEST(test_threads)
{
    static float x[2 * 32], w[16 * 32];
    struct caller caller[4] = {0};
    struct td_run run;
    size_t bytes;
    start();
    arena = td_arena_create();
    for (int i = 0; i < 16 * 32; i++)
        w[i] = x[i % 64] = (float)(i % 13 - 6);
    struct td_named args[] = {tensor_arg("input", x, 0), tensor_arg("weight", w, 0)};
    args[0].value.tensor = (struct td_tensor){x, TD_f32, 2, {2, 32}, NULL};
    args[1].value.tensor = (struct td_tensor){w, TD_f32, 2, {16, 32}, NULL};
    ck_assert_int_eq(td_run_bind(&run, "linear", args, 2, &options), 0);
    run.forced = "onednn";
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    for (int i = 0; i < 4; i++) {
        ck_assert_int_eq(td_step_make(&caller[i].step, &run, take, NULL), 0);
        td_step_set_result(caller[i].step, 0, caller[i].out);
        caller[i].scratch = td_arena_alloc(arena, bytes + 64);
    }
    td_run_release(&run);
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&caller[i].thread, NULL, run_often, &caller[i]), 0);
    td_onednn_forget();
    for (int i = 0; i < 4; i++) {
        pthread_join(caller[i].thread, NULL);
        ck_assert_int_eq(caller[i].failed, 0);
        ck_assert_mem_eq(caller[i].out, caller[0].out, sizeof caller[i].out);
        td_step_release(&caller[i].step);
    }
    ck_assert_float_ne(caller[0].out[31], 0);
    td_arena_destroy(arena);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_stored, test_threads};
    return td_run_tests("step_library", tests, sizeof tests / sizeof *tests);
}
