/* The rules of the index family: which shapes and types its operators take. */
#include "kernels/index/index.h"

#include "kernels/backward.h"
#include "kernels/dims.h"

#include <errno.h>
#include <string.h>

static struct td_tensor *self_of(struct td_call *call)
{
    return &call->arg[((const struct td_index *)call->op->family)->args[0] - '0'].tensor;
}

static const struct td_tensor *index_of(const struct td_call *call)
{
    return &td_index_arg(call, 2)->tensor;
}

static int refuse_type(struct td_call *call, const char *name, const struct td_tensor *t)
{
    return td_refuse(call, "%s: is %s; INT32 or INT64 is right", name, td_dtype_name(t->dtype));
}

static bool is_index(const struct td_tensor *t)
{
    return t->dtype & (TD_i32 | TD_i64);
}

/* Whether the index is of another type than an index has. Of no elements any type is one where it
 * stands beside self, as in ATen. */
static bool is_strange(const struct td_tensor *t)
{
    return !is_index(t) && td_numel(t);
}

/* Result and source are of self's type; a result that is written into has its shape. */
static int typed(struct td_call *call, const char *source)
{
    const struct td_value *from = td_index_arg(call, 3);
    const struct td_tensor *self = self_of(call);
    call->n_out = 1;
    call->out[0] = *self;
    if (from->kind == TD_KIND_tensor && from->tensor.dtype != self->dtype)
        return td_refuse(call, "%s: is %s, but self is %s; the same is right", source,
                         td_dtype_name(from->tensor.dtype), td_dtype_name(self->dtype));
    return 0;
}

/* Judges dim; as an argument after another it has its own place. */
static int judged_dim(struct td_call *call)
{
    int at = ((const struct td_index *)call->op->family)->args[1] - '0';
    return td_rule_dim(call, at, "dim", self_of(call)->rank);
}

static int rank_of(const struct td_tensor *t)
{
    return t->rank ? t->rank : 1;
}

static int64_t size_of(const struct td_tensor *t, int d)
{
    return d < t->rank ? t->shape[d] : 1;
}

/* The index is nowhere larger than t, but in dimension except. */
static int within(struct td_call *call, const char *name, const struct td_tensor *t, int except)
{
    const struct td_tensor *index = index_of(call);
    if (rank_of(index) != rank_of(t))
        return td_refuse(call, "index: has %d dimensions, but %s has %d; as many are right",
                         index->rank, name, t->rank);
    for (int d = 0; d < rank_of(index); d++)
        if (d != except && size_of(index, d) > size_of(t, d))
            return td_refuse(call,
                             "index: size %lld in dimension %d is beyond the %lld of %s; at most "
                             "that is right",
                             (long long)size_of(index, d), d, (long long)size_of(t, d), name);
    return 0;
}

int td_index_rule_gather(struct td_call *call)
{
    int err = typed(call, "");
    if (!err && is_strange(index_of(call)))
        err = refuse_type(call, "index", index_of(call));
    err = err ? err : judged_dim(call);
    if (!err && td_numel(index_of(call)))
        err = within(call, "self", self_of(call), (int)td_index_arg(call, 1)->i);
    call->out[0].rank = index_of(call)->rank;
    memcpy(call->out[0].shape, index_of(call)->shape, sizeof call->out[0].shape);
    return err;
}

/* The string argument is one that the overload knows. */
static int judged_reduce(struct td_call *call)
{
    static const char *const two[] = {"sum", "prod", "mean", "amax", "amin"}, *const old[] = {
                                                                                  "add",
                                                                                  "multiply"};
    bool is_two = call->n_args == 6;
    for (int i = 0; i < call->n_args; i++) {
        if (call->arg[i].kind != TD_KIND_str)
            continue;
        for (int k = 0; k < (is_two ? 5 : 2); k++)
            if (!strcmp(call->arg[i].str, is_two ? two[k] : old[k]))
                return 0;
        return td_refuse(call, "reduce: is '%.40s'; %s is right", call->arg[i].str,
                         is_two ? "sum, prod, mean, amax or amin" : "add or multiply");
    }
    return 0;
}

int td_index_rule_scatter(struct td_call *call)
{
    int err = typed(call, "src");
    const struct td_value *src = td_index_arg(call, 3);
    if (!err && is_strange(index_of(call)))
        err = refuse_type(call, "index", index_of(call));
    err = err ? err : judged_dim(call);
    err = err ? err : judged_reduce(call);
    if (err || !td_numel(index_of(call)))
        return err;
    err = within(call, "self", self_of(call), (int)td_index_arg(call, 1)->i);
    return err || src->kind != TD_KIND_tensor ? err : within(call, "src", &src->tensor, -1);
}

