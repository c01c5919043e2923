/* Every implementation of every operator, the reference too, at every level that this CPU can run,
 * against the golden answers of tests/golden: calls with what is right by PyTorch, in the form
 * that tests/outside/golden.py states. Here no code is shared with what gave the answers, as rows
 * share some with the reference that checkimpl holds them to.
 *
 *   checkgolden [--op NAME] [--impl NAME[@LEVEL]] FOLDER
 *
 * NAME matches the beginning, as checkimpl's do. The bound is the descriptor's, beside what PyTorch
 * itself may be off; where the descriptor's counts for sums, a unit is one at the size that the
 * answer states. An operator without golden answers, and without a reason for that, is wrong. */
#include "dispatch/call/own.h"
#include "kernels/elementwise.h"
#include "tests/distance.h"
#include "tests/sample.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define SHOWN 5 /* failures that are told of an operator; the rest are counted */
#define MAX_OPS 1024
#define TEXT 4096

#ifdef TD_WIDE /* the other levels are checkgolden's */
#define ROW_IS_TRIED(impl) (!(td_cpu()->levels >> (impl)->isa & 1))
#else
#define ROW_IS_TRIED(impl) true
#endif

struct answer { /* a result */
    struct td_tensor right;
    double size, off;
};

struct golden { /* a call, and its results */
    char name[80], call[TEXT], results[TEXT];
    struct sample sample;
    struct answer answer[TD_MAX_OUTS];
    int n;
};

static struct tally { /* of an operator */
    int calls, runs, failures;
    bool met;
    unsigned types; /* of its calls */
} tally[MAX_OPS];
static const char *only_impl = "", *only_op = "";
static char current[TEXT + 200]; /* what runs, for the signal handler */

static void on_signal(int number)
{
    const char *what = number == SIGILL ? "not ok - SIGILL in " : "not ok - crash in ";
    (void)!write(1, what, strlen(what));
    (void)!write(1, current, strlen(current));
    (void)!write(1, "\n", 1);
    _exit(1);
}

static void failed(struct tally *of, const char *what)
{
    if (of->failures++ < SHOWN)
        printf("not ok - %s: %s\n", current, what);
}

static void broken(const char *what)
{
    fprintf(stderr, "golden answers: %s: %s\n", current, what);
    exit(2);
}

/* A tensor's elements, of which the file has all first bytes first. */
static void read_elements(gzFile file, const struct td_tensor *t)
{
    size_t size = td_dtype_size(t->dtype), n = (size_t)td_numel(t);
    uint8_t *line = malloc(n + 1), *to = t->data;
    for (size_t b = 0; b < size && n; b++) {
        if (!line || gzfread(line, 1, n, file) != n)
            broken("the file ends within a tensor");
        for (size_t i = 0; i < n; i++)
            to[i * size + b] = line[i];
    }
    free(line);
}

/* "[3,17]:FP32:0.5:1e-14", up to the next blank. */
static void read_answer(const char **at, struct answer *a)
{
    char type[16] = "", *end;
    *a = (struct answer){0};
    const char *p = *at + 1;
    for (; *p != ']' && a->right.rank < TD_MAX_RANK; p += *p == ',') {
        a->right.shape[a->right.rank++] = strtoll(p, &end, 10);
        if (end == p)
            broken("a result has no shape");
        p = end;
    }
    int read = 0;
    if (sscanf(p, "]:%15[A-Z0-9]:%lf:%lf%n", type, &a->size, &a->off, &read) != 3)
        broken("a result is not [SHAPE]:TYPE:SIZE:OFF");
    a->right.dtype = td_dtype_find(type);
    if (!a->right.dtype)
        broken("a result has no type");
    *at = p + read + (p[read] == ' ');
}

/* The converted arguments, of a call that promotes types, with their room. */
struct casts {
    void *room[TD_MAX_CASTS];
    size_t bytes[TD_MAX_CASTS];
};

static void convert(struct td_run *run, struct casts *casts)
{
    for (int i = 0; i < run->n_casts; i++) {
        casts->bytes[i] = td_nbytes(&run->call.arg[run->cast[i].arg].tensor);
        casts->room[i] = sample_alloc(casts->bytes[i]);
        td_run_convert_input(run, i, casts->room[i]);
    }
}

