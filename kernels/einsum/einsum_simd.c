/* einsum's level: the products, the copies, and products of single elements. */
#include "kernels/einsum/einsum.h"
#include "kernels/elementwise.h"
#include "kernels/lines.h"

#define GRAIN 16384

static void product(const struct td_gemm *g, void *scratch)
{
    if (g->out->dtype & (TD_f32 | TD_bf16 | TD_f16))
        TD_NAME(gemm)(g, scratch);
    else
        TD_NAME(gemm_any)(g, scratch);
}

struct job {
    const struct td_tensor *out, *x, *y;
    int64_t i, j;
};

/* n elements of the result from at on, where one of x, or of y, goes with each run of them. */
static void line(const struct job *m, int64_t at, int64_t x, int64_t step_x, int64_t y,
                 int64_t step_y, int64_t n)
{
    double a[TD_RUN], b[TD_RUN];
    if (td_dtype_kind(m->out->dtype) != 'f') {
        for (int64_t k = 0; k < n; k++)
            td_put_whole(m->out, at + k,
                         (int64_t)((uint64_t)td_get_whole(m->x, x + k * step_x) *
                                   (uint64_t)td_get_whole(m->y, y + k * step_y)));
        return;
    }
    td_line_get(a, m->x, x, step_x ? n : 1);
    td_line_get(b, m->y, y, step_y ? n : 1);
    double one = step_x ? b[0] : a[0], *many = step_x ? a : b;
    for (int64_t k = 0; k < n; k++)
        many[k] *= step_x && step_y ? b[k] : one;
    td_line_put(m->out, at, n, many);
}

static void lines(void *arg, int64_t begin, int64_t end)
{
    const struct job *m = arg;
    int64_t run = m->i * m->j; /* 1: element by element */
    for (int64_t at = begin, n; at < end && !td_stopped(); at += n) {
        int64_t b = at / run;
        n = run == 1 ? end - at : (b + 1) * run - at;
        n = n < end - at ? n : end - at;
        n = n < TD_RUN ? n : TD_RUN;
        line(m, at, m->j == 1 ? at : b, m->j == 1, m->i == 1 ? at : b, m->i == 1, n);
    }
}

static void multiply(const struct td_tensor *out, const struct td_tensor *x,
                     const struct td_tensor *y, int64_t b, int64_t i, int64_t j, int threads)
{
    struct job m = {out, x, y, i, j};
    td_parallel(threads, b * i * j, GRAIN, lines, &m);
}

TD_KERNEL(einsum)
{
    static const struct td_einsum_level level = {TD_NAME(move_piece), product, multiply};
    td_einsum_run(call, &level);
}
