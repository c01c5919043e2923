/* The recurrent family: lstm, gru, rnn_tanh and rnn_relu on whole sequences, in ATen's form for
 * padded ones. Bounds are in units of the results' general size; they are wide, for what a step
 * rounds goes through all that follow. */
#include "kernels/recurrent/recurrent.h"
#include "kernels/sizes.h"

#include "kernels/gemm/gemm.h"

#include <errno.h>

enum { INPUT, HX, PARAMS, BIASES, LAYERS, DROPOUT, TRAIN, BOTH_WAYS, BATCH_FIRST };

static bool is_lstm(const struct td_call *call)
{
    return *(const enum td_recurrent_cell *)call->op->family == TD_RECURRENT_lstm;
}

struct td_recurrent td_recurrent_of(const struct td_call *call)
{
    static const int gates[] = {4, 3, 1, 1};
    const struct td_value *hx = &call->arg[HX];
    struct td_recurrent r = {.cell = *(const enum td_recurrent_cell *)call->op->family,
                             .input = &call->arg[INPUT].tensor,
                             .out = &call->out[0],
                             .h = is_lstm(call) ? &hx->tensors.v[0] : &hx->tensor,
                             .c = is_lstm(call) ? &hx->tensors.v[1] : NULL,
                             .out_h = &call->out[1],
                             .out_c = &call->out[2],
                             .params = call->arg[PARAMS].tensors.v,
                             .biases = call->arg[BIASES].i,
                             .batch_first = call->arg[BATCH_FIRST].i,
                             .layers = call->arg[LAYERS].i,
                             .ways = 1 + call->arg[BOTH_WAYS].i};
    r.steps = r.input->shape[r.batch_first];
    r.batch = r.input->shape[!r.batch_first];
    r.inputs = r.input->shape[2];
    r.shown = r.h->shape[2];
    r.hidden = r.c ? r.c->shape[2] : r.shown;
    r.gates = gates[r.cell];
    r.n_params = 2 + 2 * r.biases + (r.shown != r.hidden);
    return r;
}

struct td_recurrent_layer td_recurrent_layer(const struct td_recurrent *r, int64_t layer,
                                             int64_t way)
{
    const struct td_tensor *p = r->params + (layer * r->ways + way) * r->n_params;
    return (struct td_recurrent_layer){layer ? td_recurrent_width(r) : r->inputs,
                                       p,
                                       p + 1,
                                       r->biases ? p + 2 : NULL,
                                       r->biases ? p + 3 : NULL,
                                       r->shown != r->hidden ? p + r->n_params - 1 : NULL};
}

/* ---- the rule ---- */

static int rule_state(struct td_call *call, const struct td_recurrent *r, const struct td_tensor *t,
                      const char *name)
{
    int64_t all = 0;
    bool counted = td_size_times(r->layers, r->ways, &all);
    if (t->dtype != r->input->dtype)
        return td_refuse(call, "%s: is %s, but input is %s; the same is right", name,
                         td_dtype_name(t->dtype), td_dtype_name(r->input->dtype));
    if (!counted || t->shape[0] != all || t->shape[1] != r->batch)
        return td_refuse(call,
                         "%s: is [%lld, %lld, ..]; the layers' number times the directions', then "
                         "the batch, [%lld, %lld, ..], are right",
                         name, (long long)t->shape[0], (long long)t->shape[1], (long long)all,
                         (long long)r->batch);
    return 0;
}

