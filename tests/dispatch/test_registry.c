/* dispatch/registry/registry.c, table.c, and what calls take from a table: defining operators,
 * registering kernels, and the table that comes of it, which is checked against its definition
 * after each step.
 */
#include "tests/dispatch/dispatch_test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static int boxed_a(struct td_run *run, td_keyset keys)
{
    (void)keys;
    return toy_rule(&run->call);
}

static int boxed_b(struct td_run *run, td_keyset keys)
{
    return boxed_a(run, keys);
}

static const struct td_entry *at(const char *op, enum td_key key)
{
    return &td_handle_table(td_registry_find(op))->entry[td_key_index(key)];
}

/* So, in a registry that is right: which looks at all tables, and is not for every operator. */
static const struct td_entry *entry(const char *op, enum td_key key)
{
    struct td_problem problem;
    ck_assert_msg(!td_registry_check(&problem), "%s", problem.text); /* the invariant */
    return at(op, key);
}

static void expect(const char *op, enum td_key key, td_boxed *boxed, enum td_provenance provenance)
{
    const struct td_entry *e = entry(op, key);
    ck_assert_msg(e->provenance == provenance, "%s: %s", td_key_name(key),
                  td_provenance_name(e->provenance));
    ck_assert(boxed ? e->from && e->from->def.boxed == boxed : true);
}

static struct td_registration *add(const char *op, enum td_key key, td_boxed *boxed)
{
    struct td_kernel_def def = {.key = key, .boxed = boxed, .origin = TD_HERE};
    struct td_registration *r = NULL;
    struct td_problem problem;
    ck_assert_int_eq(td_register(op, &def, &r, &problem), 0);
    ck_assert_ptr_nonnull(r);
    return r;
}

static void define_toy(void)
{
    struct td_problem problem;
    start();
    ck_assert_msg(!td_define(&toy_op, "here:1", &problem), "%s", problem.text);
}

/* DSP-13, DSP-16: a name and its overloads are found; twice is an error that shows both places. */
START_TEST(test_define)
{
    struct td_problem problem;
    define_toy();
    ck_assert_str_eq(td_registry_find("toy")->full, "toy");
    ck_assert_int_eq(td_define(&toy_op, "there:2", &problem), -EEXIST);
    ck_assert_ptr_nonnull(strstr(problem.text, "registered multiple times"));
    ck_assert_ptr_nonnull(strstr(problem.text, "here:1"));
    ck_assert_ptr_nonnull(strstr(problem.text, "there:2"));
    const struct td_handle *add = td_registry_find("add");
    ck_assert_str_eq(add->full, "add.Tensor");
    ck_assert_str_eq(add->next->full, "add.Scalar");
    ck_assert_ptr_eq(td_registry_find("add.Scalar"), add->next);
    ck_assert_ptr_null(td_registry_find("add.nosuch"));
    struct td_op late = toy_op; /* an overload of an operator that is there */
    late.schema = "add.toy(Tensor self, str how) -> Tensor";
    ck_assert_int_eq(td_define(&late, "here:3", &problem), 0);
    ck_assert_str_eq(add->next->next->full, "add.toy");
    late.schema = "wrong(";
    ck_assert_int_eq(td_define(&late, "here:4", &problem), -EINVAL);
    int n = 0, err = 0;
    static struct td_op many[80];
    for (; n < 80 && !err; n++) {
        static char text[80][40];
        snprintf(text[n], sizeof *text, "toy%d(Tensor self) -> Tensor", n);
        many[n] = toy_op;
        many[n].schema = text[n];
        err = td_define(&many[n], "here:5", &problem);
    }
    ck_assert_int_eq(err, -ENOSPC);
    ck_assert_ptr_nonnull(td_registry_find("toy40"));
}
END_TEST

