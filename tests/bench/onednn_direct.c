/* What our way to oneDNN costs: linear as the operator runs it (bound, selected and executed as a
 * request would) beside a bare dnnl_primitive_execute on the same data with the same packed weight.
 * The two take turns, in batches of about a millisecond, and which goes first changes; a line shows
 * both medians and the median of the ratios. With --step ours is a step (dispatch/step/step.h), for
 * which all but the execution is done before.
 *
 *   onednn_direct [--step] [M K N]...     exit status 1 when a ratio is above 1.03
 *
 * Run it on a quiet core: OMP_NUM_THREADS=1 taskset -c 1 onednn_direct */
#include "dispatch/step/step.h"
#include "kernels/weight.h"

#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 301
#define ALLOWED 1.03

#define MUST(call)                                                                                 \
    do {                                                                                           \
        if (call) {                                                                                \
            fprintf(stderr, "%s failed\n", #call);                                                 \
            exit(2);                                                                               \
        }                                                                                          \
    } while (0)

struct direct {
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[5];
};

static void *filled(int64_t n)
{
    float *p = aligned_alloc(64, ((size_t)n * 4 + 127) & ~(size_t)63);
    for (int64_t i = 0; i < n; i++)
        p[i] = (float)(i % 23) * 0.0625f - 0.5f;
    return p;
}

static dnnl_memory_t memory(dnnl_engine_t engine, const_dnnl_memory_desc_t md, void *data)
{
    dnnl_memory_t m;
    if (!data)
        data = aligned_alloc(64, (dnnl_memory_desc_get_size(md) + 127) & ~(size_t)63);
    MUST(dnnl_memory_create(&m, md, engine, data));
    return m;
}

/* An inner product with the weight's layout left to the library, as anybody would write it. */
static void direct_init(struct direct *d, const int64_t mkn[3], void *x, void *w, void *b, void *y)
{
    dnnl_engine_t engine;
    dnnl_memory_desc_t src, any, plain, bias, dst;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd, pack_pd;
    dnnl_primitive_t pack;
    dnnl_dims_t s = {mkn[0], mkn[1]}, ws = {mkn[2], mkn[1]}, o = {mkn[0], mkn[2]}, n = {mkn[2]};
    MUST(dnnl_engine_create(&engine, dnnl_cpu, 0));
    MUST(dnnl_stream_create(&d->stream, engine, dnnl_stream_default_flags));
    MUST(dnnl_memory_desc_create_with_tag(&src, 2, s, dnnl_f32, dnnl_ab));
    MUST(dnnl_memory_desc_create_with_tag(&any, 2, ws, dnnl_f32, dnnl_format_tag_any));
    MUST(dnnl_memory_desc_create_with_tag(&plain, 2, ws, dnnl_f32, dnnl_ab));
    MUST(dnnl_memory_desc_create_with_tag(&bias, 1, n, dnnl_f32, dnnl_a));
    MUST(dnnl_memory_desc_create_with_tag(&dst, 2, o, dnnl_f32, dnnl_ab));
    MUST(dnnl_primitive_attr_create(&attr));
    MUST(dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user));
    MUST(dnnl_inner_product_forward_primitive_desc_create(&pd, engine, dnnl_forward_inference, src,
                                                          any, bias, dst, attr));
    MUST(dnnl_primitive_create(&d->primitive, pd));
    const_dnnl_memory_desc_t packed = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    dnnl_memory_t from = memory(engine, plain, w), to = memory(engine, packed, NULL);
    MUST(dnnl_reorder_primitive_desc_create(&pack_pd, plain, engine, packed, engine, NULL));
    MUST(dnnl_primitive_create(&pack, pack_pd));
    dnnl_exec_arg_t reorder[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    MUST(dnnl_primitive_execute(pack, d->stream, 2, reorder));
    const_dnnl_memory_desc_t pad = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    d->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory(engine, src, x)};
    d->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, to};
    d->args[2] = (dnnl_exec_arg_t){DNNL_ARG_BIAS, memory(engine, bias, b)};
    d->args[3] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory(engine, dst, y)};
    d->args[4] = (dnnl_exec_arg_t){DNNL_ARG_SCRATCHPAD, memory(engine, pad, NULL)};
}

static bool by_step;

struct ours {
    struct td_run run;
    struct td_step *step;
    void *scratch;
};

static void *from_heap(void *arg, size_t bytes)
{
    (void)arg;
    return malloc(bytes);
}