static int rule_states(struct td_call *call)
{
    const struct td_value *hx = &call->arg[HX];
    const struct td_tensor *given = is_lstm(call) ? hx->tensors.v : &hx->tensor;
    int n = is_lstm(call) ? hx->tensors.n : 1;
    if (call->arg[INPUT].tensor.rank != 3)
        return td_refuse(call, "input: has %d dimensions; steps, batch and elements are right",
                         call->arg[INPUT].tensor.rank);
    if (n != 1 + is_lstm(call))
        return td_refuse(call, "hx: has %d tensors; two are right, h and c", n);
    for (int i = 0; i < n; i++)
        if (given[i].rank != 3)
            return td_refuse(call, "hx: has %d dimensions; 3 are right", given[i].rank);
    if (call->arg[LAYERS].i < 1)
        return td_refuse(call, "num_layers: is %lld; 1 and up is right",
                         (long long)call->arg[LAYERS].i);
    if (call->arg[TRAIN].i && call->arg[DROPOUT].f != 0)
        return td_refuse(call,
                         "dropout: is %.15g; in training 0 is right, for nothing is dropped "
                         "here",
                         call->arg[DROPOUT].f);
    struct td_recurrent r = td_recurrent_of(call);
    if (!r.steps)
        return td_refuse(call, "input: has no steps; at least one is right");
    if (r.shown > r.hidden)
        return td_refuse(call,
                         "hx: h has rows of %lld, c of %lld; as many, or fewer where they "
                         "are projected, are right",
                         (long long)r.shown, (long long)r.hidden);
    int err = rule_state(call, &r, r.h, "hx");
    return err || !r.c ? err : rule_state(call, &r, r.c, "hx");
}

static int rule_param(struct td_call *call, const struct td_tensor *t, int64_t rows, int64_t cols)
{
    const struct td_value *params = &call->arg[PARAMS];
    int at = (int)(t - params->tensors.v), rank = 1 + (cols >= 0);
    if (t->dtype != call->arg[INPUT].tensor.dtype)
        return td_refuse(call, "params: tensor %d is %s, but input is %s; the same is right", at,
                         td_dtype_name(t->dtype), td_dtype_name(call->arg[INPUT].tensor.dtype));
    if (t->rank == rank && t->shape[0] == rows && (rank == 1 || t->shape[1] == cols))
        return 0;
    if (t->rank != rank)
        return td_refuse(call, "params: tensor %d has %d dimensions; %d are right", at, t->rank,
                         rank);
    if (rank == 1)
        return td_refuse(call, "params: tensor %d is [%lld]; [%lld] is right", at,
                         (long long)t->shape[0], (long long)rows);
    return td_refuse(call, "params: tensor %d is [%lld, %lld]; [%lld, %lld] is right", at,
                     (long long)t->shape[0], (long long)t->shape[1], (long long)rows,
                     (long long)cols);
}

static int rule_params(struct td_call *call, const struct td_recurrent *r)
{
    const struct td_value *params = &call->arg[PARAMS];
    int64_t rows = 0, ways = r->layers * r->ways;
    if (params->tensors.n % r->n_params || params->tensors.n / r->n_params != ways)
        return td_refuse(call,
                         "params: has %d tensors; %d for each of %lld layers and directions are "
                         "right",
                         params->tensors.n, r->n_params, (long long)ways);
    if (!td_size_times(r->gates, r->hidden, &rows))
        return td_refuse(call, "hx: rows of %lld are too long to be counted", (long long)r->hidden);
    int err = 0;
    for (int64_t i = 0; i < ways && !err; i++) {
        struct td_recurrent_layer l = td_recurrent_layer(r, i / r->ways, i % r->ways);
        err = rule_param(call, l.w_input, rows, l.inputs);
        err = err ? err : rule_param(call, l.w_hidden, rows, r->shown);
        err = err || !r->biases ? err : rule_param(call, l.b_input, rows, -1);
        err = err || !r->biases ? err : rule_param(call, l.b_hidden, rows, -1);
        err = err || !l.w_shown ? err : rule_param(call, l.w_shown, r->shown, r->hidden);
    }
    return err;
}

static int rule(struct td_call *call)
{
    int err = rule_states(call);
    if (err)
        return err;
    struct td_recurrent r = td_recurrent_of(call);
    call->n_out = 2 + is_lstm(call);
    call->out[0] = *r.input;
    call->out[0].weight = NULL;
    if (!td_size_times(r.shown, r.ways, &call->out[0].shape[2]))
        return td_refuse(call, "hx: rows of %lld are too long to be counted", (long long)r.shown);
    for (int i = 1; i < call->n_out; i++) {
        call->out[i] = i == 1 ? *r.h : *r.c;
        call->out[i].weight = NULL;
    }
    return rule_params(call, &r);
}

/* ---- what the rows need ---- */