/* DSP-16, DSP-26, DSP-33: a kernel may come before its schema; until then it dangles. */
START_TEST(test_kernel_before_schema)
{
    struct td_problem problem;
    const char *names[4];
    start();
    struct td_registration *r = add("toy", TD_KEY_CPU, boxed_a);
    ck_assert_int_eq(td_registry_dangling(names, 4), 1);
    ck_assert_str_eq(names[0], "toy");
    struct td_run run;
    ck_assert_int_eq(td_run_bind(&run, "toy", NULL, 0, NULL), -ENOENT);
    ck_assert_ptr_nonnull(strstr(run.problem.text, "forgotten to define"));
    ck_assert_int_eq(td_run_bind(&run, "nosuch", NULL, 0, NULL), -ENOENT);
    ck_assert_ptr_null(strstr(run.problem.text, "forgotten"));
    ck_assert_int_eq(td_define(&toy_op, "here:1", &problem), 0);
    ck_assert_int_eq(td_registry_dangling(names, 4), 0);
    expect("toy", TD_KEY_CPU, boxed_a, TD_FROM_kernel);
    td_unregister(&r);
    ck_assert_ptr_null(r);
    expect("toy", TD_KEY_CPU, NULL, TD_FROM_missing);
}
END_TEST

/* DSP-17, JIT-10: a kernel's signature is the operator's, whichever of them came first. */
START_TEST(test_signatures)
{
    struct td_problem problem;
    struct td_kernel_def def = {.key = TD_KEY_CPU,
                                .boxed = boxed_a,
                                .signature = "toy(Tensor x, int n) -> Tensor",
                                .origin = "kernel:9"};
    define_toy();
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), -EINVAL);
    ck_assert_ptr_nonnull(strstr(problem.text, "toy(Tensor x, int n)"));
    ck_assert_ptr_nonnull(strstr(problem.text, toy_op.schema));
    ck_assert_ptr_nonnull(strstr(problem.text, "kernel:9"));
    ck_assert_ptr_nonnull(strstr(problem.text, "here:1"));
    ck_assert_ptr_nonnull(strstr(problem.text, "CPU"));
    expect("toy", TD_KEY_CPU, NULL, TD_FROM_missing);
    def.signature = "toy(Tensor other_name) -> Tensor"; /* names are no part of it */
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), 0);
    def.signature = "later(Tensor x) -> (Tensor, Tensor)";
    ck_assert_int_eq(td_register("later", &def, NULL, &problem), 0);
    struct td_op later = toy_op;
    later.schema = "later(Tensor x) -> Tensor";
    ck_assert_int_eq(td_define(&later, "here:2", &problem), -EINVAL);
    def.signature = "not a schema";
    ck_assert_int_eq(td_register("toy", &def, NULL, &problem), -EINVAL);
}
END_TEST

/* DSP-18, DSP-33: the newest registration counts, with a warning; taking it away brings the older
 * back. */
START_TEST(test_override)
{
    struct td_problem problem;
    define_toy();
    struct td_registration *a = add("toy", TD_KEY_CPU, boxed_a), *b;
    struct td_kernel_def def = {.key = TD_KEY_CPU, .boxed = boxed_b, .origin = "new:7"};
    ck_assert_int_eq(td_register("toy", &def, &b, &problem), 0);
    ck_assert_ptr_nonnull(strstr(problem.text, "new:7"));
    ck_assert_ptr_nonnull(strstr(problem.text, "test_registry.c"));
    expect("toy", TD_KEY_CPU, boxed_b, TD_FROM_kernel);
    td_unregister(&b);
    expect("toy", TD_KEY_CPU, boxed_a, TD_FROM_kernel);
    td_unregister(&a);
    expect("toy", TD_KEY_CPU, NULL, TD_FROM_missing);
}
END_TEST

