/* Rules of operators that write into a part of self that numbers say: a slice, a diagonal. They put
 * the numbers in order, so that the plan can take them as they are. */
#include "kernels/index/index.h"
#include "kernels/sizes.h"

#include "kernels/dims.h"

#include <errno.h>
#include <string.h>

/* The source, which has become of self's type, is of this shape. */
static int judged_source(struct td_call *call, const struct td_tensor *part)
{
    const struct td_tensor *self = &call->arg[0].tensor, *src = &call->arg[1].tensor;
    call->n_out = 1;
    call->out[0] = *self;
    if (src->rank != part->rank)
        return td_refuse(call, "src: has %d dimensions, but the part of self has %d", src->rank,
                         part->rank);
    for (int d = 0; d < src->rank; d++)
        if (src->shape[d] != part->shape[d])
            return td_refuse(call, "src: size %lld in dimension %d; the part of self has %lld",
                             (long long)src->shape[d], d, (long long)part->shape[d]);
    return 0;
}

static void leave_out(struct td_tensor *t, int dim)
{
    memmove(t->shape + dim, t->shape + dim + 1, sizeof *t->shape * (size_t)(t->rank - dim - 1));
    t->rank--;
}

int td_index_rule_select_part(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    int64_t *index = &call->arg[3].i;
    if (!self->rank)
        return td_refuse(call, "self: has no dimensions to select from");
    int err = td_rule_dim(call, 2, "dim", self->rank);
    if (err)
        return err;
    int64_t size = self->shape[call->arg[2].i];
    if (*index < -size || *index >= size)
        return td_refuse(call, "index: is %lld, out of range; from %lld to %lld is right",
                         (long long)*index, (long long)-size, (long long)size - 1);
    *index += *index < 0 ? size : 0;
    struct td_tensor part = *self;
    leave_out(&part, (int)call->arg[2].i);
    return judged_source(call, &part);
}

/* A start or an end, which may be counted from the end, or be beyond either one. */
static void clamp(struct td_value *v, int64_t otherwise, int64_t size)
{
    int64_t i = v->kind == TD_KIND_none ? otherwise : v->i;
    i += i < 0 ? size : 0;
    *v = (struct td_value){.kind = TD_KIND_int, .i = i < 0 ? 0 : i > size ? size : i};
}

int td_index_rule_slice_part(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    int64_t step = call->arg[5].i;
    if (!self->rank)
        return td_refuse(call, "self: has no dimensions to slice");
    int err = td_rule_dim(call, 2, "dim", self->rank);
    if (err)
        return err;
    if (step < 1)
        return td_refuse(call, "step: is %lld; at least 1 is right", (long long)step);
    struct td_tensor part = *self;
    int64_t *size = &part.shape[call->arg[2].i];
    clamp(&call->arg[3], 0, *size);
    clamp(&call->arg[4], *size, *size);
    int64_t far = call->arg[4].i - call->arg[3].i;
    call->arg[5].i = step < *size ? step : *size + !*size; /* no further than it can lead */
    *size = far > 0 ? (far - 1) / step + 1 : 0;
    return judged_source(call, &part);
}

int td_index_rule_diagonal_part(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    int64_t offset = call->arg[2].i;
    int err = td_rule_dim(call, 3, "dim1", self->rank);
    err = err ? err : td_rule_dim(call, 4, "dim2", self->rank);
    if (err)
        return err;
    int a = (int)call->arg[3].i, b = (int)call->arg[4].i;
    if (a == b)
        return td_refuse(call, "dim2: is dim1; two dimensions have a diagonal");
    int64_t rows = self->shape[a], columns = self->shape[b];
    int64_t n = offset >= columns || offset <= -rows ? 0
                : offset >= 0 ? (columns - offset < rows ? columns - offset : rows)
                              : (rows + offset < columns ? rows + offset : columns);
    struct td_tensor part = *self;
    leave_out(&part, a > b ? a : b);
    leave_out(&part, a > b ? b : a);
    part.shape[part.rank++] = n;
    return judged_source(call, &part);
}

int td_index_rule_strided_part(struct td_call *call)
{
    const struct td_value *size = &call->arg[2], *stride = &call->arg[3];
    struct td_value *offset = &call->arg[4];
    struct td_tensor part = {.dtype = call->arg[0].tensor.dtype, .rank = size->ints.n};
    if (offset->kind == TD_KIND_none)
        *offset = (struct td_value){.kind = TD_KIND_int};
    if (size->ints.n != stride->ints.n || size->ints.n > TD_MAX_RANK)
        return td_refuse(call,
                         "stride: has %d numbers, but size has %d; as many, at most %d, are "
                         "right",
                         stride->ints.n, size->ints.n, TD_MAX_RANK);
    bool empty = false, fits = offset->i >= 0;
    int64_t last = offset->i;
    for (int d = 0; d < part.rank && fits; d++) {
        int64_t n = part.shape[d] = size->ints.v[d], far = 0;
        empty |= n == 0;
        fits = n >= 0 && stride->ints.v[d] >= 0 &&
               (n < 2 ||
                (td_size_times(n - 1, stride->ints.v[d], &far) && td_size_plus(last, far, &last)));
    }
    if (!fits || (!empty && last >= td_numel(&call->arg[0].tensor)))
        return td_refuse(call,
                         "size: with stride and storage_offset it leads out of self, which "
                         "has %lld elements",
                         (long long)td_numel(&call->arg[0].tensor));
    return judged_source(call, &part);
}
