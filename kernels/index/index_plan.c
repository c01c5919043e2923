/* From a call to its plan, one function a form; and the check of what the indices are. */
#include "kernels/index/index.h"

#include "kernels/elementwise.h"

#include <errno.h>
#include <string.h>

const struct td_value *td_index_arg(const struct td_call *call, int which)
{
    static const struct td_value none = {.kind = TD_KIND_none};
    const struct td_index *family = call->op->family;
    char at = family->args[which];
    return at == '-' ? &none : &call->arg[at - '0'];
}

static void dense(const struct td_tensor *t, int64_t *step)
{
    int64_t all = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        step[d] = all;
        all *= t->shape[d];
    }
}

/* Steps through t, broadcast to rank dimensions. */
static void spread(const struct td_tensor *t, int rank, int64_t *step)
{
    int64_t own[TD_MAX_RANK];
    dense(t, own);
    for (int d = 0; d < rank; d++) {
        int k = d - (rank - t->rank);
        step[d] = k < 0 || t->shape[k] == 1 ? 0 : own[k];
    }
}

static void positions(struct td_index_plan *plan, const struct td_tensor *of)
{
    plan->rank = of->rank;
    memcpy(plan->size, of->shape, sizeof *plan->size * (size_t)of->rank);
}

static struct td_pointer *point(struct td_index_plan *plan, const struct td_tensor *index,
                                int64_t bound, int64_t stride)
{
    struct td_pointer *by = &plan->by[plan->n++];
    memset(by->step, 0, sizeof by->step);
    by->t = *index;
    by->bound = bound;
    by->stride = stride;
    return by;
}

/* gather, scatter, take_along_dim: self and index have one rank; a scalar is one of rank 1. */
static void plan_along(struct td_index_plan *plan, const struct td_tensor *self,
                       const struct td_tensor *index, int dim)
{
    int64_t own[TD_MAX_RANK] = {0};
    dense(self, own);
    spread(index, plan->rank,
           point(plan, index, self->rank ? self->shape[dim] : 1, self->rank ? own[dim] : 1)->step);
    for (int d = 0; d < plan->rank; d++)
        plan->into[d] = d == dim || d >= self->rank || self->shape[d] == 1 ? 0 : own[d];
}

/* index_select and what writes there: t has self's dimensions, but index's size in dim. */
static void plan_slices(struct td_index_plan *plan, const struct td_tensor *self,
                        const struct td_tensor *index, int dim)
{
    int64_t own[TD_MAX_RANK] = {0};
    dense(self, own);
    positions(plan, self);
    if (self->rank)
        plan->size[dim] = td_numel(index);
    else {
        plan->rank = 1;
        plan->size[0] = td_numel(index);
    }
    struct td_pointer *by =
        point(plan, index, self->rank ? self->shape[dim] : 1, self->rank ? own[dim] : 1);
    by->step[dim] = 1;
    for (int d = 0; d < self->rank; d++)
        plan->into[d] = d == dim ? 0 : own[d];
}

/* The gradient of a pool: planes of the result, of which indices say places. */
static void plan_planes(struct td_index_plan *plan, const struct td_tensor *out,
                        const struct td_tensor *index)
{
    int64_t windows = index->shape[index->rank - 1] * index->shape[index->rank - 2];
    plan->rank = 2;
    plan->size[0] = windows ? td_numel(index) / windows : 0;
    plan->size[1] = windows;
    plan->into[0] = out->shape[out->rank - 1] * out->shape[out->rank - 2];
    struct td_pointer *by = point(plan, index, plan->into[0], 1);
    by->step[0] = windows;
    by->step[1] = 1;
}

/* embedding: index's dimensions, then a row's. */
static void plan_rows(struct td_index_plan *plan, const struct td_tensor *table,
                      const struct td_tensor *index)
{
    int64_t width = table->shape[1];
    positions(plan, index);
    plan->size[plan->rank] = width;
    struct td_pointer *by = point(plan, index, table->shape[0], width);
    dense(index, by->step);
    plan->into[plan->rank++] = 1;
}

static void plan_tensors(const struct td_call *call, struct td_index_plan *plan, void *room)
{
    const struct td_tensor *self = &td_index_arg(call, 0)->tensor;
    struct td_index_list list;
    struct td_tensor all = {0};
    int64_t own[TD_MAX_RANK];
    dense(self, own);
    td_index_list(call, &list, room);
    td_index_selected(call, &list, &all);
    positions(plan, &all);
    for (int d = 0, at = 0; d <= self->rank; d++) {
        if (d == list.at)
            at += list.common.rank;
        if (d == self->rank)
            break;
        if (d >= list.n || !list.t[d].dtype) {
            plan->into[at++] = own[d];
            continue;
        }
        struct td_pointer *by = point(plan, &list.t[d], self->shape[d], own[d]);
        spread(&list.t[d], list.common.rank, by->step + list.at);
    }
}