/* DSP-19: direct, explicit, implicit, autograd, fallback, missing, in this order. */
START_TEST(test_aliases)
{
    define_toy();
    expect("toy", TD_KEY_XLA, NULL, TD_FROM_missing);
    expect("toy", TD_KEY_Meta, NULL, TD_FROM_fallback);
    expect("toy", TD_KEY_AutogradXLA, NULL, TD_FROM_fallback);
    struct td_registration *autograd = add("toy", TD_KEY_Autograd, boxed_b);
    expect("toy", TD_KEY_AutogradXLA, boxed_b, TD_FROM_autograd);
    struct td_registration *math = add("toy", TD_KEY_CompositeImplicitAutograd, boxed_a);
    expect("toy", TD_KEY_XLA, boxed_a, TD_FROM_math);
    expect("toy", TD_KEY_SparseCPU, boxed_a, TD_FROM_math);
    expect("toy", TD_KEY_Undefined, boxed_a, TD_FROM_math);
    expect("toy", TD_KEY_AutogradXLA, boxed_a, TD_FROM_math); /* no kernel behind it */
    expect("toy", TD_KEY_Tracer, NULL, TD_FROM_fallback);     /* not for wrappers */
    struct td_registration *xla = add("toy", TD_KEY_XLA, boxed_b);
    expect("toy", TD_KEY_XLA, boxed_b, TD_FROM_kernel);
    expect("toy", TD_KEY_CPU, boxed_a, TD_FROM_math);
    expect("toy", TD_KEY_AutogradXLA, boxed_b, TD_FROM_autograd); /* there is one now */
    expect("toy", TD_KEY_AutogradOther, boxed_a, TD_FROM_math);
    struct td_registration *blocked = add("toy", TD_KEY_MkldnnCPU, boxed_b);
    expect("toy", TD_KEY_AutogradOther, NULL, TD_FROM_ambiguous);
    struct td_registration *all = add("toy", TD_KEY_CompositeExplicitAutograd, boxed_b);
    expect("toy", TD_KEY_CPU, boxed_b, TD_FROM_default); /* goes before implicit */
    expect("toy", TD_KEY_AutogradCPU, boxed_b, TD_FROM_autograd);
    add("toy", TD_KEY_CompositeExplicitAutogradNonFunctional, boxed_a);
    expect("toy", TD_KEY_CPU, boxed_a, TD_FROM_default);
    td_unregister(&all);
    td_unregister(&blocked);
    td_unregister(&xla);
    td_unregister(&math);
    td_unregister(&autograd);
    expect("toy", TD_KEY_AutogradXLA, NULL, TD_FROM_fallback);
}
END_TEST

/* DSP-20, DSP-39: one fallback a key, for every operator. */
START_TEST(test_fallbacks)
{
    struct td_problem problem;
    struct td_kernel_def def = {
        .key = TD_KEY_TESTING_ONLY_GenericWrapper, .boxed = boxed_a, .origin = "test:1"};
    struct td_registration *r = NULL;
    define_toy();
    expect("toy", def.key, NULL, TD_FROM_missing);
    ck_assert_int_eq(td_register_fallback(&def, &r, &problem), 0);
    ck_assert_int_eq(td_register_fallback(&def, NULL, &problem), -EEXIST);
    ck_assert_ptr_nonnull(strstr(problem.text, "test:1"));
    expect("add.Tensor", def.key, boxed_a, TD_FROM_fallback);
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_entry *e = at(td_registry_at(i)->full, def.key);
        ck_assert(e->provenance == TD_FROM_fallback && e->from->def.boxed == boxed_a);
    }
    td_unregister(&r);
    expect("add.Tensor", def.key, NULL, TD_FROM_missing);
}
END_TEST

static atomic_bool stop;

static void *read_tables(void *arg)
{
    const struct td_handle *handle = td_registry_find("toy");
    long n = 0;
    (void)arg;
    do { /* once at least, however busy the machine */
        const struct td_entry *e = &td_handle_table(handle)->entry[td_key_index(TD_KEY_CPU)];
        if (n++ % 16 == 0) /* a call that has found its kernel, and is held up */
            usleep(50);
        ck_assert(!e->from || e->from->def.boxed == boxed_a || e->from->def.boxed == boxed_b);
    } while (!stop);
    return (void *)n;
}

/* DSP-18: written under a lock, read without one, at the same time. */
START_TEST(test_readers)
{
    pthread_t thread[2];
    define_toy();
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, read_tables, NULL), 0);
    for (int i = 0; i < 500; i++) {
        struct td_registration *a = add("toy", TD_KEY_CPU, boxed_a);
        struct td_registration *b = add("toy", TD_KEY_CPU, boxed_b);
        td_unregister(&a);
        td_unregister(&b);
    }
    stop = true;
    for (int i = 0; i < 2; i++) {
        void *n;
        pthread_join(thread[i], &n);
        ck_assert_ptr_nonnull(n);
    }
    td_registry_fini();
}
END_TEST

/* DSP-22, DSP-33: what the server starts with. Nothing dangles, every operator runs on the CPU, on
 * RefCPU and on Meta, and no table is stale. */
