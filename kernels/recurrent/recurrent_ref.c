/* The recurrent family, reference: sequence by sequence, each gate of each step a sum of its own.
 */
#include "kernels/elementwise.h"
#include "kernels/recurrent/recurrent.h"

#include <math.h>
#include <string.h>

struct walk {
    const struct td_recurrent *r;
    struct td_recurrent_layer l;
    double *h, *next, *c, *plain; /* next, plain: of the step that is made; plain unprojected */
};

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* Row i of a weight times x, and its bias. */
static double row(const struct td_tensor *w, const struct td_tensor *bias, int64_t i,
                  const double *x, int64_t n)
{
    double sum = bias ? td_get_real(bias, i) : 0;
    for (int64_t k = 0; k < n; k++)
        sum += td_get_real(w, i * n + k) * x[k];
    return sum;
}

static double of_input(const struct walk *w, int64_t gate, int64_t i, const double *x)
{
    return row(w->l.w_input, w->l.b_input, gate * w->r->hidden + i, x, w->l.inputs);
}

static double of_hidden(const struct walk *w, int64_t gate, int64_t i)
{
    return row(w->l.w_hidden, w->l.b_hidden, gate * w->r->hidden + i, w->h, w->r->shown);
}

static double both(const struct walk *w, int64_t gate, int64_t i, const double *x)
{
    return of_input(w, gate, i, x) + of_hidden(w, gate, i);
}

static double cell(struct walk *w, int64_t i, const double *x)
{
    double r, z, n, sum;
    switch (w->r->cell) {
    case TD_RECURRENT_lstm:
        w->c[i] = sigmoid(both(w, 1, i, x)) * w->c[i] +
                  sigmoid(both(w, 0, i, x)) * tanh(both(w, 2, i, x));
        return sigmoid(both(w, 3, i, x)) * tanh(w->c[i]);
    case TD_RECURRENT_gru:
        r = sigmoid(both(w, 0, i, x));
        z = sigmoid(both(w, 1, i, x));
        n = tanh(of_input(w, 2, i, x) + r * of_hidden(w, 2, i));
        return (w->h[i] - n) * z + n;
    case TD_RECURRENT_tanh:
        return tanh(both(w, 0, i, x));
    default:
        sum = both(w, 0, i, x);
        return sum < 0 ? 0 : sum;
    }
}

static void step(struct walk *w, const double *x, double *y)
{
    const struct td_recurrent *r = w->r;
    for (int64_t i = 0; i < r->hidden; i++)
        w->plain[i] = cell(w, i, x);
    for (int64_t i = 0; i < r->shown; i++)
        w->next[i] = w->l.w_shown ? row(w->l.w_shown, NULL, i, w->plain, r->hidden) : w->plain[i];
    memcpy(w->h, w->next, (size_t)r->shown * sizeof *w->h);
    memcpy(y, w->next, (size_t)r->shown * sizeof *y);
}

/* Of one sequence: one layer one way, from x to its part of y. */
static void run(struct walk *w, int64_t layer, int64_t way, int64_t b, const double *x, double *y)
{
    const struct td_recurrent *r = w->r;
    int64_t at = (layer * r->ways + way) * r->batch + b, width = td_recurrent_width(r);
    for (int64_t i = 0; i < r->shown; i++)
        w->h[i] = td_get_real(r->h, at * r->shown + i);
    for (int64_t i = 0; r->c && i < r->hidden; i++)
        w->c[i] = td_get_real(r->c, at * r->hidden + i);
    for (int64_t k = 0; k < r->steps && !td_stopped(); k++) {
        int64_t t = way ? r->steps - 1 - k : k;
        step(w, x + t * w->l.inputs, y + t * width + way * r->shown);
    }
    for (int64_t i = 0; i < r->shown; i++)
        td_put_real(r->out_h, at * r->shown + i, w->h[i]);
    for (int64_t i = 0; r->c && i < r->hidden; i++)
        td_put_real(r->out_c, at * r->hidden + i, w->c[i]);
}

td_kernel td_recurrent_ref;
void td_recurrent_ref(const struct td_call *call)
{
    struct td_recurrent r = td_recurrent_of(call);
    int64_t width = td_recurrent_width(&r), wide = width > r.inputs ? width : r.inputs;
    double *x = call->scratch, *y = x + r.steps * wide, *rest = y + r.steps * wide;
    struct walk w = {
        &r, {0}, rest, rest + r.shown, rest + 2 * r.shown, rest + 2 * r.shown + r.hidden};
    for (int64_t b = 0; b < r.batch; b++) {
        for (int64_t t = 0; t < r.steps; t++)
            for (int64_t i = 0; i < r.inputs; i++)
                x[t * r.inputs + i] =
                    td_get_real(r.input, td_recurrent_row(&r, t, b) * r.inputs + i);
        double *from = x, *to = y;
        for (int64_t layer = 0; layer < r.layers; layer++) {
            for (int64_t way = 0; way < r.ways; way++) {
                w.l = td_recurrent_layer(&r, layer, way);
                run(&w, layer, way, b, from, to);
            }
            double *done = to;
            to = from;
            from = done;
        }
        for (int64_t t = 0; t < r.steps; t++)
            for (int64_t i = 0; i < width; i++)
                td_put_real(r.out, td_recurrent_row(&r, t, b) * width + i, from[t * width + i]);
    }
}
