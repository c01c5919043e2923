/* Convolutions of several channels whose rows are laid out
 * (kernels/convolution/convolution_laid.c) or whose elements are picked out, at each level, beside
 * a sum over one element after the other: groups, each number of output channels that blocks leave
 * over, strides to 4, dilations, paddings, widths beside whole vectors, and more rows than one
 * strip has. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct shape {
    int images, groups, ins, outs; /* channels of a group */
    int in[2], kernel[2], stride[2], padding[2], dilation[2];
};

static int judged;

static double number(const struct td_tensor *t, int64_t at)
{
    uint32_t bits;
    float v;
    if (t->dtype == TD_f32)
        return (double)((const float *)t->data)[at];
    bits = (uint32_t)((const uint16_t *)t->data)[at] << 16;
    memcpy(&v, &bits, sizeof v);
    return (double)v;
}

static int out_of(const struct shape *s, int d)
{
    return (s->in[d] + 2 * s->padding[d] - s->dilation[d] * (s->kernel[d] - 1) - 1) / s->stride[d] +
           1;
}

/* Result (y, x) of output channel `channel`, counted over all groups; size: that of its terms. */
static double value_of(const struct td_call *call, const struct shape *s, int image, int channel,
                       int y, int x, double *size)
{
    const struct td_tensor *in = &call->arg[0].tensor, *weight = &call->arg[1].tensor;
    double sum = number(&call->arg[2].tensor, channel);
    *size = fabs(sum);
    for (int c = 0; c < s->ins; c++)
        for (int i = 0; i < s->kernel[0]; i++)
            for (int j = 0; j < s->kernel[1]; j++) {
                int row = y * s->stride[0] - s->padding[0] + i * s->dilation[0];
                int column = x * s->stride[1] - s->padding[1] + j * s->dilation[1];
                int plane = (image * s->groups + channel / s->outs) * s->ins + c;
                if (row < 0 || row >= s->in[0] || column < 0 || column >= s->in[1])
                    continue;
                double v = number(in, (plane * s->in[0] + row) * s->in[1] + column);
                v *= number(weight, ((channel * s->ins + c) * s->kernel[0] + i) * s->kernel[1] + j);
                sum += v;
                *size += fabs(v);
            }
    return sum;
}

static void judge(const struct shape *s, enum td_dtype type, const char *level)
{
    char pattern[300];
    struct sample sample;
    int channels = s->groups * s->outs, height = out_of(s, 0), width = out_of(s, 1);
    snprintf(pattern, sizeof pattern,
             "input=[%d,%d,%d,%d] weight=[%d,%d,%d,%d] bias=[%d] stride=[%d,%d] padding=[%d,%d] "
             "dilation=[%d,%d] groups=%d",
             s->images, s->groups * s->ins, s->in[0], s->in[1], channels, s->ins, s->kernel[0],
             s->kernel[1], channels, s->stride[0], s->stride[1], s->padding[0], s->padding[1],
             s->dilation[0], s->dilation[1], s->groups);
    int err = sample_init(&sample, "conv2d", pattern, (struct td_sizes){0}, type, SAMPLE_PLAIN, 7);
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!sample_is_simd(impl, call, level))
            continue;
        memset(call->out[0].data, 0x77, td_nbytes(&call->out[0]));
        ck_assert_int_eq(sample_run(impl, call), 0);
        for (int i = 0; i < s->images * channels * height * width; i++) {
            int plane = i / width / height;
            double size, want = value_of(call, s, plane / channels, plane % channels,
                                         i / width % height, i % width, &size);
            double got = number(&call->out[0], i);
            double most = 2e-6 * size + (type == TD_bf16 ? fabs(want) / 256 : 0);
            ck_assert_msg(fabs(got - want) <= most, "%s %s at %s: %d is %g, not %g", pattern,
                          td_dtype_name(type), level, i, got, want);
        }
        judged++;
    }
    sample_fini(&sample);
}

/* Each dimension of a case goes round on its own. */
START_TEST(test_channels)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    static const int outs[] = {1, 2, 3, 4, 5, 7, 8, 11, 12, 13, 20, 24, 27};
    static const int widths[] = {24, 30, 31, 32, 47, 48, 61, 64, 80, 100, 129};
    sample_start();
    for (int i = 0; i < 143; i++) {
        struct shape s = {.images = 1 + i % 5 / 4,
                          .groups = 1 + i % 7 / 5 * 2,
                          .ins = 2 + i % 9,
                          .outs = outs[i % 13],
                          .kernel = {1 + i % 4, 1 + i / 2 % 5},
                          .stride = {1 + i / 3 % 3, 1 + i / 5 % 4},
                          .dilation = {1 + i / 7 % 2, 1 + i / 4 % 3}};
        s.padding[0] = i / 6 % 3;
        s.padding[1] = i / 8 % 2 * s.dilation[1] * (s.kernel[1] - 1);
        s.in[0] = s.dilation[0] * (s.kernel[0] - 1) + 1 + i % 23;
        s.in[1] = widths[i % 11] * s.stride[1] + i % 3;
        judge(&s, i % 8 == 3 ? TD_bf16 : TD_f32, levels[i % 3]);
    }
    for (int k = 0; k < 3; k++) /* of more rows than one strip has */
        judge(
            &(struct shape){1, 1, 40, 14, {50, 70}, {3, 3}, {1 + k % 2, 1 + k % 2}, {1, 1}, {1, 1}},
            TD_f32, levels[k]);
    ck_assert_int_ge(judged, 48); /* those of DEFAULT */
}
END_TEST

/* Kernels of one position with a stride: what they read is picked out for a product. */
START_TEST(test_picked)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    judged = 0;
    sample_start();
    for (int i = 0; i < 48; i++) {
        struct shape s = {.images = 1 + i % 2,
                          .groups = 1,
                          .ins = 1 + i % 11 * 3,
                          .outs = 1 + i % 7 * 5,
                          .kernel = {1, 1},
                          .stride = {1 + i % 3, 2 + i / 2 % 2},
                          .dilation = {1, 1},
                          .in = {1 + i % 13, 2 + i % 29}};
        judge(&s, i % 4 == 3 ? TD_bf16 : TD_f32, levels[i % 3]);
    }
    ck_assert_int_ge(judged, 16);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_channels, test_picked};
    return td_run_tests("laid", tests, 2);
}
