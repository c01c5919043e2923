/* com.microsoft's attention. What its masks hide has mask_filter_value added, as ONNX Runtime does:
 * a row that may see nothing answers as if it saw all. */
#include "dispatch/onnx/ops/onnx.h"
#include "kernels/sizes.h"

#include <math.h>

static const struct td_item nothing = {0};

static void add_mask(struct td_onnx *n, const char *formula)
{
    set(n, "one", formula);
    set(n, "mask", has(n, "mask") ? "mask + one" : "alias(one)");
}

/* Queries are the last of the keys. */
static void add_causal(struct td_onnx *n, int64_t queries, int64_t keys, int64_t window)
{
    let_int(n, "queries", queries);
    let_int(n, "keys", keys);
    let_int(n, "past", keys - queries);
    let_int(n, "window", -window);
    set(n, "ahead",
        "sub(arange(keys, dtype=INT64), view(arange(queries, dtype=INT64), [-1, 1])) - past");
    set(n, "hidden", window >= 0 ? "gt(ahead, 0) | le(ahead, window)" : "gt(ahead, 0)");
    add_mask(n, "masked_fill(zeros_like(hidden, dtype=kind), hidden, -inf)");
}

/* mask_index: lengths [batch], ends and starts [2 batch], 0 and 1 of [batch, keys] or [batch,
 * queries, keys]. */
static void add_given(struct td_onnx *n, int64_t batch, int64_t keys)
{
    const struct td_tensor *m = has(n, "mask_index") ? tensor_of(n, "mask_index") : NULL;
    let_int(n, "keys", keys);
    let_int(n, "batch", batch);
    if (!m)
        return;
    if (m->rank == 1 && (m->shape[0] == batch || m->shape[0] == 2 * batch)) {
        bool starts = m->shape[0] != batch;
        set(n, "at", "arange(keys, dtype=INT32)");
        set(n, "seen", "lt(at, view(slice.Tensor(mask_index, 0, 0, batch), [-1, 1]))");
        if (starts)
            set(n, "seen", "seen & ge(at, view(slice.Tensor(mask_index, 0, batch), [-1, 1]))");
        set(n, "seen", "view(seen, [-1, 1, 1, keys])");
    } else if (m->rank == 2 && m->shape[1] == keys) {
        set(n, "seen", "view(mask_index, [-1, 1, 1, keys])");
    } else if (m->rank == 3 && m->shape[2] == keys) {
        set(n, "seen", "unsqueeze(mask_index, 1)");
    } else {
        return refuse(n, "mask: [batch], [2 * batch], [batch, keys] or [batch, queries, keys] is "
                         "right");
    }
    add_mask(n, "(1 - to.dtype(seen, kind)) * mask_filter_value");
}

/* Of Q, K and V, [batch, heads, n, size], by all masks: result 0, [batch, n, heads * size]. */
static void attend(struct td_onnx *n)
{
    const struct td_tensor *q = tensor_of(n, "Q"), *k = tensor_of(n, "K");
    double scale = real(n, "scale", 0);
    if (n->err || !q->shape[3] || !k->shape[1] || q->shape[1] % k->shape[1])
        return refuse(n, "query, key: heads of the one must be a multiple of the other's");
    let(n, "scale", td_item_float(scale != 0 ? scale : 1 / sqrt((double)q->shape[3])));
    let(n, "grouped", td_item_bool(q->shape[1] != k->shape[1]));
    let_int(n, "groups", q->shape[1] / k->shape[1]);
    let_ints(n, "flat", (int64_t[]){q->shape[0], q->shape[2], -1}, 3);
    if (has(n, "attention_bias"))
        add_mask(n, "alias(attention_bias)");
    if (real(n, "softcap", 0) != 0) {
        set(n, "share",
            "tanh(matmul(Q, transpose(repeat_interleave(K, groups, 1), 2, 3)) * scale / softcap) * "
            "softcap");
        set(n, "share", has(n, "mask") ? "softmax(share + mask, -1)" : "softmax(share, -1)");
        set(n, "y", "matmul(share, repeat_interleave(V, groups, 1))");
    } else {
        set(n, "y",
            "scaled_dot_product_attention(Q, K, V, mask, 0.0, False, scale=scale, "
            "enable_gqa=grouped)");
    }
    put(n, 0, eval(n, "reshape(transpose(y, 1, 2), flat)"));
}

