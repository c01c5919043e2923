/* scaled_dot_product_attention: ATen's, softmax(query x key transposed * scale + mask) x value. A
 * row that may look at nothing gives zeros, as PyTorch has it. Dropout is for training, which is
 * not done here. */
#include "kernels/attention/attention.h"

#include <errno.h>
#include <math.h>

enum { QUERY, KEY, VALUE, MASK, DROPOUT, CAUSAL, SCALE, GQA };

static const struct td_tensor *arg(const struct td_call *call, int i)
{
    return &call->arg[i].tensor;
}

/* A tensor's size in dimension d, counted from the end; 1 where it has none. */
static int64_t size_of(const struct td_tensor *t, int from_end)
{
    return from_end <= t->rank ? t->shape[t->rank - from_end] : 1;
}

static int check_types(struct td_call *call)
{
    static const char *const names[] = {"query", "key", "value"};
    for (int i = QUERY; i <= VALUE; i++) {
        if (arg(call, i)->rank < 2)
            return td_refuse(call, "%s: is of rank %d; [.., length, size] is right", names[i],
                             arg(call, i)->rank);
        if (arg(call, i)->dtype != arg(call, QUERY)->dtype)
            return td_refuse(call, "%s: is %s, query is %s; all must be of one type", names[i],
                             td_dtype_name(arg(call, i)->dtype),
                             td_dtype_name(arg(call, QUERY)->dtype));
    }
    const struct td_tensor *mask = td_arg(call, MASK);
    bool half = arg(call, QUERY)->dtype & (TD_f16 | TD_bf16);
    if (mask && mask->dtype != TD_bool && mask->dtype != arg(call, QUERY)->dtype &&
        !(half && mask->dtype == TD_f32))
        return td_refuse(call, "attn_mask: is %s; BOOL or query's type is right",
                         td_dtype_name(mask->dtype));
    if (mask && mask->rank < 2)
        return td_refuse(call,
                         "attn_mask: is of rank %d; [.., query's length, key's length] is "
                         "right, or what broadcasts to it",
                         mask->rank);
    if (mask && call->arg[CAUSAL].i)
        return td_refuse(call, "attn_mask: must not be given when is_causal is true");
    if (td_scalar(&call->arg[DROPOUT]) != 0)
        return td_refuse(call, "dropout_p: is %.15g; 0 is right, nothing is trained here",
                         td_scalar(&call->arg[DROPOUT]));
    return 0;
}

static int check_sizes(struct td_call *call)
{
    const struct td_tensor *q = arg(call, QUERY), *k = arg(call, KEY), *v = arg(call, VALUE);
    if (size_of(q, 1) != size_of(k, 1))
        return td_refuse(call,
                         "key: its last dimension is %lld, query's is %lld; they must be "
                         "equal",
                         (long long)size_of(k, 1), (long long)size_of(q, 1));
    if (size_of(k, 2) != size_of(v, 2))
        return td_refuse(call, "value: has %lld rows, key has %lld; they must be equal",
                         (long long)size_of(v, 2), (long long)size_of(k, 2));
    int64_t heads = size_of(k, 3);
    if (call->arg[GQA].i && (size_of(v, 3) != heads || !heads || size_of(q, 3) % heads))
        return td_refuse(call,
                         "enable_gqa: query's %lld heads are no multiple of key's %lld and "
                         "value's %lld",
                         (long long)size_of(q, 3), (long long)heads, (long long)size_of(v, 3));
    return 0;
}

/* The batch dimensions of all, broadcast, into out, of which the last two are set. */
static int join(struct td_call *call, int i, const char *name)
{
    const struct td_tensor *t = &call->arg[i].tensor;
    struct td_tensor *out = &call->out[0];
    bool mask = i == MASK, grouped = call->arg[GQA].i && !mask && i != QUERY;
    for (int d = mask ? 1 : 3; d <= t->rank; d++) {
        int64_t size = size_of(t, d), *all = &out->shape[out->rank - d];
        int64_t right = mask && d == 1 ? size_of(arg(call, KEY), 2) : *all;
        if (size == right || size == 1 || (grouped && d == 3))
            continue;
        if (mask || right != 1)
            return td_refuse(call, "%s: dimension %d is %lld, which does not broadcast to %lld",
                             name, t->rank - d, (long long)size, (long long)right);
        *all = size;
    }
    return 0;
}