START_TEST(test_built_in)
{
    const char *names[4];
    start();
    ck_assert_int_eq(td_registry_dangling(names, 4), 0);
    for (int i = 0; i < td_registry_count(); i++) {
        const char *op = td_registry_at(i)->full;
        ck_assert_ptr_nonnull(at(op, TD_KEY_CPU)->from->def.rows);
        ck_assert_ptr_nonnull(at(op, TD_KEY_PrivateUse1)->from);
        ck_assert_ptr_nonnull(at(op, TD_KEY_Meta)->from);
        ck_assert(at(op, TD_KEY_AutogradCPU)->fallthrough == !td_derivative_find(op));
    }
    expect("silu", TD_KEY_PrivateUse1, NULL, TD_FROM_math);
    ck_assert(entry("add.Tensor", TD_KEY_AutocastCPU)->fallthrough);
    ck_assert(!entry("linear", TD_KEY_AutocastCPU)->fallthrough);
}
END_TEST

/* Whether the call ends the process at an assert. */
static bool ends_the_process(const struct td_handle *handle, struct td_call *call, enum td_key key)
{
    int status;
    pid_t child = fork();
    if (!child) {
        const struct rlimit none = {0};
        setrlimit(RLIMIT_CORE, &none);
        signal(SIGABRT, SIG_DFL);
        if (!freopen("/dev/null", "w", stderr)) /* the assert's line is not for the log */
            _exit(0);
        td_call_unboxed(handle, call, td_keyset_of(key), NULL);
        _exit(0);
    }
    ck_assert(child > 0 && waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

/* DSP-31: a call of another operator, or with fewer arguments than the schema, is run by no row. */
START_TEST(test_typed_calls)
{
    float x[4] = {1, 2, 3, 4}, out[4];
    start();
    const struct td_handle *mul = td_registry_find("mul.Tensor");
    struct td_value args[2] = {tensor_arg(NULL, x, 4).value, tensor_arg(NULL, x, 4).value};
    struct td_tensor result = tensor_arg(NULL, out, 4).value.tensor;
    struct td_call call = {
        .op = mul->op, .n_args = 2, .arg = args, .n_out = 1, .out = &result, .threads = 1};
    ck_assert(!ends_the_process(mul, &call, TD_KEY_CPU));
    call.n_args = 1;
    ck_assert(ends_the_process(mul, &call, TD_KEY_CPU));
    call.n_args = 2;
    call.op = td_registry_find("div.Tensor")->op; /* the same arguments */
    ck_assert(ends_the_process(mul, &call, TD_KEY_CPU));
    call.op = mul->op;
    ck_assert(ends_the_process(mul, &call, TD_KEY_CUDA)); /* no kernel there */
}
END_TEST

/* Whether a call that b takes is taken by a, whatever it is: also at every level that b runs at. */
static bool covers(const struct td_impl *a, const struct td_impl *b)
{
    static const enum td_isa base[] = {
#define TD_ISA(id, name, base) [TD_ISA_##id] = TD_ISA_##base,
#include "kernels/isa.def"
#undef TD_ISA
    };
    enum td_isa level = b->isa;
    while (level != a->isa && level != TD_ISA_default)
        level = base[level];
    return level == a->isa && a->run != td_impl_absent && !a->prepare && !(b->dtypes & ~a->dtypes);
}

/* DSP-33: no kernel is shadowed by one before it for all of its calls; the reference, which is
 * asked for by name, may be. */
START_TEST(test_rows_can_be_chosen)
{
    start();
    for (int i = 0; i < td_registry_count(); i++) {
        const struct td_handle *h = td_registry_at(i);
        for (const struct td_impl *b = h->op->impls; b->run; b++)
            for (const struct td_impl *a = h->op->impls; a < b && strcmp(b->name, "ref"); a++)
                ck_assert_msg(!covers(a, b), "%s: %s@%s takes all that %s@%s takes", h->full,
                              a->name, td_isa_name(a->isa), b->name, td_isa_name(b->isa));
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_define,      test_kernel_before_schema,
                                  test_signatures,  test_override,
                                  test_aliases,     test_fallbacks,
                                  test_readers,     test_built_in,
                                  test_typed_calls, test_rows_can_be_chosen};
    return td_run_tests("registry", tests, sizeof tests / sizeof *tests);
}
