/* Every implementation of every operator, at every level that this CPU can run, against the
 * reference: on the operator's sample patterns in awkward sizes, on plain and special values, with
 * one thread and two. The bound is the descriptor's. Tensors end at an unreadable page, or, in
 * every second call, begin at one; a row that crashes is named. A row whose result may lie in an
 * argument is run so, too. Rows of levels that this CPU lacks are listed as not run.
 *
 * This is how levels are held to each other: all of them to one reference (ISA-37, ISA-20, DSP-34,
 * JIT-40).
 *
 *   checkimpl [--seed N] [--op NAME] [--impl NAME[@LEVEL]] [--part I/N] [--list]
 *
 * NAME matches the beginning: --op add takes both overloads. --part 0/2: every second operator,
 * from the first on. The seed is TENSORD_SEED's, or drawn. */
#include "dispatch/call/own.h"
#include "kernels/elementwise.h"
#include "tests/distance.h"
#include "tests/right.h"

#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__ /* slow; all else is tried without it, its matter is addresses */
static const int64_t sizes[] = {0, 1, 17, 255};
#define LAST_KIND SAMPLE_PLAIN /* of values: where elements lie does not go by them */
#define LAYOUTS_ALWAYS true
/* What is compiled with the sanitizer: kernels/meson.build. */
#define ROW_IS_TRIED(impl) ((impl)->isa == TD_ISA_avx2 || (impl)->library)
#define NOT_TRIED "compiled without the sanitizer"
#else
static const int64_t sizes[] = {0, 1, 7, 15, 16, 17, 31, 33, 100, 255, 40000};
#define LAST_KIND SAMPLE_BITS
#define LAYOUTS_ALWAYS false
#ifdef TD_WIDE
#define ROW_IS_TRIED(impl) (!(td_cpu()->levels >> (impl)->isa & 1))
#define NOT_TRIED "checkimpl runs it itself on this CPU; TENSORD_CPU_CAPABILITY=avx2: here"
#else
#define ROW_IS_TRIED(impl) true
#define NOT_TRIED ""
#endif
#endif
#define N_SIZES ((int)(sizeof sizes / sizeof *sizes))
#define BIG 40000 /* for n alone, of plain values, and shared by two threads */
#define MAX_ROWS 32
#define SHOWN 5 /* failures that are told of a row; the rest are counted */

struct row { /* one row of a table, and what was seen of it */
    const struct td_handle *handle;
    const struct td_impl *impl;
    char name[160];
    double worst;
    int calls, failures, strided, over;
    unsigned reached; /* the types of which it took a sample */
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
    int wrong = -1;
    sample_run(row->impl, call);
    row->over += sample_run_over(row->impl, got, &wrong);
    armed = false;
    row->calls++;
    if (wrong >= 0)
        failed(row, "is not the same in an argument's place");
    if (!sample_same_inputs(got, want) || !sample_is_laid(got))
        failed(row, "wrote to its input");
    for (int i = 0; i < call->n_out; i++) {
        if (!sample_guarded(call->out[i].data, got->out_bytes[i]))
            failed(row, "wrote beside its output");
        const struct td_tensor *right = &want->run.call.out[i];
        if (memcmp(call->out[i].shape, right->shape, (size_t)right->rank * sizeof *right->shape)) {
            failed(row, "counts otherwise");
            continue;
        }
        int64_t where = 0;
        double d = distance(&call->out[i], right, scale ? &scale->run.call.out[i] : NULL, &where);
        double bound = bound_of(row->handle->op, right->dtype);
        if (d > bound) {
            snprintf(text, sizeof text, "[%lld] is %g, not %g: %.3g ulp off, %g allowed",
                     (long long)where, td_get_real(&call->out[i], where), td_get_real(right, where),
                     d, bound);
            failed(row, text);
        }
        row->worst = d > row->worst ? d : row->worst;
    }
}

/* One call of the row beside one of the reference, unless the rule refuses the size, or the row the
 * call. */
static void compare(struct row *row, const struct input *in, struct right *right)
{
    struct sample got;
    snprintf(current, sizeof current,
             "%s, %s, n %lld m %lld k %lld %s values %d threads %d, --seed %llu", row->name,
             in->pattern, (long long)in->sizes.n, (long long)in->sizes.m, (long long)in->sizes.k,
             td_dtype_name(in->dtype), in->values, in->threads, (unsigned long long)seed);
    right_remember(right, row->handle, *in, seed);
    if (!right->made || !(row->impl->dtypes & td_row_dtype(&right->want.run.call)) ||
        !sample_takes(row->impl, &right->want.run.call))
        return;
    row->reached |= in->dtype;
    sample_lie_at_front(row->calls % 2);
    if (!sample_init(&got, row->handle->full, in->pattern, in->sizes, in->dtype,
                     SAMPLE_NONE | (in->values & SAMPLE_LAYOUTS), seed)) {
        sample_copy_inputs(&got, &right->want);
        right_ask(right);
        got.run.call.threads = in->threads;
        bool takes = !got.run.n_casts && sample_takes(row->impl, &got.run.call);
        row->strided += takes && (in->values & SAMPLE_LAYOUTS);
        if (right->made && takes)
            judge(row, &got, &right->want, right->scaled ? &right->scale : NULL);
    }
    sample_fini(&got);
    sample_lie_at_front(false);
}

