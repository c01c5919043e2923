/* What operators that resample ask of their sizes: see upsample.h. */
#include "kernels/upsample.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <math.h>

static int rule_size(struct td_call *call, int dims, int d, int64_t in, int factors, int64_t *out)
{
    const struct td_value *sizes = &call->arg[1];
    if (sizes->kind == TD_KIND_ints) {
        *out = sizes->ints.v[d];
        return *out > 0
                   ? 0
                   : td_refuse(call, "output_size: is %lld; 1 and up is right", (long long)*out);
    }
    double factor = td_upsample_factor(call, dims, factors, d), size = (double)in * factor;
    if (!(factor > 0) || !(size >= 1 && size < 0x1p62))
        return td_refuse(call,
                         "scale_factors: %.15g makes %.15g of %lld elements; 1 and up is right",
                         factor, floor(size), (long long)in);
    *out = td_size_of_real(size);
    return 0;
}

int td_rule_upsample(struct td_call *call, int dims, int factors)
{
    const struct td_tensor *in = &call->arg[0].tensor;
    const struct td_value *sizes = &call->arg[1];
    if (in->rank != dims + 2)
        return td_refuse(call,
                         "self: has %d dimensions; %d, a batch, channels and %d more, are right",
                         in->rank, dims + 2, dims);
    if (factors >= 0 && (sizes->kind == TD_KIND_none) == (call->arg[factors].kind == TD_KIND_none))
        return td_refuse(call, "output_size: either it or scale_factors is to be given");
    int n = sizes->kind == TD_KIND_ints ? sizes->ints.n : call->arg[factors].floats.n;
    if (n != dims)
        return td_refuse(call, "%s: has %d entries; %d is right",
                         sizes->kind == TD_KIND_ints ? "output_size" : "scale_factors", n, dims);
    call->out[0] = *in;
    call->out[0].weight = NULL;
    call->n_out = 1;
    for (int d = 1; d < in->rank; d++)
        if (!in->shape[d])
            return td_refuse(call, "self: dimension %d is 0; only the batch may be", d);
    int err = 0;
    for (int d = 0; !err && d < dims; d++)
        err = rule_size(call, dims, d, in->shape[d + 2], factors, &call->out[0].shape[d + 2]);
    return err;
}

double td_upsample_factor(const struct td_call *call, int dims, int factors, int d)
{
    const struct td_value *v = &call->arg[factors < 0 ? -factors + d : factors];
    double f = factors < 0 ? (v->kind == TD_KIND_float ? v->f : 0)
               : v->kind == TD_KIND_floats && v->floats.n == dims ? v->floats.v[d]
                                                                  : 0;
    return f > 0 ? f : 0;
}
