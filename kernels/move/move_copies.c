/* Operators whose results are copies: elements in another order, more often than once, or of
 * several tensors. See move.h. */
#include "kernels/dims.h"
#include "kernels/move/move.h"
#include "kernels/sizes.h"

#include <errno.h>
#include <string.h>

/* ---- one box, copied ---- */

int td_lay_flip(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int dims[TD_MAX_LIST], err = td_dims(call, "dims", l->rank, &call->arg[1], dims);
    for (int k = 0; k < call->arg[1].ints.n && !err; k++) {
        int dim = dims[k];
        if (!l->rank || !l->shape[dim])
            continue;
        td_lay_cut(l, dim, l->shape[dim] - 1, l->shape[dim]);
        l->stride[dim] = -l->stride[dim];
    }
    return err;
}

/* Each dimension becomes two: how often it is repeated, and itself. */
static int repeat(const struct td_call *call, struct td_layout *l, const int64_t *times, int rank)
{
    struct td_layout old = *l;
    if (rank < old.rank || rank > TD_MAX_RANK)
        return td_refuse(call,
                         "repeats: has %d numbers for a tensor of rank %d; from %d to %d is "
                         "right",
                         rank, old.rank, old.rank, TD_MAX_RANK);
    l->rank = 2 * rank;
    for (int d = 0; d < rank; d++) {
        int own = d - (rank - old.rank);
        if (times[d] < 0)
            return td_refuse(call, "repeats: %lld is negative", (long long)times[d]);
        l->shape[2 * d] = times[d];
        l->stride[2 * d] = 0;
        l->shape[2 * d + 1] = own < 0 ? 1 : old.shape[own];
        l->stride[2 * d + 1] = own < 0 ? 0 : old.stride[own];
    }
    return 0;
}

int td_lay_repeat(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    return repeat(call, l, call->arg[1].ints.v, call->arg[1].ints.n);
}

/* As repeat, but where there are fewer numbers than dimensions, the first ones stay. */
int td_lay_tile(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    int64_t times[TD_MAX_LIST + TD_MAX_RANK];
    int n = call->arg[1].ints.n, more = l->rank > n ? l->rank - n : 0;
    for (int d = 0; d < more; d++)
        times[d] = 1;
    memcpy(times + more, call->arg[1].ints.v, (size_t)n * sizeof *times);
    return repeat(call, l, times, more + n);
}

bool td_piece_of_lay(const struct td_call *call, int i, struct td_piece *p)
{
    const struct td_move *move = call->op->family;
    if (i >= call->n_out)
        return false;
    if (call->arg[0].kind == TD_KIND_tensor)
        td_layout_of(&p->box, &call->arg[0].tensor);
    move->lay(call, i, &p->box);
    p->out = (struct td_tensor *)&call->out[i];
    p->offset = 0;
    int64_t step = 1;
    for (int d = p->box.rank - 1; d >= 0; step *= p->box.shape[d--])
        p->stride[d] = step;
    return true;
}

/* ---- several boxes ---- */

/* Tensors without elements and of one dimension are left out, whatever the others are like: an old
 * habit of ATen's. */
static bool counts(const struct td_tensor *t)
{
    return t->rank != 1 || t->shape[0];
}

/* Their common type. */
static int settle_type(struct td_call *call)
{
    const struct td_value *all = &call->arg[0];
    unsigned types = 0;
    for (int i = 0; i < all->tensors.n; i++)
        types |= all->tensors.v[i].dtype;
    call->out[0].dtype = td_dtype_join(types);
    return call->out[0].dtype || !types
               ? 0
               : td_refuse(call,
                           "tensors: UINT16, UINT32 and UINT64 are joined with their like and "
                           "with floats alone; cast the others");
}

int td_rule_cat(struct td_call *call)
{
    const struct td_value *all = &call->arg[0];
    const struct td_tensor *first = NULL;
    struct td_tensor *out = &call->out[0];
    for (int i = 0; i < all->tensors.n; i++) {
        if (!all->tensors.v[i].rank)
            return td_refuse(call, "tensors.%d: has no dimensions, and cannot be joined", i);
        if (!first && counts(&all->tensors.v[i]))
            first = &all->tensors.v[i];
    }
    if (!all->tensors.n)
        return td_refuse(call, "tensors: is empty");
    *out = first ? *first : all->tensors.v[0];
    call->n_out = 1;
    int err = td_rule_dim(call, 1, "dim", out->rank);
    if (err)
        return err;
    int dim = (int)call->arg[1].i;
    out->shape[dim] = 0;
    for (int i = 0; i < all->tensors.n; i++) {
        const struct td_tensor *t = &all->tensors.v[i];
        if (!counts(t))
            continue;
        bool same = t->rank == out->rank;
        for (int d = 0; same && d < out->rank; d++)
            same = d == dim || t->shape[d] == out->shape[d];
        if (!same)
            return td_refuse(call,
                             "tensors.%d: its sizes must be those of the others but for "
                             "dimension %d",
                             i, dim);
        if (!td_size_plus(out->shape[dim], t->shape[dim], &out->shape[dim]))
            return td_refuse(call, "the result would be too large to be counted");
    }
    return settle_type(call);
}

