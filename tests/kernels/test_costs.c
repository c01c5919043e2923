/* Whether what a call costs shows in its tensors: every operator on sizes and attributes that
 * nobody had in mind, its time held against its bytes and operations. A kernel that walks a stride,
 * a padding or a window which no result needs would be offered these by a client. Bounds are a
 * hundredfold of what is usual: what fails here takes seconds for kilobytes.
 *
 *   test_kernels_costs [ROUNDS]  tries more, and tells of the slowest */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#define SLOWER 20
#else
#define SLOWER 1
#endif
#define UNIT_NS (1000.0 * SLOWER)    /* for a byte, or an operation of eight; ten times the worst */
#define LEAST_SECONDS (0.5 * SLOWER) /* for anything: a library makes code */
#define SECONDS 120                  /* after which a call is taken for one that never ends */

static char current[600], slowest[800];
static double worst; /* of all ratios to the bound */
static long tried, failures;

static uint64_t next(uint64_t *seed) /* splitmix64 */
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static void on_signal(int number)
{
    const char *what = number == SIGALRM ? "never ends: " : "crashes: ";
    (void)!write(2, what, strlen(what));
    (void)!write(2, current, strlen(current));
    _exit(1);
}

/* Of computing: what others do on the machine is not counted. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double units(const struct td_call *call)
{
    double bytes = 64, flops = call->op->flops ? call->op->flops(call) / 8 : 0;
    for (int i = 0; i < call->n_args; i++)
        if (call->arg[i].kind == TD_KIND_tensor)
            bytes += (double)td_nbytes(&call->arg[i].tensor);
    for (int i = 0; i < call->n_out; i++)
        bytes += (double)td_nbytes(&call->out[i]);
    return bytes > flops ? bytes : flops;
}

/* Runs each row that takes the call. */
static void judge(struct sample *s)
{
    double work = units(&s->run.call);
    for (const struct td_impl *impl = s->run.rows; impl->run && work < 1e6; impl++) {
        char why[100], row[100];
        size_t bytes;
        snprintf(row, sizeof row, "%s@%s", impl->name, td_isa_name(impl->isa));
        s->run.forced = row;
        double bound = LEAST_SECONDS + work * UNIT_NS * 1e-9, begin = now();
        alarm(SECONDS);
        bool takes = sample_runnable(impl, why) && !td_run_select(&s->run, &bytes);
        double made = now() - begin;
        if (takes) {
            void *scratch = aligned_alloc(64, bytes + 64);
            ck_assert_ptr_nonnull(scratch);
            td_run_execute(&s->run, scratch);
            free(scratch);
            td_run_release(&s->run);
        }
        alarm(0);
        double ratio = (now() - begin) / bound;
        tried += takes;
        if (ratio > worst) {
            worst = ratio;
            snprintf(slowest, sizeof slowest, "%s of %.500s", row, current);
        }
        if (ratio < 1)
            continue;
        fprintf(stderr, "%.3f s (%.3f to choose) for %.0f units, which is beyond %.3f s: %s of %s",
                ratio * bound, made, work, bound, row, current);
        failures++;
    }
}

static void run(const char *name, const char *pattern, enum td_dtype dtype, struct td_sizes sizes)
{
    struct sample s;
    snprintf(current, sizeof current, "%s(%s) of %s, n=%lld m=%lld k=%lld\n", name, pattern,
             td_dtype_name(dtype), (long long)sizes.n, (long long)sizes.m, (long long)sizes.k);
    if (!sample_init(&s, name, pattern, sizes, dtype, SAMPLE_PLAIN, 1)) {
        bool nothing = true;
        for (int i = 0; i < s.run.call.n_out; i++)
            nothing = nothing && !td_numel(&s.run.call.out[i]);
        if (!nothing)
            judge(&s);
    }
    sample_fini(&s);
}

static int rounds = SLOWER > 1 ? 1 : 3;

/* The pattern with its numbers replaced: of tensors by sizes, the same by the same, of attributes
 * now and then by anything. */
static void stretch(const char *pattern, uint64_t seed, char *to, size_t size)
{
    static const int64_t sizes[] = {0, 1, 1, 2, 3, 5, 64, 333, 4096, 30000};
    static const int64_t extremes[] = {0, 1, 2, 7, 1 << 16, 1 << 24, 1 << 30, INT32_MAX};
    size_t n = 0;
    bool inside = false;
    while (*pattern && n + 24 < size) {
        inside = *pattern == '[' || (inside && *pattern != ']');
        bool starts = isdigit((unsigned char)*pattern) && strchr("[,=", pattern[-1]);
        if (!starts || next(&seed) % 3) {
            to[n++] = *pattern++;
            continue;
        }
        char *end;
        uint64_t was = strtoul(pattern, &end, 10), mixed = seed ^ was;
        bool any = !inside || !(next(&seed) % 4);
        int64_t value = any ? extremes[next(&seed) % 8] : sizes[next(&mixed) % 10];
        n += (size_t)snprintf(to + n, size - n, "%lld", (long long)value);
        pattern = end;
    }
    to[n] = 0;
}

