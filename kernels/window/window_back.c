/* The gradients of means, vector form. A piece of work is a row of the result: the gradients of the
 * rows of windows that it lies in are added up, and handed out along its width. Compiled per level;
 * loops are plain, in FP32 or FP64 (window_back.def). */
#include "kernels/lines.h"
#include "kernels/window/window.h"

#define TILE 1024 /* elements of a row, or of gradients */
#define GRAIN 32768

struct job {
    struct td_pool pool;
    enum td_dtype type;
    const void *grad;
    void *out;
};

/* What the mean over a window is divided by, in one dimension. */
static double count_of(const struct td_pool *pool, const struct td_taps *taps)
{
    return pool->divisor ? 1 : (double)(pool->include_pad ? taps->full : taps->n);
}

#define T float
#include "kernels/window/window_back.def"
#define T double
#include "kernels/window/window_back.def"

TD_KERNEL(window_back)
{
    struct job j = {.pool = td_pool_of(call),
                    .type = call->out[0].dtype,
                    .grad = call->arg[0].tensor.data,
                    .out = call->out[0].data};
    int64_t n = td_numel(&call->out[0]);
    if (!n)
        return;
    int64_t rows = n / j.pool.axis[2].in;
    double cost = call->op->flops(call) / (double)rows;
    td_parallel(call->threads, rows, 1 + (int64_t)(GRAIN / cost),
                j.type == TD_f64 ? rows_double : rows_float, &j);
}