/* A sum of numbers of all sizes is the biggest one: nothing to hold a row against. A library has
 * its own way with NaN: oneDNN's relu makes 0 of it, its convolutions multiply it with padding. A
 * pattern that ends in " finite" is of an operator that multiplies what it masks. */
static bool excused(const struct row *row, const char *pattern, enum sample_values values)
{
    return (values == SAMPLE_BITS && row->handle->op->sums) ||
           (values == SAMPLE_SPECIAL && (row->impl->library || strstr(pattern, " finite")));
}

/* The instructions that multiply BF16 take denormals for zeros, infinity times one for NaN. Where a
 * pattern ends in " small", sums go through a curve that flattens: what rounding leaves of big
 * numbers that cancel, results of absolute values do not show, nor where a state is rounded to the
 * zero that an infinite weight makes NaN of. So special values are not big there, and BIG plain
 * values are a 64th of the usual ones. A row with a rounding of its own (Winograd) adds products of
 * big numbers to results without such terms and subtracts them again: its special values are not
 * big either. */
static enum sample_values some_of(const struct row *row, const struct input *in)
{
    bool sums = row->handle->op->sums;
    bool flushes = sums && in->dtype == TD_bf16 && row->impl->isa >= TD_ISA_avx512_bf16;
    bool small = strstr(in->pattern, " small"), mixes = row->impl->rounding;
    if (in->values == SAMPLE_SPECIAL)
        return in->values | (flushes ? SAMPLE_NORMAL : 0) | (small || mixes ? SAMPLE_SMALL : 0);
    return in->values | (small && sums && in->sizes.n == BIG ? SAMPLE_SMALL : 0);
}

/* A row's calls for an input: on one thread, and a big one on two. */
static void check_input(struct row *row, struct input in, struct right *right)
{
    unsigned types = row->impl->dtypes & row->handle->op->dtypes;
    if (excused(row, in.pattern, in.values) || !(types & in.dtype))
        return;
    in.values = some_of(row, &in);
    for (in.threads = 1; in.threads <= 1 + (in.sizes.n == BIG); in.threads++)
        compare(row, &in, right);
}

/* Special values and any bits take turns over the sizes, where a pattern has some. */
static bool is_turn(const char *pattern, int i, int values)
{
    return values == SAMPLE_PLAIN || !strpbrk(pattern, "nmk") || (i + values) % 2;
}

/* The layouts take turns over the sizes, from the last on: that is BIG, and sliced, since of one
 * part repeated errors would add up. */
static void check_layouts(struct row *rows, int n, struct input in, int turn, struct right *right)
{
    static const int layouts[] = {SAMPLE_SLICED,   SAMPLE_STEP_2, SAMPLE_BACKWARDS,
                                  SAMPLE_REPEATED, SAMPLE_HEADS,  SAMPLE_TRANSPOSED};
    for (int i = 0; i < 6; i++) {
        in.values = (enum sample_values)layouts[i];
        bool is_due = turn % 6 == i || !strpbrk(in.pattern, "nmk") ||
                      (LAYOUTS_ALWAYS && (turn || layouts[i] != SAMPLE_REPEATED));
        for (int r = 0; r < n && is_due; r++)
            if (rows[r].impl->strided)
                check_input(&rows[r], in, right);
    }
}

/* All sizes, in both kinds of values, each for one row after the other. */
static void check_pattern(struct row *rows, int n, const char *pattern, enum td_dtype dtype)
{
    struct right right = {0};
    for (int i = 0; i < N_SIZES; i++) {
        bool big = sizes[i] == BIG;
        struct td_sizes s = {sizes[i], 3, 3};
        if (!big)
            s = (struct td_sizes){sizes[i], sizes[(i + 3) % (N_SIZES - 1)],
                                  sizes[(i + 6) % (N_SIZES - 1)]};
        for (int values = SAMPLE_PLAIN; values <= (big ? SAMPLE_PLAIN : LAST_KIND); values++)
            for (int r = 0; r < n && is_turn(pattern, i, values); r++)
                check_input(&rows[r], (struct input){pattern, s, dtype, values, 1}, &right);
        check_layouts(rows, n, (struct input){pattern, s, dtype, SAMPLE_PLAIN, 1}, N_SIZES - 1 - i,
                      &right);
        if (!strpbrk(pattern, "nmk"))
            break;
    }
    right_forget(&right);
}