START_TEST(test_all_operators)
{
    static const int64_t letters[] = {1, 2, 3, 7, 64, 1000, 20000};
    uint64_t seed = 1;
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    sample_start();
    for (const struct td_op *const *op = td_ops; *op; op++)
        for (int i = 0; (*op)->samples[i]; i++)
            for (int k = 0; k < TD_DTYPES; k++)
                for (int r = 0; (*op)->dtypes >> k & 1 && r < rounds; r++) {
                    char name[100], pattern[400];
                    struct td_sizes sizes = {letters[next(&seed) % 7], letters[next(&seed) % 7],
                                             letters[next(&seed) % 7]};
                    snprintf(name, sizeof name, "%.*s", (int)strcspn((*op)->schema, "("),
                             (*op)->schema);
                    stretch((*op)->samples[i], next(&seed), pattern, sizeof pattern);
                    run(name, pattern, 1 << k, sizes);
                }
    printf("slowest of %ld, %.3f of the bound: %s", tried, worst, slowest);
    ck_assert_int_eq(failures, 0);
}
END_TEST

/* Convolutions and their gradients, the operators with the most attributes, whose shapes have to
 * agree: by geometry. */
START_TEST(test_convolutions)
{
    static const int64_t ins[] = {1, 1, 2, 3, 17, 300, 4000},
                         kernels[] = {1, 1, 1, 2, 3, 5, 64, 900};
    static const int64_t steps[] = {1, 1, 1, 2, 3, 64, 5000, 1 << 16, 1 << 24, INT32_MAX};
    static const int64_t pads[] = {0, 0, 0, 1, 2, 64, 5000, 1 << 16, 1 << 24, 1 << 30};
    static const int64_t channels[] = {1, 1, 2, 3, 16, 512}, groups[] = {1, 1, 1, 2, 48, 2048};
    static const enum td_dtype types[] = {TD_f32, TD_f32, TD_bf16, TD_f16, TD_f64};
    uint64_t seed = 7;
    signal(SIGALRM, on_signal);
    signal(SIGSEGV, on_signal);
    sample_start();
    for (int r = 0; r < rounds * 800; r++) {
        int64_t in[2], kernel[2], stride[2], pad[2], gap[2], out[2];
        int64_t c = channels[next(&seed) % 6], o = channels[next(&seed) % 6];
        int64_t g = groups[next(&seed) % 6], images = next(&seed) % 4 ? 1 : 3;
        bool fits = true;
        for (int d = 0; d < 2; d++) {
            in[d] = ins[next(&seed) % 7];
            kernel[d] = kernels[next(&seed) % 8];
            stride[d] = steps[next(&seed) % 10];
            pad[d] = pads[next(&seed) % 10];
            gap[d] = next(&seed) % 2 ? 1 : steps[next(&seed) % 10];
            int64_t room = in[d] + 2 * pad[d] - gap[d] * (kernel[d] - 1) - 1;
            out[d] = room / stride[d] + 1;
            fits = fits && room >= 0 && out[d] < 1 << 16;
        }
        enum td_dtype type = types[next(&seed) % 5];
        if (!fits || (double)images * (double)(g * o) * (double)(out[0] * out[1]) > 1 << 18)
            continue;
        char pattern[400];
        int n =
            snprintf(pattern, sizeof pattern,
                     "input=[%lld,%lld,%lld,%lld] weight=[%lld,%lld,%lld,%lld] "
                     "stride=[%lld,%lld] padding=[%lld,%lld] dilation=[%lld,%lld] groups=%lld",
                     (long long)images, (long long)(g * c), (long long)in[0], (long long)in[1],
                     (long long)(g * o), (long long)c, (long long)kernel[0], (long long)kernel[1],
                     (long long)stride[0], (long long)stride[1], (long long)pad[0],
                     (long long)pad[1], (long long)gap[0], (long long)gap[1], (long long)g);
        run("conv2d", pattern, type, (struct td_sizes){1, 1, 1});
        snprintf(pattern + n, sizeof pattern - (size_t)n,
                 " grad_output=[%lld,%lld,%lld,%lld] bias_sizes=None transposed=False "
                 "output_padding=[0,0] output_mask=[True,True,%s]",
                 (long long)images, (long long)(g * o), (long long)out[0], (long long)out[1],
                 r % 2 ? "True" : "False");
        run("convolution_backward", pattern, type, (struct td_sizes){1, 1, 1});
    }
    printf("slowest of %ld, %.3f of the bound: %s", tried, worst, slowest);
    ck_assert_int_gt(tried, 20);
    ck_assert_int_eq(failures, 0);
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1)
        rounds = atoi(argv[1]);
    Suite *suite = suite_create("costs");
    TCase *tcase = tcase_create("costs");
    tcase_set_timeout(tcase, 3600);
    tcase_add_test(tcase, test_all_operators);
    tcase_add_test(tcase, test_convolutions);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
