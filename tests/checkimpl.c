/* Every implementation of every operator, at every level that this CPU can run, against the
 * reference: on the operator's sample patterns in awkward sizes, on plain and special values, with
 * one thread and two. The bound is the descriptor's. Tensors end at an unreadable page; a row that
 * crashes is named. Rows of levels that this CPU lacks are listed as not run.
 *
 * This is how levels are held to each other: all of them to one reference (ISA-37, ISA-20, DSP-34).
 *
 *   checkimpl [--seed N] [--op NAME] [--impl NAME[@LEVEL]] [--list] [--bench]
 *
 * NAME matches the beginning: --op add takes both overloads. */
#include "kernels/elementwise.h"
#include "tests/sample.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__ /* slow, and the tails are tried without it, before an unreadable page \
                             */
static const int64_t sizes[] = {0, 1, 17, 33, 255, 40000};
#else
static const int64_t sizes[] = {0, 1, 7, 15, 16, 17, 31, 33, 100, 255, 40000};
#endif
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))
#define BIG 40000 /* for n alone, and shared by two threads */
#define SHOWN 5   /* failures that are told of a row; the rest are counted */

struct row { /* one row of a table, and what was seen of it */
    const struct td_handle *handle;
    const struct td_impl *impl;
    char name[160];
    double worst;
    int calls, failures;
};

struct input {
    const char *pattern;
    struct sizes sizes;
    enum td_dtype dtype;
    enum sample_values values;
    int threads;
};

static uint64_t seed;
static sigjmp_buf crash;
static volatile bool armed; /* crash leads back into judge() */
static char current[400];   /* what runs, for the signal handler */

/* Back to judge(), unless a team was at work: its other threads cannot be stopped. */
static void on_signal(int number)
{
    bool alone = strstr(current, "threads 1") && getpid() == (pid_t)syscall(SYS_gettid);
    const char *what = number == SIGILL ? "not ok - SIGILL in " : "not ok - crash in ";
    (void)!write(1, what, strlen(what));
    (void)!write(1, current, strlen(current));
    (void)!write(1, "\n", 1);
    if (!alone || !armed)
        _exit(1);
    siglongjmp(crash, 1);
}

static const struct td_impl *reference(const struct td_op *op)
{
    const struct td_impl *i = op->impls;
    while (i[1].run)
        i++;
    return i;
}

/* The distance between neighbours at x in a type; for integers 1. */
static double unit(enum td_dtype dtype, double x)
{
    static const struct {
        enum td_dtype dtype;
        int digits, least;
    } types[] = {{TD_f16, 11, -24}, {TD_bf16, 8, -133}, {TD_f32, 24, -149}, {TD_f64, 53, -1074}};
    for (int i = 0; i < 4; i++)
        if (types[i].dtype == dtype) {
            int e = -2000;
            if (x != 0 && isfinite(x))
                frexp(x, &e);
            return ldexp(1, (int)fmax(e - types[i].digits, types[i].least));
        }
    return 1;
}

/* How far a is from b, in units at scale. Equal infinities and two NaNs are at no distance. */
static double apart(enum td_dtype dtype, double a, double b, double scale)
{
    if (a == b || (isnan(a) && isnan(b)))
        return 0;
    return isfinite(a) && isfinite(b) ? fabs(a - b) / unit(dtype, fmax(fabs(b), scale)) : INFINITY;
}

/* The greatest distance of got from want, and where. scale is NULL, or the same result of absolute
 * values: a unit then is one at its element, or at the mean size of either where that is more. */
static double distance(const struct td_tensor *got, const struct td_tensor *want,
                       const struct td_tensor *scale, int64_t *where)
{
    double worst = 0, squares = 0;
    int64_t n = td_numel(want);
    bool whole = td_dtype_kind(want->dtype) != 'f';
    for (int64_t i = 0; scale && i < n; i++)
        if (isfinite(td_get_real(scale, i)) && isfinite(td_get_real(want, i)))
            squares += pow(fmax(fabs(td_get_real(scale, i)), fabs(td_get_real(want, i))), 2);
    double mean = n ? sqrt(squares / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double at = scale ? fmax(fabs(td_get_real(scale, i)), mean) : 0;
        double d = whole ? (td_get_whole(got, i) == td_get_whole(want, i) ? 0 : INFINITY)
                         : apart(want->dtype, td_get_real(got, i), td_get_real(want, i), at);
        if (d > worst) {
            worst = d;
            *where = i;
        }
    }
    return worst;
}

static bool same_inputs(const struct sample *a, const struct sample *b)
{
    for (int i = 0; i < a->n_inputs; i++)
        if (memcmp(a->input[i].data, b->input[i].data, td_nbytes(&a->input[i])))
            return false;
    return true;
}

static void failed(struct row *row, const char *what)
{
    if (row->failures++ < SHOWN)
        printf("not ok - %s: %s\n", current, what);
}