static void report(struct row *row)
{
    const struct td_op *op = row->handle->op;
    for (int d = 0; d < TD_DTYPES; d++)
        if (row->impl->dtypes & op->dtypes & ~row->reached & 1u << d)
            printf("# %s: no %s sample reaches it\n", row->name, td_dtype_name(1 << d));
    if (row->impl->library)
        printf("# %s: NaN, infinities and denormals not tried, they are the library's\n",
               row->name);
    snprintf(current, sizeof current, "%s", row->name);
    if (!row->calls)
        failed(row, "no sample reaches it");
    else if (row->impl->strided && !row->strided)
        failed(row, "takes strides, and none of a sample's");
    else if (row->impl->in_place && row->impl->in_place != ~0u && !row->over)
        failed(row, "may overwrite an argument, and none of a sample's");
    printf("%s - %s: %d calls, at most %.3g ulp off, %g allowed", row->failures ? "not ok" : "ok",
           row->name, row->calls, row->worst, op->ulp);
    printf(row->over ? ", %d in place" : "", row->over);
    printf(row->failures ? ", %d failures\n" : "\n", row->failures);
}

static void check_rows(struct row *rows, int n)
{
    for (int d = 0; d < TD_DTYPES; d++)
        for (const char *const *pattern = rows->handle->op->samples; *pattern; pattern++)
            check_pattern(rows, n, *pattern, 1 << d);
    for (int i = 0; i < n; i++)
        report(&rows[i]);
}

struct options {
    const char *op, *impl;
    int part, parts;
    bool list;
};

static bool parse(struct options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;
        if (!strcmp(argv[i], "--list"))
            o->list = true;
        else if (!strcmp(argv[i], "--seed") && more)
            seed = strtoull(argv[++i], NULL, 0);
        else if (!strcmp(argv[i], "--op") && more)
            o->op = argv[++i];
        else if (!strcmp(argv[i], "--impl") && more)
            o->impl = argv[++i];
        else if (!strcmp(argv[i], "--part") && more &&
                 sscanf(argv[++i], "%d/%d", &o->part, &o->parts) == 2 && o->part >= 0 &&
                 o->part < o->parts)
            continue;
        else
            return false;
    }
    return true;
}

/* The operator's rows that were asked for and run here. */
static int choose_rows(const struct td_handle *handle, const struct options *o,
                       struct row row[MAX_ROWS])
{
    int n = 0;
    for (const struct td_impl *impl = handle->op->impls; impl[1].run; impl++) {
        char how[60], why[100];
        snprintf(how, sizeof how, "%s@%s", impl->name, td_isa_name(impl->isa));
        if (strncmp(handle->full, o->op, strlen(o->op)) || strncmp(how, o->impl, strlen(o->impl)))
            continue;
        if (n == MAX_ROWS)
            abort();
        row[n] = (struct row){.handle = handle, .impl = impl};
        snprintf(row[n].name, sizeof row[n].name, "%s %.50s", handle->full, how);
        if (sample_runnable(impl, why) && ROW_IS_TRIED(impl))
            n++;
        else
            printf("not run: %s (%s)\n", row[n].name, *why ? why : NOT_TRIED);
    }
    return n;
}

int main(int argc, char **argv)
{
    struct options o = {.op = "", .impl = "", .parts = 1};
    int failures = 0, rows = 0;
    seed = getenv("TENSORD_SEED") ? strtoull(getenv("TENSORD_SEED"), NULL, 0)
                                  : (uint64_t)td_clock_ns();
    if (!parse(&o, argc, argv)) {
        fprintf(stderr,
                "usage: checkimpl [--seed N] [--op NAME] [--impl NAME[@LEVEL]] [--part I/N] "
                "[--list]\n");
        return 2;
    }
    for (int number = 0; number < 4; number++)
        signal((int[]){SIGILL, SIGSEGV, SIGBUS, SIGFPE}[number], on_signal);
    sample_start();
    printf("# --seed %llu\n", (unsigned long long)seed);
    for (int i = o.part; i < td_registry_count(); i += o.parts) {
        struct row row[MAX_ROWS];
        int n = choose_rows(td_registry_at(i), &o, row);
        for (int r = 0; o.list && r < n; r++)
            puts(row[r].name);
        int64_t begin = td_clock_ns();
        if (!o.list && n) {
            check_rows(row, n);
            printf("# %s: %.0f ms\n", td_registry_at(i)->full,
                   (double)(td_clock_ns() - begin) * 1e-6);
        }
        for (int r = 0; r < n; r++)
            failures += row[r].failures;
        rows += n;
        fflush(stdout);
    }
    td_registry_fini();
#ifdef TD_WIDE
    if (!rows && !*o.op && !*o.impl) {
        printf("skipped: this CPU runs every level itself, or none above AVX2's sources\n");
        return 77;
    }
#endif
    return failures || !rows;
}
