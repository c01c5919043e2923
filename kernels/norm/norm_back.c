/* native_group_norm_backward, vector form, any floating-point type. The planes of channels are
 * summed up first, two numbers each, of which all three results are made: the second walk is the
 * input's alone. Sums are in doubles. */
#include "kernels/backward.h"
#include "kernels/elementwise.h"
#include "kernels/lines.h"
#include "kernels/norm/norm.h"

#define GRAIN 16384
#define LANES 8 /* sums side by side */

struct job {
    const struct td_tensor *grad, *x, *mean, *rstd, *weight, *out;
    struct td_group_sizes s;
    double *sums; /* of each plane: the gradients', and theirs times the normalized input */
};

/* The plane's group; its mean and 1 / deviation. */
static int64_t group_at(const struct job *j, int64_t plane, double *mean, double *rstd)
{
    int64_t group = plane / (j->s.channels / j->s.groups);
    *mean = td_get_real(j->mean, group);
    *rstd = td_get_real(j->rstd, group);
    return group;
}

static void sum_planes(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double grad[TD_RUN], x[TD_RUN], mean, rstd;
    for (int64_t plane = begin; plane < end && !td_stopped(); plane++) {
        double level[LANES] = {0}, slope[LANES] = {0};
        group_at(j, plane, &mean, &rstd);
        for (int64_t i = 0; i < j->s.inner; i += TD_RUN) {
            int64_t n = j->s.inner - i < TD_RUN ? j->s.inner - i : TD_RUN;
            td_line_get(grad, j->grad, plane * j->s.inner + i, n);
            td_line_get(x, j->x, plane * j->s.inner + i, n);
            for (int64_t k = 0; k < n; k++)
                x[k] = (x[k] - mean) * rstd;
            for (; n % LANES; n++)
                grad[n] = x[n] = 0;
            for (int64_t k = 0; k < n; k += LANES)
                for (int lane = 0; lane < LANES; lane++) {
                    level[lane] += grad[k + lane];
                    slope[lane] += grad[k + lane] * x[k + lane];
                }
        }
        j->sums[2 * plane] = j->sums[2 * plane + 1] = 0;
        for (int lane = 0; lane < LANES; lane++) {
            j->sums[2 * plane] += level[lane];
            j->sums[2 * plane + 1] += slope[lane];
        }
    }
}

static double weight_of(const struct job *j, int64_t plane)
{
    return j->weight ? td_get_real(j->weight, plane % j->s.channels) : 1;
}

static void input(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    int64_t together = j->s.channels / j->s.groups;
    double grad[TD_RUN], x[TD_RUN], mean, rstd;
    for (int64_t plane = begin; plane < end && !td_stopped(); plane++) {
        double level = 0, slope = 0, all = (double)(together * j->s.inner);
        int64_t first = group_at(j, plane, &mean, &rstd) * together;
        for (int64_t k = first; k < first + together; k++) {
            level += weight_of(j, k) * j->sums[2 * k] / all;
            slope += weight_of(j, k) * j->sums[2 * k + 1] / all;
        }
        double weight = weight_of(j, plane);
        for (int64_t i = 0; i < j->s.inner; i += TD_RUN) {
            int64_t n = j->s.inner - i < TD_RUN ? j->s.inner - i : TD_RUN;
            td_line_get(grad, j->grad, plane * j->s.inner + i, n);
            td_line_get(x, j->x, plane * j->s.inner + i, n);
            for (int64_t k = 0; k < n; k++)
                x[k] = rstd * (grad[k] * weight - level - (x[k] - mean) * rstd * slope);
            td_line_put(j->out, plane * j->s.inner + i, n, x);
        }
    }
}

TD_KERNEL(norm_back)
{
    struct job j = {td_arg(call, 0), td_arg(call, 1), td_arg(call, 2),      td_arg(call, 3),
                    td_arg(call, 4), &call->out[0],   td_group_sizes(call), call->scratch};
    int64_t planes = j.s.images * j.s.channels, grain = 1 + GRAIN / (j.s.inner + 1);
    td_parallel(call->threads, planes, grain, sum_planes, &j);
    if (td_wants(call, 0) && td_numel(j.x))
        td_parallel(call->threads, planes, grain, input, &j);
    for (int i = 1; i < 3; i++)
        for (int64_t c = 0; td_wants(call, i) && c < j.s.channels; c++) {
            double sum = 0;
            for (int64_t plane = c; plane < planes; plane += j.s.channels)
                sum += j.sums[2 * plane + (i == 1)];
            td_put_real(&call->out[i], c, sum);
        }
}
