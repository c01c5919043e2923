/* Post-ops in the level's lanes: by the rows of the pointwise table, over a run that is in the
 * first cache. */
#define TD_REAL_BITS 32
#include "kernels/elementwise.h"
#include "kernels/formulas.h"
#include "kernels/post.h"
#include "kernels/reals.h"

/* n elements of other for those of out from at on. */
static void read(const struct td_tensor *other, const struct td_tensor *out, int64_t at, int64_t n,
                 float *to)
{
    int64_t from = td_post_at(other, out, at), step = td_numel(other) > 1 ? TD_LANES : 0;
    for (int64_t i = 0; i < n; i += TD_LANES, from += step)
        td_store(to + i, step ? L_next(other->data, from, n - i, other->dtype, 0)
                              : td_set(L_get_n(other->data, 0, 1, other->dtype, 0)[0]));
}

void TD_NAME(post)(const struct td_post *post, const struct td_tensor *out, int64_t at, int64_t n,
                   float *x)
{
    float other[TD_POST_RUN] __attribute__((aligned(64)));
    const void *const in[] = {x, other};
    int64_t whole = (n + TD_LANES - 1) / TD_LANES * TD_LANES;
    for (int i = 0; i < post->n; i++) {
        const struct td_post_op *op = &post->op[i];
        struct td_point_args args = {
            .type = TD_f32, .from = {TD_f32, TD_f32, TD_f32}, .to = TD_f32};
        memcpy(args.real, op->param, sizeof args.real);
        if (op->other)
            read(op->other, out, at, n, other);
        TD_NAME(point_row)(op->point)(&args, whole, x, in);
    }
}

void TD_NAME(post_in_place)(const struct td_post *post, const struct td_tensor *out, int64_t at,
                            int64_t n, float *x)
{
    float few[TD_POST_RUN] __attribute__((aligned(64)));
    int64_t row = out->rank ? out->shape[out->rank - 1] : 1;
    bool even = td_post_is_even(post, out);
    for (int64_t run; n > 0; n -= run, at += run, x += run) {
        run = even ? n : row - at % row;
        run = run < n ? run : n;
        run = run < TD_POST_RUN ? run : TD_POST_RUN;
        if (run % TD_LANES == 0) {
            TD_NAME(post)(post, out, at, run, x);
            continue;
        }
        for (int64_t i = 0; i < run; i += TD_LANES)
            td_store(few + i, td_load_next(x + i, run - i, 0));
        TD_NAME(post)(post, out, at, run, few);
        for (int64_t i = 0; i < run; i += TD_LANES)
            td_store_next(x + i, run - i, td_load(few + i));
    }
}

struct job {
    const struct td_post *post;
    const struct td_tensor *out;
    int64_t cols; /* of a row */
};

static void run_f32(const struct job *job, int64_t at, int64_t n)
{
    float x[TD_POST_RUN] __attribute__((aligned(64)));
    const struct td_tensor *out = job->out;
    for (int64_t i = 0; i < n; i += TD_LANES)
        td_store(x + i, L_next(out->data, at + i, n - i, out->dtype, 0));
    TD_NAME(post)(job->post, out, at, n, x);
    for (int64_t i = 0; i < n; i += TD_LANES)
        L_put_next(out->data, at + i, n - i, out->dtype, td_load_next(x + i, n - i, 0));
}

static void run_f64(const struct job *job, int64_t at, int64_t n)
{
    double *x = (double *)job->out->data + at;
    for (int64_t i = 0; i < n; i++)
        x[i] = td_post_judge(job->post, job->out, at + i, x[i]);
}

static void some_rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *job = arg;
    for (int64_t row = begin; row < end && !td_stopped(); row++)
        for (int64_t j = 0; j < job->cols; j += TD_POST_RUN) {
            int64_t n = job->cols - j < TD_POST_RUN ? job->cols - j : TD_POST_RUN;
            if (job->out->dtype == TD_f64)
                run_f64(job, row * job->cols + j, n);
            else
                run_f32(job, row * job->cols + j, n);
        }
}

void TD_NAME(post_all)(const struct td_post *post, const struct td_tensor *out, int threads)
{
    int64_t cols = out->rank ? out->shape[out->rank - 1] : 1, n = td_numel(out), all = 1;
    while (td_post_is_even(post, out) && all * cols < TD_POST_RUN && n % (2 * all * cols) == 0)
        all *= 2; /* rows are as one: short ones are many calls */
    cols *= all;
    struct job job = {post, out, cols};
    if (n && post->n)
        td_parallel(threads, n / cols, 1 + 16384 / cols, some_rows, &job);
}
