/* Looking up images at the places of a grid, vector form. A piece of work is a tile of places: what
 * each is made of is found once, and then taken from all channels, as many places at a time as a
 * vector has lanes. Loops are plain; the compiler makes the level's vectors and gathers of them. */
#include "kernels/grid/grid.h"
#include "kernels/lines.h"

#define TILE 128 /* places */
#define GRAIN 65536

struct job {
    struct td_grid grid;
    const struct td_tensor *places;
    enum td_dtype type;
    const void *in; /* FP32 or FP64 */
    void *out;
    int64_t tiles; /* of an image */
};

#define TD_TILES(T)                                                                                \
    static void add_##T(T *restrict sum, const T *restrict x, const int32_t *restrict at,          \
                        const T *restrict weight, int64_t n)                                       \
    {                                                                                              \
        for (int64_t i = 0; i < n; i++) {                                                          \
            T part = weight[i] * x[at[i] < 0 ? 0 : at[i]];                                         \
            sum[i] += at[i] < 0 ? 0 : part;                                                        \
        }                                                                                          \
    }                                                                                              \
    static void tiles_##T(void *arg, int64_t begin, int64_t end)                                   \
    {                                                                                              \
        const struct job *j = arg;                                                                 \
        const struct td_grid *g = &j->grid;                                                        \
        int64_t plane = g->size[0] * g->size[1] * g->size[2], at[TD_GRID_TAPS];                    \
        int32_t places[TD_GRID_TAPS][TILE];                                                        \
        T weights[TD_GRID_TAPS][TILE], sum[TILE];                                                  \
        for (int64_t i = begin; i < end && !td_stopped(); i++) {                                   \
            int64_t image = i / j->tiles, first = i % j->tiles * TILE;                             \
            int64_t n = g->places - first < TILE ? g->places - first : TILE;                       \
            for (int64_t p = 0; p < n; p++) {                                                      \
                double weight[TD_GRID_TAPS];                                                       \
                td_grid_taps(g, j->places, image * g->places + first + p, at, weight);             \
                for (int k = 0; k < g->taps; k++) {                                                \
                    places[k][p] = (int32_t)at[k];                                                 \
                    weights[k][p] = (T)weight[k];                                                  \
                }                                                                                  \
            }                                                                                      \
            for (int64_t c = image * g->channels; c < (image + 1) * g->channels; c++) {            \
                memset(sum, 0, sizeof sum);                                                        \
                for (int k = 0; k < g->taps; k++)                                                  \
                    add_##T(sum, (const T *)j->in + c * plane, places[k], weights[k], n);          \
                td_line_to_##T(j->type, j->out, c * g->places + first, n, sum);                    \
            }                                                                                      \
        }                                                                                          \
    }
TD_TILES(float)
TD_TILES(double)

struct copy {
    const struct td_tensor *in;
    float *out;
};

static void widen(void *arg, int64_t begin, int64_t end)
{
    const struct copy *c = arg;
    td_line_widen(c->out + begin, (const uint16_t *)c->in->data + begin, end - begin, c->in->dtype);
}

TD_KERNEL(grid)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    struct job j = {.grid = td_grid_of(call),
                    .places = &call->arg[1].tensor,
                    .type = in->dtype,
                    .in = in->data,
                    .out = call->out[0].data};
    if (!td_numel(&call->out[0]))
        return;
    if (j.type & (TD_f16 | TD_bf16)) {
        struct copy c = {in, call->scratch};
        td_parallel(call->threads, td_numel(in), GRAIN, widen, &c);
        j.in = c.out;
    }
    j.tiles = (j.grid.places + TILE - 1) / TILE;
    int64_t n = j.grid.images * j.tiles;
    double cost = call->op->flops(call) / (double)n;
    td_parallel(call->threads, n, 1 + (int64_t)(GRAIN / cost),
                j.type == TD_f64 ? tiles_double : tiles_float, &j);
}
