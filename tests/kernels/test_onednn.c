/* kernels/onednn/onednn.c: primitives that are kept, run on other threads, pushed out and made
 * again; stored weights that are packed once; a library that is capped only in time. */
#include "kernels/onednn/onednn.h"
#include "kernels/weight.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <errno.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct td_impl *row(const struct td_call *call, const char *name)
{
    for (const struct td_impl *i = call->op->impls; i->run; i++)
        if (!strcmp(i->name, name))
            return i;
    ck_abort_msg("no row %s", name);
}

static void bind(struct sample *s, const char *op, const char *pattern, struct td_sizes sizes)
{
    sample_start();
    int err = sample_init(s, op, pattern, sizes, TD_f32, SAMPLE_PLAIN, 5);
    ck_assert_msg(!err, "%s %s: %s", op, pattern, s->run.problem.text);
}

/* Both rows on the same call, element for element within a ten-thousandth. */
static void same_as_ref(struct sample *s)
{
    struct td_call *call = &s->run.call;
    int64_t n = td_numel(&call->out[0]);
    float *want = malloc((size_t)n * sizeof *want), *got = call->out[0].data;
    row(call, "ref")->run(call);
    memcpy(want, got, (size_t)n * sizeof *want);
    memset(got, 0xff, (size_t)n * sizeof *want);
    ck_assert(sample_takes(row(call, "onednn"), call));
    sample_run(row(call, "onednn"), call);
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(fabsf(got[i] - want[i]) <= 1e-4f * (1 + fabsf(want[i])),
                      "element %lld is %g, not %g", (long long)i, (double)got[i], (double)want[i]);
    free(want);
}

/* ---- stored weights ---- */

static int count_forms(const struct td_weight *w)
{
    int n = 0;
    for (const struct td_weight_form *f = td_weight_forms(w); f; f = f->next, n++)
        ck_assert_msg(!strncmp(f->name, "onednn ", 7) && f->bytes, "form '%s'", f->name);
    return n;
}

static const struct {
    const char *op, *pattern;
    int weight, most, forms; /* which argument it is; n, and its forms in the end, at most */
} stored[] = {
    {"linear", "input=[n,64] weight=[48,64] bias=[48] activation=relu", 1, 7, 2},
    {"linear", "input=[2,n,33] weight=[35,33]", 1, 7, 2},
    {"linear", "input=[n,64] weight=[384,64] bias=[384]", 1, 300, 1},
    {"matmul", "self=[n,40] other=[40,250]", 1, 300, 1},
    {"conv2d", "input=[n,16,9,9] weight=[24,16,3,3] bias=[24] padding=1", 1, 7, 2},
    {"conv2d", "input=[n,16,9,9] weight=[32,4,3,3] groups=4 stride=2", 1, 7, 2},
    {"convolution_backward",
     "grad_output=[n,24,9,9] input=[n,16,9,9] weight=[24,16,3,3] bias_sizes=[24] stride=[1,1] "
     "padding=[1,1] dilation=[1,1] transposed=False output_padding=[0,0] groups=1 "
     "output_mask=[True,True,True]",
     2, 7, 2},
};

START_TEST(test_stored)
{
    struct td_weight *w = NULL;
    int forms = 0;
    for (int64_t n = 1; n <= stored[_i].most; n = 6 * n + 1) {
        struct sample s;
        bind(&s, stored[_i].op, stored[_i].pattern, (struct td_sizes){n});
        struct td_tensor *weight = &s.run.call.arg[stored[_i].weight].tensor;
        if (!w)
            ck_assert_int_eq(td_weight_create(&w, weight, NULL), 0);
        *weight = *td_weight_tensor(w);
        same_as_ref(&s);
        int now = count_forms(w);
        same_as_ref(&s);
        ck_assert_int_eq(count_forms(w), now); /* found again, not made again */
        ck_assert_int_le(now, forms + 1);
        forms = now;
        sample_fini(&s);
    }
    ck_assert_int_le(forms, stored[_i].forms);
    td_weight_unref(&w);
    td_onednn_forget();
}
END_TEST

/* A store without room for forms: each call makes its own and gives it back. */
struct tight {
    struct td_weight_room room;
    size_t kept, once;
    int n_once;
    bool full;
};

static int take(struct td_weight_room *room, size_t bytes, bool kept)
{
    struct tight *tight = (struct tight *)room;
    if (kept && tight->full)
        return -ENOSPC;
    *(kept ? &tight->kept : &tight->once) += bytes;
    tight->n_once += !kept;
    return 0;
}

static void give(struct td_weight_room *room, size_t bytes, bool kept)
{
    struct tight *tight = (struct tight *)room;
    *(kept ? &tight->kept : &tight->once) -= bytes;
}

