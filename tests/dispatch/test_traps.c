/* Kernels that trap (kernels/trap.h), in earnest: each of the four signals, alone and in a
 * team, in rows that are called, fused, packed under a lock; what is left behind; and what still
 * ends the process. */
#include "dispatch_test.h"

#include "dispatch/step/step.h"
#include "kernels/loops/fused.h"
#include "kernels/trap.h"
#include "kernels/weight.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

enum way { NOT, BY_SEGV, BY_BUS, BY_ILL, BY_FPE, BY_STACK };
static enum way way;
static int64_t culprit;  /* the element whose part traps */
static atomic_int parts; /* that came to their end */
static char *no_page;    /* of which nothing may be touched */
static struct td_trapped last;
static int told;

static volatile int deep;

/* Without end, on the stack. */
__attribute__((noinline)) static int descend(int n)
{
    volatile char room[4096];
    room[0] = (char)n;
    return deep ? descend(n + 1) + room[0] : 0;
}

static void trap(void)
{
    switch (way) {
    case BY_SEGV:
    case BY_BUS:
        *(volatile char *)no_page = 1;
        break;
    case BY_ILL:
        __asm__ volatile("ud2");
        break;
    case BY_FPE: /* by hand: a sanitizer would look at a division */
        __asm__ volatile("xorl %%ecx, %%ecx\n\tmovl $1, %%eax\n\tcltd\n\tidivl %%ecx" ::
                             : "eax", "ecx", "edx");
        break;
    case BY_STACK:
        deep = 1;
        descend(0);
        break;
    case NOT:
        break;
    }
}

static void part(void *arg, int64_t begin, int64_t end)
{
    const struct td_call *call = arg;
    const float *in = call->arg[0].tensor.data;
    float *out = call->out[0].data;
    if (begin <= culprit && culprit < end)
        trap();
    for (int64_t i = begin; i < end; i++)
        out[i] = 2 * in[i];
    atomic_fetch_add(&parts, 1);
}

static void trapping_run(const struct td_call *call)
{
    td_parallel(call->threads, td_numel(&call->out[0]), 1, part, (void *)call);
    toy_ran += 100;
}

static const struct td_impl rows[] = {{.name = "own", .run = trapping_run, .dtypes = TD_f32},
                                      {.name = "ref", .run = toy_run, .dtypes = TD_ALL},
                                      {0}};
static const struct td_op op = {
    .schema = "toy(Tensor self) -> Tensor", .rule = toy_rule, .dtypes = TD_ALL, .impls = rows};

static void tell(const struct td_trapped *trapped)
{
    last = *trapped;
    told++;
}

static void begin(void)
{
    struct td_problem problem;
    no_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(no_page, MAP_FAILED);
    if (way == BY_BUS) { /* a file's page beyond its end */
        FILE *file = tmpfile();
        no_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        ck_assert_ptr_ne(no_page, MAP_FAILED);
    }
    td_trap_catch(true, tell, NULL);
    start();
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    ck_assert_int_eq(td_define(&op, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), 0);
}

static float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];

static int call(struct td_run *run, int threads, const char *kernel)
{
    struct td_named args[] = {tensor_arg("self", x, 8)};
    ck_assert_int_eq(bind(run, "toy", args, 1, NULL), 0);
    run->call.threads = threads;
    run->forced = kernel;
    size_t bytes;
    int err = td_run_select(run, &bytes);
    if (err)
        return err;
    run->call.out[0].data = y;
    td_run_execute(run, NULL);
    td_run_release(run);
    return run->error;
}

static const char *const names[] = {"", "SIGSEGV", "SIGBUS", "SIGILL", "SIGFPE", "SIGSEGV"};

static void check_trapped(const struct td_run *run)
{
    char text[80];
    snprintf(text, sizeof text, "toy: the kernel own@DEFAULT has failed (%s); ", names[way]);
    ck_assert_msg(!strncmp(run->problem.text, text, strlen(text)), "%s", run->problem.text);
    ck_assert_int_eq(told, 1);
    ck_assert_str_eq(last.signal, names[way]);
    ck_assert_ptr_eq(last.impl, &rows[0]);
    ck_assert(last.barred);
    ck_assert(td_numel(&last.call->arg[0].tensor) == 8);
    if (way == BY_SEGV || way == BY_BUS)
        ck_assert_ptr_eq(last.address, no_page);
    ck_assert_int_eq(toy_ran, 0); /* it was left */
    ck_assert_ptr_null(td_net_now);
}

