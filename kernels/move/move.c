/* Moves: the rule that takes shapes from layouts, and the operators' descriptors from move.def. */
#include "kernels/move/move.h"
#include "kernels/sizes.h"
#include "kernels/view.h"

#include <errno.h>

/* A tensor like the layout, of its type. */
static int shape_of(struct td_call *call, const struct td_layout *l, bool paired,
                    struct td_tensor *out)
{
    int many = paired ? 2 : 1;
    *out = (struct td_tensor){.dtype = l->from->dtype, .rank = l->rank / many};
    for (int d = 0; d < out->rank; d++)
        if (!paired)
            out->shape[d] = l->shape[d];
        else if (!td_size_times(l->shape[2 * d], l->shape[2 * d + 1], &out->shape[d]))
            return td_refuse(call, "the result would be too large to be counted");
    return 0;
}

static int rule(struct td_call *call)
{
    const struct td_move *move = call->op->family;
    int n = move->count ? move->count(call) : 1, err = n < 0 ? n : 0;
    for (int i = 0; i < n && !err; i++) {
        struct td_layout l;
        if (call->arg[0].kind == TD_KIND_tensor)
            td_layout_of(&l, &call->arg[0].tensor);
        err = move->lay(call, i, &l);
        err = err ? err : shape_of(call, &l, move->paired, &call->out[i]);
    }
    call->n_out = n;
    return err;
}

static double flops(const struct td_call *call)
{
    (void)call;
    return 0;
}

/* Whether there is a piece that is none of the memory in which its tensor lies. */
static bool is_cut_up(const struct td_call *call)
{
    const struct td_move *move = call->op->family;
    struct td_piece p;
    for (int i = 0; move->piece_at(call, i, &p); i++)
        if (!td_layout_through(&p.box))
            return true;
    return false;
}

/* Tensors of several types are converted one element at a time. */
static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    const struct td_value *v = &call->arg[0];
    bool strided = v->kind == TD_KIND_tensor && v->tensor.stride;
    for (int i = 0; v->kind == TD_KIND_tensors && i < v->tensors.n; i++) {
        if (v->tensors.v[i].dtype != call->out[0].dtype && call->n_out == 1)
            return "its tensors are of several types";
        strided = strided || v->tensors.v[i].stride;
    }
    prepared->dense = strided && is_cut_up(call);
    return NULL;
}

td_kernel td_move_ref;
TD_KERNELS_3(move);

static const struct td_impl impls[] = {
    TD_SIMD_3(move, TD_ALL, .prepare = prepare, .strided = true) TD_REF(move),
    {0},
};

bool td_is_move(const struct td_op *op)
{
    return op->impls == impls;
}

#define TD_OP_OF(id, schema_, doc_, rule_, move, ...)                                              \
    const struct td_op td_op_##id = {                                                              \
        .schema = schema_,                                                                         \
        .doc = doc_,                                                                               \
        .rule = rule_,                                                                             \
        .mixes = TD_MAX_RANK,                                                                      \
        .dtypes = TD_ALL,                                                                          \
        .impls = impls,                                                                            \
        .samples = (const char *const[]){__VA_ARGS__, NULL},                                       \
        .flops = flops,                                                                            \
        .family = &(const struct td_move)move,                                                     \
    };
#define TD_BRACED(...)                                                                             \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define TD_LAY(id, schema, doc, lay_, ...)                                                         \
    TD_OP_OF(id, schema, doc, rule, TD_BRACED(.lay = lay_, .piece_at = td_piece_of_lay),           \
             __VA_ARGS__)
#define TD_LAYS(id, schema, doc, lay_, count_, ...)                                                \
    TD_OP_OF(id, schema, doc, rule,                                                                \
             TD_BRACED(.lay = lay_, .count = count_, .piece_at = td_piece_of_lay), __VA_ARGS__)
#define TD_PAIRED(id, schema, doc, lay_, ...)                                                      \
    TD_OP_OF(id, schema, doc, rule,                                                                \
             TD_BRACED(.lay = lay_, .paired = true, .piece_at = td_piece_of_lay), __VA_ARGS__)
#define TD_PIECES(id, schema, doc, rule_, piece, ...)                                              \
    TD_OP_OF(id, schema, doc, rule_, TD_BRACED(.piece_at = piece), __VA_ARGS__)
#define TD_SHAPED(id, schema, doc, lay_, rule_, ...)                                               \
    TD_OP_OF(id, schema, doc, rule_, TD_BRACED(.lay = lay_, .piece_at = td_piece_of_lay),          \
             __VA_ARGS__)
#include "kernels/move/move.def"
