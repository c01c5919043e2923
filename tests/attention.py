"""NumPy's word on attention: {operator: (formula, calls, result, scale)}, as tests/operators.py has
them for the others."""
import numpy as np

import index


def same(name, _):
    return name


def attention(query, key, value, attn_mask=None, is_causal=False, scale=None, enable_gqa=False, dropout_p=0.0):
    if enable_gqa:
        repeat = query.shape[-3] // key.shape[-3]
        key, value = np.repeat(key, repeat, axis=-3), np.repeat(value, repeat, axis=-3)
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = query @ np.swapaxes(key, -1, -2) * scale
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if attn_mask is not None:
        scores = np.where(attn_mask, scores, -np.inf) if attn_mask.dtype == bool else scores + attn_mask
    most = scores.max(axis=-1, keepdims=True, initial=-1e300)
    weights = np.exp(scores - most)
    return weights / np.maximum(weights.sum(axis=-1, keepdims=True), 1e-300) @ value


def rotary(X, cos_cache, sin_cache, position_ids=None, interleaved=False, num_heads=0, rotary_embedding_dim=0, sign=-1):
    x = X.reshape(*X.shape[:2], num_heads, -1).swapaxes(1, 2) if X.ndim == 3 else X
    cosine, sine = (c[:, None] if position_ids is None else c[position_ids][:, None] for c in (cos_cache, sin_cache))
    turned, kept = np.split(x, [rotary_embedding_dim or x.shape[-1]], axis=-1)
    a, b = (turned[..., 0::2], turned[..., 1::2]) if interleaved else np.split(turned, 2, axis=-1)
    parts = a * cosine + sign * b * sine, a * sine + b * cosine
    turned = np.stack(parts, axis=-1).reshape(turned.shape) if interleaved else np.concatenate(parts, axis=-1)
    out = np.concatenate([turned, kept], axis=-1)
    return out.swapaxes(1, 2).reshape(X.shape) if X.ndim == 3 else out


def general(value, **_):
    """No result is larger than the largest value."""
    return np.max(value, initial=0)


def shapes(query, key, value, **mask):
    return {"query": query, "key": key, "value": value, **mask}


TABLE = {
    "rotary_embedding": (rotary, [
        ({"X": (2, 3, 5, 8), "cos_cache": (2, 5, 4), "sin_cache": (2, 5, 4)}, {}),
        ({"X": (2, 5, 24), "cos_cache": (7, 4), "sin_cache": (7, 4), "position_ids": index.Below((2, 5), 7)}, {"num_heads": 3}),
        ({"X": (2, 3, 5, 8), "cos_cache": (9, 2), "sin_cache": (9, 2), "position_ids": index.Below((2, 5), 9)},
         {"interleaved": True, "rotary_embedding_dim": 4}),
        ({"X": (1, 2, 3, 400), "cos_cache": (1, 3, 200), "sin_cache": (1, 3, 200)}, {"interleaved": True})],
        same, lambda **how: rotary(**how, sign=1)),
    "scaled_dot_product_attention": (attention, [
        (shapes((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 6)), {}),
        (shapes((100, 9), (300, 9), (300, 40)), {"is_causal": True}),
        (shapes((1, 6, 5, 8), (1, 2, 7, 8), (1, 2, 7, 8)), {"enable_gqa": True, "scale": 0.5}),
        (shapes((2, 3, 5, 8), (3, 7, 8), (3, 7, 6), attn_mask=(5, 7)), {}),
        (shapes((2, 1, 5, 8), (2, 1, 150, 8), (2, 1, 150, 6), attn_mask=(2, 1, 1, 150)), {}),
        (shapes((3, 4, 8), (3, 0, 8), (3, 0, 6)), {}),
    ], same, lambda **how: np.broadcast_to(general(**how), attention(**how).shape)),
}
