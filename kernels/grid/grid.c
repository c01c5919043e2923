/* Images looked up at places of a grid: the operators, and what a place is made of. */
#include "kernels/grid/grid.h"
#include "kernels/elementwise.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>

/* ---- places ---- */

struct td_grid td_grid_of(const struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    struct td_grid g = {.dims = in->rank - 2,
                        .images = in->shape[0],
                        .channels = in->shape[1],
                        .places = 1,
                        .mode = (enum td_grid_mode)call->arg[2].i,
                        .padding = (enum td_grid_padding)call->arg[3].i,
                        .align_corners = call->arg[4].i,
                        .wide = in->dtype == TD_f64};
    for (int d = 0; d < 3; d++)
        g.size[d] = d < 3 - g.dims ? 1 : in->shape[in->rank - 3 + d];
    for (int d = 2; d < out->rank; d++)
        g.places *= out->shape[d];
    g.taps = g.mode == TD_GRID_nearest ? 1 : g.mode == TD_GRID_cubic ? 16 : 1 << g.dims;
    return g;
}

/* One step of computing a place. */
static double step(const struct td_grid *g, double x)
{
    return g->wide ? x : (double)(float)x;
}

/* From -1 .. 1 to elements. */
static double element(const struct td_grid *g, double x, int64_t size)
{
    double n = (double)size;
    x = step(g, x + 1);
    return g->align_corners ? step(g, step(g, x / 2) * (n - 1)) : step(g, step(g, x * n) - 1) / 2;
}

static double mirrored(const struct td_grid *g, double x, int64_t size)
{
    double low = g->align_corners ? 0 : -0.5, span = (double)(g->align_corners ? size - 1 : size);
    if (span == 0)
        return 0;
    x = fabs(step(g, x - low));
    double rest = fmod(x, span);
    bool back = fmod(floor(step(g, x / span)), 2) != 0;
    return step(g, (back ? step(g, span - rest) : rest) + low);
}

/* Where a place outside of the image is looked for; never where no integer could say. What is no
 * number at all is, as in PyTorch, the first element's place in a plane and the last one's in a
 * space. */
static double settled(const struct td_grid *g, double x, int64_t size)
{
    double last = (double)size - 1;
    if (g->padding == TD_GRID_reflection)
        x = mirrored(g, x, size);
    if (g->padding != TD_GRID_zeros)
        x = x != x ? (g->dims == 2 ? 0 : last) : x < 0 ? 0 : x > last ? last : x;
    return fabs(x) < 0x1p40 ? x : -100;
}