void td_recurrent_gemm(struct td_gemm *g, const struct td_tensor *a, const struct td_tensor *b,
                       const struct td_tensor *bias, int64_t bias_step, const struct td_tensor *out,
                       int64_t m, int64_t n, int64_t k, int threads)
{
    *g = (struct td_gemm){.m = m,
                          .n = n,
                          .k = k,
                          .step_k = 1,
                          .step_n = k,
                          .a = a,
                          .b = b,
                          .bias = bias,
                          .out = out,
                          .bias_i = bias_step,
                          .bias_j = 1,
                          .threads = threads};
}

static void most(size_t *bytes, enum td_dtype type, int64_t m, int64_t n, int64_t k, int threads)
{
    struct td_tensor t = {.dtype = type};
    struct td_gemm g;
    td_recurrent_gemm(&g, &t, &t, NULL, 0, &t, m, n, k, threads);
    for (int turned = 0; turned < 2; turned++) { /* b as it lies, and transposed */
        size_t need = type == TD_f64 ? td_gemm_scratch_any(&g) : td_gemm_scratch(&g);
        *bytes = need > *bytes ? need : *bytes;
        g.step_k = n;
        g.step_n = 1;
    }
}

static int64_t take(int64_t *end, int64_t n)
{
    int64_t at = *end;
    *end += (n + 15) / 16 * 16;
    return at;
}

struct td_recurrent_room td_recurrent_room(const struct td_recurrent *r, int threads)
{
    enum { STRETCH = 1 << 20 }; /* elements that are made of the input at a time */
    struct td_recurrent_room room = {0};
    enum td_dtype type = r->input->dtype == TD_f64 ? TD_f64 : TD_f32;
    int64_t rows = r->gates * r->hidden, width = td_recurrent_width(r), *end = &room.end;
    int64_t wide = r->inputs > width ? r->inputs : width;
    bool half = r->input->dtype & (TD_f16 | TD_bf16);
    room.stretch = 1 + STRETCH / (r->batch * rows + 1);
    room.stretch = room.stretch < r->steps ? room.stretch : r->steps;
    for (int i = 0; i < 2; i++)
        room.layer[i] = take(end, r->steps * r->batch * wide);
    room.gates = take(end, (room.stretch + 1) * r->batch * rows);
    room.state = take(end, r->batch * r->shown);
    room.cells = take(end, r->c ? r->batch * r->hidden : 0);
    room.plain = take(end, r->shown != r->hidden ? r->batch * r->hidden : 0);
    room.w_input = take(end, half ? rows * wide : 0);
    room.w_hidden = take(end, rows * r->shown);
    room.w_shown = take(end, half && r->shown != r->hidden ? r->shown * r->hidden : 0);
    room.bias = take(end, 2 * rows);
    most(&room.products, type, room.stretch * r->batch, rows, r->inputs, threads);
    most(&room.products, type, room.stretch * r->batch, rows, width, threads);
    most(&room.products, type, r->batch, rows, r->shown, threads);
    if (r->shown != r->hidden)
        most(&room.products, type, r->batch, r->shown, r->hidden, threads);
    return room;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_recurrent r = td_recurrent_of(call);
    struct td_recurrent_room room = td_recurrent_room(&r, call->threads);
    prepared->scratch = (size_t)room.end * (r.input->dtype == TD_f64 ? 8 : 4) + room.products;
    return NULL;
}

/* Two layers' results, and the states. */
static const char *prepare_ref(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_recurrent r = td_recurrent_of(call);
    int64_t wide = td_recurrent_width(&r) > r.inputs ? td_recurrent_width(&r) : r.inputs;
    prepared->scratch =
        sizeof(double) * (size_t)(2 * r.steps * r.batch * wide + 2 * r.shown + 3 * r.hidden);
    return NULL;
}

static double flops(const struct td_call *call)
{
    struct td_recurrent r = td_recurrent_of(call);
    double rows = (double)(r.steps * r.batch) * (double)r.ways, gates = (double)r.gates;
    double first = (double)(r.inputs + r.shown), rest = (double)(td_recurrent_width(&r) + r.shown);
    return rows * (double)r.hidden *
           (2 * gates * (first + (double)(r.layers - 1) * rest) + 60 * gates * (double)r.layers);
}

