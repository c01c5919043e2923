/* What the files of the recurrent family share: LSTM, GRU and the plain network, of several layers,
 * in one direction or both. */
#ifndef TD_KERNELS_RECURRENT_H
#define TD_KERNELS_RECURRENT_H

#include "kernels/kernels.h"

enum td_recurrent_cell {
    TD_RECURRENT_lstm, /* gates i, f, g, o */
    TD_RECURRENT_gru,  /* gates r, z, n */
    TD_RECURRENT_tanh,
    TD_RECURRENT_relu,
};

struct td_recurrent {
    enum td_recurrent_cell cell;
    const struct td_tensor *input, *out; /* [steps, batch, ..], or [batch, steps, ..] */
    const struct td_tensor *h, *c;       /* [layers * ways, batch, ..]; c: of LSTM, else NULL */
    const struct td_tensor *out_h, *out_c;
    const struct td_tensor *params; /* of layer after layer, each way's at a stretch */
    int n_params;                   /* of a layer, one way */
    bool biases, batch_first;
    int64_t layers, ways;
    int64_t steps, batch, inputs, hidden;
    int64_t shown; /* elements of h: hidden, or fewer where LSTM projects it */
    int64_t gates; /* times hidden: rows of the weights */
};

struct td_recurrent td_recurrent_of(const struct td_call *call);

/* One layer, one way. */
struct td_recurrent_layer {
    int64_t inputs;
    const struct td_tensor *w_input, *w_hidden, *b_input, *b_hidden; /* biases NULL: none */
    const struct td_tensor *w_shown;                                 /* NULL: no projection */
};
struct td_recurrent_layer td_recurrent_layer(const struct td_recurrent *r, int64_t layer,
                                             int64_t way);

/* The width of what a layer hands on. */
static inline int64_t td_recurrent_width(const struct td_recurrent *r)
{
    return r->shown * r->ways;
}

/* Where step t of batch b stands among the rows of the input and the output. */
static inline int64_t td_recurrent_row(const struct td_recurrent *r, int64_t t, int64_t b)
{
    return r->batch_first ? b * r->steps + t : t * r->batch + b;
}

/* How the vector rows lay out their scratch, in elements of FP32, or FP64 for FP64, but the last.
 */
struct td_recurrent_room {
    int64_t stretch; /* steps of which the input's part is made at a time */
    int64_t layer[2], gates, state, cells, plain, w_input, w_hidden, w_shown, bias, end;
    size_t products; /* bytes of scratch for any of its products, which begins at end */
};
struct td_recurrent_room td_recurrent_room(const struct td_recurrent *r, int threads);

/* Whether a step's weight is transposed first, once for all steps: where it would else be packed
 * anew at each. One that is stored is packed once in any case. */
static inline bool td_recurrent_turns(const struct td_recurrent *r, const struct td_tensor *w)
{
    return r->batch > 4 && r->steps > 4 && w->dtype & (TD_f32 | TD_f64) && !w->weight;
}

/* The product out[m, n] = a[m, k] x b[n, k] transposed + bias, in one type; bias_step: elements
 * from one row of it to the next. */
struct td_gemm;
void td_recurrent_gemm(struct td_gemm *g, const struct td_tensor *a, const struct td_tensor *b,
                       const struct td_tensor *bias, int64_t bias_step, const struct td_tensor *out,
                       int64_t m, int64_t n, int64_t k, int threads);

#endif
