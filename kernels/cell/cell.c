/* lstm_gates, gru_reset and gru_update: what a cell makes of its gates, with any activations of the
 * four and with peepholes. These are the recurrent kernels of Paddle's JIT (LSTMCtHt, LSTMC1H1;
 * GRUHtPart1, GRUHtPart2, GRUH1), in its order of gates. Bounds are in units of the results'
 * general size; they are FP64's, whose sums are rounded at a size that a curve then flattens. */
#include "kernels/cell/cell.h"

#include "kernels/backward.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { GATES, BEFORE, PEEPHOLE }; /* and then texts, from 3, 2 and 2 on */

static const char *const curves[] = {
#define X(name) #name,
    TD_CELL_CURVES(X)
#undef X
};

static enum td_cell_kind kind_of(const struct td_call *call)
{
    return *(const enum td_cell_kind *)call->op->family;
}

/* TD_CELL_CURVE_COUNT: there is none of that name. */
static enum td_cell_curve curve(const struct td_call *call, int i)
{
    int at = 0;
    while (at < TD_CELL_CURVE_COUNT && strcmp(call->arg[i].str, curves[at]) != 0)
        at++;
    return (enum td_cell_curve)at;
}

struct td_cell td_cell_of(const struct td_call *call)
{
    enum td_cell_kind kind = kind_of(call);
    bool lstm = kind == TD_CELL_lstm;
    struct td_cell cell = {.kind = kind,
                           .gate = curve(call, lstm ? 3 : 2),
                           .gates = td_arg(call, GATES),
                           .before = td_arg(call, BEFORE),
                           .peephole = lstm ? td_arg(call, PEEPHOLE) : NULL,
                           .h = &call->out[0],
                           .c = &call->out[1],
                           .count = lstm ? 4 : 3};
    if (kind != TD_CELL_reset)
        cell.cand = curve(call, lstm ? 4 : 3);
    if (lstm)
        cell.cell = curve(call, 5);
    cell.d = cell.gates->shape[cell.gates->rank - 1] / cell.count;
    cell.rows = cell.d ? td_numel(cell.gates) / cell.d / cell.count : 0;
    return cell;
}

static int rule_curves(struct td_call *call)
{
    static const char *const names[] = {"act_gate", "act_cand", "act_cell"};
    int first = kind_of(call) == TD_CELL_lstm ? 3 : 2;
    for (int i = first; i < call->n_args; i++)
        if (curve(call, i) == TD_CELL_CURVE_COUNT)
            return td_refuse(call, "%s: is '%.40s'; sigmoid, tanh, relu or identity is right",
                             names[i - first], call->arg[i].str);
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_tensor *gates = td_arg(call, GATES);
    bool lstm = kind_of(call) == TD_CELL_lstm;
    int count = lstm ? 4 : 3, last = gates->rank - 1;
    if (!gates->rank || gates->shape[last] % count)
        return td_refuse(call, "gates: has rows of %lld; %d gates of as many each are right",
                         gates->rank ? (long long)gates->shape[last] : 1, count);
    struct td_tensor state = *gates;
    state.weight = NULL;
    state.shape[last] /= count;
    int64_t holes[] = {3, state.shape[last]};
    const char *name = lstm ? "c" : "h";
    int err = td_rule_type(call, BEFORE, name);
    err = err ? err
              : td_rule_shape(call, BEFORE, name, "gates' with one gate's rows", state.rank,
                              state.shape);
    if (!err && lstm)
        err = td_rule_type(call, PEEPHOLE, "peephole");
    if (!err && lstm)
        err =
            td_rule_shape(call, PEEPHOLE, "peephole", "a row each for gates i, f and o", 2, holes);
    err = err ? err : rule_curves(call);
    call->n_out = 1 + lstm;
    call->out[0] = call->out[lstm] = state;
    return err;
}

static double flops(const struct td_call *call)
{
    return 30 * (double)td_numel(td_arg(call, GATES));
}

td_kernel td_cell_ref;
TD_KERNELS_3(cell);

static const struct td_impl impls[] = {
    TD_SIMD_3(cell, TD_FLOATS, .in_place = 1 << BEFORE) TD_REF(cell),
    {0},
};

#define TD_GATED(which, of, text, formula, ...)                                                    \
    const struct td_op td_op_##which = {                                                           \
        .schema = #which text,                                                                     \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TD_FLOATS,                                                                       \
        .ulp = 128,                                                                                \
        .sums = true,                                                                              \
        .impls = impls,                                                                            \
        .flops = flops,                                                                            \
        .mixes = TD_MAX_RANK,                                                                      \
        .family = &(const enum td_cell_kind){TD_CELL_##of},                                        \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };

TD_GATED(lstm_gates, lstm,
         "(Tensor gates, Tensor? c=None, Tensor? peephole=None, *, str act_gate='sigmoid', str "
         "act_cand='tanh', str act_cell='tanh') -> (Tensor h, Tensor c)",
         "Paddle's LSTM kernels: gates are c~, i, f and o side by side; c' = act_cand(c~) * "
         "act_gate(i + peephole[0] * c) + c * act_gate(f + peephole[1] * c), h = act_cell(c') * "
         "act_gate(o + peephole[2] * c'); without c, nothing of it is added",
         "gates=[n,20] c=[n,5] small", "gates=[n,12] small", "gates=[4] c=[1] small",
         "gates=[2,n,36] c=[2,n,9] peephole=[3,9] act_gate=identity act_cand=relu act_cell=sigmoid "
         "small",
         "gates=[n,36] peephole=[3,9] act_gate=tanh act_cand=identity act_cell=relu small",
         "gates=[3,2400] c=[3,600] peephole=[3,600] act_cell=identity small")

TD_GATED(gru_reset, reset, "(Tensor gates, Tensor h, *, str act_gate='sigmoid') -> Tensor",
         "Paddle's GRUHtPart1: gates are update, reset and state side by side; out = act_gate(r) * "
         "h",
         "gates=[n,15] h=[n,5] small", "gates=[3,1800] h=[3,600] act_gate=relu small",
         "gates=[2,n,27] h=[2,n,9] act_gate=tanh small")

TD_GATED(gru_update, update,
         "(Tensor gates, Tensor? h=None, *, str act_gate='sigmoid', str act_cand='tanh') -> Tensor",
         "Paddle's GRUHtPart2 and GRUH1: gates are update, reset and state side by side; u = "
         "act_gate(u), out = u * act_cand(s) + (1 - u) * h; without h, u * act_cand(s)",
         "gates=[n,15] h=[n,5] small", "gates=[n,12] small",
         "gates=[2,n,27] h=[2,n,9] act_gate=relu act_cand=identity small",
         "gates=[3,1800] h=[3,600] act_gate=tanh act_cand=sigmoid small")
