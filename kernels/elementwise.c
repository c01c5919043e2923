/* The loop nest behind every elementwise operator: dimensions that can be walked as one are folded
 * together, then runs of the innermost one go to the level's row function. A piece of work is a
 * range of output elements, so a thread's share may begin and end inside a run; that keeps short
 * rows and long rows equally well split. */
#include "kernels/elementwise.h"

#include "kernels/half.h"

#include <errno.h>
#include <string.h>

struct nest {
    const struct td_call *call;
    td_row *row;
    int n_in, rank;
    int64_t shape[TD_MAX_RANK];              /* folded, outermost first */
    int64_t step[TD_EW_INPUTS][TD_MAX_RANK]; /* elements; 0 where the input is broadcast */
    size_t size[TD_EW_INPUTS], out_size;     /* bytes an element */
    const char *in[TD_EW_INPUTS];
    char *out;
};

/* Steps of input k in the output's dimensions, then folds a dimension into its inner neighbour
 * wherever every input walks both as one. */
static void fold(struct nest *nest)
{
    const struct td_tensor *out = &nest->call->out[0];
    int rank = 0;
    for (int d = 0; d < out->rank; d++) {
        if (out->shape[d] == 1)
            continue;
        nest->shape[rank] = out->shape[d];
        for (int k = 0; k < nest->n_in; k++) {
            const struct td_tensor *t = &nest->call->arg[k].tensor;
            int own = d - (out->rank - t->rank);
            int64_t step = 0;
            if (own >= 0 && t->shape[own] != 1) {
                step = 1;
                for (int i = own + 1; i < t->rank; i++)
                    step *= t->shape[i];
            }
            nest->step[k][rank] = step;
        }
        bool joins = rank > 0;
        for (int k = 0; joins && k < nest->n_in; k++)
            joins = nest->step[k][rank - 1] == nest->step[k][rank] * nest->shape[rank];
        if (joins) {
            nest->shape[rank - 1] *= nest->shape[rank];
            for (int k = 0; k < nest->n_in; k++)
                nest->step[k][rank - 1] = nest->step[k][rank];
        } else {
            rank++;
        }
    }
    if (!rank) { /* a single element */
        nest->shape[0] = 1;
        for (int k = 0; k < nest->n_in; k++)
            nest->step[k][0] = 1;
        rank = 1;
    }
    nest->rank = rank;
}

static void run_range(void *arg, int64_t begin, int64_t end)
{
    const struct nest *nest = arg;
    int last = nest->rank - 1;
    int64_t inner = nest->shape[last];
    int steps[TD_EW_INPUTS];
    for (int k = 0; k < nest->n_in; k++)
        steps[k] = (int)nest->step[k][last];
    while (begin < end) {
        int64_t row = begin / inner, col = begin % inner, n = inner - col;
        if (n > end - begin)
            n = end - begin;
        const void *in[TD_EW_INPUTS];
        for (int k = 0; k < nest->n_in; k++) {
            int64_t at = col * steps[k], rest = row;
            for (int d = last - 1; d >= 0; d--) {
                at += rest % nest->shape[d] * nest->step[k][d];
                rest /= nest->shape[d];
            }
            in[k] = nest->in[k] + (size_t)at * nest->size[k];
        }
        nest->row(nest->call, n, nest->out + (size_t)begin * nest->out_size, in, steps);
        begin += n;
    }
}

void td_elementwise(const struct td_call *call, int n_in, td_row *row)
{
    struct nest nest = {.call = call, .row = row, .n_in = n_in, .out = call->out[0].data};
    int64_t n = td_numel(&call->out[0]);
    if (!n)
        return;
    nest.out_size = td_dtype_size(call->out[0].dtype);
    for (int k = 0; k < n_in; k++) {
        nest.in[k] = call->arg[k].tensor.data;
        nest.size[k] = td_dtype_size(call->arg[k].tensor.dtype);
    }
    fold(&nest);
    /* Waking a team takes 25 us and more. An operation on two tensors that is no more than one step
     * an element is done with 256K elements of 4 bytes in 55; exp and its like take ten times that.
     */
    bool cheap = n_in > 1 && !call->op->flops;
    td_parallel(call->threads, n, cheap ? 262144 : 16384, run_range, &nest);
}

/* ---- the reference's way ---- */

double td_get_real(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_f16:
        return (double)td_f16_to_f32(((const uint16_t *)t->data)[i]);
    case TD_bf16:
        return (double)td_bf16_to_f32(((const uint16_t *)t->data)[i]);
    case TD_f32:
        return (double)((const float *)t->data)[i];
    case TD_f64:
        return ((const double *)t->data)[i];
    default:
        return (double)td_get_whole(t, i);
    }
}

