/* Products and convolutions of random shapes, on every row that this CPU can run, oneDNN's above
 * all: groups, dilation, odd channels, kernels beyond their input, stored weights, one thread and
 * two. Cases run in a child, which may crash in a library: the case is named then, and another
 * child goes on behind it. What a row computes is held against the reference.
 *
 *   checkshapes [--seed N] [--cases N] [--first N]
 *
 * The seed is fixed unless given, so that a run on one machine is like the next. */
#include "kernels/elementwise.h"
#include "kernels/weight.h"
#include "tests/distance.h"
#include "tests/sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MOST_FLOPS 2e6 /* of a case, whose reference is plain C */

struct shared { /* what a child tells its parent, also by its end */
    int at, calls, failures;
    char what[500];
};

struct pattern {
    char text[400];
    size_t used;
};

static uint64_t state;

static int64_t pick(int64_t least, int64_t most) /* each as likely */
{
    state = state * 6364136223846793005 + 1442695040888963407;
    return least + (int64_t)((state >> 33) % (uint64_t)(most - least + 1));
}

static int64_t size(int64_t most) /* small ones are as likely as all others */
{
    return pick(0, 1) ? pick(1, 5) : pick(1, most);
}

static void put(struct pattern *p, const char *name, int n, const int64_t *v)
{
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, " %s=[", name);
    for (int i = 0; i < n; i++)
        p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "%s%lld",
                                    i ? "," : "", (long long)v[i]);
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "]");
}

static void put_text(struct pattern *p, const char *text)
{
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, " %s", text);
}

static void make_linear(struct pattern *p, bool pointwise)
{
    static const char *const acts[] = {"relu", "relu6",   "leaky_relu", "hardtanh", "hardsigmoid",
                                       "tanh", "sigmoid", "hardswish",  "silu",     "gelu"};
    int64_t k = size(150), n = size(80), rank = pick(1, 3);
    put(p, pointwise ? "X" : "input", (int)rank,
        (int64_t[]){rank > 1 ? size(20) : k, rank > 2 ? size(9) : k, k});
    put(p, pointwise ? "W" : "weight", 2, (int64_t[]){n, k});
    if (pick(0, 1))
        put(p, pointwise ? "B" : "bias", 1, &n);
    put_text(p, pointwise ? "attr=" : "activation=");
    p->used +=
        (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, "%s", acts[pick(0, 9)]);
}

static void make_matmul(struct pattern *p)
{
    int64_t m = size(40), k = size(150), n = size(80), a[5], b[5];
    int batches = (int)pick(0, 3), left = (int)pick(0, batches), right = (int)pick(0, batches);
    for (int i = 0; i < batches; i++) {
        int64_t both = pick(1, 4);
        a[i] = pick(0, 3) ? both : 1;
        b[i] = pick(0, 3) ? both : 1;
    }
    a[batches] = m;
    a[batches + 1] = b[batches] = k;
    b[batches + 1] = n;
    put(p, "self", batches - left + 2, a + left);
    put(p, "other", batches - right + 2, b + right);
}

static void make_conv2d(struct pattern *p, bool backward)
{
    int64_t groups = pick(0, 1) ? 1 : size(20), ins = pick(0, groups > 1 ? 1 : 3) ? size(24) : 1,
            outs = pick(0, 3) ? size(24) : 1, images = pick(1, 3);
    int64_t in[2], kernel[2], stride[2], padding[2], dilation[2], out[2], wide = !pick(0, 3);
    for (int d = 0; d < 2; d++)
        do {
            in[d] = wide ? pick(1, 200) : size(24);
            kernel[d] = pick(1, 7);
            stride[d] = pick(0, 1) ? 1 : pick(1, 5);
            padding[d] = pick(0, 1) ? 0 : pick(0, 7);
            dilation[d] = pick(0, 1) ? 1 : pick(1, 5);
            out[d] = in[d] + 2 * padding[d] - (kernel[d] - 1) * dilation[d] - 1;
        } while (out[d] < 0);
    for (int d = 0; d < 2; d++)
        out[d] = out[d] / stride[d] + 1;
    if (backward)
        put(p, "grad_output", 4, (int64_t[]){images, groups * outs, out[0], out[1]});
    put(p, "input", 4, (int64_t[]){images, groups * ins, in[0], in[1]});
    put(p, "weight", 4, (int64_t[]){groups * outs, ins, kernel[0], kernel[1]});
    if (backward)
        put(p, "bias_sizes", 1, (int64_t[]){groups * outs});
    else if (pick(0, 1))
        put(p, "bias", 1, (int64_t[]){groups * outs});
    put(p, "stride", 2, stride);
    put(p, "padding", 2, padding);
    put(p, "dilation", 2, dilation);
    if (backward)
        put_text(p, "transposed=False output_padding=[0,0] output_mask=[True,True,True]");
    p->used += (size_t)snprintf(p->text + p->used, sizeof p->text - p->used, " groups=%lld",
                                (long long)groups);
}