START_TEST(test_stored_without_room)
{
    struct tight tight = {.room = {take, give}};
    struct td_weight *w;
    struct sample s;
    bind(&s, stored[_i].op, stored[_i].pattern, (struct td_sizes){5});
    struct td_tensor *weight = &s.run.call.arg[stored[_i].weight].tensor;
    ck_assert_int_eq(td_weight_create(&w, weight, &tight.room), 0);
    ck_assert_uint_eq(tight.kept, td_weight_bytes(w));
    *weight = *td_weight_tensor(w);
    tight.full = true;
    same_as_ref(&s);
    same_as_ref(&s);
    ck_assert_ptr_null(td_weight_forms(w));
    ck_assert_int_eq(tight.n_once % 2, 0);
    ck_assert_uint_eq(tight.once, 0);
    int n_once = tight.n_once;
    tight.full = false;
    same_as_ref(&s);
    ck_assert_int_eq(count_forms(w) > 0, n_once > 0); /* it wants one, or there is no need */
    ck_assert_int_eq(tight.n_once, n_once);
    ck_assert_uint_eq(tight.kept, td_weight_bytes(w));
    td_weight_unref(&w);
    ck_assert_uint_eq(tight.kept, 0);
    sample_fini(&s);
    td_onednn_forget();
}
END_TEST

/* ---- threads ---- */

struct shared {
    struct sample sample;
    atomic_int wrong;
};

static void *run_often(void *arg)
{
    struct shared *shared = arg;
    struct td_call call = shared->sample.run.call;
    struct td_tensor out = call.out[0];
    struct td_prepared prepared = {0};
    const struct td_impl *onednn = row(&call, "onednn");
    size_t bytes = td_nbytes(&out);
    shared->wrong += onednn->prepare(&call, &prepared) != NULL;
    call.out = &out;
    call.prepared = &prepared;
    call.scratch = aligned_alloc(64, (prepared.scratch + 127) & ~(size_t)63);
    out.data = malloc(bytes);
    for (int i = 0; i < 100; i++) {
        memset(out.data, 0xff, bytes);
        onednn->run(&call);
        shared->wrong += memcmp(out.data, shared->sample.run.call.out[0].data, bytes) != 0;
    }
    td_prepared_release(&prepared);
    free(out.data);
    free(call.scratch);
    return NULL;
}

START_TEST(test_threads)
{
    static const char *const patterns[] = {
        "input=[20,100] weight=[30,100] bias=[30] activation=gelu",
        "input=[2,8,14,14] weight=[16,8,3,3] padding=1"};
    static struct shared shared;
    pthread_t thread[6];
    bind(&shared.sample, _i ? "conv2d" : "linear", patterns[_i], (struct td_sizes){0});
    same_as_ref(&shared.sample); /* leaves the library's result: the others must hit every bit */
    for (int i = 0; i < 6; i++)
        ck_assert_int_eq(pthread_create(&thread[i], NULL, run_often, &shared), 0);
    for (int i = 0; i < 6; i++)
        pthread_join(thread[i], NULL);
    ck_assert_int_eq(shared.wrong, 0);
    sample_fini(&shared.sample);
    td_onednn_forget();
}
END_TEST

START_TEST(test_team)
{
    struct sample s;
    bind(&s, "linear", "input=[64,300] weight=[200,300] bias=[200]", (struct td_sizes){0});
    for (int threads = 1; threads <= 3; threads++) {
        s.run.call.threads = threads;
        same_as_ref(&s);
    }
    sample_fini(&s);
}
END_TEST

/* ---- the memory of primitives ---- */

START_TEST(test_many_shapes)
{
    for (int round = 0; round < 2; round++)
        for (int64_t n = 1; n < 1500; n += round ? 7 : 1) {
            struct sample s;
            bind(&s, "linear", "input=[n,3] weight=[2,3]", (struct td_sizes){n});
            same_as_ref(&s);
            sample_fini(&s);
        }
    td_onednn_forget();
}
END_TEST

/* Makes the primitive of a convolution of so many channels, again where it has been made before. */
static void convolve(int64_t channels, int64_t side)
{
    struct sample s;
    td_onednn_forget();
    bind(&s, "conv2d", "input=[1,m,n,n] weight=[m,m,3,3]", (struct td_sizes){side, channels, 0});
    ck_assert(sample_takes(row(&s.run.call, "onednn"), &s.run.call));
    sample_fini(&s);
}

/* Bytes that malloc has given out, but for what the sanitizers' does. */
static size_t in_use(void)
{
    td_onednn_forget();
    return mallinfo2().uordblks + mallinfo2().hblkhd;
}

/* Before 3.4 the library frees no brgemm kernel of a convolution. */
START_TEST(test_nothing_stays)
{
    convolve(16, 12);
    size_t before = in_use();
    for (int i = 0; i < 200; i++)
        convolve(16, 12);
    ck_assert_uint_le(in_use(), before + (256 << 10)); /* it was 1.4 MB */
    for (int i = 0; i < 1100; i++)
        convolve(8 + i % 22, 6 + i / 22);
    before = in_use();
    for (int i = 0; i < 200; i++)
        convolve(8 + i % 10, 70 + i / 10);
    ck_assert_uint_le(in_use(), before + (256 << 10)); /* it was 2 MB */
}
END_TEST

static size_t held;
static bool full;

static int take_counted(struct td_weight_room *room, size_t bytes, bool kept)
{
    ck_assert(room && !kept);
    held += full ? 0 : bytes;
    return full ? -ENOMEM : 0;
}

