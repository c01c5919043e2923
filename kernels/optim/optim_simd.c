/* sgd, adam and adamw, vector form: some elements at a time, in lanes of doubles for every type;
 * with rows, all is copied first, and then those rows are written that grad has. */
#define TD_REAL_BITS 64
#include "kernels/lanes.h"
#include "kernels/lines.h"
#include "kernels/optim/optim.h"

#define GRAIN 4096

struct job {
    struct td_optim o;
    struct td_optim_order order;
};

struct line { /* of each state, and of the gradient */
    double state[TD_OPTIM_STATES][TD_RUN], g[TD_RUN];
};

#define AT(which) (line->state[TD_OPTIM_##which] + k)

static void step_sgd(const struct td_optim *o, struct line *line, int64_t n)
{
    for (int64_t k = 0; k < n; k += L_LANES) {
        V p = L_load(AT(self)), g = L_mul(L_c(o->sign), L_load(line->g + k));
        if (o->decay != 0)
            g = L_add(g, L_mul(L_c(o->decay), p));
        if (o->momentum != 0) {
            V b = g;
            if (o->from[TD_OPTIM_first])
                b = L_add(L_mul(L_c(o->momentum), L_load(AT(first))), L_mul(L_c(o->taken), g));
            L_store(AT(first), b);
            g = o->nesterov ? L_add(g, L_mul(L_c(o->momentum), b)) : b;
        }
        L_store(AT(self), L_sub(p, L_mul(L_c(o->lr), g)));
    }
}

static void step_adam(const struct td_optim *o, struct line *line, int64_t n)
{
    for (int64_t k = 0; k < n; k += L_LANES) {
        V p = L_load(AT(self)), g = L_mul(L_c(o->sign), L_load(line->g + k));
        if (o->decay != 0 && o->kind == TD_OPTIM_adam)
            g = L_add(g, L_mul(L_c(o->decay), p));
        if (o->decay != 0 && o->kind == TD_OPTIM_adamw)
            p = L_sub(p, L_mul(L_c(o->lr * o->decay), p));
        V m = L_add(L_mul(L_c(o->beta1), L_load(AT(first))), L_mul(L_c(1 - o->beta1), g));
        V v =
            L_add(L_mul(L_c(o->beta2), L_load(AT(second))), L_mul(L_c(1 - o->beta2), L_mul(g, g)));
        V most = v;
        if (o->from[TD_OPTIM_most]) {
            V x = L_load(AT(most));
            most = L_sel(L_either(L_gt(x, v), L_uno(x, x)), x, v);
        }
        V by = L_add(L_div(L_sqrt(most), L_c(o->root)), L_c(o->eps));
        L_store(AT(self), L_sub(p, L_div(L_mul(L_c(o->step_size), m), by)));
        L_store(AT(first), m);
        L_store(AT(second), v);
        L_store(AT(most), most);
    }
}

/* Elements from at on of the parameter, those from `of` on of grad's row i and of all that follow
 * it. */
static void run(const struct job *j, struct line *line, int64_t at, int64_t i, int64_t of,
                int64_t n)
{
    const struct td_optim *o = &j->o;
    for (int s = 0; s < TD_OPTIM_STATES; s++)
        if (o->from[s])
            td_line_get(line->state[s], o->from[s], at, n);
    td_line_get(line->g, o->grad, i * o->width + of, n);
    for (i = o->rows ? j->order.next[i] : -1; i >= 0; i = j->order.next[i]) {
        double more[TD_RUN];
        td_line_get(more, o->grad, i * o->width + of, n);
        for (int64_t k = 0; k < n; k++)
            line->g[k] += more[k];
    }
    if (o->kind == TD_OPTIM_sgd)
        step_sgd(o, line, n);
    else
        step_adam(o, line, n);
    for (int s = 0; s < TD_OPTIM_STATES; s++)
        if (o->to[s])
            td_line_put(o->to[s], at, n, line->state[s]);
}

static void whole(void *arg, int64_t begin, int64_t end)
{
    struct line line = {0}; /* lanes beyond a run are computed, too */
    for (int64_t at = begin; at < end && !td_stopped(); at += TD_RUN)
        run(arg, &line, at, 0, at, end - at < TD_RUN ? end - at : TD_RUN);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    struct line line = {0};
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t row = td_optim_row(&j->o, i), width = j->o.width;
        if (j->order.first[row] != i) /* which adds it to its own */
            continue;
        for (int64_t at = 0; at < width; at += TD_RUN)
            run(j, &line, row * width + at, i, at, width - at < TD_RUN ? width - at : TD_RUN);
    }
}

static void copies(void *arg, int64_t begin, int64_t end)
{
    const struct td_optim *o = arg;
    size_t size = td_dtype_size(o->grad->dtype), bytes = (size_t)(end - begin) * size;
    for (int s = 0; s < TD_OPTIM_STATES; s++) {
        char *to = o->to[s] ? (char *)o->to[s]->data + (size_t)begin * size : NULL;
        if (to && !o->from[s])
            memset(to, 0, bytes);
        else if (to && o->to[s]->data != o->from[s]->data)
            memcpy(to, (const char *)o->from[s]->data + (size_t)begin * size, bytes);
    }
}

TD_KERNEL(optim)
{
    struct job j = {.o = td_optim_of(call)};
    const struct td_optim *o = &j.o;
    if (!o->rows) {
        td_parallel(call->threads, o->width, GRAIN, whole, &j);
        return;
    }
    j.order = td_optim_order(o, call->scratch);
    td_parallel(call->threads, o->n * o->width, 8 * GRAIN, copies, &j.o);
    td_parallel(call->threads, o->k, 1 + GRAIN / (o->width + 1), rows, &j);
}
