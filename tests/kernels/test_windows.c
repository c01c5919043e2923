/* Depthwise convolutions and pools of small square kernels, at each level, beside loops over one
 * element of a window after the other: rows shorter and longer than vectors, each padding. Operands
 * end where memory does. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum kind { PRODUCTS, LARGEST, MEAN, MEAN_INSIDE, MEAN_BY_7, KINDS };

struct shape {
    int height, width, kernel, stride, padding;
};

static int judged;

static int out_of(int size, const struct shape *s)
{
    return (size + 2 * s->padding - s->kernel) / s->stride + 1;
}

/* What the window of the result's row y, column x comes to. scale: what rounding is measured by. */
static double value_of(const struct td_call *call, enum kind kind, const struct shape *s, int plane,
                       int y, int x, double *scale)
{
    int own = plane % 6, from = kind == PRODUCTS ? plane / 2 : plane, inside = 0;
    const float *in = (const float *)call->arg[0].tensor.data + from * s->height * s->width;
    double value = kind == LARGEST ? (double)-INFINITY : 0;
    if (kind == PRODUCTS)
        value = (double)((const float *)call->arg[2].tensor.data)[own];
    *scale = fabs(value);
    for (int i = 0; i < s->kernel; i++)
        for (int j = 0; j < s->kernel; j++) {
            int row = y * s->stride - s->padding + i, column = x * s->stride - s->padding + j;
            if (row < 0 || row >= s->height || column < 0 || column >= s->width)
                continue;
            double v = (double)in[row * s->width + column];
            inside++;
            if (kind == PRODUCTS)
                v *= (double)((const float *)call->arg[1]
                                  .tensor.data)[(own * s->kernel + i) * s->kernel + j];
            if (kind == LARGEST)
                value = v > value || v != v ? v : value;
            else
                value += v;
            *scale += fabs(v);
        }
    if (kind >= MEAN)
        value /= kind == MEAN_BY_7 ? 7 : kind == MEAN ? s->kernel * s->kernel : inside;
    return value;
}

static void judge(enum kind kind, const struct shape *s, const char *level)
{
    static const char *const patterns[] = {
        [PRODUCTS] = "input=[2,3,%d,%d] weight=[6,1,%d,%d] bias=[6] groups=3",
        [LARGEST] = "self=[2,3,%d,%d] kernel_size=[%d,%d]",
        [MEAN] = "self=[2,3,%d,%d] kernel_size=[%d,%d]",
        [MEAN_INSIDE] = "self=[2,3,%d,%d] kernel_size=[%d,%d] count_include_pad=False",
        [MEAN_BY_7] = "self=[2,3,%d,%d] kernel_size=[%d,%d] divisor_override=7",
    };
    static const char *const ops[] = {"conv2d", "max_pool2d", "avg_pool2d", "avg_pool2d",
                                      "avg_pool2d"};
    char pattern[200];
    struct sample sample;
    int planes = kind == PRODUCTS ? 12 : 6, height = out_of(s->height, s),
        width = out_of(s->width, s);
    int n = snprintf(pattern, sizeof pattern, patterns[kind], s->height, s->width, s->kernel,
                     s->kernel);
    snprintf(pattern + n, sizeof pattern - (size_t)n, " stride=%d padding=%d", s->stride,
             s->padding);
    enum sample_values values = kind == LARGEST ? SAMPLE_SPECIAL : SAMPLE_PLAIN;
    int err = sample_init(&sample, ops[kind], pattern, (struct td_sizes){0}, TD_f32, values, 5);
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!sample_is_simd(impl, call, level))
            continue;
        memset(call->out[0].data, 0x77, td_nbytes(&call->out[0]));
        ck_assert_int_eq(sample_run(impl, call), 0);
        for (int i = 0; i < planes * height * width; i++) {
            double scale, got = (double)((const float *)call->out[0].data)[i];
            double want =
                value_of(call, kind, s, i / width / height, i / width % height, i % width, &scale);
            bool same = kind == LARGEST ? got == want : fabs(got - want) <= 2e-6 * scale;
            ck_assert_msg(same || (got != got && want != want), "%s %s at %s: %d is %g, not %g",
                          ops[kind], pattern, level, i, got, want);
        }
        judged++;
    }
    sample_fini(&sample);
}

START_TEST(test_small_squares)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    sample_start();
    for (int k = 0; k < 16; k++) /* wider than a tile, and higher */
        for (int kind = 0; kind < KINDS; kind++) {
            struct shape s = {.height = 11, .width = 100 + k * 46, .stride = 1 + k % 2};
            s.kernel = (int[]){2, 3, 5, 7}[k / 2 % 4];
            s.padding = kind == PRODUCTS ? k % 21 : k / 2 % 2 ? s.kernel / 2 : 0;
            judge(kind, &s, levels[1 + (k / 2 + kind) % 2]);
        }
    for (int width = 1; width < 100; width += width < 37 ? 1 : width % 16 == 1 ? 13 : 1)
        for (int k = 0; k < 16; k++) {
            struct shape s = {.width = width, .kernel = 2 + k / 4, .stride = 1 + k % 2};
            s.kernel += s.kernel > 3 ? s.kernel - 3 : 0; /* 2, 3, 5, 7 */
            s.padding = k / 2 % 2 ? s.kernel / 2 : 0;
            s.height = 1 + (width * 7 + k) % 12;
            int least = s.width < s.height ? s.width : s.height;
            if (least + 2 * s.padding < s.kernel)
                continue;
            for (int kind = 0; kind < KINDS; kind++)
                judge(kind, &s, levels[(width + k + kind) % 3]);
        }
    ck_assert_int_ge(judged, 700);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_small_squares};
    return td_run_tests("windows", tests, 1);
}