td_kernel td_recurrent_ref;
TD_KERNELS_3(recurrent_f32);
TD_KERNELS_3(recurrent_f64);

/* clang-format off */
static const struct td_impl impls[] = {
    TD_SIMD_3(recurrent_f32, TD_f32 | TD_bf16 | TD_f16, .prepare = prepare)
    TD_SIMD_3(recurrent_f64, TD_f64, .prepare = prepare)
    {.name = "ref", .run = td_recurrent_ref, .isa = TD_ISA_default, .dtypes = TD_ALL,
     .prepare = prepare_ref},
    {0},
};
/* clang-format on */

#define TD_FORM(hx)                                                                                \
    "(Tensor input, " hx " hx, Tensor[] params, bool has_biases, int num_layers, float dropout, "  \
    "bool train, bool bidirectional, bool batch_first) -> "
#define TD_RUN_OF(ways) " dropout=0.0 train=False bidirectional=" ways " batch_first="
#define TD_CELL(symbol, text, formula, which, ...)                                                 \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = 1024,                                                                               \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .flops = flops,                                                                            \
        .mixes = TD_MAX_RANK,                                                                      \
        .family = &(const enum td_recurrent_cell){TD_RECURRENT_##which},                           \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
/* clang-format off */
#define TD_RNN(symbol, name, formula, which, rows, wide)                                           \
    TD_CELL(symbol, name TD_FORM("Tensor") "(Tensor, Tensor)", formula, which,                     \
        "input=[2,n,m] hx=[1,n,5] params=[" rows ",m]|[" rows ",5]|[" rows "]|[" rows "] "         \
        "has_biases=True num_layers=1" TD_RUN_OF("False") "False small",                           \
        "input=[n,1,2] hx=[2,n,5] params=[" rows ",2]|[" rows ",5]|[" rows ",2]|[" rows ",5] "     \
        "has_biases=False num_layers=1" TD_RUN_OF("True") "True small",                            \
        "input=[6,9,n] hx=[1,9,2] params=[" wide ",n]|[" wide ",2] has_biases=False num_layers=1"  \
        TD_RUN_OF("False") "False small")

TD_CELL(lstm_input, "lstm.input" TD_FORM("Tensor[]") "(Tensor, Tensor, Tensor)",
    "c = sigmoid(f) * c + sigmoid(i) * tanh(g), h = sigmoid(o) * tanh(c), of i, f, g, o = input x "
    "w_ih transposed + b_ih + h x w_hh transposed + b_hh; with a fifth matrix h is projected by it",
    lstm,
    "input=[2,n,m] hx=[1,n,5]|[1,n,5] params=[20,m]|[20,5]|[20]|[20] has_biases=True num_layers=1"
    TD_RUN_OF("False") "False finite",
    "input=[n,1,2] hx=[2,n,3]|[2,n,5] params=[20,2]|[20,3]|[3,5]|[20,2]|[20,3]|[3,5] "
    "has_biases=False num_layers=1" TD_RUN_OF("True") "True finite",
    "input=[1,m,3] hx=[2,m,17]|[2,m,17] params=[68,3]|[68,17]|[68,17]|[68,17] has_biases=False "
    "num_layers=2" TD_RUN_OF("False") "False finite")
TD_RNN(gru_input, "gru.input",
    "h = (1 - z) * n + z * h, of r, z = sigmoid(input x w_ih transposed + b_ih + h x w_hh "
    "transposed + b_hh), n = tanh(input x w_in transposed + b_in + r * (h x w_hn transposed + "
    "b_hn))",
    gru, "15", "6")
TD_RNN(rnn_tanh_input, "rnn_tanh.input",
    "h = tanh(input x w_ih transposed + b_ih + h x w_hh transposed + b_hh)", tanh, "5", "2")
TD_RNN(rnn_relu_input, "rnn_relu.input",
    "h = relu(input x w_ih transposed + b_ih + h x w_hh transposed + b_hh)", relu, "5", "2")
/* clang-format on */