static bool same_shape(const struct td_tensor *a, const struct td_tensor *b)
{
    return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

/* By how many units element i is farther off than PyTorch's may be; integers are right or not. */
static double distance_at(const struct td_op *op, const struct td_tensor *got,
                          const struct answer *a, int64_t i)
{
    double x = td_get_real(got, i), right = td_get_real(&a->right, i);
    if (td_dtype_kind(got->dtype) != 'f')
        return td_get_whole(got, i) == td_get_whole(&a->right, i) ? 0 : HUGE_VAL;
    if (fabs(x - right) <= a->off * (fabs(right) + fmax(a->size, 1) / 4))
        return 0;
    return distance_of_one(got->dtype, x, right, op->sums ? a->size : 0);
}

/* One result of a row that has run. What is right has been rounded, which is a unit more. */
static void compare(struct tally *of, const struct td_op *op, const struct td_tensor *got,
                    const struct answer *a)
{
    char text[200];
    if (got->dtype != a->right.dtype || !same_shape(got, &a->right)) {
        failed(of, "has a result of another type or shape");
        return;
    }
    double bound = bound_of(op, got->dtype) + 1;
    for (int64_t i = 0; i < td_numel(got); i++) {
        double d = distance_at(op, got, a, i);
        if (d <= bound)
            continue;
        snprintf(text, sizeof text, "[%lld] is %.17g, not %.17g: %.3g ulp off, %g allowed",
                 (long long)i, td_get_real(got, i), td_get_real(&a->right, i), d, bound);
        failed(of, text);
        return;
    }
}

static void run_row(struct tally *of, const struct td_impl *impl, struct golden *g)
{
    struct td_call *call = &g->sample.run.call;
    char why[100];
    int64_t shape[TD_MAX_OUTS][TD_MAX_RANK];
    bool ref = !impl[1].run;
    if (!sample_runnable(impl, why) || !ROW_IS_TRIED(impl) ||
        !(impl->dtypes & td_row_dtype(call)) || (!ref && !sample_takes(impl, call)))
        return;
    char how[60];
    snprintf(how, sizeof how, "%s@%s", impl->name, td_isa_name(impl->isa));
    if (strncmp(how, only_impl, strlen(only_impl)) != 0)
        return;
    snprintf(current, sizeof current, "%s %s, %s", g->name, how, g->call);
    for (int i = 0; i < call->n_out; i++) {
        memcpy(shape[i], call->out[i].shape, sizeof shape[i]);
        memset(call->out[i].data, 0xa5, g->sample.out_bytes[i]);
    }
    of->runs++;
    if (sample_run(impl, call))
        failed(of, "its data are refused");
    else
        for (int i = 0; i < call->n_out; i++) {
            compare(of, call->op, &call->out[i], &g->answer[i]);
            if (!sample_guarded(call->out[i].data, g->sample.out_bytes[i]))
                failed(of, "wrote beside its output");
        }
    for (int i = 0; i < call->n_out; i++)
        memcpy(call->out[i].shape, shape[i], sizeof shape[i]);
}

/* Every row on a call that is bound; one of nothing is answered by its rule. */
static void run_rows(struct tally *of, struct golden *g)
{
    struct td_run *run = &g->sample.run;
    struct casts casts = {0};
    if (run->call.n_out != g->n) {
        failed(of, "has not as many results");
        return;
    }
    if (td_call_is_nothing(&run->call)) {
        for (int i = 0; i < g->n; i++)
            compare(of, run->call.op, &run->call.out[i], &g->answer[i]);
        return;
    }
    convert(run, &casts);
    of->types |= g->sample.n_inputs ? g->sample.input[0].dtype : td_row_dtype(&run->call);
    run->call.threads = 1;
    for (const struct td_impl *impl = run->call.op->impls; impl->run; impl++)
        run_row(of, impl, g);
    for (int i = 0; i < run->n_casts; i++)
        sample_free(casts.room[i], casts.bytes[i]);
}

/* The call on the line that has been read, of that operator, and what belongs to it. */
static void check_call(struct tally *of, struct golden *g, gzFile file, bool wanted)
{
    snprintf(current, sizeof current, "%s %s", g->name, g->call);
    int err =
        sample_init(&g->sample, g->name, g->call, (struct td_sizes){0}, TD_f32, SAMPLE_NONE, 0);
    for (int i = 0; i < g->sample.made.n_tensors; i++)
        if (i >= g->sample.n_inputs)
            broken("a tensor has no room");
        else
            read_elements(file, &g->sample.input[i]);
    g->n = 0;
    for (const char *at = g->results; *at; g->n++) {
        if (g->n == TD_MAX_OUTS)
            broken("too many results");
        struct answer *a = &g->answer[g->n];
        read_answer(&at, a);
        a->right.data = malloc(td_nbytes(&a->right) + 1);
        read_elements(file, &a->right);
    }
    of->calls++;
    if (wanted && err)
        failed(of, g->sample.run.problem.text);
    else if (wanted)
        run_rows(of, g);
    for (int i = 0; i < g->n; i++)
        free(g->answer[i].right.data);
    sample_fini(&g->sample);
}

/* A line without its end; false behind the last one. */
static bool read_line(gzFile file, char line[TEXT])
{
    if (!gzgets(file, line, TEXT))
        return false;
    size_t n = strcspn(line, "\n");
    if (line[n] != '\n')
        broken("a line is too long");
    line[n] = 0;
    return true;
}

static void check_file(const char *path)
{
    static struct golden g;
    gzFile file = gzopen(path, "rb");
    char line[TEXT];
    snprintf(current, sizeof current, "%s", path);
    if (!file)
        return; /* no operator begins with that letter */
    while (read_line(file, line)) {
        if (*line == '#')
            continue;
        if (sscanf(line, "%79s", g.name) != 1)
            broken("a line has no operator");
        snprintf(g.call, sizeof g.call, "%s", line + strlen(g.name) + 1);
        int i = 0;
        while (i < td_registry_count() && strcmp(td_registry_at(i)->full, g.name) != 0)
            i++;
        if (i == td_registry_count())
            broken("there is no such operator");
        tally[i].met = true;
        if (*g.call == '!') {
            printf("# %s: not judged: %s\n", g.name, g.call + 2);
            continue;
        }
        if (!read_line(file, g.results))
            broken("the file ends within a call");
        check_call(&tally[i], &g, file, !strncmp(g.name, only_op, strlen(only_op)));
    }
    gzclose(file);
}

static void report(struct tally *of, const struct td_handle *handle)
{
    snprintf(current, sizeof current, "%s", handle->full);
    if (!of->met)
        failed(of, "has no golden answers: tests/outside/golden.py makes them");
    for (int d = 0; d < TD_DTYPES && of->calls; d++)
        if (handle->op->dtypes & ~of->types & 1u << d)
            printf("# %s: no golden answer is %s\n", handle->full, td_dtype_name(1 << d));
    printf("%s - %s: %d calls, %d runs", of->failures ? "not ok" : "ok", handle->full, of->calls,
           of->runs);
    printf(of->failures ? ", %d failures\n" : "\n", of->failures);
}

static bool parse(const char **folder, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "--op") && i + 1 < argc)
            only_op = argv[++i];
        else if (!strcmp(argv[i], "--impl") && i + 1 < argc)
            only_impl = argv[++i];
        else
            *folder = argv[i];
    return *folder;
}