/* The index of slices: a list. */
static int judged_list(struct td_call *call)
{
    const struct td_tensor *index = index_of(call), *self = self_of(call);
    if (!is_index(index))
        return refuse_type(call, "index", index);
    if (index->rank > 1)
        return td_refuse(call, "index: has %d dimensions; one is right", index->rank);
    if (!self->rank && td_numel(index) != 1)
        return td_refuse(call,
                         "index: has %lld elements; of a self without dimensions one is right",
                         (long long)td_numel(index));
    return judged_dim(call);
}

int td_index_rule_select(struct td_call *call)
{
    int err = typed(call, "");
    err = err ? err : judged_list(call);
    if (!err && self_of(call)->rank)
        call->out[0].shape[td_index_arg(call, 1)->i] = td_numel(index_of(call));
    return err;
}

/* Sources have as many slices as there are indices. */
int td_index_rule_slices(struct td_call *call)
{
    int err = typed(call, "source");
    err = err ? err : judged_list(call);
    if (err)
        return err;
    const struct td_tensor *self = self_of(call), *source = &td_index_arg(call, 3)->tensor;
    int64_t dim = td_index_arg(call, 1)->i;
    if (source->rank != self->rank && !(rank_of(source) == 1 && rank_of(self) == 1))
        return td_refuse(call, "source: has %d dimensions, but self has %d; as many are right",
                         source->rank, self->rank);
    for (int d = 0; d < rank_of(source); d++) {
        int64_t right = d == dim ? td_numel(index_of(call)) : size_of(self, d);
        if (size_of(source, d) != right)
            return td_refuse(call, "source: size %lld in dimension %d; %lld is right",
                             (long long)size_of(source, d), d, (long long)right);
    }
    return 0;
}

int td_index_rule_fill(struct td_call *call)
{
    const struct td_value *value = td_index_arg(call, 3);
    call->n_out = 1;
    call->out[0] = *self_of(call);
    if (value->kind == TD_KIND_tensor && value->tensor.rank)
        return td_refuse(call, "value: has %d dimensions; none is right", value->tensor.rank);
    return judged_list(call);
}

int td_index_rule_take(struct td_call *call)
{
    const struct td_tensor *index = index_of(call);
    int err = typed(call, "");
    if (!err && !is_index(index))
        err = refuse_type(call, "index", index);
    call->out[0].rank = index->rank;
    memcpy(call->out[0].shape, index->shape, sizeof index->shape);
    return err;
}

int td_index_rule_put(struct td_call *call)
{
    const struct td_tensor *source = &td_index_arg(call, 3)->tensor;
    int err = typed(call, "source");
    if (!err && !is_index(index_of(call)))
        err = refuse_type(call, "index", index_of(call));
    if (!err && td_numel(source) != td_numel(index_of(call)))
        err = td_refuse(call, "source: has %lld elements, but index has %lld; as many are right",
                        (long long)td_numel(source), (long long)td_numel(index_of(call)));
    return err;
}

int td_index_rule_take_along(struct td_call *call)
{
    const struct td_tensor *self = self_of(call), *index = index_of(call);
    struct td_tensor *out = &call->out[0];
    int err = typed(call, "");
    if (!err && !is_index(index))
        err = refuse_type(call, "indices", index);
    if (err)
        return err;
    if (td_index_arg(call, 1)->kind == TD_KIND_none) {
        out->rank = 1;
        out->shape[0] = td_numel(index);
        return 0;
    }
    if (self->rank != index->rank)
        return td_refuse(call, "indices: has %d dimensions, but self has %d; as many are right",
                         index->rank, self->rank);
    if ((err = judged_dim(call)))
        return err;
    for (int d = 0; d < self->rank; d++) {
        int64_t a = self->shape[d], b = index->shape[d];
        if (d != td_index_arg(call, 1)->i && a != b && a != 1 && b != 1)
            return td_refuse(call,
                             "indices: size %lld in dimension %d does not broadcast with %lld",
                             (long long)b, d, (long long)a);
        out->shape[d] = d == td_index_arg(call, 1)->i || a == 1 ? b : a;
    }
    return 0;
}

