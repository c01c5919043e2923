/* Convolutions with channels last that are summed in registers
 * (kernels/convolution/convolution_direct.c), at each level: rows of every width up to 40, with one
 * vector of channels and with two, and with padding at both ends. Numbers are small and whole, so
 * sums have one value. */
#include "tests/run_tests.h"
#include "tests/sample.h"

#include <stdio.h>

struct shape {
    int ins, outs, height, width, kernel, stride, padding;
};

/* Fills the tensor with whole numbers from -3 to 3. */
static void fill(const struct td_tensor *t, uint64_t seed)
{
    for (int64_t i = 0; i < td_numel(t); i++) {
        seed = seed * 6364136223846793005 + 1442695040888963407;
        ((float *)t->data)[i] = (float)((int64_t)(seed >> 33) % 7 - 3);
    }
}

/* Result (y, x) of an output channel. */
static float value_of(const struct td_call *call, const struct shape *s, int y, int x, int channel)
{
    const float *in = call->arg[0].tensor.data, *weight = call->arg[1].tensor.data;
    float sum = ((const float *)call->arg[2].tensor.data)[channel];
    for (int i = 0; i < s->kernel; i++)
        for (int j = 0; j < s->kernel; j++) {
            int row = y * s->stride - s->padding + i, column = x * s->stride - s->padding + j;
            bool inside = row >= 0 && row < s->height && column >= 0 && column < s->width;
            for (int c = 0; c < s->ins && inside; c++)
                sum += in[(row * s->width + column) * s->ins + c] *
                       weight[((channel * s->ins + c) * s->kernel + i) * s->kernel + j];
        }
    return sum;
}

static bool opened; /* whether the last call of judge saw its first kernel open a team */

/* Compares each kernel of the level that takes the shape with value_of. Returns their number. */
static int judge(const struct shape *s, const char *level, int threads)
{
    char pattern[300];
    struct sample sample;
    int n = 0;
    snprintf(pattern, sizeof pattern,
             "input=[1,%d,%d,%d] weight=[%d,%d,%d,%d] bias=[%d] stride=[%d,%d] padding=[%d,%d] "
             "dilation=[1,1] groups=1",
             s->height, s->width, s->ins, s->outs, s->ins, s->kernel, s->kernel, s->outs, s->stride,
             s->stride, s->padding, s->padding);
    int err = sample_init(&sample, "conv2d_channels_last", pattern, (struct td_sizes){0}, TD_f32,
                          SAMPLE_PLAIN, 7);
    ck_assert_msg(!err, "%s: %s", pattern, sample.run.problem.text);
    struct td_call *call = &sample.run.call;
    int height = (s->height + 2 * s->padding - s->kernel) / s->stride + 1;
    int width = (s->width + 2 * s->padding - s->kernel) / s->stride + 1;
    call->threads = threads;
    for (int i = 0; i < 3; i++)
        fill(&call->arg[i].tensor, (uint64_t)(i + 1));
    for (const struct td_impl *impl = call->op->impls; impl->run; impl++) {
        if (!sample_is_simd(impl, call, level))
            continue;
        float *out = call->out[0].data;
        memset(out, 0x77, td_nbytes(&call->out[0]));
        unsigned before = td_teams_opened();
        ck_assert_int_eq(sample_run(impl, call), 0);
        opened = n ? opened : td_teams_opened() != before;
        for (int y = 0; y < height; y++)
            for (int x = 0; x < width; x++)
                for (int c = 0; c < s->outs; c++, out++)
                    ck_assert_msg(*out == value_of(call, s, y, x, c), "%s at %s: (%d, %d, %d)",
                                  pattern, level, y, x, c);
        n++;
    }
    sample_fini(&sample);
    return n;
}

/* Each width has other channels, kernels and strides beside it, in turn (JIT-6). */
START_TEST(test_widths)
{
    static const char *const levels[] = {"DEFAULT", "AVX2", "AVX512"};
    static const int outs[] = {16, 32, 20, 7, 48}, kernels[] = {3, 5, 2};
    int judged = 0;
    sample_start();
    for (int width = 1; width <= 40; width++)
        for (int k = 0; k < 5; k++) {
            struct shape s = {.ins = k % 2 ? 17 : 5,
                              .outs = outs[k],
                              .height = 3,
                              .kernel = kernels[(width + k) % 3],
                              .stride = 1 + (width + k) % 2};
            s.padding = s.kernel / 2;
            s.width = (width - 1) * s.stride + s.kernel - 2 * s.padding;
            for (int level = 0; level < 3 && s.width > 0; level++)
                judged += judge(&s, levels[level], 1);
        }
    ck_assert_int_ge(judged, 180); /* DEFAULT, which every machine has, takes so many */
}
END_TEST

static void nothing(void *arg, int64_t begin, int64_t end)
{
    (void)arg, (void)begin, (void)end;
}

/* A single row of few channels is cut into parts for several threads, at any place (IND-40). */
START_TEST(test_parts)
{
    const unsigned before = td_teams_opened();
    td_parallel(2, 1000, 1, nothing, NULL);
    const bool teams = td_teams_opened() != before; /* without OpenMP there are none */
    sample_start();
    for (int threads = 1; threads <= 4; threads++)
        for (int width = 480; width < 490; width++) {
            struct shape s = {64, 8, 1, width, 3, 1, 1}; /* a panel at any level */
            ck_assert_int_gt(judge(&s, "DEFAULT", threads), 0);
            ck_assert_int_eq(opened, teams && threads > 1);
            s = (struct shape){5, 40, 2, width / 4, 3, 1, 1}; /* several panels and rows */
            judge(&s, "AVX2", threads);
            judge(&s, "AVX512", threads);
        }
}
END_TEST

int main(void)
{
    const TTest *const tests[] = {test_widths, test_parts};
    return td_run_tests("direct", tests, 2);
}
