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

/* The mean and 1 / deviation of the plane's group. */
TD_INLINE void group_at(const struct job *j, int64_t plane, double *mean, double *rstd)
{
    int64_t group = plane / (j->s.channels / j->s.groups);
    *mean = td_get_real(j->mean, group);
    *rstd = td_get_real(j->rstd, group);
}

/* The sums of a run of the plane join its own. */
TD_INLINE void sum_run(const double *grad, const double *x, int64_t n, double mean, double rstd,
                       double *sums)
{
    double level[LANES] = {0}, slope[LANES] = {0};
    int64_t k = 0;
    for (; k + LANES <= n; k += LANES)
        for (int lane = 0; lane < LANES; lane++) {
            level[lane] += grad[k + lane];
            slope[lane] += grad[k + lane] * ((x[k + lane] - mean) * rstd);
        }
    for (int lane = 0; k && lane < LANES; lane++) {
        sums[0] += level[lane];
        sums[1] += slope[lane];
    }
    for (; k < n; k++) {
        sums[0] += grad[k];
        sums[1] += grad[k] * ((x[k] - mean) * rstd);
    }
}

/* That are read together: many where they are short. */
static int64_t planes_of(const struct job *j)
{
    return j->s.inner && j->s.inner < TD_RUN ? TD_RUN / j->s.inner : 1;
}

static void sum_planes(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double grad[TD_RUN], x[TD_RUN], mean, rstd;
    int64_t inner = j->s.inner, most = planes_of(j);
    memset(j->sums + 2 * begin, 0, (size_t)(end - begin) * 2 * sizeof *j->sums);
    for (int64_t plane = begin, some; plane < end && !td_stopped(); plane += some) {
        some = end - plane < most ? end - plane : most;
        for (int64_t i = 0; i < inner; i += TD_RUN) {
            int64_t n = inner - i < TD_RUN ? inner - i : TD_RUN;
            td_line_get(grad, j->grad, plane * inner + i, n * some);
            td_line_get(x, j->x, plane * inner + i, n * some);
            for (int64_t p = 0; p < some; p++) {
                group_at(j, plane + p, &mean, &rstd);
                sum_run(grad + p * n, x + p * n, n, mean, rstd, j->sums + 2 * (plane + p));
            }
        }
    }
}

static double weight_of(const struct job *j, int64_t plane)
{
    return j->weight ? td_get_real(j->weight, plane % j->s.channels) : 1;
}

/* What all planes of a group have in common. */
struct group {
    int64_t number;
    double mean, rstd, level, slope;
};

static void find_group(const struct job *j, int64_t plane, struct group *g)
{
    int64_t together = j->s.channels / j->s.groups, number = plane / together;
    double all = (double)(together * j->s.inner);
    if (number == g->number)
        return;
    *g = (struct group){.number = number};
    group_at(j, plane, &g->mean, &g->rstd);
    for (int64_t k = number * together; k < (number + 1) * together; k++) {
        g->level += weight_of(j, k) * j->sums[2 * k] / all;
        g->slope += weight_of(j, k) * j->sums[2 * k + 1] / all;
    }
}

static void gradients(struct group g, double weight, const double *grad, double *x, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        x[k] = g.rstd * (grad[k] * weight - g.level - (x[k] - g.mean) * g.rstd * g.slope);
}

static void input(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    double grad[TD_RUN], x[TD_RUN];
    struct group g = {.number = -1};
    int64_t inner = j->s.inner, most = planes_of(j);
    for (int64_t plane = begin, some; plane < end && !td_stopped(); plane += some) {
        some = end - plane < most ? end - plane : most;
        for (int64_t i = 0; i < inner; i += TD_RUN) {
            int64_t n = inner - i < TD_RUN ? inner - i : TD_RUN;
            td_line_get(grad, j->grad, plane * inner + i, n * some);
            td_line_get(x, j->x, plane * inner + i, n * some);
            for (int64_t p = 0; p < some; p++) {
                find_group(j, plane + p, &g);
                gradients(g, weight_of(j, plane + p), grad + p * n, x + p * n, n);
            }
            td_line_put(j->out, plane * inner + i, n * some, x);
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
