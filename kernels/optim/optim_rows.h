/* sgd, adam and adamw in lanes: read once for FP32, BF16 and FP16, and once for FP64. With rows,
 * all is copied first, and then those rows are written that grad has. */
#ifndef TD_KERNELS_OPTIM_ROWS_H
#define TD_KERNELS_OPTIM_ROWS_H

#include "kernels/optim/optim.h"
#include "kernels/reals.h"

#include <string.h>

#define GRAIN 8192
#define STRETCH 65536 /* elements after which it looks whether it is to stop */

struct job {
    struct td_optim o;
    struct td_optim_order order;
    /* As lanes take them. */
    td_real sign, lr, decay, momentum, taken, beta1, rest1, beta2, rest2, eps, step_size, by_root;
};

TD_INLINE V before(const struct job *j, int state, int64_t at, int64_t left,
                   const enum td_dtype type)
{
    return L_next(j->o.from[state]->data, at, left, type, 0);
}

TD_INLINE void after(const struct job *j, int state, int64_t at, int64_t left,
                     const enum td_dtype type, V v)
{
    L_put_next(j->o.to[state]->data, at, left, type, v);
}

TD_INLINE void step_sgd(const struct job *j, V g, int64_t at, int64_t left,
                        const enum td_dtype type)
{
    V p = before(j, TD_OPTIM_self, at, left, type), b;
    if (j->decay != 0)
        g = L_add(g, L_mul(L_c(j->decay), p));
    if (j->momentum != 0) {
        b = g;
        if (j->o.from[TD_OPTIM_first])
            b = L_add(L_mul(L_c(j->momentum), before(j, TD_OPTIM_first, at, left, type)),
                      L_mul(L_c(j->taken), g));
        after(j, TD_OPTIM_first, at, left, type, b);
        g = j->o.nesterov ? L_add(g, L_mul(L_c(j->momentum), b)) : b;
    } else if (j->o.from[TD_OPTIM_first]) {
        after(j, TD_OPTIM_first, at, left, type, before(j, TD_OPTIM_first, at, left, type));
    }
    after(j, TD_OPTIM_self, at, left, type, L_sub(p, L_mul(L_c(j->lr), g)));
}

TD_INLINE void step_adam(const struct job *j, V g, int64_t at, int64_t left,
                         const enum td_dtype type)
{
    V p = before(j, TD_OPTIM_self, at, left, type);
    if (j->decay != 0 && j->o.kind == TD_OPTIM_adam)
        g = L_add(g, L_mul(L_c(j->decay), p));
    if (j->decay != 0 && j->o.kind == TD_OPTIM_adamw)
        p = L_sub(p, L_mul(L_c(j->lr * j->decay), p));
    V m = L_add(L_mul(L_c(j->beta1), before(j, TD_OPTIM_first, at, left, type)),
                L_mul(L_c(j->rest1), g));
    V v = L_add(L_mul(L_c(j->beta2), before(j, TD_OPTIM_second, at, left, type)),
                L_mul(L_mul(L_c(j->rest2), g), g));
    V most = v;
    if (j->o.from[TD_OPTIM_most]) {
        V x = before(j, TD_OPTIM_most, at, left, type);
        most = L_sel(L_either(L_gt(x, v), L_uno(x, x)), x, v);
        after(j, TD_OPTIM_most, at, left, type, most);
    }
    V by = L_add(L_mul(L_sqrt(most), L_c(j->by_root)), L_c(j->eps));
    after(j, TD_OPTIM_self, at, left, type, L_sub(p, L_div(L_mul(L_c(j->step_size), m), by)));
    after(j, TD_OPTIM_first, at, left, type, m);
    after(j, TD_OPTIM_second, at, left, type, v);
}

/* Elements from at on of the parameter, those from `of` on of grad's row i and of all that follow
 * it. */
TD_INLINE void run(const struct job *j, int64_t at, int64_t i, int64_t of, int64_t n,
                   const enum td_dtype type)
{
    const struct td_optim *o = &j->o;
    for (int64_t k = 0; k < n; k += L_LANES) {
        V g = L_next(o->grad->data, i * o->width + of + k, n - k, type, 0);
        for (int64_t l = o->rows ? j->order.next[i] : -1; l >= 0; l = j->order.next[l])
            g = L_add(g, L_next(o->grad->data, l * o->width + of + k, n - k, type, 0));
        g = L_mul(L_c(j->sign), g);
        if (o->kind == TD_OPTIM_sgd)
            step_sgd(j, g, at + k, n - k, type);
        else
            step_adam(j, g, at + k, n - k, type);
    }
}

static void stretch(const struct job *j, int64_t at, int64_t i, int64_t of, int64_t n)
{
#if TD_REAL_BITS == 32
    if (j->o.grad->dtype == TD_bf16)
        run(j, at, i, of, n, TD_bf16);
    else if (j->o.grad->dtype == TD_f16)
        run(j, at, i, of, n, TD_f16);
    else
#endif
        run(j, at, i, of, n, TD_REAL_TYPE);
}

static void whole(void *arg, int64_t begin, int64_t end)
{
    for (int64_t at = begin; at < end && !td_stopped(); at += STRETCH)
        stretch(arg, at, 0, at, end - at < STRETCH ? end - at : STRETCH);
}

static void rows(void *arg, int64_t begin, int64_t end)
{
    const struct job *j = arg;
    for (int64_t i = begin; i < end && !td_stopped(); i++) {
        int64_t row = td_optim_row(&j->o, i);
        if (j->order.first[row] == i) /* any other is added to that */
            stretch(j, row * j->o.width, i, 0, j->o.width);
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

static void optim_run(const struct td_call *call)
{
    struct job j = {.o = td_optim_of(call)};
    const struct td_optim *o = &j.o;
    j.sign = (td_real)o->sign;
    j.lr = (td_real)o->lr;
    j.decay = (td_real)o->decay;
    j.momentum = (td_real)o->momentum;
    j.taken = (td_real)o->taken;
    j.beta1 = (td_real)o->beta1;
    j.rest1 = (td_real)(1 - o->beta1);
    j.beta2 = (td_real)o->beta2;
    j.rest2 = (td_real)(1 - o->beta2);
    j.eps = (td_real)o->eps;
    j.step_size = (td_real)o->step_size;
    j.by_root = (td_real)(1 / o->root);
    if (!o->rows) {
        td_parallel(call->threads, o->width, GRAIN, whole, &j);
        return;
    }
    j.order = td_optim_order(o, call->scratch);
    td_parallel(call->threads, o->n * o->width, 8 * GRAIN, copies, &j.o);
    td_parallel(call->threads, o->k, 1 + GRAIN / (o->width + 1), rows, &j);
}

#endif
