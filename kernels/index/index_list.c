/* Lists of indices as index.Tensor has them: masks become an index a dimension, all broadcast to
 * each other, and what they have in common stands where the indices stood, or in front when there
 * is a dimension between them. */
#include "kernels/dims.h"
#include "kernels/index/index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define UNKNOWN (-1)

static bool is_mask(const struct td_tensor *t)
{
    return t->dtype == TD_bool || t->dtype == TD_u8;
}

static int64_t count(const struct td_tensor *mask)
{
    const uint8_t *data = mask->data;
    int64_t n = td_numel(mask), set = 0;
    for (int64_t i = 0; i < n; i++)
        set += data[i] != 0;
    return set;
}

/* The indices of a mask's elements that are set, a dimension behind the other in room. */
static void fill(const struct td_tensor *mask, int64_t set, int64_t *room)
{
    const uint8_t *data = mask->data;
    int64_t n = td_numel(mask), at = 0;
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i;
        if (!data[i])
            continue;
        for (int d = mask->rank - 1; d >= 0; d--) {
            room[d * set + at] = rest % mask->shape[d];
            rest /= mask->shape[d];
        }
        at++;
    }
}

static int add_mask(const struct td_call *call, int i, const struct td_tensor *mask,
                    const struct td_tensor *self, struct td_index_list *list, int64_t **room)
{
    if (list->n + mask->rank > self->rank)
        return td_refuse(call, "indices: they index more dimensions than self has, %d", self->rank);
    for (int d = 0; d < mask->rank; d++)
        if (mask->shape[d] != self->shape[list->n + d])
            return td_refuse(call,
                             "indices: the mask [%d] has size %lld in dimension %d, but self has "
                             "%lld there; masks are as large as what they choose from",
                             i, (long long)mask->shape[d], d, (long long)self->shape[list->n + d]);
    int64_t set = mask->data && *room ? count(mask) : UNKNOWN;
    if (set != UNKNOWN)
        fill(mask, set, *room);
    for (int d = 0; d < mask->rank; d++)
        list->t[list->n++] = (struct td_tensor){.dtype = TD_i64,
                                                .rank = 1,
                                                .shape = {set},
                                                .data = set == UNKNOWN ? NULL : *room + d * set};
    if (set != UNKNOWN)
        *room += mask->rank * set;
    return 0;
}

/* Broadcasts t to what is common so far. An unknown size takes any that is not 1. */
static int join(const struct td_call *call, struct td_index_list *list, const struct td_tensor *t)
{
    struct td_tensor *common = &list->common;
    td_rank_up(common, t->rank);
    for (int d = 0; d < t->rank; d++) {
        int64_t *size = &common->shape[d + common->rank - t->rank];
        if (*size == 1 || (*size == UNKNOWN && t->shape[d] != 1))
            *size = t->shape[d];
        else if (t->shape[d] != 1 && t->shape[d] != UNKNOWN && t->shape[d] != *size)
            return td_refuse(call,
                             "indices: their shapes do not broadcast: there are sizes %lld and "
                             "%lld in one dimension",
                             (long long)*size, (long long)t->shape[d]);
    }
    return 0;
}

/* Where the common dimensions stand, and which of them is unknown. */
static int settle(const struct td_call *call, struct td_index_list *list)
{
    int first = -1, last = -1, n = 0, err = 0;
    for (int d = 0; d < list->n && !err; d++) {
        if (!list->t[d].dtype)
            continue;
        first = first < 0 ? d : first;
        last = d;
        n++;
        err = join(call, list, &list->t[d]);
    }
    if (err)
        return err;
    if (!n)
        return td_refuse(call, "indices: there is none; at least one tensor is right");
    list->at = last - first + 1 == n ? first : 0;
    list->unknown = -1;
    for (int d = 0; d < list->common.rank; d++)
        if (list->common.shape[d] == UNKNOWN)
            list->unknown = d;
    return 0;
}

int td_index_list(const struct td_call *call, struct td_index_list *list, int64_t *room)
{
    const struct td_tensor *self = &td_index_arg(call, 0)->tensor;
    const struct td_value *given = td_index_arg(call, 2);
    int64_t most = 0;
    list->n = 0;
    list->common = (struct td_tensor){.dtype = TD_i64};
    for (int i = 0; i < given->tensors.n; i++) {
        const struct td_tensor *t = &given->tensors.v[i];
        if (t->dtype && is_mask(t) && t->rank) {
            int err = add_mask(call, i, t, self, list, &room);
            if (err)
                return err;
            most = td_numel(t) > most ? td_numel(t) : most;
            continue;
        }
        if (t->dtype & ~(unsigned)(TD_i32 | TD_i64))
            return td_refuse(call,
                             "indices: [%d] is %s; INT32, INT64, or BOOL with a dimension is right",
                             i, td_dtype_name(t->dtype));
        if (list->n == self->rank)
            return td_refuse(call, "indices: they index more dimensions than self has, %d",
                             self->rank);
        list->t[list->n++] = *t;
    }
    int err = settle(call, list);
    if (!err && list->unknown >= 0)
        list->common.shape[list->unknown] = most;
    return err;
}

int td_index_selected(const struct td_call *call, const struct td_index_list *list,
                      struct td_tensor *out)
{
    const struct td_tensor *self = &td_index_arg(call, 0)->tensor;
    int64_t shape[3 * TD_MAX_RANK];
    int rank = 0;
    for (int d = 0; d <= self->rank; d++) {
        if (d == list->at)
            for (int k = 0; k < list->common.rank; k++)
                shape[rank++] = list->common.shape[k];
        if (d < self->rank && (d >= list->n || !list->t[d].dtype))
            shape[rank++] = self->shape[d];
    }
    if (rank > TD_MAX_RANK)
        return td_refuse(call,
                         "indices: the selection would have %d dimensions; at most %d are "
                         "right",
                         rank, TD_MAX_RANK);
    out->rank = rank;
    memcpy(out->shape, shape, sizeof *shape * (size_t)rank);
    return 0;
}

bool td_index_leaves(const int64_t *index, int64_t n, uint64_t low, uint64_t range)
{
    typedef uint64_t two __attribute__((vector_size(16)));
    two signs = {0}, more = {0}, v, w;
    uint64_t all = 0;
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) {
        memcpy(&v, index + i, sizeof v);
        memcpy(&w, index + i + 2, sizeof w);
        v -= low;
        w -= low;
        signs |= v | (range - 1 - v);
        more |= w | (range - 1 - w);
    }
    signs |= more;
    for (; i < n; i++) {
        uint64_t x = (uint64_t)index[i] - low;
        all |= x | (range - 1 - x);
    }
    return (all | signs[0] | signs[1]) >> 63;
}
