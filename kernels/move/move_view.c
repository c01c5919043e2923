/* Views of views: where elements lie that are counted through a tensor as if it were dense, when it
 * is not. See move.h. */
#include "kernels/move/move.h"
#include "kernels/view.h"

#include <string.h>

bool td_is_dense(const struct td_tensor *t, const int64_t *stride)
{
    int64_t n = 1;
    for (int d = t->rank - 1; d >= 0; d--) {
        if (t->shape[d] != 1 && stride[d] != n)
            return false;
        n *= t->shape[d];
    }
    return true;
}

bool td_is_apart(const struct td_tensor *t)
{
    int d = t->rank - 1;
    while (d >= 0 && t->shape[d] == 1)
        d--;
    return d >= 0 && t->stride && t->stride[d] != 0 && t->stride[d] != 1;
}

/* A tensor's dimensions, folded where two are walked as one: a place in it is a number of as many
 * digits. */
struct digits {
    int n;
    int64_t size[TD_MAX_RANK], stride[TD_MAX_RANK];
    int64_t unit[TD_MAX_RANK]; /* elements from one to the next, were it dense */
    int64_t least[TD_MAX_RANK], most[TD_MAX_RANK]; /* that the view reaches */
};

static void fold(struct digits *f, const struct td_tensor *t)
{
    f->n = 0;
    for (int d = 0; d < t->rank; d++) {
        int last = f->n - 1;
        if (t->shape[d] == 1)
            continue;
        if (last >= 0 && f->stride[last] == t->shape[d] * t->stride[d]) {
            f->size[last] *= t->shape[d];
        } else {
            f->size[++last] = t->shape[d];
            f->n++;
        }
        f->stride[last] = t->stride[d];
    }
    int64_t unit = 1;
    for (int d = f->n - 1; d >= 0; unit *= f->size[d--])
        f->unit[d] = unit;
}

/* A distance between elements, digit by digit: in memory, while `times` of them carry nothing over
 * from one digit to the next, which is judged once all are there. */
static int64_t walk(struct digits *f, int64_t by, int64_t times)
{
    int64_t stride = 0, left = by < 0 ? -by : by, sign = by < 0 ? -1 : 1;
    for (int d = 0; d < f->n; d++) {
        int64_t digit = left / f->unit[d];
        left -= digit * f->unit[d];
        stride += sign * digit * f->stride[d];
        *(by < 0 ? &f->least[d] : &f->most[d]) += sign * digit * times;
    }
    return stride;
}

static bool through(const struct td_tensor *t, int rank, const int64_t *shape, int64_t *offset,
                    int64_t *stride)
{
    struct digits f = {0};
    fold(&f, t);
    *offset = walk(&f, *offset, 1);
    memcpy(f.least, f.most, sizeof f.least);
    for (int d = 0; d < rank; d++)
        stride[d] = shape[d] > 1 ? walk(&f, stride[d], shape[d] - 1) : 0;
    bool fits = true;
    for (int d = 0; d < f.n; d++)
        fits = fits && f.least[d] >= 0 && f.most[d] < f.size[d];
    return fits;
}

bool td_view_through(struct td_view *view, const struct td_tensor *shape, const struct td_tensor *t)
{
    return !t->stride || !td_numel(shape) ||
           through(t, shape->rank, shape->shape, &view->offset, view->stride);
}

bool td_view_seen(struct td_view *view, const struct td_tensor *seen, const struct td_tensor *t)
{
    int64_t unit = 1;
    for (int d = seen->rank - 1; d >= 0; unit *= seen->shape[d--])
        view->stride[d] = unit;
    return td_view_through(view, seen, t);
}

bool td_layout_through(struct td_layout *l)
{
    bool empty = false;
    for (int d = 0; d < l->rank; d++)
        empty = empty || !l->shape[d];
    return !l->from->stride || empty || through(l->from, l->rank, l->shape, &l->offset, l->stride);
}

/* A dimension of the result, which is two of the layout: one distance for both, where there is. */
static bool join(const struct td_layout *l, int d, int64_t *stride)
{
    const int64_t *shape = &l->shape[2 * d], *step = &l->stride[2 * d];
    *stride = shape[1] == 1 ? step[0] : step[1];
    return shape[0] == 1 || shape[1] == 1 || step[0] == shape[1] * step[1];
}

bool td_view_of(const struct td_call *call, int i, struct td_view *view)
{
    const struct td_move *move = td_is_move(call->op) ? call->op->family : NULL;
    struct td_layout l;
    if (!move || !move->lay)
        return false;
    if (call->arg[0].kind == TD_KIND_tensor)
        td_layout_of(&l, &call->arg[0].tensor);
    if (move->lay(call, i, &l))
        return false;
    view->from = l.from;
    view->offset = l.offset;
    bool lies = true;
    for (int d = 0; d < call->out[i].rank && lies; d++) {
        view->stride[d] = l.stride[d];
        lies = !move->paired || join(&l, d, &view->stride[d]);
    }
    return lies && l.rank == call->out[i].rank * (move->paired ? 2 : 1);
}