int td_rule_stack(struct td_call *call)
{
    const struct td_value *all = &call->arg[0];
    struct td_tensor *out = &call->out[0];
    if (!all->tensors.n)
        return td_refuse(call, "tensors: is empty");
    const struct td_tensor *first = &all->tensors.v[0];
    *out = *first;
    call->n_out = 1;
    int err = td_rule_dim(call, 1, "dim", first->rank + 1);
    if (err)
        return err;
    if (first->rank == TD_MAX_RANK)
        return td_refuse(call, "tensors: the result would be of rank %d; at most %d is right",
                         TD_MAX_RANK + 1, TD_MAX_RANK);
    for (int i = 1; i < all->tensors.n; i++)
        if (all->tensors.v[i].rank != first->rank ||
            memcmp(all->tensors.v[i].shape, first->shape,
                   (size_t)first->rank * sizeof *first->shape))
            return td_refuse(call, "tensors.%d: its shape must be that of the first", i);
    int dim = (int)call->arg[1].i;
    memmove(&out->shape[dim + 1], &out->shape[dim], (size_t)(out->rank - dim) * sizeof *out->shape);
    out->shape[dim] = all->tensors.n;
    out->rank++;
    return settle_type(call);
}

/* cat and stack: what is joined is one dimension, of each tensor's size, or 1. */
bool td_piece_of_cat(const struct td_call *call, int i, struct td_piece *p)
{
    const struct td_value *all = &call->arg[0];
    const struct td_tensor *out = &call->out[0];
    int dim = (int)call->arg[1].i;
    struct td_layout whole;
    if (i >= all->tensors.n)
        return false;
    const struct td_tensor *t = &all->tensors.v[i];
    bool stacked = out->rank != t->rank && counts(t);
    int64_t begin = stacked ? i : 0;
    for (int k = 0; k < i && !stacked; k++)
        begin += counts(&all->tensors.v[k]) ? all->tensors.v[k].shape[dim] : 0;
    td_layout_of(&p->box, t);
    td_layout_of(&whole, out);
    if (!counts(t))
        p->box.shape[0] = 0;
    p->out = (struct td_tensor *)out;
    p->offset = begin * whole.stride[dim];
    for (int d = 0, at = 0; d < out->rank; d++)
        if (!stacked || d != dim)
            p->stride[at++] = whole.stride[d];
    return true;
}

int td_rule_roll(struct td_call *call)
{
    struct td_value *shifts = &call->arg[1], *dims = &call->arg[2];
    call->out[0] = call->arg[0].tensor;
    call->n_out = 1;
    if (!dims->ints.n && shifts->ints.n == 1)
        return 0; /* of all elements in a row */
    if (shifts->ints.n != dims->ints.n || !dims->ints.n)
        return td_refuse(call, "shifts: has %d numbers for %d dims; as many as dims is right",
                         shifts->ints.n, dims->ints.n);
    for (int k = 0; k < dims->ints.n; k++) {
        int dim, err = td_dim(call, "dims", call->out[0].rank, dims->ints.v[k], &dim);
        if (err)
            return err;
        dims->ints.v[k] = dim;
    }
    return 0;
}

/* Each rolled dimension is cut in two, which change places: piece i takes the k-th dimension's
 * second part where bit k is set. */
bool td_piece_of_roll(const struct td_call *call, int i, struct td_piece *p)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    const struct td_value *shifts = &call->arg[1], *dims = &call->arg[2];
    int64_t by[TD_MAX_RANK] = {0};
    td_layout_of(&p->box, self);
    p->out = (struct td_tensor *)&call->out[0];
    p->offset = 0;
    if (!dims->ints.n) { /* seen as one dimension */
        p->box.rank = 1;
        p->box.shape[0] = td_numel(self);
        p->box.stride[0] = 1;
    }
    memcpy(p->stride, p->box.stride, sizeof p->stride);
    for (int k = 0; k < shifts->ints.n; k++) {
        int d = dims->ints.n ? (int)dims->ints.v[k] : 0;
        int64_t n = d < p->box.rank ? p->box.shape[d] : 0;
        if (n)
            by[d] = ((by[d] + shifts->ints.v[k] % n) % n + n) % n;
    }
    for (int d = 0; d < p->box.rank; d++) {
        if (!by[d])
            continue;
        bool second = i & 1;
        i >>= 1;
        int64_t n = p->box.shape[d], at = n - by[d]; /* [0, at) goes to [by, n), the rest before */
        p->offset += second ? 0 : by[d] * p->stride[d];
        td_lay_cut(&p->box, d, second ? at : 0, second ? by[d] : at);
    }
    return !i;
}

/* ---- images and channels ---- */

/* Adds a dimension of the result, two of the layout: outer elements, and inner ones of each. */
static void pair(struct td_layout *l, int64_t outer, int64_t step, int64_t inner,
                 int64_t inner_step)
{
    l->shape[l->rank] = outer;
    l->stride[l->rank++] = step;
    l->shape[l->rank] = inner;
    l->stride[l->rank++] = inner_step;
}

