/* ONNX's attention, whole or step by step. */
#include "dispatch/onnx/ops/onnx.h"

#include <math.h>

/* [batch, n, heads * size] becomes [batch, heads, n, size]. */
static void let_heads(struct td_onnx *n, const char *name, int64_t heads)
{
    const struct td_tensor *x = tensor_of(n, name);
    if (n->err || x->rank == 4)
        return;
    if (x->rank != 3 || heads < 1 || x->shape[2] % heads)
        return refuse(n, "%s: [batch, n, heads * size] or [batch, heads, n, size] is right", name);
    let_ints(n, "apart", (int64_t[]){x->shape[0], x->shape[1], heads, x->shape[2] / heads}, 4);
    let(n, "v", *at(n, name));
    set(n, name, "transpose(view(v, apart), 1, 2)");
}

void td_onnx_let_heads(struct td_onnx *n, int64_t heads, int64_t of)
{
    let_heads(n, "Q", heads);
    let_heads(n, "K", of);
    let_heads(n, "V", of);
}

void td_onnx_let_past(struct td_onnx *n)
{
    if (!has(n, "past_key"))
        return;
    const struct td_tensor *past = tensor_of(n, "past_key");
    if (past->rank == 4 && !past->shape[2]) /* of another rank, cat refuses it */
        return;
    set(n, "K", "cat([past_key, K], 2)");
    set(n, "V", "cat([past_value, V], 2)");
}

void td_onnx_put_past(struct td_onnx *n)
{
    put(n, 1, *at(n, "K"));
    put(n, 2, *at(n, "V"));
}

/* One mask more: what is not allowed is -inf. */
static void allow(struct td_onnx *n, const char *formula)
{
    set(n, "allowed", formula);
    set(n, "one", "where(logical_not(allowed), -inf, zeros_like(allowed, dtype=kind))");
    set(n, "mask", has(n, "mask") ? "mask + one" : "alias(one)");
}

static void let_given_mask(struct td_onnx *n, int64_t keys)
{
    let(n, "mask", (struct td_item){0});
    if (!has(n, "attn_mask"))
        return;
    if (tensor_of(n, "attn_mask")->dtype == TD_bool)
        allow(n, "alias(attn_mask)");
    else
        set(n, "mask", "alias(attn_mask)");
    const struct td_tensor *m = tensor_of(n, "mask");
    int64_t missing = m->rank ? keys - m->shape[m->rank - 1] : 0;
    if (n->err || missing <= 0)
        return;
    let_ints(n, "more", (int64_t[]){0, missing}, 2);
    set(n, "mask", "constant_pad_nd(mask, more, -inf)");
}

static void let_masks(struct td_onnx *n, int64_t before)
{
    const struct td_tensor *q = tensor_of(n, "Q"), *k = tensor_of(n, "K");
    int64_t left = whole(n, "left_window_size", -1), right = whole(n, "right_window_size", -1);
    let_int(n, "queries", q->shape[2]);
    let_int(n, "keys", k->shape[2]);
    let_int(n, "before", before);
    let_int(n, "left", left > 0 ? -left : 0);
    let_int(n, "right", right);
    let_given_mask(n, k->shape[2]);
    bool lengths = has(n, "nonpad_kv_seqlen");
    set(n, "ahead", "sub(arange(keys, dtype=INT64), view(arange(queries, dtype=INT64), [-1, 1]))");
    if (lengths)
        set(n, "lengths", "view(nonpad_kv_seqlen, [-1, 1, 1, 1])");
    set(n, "ahead", lengths && !before ? "ahead - (lengths - queries)" : "ahead - before");
    if (whole(n, "is_causal", 0))
        allow(n, "le(ahead, 0)");
    if (left >= 0)
        allow(n, "ge(ahead, left)");
    if (right >= 0)
        allow(n, "le(ahead, right)");
    if (lengths)
        allow(n, "lt(arange(keys, dtype=INT64), lengths)");
}

/* With what lies between, which one operator does not show. */
static void attend_long(struct td_onnx *n)
{
    static const char *const stages[] = {"scores", "capped", "masked", "share"};
    int64_t stage = whole(n, "qk_matmul_output_mode", 0);
    if (whole(n, "groups", 1) != 1) {
        set(n, "K", "repeat_interleave(K, groups, 1)");
        set(n, "V", "repeat_interleave(V, groups, 1)");
    }
    set(n, "scores", "matmul(Q, transpose(K, 2, 3)) * scale");
    set(n, "capped",
        real(n, "softcap", 0) != 0 ? "tanh(scores / softcap) * softcap" : "alias(scores)");
    set(n, "masked", has(n, "mask") ? "capped + mask" : "alias(capped)");
    set(n, "share", "softmax(masked, -1)");
    if (has(n, "mask")) /* who may see nothing sees nothing */
        set(n, "share", "masked_fill(share, isneginf(amax(masked, [-1], True)), 0)");
    if (stage < 0 || stage > 3)
        return refuse(n, "qk_matmul_output_mode: 0 to 3 is right");
    set(n, "y", "matmul(share, V)");
    put(n, 3, *at(n, stages[stage]));
}