void td_onnx_ms_attention(struct td_onnx *n)
{
    let(n, "mask", nothing);
    struct td_tensor x = *tensor_of(n, "input"), w = *tensor_of(n, "weights");
    int64_t heads = whole(n, "num_heads", 0), sizes[4] = {0}, count = 3, all = 0;
    if (x.rank != 3 || w.rank != 2 || heads < 1)
        return refuse(n, "input, weights: [batch, n, hidden] and [hidden, 3 * hidden] are right");
    if (whole(n, "do_rotary", 0) || whole(n, "past_present_share_buffer", 0))
        return unfit(n, "do_rotary, past_present_share_buffer: 0 is right");
    for (int i = 0; i < 3; i++)
        sizes[i] = w.shape[1] / 3;
    if (has(n, "qkv_hidden_sizes"))
        count = ints(n, "qkv_hidden_sizes", sizes, 3);
    for (int i = 0; i < 3; i++)
        if (sizes[i] < 0 || !td_size_plus(all, sizes[i], &all))
            count = 0;
    if (count != 3 || all != w.shape[1])
        return refuse(n,
                      "qkv_hidden_sizes: three that add up to the %lld columns of weights are "
                      "right",
                      (long long)w.shape[1]);
    let_ints(n, "sizes", sizes, 3);
    set(n, "all", has(n, "bias") ? "matmul(input, weights) + bias" : "matmul(input, weights)");
    set(n, "Q", "split_with_sizes(all, sizes, -1)[0]");
    set(n, "K", "split_with_sizes(all, sizes, -1)[1]");
    set(n, "V", "split_with_sizes(all, sizes, -1)[2]");
    td_onnx_let_heads(n, heads, heads);
    if (has(n, "past")) {
        set(n, "K", "cat([select(past, 0, 0), K], 2)");
        set(n, "V", "cat([select(past, 0, 1), V], 2)");
    }
    int64_t keys = tensor_of(n, "K")->shape[2];
    add_given(n, x.shape[0], keys);
    if (whole(n, "unidirectional", 0))
        add_causal(n, x.shape[1], keys, -1);
    attend(n);
    if (wants(n, 1))
        put(n, 1, eval(n, "stack([K, V], 0)"));
}

/* Adds a third of the bias to a part. */
static void add_bias(struct td_onnx *n, const char *name, int64_t from, int64_t size)
{
    let_int(n, "from", from);
    let_int(n, "to", from + size);
    let(n, "v", *at(n, name));
    set(n, name, "v + slice.Tensor(bias, 0, from, to)");
}

void td_onnx_ms_heads(struct td_onnx *n)
{
    let(n, "mask", nothing);
    struct td_tensor q = *tensor_of(n, "query");
    int64_t heads = whole(n, "num_heads", 0);
    if (q.rank != 3 || !has(n, "key") || !has(n, "value") || heads < 1)
        return refuse(n, "query, key, value: all three apart, query [batch, n, hidden], are right");
    let(n, "Q", *at(n, "query"));
    let(n, "K", *at(n, "key"));
    let(n, "V", *at(n, "value"));
    if (has(n, "bias")) {
        int64_t own = q.shape[2], all = tensor_of(n, "bias")->shape[0];
        add_bias(n, "Q", 0, own);
        if (tensor_of(n, "K")->rank == 3) {
            add_bias(n, "K", own, own);
            add_bias(n, "V", 2 * own, all - 2 * own);
        }
    }
    td_onnx_let_heads(n, heads, heads);
    td_onnx_let_past(n);
    int64_t keys = tensor_of(n, "K")->shape[2];
    add_given(n, q.shape[0], keys);
    if (whole(n, "unidirectional", 0))
        add_causal(n, q.shape[1], keys, -1);
    attend(n);
    td_onnx_put_past(n);
}

/* ---- with rotary positions, and fewer keys than queries ---- */