static double cubic(double x)
{
    const double a = -0.75;
    x = fabs(x);
    return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

/* Along one dimension: elements, as numbers that may lie outside, and their weights; how many. */
static int along(const struct td_grid *g, double x, int64_t size, int64_t *at, double *weight)
{
    x = element(g, x, size);
    if (g->mode == TD_GRID_cubic) {
        x = fabs(x) < 0x1p40 ? x : -100;
        for (int k = 0; k < 4; k++) {
            at[k] = td_size_of_real(settled(g, floor(x) - 1 + k, size));
            weight[k] = cubic(step(g, x - floor(x)) + 1 - k);
        }
        return 4;
    }
    x = settled(g, x, size);
    at[0] = td_size_of_real(g->mode == TD_GRID_nearest ? nearbyint(x) : floor(x));
    weight[0] = 1;
    if (g->mode == TD_GRID_nearest)
        return 1;
    at[1] = at[0] + 1;
    weight[1] = step(g, x - floor(x));
    weight[0] = step(g, (double)at[1] - x);
    return 2;
}

/* Whether what is found there is NaN, as in PyTorch: a coordinate, or what a mirror makes of an
 * infinite one, is no number, and the weights are made of it. */
static bool is_lost(const struct td_grid *g, double x)
{
    return !isfinite(x) && g->dims == 2 &&
           (g->mode == TD_GRID_cubic || (g->mode == TD_GRID_linear && g->padding == TD_GRID_zeros));
}

void td_grid_taps(const struct td_grid *g, const struct td_tensor *t, int64_t i,
                  int64_t at[TD_GRID_TAPS], double weight[TD_GRID_TAPS])
{
    int64_t places[3][4] = {{0}, {0}, {0}};
    double weights[3][4] = {{1}, {1}, {1}};
    int n[3] = {1, 1, 1}, taps = 0;
    for (int d = 3 - g->dims; d < 3; d++) { /* a grid's first number is the width's */
        double x = td_get_real(t, i * g->dims + 2 - d);
        if (is_lost(g, x)) {
            for (int k = 0; k < g->taps; k++) {
                at[k] = 0;
                weight[k] = NAN;
            }
            return;
        }
        n[d] = along(g, x, g->size[d], places[d], weights[d]);
    }
    for (int z = 0; z < n[0]; z++)
        for (int y = 0; y < n[1]; y++)
            for (int x = 0; x < n[2]; x++) {
                int64_t p[3] = {places[0][z], places[1][y], places[2][x]};
                bool inside = true;
                for (int d = 0; d < 3; d++)
                    inside = inside && p[d] >= 0 && p[d] < g->size[d];
                at[taps] = inside ? (p[0] * g->size[1] + p[1]) * g->size[2] + p[2] : -1;
                weight[taps++] = weights[0][z] * weights[1][y] * weights[2][x];
            }
}

/* ---- the rule ---- */

static int rule_numbers(struct td_call *call, int dims)
{
    int64_t mode = call->arg[2].i, padding = call->arg[3].i;
    if (mode < 0 || mode > 2 || (mode == TD_GRID_cubic && dims != 2))
        return td_refuse(call,
                         "interpolation_mode: is %lld; 0 (linear), 1 (nearest) or, in planes, "
                         "2 (cubic) is right",
                         (long long)mode);
    if (padding < 0 || padding > 2)
        return td_refuse(call,
                         "padding_mode: is %lld; 0 (zeros), 1 (border) or 2 (reflection) is "
                         "right",
                         (long long)padding);
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *in = &call->arg[0].tensor, *grid = &call->arg[1].tensor;
    char last = call->op->schema[sizeof "grid_sampler_" - 1];
    int dims = in->rank - 2, right = last == '2' ? 2 : last == '3' ? 3 : 0;
    if ((dims != 2 && dims != 3) || (right && dims != right))
        return td_refuse(call,
                         "input: has %d dimensions; %s, a batch, channels and an image, is "
                         "right",
                         in->rank,
                         right == 2   ? "4"
                         : right == 3 ? "5"
                                      : "4 or 5");
    if (grid->rank != in->rank || grid->shape[0] != in->shape[0] ||
        grid->shape[grid->rank - 1] != dims || grid->dtype != in->dtype)
        return td_refuse(call,
                         "grid: must be of input's type and batch and have %d dimensions, the "
                         "last one of %d",
                         in->rank, dims);
    for (int d = 2; d < in->rank; d++)
        if (!in->shape[d])
            return td_refuse(call, "input: dimension %d is 0; an image has elements", d);
    call->out[0] = *in;
    call->out[0].weight = NULL;
    call->n_out = 1;
    for (int d = 2; d < in->rank; d++)
        call->out[0].shape[d] = grid->shape[d - 1];
    return rule_numbers(call, dims);
}

static double flops(const struct td_call *call)
{
    struct td_grid g = td_grid_of(call);
    double places = (double)g.images * (double)g.places;
    return places * (100 + 4.0 * g.taps * (double)g.channels) +
           (double)td_numel(&call->arg[0].tensor);
}

/* Positions are counted in 32 bits; BF16 and FP16 are wanted as FP32. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    struct td_grid g = td_grid_of(call);
    if (g.size[0] * g.size[1] >= INT32_MAX / g.size[2])
        return "its input has more positions than 32 bits count";
    if (in->dtype & (TD_f16 | TD_bf16) && td_numel(&call->out[0]))
        prepared->scratch = (size_t)td_numel(in) * 4;
    return NULL;
}

td_kernel td_grid_ref;
TD_KERNELS_3(grid);
static const struct td_impl impls[] = {
    TD_SIMD_3(grid, TD_FLOATS, .prepare = prepare) TD_REF(grid),
    {0},
};

#define PLANES                                                                                     \
    "input=[2,3,n,m] grid=[2,3,7,2] interpolation_mode=0 padding_mode=0 align_corners=False",      \
        "input=[1,2,5,6] grid=[1,2,n,2] interpolation_mode=0 padding_mode=2 align_corners=True",   \
        "input=[1,2,n,6] grid=[1,n,3,2] interpolation_mode=2 padding_mode=1 align_corners=False",  \
        "input=[1,2,n,6] grid=[1,n,3,2] interpolation_mode=1 padding_mode=0 align_corners=True"
#define SPACES                                                                                     \
    "input=[1,2,3,n,m] grid=[1,2,3,7,3] interpolation_mode=0 padding_mode=1 align_corners=False",  \
        "input=[2,2,3,4,5] grid=[2,n,1,2,3] interpolation_mode=1 padding_mode=0 "                  \
        "align_corners=True"
#define TD_GRID(name, ...)                                                                         \
    const struct td_op td_op_##name = {                                                            \
        .schema = #name "(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, "   \
                        "bool align_corners) -> Tensor",                                           \
        .doc = "out[n, c, p] = input[n, c] at grid[n, p], -1 and 1 being its edges",               \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = 16,                                                                                 \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
    };
TD_GRID(grid_sampler, PLANES, SPACES)
TD_GRID(grid_sampler_2d, PLANES)
TD_GRID(grid_sampler_3d, SPACES)