static void give_counted(struct td_weight_room *room, size_t bytes, bool kept)
{
    ck_assert(room && !kept);
    held -= bytes;
}

START_TEST(test_counted)
{
    static struct td_weight_room room = {take_counted, give_counted};
    struct sample s;
    td_onednn_forget();
    td_onednn_count(&room);
    bind(&s, "linear", "input=[64,300] weight=[200,300] bias=[200]", (struct td_sizes){0});
    same_as_ref(&s);
    ck_assert_uint_ge(held, 32 << 10);
    ck_assert_uint_eq(td_onednn_bytes(), held);
    td_onednn_forget();
    ck_assert_uint_eq(held, 0);
    full = true;
    ck_assert(!sample_takes(row(&s.run.call, "onednn"), &s.run.call)); /* another row does it */
    ck_assert_uint_eq(td_onednn_bytes(), 0);
    sample_fini(&s);
}
END_TEST

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The best of many rounds, so that a busy machine does not matter: 200 ns is what it may cost. */
static double look_up_ns(const struct td_call *call)
{
    const struct td_impl *onednn = row(call, "onednn");
    double best = 1;
    sample_takes(onednn, call);
    for (int i = 0; i < 200; i++) {
        double begin = seconds();
        for (int j = 0; j < 100; j++)
            sample_takes(onednn, call);
        double took = (seconds() - begin) / 100;
        best = took < best ? took : best;
    }
    return best * 1e9;
}

START_TEST(test_look_up)
{
    struct sample s;
    bind(&s, "linear", "input=[8,16] weight=[4,16]", (struct td_sizes){0});
    double found = look_up_ns(&s.run.call);
    s.run.call.arg[0].tensor.dtype = s.run.call.arg[1].tensor.dtype = TD_f64;
    s.run.call.out[0].dtype = TD_bf16; /* no primitive mixes these: remembered as such */
    double refused = look_up_ns(&s.run.call);
    printf("# a primitive is found in %.0f ns, a refusal in %.0f ns\n", found, refused);
    sample_fini(&s);
}
END_TEST

START_TEST(test_refuses)
{
    struct sample s;
    bind(&s, "linear", "input=[n,16] weight=[4,16]", (struct td_sizes){0});
    ck_assert(!sample_takes(row(&s.run.call, "onednn"), &s.run.call)); /* nothing to compute */
    sample_fini(&s);
    bind(&s, "linear", "input=[3,n] weight=[4,n]", (struct td_sizes){0});
    ck_assert(!sample_takes(row(&s.run.call, "onednn"), &s.run.call));
    sample_fini(&s);
    bind(&s, "conv2d", "input=[1,n,5,5] weight=[4,n,3,3]", (struct td_sizes){0});
    ck_assert(!sample_takes(row(&s.run.call, "onednn"), &s.run.call));
    sample_fini(&s);
    /* of one row only padding is ever seen: on AMX the library crashes making the primitive */
    bind(&s, "conv2d", "input=[1,6,n,16] weight=[9,6,2,3] padding=[2,3] dilation=[3,2]",
         (struct td_sizes){1});
    ck_assert(!sample_takes(row(&s.run.call, "onednn"), &s.run.call));
    sample_fini(&s);
    bind(&s, "conv2d", "input=[1,6,n,16] weight=[9,6,2,3] padding=[2,3] dilation=[3,2]",
         (struct td_sizes){2});
    same_as_ref(&s);
    sample_fini(&s);
}
END_TEST

/* ---- the library ---- */

START_TEST(test_cap)
{
    ck_assert_int_eq(td_onednn_cap(TD_ISAS), 0);
    ck_assert_int_eq(td_onednn_cap(TD_ISA_default), 0);
    ck_assert_int_eq(td_onednn_isa(), TD_ISA_default);
    ck_assert_str_eq(td_onednn_isa_name(), "sse41");
    ck_assert_int_eq(td_onednn_cap(TD_ISA_avx2), -EBUSY);
    ck_assert_int_eq(td_onednn_isa(), TD_ISA_default);
}
END_TEST

START_TEST(test_library)
{
    ck_assert_msg(atof(td_onednn_version()) >= 3.2, "%s", td_onednn_version());
    ck_assert_int_lt(td_onednn_isa(), TD_ISAS);
    ck_assert_int_gt(strlen(td_onednn_isa_name()), 2);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("onednn");
    TCase *tcase = tcase_create("onednn");
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_stored_without_room, 0, (int)(sizeof stored / sizeof *stored));
    tcase_add_loop_test(tcase, test_stored, 0, sizeof stored / sizeof *stored);
    tcase_add_loop_test(tcase, test_threads, 0, 2);
    tcase_add_test(tcase, test_team);
    tcase_add_test(tcase, test_many_shapes);
    tcase_add_test(tcase, test_nothing_stays);
    tcase_add_test(tcase, test_counted);
    tcase_add_test(tcase, test_look_up);
    tcase_add_test(tcase, test_refuses);
    tcase_add_test(tcase, test_cap);
    tcase_add_test(tcase, test_library);
    suite_add_tcase(suite, tcase);
    return td_run_suite(suite);
}