static const struct {
    const char *op;
    int weight; /* which argument may be stored */
} ops[] = {{"linear", 1},
           {"linear_pointwise", 1},
           {"matmul", 1},
           {"conv2d", 1},
           {"convolution_backward", 2}};

static void make(struct pattern *p, int op)
{
    *p = (struct pattern){0};
    if (op < 2)
        make_linear(p, op == 1);
    else if (op == 2)
        make_matmul(p);
    else
        make_conv2d(p, op == 4);
}

/* One row on the call, and how far it is off. */
static void run_row(struct shared *s, const struct td_impl *impl, struct sample *got,
                    const struct sample *want, const struct sample *scale)
{
    const struct td_call *right = &want->run.call;
    sample_run(impl, &got->run.call);
    s->calls++;
    for (int i = 0; i < right->n_out; i++) {
        int64_t where = 0;
        double d = distance(&got->run.call.out[i], &right->out[i], &scale->run.call.out[i], &where);
        if (d <= right->op->ulp)
            continue;
        printf("not ok - %s: out%d[%lld] is %g, not %g: %.3g ulp off, %g allowed\n", s->what, i,
               (long long)where, td_get_real(&got->run.call.out[i], where),
               td_get_real(&right->out[i], where), d, right->op->ulp);
        s->failures++;
    }
}

/* A shape on all rows of its operator that take it. */
static void run_shape(struct shared *s, int op, const char *pattern, enum td_dtype dtype,
                      bool stored, int threads)
{
    struct sample want, scale, got;
    struct td_weight *weight = NULL;
    char why[100];
    int err = sample_init(&want, ops[op].op, pattern, (struct td_sizes){0}, dtype, 0, state);
    struct td_call *call = &want.run.call;
    if (!err && call->op->flops(call) <= MOST_FLOPS) {
        const struct td_impl *impl = call->op->impls;
        const struct td_impl *ref = impl;
        while (ref[1].run)
            ref++;
        sample_init(&scale, ops[op].op, pattern, (struct td_sizes){0}, dtype, SAMPLE_ABSOLUTE,
                    state);
        if (op < 2) /* none has a slope above 1 by much: errors stay those of the product */
            scale.run.call.arg[3] = (struct td_value){.kind = TD_KIND_str, .str = "none"};
        ref->run(call);
        ref->run(&scale.run.call);
        for (; impl < ref; impl++) {
            snprintf(s->what, sizeof s->what, "%s %s@%s,%s %s threads %d%s", ops[op].op, impl->name,
                     td_isa_name(impl->isa), pattern, td_dtype_name(dtype), threads,
                     stored ? " stored" : "");
            if (!(impl->dtypes & dtype) || !sample_runnable(impl, why))
                continue;
            sample_init(&got, ops[op].op, pattern, (struct td_sizes){0}, dtype, 0, state);
            struct td_tensor *arg = &got.run.call.arg[ops[op].weight].tensor;
            if (stored && !td_weight_create(&weight, arg, NULL))
                *arg = *td_weight_tensor(weight);
            got.run.call.threads = threads;
            if (sample_takes(impl, &got.run.call))
                run_row(s, impl, &got, &want, &scale);
            td_weight_unref(&weight);
            sample_fini(&got);
        }
        sample_fini(&scale);
    }
    sample_fini(&want);
}

static void run_case(struct shared *s, uint64_t seed)
{
    static const enum td_dtype types[] = {TD_f32, TD_bf16, TD_f16, TD_f64, TD_i64, TD_i8};
    struct pattern p;
    state = seed * 0x9e3779b97f4a7c15 + (uint64_t)s->at;
    for (int i = 0; i < 4; i++)
        pick(0, 1);
    int op = (int)pick(0, 4);
    enum td_dtype dtype = pick(0, 9) ? types[pick(0, 2)] : types[pick(0, 5)];
    make(&p, op);
    bool stored = pick(0, 1);
    run_shape(s, op, p.text, dtype, stored, (int)pick(1, 2));
}

int main(int argc, char **argv)
{
    uint64_t seed = 1;
    int cases = 2000, first = 0;
    for (int i = 1; i + 1 < argc; i += 2)
        if (!strcmp(argv[i], "--seed"))
            seed = strtoull(argv[i + 1], NULL, 0);
        else if (!strcmp(argv[i], "--cases"))
            cases = atoi(argv[i + 1]);
        else if (!strcmp(argv[i], "--first"))
            first = atoi(argv[i + 1]);
    struct shared *s =
        mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return 2;
    sample_start();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (s->at = first; s->at < cases; s->at++) {
        pid_t child = fork();
        if (!child) {
            for (; s->at < cases; s->at++)
                run_case(s, seed);
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) < 0)
            return 2;
        if (WIFSIGNALED(status)) {
            printf("not ok - %s: ended by signal %d, --seed %llu --first %d\n", s->what,
                   WTERMSIG(status), (unsigned long long)seed, s->at);
            s->failures++;
        }
    }
    printf("%d calls of %d shapes, %d failures, --seed %llu\n", s->calls, cases - first,
           s->failures, (unsigned long long)seed);
    td_registry_fini();
    return s->failures || !s->calls;
}