/* Runs the row on got and holds it against want, which the reference has filled. */
static void judge(struct row *row, struct sample *got, const struct sample *want,
                  const struct sample *scale)
{
    struct td_call *call = &got->run.call;
    char text[160];
    armed = !sigsetjmp(crash, 1);
    if (!armed) {
        row->failures++;
        return;
    }
    sample_run(row->impl, call);
    armed = false;
    row->calls++;
    if (!same_inputs(got, want))
        failed(row, "wrote to its input");
    for (int i = 0; i < call->n_out; i++) {
        if (!sample_guarded(&call->out[i]))
            failed(row, "wrote before its output");
        const struct td_tensor *right = &want->run.call.out[i];
        int64_t where = 0;
        double d = distance(&call->out[i], right, scale ? &scale->run.call.out[i] : NULL, &where);
        if (d > row->handle->op->ulp) {
            snprintf(text, sizeof text, "[%lld] is %g, not %g: %.3g ulp off, %g allowed",
                     (long long)where, td_get_real(&call->out[i], where), td_get_real(right, where),
                     d, row->handle->op->ulp);
            failed(row, text);
        }
        row->worst = d > row->worst ? d : row->worst;
    }
}

static int make(struct sample *s, const struct row *row, const struct input *in,
                enum sample_values values)
{
    return sample_init(s, row->handle->full, in->pattern, in->sizes, in->dtype, values, seed);
}

/* One call of the row beside one of the reference. Whether there was one: the rule may refuse a
 * size, and the row a call. */
static bool compare(struct row *row, const struct input *in)
{
    struct sample want, got, scale;
    const struct td_op *op = row->handle->op;
    snprintf(current, sizeof current,
             "%s, %s, n %lld m %lld k %lld %s values %d threads %d, --seed %llu", row->name,
             in->pattern, (long long)in->sizes.n, (long long)in->sizes.m, (long long)in->sizes.k,
             td_dtype_name(in->dtype), in->values, in->threads, (unsigned long long)seed);
    bool takes = !make(&want, row, in, in->values) && !want.run.n_casts &&
                 (!row->impl->accepts || row->impl->accepts(&want.run.call));
    if (takes && !make(&got, row, in, in->values)) {
        reference(op)->run(&want.run.call);
        if (op->sums && !make(&scale, row, in, in->values | SAMPLE_ABSOLUTE))
            reference(op)->run(&scale.run.call);
        got.run.call.threads = in->threads;
        judge(row, &got, &want, op->sums ? &scale : NULL);
        if (op->sums)
            sample_fini(&scale);
        sample_fini(&got);
    }
    sample_fini(&want);
    return takes;
}

/* A sum of numbers of all sizes is the biggest one: nothing to hold a row against. A library has
 * its own way with NaN: oneDNN's relu makes 0 of it, its convolutions multiply it with padding. */
static bool excused(const struct row *row, enum sample_values values)
{
    return (values == SAMPLE_BITS && row->handle->op->sums) ||
           (values == SAMPLE_SPECIAL && row->impl->library);
}

/* The instructions that multiply BF16 take denormals for zeros, infinity times one for NaN. */
static enum sample_values some_of(const struct row *row, enum sample_values values,
                                  enum td_dtype dtype)
{
    bool flushes =
        row->handle->op->sums && dtype == TD_bf16 && row->impl->isa >= TD_ISA_avx512_bf16;
    return values == SAMPLE_SPECIAL && flushes ? values | SAMPLE_NORMAL : values;
}

/* A sanitizer is slow and looks at addresses: big tensors of one kind of values do for it. */
static int last_values(bool big)
{
#ifdef __SANITIZE_ADDRESS__
    return big ? SAMPLE_PLAIN : SAMPLE_BITS;
#else
    (void)big;
    return SAMPLE_BITS;
#endif
}

/* All sizes and kinds of values; how many calls the row took. */
static int check_pattern(struct row *row, const char *pattern, enum td_dtype dtype)
{
    int taken = 0;
    for (int i = 0; i < N_SIZES; i++) {
        bool big = sizes[i] == BIG;
        struct sizes s = {sizes[i], 3, 3};
        if (!big)
            s = (struct sizes){sizes[i], sizes[(i + 3) % (N_SIZES - 1)],
                               sizes[(i + 6) % (N_SIZES - 1)]};
        for (int values = SAMPLE_PLAIN; values <= last_values(big); values++)
            for (int threads = 1; threads <= 1 + big; threads++)
                if (!excused(row, values))
                    taken += compare(row, &(struct input){pattern, s, dtype,
                                                          some_of(row, values, dtype), threads});
        if (!strpbrk(pattern, "nmk"))
            break;
    }
    return taken;
}