static int check_factor(const struct td_call *call, const char *name, int64_t factor, int rank)
{
    if (factor < 1 || factor > INT32_MAX)
        return td_refuse(call, "%s: is %lld; from 1 to %d is right", name, (long long)factor,
                         INT32_MAX);
    return call->arg[0].tensor.rank >= rank
               ? 0
               : td_refuse(call, "self: has %d dimensions; at least %d are right",
                           call->arg[0].tensor.rank, rank);
}

/* out[.., c, h * r + i, w * r + j] = self[.., c * r * r + i * r + j, h, w] */
int td_lay_pixel_shuffle(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    struct td_layout old = *l;
    int64_t r = call->arg[1].i;
    int c = old.rank - 3, err = check_factor(call, "upscale_factor", r, 3);
    if (err)
        return err;
    if (old.shape[c] % (r * r))
        return td_refuse(call,
                         "self: has %lld channels; a multiple of upscale_factor squared, "
                         "%lld, is right",
                         (long long)old.shape[c], (long long)(r * r));
    int64_t step = old.shape[c] ? old.stride[c] : 0; /* no channels are a multiple of any factor */
    l->rank = 0;
    for (int d = 0; d < c; d++)
        pair(l, old.shape[d], old.stride[d], 1, 0);
    pair(l, old.shape[c] / (r * r), step * r * r, 1, 0);
    pair(l, old.shape[c + 1], old.stride[c + 1], r, step * r);
    pair(l, old.shape[c + 2], old.stride[c + 2], r, step);
    return 0;
}

/* out[n, k * groups + g, ..] = self[n, g * (channels / groups) + k, ..] */
int td_lay_channel_shuffle(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    struct td_layout old = *l;
    int64_t groups = call->arg[1].i;
    int err = check_factor(call, "groups", groups, 3);
    if (err)
        return err;
    if (old.shape[1] % groups)
        return td_refuse(call, "groups: is %lld; a divisor of the %lld channels is right",
                         (long long)groups, (long long)old.shape[1]);
    int64_t each = old.shape[1] / groups;
    l->rank = 0;
    for (int d = 0; d < old.rank; d++)
        if (d == 1)
            pair(l, each, old.stride[1], groups, old.stride[1] * each);
        else
            pair(l, old.shape[d], old.stride[d], 1, 0);
    return 0;
}

/* Each element so many times in a row; without dim, of all in one. */
int td_lay_repeat_interleave(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    struct td_layout old = *l;
    int64_t times = call->arg[1].i, size = 0;
    bool flat = call->arg[2].kind == TD_KIND_none;
    int dim = 0, err = flat ? 0 : td_dim(call, "dim", old.rank, call->arg[2].i, &dim);
    if (err)
        return err;
    if (times < 0)
        return td_refuse(call, "repeats: is %lld; 0 and up is right", (long long)times);
    if (flat || !old.rank) {
        old.rank = 1;
        old.shape[0] = td_numel(l->from);
        old.stride[0] = 1;
    }
    if (call->arg[3].kind == TD_KIND_int &&
        (!td_size_times(old.shape[dim], times, &size) || size != call->arg[3].i))
        return td_refuse(call, "output_size: is %lld; the size of dim times repeats is right",
                         (long long)call->arg[3].i);
    l->rank = 0;
    for (int d = 0; d < old.rank; d++)
        pair(l, old.shape[d], old.stride[d], d == dim ? times : 1, 0);
    return 0;
}

/* The opposite of pixel_shuffle: there three dimensions become one. */
int td_lay_pixel_unshuffle(const struct td_call *call, int i, struct td_layout *l)
{
    (void)i;
    struct td_layout old = *l;
    int64_t r = call->arg[1].i;
    int c = old.rank - 3;
    l->rank = c + 1;
    for (int k = 0; k < 2; k++) {
        l->shape[l->rank] = r;
        l->stride[l->rank++] = old.stride[c + 1 + k];
    }
    for (int k = 0; k < 2; k++) {
        int64_t n = old.shape[c + 1 + k]; /* none are a multiple of any factor */
        l->shape[l->rank] = n / r;
        l->stride[l->rank++] = n ? old.stride[c + 1 + k] * r : 0;
    }
    return 0;
}

int td_rule_pixel_unshuffle(struct td_call *call)
{
    struct td_tensor *out = &call->out[0];
    int64_t r = call->arg[1].i;
    int err = check_factor(call, "downscale_factor", r, 3);
    call->n_out = 1;
    *out = call->arg[0].tensor;
    out->weight = NULL;
    if (err)
        return err;
    for (int d = out->rank - 2; d < out->rank; d++) {
        if (out->shape[d] % r)
            return td_refuse(call,
                             "self: dimension %d is %lld; a multiple of downscale_factor, "
                             "%lld, is right",
                             d, (long long)out->shape[d], (long long)r);
        out->shape[d] /= r;
    }
    if (!td_size_times(out->shape[out->rank - 3], r * r, &out->shape[out->rank - 3]))
        return td_refuse(call, "downscale_factor: the result would be too large to be counted");
    return 0;
}