int main(int argc, char **argv)
{
    const char *folder = NULL;
    struct tally all = {0};
    if (!parse(&folder, argc, argv)) {
        fprintf(stderr, "usage: checkgolden [--op NAME] [--impl NAME[@LEVEL]] FOLDER\n");
        return 2;
    }
    for (int number = 0; number < 4; number++)
        signal((int[]){SIGILL, SIGSEGV, SIGBUS, SIGFPE}[number], on_signal);
    sample_start();
    if (td_registry_count() > MAX_OPS)
        return 2;
    for (const char *c = "_abcdefghijklmnopqrstuvwxyz"; *c; c++) {
        char path[TEXT];
        snprintf(path, sizeof path, "%s/%c.gz", folder, *c);
        check_file(path);
    }
    for (int i = 0; i < td_registry_count(); i++) {
        if (strncmp(td_registry_at(i)->full, only_op, strlen(only_op)) != 0)
            continue;
        report(&tally[i], td_registry_at(i));
        all.calls += tally[i].calls;
        all.runs += tally[i].runs;
        all.failures += tally[i].failures;
    }
    td_registry_fini();
    printf("# %d calls, %d runs of rows, %d failures\n", all.calls, all.runs, all.failures);
#ifdef TD_WIDE
    if (!all.runs) {
        printf("skipped: this CPU runs every level itself, or none above AVX2's sources\n");
        return 77;
    }
#endif
    return all.failures || !all.calls;
}
