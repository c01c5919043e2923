/* Elements that lie anyhow, in the order of the result's, for rows that want them dense; and those
 * of BOOL among others. */
#include "kernels/pointwise/pointwise.h"

#include <string.h>

void td_point_copy(char *to, const char *from, int64_t n, int64_t step, size_t size)
{
    if (step == 1 && n >= 8) {
        memcpy(to, from, (size_t)n * size);
        return;
    }
    switch (size) {
#define TD_COPY(type)                                                                              \
    case sizeof(type):                                                                             \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)to)[i] = ((const type *)from)[i * step];                                      \
        break;
        TD_COPY(uint8_t)
        TD_COPY(uint16_t)
        TD_COPY(uint32_t)
        TD_COPY(uint64_t)
#undef TD_COPY
    }
}

void td_point_put(char *to, struct td_value number, enum td_dtype type)
{
    double x = td_scalar(&number);
    float narrow = (float)x;
    int64_t whole = type == TD_bool ? x != 0 : td_scalar_int(&number);
    memcpy(to,
           td_dtype_kind(type) != 'f' ? (void *)&whole
           : type == TD_f32           ? (void *)&narrow
                                      : (void *)&x,
           td_dtype_size(type));
}

void td_point_lay_out(const struct td_point_walked *v, int64_t begin, int64_t n, char *to)
{
    int64_t index[TD_MAX_RANK], at = 0, rest = begin;
    int last = v->rank - 1;
    for (int d = last; d >= 0; d--) {
        index[d] = rest % v->shape[d];
        rest /= v->shape[d];
        at += index[d] * v->step[d];
    }
    while (n > 0) {
        int64_t run = v->shape[last] - index[last];
        run = run < n ? run : n;
        td_point_copy(to, v->data + at * (int64_t)v->size, run, v->step[last], v->size);
        to += run * (int64_t)v->size;
        n -= run;
        at += run * v->step[last];
        index[last] += run;
        for (int d = last; d > 0 && index[d] == v->shape[d]; d--) {
            at += v->step[d - 1] - index[d] * v->step[d];
            index[d] = 0;
            index[d - 1]++;
        }
    }
}

void td_point_widen(const struct td_point_args *args, int64_t n, void *out, const void *const *in)
{
    const uint8_t *from = in[0];
    switch (td_dtype_signed(args->to)) {
#define TD_TO(id, type)                                                                            \
    case id:                                                                                       \
        for (int64_t i = 0; i < n; i++)                                                            \
            ((type *)out)[i] = from[i];                                                            \
        break;
        TD_TO(TD_f32, float)
        TD_TO(TD_f64, double)
        TD_TO(TD_i16, int16_t)
        TD_TO(TD_i32, int32_t)
        TD_TO(TD_i64, int64_t)
    default:
        memcpy(out, from, (size_t)n);
#undef TD_TO
    }
}
