/* Convolutions of 3x3 by fewer multiplications (kernels/convolution/convolution_winograd.c), at
 * each level, beside the reference: either order of channels, odd sizes, paddings, several
 * images, stored and plain weights, post-ops, infinities and NaN; and what they
 * say of their rounding. */
#include "kernels/elementwise.h"
#include "kernels/weight.h"
#include "tests/distance.h"
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int judged;

static uint64_t draw(uint64_t most)
{
    static uint64_t state = 11;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % (most + 1);
}

/* Has the call read its weight from a store. NULL: it is to come with the call. */
static struct td_weight *store(struct sample *s, bool stored)
{
    struct td_weight *weight = NULL;
    struct td_tensor *arg = &s->run.call.arg[1].tensor;
    if (stored) {
        ck_assert_int_eq(td_weight_create(&weight, arg, NULL), 0);
        *arg = *td_weight_tensor(weight);
    }
    return weight;
}

/* Puts n infinities into the input, and with five or more one into the weight: differences of
 * infinities are NaN where the formula has none; padding times an infinite weight is NaN in both.
 */
static void make_infinite(struct sample *s, int n)
{
    const struct td_tensor *input = &s->run.call.arg[0].tensor,
                           *weight = &s->run.call.arg[1].tensor;
    for (int i = 0; i < n; i++)
        ((float *)input->data)[(i + 1) * 7919 % td_numel(input)] = i % 2 ? INFINITY : -INFINITY;
    if (n >= 5)
        ((float *)weight->data)[997 % td_numel(weight)] = INFINITY;
}

static void judge_rows(const char *op, const char *pattern, enum sample_values values,
                       uint64_t seed)
{
    struct sample want, scale, got;
    struct td_sizes none = {0};
    int64_t where = 0;
    char why[100];
    int err = sample_init(&want, op, pattern, none, TD_f32, values, seed);
    ck_assert_msg(!err, "%s: %s", pattern, want.run.problem.text);
    sample_init(&scale, op, pattern, none, TD_f32, values | SAMPLE_ABSOLUTE, seed);
    const struct td_impl *rows = want.run.call.op->impls, *ref = rows;
    while (ref[1].run)
        ref++;
    int infinite = values & SAMPLE_SPECIAL ? 4 + (int)(seed / 2 % 2) : 0;
    make_infinite(&want, infinite);
    sample_run(ref, &want.run.call);
    sample_run(ref, &scale.run.call);
    for (const struct td_impl *row = rows; row < ref; row++)
        for (int how = 0; how < 4; how++) {
            if (!row->rounding || !sample_runnable(row, why))
                continue;
            sample_init(&got, op, pattern, none, TD_f32, values, seed);
            make_infinite(&got, infinite);
            struct td_weight *weight = store(&got, how & 1);
            got.run.call.threads = 1 + how / 2;
            ck_assert_msg(sample_takes(row, &got.run.call), "%s", pattern);
            sample_run(row, &got.run.call);
            double ulp = distance(&got.run.call.out[0], &want.run.call.out[0],
                                  &scale.run.call.out[0], &where);
            ck_assert_msg(ulp <= want.run.call.op->ulp,
                          "%s %s at %s%s: [%lld] is %g, not %g: %g ulp", op, pattern,
                          td_isa_name(row->isa), how & 1 ? " stored" : "", (long long)where,
                          td_get_real(&got.run.call.out[0], where),
                          td_get_real(&want.run.call.out[0], where), ulp);
            judged++;
            td_weight_unref(&weight);
            sample_fini(&got);
        }
    sample_fini(&scale);
    sample_fini(&want);
}

