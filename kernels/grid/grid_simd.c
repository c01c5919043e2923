/* Looking up images at the places of a grid, vector form. A piece of work is a tile of places: what
 * each is made of is found once, as many places at a time as a vector has lanes where they are not
 * far off, and then taken from all channels. Loops are plain; the compiler makes the level's
 * vectors and gathers of them. */
#include "kernels/grid/grid.h"
#include "kernels/lines.h"

#define TILE 128 /* places */
#define GRAIN 65536
#define FAR 0x1p20f /* elements from an image, beyond which places are found one by one */

struct job {
    struct td_grid grid;
    const struct td_tensor *places;
    enum td_dtype type;
    const void *in; /* FP32 or FP64 */
    void *out;
    int64_t tiles; /* of an image */
};

#define T float
#define MAGIC 0x1.8p23f
#include "kernels/grid/grid_rows.def"
#define T double
#define MAGIC 0x1.8p52
#include "kernels/grid/grid_rows.def"

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
