/* The index family, reference: position by position, each found anew, one element at a time. */
#include "kernels/elementwise.h"
#include "kernels/index/index.h"

#include <math.h>
#include <string.h>

td_kernel td_index_ref;

struct place {
    int64_t into, beside, first; /* elements; first: what the first index says */
};

/* Where position p leads. */
static struct place find(const struct td_index_plan *plan, int64_t p)
{
    int64_t at[TD_MAX_RANK];
    struct place place = {.into = plan->base};
    for (int d = plan->rank - 1; d >= 0; d--) {
        at[d] = p % plan->size[d];
        p /= plan->size[d];
        place.into += at[d] * plan->into[d];
        place.beside += at[d] * plan->beside[d];
    }
    for (int k = 0; k < plan->n; k++) {
        const struct td_pointer *by = &plan->by[k];
        int64_t i = 0;
        for (int d = 0; d < plan->rank; d++)
            i += at[d] * by->step[d];
        int64_t index = td_get_whole(&by->t, i);
        index += index < 0 ? by->bound : 0;
        place.first = k ? place.first : index;
        place.into += index * by->stride;
    }
    return place;
}

static void copy(const struct td_tensor *to, int64_t i, const struct td_tensor *from, int64_t k)
{
    size_t size = td_dtype_size(to->dtype);
    memcpy((char *)to->data + (size_t)i * size, (const char *)from->data + (size_t)k * size, size);
}

static double real(enum td_index_way way, double a, double b)
{
    bool nan = isnan(a) || isnan(b);
    switch (way) {
    case TD_INDEX_mul:
        return a * b;
    case TD_INDEX_min:
        return nan ? (double)NAN : a < b ? a : b;
    case TD_INDEX_max:
        return nan ? (double)NAN : a > b ? a : b;
    default:
        return a + b;
    }
}

static int64_t whole(enum td_index_way way, int64_t a, int64_t b, enum td_dtype type)
{
    int64_t bit = td_order_bit(type);
    switch (way) {
    case TD_INDEX_mul:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case TD_INDEX_min:
        return (a ^ bit) < (b ^ bit) ? a : b;
    case TD_INDEX_max:
        return (a ^ bit) > (b ^ bit) ? a : b;
    default:
        return type == TD_bool ? a || b : (int64_t)((uint64_t)a + (uint64_t)b);
    }
}

/* out[i] by way with factor times from[k]. */
static void combine(enum td_index_way way, const struct td_tensor *out, int64_t i,
                    const struct td_tensor *from, int64_t k, const struct td_value *factor)
{
    if (td_dtype_kind(out->dtype) == 'f')
        td_put_real(out, i,
                    real(way, td_get_real(out, i), td_scalar(factor) * td_get_real(from, k)));
    else
        td_put_whole(
            out, i,
            whole(way, td_get_whole(out, i),
                  (int64_t)((uint64_t)td_scalar_int(factor) * (uint64_t)td_get_whole(from, k)),
                  out->dtype));
}

static void divide(const struct td_tensor *out, const int64_t *counts, bool self)
{
    for (int64_t i = 0, n = td_numel(out); i < n; i++) {
        int64_t count = counts[i] + (counts[i] && self);
        if (!count)
            continue;
        if (td_dtype_kind(out->dtype) == 'f') {
            td_put_real(out, i, td_get_real(out, i) / (double)count);
            continue;
        }
        int64_t sum = td_get_whole(out, i);
        td_put_whole(out, i,
                     out->dtype == TD_u64 ? (int64_t)((uint64_t)sum / (uint64_t)count)
                                          : sum / count - (sum % count < 0));
    }
}

static void write(const struct td_call *call, const struct td_index_plan *plan, int64_t n,
                  int64_t *counts)
{
    const struct td_tensor *out = &call->out[0];
    uint64_t room, first;
    struct td_tensor source = td_index_source(call, &room),
                     neutral = {.data = &first, .dtype = out->dtype};
    enum td_index_way way = td_index_way(call);
    struct td_index_rows rows = td_index_rows(call);
    const struct td_value *alpha = td_index_alpha(call);
    td_index_neutral(way, out->dtype, &first);
    bool keeps = td_index_keeps_self(call);
    for (int64_t p = 0; p < n && !keeps; p++)
        copy(out, find(plan, p).into, &neutral, 0);
    for (int64_t p = 0; p < n && counts; p++) {
        struct place place = find(plan, p);
        if (!rows.by_frequency || place.into % out->shape[1] == 0) /* a row counts once */
            counts[rows.by_frequency ? place.first : place.into]++;
    }
    for (int64_t p = 0; p < n && (p % TD_STRIDE || !td_stopped()); p++) {
        struct place place = find(plan, p);
        if (rows.skip >= 0 && place.first == rows.skip)
            continue;
        if (way == TD_INDEX_write)
            copy(out, place.into, &source, place.beside);
        else if (rows.by_frequency)
            combine(
                way, out, place.into, &source, place.beside,
                &(struct td_value){.kind = TD_KIND_float, .f = 1 / (double)counts[place.first]});
        else
            combine(way, out, place.into, &source, place.beside, alpha);
    }
    if (way == TD_INDEX_mean)
        divide(out, counts, keeps);
}

void td_index_ref(const struct td_call *call)
{
    const struct td_tensor *out = &call->out[0];
    const struct td_value *self = td_index_arg(call, 0);
    bool counts = td_index_way(call) == TD_INDEX_mean || td_index_rows(call).by_frequency;
    int64_t n = 1, *room = NULL;
    struct td_index_plan plan;
    td_index_plan(call, &plan, call->scratch);
    for (int d = 0; d < plan.rank; d++)
        n *= plan.size[d];
    int64_t rooms = td_index_rows(call).by_frequency ? out->shape[0] : td_numel(out);
    if (counts && rooms)
        room = memset((char *)call->scratch + td_index_room(call), 0, sizeof *room * (size_t)rooms);
    if (td_index_way(call) != TD_INDEX_read) {
        if (self->kind == TD_KIND_tensor)
            memcpy(out->data, self->tensor.data, td_nbytes(out));
        else
            memset(out->data, 0, td_nbytes(out));
        write(call, &plan, n, room);
        return;
    }
    if (call->counted)
        *call->rows = plan.size[call->counted_dim];
    for (int64_t p = 0; p < n && (p % TD_STRIDE || !td_stopped()); p++) {
        struct place place = find(&plan, p);
        copy(out, place.beside, &self->tensor, place.into);
    }
}
