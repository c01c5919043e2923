/* ATen's type promotion. Types fall into three categories, bool < integers < floats. Tensors with
 * dimensions decide the type unless a 0-dimensional tensor, and after it a plain number, is of a
 * higher category: then the higher category's type is taken, FP32 standing for a plain float.
 * (PyTorch's documentation, "Type promotion".) */
#include "dispatch/dispatch.h"

static int category(enum td_dtype dtype)
{
    char kind = td_dtype_kind(dtype);
    return kind == 'b' ? 0 : kind == 'f' ? 2 : 1;
}

/* The smallest type that holds both of a category; none is neutral. */
static enum td_dtype join(enum td_dtype a, enum td_dtype b)
{
    if (!a || !b || a == b)
        return a | b;
    if (category(a) != category(b))
        return category(a) > category(b) ? a : b;
    if (category(a) == 2) /* FP16 and BF16 hold each other only in FP32 */
        return td_dtype_size(a) == td_dtype_size(b) ? TD_f32 : a > b ? a : b;
    enum td_dtype low = a < b ? a : b, high = a < b ? b : a;
    if (low == TD_u8 && high == TD_i8)
        return TD_i16;
    return high;
}

static enum td_dtype join_all(unsigned set)
{
    enum td_dtype all = TD_DTYPE_none;
    for (unsigned rest = set; rest; rest &= rest - 1)
        all = join(all, (enum td_dtype)(rest & -rest));
    return all;
}

enum td_dtype td_promote_types(unsigned tensors, unsigned zero_dim, unsigned scalars)
{
    enum td_dtype type = join_all(tensors), zero = join_all(zero_dim), number = join_all(scalars);
    if (number == TD_f64)
        number = TD_f32;
    if (zero && (!type || category(zero) > category(type)))
        type = zero;
    if (number && (!type || category(number) > category(type)))
        type = number;
    return type;
}
