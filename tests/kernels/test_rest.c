/* kernels/weight_rest.c: stored weights whose plain elements rest and are had again, out of every
 * form that a row makes of them. */
#include "kernels/onednn/onednn.h"
#include "kernels/weight.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *op, *pattern;
    int weight; /* which argument it is */
} stored[] = {
    {"linear", "input=[5,131] weight=[87,131]", 1},
    {"linear", "input=[100,131] weight=[87,131] bias=[87]", 1},
    {"matmul", "self=[33,131] other=[131,87]", 1},
    {"matmul", "self=[2,20,64] other=[64,192]", 1},
    {"conv2d", "input=[1,19,9,9] weight=[45,19,3,3]", 1},
    {"conv2d", "input=[1,64,12,12] weight=[45,64,3,3]", 1},
    {"conv2d_channels_last", "input=[1,12,12,37] weight=[45,37,3,3]", 1},
    {"conv2d_channels_last", "input=[1,5,6,37] weight=[45,37,3,2] stride=2", 1},
    {"conv1d", "input=[1,19,7] weight=[70,19,5]", 1},
    {"conv2d", "input=[1,64,9,9] weight=[96,64,1,1]", 1},
    {"conv2d", "input=[1,36,9,9] weight=[72,12,5,3] groups=3 padding=2", 1},
    {"conv2d", "input=[1,640,9,9] weight=[640,1,3,3] groups=640", 1},
    {"conv1d", "input=[1,19,40] weight=[70,19,5]", 1},
    {"conv_transpose2d", "input=[1,40,5,5] weight=[40,24,3,3] stride=2", 1},
    {"linear_scaled", "input=[5,131] weight=[187,131]:INT8 scale=[187]", 1},
    {"dense_scaled", "input=[100,131] weight=[131,187]:INT8 scale=[187]", 1},
    {"matmul_integer", "A=[7,131] B=[131,187]", 1},
    {"matmul_integer", "A=[2,16,128] B=[128,192]", 1},
};
static const enum td_dtype types[] = {TD_f32, TD_bf16, TD_f16, TD_i8, TD_u8};

/* One page that is all in the weight's memory. */
static const char *page_of(const struct td_weight *w)
{
    return (const char *)(((uintptr_t)td_weight_tensor(w)->data + 4095) & ~(uintptr_t)4095);
}

static bool is_zero(const char *bytes)
{
    for (int i = 0; i < 4096; i++)
        if (bytes[i])
            return false;
    return true;
}

/* Whether the weight has rested, and come back as it was. */
static bool rests(struct td_weight *w, const struct td_tensor *was)
{
    const struct td_tensor *t = td_weight_tensor(w);
    td_weight_rest(w);
    bool rested = is_zero(page_of(w));
    td_weight_pin(w);
    const struct td_weight_form *form = td_weight_forms(w);
    for (size_t i = 0; i < td_nbytes(t); i++)
        ck_assert_msg(((const char *)t->data)[i] == ((const char *)was->data)[i],
                      "byte %zu from %s", i, form ? form->name : "nothing");
    td_weight_rest(w);
    ck_assert(!is_zero(page_of(w)));
    td_weight_unpin(w);
    return rested;
}

/* True: the row has read a form that there is a way back from. */
static bool run_row(struct sample *s, const struct td_impl *impl, int arg,
                    const struct td_tensor *was)
{
    struct td_call *call = &s->run.call;
    struct td_tensor *weight = &call->arg[arg].tensor, *out = &call->out[0];
    struct td_weight *w = NULL;
    char *first = malloc(td_nbytes(out));
    ck_assert_int_eq(td_weight_create(&w, was, NULL), 0);
    *weight = *td_weight_tensor(w);
    td_weight_forget();
    sample_run(impl, call);
    memcpy(first, out->data, td_nbytes(out));
    bool took = td_weight_taken() == w;
    ck_assert_msg(rests(w, was) == took, "%s by %s", call->op->schema, impl->name);
    td_weight_rest(w); /* and is not asked for again */
    memset(out->data, 0xff, td_nbytes(out));
    sample_run(impl, call);
    ck_assert_msg(!memcmp(first, out->data, td_nbytes(out)), "%s by %s", call->op->schema,
                  impl->name);
    ck_assert(is_zero(page_of(w)) == took);
    free(first);
    td_weight_unref(&w);
    return took;
}