static void check_row(struct row *row)
{
    const struct td_op *op = row->handle->op;
    for (int d = 0; d < TD_DTYPES; d++) {
        int taken = 0;
        if (!(row->impl->dtypes & op->dtypes & 1u << d))
            continue;
        for (const char *const *pattern = op->samples; *pattern; pattern++)
            taken += check_pattern(row, *pattern, 1 << d);
        if (!taken)
            printf("# %s: no %s sample reaches it\n", row->name, td_dtype_name(1 << d));
    }
    if (row->impl->library)
        printf("# %s: NaN, infinities and denormals not tried, they are the library's\n",
               row->name);
    if (!row->calls)
        failed(row, "no sample reaches it");
    printf("%s - %s: %d calls, at most %.3g ulp off, %g allowed", row->failures ? "not ok" : "ok",
           row->name, row->calls, row->worst, op->ulp);
    printf(row->failures ? ", %d failures\n" : "\n", row->failures);
}

static double fastest(const struct td_impl *impl, struct td_call *call)
{
    struct timespec t0, t1;
    double best = INFINITY, total = 0;
    while (total < 0.05) {
        clock_gettime(CLOCK_MONOTONIC, &t0);
        impl->run(call);
        clock_gettime(CLOCK_MONOTONIC, &t1);
        double took = (double)(t1.tv_sec - t0.tv_sec) + 1e-9 * (double)(t1.tv_nsec - t0.tv_nsec);
        best = took < best ? took : best;
        total += took;
    }
    return best;
}

/* Times the call and the reference's, when the row takes it. */
static bool bench_call(struct row *row, const struct input *in)
{
    struct sample s;
    struct td_call *call = &s.run.call;
    const struct td_op *op = row->handle->op;
    bool takes = !make(&s, row, in, in->values) && !s.run.n_casts &&
                 (!row->impl->accepts || row->impl->accepts(call)) &&
                 (!op->flops || op->flops(call) < 1e8);
    if (takes) {
        size_t size = row->impl->scratch ? row->impl->scratch(call) : 0;
        call->scratch = aligned_alloc(64, (size + 64) / 64 * 64);
        double t = fastest(row->impl, call), ref = fastest(reference(op), call);
        free(call->scratch);
        printf("%-36s %10.2f us  %6.1f times ref's speed  %s %s n %lld\n", row->name, t * 1e6,
               ref / t, in->pattern, td_dtype_name(in->dtype), (long long)in->sizes.n);
    }
    sample_fini(&s);
    return takes;
}

/* The first sample that the row takes, as big as it may be. */
static void bench_row(struct row *row)
{
    static const enum td_dtype dtypes[] = {TD_f32, TD_bf16, TD_i64, TD_i8};
    static const int64_t big[] = {100000, 1000, 300, 100};
    for (const char *const *pattern = row->handle->op->samples; *pattern; pattern++)
        for (int d = 0; d < 4; d++)
            for (int i = 0; row->impl->dtypes & dtypes[d] && i < 4; i++)
                if (bench_call(row,
                               &(struct input){
                                   *pattern, {big[i], big[i], big[i]}, dtypes[d], SAMPLE_PLAIN, 1}))
                    return;
}

struct options {
    const char *op, *impl;
    bool list, bench;
};

static bool parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--list"))
            o->list = true;
        else if (!strcmp(argv[i], "--bench"))
            o->bench = true;
        else if (!strcmp(argv[i], "--seed") && more)
            seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--op") && more)
            o->op = argv[++i];
        else if (!strcmp(argv[i], "--impl") && more)
            o->impl = argv[++i];
        else
            return false;
    }
    return true;
}

int main(int argc, char **argv)
{
    struct options o = {.op = "", .impl = ""};
    int failures = 0, rows = 0;
    seed = (uint64_t)time(NULL);
    if (!parse(&o, argc, argv)) {
        fprintf(stderr, "usage: checkimpl [--seed N] [--op NAME] [--impl NAME[@LEVEL]] [--list] "
                        "[--bench]\n");
        return 2;
    }
    for (int number = 0; number < 4; number++)
        signal((int[]){SIGILL, SIGSEGV, SIGBUS, SIGFPE}[number], on_signal);
    sample_start();
    printf("# --seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < td_registry_count(); i++)
        for (const struct td_impl *impl = td_registry_at(i)->op->impls; impl[1].run; impl++) {
            struct row row = {.handle = td_registry_at(i), .impl = impl};
            char how[60], why[100];
            snprintf(how, sizeof how, "%s@%s", impl->name, td_isa_name(impl->isa));
            snprintf(row.name, sizeof row.name, "%s %.50s", row.handle->full, how);
            if (strncmp(row.handle->full, o.op, strlen(o.op)) ||
                strncmp(how, o.impl, strlen(o.impl)))
                continue;
            rows++;
            if (!sample_runnable(impl, why))
                printf("not run: %s (%s)\n", row.name, why);
            else if (o.list)
                printf("%s\n", row.name);
            else
                (o.bench ? bench_row : check_row)(&row);
            failures += row.failures;
            fflush(stdout);
        }
    td_registry_fini();
    return failures || !rows;
}
