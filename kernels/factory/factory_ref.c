/* The factories, reference: one element at a time. */
#include "kernels/factory/factory.h"

/* Element i as a real number, of those that are made so. */
static double real_at(const struct td_call *call, int64_t i, uint64_t seed)
{
    uint32_t word[4];
    td_philox(seed, (uint64_t)i / 2, word);
    switch (td_factory(call)->make) {
    case TD_MAKE_line:
        return td_on_line(call, i);
    case TD_MAKE_powers:
        return pow(td_scalar(&call->arg[3]), td_on_line(call, i));
    case TD_MAKE_uniform:
        return td_uniform(td_philox_word(word, (int)(i % 2)), td_uniform_bits(call->out[0].dtype));
    case TD_MAKE_normal:
        return td_normal(word, (int)(i % 2));
    default: {
        struct td_progression p = td_progression(call);
        return td_scalar(p.start) + (double)i * td_scalar(p.step);
    }
    }
}

/* The same of whole numbers, which wrap. */
static int64_t whole_at(const struct td_call *call, int64_t i, uint64_t seed)
{
    uint32_t word[4];
    int64_t columns = call->out[0].shape[1];
    if (td_factory(call)->make == TD_MAKE_diagonal)
        return i / columns == i % columns;
    if (td_factory(call)->make == TD_MAKE_whole) {
        td_philox(seed, (uint64_t)i / 2, word);
        uint64_t drawn = td_one_of(td_philox_word(word, (int)(i % 2)), td_range_size(call));
        return (int64_t)((uint64_t)td_range_low(call) + drawn);
    }
    struct td_progression p = td_progression(call);
    return (int64_t)((uint64_t)td_scalar_int(p.start) +
                     (uint64_t)i * (uint64_t)td_scalar_int(p.step));
}

/* Element i of a triangle: argument 0's, or 0. */
static void put_triangle(const struct td_call *call, int64_t i)
{
    const struct td_tensor *in = &call->arg[0].tensor, *out = &call->out[0];
    int64_t columns = in->shape[in->rank - 1], rows = in->shape[in->rank - 2];
    __int128 right = (__int128)(i % columns) - i / columns % rows, diagonal = call->arg[1].i;
    bool kept = td_factory(call)->make == TD_MAKE_lower ? right <= diagonal : right >= diagonal;
    size_t size = td_dtype_size(in->dtype);
    for (size_t k = 0; k < size; k++)
        ((char *)out->data)[(size_t)i * size + k] =
            kept ? ((char *)in->data)[(size_t)i * size + k] : 0;
}

td_kernel td_factory_ref;
void td_factory_ref(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    const struct td_value *constant = td_factory_constant(call);
    enum td_make make = td_factory(call)->make;
    bool real = make >= TD_MAKE_line && make <= TD_MAKE_normal && make != TD_MAKE_diagonal;
    bool counts = make == TD_MAKE_progression && td_dtype_kind(out->dtype) == 'f';
    uint64_t seed = td_factory_seed(call);
    int64_t n = td_numel(out);
    if (make == TD_MAKE_order) {
        td_factory_order(call);
        return;
    }
    for (int64_t i = 0; i < n && (i % TD_STRIDE || !td_stopped()); i++)
        if (constant)
            td_put_scalar(out, i, constant);
        else if (make >= TD_MAKE_lower)
            put_triangle(call, i);
        else if (real || counts)
            td_put_real(out, i, real_at(call, i, seed));
        else
            td_put_whole(out, i, whole_at(call, i, seed));
}