START_TEST(test_results)
{
    static const char *const posts[] = {"", " activation=relu", " activation=plus,relu others=[",
                                        " activation=relu,mul others=[1]"};
    sample_start();
    for (int i = 0; i < 24; i++) {
        char pattern[300], like[80], post[120];
        bool last = i & 1;
        int images = 1 + (int)draw(2), ins = 24 + (int)draw(i % 5 ? 20 : 60),
            outs = 24 + (int)draw(20);
        int padding[2] = {(int)draw(3), (int)draw(2)}, size[2];
        for (int d = 0; d < 2; d++)
            size[d] = 12 + (int)draw(i % 8 ? 9 : 30);
        snprintf(like, sizeof like, "%d,%d,%d,%d", images, size[0] + 2 * padding[0] - 2,
                 size[1] + 2 * padding[1] - 2, outs);
        snprintf(post, sizeof post, "%s%s%s", posts[last ? i / 2 % 4 : 0],
                 last && i / 2 % 4 == 2 ? like : "", last && i / 2 % 4 == 2 ? "]" : "");
        int n = snprintf(pattern, sizeof pattern, "input=[%d,%d,%d,%d]", images,
                         last ? size[0] : ins, size[last ? 1 : 0], last ? ins : size[1]);
        n += snprintf(pattern + n, sizeof pattern - (size_t)n, " weight=[%d,%d,3,3]", outs, ins);
        if (i / 2 % 2)
            n += snprintf(pattern + n, sizeof pattern - (size_t)n, " bias=[%d]", outs);
        snprintf(pattern + n, sizeof pattern - (size_t)n, " padding=[%d,%d]%s", padding[0],
                 padding[1], post);
        judge_rows(last ? "conv2d_channels_last" : "conv2d", pattern,
                   i % 6 > 3 ? SAMPLE_SPECIAL | SAMPLE_SMALL : SAMPLE_PLAIN, (uint64_t)i);
    }
    if (!judged)
        printf("not tried: this CPU has no level with such a kernel\n");
}
END_TEST

/* ---- what they say ---- */

static const struct td_impl *winograd(const struct td_call *call)
{
    char why[100];
    const struct td_impl *row = call->op->impls;
    while (row->run && !(row->rounding && sample_runnable(row, why)))
        row++;
    return row->run ? row : NULL;
}

/* For weights that are tap, by places, in every channel; 0: no row runs here. */
static double rounding(const float tap[9], bool last, bool stored)
{
    struct sample s;
    double rounding = 0;
    ck_assert_int_eq(sample_init(&s, last ? "conv2d_channels_last" : "conv2d",
                                 last ? "input=[1,12,12,25] weight=[26,25,3,3]"
                                      : "input=[1,25,12,12] weight=[26,25,3,3]",
                                 (struct td_sizes){0}, TD_f32, SAMPLE_PLAIN, 1),
                     0);
    float *weights = s.run.call.arg[1].tensor.data;
    for (int i = 0; i < 26 * 25 * 9; i++)
        weights[i] = tap[i % 9];
    struct td_weight *weight = store(&s, stored);
    const struct td_impl *row = winograd(&s.run.call);
    if (row) {
        ck_assert_double_eq(row->rounding(&s.run.call), 16); /* no form is packed yet */
        sample_run(row, &s.run.call);
        rounding = row->rounding(&s.run.call);
    }
    td_weight_unref(&weight);
    sample_fini(&s);
    return rounding;
}

/* By hand, from Lavin and Gray's matrices: weights that are all alike have products of 1, 3/2, 1/2
 * and 9/4, 3/4, 3/4, 1/4 of them, 9 in all beside their 9; a corner alone 1, 4 of 1/2, 4 of 1/4, 4
 * beside 1; the middle alone 4 of 1/4, 1 beside 1. Each is of four elements of self. */
START_TEST(test_rounding)
{
    static const float alike[9] = {2, 2, 2, 2, 2, 2, 2, 2, 2}, corner[9] = {0, 0, -3},
                       middle[9] = {0, 0, 0, 0, 5}, nothing[9] = {0};
    sample_start();
    if (!rounding(alike, false, true)) {
        printf("not tried: this CPU has no level with such a kernel\n");
        return;
    }
    for (int last = 0; last < 2; last++) {
        ck_assert_double_eq(rounding(alike, last, true), 4);
        ck_assert_double_eq(rounding(corner, last, true), 16);
        ck_assert_double_eq(rounding(middle, last, true), 4);
        ck_assert_double_eq(rounding(nothing, last, true), 1);
        ck_assert_double_eq(rounding(alike, last, false), 16); /* nothing is kept */
    }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_results, test_rounding};
    return td_run_tests("winograd", tests, 2);
}
