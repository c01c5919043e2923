/* sgd, adam and adamw, reference: element after element. */
#include "kernels/elementwise.h"
#include "kernels/optim/optim.h"

#include <math.h>

/* The formulas as optim.c's table states them; state: before, and after. */
static void step_sgd(const struct td_optim *o, double g, double *state)
{
    double *p = &state[TD_OPTIM_self], *b = &state[TD_OPTIM_first];
    if (o->decay != 0)
        g = g + o->decay * *p;
    if (o->momentum != 0) {
        *b = o->from[TD_OPTIM_first] ? o->momentum * *b + o->taken * g : g;
        g = o->nesterov ? g + o->momentum * *b : *b;
    }
    *p = *p - o->lr * g;
}

static void step_adam(const struct td_optim *o, double g, double *state)
{
    double *p = &state[TD_OPTIM_self], *m = &state[TD_OPTIM_first], *v = &state[TD_OPTIM_second];
    double *most = &state[TD_OPTIM_most];
    if (o->decay != 0 && o->kind == TD_OPTIM_adam)
        g = g + o->decay * *p;
    if (o->decay != 0 && o->kind == TD_OPTIM_adamw)
        *p = *p - o->lr * o->decay * *p;
    *m = o->beta1 * *m + (1 - o->beta1) * g;
    *v = o->beta2 * *v + (1 - o->beta2) * (g * g);
    if (!o->from[TD_OPTIM_most] || !(*most > *v || isnan(*most)))
        *most = *v;
    *p = *p - o->step_size * *m / (sqrt(*most) / o->root + o->eps);
}

static void element(const struct td_optim *o, int64_t at, const double *g)
{
    double state[TD_OPTIM_STATES] = {0};
    for (int i = 0; i < TD_OPTIM_STATES; i++)
        if (o->from[i])
            state[i] = td_get_real(o->from[i], at);
    if (g && o->kind == TD_OPTIM_sgd)
        step_sgd(o, o->sign * *g, state);
    else if (g)
        step_adam(o, o->sign * *g, state);
    for (int i = 0; i < TD_OPTIM_STATES; i++)
        if (o->to[i])
            td_put_real(o->to[i], at, state[i]);
}

td_kernel td_optim_ref;
void td_optim_ref(const struct td_call *call)
{
    struct td_optim o = td_optim_of(call);
    struct td_optim_order order = {0};
    if (o.rows)
        order = td_optim_order(&o, call->scratch);
    for (int64_t row = 0; row < o.n && !td_stopped(); row++) {
        int64_t first = o.rows ? order.first[row] : 0;
        for (int64_t j = 0; j < o.width; j++) {
            double g = 0;
            for (int64_t i = first; i >= 0; i = o.rows ? order.next[i] : -1)
                g += td_get_real(o.grad, i * o.width + j);
            element(&o, row * o.width + j, first >= 0 ? &g : NULL);
        }
    }
}