void td_onnx_attention(struct td_onnx *n)
{
    struct td_tensor q = *tensor_of(n, "Q");
    td_onnx_let_heads(n, whole(n, "q_num_heads", 0), whole(n, "kv_num_heads", 0));
    int64_t before = has(n, "past_key") ? tensor_of(n, "past_key")->shape[2] : 0;
    td_onnx_let_past(n);
    const struct td_tensor *heads = tensor_of(n, "Q"), *k = tensor_of(n, "K");
    int64_t groups = k->shape[1] ? heads->shape[1] / k->shape[1] : 0;
    double scale = real(n, "scale", 0);
    if (k->rank != 4 || heads->rank != 4 || groups * k->shape[1] != heads->shape[1])
        return refuse(n, "Q, K: heads of the one must be a multiple of the other's");
    let_int(n, "groups", groups);
    let(n, "scale", td_item_float(scale != 0 ? scale : 1 / sqrt((double)heads->shape[3])));
    let_masks(n, before);
    let(n, "grouped", td_item_bool(groups != 1));
    if (real(n, "softcap", 0) != 0 || wants(n, 3))
        attend_long(n);
    else
        set(n, "y",
            "scaled_dot_product_attention(Q, K, V, mask, 0.0, False, scale=scale, "
            "enable_gqa=grouped)");
    let_ints(n, "flat", (int64_t[]){q.shape[0], q.shape[1], -1}, 3);
    put(n, 0, eval(n, q.rank == 3 ? "reshape(transpose(y, 1, 2), flat)" : "alias(y)"));
    td_onnx_put_past(n);
}

/* ---- step by step ---- */

/* A step is [batch, heads, size, 1]. */
static void let_steps(struct td_onnx *n, const char *name, int64_t heads)
{
    if (!has(n, name))
        return;
    const struct td_tensor *x = tensor_of(n, name);
    if (x->rank != 3 || heads < 1 || x->shape[2] % heads)
        return refuse(n, "%s: [batch, n, heads * size] is right", name);
    let_ints(n, "apart", (int64_t[]){x->shape[0], x->shape[1], heads, x->shape[2] / heads, 1}, 5);
    let(n, "v", *at(n, name));
    set(n, name, "to.dtype(view(v, apart), FP32)");
}

/* The state fades, learns a key's value, and answers the query. */
static void step(struct td_onnx *n, int64_t i)
{
    let_int(n, "i", i);
    if (has(n, "decay"))
        set(n, "state", "state * exp(select(decay, 1, i))");
    set(n, "k", "select(key, 1, i)");
    set(n, "v", "transpose(select(value, 1, i), 2, 3)");
    if (has(n, "beta"))
        set(n, "v", "(v - matmul(transpose(k, 2, 3), state)) * select(beta, 1, i)");
    set(n, "state", "addcmul(state, k, v)");
    set(n, "read",
        "matmul(transpose(select(query, 1, i), 2, 3), repeat_interleave(state, groups, "
        "1)) * scale");
    set(n, "y", i ? "cat([y, unsqueeze(read, 1)], 1)" : "unsqueeze(read, 1)");
}

void td_onnx_linear_attention(struct td_onnx *n)
{
    struct td_tensor q = *tensor_of(n, "query");
    int64_t heads = whole(n, "q_num_heads", 0), of = whole(n, "kv_num_heads", 0);
    double scale = real(n, "scale", 0);
    if (q.rank != 3 || of < 1 || heads < 1 || heads % of || !q.shape[1])
        return refuse(n, "query, q_num_heads, kv_num_heads: there are not as many heads");
    let(n, "own",
        td_item_dtype(has(n, "past_state") ? tensor_of(n, "past_state")->dtype : q.dtype));
    let_steps(n, "query", heads);
    let_steps(n, "key", of);
    let_steps(n, "value", of);
    let_steps(n, "decay", of);
    if (has(n, "beta"))
        let_steps(n, "beta", tensor_of(n, "beta")->shape[2]);
    int64_t wide = tensor_of(n, "key")->shape[3], high = tensor_of(n, "value")->shape[3];
    let_int(n, "groups", heads / of);
    let(n, "scale", td_item_float(scale != 0 ? scale : 1 / sqrt((double)wide)));
    let_ints(n, "sizes", (int64_t[]){q.shape[0], of, wide, high}, 4);
    let_ints(n, "flat", (int64_t[]){q.shape[0], q.shape[1], -1}, 3);
    set(n, "state",
        has(n, "past_state") ? "to.dtype(past_state, FP32)" : "zeros(sizes, dtype=FP32)");
    for (int64_t i = 0; i < q.shape[1] && !n->err; i++)
        step(n, i);
    put(n, 0, eval(n, "to.dtype(reshape(y, flat), kind)"));
    put(n, 1, eval(n, "to.dtype(state, own)"));
}