START_TEST(test_every_form)
{
    int taken = 0;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        struct sample s;
        char why[100];
        bool whole = !strcmp(stored[_i].op, "matmul_integer"),
             scaled = strstr(stored[_i].op, "_scaled");
        if (whole != (types[t] == TD_i8 || types[t] == TD_u8) || (scaled && types[t] != TD_f32))
            continue;
        sample_start();
        int err = sample_init(&s, stored[_i].op, stored[_i].pattern, (struct td_sizes){0}, types[t],
                              SAMPLE_PLAIN, 7);
        ck_assert_msg(!err, "%s: %s", stored[_i].op, s.run.problem.text);
        struct td_tensor was = s.run.call.arg[stored[_i].weight].tensor;
        for (int odd = 0; odd <= (types[t] == TD_f16); odd++) {
            if (odd) /* a signalling NaN, which FP32 would make a quiet one of */
                ((uint16_t *)was.data)[5] = 0x7d01;
            for (const struct td_impl *i = s.run.call.op->impls; i->run; i++) {
                s.run.call.arg[stored[_i].weight].tensor = was;
                if (i->dtypes & types[t] && sample_runnable(i, why) && sample_takes(i, &s.run.call))
                    taken += run_row(&s, i, stored[_i].weight, &was);
            }
        }
        sample_fini(&s);
    }
    if (td_cpu()->levels >> TD_ISA_avx2 & 1)
        ck_assert_msg(taken, "%s: no row has packed its weight", stored[_i].pattern);
    else if (!taken)
        printf("not tried: %s: no row packs its weight without AVX2\n", stored[_i].pattern);
    td_onednn_forget();
}
END_TEST

/* ---- what there is no way back from, and what wants plain elements ---- */

static int fill(void *packed, const struct td_tensor *plain, void *arg)
{
    (void)arg;
    memcpy(packed, plain->data, td_nbytes(plain));
    return 0;
}

static void undo(const struct td_tensor *plain, const void *packed, const void *key)
{
    ck_assert(!memcmp(key, "with", 4));
    memcpy(plain->data, packed, td_nbytes(plain));
}

static struct td_weight *make(void)
{
    static float data[4096];
    struct td_tensor like = {.data = data, .dtype = TD_f32, .rank = 1, .shape = {4096}};
    struct td_weight *w = NULL;
    for (int i = 0; i < 4096; i++)
        data[i] = (float)(i + 1);
    ck_assert_int_eq(td_weight_create(&w, &like, NULL), 0);
    return w;
}

START_TEST(test_ways_back)
{
    struct td_weight *w = make();
    const float *data = td_weight_tensor(w)->data;
    td_weight_forget();
    ck_assert_ptr_nonnull(td_weight_pack(w, "none", 4, "none", 16384, fill, NULL, NULL));
    ck_assert_ptr_null(td_weight_taken());
    td_weight_rest(w); /* there is none */
    ck_assert(!is_zero(page_of(w)));
    ck_assert_ptr_nonnull(td_weight_pack(w, "with", 4, "with", 16384, fill, NULL, undo));
    ck_assert_ptr_eq(td_weight_taken(), w);
    td_weight_rest(w);
    ck_assert(is_zero(page_of(w)));
    const float *other = td_weight_pack(w, "more", 4, "more", 16384, fill, NULL, NULL);
    ck_assert_float_eq(other[2047], 2048); /* a new form is made of the elements */
    td_weight_rest(w);
    struct td_weight *there = td_weight_on(w, 1);
    ck_assert_float_eq(((float *)td_weight_tensor(there)->data)[2047], 2048);
    td_weight_rest(w);
    struct td_weight *as = td_weight_as(w, TD_i32);
    ck_assert_int_eq(td_weight_convert(as, fill, NULL), 0);
    ck_assert_float_eq(((float *)td_weight_tensor(as)->data)[2047], 2048);
    td_weight_rest(w);
    float *once = td_weight_pack_once(w, 16384, fill, NULL);
    ck_assert_float_eq(once[2047], 2048);
    td_weight_unpack(w, once, 16384);
    td_weight_rest(w);
    td_weight_pin(w);
    td_weight_pin(w);
    td_weight_unpin(w);
    td_weight_rest(w); /* one pin is left */
    ck_assert_float_eq(data[2047], 2048);
    td_weight_unpin(w);
    td_weight_unref(&w);
}
END_TEST

static void *use(void *arg)
{
    struct td_weight *w = arg;
    for (int i = 0; i < 2000; i++) {
        td_weight_pin(w);
        for (int k = 0; k < 4096; k += 97)
            ck_assert_float_eq(((float *)td_weight_tensor(w)->data)[k], (float)(k + 1));
        td_weight_unpin(w);
        td_weight_rest(w);
    }
    return NULL;
}

START_TEST(test_threads)
{
    struct td_weight *w = make();
    pthread_t other;
    td_weight_pack(w, "with", 4, "with", 16384, fill, NULL, undo);
    ck_assert_int_eq(pthread_create(&other, NULL, use, w), 0);
    use(w);
    pthread_join(other, NULL);
    td_weight_unref(&w);
}
END_TEST

int main(void)
{
    TCase *c = tcase_create("rest");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, test_every_form, 0, (int)(sizeof stored / sizeof *stored));
    tcase_add_test(c, test_ways_back);
    tcase_add_test(c, test_threads);
    Suite *suite = suite_create("rest");
    suite_add_tcase(suite, c);
    return td_run_suite(suite);
}