/* The row is passed over, says why, and its reference serves. */
static void check_barred(int threads)
{
    struct td_run run;
    struct td_trap_count count;
    char why[80];
    snprintf(why, sizeof why, "it has trapped (%s) in this process", names[way]);
    ck_assert_int_eq(call(&run, threads, "own"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(run.problem.text, why));
    ck_assert_int_eq(call(&run, threads, NULL), 0);
    ck_assert_ptr_eq(run.impl, &rows[1]);
    ck_assert_float_eq(y[7], 16);
    struct td_why candidates[4];
    ck_assert_int_eq(td_run_explain(&run, candidates, 4), 2);
    ck_assert_str_eq(candidates[0].reason, why);
    ck_assert_str_eq(candidates[1].reason, "chosen");
    ck_assert_str_eq(td_trap_bars(&op, &rows[0]), why);
    ck_assert_ptr_null(td_trap_bars(&toy_op, &rows[0])); /* another operator that has it, too */
    ck_assert(td_trap_at(0, &count) && !td_trap_at(1, &count));
    ck_assert_int_eq(count.n, 1);
    ck_assert_int_eq(told, 1);
}

/* i: the signal, and whether it is the caller, another member, or one that is alone. */
START_TEST(test_signals)
{
    struct td_run run;
    int threads = _i % 3 ? 2 : 1;
    way = 1 + _i / 3;
    culprit = _i % 3 == 2 ? 7 : 0;
    begin();
    ck_assert_int_eq(call(&run, threads, NULL), -EFAULT);
    check_trapped(&run);
    ck_assert_int_eq(atomic_load(&parts), threads - 1); /* the barrier was reached by all */
    way = way == BY_STACK ? BY_SEGV : way;
    check_barred(threads);
}
END_TEST

/* The last row there is stays in use, whatever it does. */
START_TEST(test_reference)
{
    struct td_run run;
    struct td_trap_count count;
    static const struct td_impl only[] = {{.name = "ref", .run = trapping_run, .dtypes = TD_ALL},
                                          {0}};
    static struct td_op other;
    struct td_problem problem;
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = only, .origin = TD_HERE};
    struct td_named args[] = {tensor_arg("self", x, 8)};
    way = BY_FPE;
    begin();
    other = op;
    other.schema = "only(Tensor self) -> Tensor";
    other.impls = only;
    ck_assert_int_eq(td_define(&other, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("only", &def, NULL, &problem), 0);
    for (int i = 0; i < 3; i++) {
        way = i < 2 ? BY_FPE : NOT;
        ck_assert_int_eq(bind(&run, "only", args, 1, NULL), 0);
        execute(&run, y);
        ck_assert_int_eq(run.error, i < 2 ? -EFAULT : 0);
    }
    ck_assert(!last.barred);
    ck_assert(td_trap_at(0, &count));
    ck_assert_int_eq(count.n, 2);
    ck_assert_uint_eq(atomic_load(&td_traps_barred), 0);
}
END_TEST

static int bad_check(const struct td_call *call)
{
    (void)call;
    trap();
    return 0;
}

/* What judges the data may trap, too: that is no row's fault. */
START_TEST(test_check)
{
    struct td_run run;
    struct td_problem problem;
    static struct td_op other;
    struct td_kernel_def def = {.key = TD_KEY_CPU, .rows = rows, .origin = TD_HERE};
    struct td_named args[] = {tensor_arg("self", x, 8)};
    way = BY_SEGV;
    begin();
    other = op;
    other.schema = "checked(Tensor self) -> Tensor";
    other.check = bad_check;
    ck_assert_int_eq(td_define(&other, "here:1", &problem), 0);
    ck_assert_int_eq(td_register("checked", &def, NULL, &problem), 0);
    ck_assert_int_eq(bind(&run, "checked", args, 1, NULL), 0);
    execute(&run, y);
    ck_assert_int_eq(run.error, -EFAULT);
    ck_assert_str_eq(run.problem.text, "checked: its look at the data has failed (SIGSEGV)");
    ck_assert_ptr_null(last.impl);
    ck_assert_ptr_null(td_trap_bars(&other, &rows[0]));
}
END_TEST

/* A step that is kept does not run a row that has trapped since. */
START_TEST(test_kept_step)
{
    struct td_run run;
    struct td_step *step;
    struct td_problem problem;
    struct td_named args[] = {tensor_arg("self", x, 8)};
    size_t bytes;
    way = NOT;
    begin();
    ck_assert_int_eq(bind(&run, "toy", args, 1, NULL), 0);
    run.call.threads = 1;
    ck_assert_int_eq(td_run_select(&run, &bytes), 0);
    ck_assert_int_eq(td_step_make(&step, &run, heap, NULL), 0);
    td_run_release(&run);
    td_step_set_input(step, 0, -1, x);
    td_step_set_result(step, 0, y);
    ck_assert_int_eq(td_step_execute(step, NULL, &problem), 0);
    way = BY_ILL;
    ck_assert_int_eq(call(&run, 1, NULL), -EFAULT);
    way = NOT;
    toy_ran = 0;
    ck_assert_int_eq(td_step_execute(step, NULL, &problem), -EFAULT);
    ck_assert_ptr_nonnull(strstr(problem.text, "it has trapped (SIGILL) in this process since"));
    ck_assert_int_eq(toy_ran, 0);
    ck_assert_int_eq(told, 1);
    td_step_release(&step);
}
END_TEST

static int fill_badly(void *packed, const struct td_tensor *plain, void *arg)
{
    (void)plain;
    (void)arg;
    trap();
    memset(packed, 1, 32);
    return 0;
}

static void pack(void *arg)
{
    struct td_weight *w = arg;
    const char *form = td_weight_pack(w, "key", 3, "a form", 32, fill_badly, NULL, NULL);
    ck_assert_int_eq(form[31], 1);
}

/* A row that packs a stored tensor holds its lock: that is given back. */
START_TEST(test_packing)
{
    struct td_weight *w;
    struct td_tensor like = tensor_arg("w", x, 8).value.tensor;
    struct td_named args[] = {tensor_arg("self", x, 8)};
    struct td_run run;
    struct td_problem problem;
    way = BY_SEGV;
    begin();
    ck_assert_int_eq(bind(&run, "toy", args, 1, NULL), 0);
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    ck_assert_int_eq(td_trap_run(&rows[0], &run.call, pack, w, &problem), -EFAULT);
    ck_assert_ptr_null(td_weight_forms(w));
    way = NOT;
    ck_assert_int_eq(td_trap_run(&rows[1], &run.call, pack, w, &problem), 0);
    td_weight_unref(&w);
}
END_TEST

static void library_run(const struct td_call *call)
{
    (void)call;
    trap();
}

static void say_last(const struct td_trapped *trapped)
{
    if (!strcmp(trapped->signal, "SIGILL"))
        (void)!write(2, "last words\n", 11);
}

/* Ends the process: a library's row, a kernel where that was asked for, and what is no kernel. */
START_TEST(test_ends)
{
    static const struct td_impl library = {.name = "library", .run = library_run, .library = true};
    struct td_named args[] = {tensor_arg("self", x, 8)};
    struct td_run run;
    way = BY_ILL;
    begin();
    ck_assert_int_eq(bind(&run, "toy", args, 1, NULL), 0);
    td_trap_catch(_i != 1, tell, say_last);
    if (_i == 0)
        td_impl_run(&library, &run.call);
    else if (_i == 1)
        call(&run, 1, NULL);
    else
        trap();
}
END_TEST

/* A signal that somebody sends is not the kernel's. */
static void sent_run(const struct td_call *call)
{
    (void)call;
    raise(SIGFPE);
}

START_TEST(test_sent)
{
    static const struct td_impl impl[] = {{.name = "own", .run = sent_run}, {0}};
    struct td_named args[] = {tensor_arg("self", x, 8)};
    struct td_run run;
    signal(SIGFPE, SIG_DFL); /* a sanitizer has a handler, to which it would belong */
    begin();
    ck_assert_int_eq(bind(&run, "toy", args, 1, NULL), 0);
    td_impl_run(impl, &run.call);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("traps");
    TCase *tcase = tcase_create("traps");
    tcase_set_timeout(tcase, 120);
    tcase_add_loop_test(tcase, test_signals, 0, 3 * BY_STACK - 1);
    tcase_add_test(tcase, test_reference);
    tcase_add_test(tcase, test_check);
    tcase_add_test(tcase, test_kept_step);
    tcase_add_test(tcase, test_packing);
    tcase_add_loop_test_raise_signal(tcase, test_ends, SIGILL, 0, 3);
    tcase_add_test_raise_signal(tcase, test_sent, SIGFPE);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