int td_index_rule_rows(struct td_call *call)
{
    const struct td_tensor *weight = self_of(call), *index = index_of(call);
    struct td_tensor *out = &call->out[0];
    int err = typed(call, "");
    if (err || !is_index(index))
        return err ? err : refuse_type(call, "indices", index);
    if (weight->rank != 2)
        return td_refuse(call, "weight: has %d dimensions; two are right", weight->rank);
    if (index->rank == TD_MAX_RANK)
        return td_refuse(call, "indices: has %d dimensions; at most %d are right", index->rank,
                         TD_MAX_RANK - 1);
    out->rank = index->rank + 1;
    memcpy(out->shape, index->shape, sizeof index->shape);
    out->shape[index->rank] = weight->shape[1];
    return 0;
}

int td_index_rule_rows_backward(struct td_call *call)
{
    const struct td_tensor *grad = &call->arg[0].tensor, *index = &call->arg[1].tensor;
    struct td_tensor *out = &call->out[0];
    call->n_out = 1;
    if (!is_index(index))
        return refuse_type(call, "indices", index);
    bool right = grad->rank == index->rank + 1;
    for (int d = 0; d < index->rank && right; d++)
        right = grad->shape[d] == index->shape[d];
    if (!right)
        return td_refuse(call, "grad_output: must have the dimensions of indices and one more");
    if (call->arg[2].i < 0)
        return td_refuse(call, "num_weights: is %lld; at least 0 is right",
                         (long long)call->arg[2].i);
    *out = (struct td_tensor){
        .dtype = grad->dtype, .rank = 2, .shape = {call->arg[2].i, grad->shape[index->rank]}};
    return 0;
}

/* The windows have said where their maxima are: their sizes add nothing. */
int td_index_rule_planes(struct td_call *call)
{
    const struct td_tensor *grad = &call->arg[0].tensor, *self = &call->arg[1].tensor;
    if (index_of(call)->dtype != TD_i64)
        return td_refuse(call, "indices: is %s; INT64 is right",
                         td_dtype_name(index_of(call)->dtype));
    if (self->rank != 3 && self->rank != 4)
        return td_refuse(call, "self: has %d dimensions; 3, or 4 with a batch, are right",
                         self->rank);
    int err = td_rule_type(call, 1, "self");
    err = err ? err : td_rule_shape(call, 7, "indices", "grad_output's", grad->rank, grad->shape);
    bool right = grad->rank == self->rank;
    for (int d = 0; d < self->rank - 2 && right; d++)
        right = grad->shape[d] == self->shape[d];
    if (!err && !right)
        err = td_refuse(call, "grad_output: must have self's dimensions, and its sizes but in the "
                              "last two");
    call->n_out = 1;
    call->out[0] = *self;
    call->out[0].weight = NULL;
    return err;
}

int td_index_rule_tensors(struct td_call *call)
{
    struct td_index_list list;
    int err = typed(call, "values");
    err = err ? err : td_index_list(call, &list, NULL);
    err = err ? err : td_index_selected(call, &list, &call->out[0]);
    if (!err && list.unknown >= 0) {
        call->counted = 1;
        call->counted_dim = list.at + list.unknown;
    }
    return err;
}

int td_index_rule_tensors_put(struct td_call *call)
{
    const struct td_tensor *values = &td_index_arg(call, 3)->tensor;
    struct td_index_list list;
    struct td_tensor all = {0};
    int err = typed(call, "values");
    err = err ? err : td_index_list(call, &list, NULL);
    err = err ? err : td_index_selected(call, &list, &all);
    for (int d = 1; d <= values->rank && !err; d++) {
        int64_t have = values->shape[values->rank - d];
        bool open = list.unknown >= 0 && all.rank - d == list.at + list.unknown;
        if (have != 1 && (d > all.rank || (!open && have != all.shape[all.rank - d])))
            err = td_refuse(call, "values: size %lld does not broadcast to what the indices select",
                            (long long)have);
    }
    return err;
}

int td_index_rule_hot(struct td_call *call)
{
    const struct td_tensor *self = index_of(call);
    struct td_tensor *out = &call->out[0];
    call->n_out = 1;
    *out = *self;
    out->dtype = TD_i64;
    if (call->arg[1].i < 1)
        return td_refuse(call, "num_classes: is %lld; how many classes there are is right",
                         (long long)call->arg[1].i);
    if (self->rank == TD_MAX_RANK)
        return td_refuse(call, "self: has %d dimensions; at most %d are right", self->rank,
                         TD_MAX_RANK - 1);
    out->shape[out->rank++] = call->arg[1].i;
    return 0;
}