int64_t td_get_whole(const struct td_tensor *t, int64_t i)
{
    switch (t->dtype) {
    case TD_bool:
        return ((const uint8_t *)t->data)[i] != 0;
    case TD_u8:
        return ((const uint8_t *)t->data)[i];
    case TD_i8:
        return ((const int8_t *)t->data)[i];
    case TD_i16:
        return ((const int16_t *)t->data)[i];
    case TD_i32:
        return ((const int32_t *)t->data)[i];
    case TD_i64:
        return ((const int64_t *)t->data)[i];
    default:
        return td_scalar_int(&(struct td_value){.kind = TD_KIND_float, .f = td_get_real(t, i)});
    }
}

void td_put_real(const struct td_tensor *t, int64_t i, double x)
{
    switch (t->dtype) {
    case TD_f16:
        ((uint16_t *)t->data)[i] = td_f32_to_f16(td_f64_to_odd(x));
        break;
    case TD_bf16:
        ((uint16_t *)t->data)[i] = td_f32_to_bf16(td_f64_to_odd(x));
        break;
    case TD_f32:
        ((float *)t->data)[i] = (float)x;
        break;
    case TD_f64:
        ((double *)t->data)[i] = x;
        break;
    case TD_bool:
        ((uint8_t *)t->data)[i] = x != 0;
        break;
    default:
        td_put_whole(t, i, td_scalar_int(&(struct td_value){.kind = TD_KIND_float, .f = x}));
    }
}

void td_put_whole(const struct td_tensor *t, int64_t i, int64_t x)
{
    switch (t->dtype) {
    case TD_bool:
        ((uint8_t *)t->data)[i] = x != 0;
        break;
    case TD_u8:
    case TD_i8:
        ((uint8_t *)t->data)[i] = (uint8_t)x;
        break;
    case TD_i16:
        ((uint16_t *)t->data)[i] = (uint16_t)x;
        break;
    case TD_i32:
        ((uint32_t *)t->data)[i] = (uint32_t)x;
        break;
    case TD_i64:
        ((int64_t *)t->data)[i] = x;
        break;
    case TD_f64:
        ((double *)t->data)[i] = (double)x;
        break;
    default:
        td_put_real(t, i, td_i64_to_odd(x));
    }
}

void td_elementwise_ref(const struct td_call *call, int n_in, td_ref_real *real,
                        td_ref_whole *whole)
{
    const struct td_tensor *out = &call->out[0];
    bool is_whole = td_dtype_kind(out->dtype) != 'f' && whole;
    int64_t n = td_numel(out), index[TD_MAX_RANK] = {0};
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        double x[TD_EW_INPUTS];
        int64_t w[TD_EW_INPUTS];
        for (int k = 0; k < n_in; k++) {
            const struct td_tensor *t = &call->arg[k].tensor;
            int64_t at = 0;
            for (int d = 0; d < t->rank; d++)
                at = at * t->shape[d] + (t->shape[d] == 1 ? 0 : index[d + out->rank - t->rank]);
            if (is_whole)
                w[k] = td_get_whole(t, at);
            else
                x[k] = td_get_real(t, at);
        }
        if (is_whole)
            td_put_whole(out, i, whole(call, w));
        else
            td_put_real(out, i, real(call, x));
        for (int d = out->rank - 1; d >= 0 && ++index[d] == out->shape[d]; d--)
            index[d] = 0;
    }
}

/* ---- rules ---- */

int td_rule_unary(struct td_call *call)
{
    call->out[0] = call->arg[0].tensor;
    call->out[0].weight = NULL;
    call->n_out = 1;
    return 0;
}

int td_rule_broadcast(struct td_call *call, int n)
{
    struct td_tensor *out = &call->out[0];
    *out = (struct td_tensor){.dtype = call->arg[0].tensor.dtype};
    for (int k = 0; k < n; k++)
        if (call->arg[k].tensor.rank > out->rank)
            out->rank = call->arg[k].tensor.rank;
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = 1;
    for (int k = 0; k < n; k++) {
        const struct td_tensor *t = &call->arg[k].tensor;
        for (int d = 0; d < t->rank; d++) {
            int64_t *size = &out->shape[d + out->rank - t->rank];
            if (*size == 1)
                *size = t->shape[d];
            else if (t->shape[d] != 1 && t->shape[d] != *size)
                return td_refuse(call,
                                 "the shapes do not broadcast: dimension %d of argument %d is "
                                 "%lld, the others say %lld; equal sizes or 1 are right",
                                 d, k, (long long)t->shape[d], (long long)*size);
        }
    }
    call->n_out = 1;
    return 0;
}

int td_rule_binary(struct td_call *call)
{
    return td_rule_broadcast(call, 2);
}

int td_rule_alpha(struct td_call *call, int i)
{
    if (td_dtype_kind(call->arg[0].tensor.dtype) != 'f' && call->arg[i].kind == TD_KIND_float)
        return td_refuse(call, "alpha: must be an integer when self is of an integer type");
    return 0;
}