static void ours_init(struct ours *o, const int64_t mkn[3], void *x, void *w, void *b, void *y)
{
    struct td_tensor input = {x, TD_f32, 2, {mkn[0], mkn[1]}, NULL};
    struct td_tensor weight = {w, TD_f32, 2, {mkn[2], mkn[1]}, NULL};
    struct td_tensor bias = {b, TD_f32, 1, {mkn[2]}, NULL};
    struct td_weight *stored;
    size_t bytes;
    MUST(td_weight_create(&stored, &weight, NULL));
    struct td_named args[] = {
        {"input", {.kind = TD_KIND_tensor, .tensor = input}},
        {"weight", {.kind = TD_KIND_tensor, .tensor = *td_weight_tensor(stored)}},
        {"bias", {.kind = TD_KIND_tensor, .tensor = bias}}};
    MUST(td_run_bind(&o->run, "linear", args, 3, NULL));
    o->run.forced = "onednn";
    MUST(td_run_select(&o->run, &bytes));
    o->run.call.out[0].data = y;
    MUST(td_step_make(&o->step, &o->run, from_heap, NULL));
    if (td_step_scratch(o->step) > bytes)
        bytes = td_step_scratch(o->step);
    o->scratch = aligned_alloc(64, (bytes + 127) & ~(size_t)63);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double time_direct(const struct direct *d, int times)
{
    double begin = seconds();
    for (int i = 0; i < times; i++) {
        MUST(dnnl_primitive_execute(d->primitive, d->stream, 5, d->args));
        MUST(dnnl_stream_wait(d->stream));
    }
    return (seconds() - begin) / times;
}

static double time_ours(struct ours *o, int times)
{
    size_t bytes;
    double begin = seconds();
    for (int i = 0; i < times && by_step; i++)
        MUST(td_step_execute(o->step, o->scratch, NULL));
    for (int i = 0; i < times && !by_step; i++) {
        MUST(td_run_select(&o->run, &bytes));
        td_run_execute(&o->run, o->scratch);
    }
    return (seconds() - begin) / times;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *v)
{
    qsort(v, ROUNDS, sizeof *v, by_value);
    return v[ROUNDS / 2];
}

static bool compare(const int64_t mkn[3])
{
    static double direct[ROUNDS], ours[ROUNDS], ratio[ROUNDS];
    struct direct d;
    struct ours o;
    void *x = filled(mkn[0] * mkn[1]), *w = filled(mkn[1] * mkn[2]), *b = filled(mkn[2]);
    void *y1 = filled(mkn[0] * mkn[2]), *y2 = filled(mkn[0] * mkn[2]);
    direct_init(&d, mkn, x, w, b, y1);
    ours_init(&o, mkn, x, w, b, y2);
    time_direct(&d, 3);
    time_ours(&o, 3);
    if (memcmp(y1, y2, (size_t)(mkn[0] * mkn[2]) * 4)) {
        fprintf(stderr, "the results differ\n");
        exit(2);
    }
    int times = (int)(1e-3 / time_direct(&d, 3)) + 1;
    for (int i = 0; i < ROUNDS; i++) {
        if (i % 2)
            direct[i] = time_direct(&d, times);
        ours[i] = time_ours(&o, times);
        if (i % 2 == 0)
            direct[i] = time_direct(&d, times);
        ratio[i] = ours[i] / direct[i];
    }
    double r = median(ratio);
    printf("linear %lldx%lldx%lld: direct %.2f us, ours %.2f us, ratio %.4f, %.2f allowed\n",
           (long long)mkn[0], (long long)mkn[1], (long long)mkn[2], median(direct) * 1e6,
           median(ours) * 1e6, r, ALLOWED);
    return r <= ALLOWED;
}

int main(int argc, char **argv)
{
    static const int64_t standard[][3] = {{128, 768, 768}, {1, 768, 768}};
    struct td_problem problem;
    bool good = true;
    MUST(td_cpu_init(getenv("TENSORD_CPU_CAPABILITY"), &problem));
    MUST(td_registry_init(&problem));
    by_step = argc > 1 && !strcmp(argv[1], "--step");
    argc -= by_step;
    argv += by_step;
    for (int i = 1; i + 2 < argc; i += 3)
        good &= compare((int64_t[]){atoll(argv[i]), atoll(argv[i + 1]), atoll(argv[i + 2])});
    for (int i = 0; argc == 1 && i < 2; i++)
        good &= compare(standard[i]);
    return !good;
}
