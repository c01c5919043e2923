/* zeros, ones, full, arange and rand, reference: one element at a time. */
#include "kernels/factory/factory.h"

td_kernel td_zeros_ref, td_ones_ref, td_full_ref, td_arange_ref, td_rand_ref;

static void fill(const struct td_tensor *out, const struct td_value *value)
{
    int64_t n = td_numel(out);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++)
        td_factory_put(out, i, value);
}

void td_zeros_ref(const struct td_call *call)
{
    fill(&call->out[0], &td_zero);
}

void td_ones_ref(const struct td_call *call)
{
    fill(&call->out[0], &td_one);
}

void td_full_ref(const struct td_call *call)
{
    fill(&call->out[0], &call->arg[1]);
}

/* Integers wrap. */
void td_arange_ref(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    struct td_progression p = td_progression(call);
    int64_t n = td_numel(out);
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++)
        if (td_dtype_kind(out->dtype) == 'f')
            td_put_real(out, i, td_scalar(p.start) + (double)i * td_scalar(p.step));
        else
            td_put_whole(out, i,
                         (int64_t)((uint64_t)td_scalar_int(p.start) +
                                   (uint64_t)i * (uint64_t)td_scalar_int(p.step)));
}

void td_rand_ref(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    uint64_t seed = td_factory_seed(call);
    int64_t n = td_numel(out);
    int bits = out->dtype == TD_f64    ? 53
               : out->dtype == TD_f32  ? 24
               : out->dtype == TD_bf16 ? 8
                                       : 11;
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++) {
        uint32_t word[4];
        td_philox(seed, (uint64_t)i / 2, word);
        td_put_real(out, i, td_uniform(word, (int)(i % 2), bits));
    }
}