void td_onnx_ms_rotary(struct td_onnx *n)
{
    struct td_tensor x = *tensor_of(n, "X"), positions = *tensor_of(n, "position_ids");
    int64_t size = 2 * tensor_of(n, "cos_cache")->shape[1], heads = whole(n, "num_heads", 0);
    if ((x.rank != 3 && x.rank != 4) || size < 1)
        return refuse(n,
                      "X, cos_cache: [batch, n, hidden] or [batch, heads, n, size], and [n, size "
                      "/ 2] are right");
    int64_t steps = x.shape[x.rank - 2];
    if (x.rank == 3 && !heads)
        let_int(n, "num_heads", x.shape[2] / size);
    let_int(n, "steps", steps);
    let_ints(n, "each", (int64_t[]){x.shape[0], steps}, 2);
    if (positions.rank < 2)
        set(n, "position_ids",
            "expand(view(position_ids, [1, 1]) + arange(steps, dtype=INT64), each)");
    give(n, "rotary_embedding(X, cos_cache, sin_cache, position_ids, interleaved, num_heads, "
            "rotary_embedding_dim)");
}

static void turn(struct td_onnx *n, const char *name)
{
    let(n, "v", *at(n, name));
    set(n, name, "rotary_embedding(v, cos_cache, sin_cache, position_ids, paired)");
}

/* What lies beyond what shapes say is refused: keys that end before the others of their batch, and
 * a cache that is longer than it is full. */
static void check_lengths(struct td_onnx *n, int64_t batch, int64_t past, int64_t queries)
{
    int64_t total = whole(n, "total_sequence_length", 0), length;
    if (total != past + queries)
        refuse(n,
               "total_sequence_length: is %lld; past_key's %lld and the %lld of query are right "
               "(a cache that is longer than it is full is not)",
               (long long)total, (long long)past, (long long)queries);
    for (int64_t i = 0; i < batch && past && !n->err; i++) {
        let_int(n, "i", i);
        set(n, "length", "select(view(seqlens_k, [-1]), 0, i)");
        length = whole(n, "length", 0);
        if (length != total - 1)
            refuse(n, "seqlens_k: %lld; %lld is right, as all sequences of a batch must be as long",
                   (long long)length, (long long)total - 1);
    }
}

void td_onnx_ms_groups(struct td_onnx *n)
{
    let(n, "mask", nothing);
    struct td_tensor q = *tensor_of(n, "query");
    int64_t heads = whole(n, "num_heads", 0), of = whole(n, "kv_num_heads", 0);
    if (q.rank != 3 || heads < 1 || of < 1 || heads > INT32_MAX || of > INT32_MAX)
        return refuse(n, "query, num_heads, kv_num_heads: [batch, n, hidden] and heads are right");
    if (has(n, "head_sink") || whole(n, "smooth_softmax", 0) > 0 ||
        whole(n, "kv_cache_bit_width", 0))
        return unfit(n, "head_sink, smooth_softmax, kv_cache_bit_width: are not right here");
    if (has(n, "key")) {
        let(n, "Q", *at(n, "query"));
        let(n, "K", *at(n, "key"));
        let(n, "V", *at(n, "value"));
    } else {
        int64_t size = q.shape[2] / (heads + 2 * of);
        let_ints(n, "sizes", (int64_t[]){heads * size, of * size, of * size}, 3);
        set(n, "Q", "split_with_sizes(query, sizes, -1)[0]");
        set(n, "K", "split_with_sizes(query, sizes, -1)[1]");
        set(n, "V", "split_with_sizes(query, sizes, -1)[2]");
    }
    td_onnx_let_heads(n, heads, of);
    int64_t past = has(n, "past_key") ? tensor_of(n, "past_key")->shape[2] : 0;
    check_lengths(n, q.shape[0], past, q.shape[1]);
    let_int(n, "begin", past);
    let_int(n, "end", past + q.shape[1]);
    let_ints(n, "each", (int64_t[]){q.shape[0], q.shape[1]}, 2);
    if (!has(n, "position_ids"))
        set(n, "position_ids", "expand(arange.start(begin, end, dtype=INT64), each)");
    let(n, "paired", td_item_bool(whole(n, "rotary_interleaved", 0)));
    if (whole(n, "do_rotary", 0)) {
        turn(n, "Q");
        turn(n, "K");
    }
    td_onnx_let_past(n);
    int64_t window = whole(n, "local_window_size", -1);
    if (q.shape[1] > 1 || window >= 0)
        add_causal(n, q.shape[1], past + q.shape[1], window);
    attend(n);
    td_onnx_put_past(n);
}