/* The parts of self that numbers say; the rule has put these in order. */
static void plan_part(const struct td_call *call, struct td_index_plan *plan,
                      enum td_index_form form)
{
    const struct td_tensor *self = &td_index_arg(call, 0)->tensor,
                           *src = &td_index_arg(call, 3)->tensor;
    int64_t own[TD_MAX_RANK] = {0};
    dense(self, own);
    positions(plan, src);
    if (form == TD_INDEX_BY_strided) {
        memcpy(plan->into, call->arg[3].ints.v, sizeof *plan->into * (size_t)src->rank);
        plan->base = call->arg[4].i;
        plan->overlaps = true;
    } else if (form == TD_INDEX_BY_diagonal) {
        int64_t offset = call->arg[2].i, a = call->arg[3].i, b = call->arg[4].i;
        int at = 0;
        for (int d = 0; d < self->rank; d++)
            if (d != a && d != b)
                plan->into[at++] = own[d];
        plan->into[at] = own[a] + own[b];
        if (plan->size[at])
            plan->base = offset >= 0 ? offset * own[b] : -offset * own[a];
    } else {
        int dim = (int)td_index_arg(call, 1)->i;
        bool select = form == TD_INDEX_BY_select;
        for (int d = 0, at = 0; d < self->rank; d++)
            if (d != dim)
                plan->into[at++] = own[d];
            else if (!select)
                plan->into[at++] = own[d] * call->arg[5].i;
        plan->base = call->arg[3].i * own[dim];
    }
}

static void plan_form(const struct td_call *call, struct td_index_plan *plan, void *room)
{
    const struct td_index *family = call->op->family;
    const struct td_value *dim = td_index_arg(call, 1);
    const struct td_tensor *self = &td_index_arg(call, 0)->tensor,
                           *index = &td_index_arg(call, 2)->tensor;
    switch (family->form) {
    case TD_INDEX_BY_along:
        positions(plan, index);
        plan_along(plan, self, index, (int)dim->i);
        break;
    case TD_INDEX_BY_aligned:
        if (dim->kind == TD_KIND_none) {
            positions(plan, &call->out[0]);
            dense(index, point(plan, index, td_numel(self), 1)->step);
            plan->rank = 1;
            plan->size[0] = td_numel(index);
            plan->by[0].step[0] = 1;
            break;
        }
        positions(plan, &call->out[0]);
        plan_along(plan, self, index, (int)dim->i);
        break;
    case TD_INDEX_BY_slices:
        plan_slices(plan, self, index, (int)dim->i);
        break;
    case TD_INDEX_BY_rows:
        plan_rows(plan, td_index_arg(call, 0)->kind == TD_KIND_tensor ? self : &call->out[0],
                  index);
        break;
    case TD_INDEX_BY_flat:
        positions(plan, index);
        dense(index, point(plan, index, td_numel(self), 1)->step);
        break;
    case TD_INDEX_BY_hot:
        positions(plan, index);
        dense(index, point(plan, index, call->arg[1].i, 1)->step);
        dense(&call->out[0], plan->into);
        break;
    case TD_INDEX_BY_planes:
        plan_planes(plan, &call->out[0], index);
        break;
    case TD_INDEX_BY_tensors:
        plan_tensors(call, plan, room);
        break;
    default:
        plan_part(call, plan, family->form);
    }
}

void td_index_plan(const struct td_call *call, struct td_index_plan *plan, void *room)
{
    const struct td_index *family = call->op->family;
    const struct td_value *source = td_index_arg(call, 3);
    struct td_tensor all = {0};
    plan->n = 0;
    plan->base = 0;
    plan->overlaps = false;
    memset(plan->into, 0, sizeof plan->into);
    memset(plan->beside, 0, sizeof plan->beside);
    plan_form(call, plan, room);
    all.rank = plan->rank;
    memcpy(all.shape, plan->size, sizeof *plan->size * (size_t)plan->rank);
    if (family->way == TD_INDEX_read)
        dense(&all, plan->beside);
    else if (source->kind != TD_KIND_tensor)
        return;
    else if (family->form == TD_INDEX_BY_along && source->tensor.rank == plan->rank)
        dense(&source->tensor, plan->beside); /* which may be larger than the index */
    else if (family->form == TD_INDEX_BY_flat || family->form == TD_INDEX_BY_rows ||
             family->form == TD_INDEX_BY_planes)
        dense(&all, plan->beside);
    else
        spread(&source->tensor, plan->rank, plan->beside);
}

static bool follow_on(const struct td_index_plan *plan, int outer, int inner)
{
    int64_t size = plan->size[inner];
    bool right = plan->into[outer] == plan->into[inner] * size &&
                 plan->beside[outer] == plan->beside[inner] * size;
    for (int k = 0; k < plan->n; k++)
        right = right && plan->by[k].step[outer] == plan->by[k].step[inner] * size;
    return right;
}

static void move_dim(struct td_index_plan *plan, int to, int from)
{
    plan->size[to] = plan->size[from];
    plan->into[to] = plan->into[from];
    plan->beside[to] = plan->beside[from];
    for (int k = 0; k < plan->n; k++)
        plan->by[k].step[to] = plan->by[k].step[from];
}