static int rule(struct td_call *call)
{
    int err = check_types(call);
    err = err ? err : check_sizes(call);
    if (err)
        return err;
    struct td_tensor *out = &call->out[0];
    *out = (struct td_tensor){.dtype = arg(call, QUERY)->dtype};
    for (int i = QUERY; i <= MASK; i++)
        if (td_arg(call, i) && td_arg(call, i)->rank > out->rank)
            out->rank = td_arg(call, i)->rank;
    for (int d = 0; d < out->rank; d++)
        out->shape[d] = 1;
    out->shape[out->rank - 2] = size_of(arg(call, QUERY), 2);
    out->shape[out->rank - 1] = size_of(arg(call, VALUE), 1);
    err = join(call, QUERY, "query");
    err = err ? err : join(call, KEY, "key");
    err = err ? err : join(call, VALUE, "value");
    if (!err && td_arg(call, MASK))
        err = join(call, MASK, "attn_mask");
    call->n_out = 1;
    return err;
}

/* ---- what is computed ---- */

void td_attention_of(const struct td_call *call, struct td_attention *a)
{
    *a = (struct td_attention){.query = arg(call, QUERY),
                               .key = arg(call, KEY),
                               .value = arg(call, VALUE),
                               .mask = td_arg(call, MASK),
                               .out = &call->out[0],
                               .heads = 1,
                               .repeat = 1,
                               .causal = call->arg[CAUSAL].i};
    a->number = a->query->dtype == TD_f64 ? sizeof(double) : sizeof(float);
    a->rows = size_of(a->query, 2);
    a->depth = size_of(a->query, 1);
    a->keys = size_of(a->key, 2);
    a->width = size_of(a->value, 1);
    for (int d = 0; d < a->out->rank - 2; d++)
        a->heads *= a->out->shape[d];
    if (call->arg[GQA].i)
        a->repeat = size_of(a->query, 3) / size_of(a->key, 3);
    const struct td_value *scale = &call->arg[SCALE];
    a->scale = scale->kind != TD_KIND_none ? td_scalar(scale)
               : a->depth                  ? 1 / sqrt((double)a->depth)
                                           : 1;
}

/* Elements from one index to the next in a dimension, which is counted from the end; within: those
 * of the dimensions behind it, by which a dense tensor goes on. 0: one index stands for all. */
static int64_t step_of(const struct td_tensor *t, int from_end, int64_t within)
{
    return size_of(t, from_end) == 1 ? 0 : t->stride ? t->stride[t->rank - from_end] : within;
}

/* Where the matrix of t begins that the head sees, of which the last batch dimension may be shared;
 * row: how far its rows are apart. */
static int64_t matrix_of(const struct td_attention *a, const struct td_tensor *t, int64_t head,
                         int64_t repeat, int64_t *row)
{
    int64_t at = 0, within = size_of(t, 1);
    *row = step_of(t, 2, within);
    within *= size_of(t, 2);
    for (int d = 3; d <= a->out->rank; d++) {
        int64_t i = head % size_of(a->out, d);
        head /= size_of(a->out, d);
        at += (d == 3 ? i / repeat : i) * step_of(t, d, within);
        within *= size_of(t, d);
    }
    return at;
}

struct td_attention_place td_attention_at(const struct td_attention *a, int64_t head)
{
    struct td_attention_place place;
    place.query = matrix_of(a, a->query, head, 1, &place.query_row);
    place.key = matrix_of(a, a->key, head, a->repeat, &place.key_row);
    place.value = matrix_of(a, a->value, head, a->repeat, &place.value_row);
    place.mask = place.mask_row = place.mask_key = 0;
    if (a->mask) {
        place.mask = matrix_of(a, a->mask, head, 1, &place.mask_row);
        place.mask_key = step_of(a->mask, 1, 1);
    }
    return place;
}

static int64_t filled(int64_t n) /* to whole panels of any level */
{
    return (n + 31) / 32 * 32;
}

/* Blocks of about equal rows, whole registers of any level each, and more of them where that shares
 * the work evenly. */
static void cut_rows(const struct td_attention *a, int slots, struct td_attention_cut *cut)
{
    enum { STEP = 12, LEAST = 24 }; /* rows that are computed together; that pay for packed keys */
    int64_t blocks = (a->rows + TD_ATTENTION_ROWS - 1) / TD_ATTENTION_ROWS;
    cut->rows = cut->blocks = 0;
    while (blocks && (!cut->blocks || (!td_shared_evenly(a->heads * cut->blocks, slots) &&
                                       a->rows / blocks >= LEAST))) {
        cut->rows = (a->rows / blocks + (a->rows % blocks > 0) + STEP - 1) / STEP * STEP;
        if (cut->rows > a->rows)
            cut->rows = TD_ATTENTION_FILL(a->rows);
        cut->blocks = (a->rows + cut->rows - 1) / cut->rows;
        blocks++;
    }
}

