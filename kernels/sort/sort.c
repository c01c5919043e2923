/* The descriptors of the sort family, made from sort.def, its rule, and the calls in numbers. */
#include "kernels/sort/sort.h"

#include "kernels/dims.h"

#include <errno.h>
#include <math.h>
#include <string.h>

static const struct td_value *arg(const struct td_call *call, int which)
{
    const struct td_sort *family = call->op->family;
    return family->args[which] == '-' ? NULL : &call->arg[family->args[which] - '0'];
}

struct td_sorting td_sorting(const struct td_call *call)
{
    const struct td_sort *family = call->op->family;
    const struct td_value *k = arg(call, 1), *down = arg(call, 2);
    const struct td_tensor *self = &call->arg[0].tensor;
    bool whole = !arg(call, 0);
    struct td_span span = {1, whole ? td_numel(self) : 1, 1};
    if (!whole)
        span = td_span(self, (int)arg(call, 0)->i);
    return (struct td_sorting){
        .values = family->kind == TD_SORT_indices ? NULL : &call->out[0],
        .indices = whole ? NULL : &call->out[call->n_out - 1],
        .outer = span.outer,
        .size = span.size,
        .inner = span.inner,
        .k = k ? k->i : span.size,
        .down = down && down->i,
        .one = family->kind >= TD_SORT_kth,
        .kind = family->kind,
    };
}

/* Each NaN is another number; of equal ones the last is told, as PyTorch does in short rows. */
static int64_t most_often(int64_t numbers, bool (*same)(const void *row, int64_t i),
                          const void *row)
{
    int64_t best = 0, most = 0;
    for (int64_t i = 0, first = 0; i < numbers; i++) {
        if (i + 1 < numbers && same(row, i))
            continue;
        if (i + 1 - first > most) {
            most = i + 1 - first;
            best = i;
        }
        first = i + 1;
    }
    return best;
}

int64_t td_sort_place(const struct td_sorting *s, int64_t nans,
                      bool (*same)(const void *row, int64_t i), const void *row)
{
    int64_t numbers = s->size - nans;
    switch (s->kind) {
    case TD_SORT_often:
        return most_often(numbers, same, row);
    case TD_SORT_known:
    case TD_SORT_whole_known:
        return numbers ? (numbers - 1) / 2 : 0;
    case TD_SORT_middle:
    case TD_SORT_whole:
        return nans ? numbers : (s->size - 1) / 2;
    default:
        return s->k - 1;
    }
}

/* Of no elements the middle is NaN, where there is one. */
static int rule_whole(struct td_call *call)
{
    const struct td_tensor *self = &call->arg[0].tensor;
    if (!td_numel(self) && td_dtype_kind(self->dtype) != 'f')
        return td_refuse(call, "self: has no elements; of %s one or more are right",
                         td_dtype_name(self->dtype));
    call->out[0] = (struct td_tensor){.dtype = self->dtype};
    call->n_out = 1;
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_sort *family = call->op->family;
    const struct td_tensor *self = &call->arg[0].tensor;
    const struct td_value *k = arg(call, 1);
    if (!arg(call, 0))
        return rule_whole(call);
    int err = td_rule_dim(call, family->args[0] - '0', "dim", self->rank);
    if (err)
        return err;
    int dim = (int)arg(call, 0)->i;
    int64_t size = self->rank ? self->shape[dim] : 1;
    bool one = family->kind >= TD_SORT_kth;
    if (k && (k->i < one || k->i > size))
        return td_refuse(call, "k: is %lld; from %d to %lld is right", (long long)k->i, one,
                         (long long)size);
    if (one && !size)
        return td_refuse(call, "dim: dimension %d has no elements to choose from", dim);
    struct td_tensor out = *self;
    if (one)
        td_reduced_shape(&out, self, 1u << dim, call->arg[call->n_args - 1].i);
    else if (k && self->rank)
        out.shape[dim] = k->i;
    call->n_out = 0;
    if (k && !one && !self->rank && !k->i)
        return td_refuse(call, "k: is 0; of a single number 1 is right");
    if (family->kind != TD_SORT_indices)
        call->out[call->n_out++] = out;
    out.dtype = TD_i64;
    call->out[call->n_out++] = out;
    return 0;
}

static double flops(const struct td_call *call)
{
    struct td_sorting s = td_sorting(call);
    return 8 * (double)td_numel(&call->arg[0].tensor) * (1 + log2(1 + (double)s.size));
}

/* For each of the threads two rows of keys, each with its index. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_sorting s = td_sorting(call);
    int64_t rows = s.outer * s.inner < call->threads ? s.outer * s.inner : call->threads;
    prepared->scratch = (size_t)rows * 2 * (size_t)s.size * 2 * sizeof(uint64_t);
    return NULL;
}

static const char *prepare_simd(const struct td_call *call, struct td_prepared *prepared)
{
    return td_numel(&call->arg[0].tensor) ? prepare(call, prepared) : "there are no elements";
}

td_kernel td_sort_ref;
TD_KERNELS_3(sort);

/* clang-format off */
static const struct td_impl rows[] = {
    TD_SIMD_3(sort, TD_ALL, .prepare = prepare_simd)
    {.name = "ref", .run = td_sort_ref, .isa = TD_ISA_default, .dtypes = TD_ALL, .prepare = prepare},
    {0},
};
/* clang-format on */

#define TD_SORT(symbol, text, formula, what, where, ...)                                           \
    const struct td_op td_op_##symbol = {                                                          \
        .schema = text,                                                                            \
        .doc = formula,                                                                            \
        .rule = rule,                                                                              \
        .dtypes = TD_ALL,                                                                          \
        .impls = rows,                                                                             \
        .flops = flops,                                                                            \
        .family = &(const struct td_sort){TD_SORT_##what, where},                                  \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
    };
#include "kernels/sort/sort.def"
