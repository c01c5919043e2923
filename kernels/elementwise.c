/* One element at a time, of any type: how references read and write. */
#include "kernels/elementwise.h"

#include "kernels/half.h"

#include <errno.h>
#include <float.h>
#include <string.h>

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
    case TD_u64:
        return (double)((const uint64_t *)t->data)[i];
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
    case TD_u64:
        return ((const int64_t *)t->data)[i];
    case TD_u16:
        return ((const uint16_t *)t->data)[i];
    case TD_u32:
        return ((const uint32_t *)t->data)[i];
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
    case TD_u64:
        ((uint64_t *)t->data)[i] = td_f64_to_u64(x);
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
    case TD_u16:
        ((uint16_t *)t->data)[i] = (uint16_t)x;
        break;
    case TD_i32:
    case TD_u32:
        ((uint32_t *)t->data)[i] = (uint32_t)x;
        break;
    case TD_i64:
    case TD_u64:
        ((int64_t *)t->data)[i] = x;
        break;
    case TD_f64:
        ((double *)t->data)[i] = (double)x;
        break;
    default:
        td_put_real(t, i, td_i64_to_odd(x));
    }
}

void td_put_scalar(const struct td_tensor *t, int64_t i, const struct td_value *v)
{
    if (t->dtype == TD_bool)
        td_put_whole(t, i, td_scalar(v) != 0);
    else if (v->kind == TD_KIND_float)
        td_put_real(t, i, v->f);
    else if (v->wide && td_dtype_kind(t->dtype) == 'f')
        td_put_real(t, i, t->dtype == TD_f64 ? td_scalar(v) : td_u64_to_odd((uint64_t)v->i));
    else
        td_put_whole(t, i, td_scalar_int(v));
}

/* Adds up the products of elements of one type, which get makes numbers of, and returns the sum. */
#define TD_DOT(type, number, get)                                                                  \
    for (int64_t i = 0; i < n; i++)                                                                \
        sum += (number)get(((const type *)a->data)[at_a + i * step_a]) *                           \
               (number)get(((const type *)b->data)[at_b + i * step_b]);                            \
    return sum;

double td_dot_real(const struct td_tensor *a, int64_t at_a, int64_t step_a,
                   const struct td_tensor *b, int64_t at_b, int64_t step_b, int64_t n)
{
    double sum = 0;
    switch (a->dtype == b->dtype ? a->dtype : TD_DTYPE_none) {
    case TD_f64:
        TD_DOT(double, double, )
    case TD_f32:
        TD_DOT(float, double, )
    case TD_bf16:
        TD_DOT(uint16_t, double, td_bf16_to_f32)
    case TD_f16:
        TD_DOT(uint16_t, double, td_f16_to_f32)
    default:
        for (int64_t i = 0; i < n; i++)
            sum += td_get_real(a, at_a + i * step_a) * td_get_real(b, at_b + i * step_b);
        return sum;
    }
}

uint64_t td_dot_whole(const struct td_tensor *a, int64_t at_a, int64_t step_a,
                      const struct td_tensor *b, int64_t at_b, int64_t step_b, int64_t n)
{
    uint64_t sum = 0;
    switch (a->dtype == b->dtype ? a->dtype : TD_DTYPE_none) {
    case TD_i8:
        TD_DOT(int8_t, uint64_t, )
    case TD_i16:
        TD_DOT(int16_t, uint64_t, )
    case TD_i32:
        TD_DOT(int32_t, uint64_t, )
    case TD_i64:
        TD_DOT(int64_t, uint64_t, )
    default:
        for (int64_t i = 0; i < n; i++)
            sum += (uint64_t)td_get_whole(a, at_a + i * step_a) *
                   (uint64_t)td_get_whole(b, at_b + i * step_b);
        return sum;
    }
}

bool td_holds_int(enum td_dtype dtype, const struct td_value *v)
{
    return v->wide ? dtype == TD_u64 : td_holds_whole(dtype, v->i);
}

bool td_holds_whole(enum td_dtype dtype, int64_t x)
{
    uint64_t room = 0;
    struct td_tensor one = {.data = &room, .dtype = dtype};
    td_put_whole(&one, 0, x);
    return td_get_whole(&one, 0) == x && (dtype != TD_u64 || x >= 0);
}

int64_t td_order_bit(enum td_dtype dtype)
{
    return dtype == TD_u64 ? INT64_MIN : 0;
}

double td_most(enum td_dtype dtype)
{
    return dtype == TD_f16    ? 65504
           : dtype == TD_bf16 ? 0x1.fep127
           : dtype == TD_f32  ? (double)FLT_MAX
                              : DBL_MAX;
}

int td_rule_placement(struct td_call *call, int first)
{
    static const char *const right[] = {"cpu",           "cpu:0",
                                        "strided",       "preserve_format",
                                        "channels_last", "contiguous_format",
                                        "RefCPU",        "channels_last_3d"};
    for (int i = first; i < call->n_args; i++) {
        size_t k = 0;
        while (call->arg[i].kind == TD_KIND_str && k < sizeof right / sizeof *right &&
               strcmp(call->arg[i].str, right[k]))
            k++;
        if (k == sizeof right / sizeof *right)
            return td_refuse(call,
                             "'%.40s' is no place for a tensor here; right are device cpu, layout "
                             "strided, and ATen's memory formats, which change nothing",
                             call->arg[i].str);
    }
    return 0;
}

int td_rule_unary(struct td_call *call)
{
    call->out[0] = call->arg[0].tensor;
    call->out[0].weight = NULL;
    call->n_out = 1;
    return 0;
}