struct td_attention_cut td_attention_cut(const struct td_attention *a, int threads)
{
    struct td_attention_cut cut;
    double work =
        (double)a->heads * (double)a->rows * (double)a->keys * (double)(a->depth + a->width);
    cut.slots = work < 1 << 17 ? 1 : threads;
    cut_rows(a, cut.slots, &cut);
    cut.items = a->heads * cut.blocks;
    cut.slots = cut.slots < cut.items ? cut.slots : (int)cut.items;
    cut.slots = cut.slots < 1 ? 1 : cut.slots;
    int64_t times = (a->keys + TD_ATTENTION_KEYS - 1) / TD_ATTENTION_KEYS;
    cut.keys = times ? filled((a->keys + times - 1) / times) : filled(1);
    cut.wide_depth = filled(a->depth);
    cut.wide_width = filled(a->width);
    /* query, result, scores, maxima and sums; keys and values, packed, and a row of the mask; some
     * keys as they lie */
    size_t bytes = (size_t)(cut.rows * (cut.wide_depth + cut.wide_width + cut.keys + 2) +
                            cut.keys * (cut.wide_depth + cut.wide_width + 1) +
                            TD_ATTENTION_LANES * cut.wide_depth) *
                   a->number;
    cut.slot = (bytes + 63) & ~(size_t)63;
    return cut;
}

/* Rows are read where they lie: their elements are side by side. */
static bool has_rows(const struct td_tensor *t)
{
    return size_of(t, 1) == 1 || step_of(t, 1, 1) == 1;
}

static const char *prepare(const struct td_call *call, struct td_prepared *prepared)
{
    struct td_attention a;
    td_attention_of(call, &a);
    prepared->dense = !has_rows(a.query) || !has_rows(a.key) || !has_rows(a.value) ||
                      (a.mask && !has_rows(a.mask));
    struct td_attention_cut cut = td_attention_cut(&a, call->threads);
    prepared->scratch = (size_t)cut.slots * cut.slot;
    return NULL;
}

static double flops(const struct td_call *call)
{
    struct td_attention a;
    td_attention_of(call, &a);
    return (double)a.heads * (double)a.rows * (double)a.keys *
           (2 * (double)(a.depth + a.width) + 20) * (a.causal ? 0.5 : 1);
}

td_kernel td_attention_ref;
TD_KERNELS_3(attention_f32);
TD_KERNELS_3(attention_f64);

/* clang-format off */
static const struct td_impl impls[] = {
    TD_SIMD_3(attention_f32, TD_f32 | TD_bf16 | TD_f16, .prepare = prepare, .strided = true)
    TD_SIMD_3(attention_f64, TD_f64, .prepare = prepare, .strided = true)
    TD_REF(attention),
    {0},
};
/* clang-format on */

const struct td_op td_op_scaled_dot_product_attention = {
    .schema = "scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, "
              "Tensor? attn_mask=None, float dropout_p=0.0, bool is_causal=False, *, "
              "float? scale=None, bool enable_gqa=False) -> Tensor",
    .doc = "out = softmax(query x key transposed * scale + attn_mask) x value; a BOOL mask is true "
           "where a row may look; scale: 1 / sqrt of query's last dimension; zeros for a row that "
           "may look at nothing",
    .rule = rule,
    .dtypes = TD_FLOATS,
    .ulp = 192, /* FP64: the judge adds 40,000 numbers in doubles, too */
    .sums = true,
    .mixes = 2, /* is_causal counts rows */
    .impls = impls,
    /* finite: a weight of 0 makes NaN of an infinite value, unless its block is skipped */
    .samples =
        (const char *const[]){
            "query=[2,3,n,9] key=[2,3,m,9] value=[2,3,m,17] finite",
            "query=[n,20] key=[m,20] value=[m,5] is_causal=True finite",
            "query=[4,m,8] key=[2,n,8] value=[2,n,3] enable_gqa=True scale=0.5 finite",
            "query=[2,n,3] key=[m,3] value=[m,n] attn_mask=[1,m] finite",
            "query=[2,100,5] key=[2,m,5] value=[2,m,4] attn_mask=[100,m]:bool finite",
            "query=[2,30,5] key=[2,600,5] value=[2,600,4] attn_mask=[30,600]:bool finite",
            "query=[600,5] key=[600,5] value=[600,3] is_causal=True finite", NULL},
    .flops = flops,
};