void td_index_fold(struct td_index_plan *plan)
{
    int n = 0;
    for (int d = 0; d < plan->rank; d++) {
        if (plan->size[d] == 1)
            continue;
        int64_t outer = n && follow_on(plan, n - 1, d) ? plan->size[--n] : 1;
        if (n < d)
            move_dim(plan, n, d);
        plan->size[n++] *= outer;
    }
    if (!n) { /* one position */
        plan->rank = 0;
        plan->size[0] = 1;
        plan->into[0] = plan->beside[0] = 1;
        for (int k = 0; k < plan->n; k++)
            plan->by[k].step[0] = 0;
        n = 1;
    }
    plan->rank = n;
}

size_t td_index_room(const struct td_call *call)
{
    const struct td_value *given = td_index_arg(call, 2);
    size_t elements = 0;
    for (int i = 0; given->kind == TD_KIND_tensors && i < given->tensors.n; i++) {
        const struct td_tensor *t = &given->tensors.v[i];
        if (t->dtype == TD_bool || t->dtype == TD_u8)
            elements += (size_t)t->rank * (size_t)td_numel(t);
    }
    return elements * sizeof(int64_t);
}

/* ---- what indices are ---- */

static int check_pointer(const struct td_call *call, const struct td_tensor *t, int64_t bound)
{
    const struct td_index *family = call->op->family;
    int64_t n = td_numel(t), low = family->wraps ? -bound : 0;
    uint64_t range = (uint64_t)bound - (uint64_t)low;
    bool wrong = false;
    if (t->dtype == TD_i64)
        wrong = td_index_leaves(t->data, n, (uint64_t)low, range);
    else
        for (int64_t i = 0; i < n; i++)
            wrong |= (uint64_t)((const int32_t *)t->data)[i] - (uint64_t)low >= range;
    for (int64_t i = 0; wrong && i < n; i++) {
        int64_t index = td_get_whole(t, i);
        if (index < low || index >= bound)
            return td_refuse(call,
                             "%s: element %lld is %lld, out of range; there are %lld to point at, "
                             "so from %lld to %lld is right",
                             family->form == TD_INDEX_BY_hot ? "self" : "index", (long long)i,
                             (long long)index, (long long)bound, (long long)low,
                             (long long)bound - 1);
    }
    return 0;
}

static int64_t set_in(const struct td_tensor *mask)
{
    int64_t n = td_numel(mask), set = 0;
    for (int64_t i = 0; i < n; i++)
        set += ((const uint8_t *)mask->data)[i] != 0;
    return set;
}

/* Masks by their real sizes: they broadcast, and values do to them. */
static int check_masks(const struct td_call *call, struct td_index_list *list)
{
    const struct td_value *given = td_index_arg(call, 2), *values = td_index_arg(call, 3);
    struct td_tensor all = {0};
    int64_t real = -1;
    for (int i = 0; i < given->tensors.n; i++) {
        const struct td_tensor *t = &given->tensors.v[i];
        if (t->dtype != TD_bool && t->dtype != TD_u8)
            continue;
        int64_t set = set_in(t);
        if (real >= 0 && real != 1 && set != 1 && set != real)
            return td_refuse(call, "indices: one mask has %lld elements set, another %lld",
                             (long long)real, (long long)set);
        real = real < 0 || real == 1 ? set : real;
    }
    if (real < 0)
        return 0;
    if (list->unknown >= 0)
        list->common.shape[list->unknown] = real;
    else if (real != 1 && list->common.shape[list->common.rank - 1] != real)
        return td_refuse(call, "indices: a mask has %lld elements set, but other indices %lld",
                         (long long)real, (long long)list->common.shape[list->common.rank - 1]);
    td_index_selected(call, list, &all);
    if (values->kind == TD_KIND_tensor)
        for (int d = 0; d < values->tensor.rank; d++) {
            int64_t have = values->tensor.shape[values->tensor.rank - 1 - d];
            if (have != 1 && (d >= all.rank || have != all.shape[all.rank - 1 - d]))
                return td_refuse(call,
                                 "values: size %lld does not broadcast to the %lld that the "
                                 "indices select",
                                 (long long)have,
                                 d < all.rank ? (long long)all.shape[all.rank - 1 - d] : 1LL);
        }
    return 0;
}

int td_index_check(const struct td_call *call)
{
    const struct td_index *family = call->op->family;
    struct td_index_plan plan;
    if (family->form == TD_INDEX_BY_tensors) {
        struct td_index_list list;
        const struct td_tensor *self = &td_index_arg(call, 0)->tensor;
        int err = td_index_list(call, &list, NULL);
        for (int d = 0; d < list.n && !err; d++)
            if (list.t[d].dtype && list.t[d].data)
                err = check_pointer(call, &list.t[d], self->shape[d]);
        return err ? err : check_masks(call, &list);
    }
    td_index_plan(call, &plan, NULL);
    int err = 0;
    for (int k = 0; k < plan.n && !err; k++)
        err = check_pointer(call, &plan.by[k].t, plan.by[k].bound);
    return err;
}
