"""The layers of random ONNX graphs for graphs.py: chains as networks have them, with branches that join again. Each function adds nodes behind x
and gives the last result, or None."""
import numpy as np
from onnx import TensorProto, numpy_helper

from drawn_graph import MOST, Graph


def spatial(g, x):
    return len(g.shape(x)) - 2


def windows(g, n, most=5):
    """kernel_shape, strides, dilations, pads of n dimensions."""
    kernel = [g.pick(1, 1, 2, 3, 3, 3, g.int(1, most)) for _ in range(n)]
    if g.maybe(0.5):
        kernel = [kernel[0]] * n
    found = {"kernel_shape": kernel, "strides": [g.pick(1, 1, 1, 2, g.int(1, 3)) for _ in range(n)]}
    if g.maybe(0.3):
        found["dilations"] = [g.int(1, 3) for _ in range(n)]
    how = g.int(0, 4)
    if how == 0 and "dilations" not in found: # with which ONNX Runtime's pools give another size
        found["auto_pad"] = g.pick("SAME_UPPER", "SAME_LOWER", "VALID")
    elif how < 3:
        found["pads"] = [k // 2 for k in kernel] * 2
    elif how == 3:
        found["pads"] = [g.int(0, max(0, k - 1)) for k in kernel * 2]
    return found


def convolution(g, x):
    n, channels = spatial(g, x), g.shape(x)[1]
    groups = g.pick(1, 1, 1, channels, channels, *[d for d in range(1, channels + 1) if channels % d == 0])
    outs = groups * g.pick(1, 1, 2, g.int(1, 8)) if groups > 1 else g.pick(g.int(1, 40), channels, 16)
    how = windows(g, n)
    if g.maybe(0.3):
        how = {"kernel_shape": [1] * n}
    w = g.numbers((outs, channels // groups, *how["kernel_shape"]), (channels // groups * np.prod(how["kernel_shape"])) ** -0.5)
    bias = [g.constant(g.numbers(outs))] if g.maybe(0.6) else []
    return g("Conv", x, g.constant(w), *bias, group=groups, **how)


def turned_convolution(g, x):
    n, channels = spatial(g, x), g.shape(x)[1]
    groups = g.pick(1, 1, channels)
    kernel = [g.int(1, 4)] * n
    each = g.int(1, 4)
    w = g.numbers((channels, each, *kernel), channels**-0.5)
    bias = [g.constant(g.numbers(each * groups))] if g.maybe(0.5) else []
    return g("ConvTranspose", x, g.constant(w), *bias, group=groups, kernel_shape=kernel, strides=[g.int(1, 2)] * n,
             pads=[g.int(0, kernel[0] - 1)] * (2 * n))


def batch_norm(g, x):
    c = g.shape(x)[1]
    return g("BatchNormalization", x, g.constant(g.numbers(c)), g.constant(g.numbers(c)), g.constant(g.numbers(c)),
             g.constant(g.numbers(c, low=0.5)), epsilon=1e-3)


def normalization(g, x):
    shape = g.shape(x)
    which = g.pick("LayerNormalization", "InstanceNormalization", "GroupNormalization")
    if which == "LayerNormalization" or len(shape) < 3:
        axis = g.int(-len(shape), -1)
        scale, bias = (g.constant(g.numbers(shape[axis:])) for _ in range(2))
        return g("LayerNormalization", x, scale, *([bias] if g.maybe(0.7) else []), axis=axis, epsilon=1e-3)
    c = shape[1]
    scale, bias = (g.constant(g.numbers(c)) for _ in range(2))
    if which == "InstanceNormalization":
        return g(which, x, scale, bias, epsilon=1e-3)
    groups = g.pick(*[d for d in range(1, c + 1) if c % d == 0])
    each = [g.constant(g.numbers(groups)) for _ in range(2)]
    return g(which, x, *each, num_groups=groups, epsilon=1e-3) # one a group until operator set 21


def activation(g, x):
    which = g.pick("Relu", "Relu", "Relu", "Clip", "Sigmoid", "HardSwish", "LeakyRelu", "PRelu", "HardSigmoid", "Tanh", "Elu", "Mish",
                   "Gelu", "Silu", "ErfGelu", "Softplus", "Abs", "Neg", "Sqrt")
    if which == "Clip":
        low, high = g.pick((0, 6), (-1, 1), (0, 1), (-0.5, 3))
        return g("Clip", x, *(g.constant(np.float32(v)) for v in (low, high)))
    if which == "PRelu":
        slope = g.numbers((g.shape(x)[1], *[1] * spatial(g, x))) if len(g.shape(x)) > 1 else g.numbers(1)
        return g("PRelu", x, g.constant(slope))
    if which == "Gelu":
        return g("Gelu", x, approximate=g.pick("none", "tanh"))
    if which == "Silu":
        return g("Mul", *g.pick((x, y), (y, x))) if (y := g("Sigmoid", x)) else None
    if which == "ErfGelu":
        y = g("Erf", g("Div", x, g.constant(np.float32(np.sqrt(2)))))
        return g("Mul", g("Mul", x, g("Add", y, g.constant(np.float32(1)))), g.constant(np.float32(0.5)))
    if which == "Sqrt":
        return g("Sqrt", g("Add", g("Abs", x), g.constant(np.float32(0.01)))) # as in models: at 0 it makes much of a last digit
    return g(which, x)


def with_constant(g, x):
    shape = g.shape(x)
    thin = tuple(1 if g.maybe(0.5) else n for n in shape)
    if len(shape) > 2 and g.maybe(0.4):
        thin = (shape[1], *[1] * (len(shape) - 2)) # a number a channel
    c = g.constant(g.numbers(thin[g.int(0, len(thin)):]))
    which = g.pick("Add", "Mul", "Sub", "Add", "Mul", "Max", "Min", "Div", "Pow")
    if which == "Div":
        return g("Div", x, g.constant(g.numbers(thin, low=0.5)))
    if which == "Pow":
        return g("Pow", x, g.constant(np.float32(2)))
    return g(which, *g.pick((x, c), (c, x)))


def residual(g, x):
    other = g.earlier(lambda s: s == g.shape(x))
    return other and g(g.pick("Add", "Add", "Add", "Mul", "Sub", "Max"), *g.pick((x, other), (other, x)))


def joined(g, x):
    axis = g.int(0, len(g.shape(x)) - 1)
    fits = lambda s: len(s) == len(g.shape(x)) and all(i == axis or a == b for i, (a, b) in enumerate(zip(s, g.shape(x))))
    others = [o for o in (g.earlier(fits) for _ in range(g.int(1, 2))) if o]
    return g("Concat", x, *others, axis=axis - g.pick(0, len(g.shape(x))))


def pool(g, x):
    which = g.pick("MaxPool", "MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "LpPool")
    if which.startswith("Global"):
        return g(which, x)
    how = windows(g, spatial(g, x), 4)
    if which == "AveragePool":
        how.pop("dilations", None) # where a window may have nothing in it
    n, pads = spatial(g, x), how.get("pads", [0] * 10)
    spans = [(k - 1) * d + 1 for k, d in zip(how["kernel_shape"], how.get("dilations", [1] * n))]
    room = [size + pads[i] + pads[n + i] - spans[i] for i, size in enumerate(g.shape(x)[2:])]
    if min(room) < 0:
        return None # which ONNX Runtime takes as one window
    if how.get("auto_pad", "").startswith("SAME") and any(span < step for span, step in zip(spans, how["strides"])):
        return None # whose pads ONNX Runtime makes negative
    if which != "LpPool" and "auto_pad" not in how and g.maybe(0.3):
        how["ceil_mode"] = 1
        if any(-(-r // step) * step >= size + pads[i] for i, (r, step, size) in enumerate(zip(room, how["strides"], g.shape(x)[2:]))):
            return None # where a window would begin behind the input: onnx counts it, ONNX Runtime does not
    if which == "AveragePool":
        how["count_include_pad"] = g.int(0, 1)
    return g(which, x, **how)


def resized(g, x):
    n = spatial(g, x)
    mode = g.pick("nearest", "linear", "cubic") if n == 2 else g.pick("nearest", "linear")
    how = {"mode": mode, "coordinate_transformation_mode": g.pick("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")}
    if mode == "nearest":
        how["nearest_mode"] = g.pick("floor", "round_prefer_floor", "ceil")
    scale = g.pick(2, 2, 0.5, 1.5, 3)
    if g.maybe(0.5) and all(scale * i % 1 == 0 for i in g.shape(x)[2:]): # a part of an element ONNX Runtime leaves out of account
        return g("Resize", x, "", g.constant(np.array([1, 1] + [scale] * n, np.float32), np.float32), **how)
    # Where a place lies just between two elements, the nearest depends on how it was rounded.
    sizes = [*g.shape(x)[:2], *[i * g.int(1, 3) if mode == "nearest" else g.int(1, 12) for i in g.shape(x)[2:]]]
    return g("Resize", x, "", "", g.constant(np.array(sizes, np.int64)), **how)


def moved(g, x):
    shape, rank = g.shape(x), len(g.shape(x))
    whole = lambda *v: g.constant(np.array(v, np.int64))
    which = g.pick("Transpose", "Transpose", "Reshape", "Flatten", "Slice", "Pad", "Unsqueeze", "Squeeze", "Gather", "Split", "Tile",
                   "DepthToSpace", "SpaceToDepth", "Shuffle", "Turned")
    if which == "Transpose":
        return g(which, x, perm=[int(d) for d in g.rng.permutation(rank)])
    if which == "Reshape":
        at = g.int(0, rank - 1)
        pick = g.pick([*shape[:at], -1], [-1, *shape[at:][1:]], [0] * at + [-1])
        return g(which, x, whole(*pick))
    if which == "Flatten":
        return g(which, x, axis=g.int(0, rank))
    if which == "Slice":
        axis = g.int(0, rank - 1)
        n, step = shape[axis], g.pick(1, 1, 2, -1)
        begin, end = sorted((g.int(0, n), g.int(0, n)))
        ends = (begin, end) if step > 0 else (end - 1, begin - 1 if begin else -(2**31))
        return g(which, x, *(whole(v) for v in (ends[0], ends[1], axis, step)))
    if which == "Pad":
        mode = g.pick("constant", "reflect", "edge")
        at = [0] * 2 * rank
        for d in range(max(0, rank - 2), rank):
            at[d], at[rank + d] = (min(g.int(0, 2), shape[d] - 1) for _ in range(2))
        return g(which, x, whole(*at), mode=mode)
    if which == "Squeeze":
        ones = [d for d in range(rank) if shape[d] == 1]
        return g(which, x, whole(g.pick(*ones))) if ones and rank > 1 else None
    if which == "Unsqueeze":
        return g(which, x, whole(g.int(0, rank))) if rank < 5 else None
    if which == "Gather":
        axis = g.int(0, rank - 1)
        return g(which, x, g.constant(g.rng.integers(0, shape[axis], g.int(1, 5)).astype(np.int64)), axis=axis)
    if which == "Split":
        axis = g.int(0, rank - 1)
        first = g.int(1, shape[axis])
        return g(which, x, whole(first, shape[axis] - first), outs=2, axis=axis) if first < shape[axis] else None
    if which == "Tile":
        return g(which, x, whole(*[g.pick(1, 1, 2) for _ in range(rank)]))
    if which == "Shuffle" and rank == 4 and shape[1] % 2 == 0:
        y = g("Reshape", x, whole(shape[0], 2, shape[1] // 2, *shape[2:]))
        y = y and g("Transpose", y, perm=[0, 2, 1, 3, 4])
        return y and g("Reshape", y, whole(*shape))
    if which == "Turned" and rank == 4:
        y = g("Transpose", x, perm=[0, 2, 3, 1])
        y = y and (g("Relu", y) if g.kind == "QDQ" else activation(g, y) or y)
        return y and g("Transpose", y, perm=[0, 3, 1, 2])
    return g(which, x, blocksize=2) if "Depth" in which and rank == 4 else None


def reduced(g, x):
    rank = len(g.shape(x))
    which = g.pick("ReduceMean", "ReduceSum", "ReduceMax", "ReduceL2", "Softmax", "Softmax", "LogSoftmax", "CumSum")
    if "oftmax" in which:
        return g(which, x, axis=g.int(-rank, rank - 1))
    if which == "CumSum":
        return g(which, x, g.constant(np.int64(g.int(0, rank - 1))), exclusive=g.int(0, 1), reverse=g.int(0, 1))
    axes = sorted({g.int(0, rank - 1) for _ in range(g.int(1, 2))})
    return g(which, x, g.constant(np.array(axes, np.int64)), keepdims=g.int(0, 1)) if rank > 1 else None


def product(g, x):
    shape = g.shape(x)
    k, n = shape[-1], g.int(1, 40)
    which = g.pick("MatMul", "MatMul", "Gemm", "Between", "Attention")
    bias = lambda y: g("Add", *g.pick((y, b), (b, y))) if (b := g.constant(g.numbers(n))) and y and g.maybe(0.7) else y
    if which == "Gemm" and len(shape) == 2:
        turned = g.int(0, 1)
        w = g.numbers((n, k) if turned else (k, n), k**-0.5)
        more = [g.constant(g.numbers(g.pick((n,), (1, n), (shape[0], 1), ())))] if g.maybe(0.7) else []
        how = {"alpha": g.pick(1.0, 0.5), "beta": g.pick(1.0, 2.0)} if g.maybe(0.3) else {}
        return g("Gemm", x, g.constant(w), *more, transB=turned, **how)
    if which == "Between" and len(shape) > 1:
        other = g.earlier(lambda s: len(s) > 1 and s[-2] == k)
        return other and g("MatMul", x, other)
    if which == "Attention" and len(shape) > 2:
        turned = g("Transpose", x, perm=[*range(len(shape) - 2), len(shape) - 1, len(shape) - 2])
        scores = turned and g("MatMul", x, turned)
        scores = scores and g(*g.pick(("Mul", scores, g.constant(np.float32(k**-0.5))), ("Div", scores, g.constant(np.float32(k**0.5)))))
        return scores and g("MatMul", g("Softmax", scores, axis=-1), x)
    return bias(g("MatMul", x, g.constant(g.numbers((k, n), k**-0.5))))


# ---- quantized values ----

def scale_of(g, wide=2):
    return 2.0 ** -g.int(1, 1 + wide)


def quantized(g, x, type=None):
    """x in 8 bits and back, by one scale."""
    type = type or g.pick(np.uint8, np.uint8, np.int8)
    zero = g.pick(0, 0, 128, g.int(0, 255)) - (0 if type is np.uint8 else 128)
    if type is np.int8 and g.maybe(0.5):
        zero = 0
    scale, zero = g.constant(np.float32(scale_of(g, 4)), np.float32), g.constant(np.array(zero, type))
    return g("DequantizeLinear", g("QuantizeLinear", x, scale, zero), scale, zero)


def stored(g, shape, axis):
    """A weight in 8 bits, by one scale or one an element of the axis: (its value in floats, its scales)."""
    type = g.pick(np.int8, np.int8, np.uint8)
    limits = np.iinfo(type)
    n = shape[axis] if g.maybe(0.6) else 1
    scales = np.array([scale_of(g) for _ in range(n)], np.float32)
    zeros = np.zeros(n, type) if g.maybe(0.6) else g.rng.integers(limits.min, limits.max + 1, n).astype(type)
    one = n == 1 and g.maybe(0.7)
    scale, zero = (g.constant(v.reshape(()) if one else v, v.dtype) for v in (scales, zeros))
    w = g.constant(g.rng.integers(limits.min, limits.max + 1, shape).astype(type))
    how = {} if one else {"axis": axis - g.pick(0, len(shape))}
    if n == 1 and not one:
        how = {"axis": axis} if shape[axis] == 1 else {}
        scale, zero = (g.constant(v.reshape(()), v.dtype) for v in (scales, zeros)) if not how else (scale, zero)
    return g("DequantizeLinear", w, scale, zero, **how), scales


def whole_bias(g, n, x, scales):
    """INT32 in the scale of the sums, and now and then in another one."""
    node = next(node for node in g.nodes if x in node.output)
    by = numpy_helper.to_array(next(c for c in g.constants if c.name == node.input[1]))
    scale = (scales * by * (2 if g.maybe(0.1) else 1)).astype(np.float32)
    b = g.constant(g.rng.integers(-500, 500, n).astype(np.int32))
    if scale.size == 1:
        return g("DequantizeLinear", b, g.constant(scale.reshape(()), np.float32))
    zero = g.constant(np.zeros(scale.shape, np.int32))
    return g("DequantizeLinear", b, g.constant(scale, np.float32), zero, axis=0)


def between_pairs(g, x):
    """A layer whose operands and whose result are quantized."""
    shape = g.shape(x)
    x = quantized(g, x)
    which = g.pick("Conv", "Conv", "MatMul", "Gemm", "move", "Add", "pool")
    if x is None:
        return None
    if which == "Conv" and len(shape) > 2:
        channels = shape[1]
        groups = g.pick(1, 1, channels, channels, *[d for d in range(1, channels + 1) if channels % d == 0])
        outs = groups * g.pick(1, 1, 2) if groups > 1 else g.int(1, 40)
        how = windows(g, len(shape) - 2)
        w, scales = stored(g, (outs, channels // groups, *how["kernel_shape"]), 0)
        bias = [whole_bias(g, outs, x, scales)] if w and g.maybe(0.6) else []
        y = w and g("Conv", x, w, *bias, group=groups, **how)
    elif which == "Gemm" and len(shape) == 2:
        n, turned = g.int(1, 40), g.int(0, 1)
        w, scales = stored(g, (n, shape[1]) if turned else (shape[1], n), 0 if turned else 1)
        bias = [whole_bias(g, n, x, scales)] if w and g.maybe(0.6) else []
        y = w and g("Gemm", x, w, *bias, transB=turned)
    elif which == "MatMul":
        w, _ = stored(g, (shape[-1], g.int(1, 40)), 1)
        y = w and g("MatMul", x, w)
    elif which == "Add":
        y = residual(g, x)
    elif which == "pool" and len(shape) > 2:
        y = pool(g, x)
    else:
        y = moved(g, x)
        if y and g.maybe(0.5): # the same numbers behind as before
            node = next(node for node in g.nodes if x in node.output)
            return g("DequantizeLinear", g("QuantizeLinear", y, *node.input[1:]), *node.input[1:])
    if y and g.maybe(0.4):
        y = g("Relu", y)
    return y and quantized(g, y)


# ---- all of it ----

IMAGE = [convolution] * 6 + [batch_norm] * 3 + [activation] * 6 + [with_constant] * 3 + [residual] * 4 + [joined] * 2 + [
    pool] * 2 + [resized, turned_convolution, normalization, moved, moved, reduced, product]
ROWS = [product] * 5 + [activation] * 5 + [with_constant] * 3 + [residual] * 3 + [joined, normalization, moved, moved, moved, reduced]
EXACT = [between_pairs] * 8 + [moved, residual]


def draw(rng, kind):
    """A graph of 1 to 14 layers and the names of its outputs."""
    g = Graph(rng, kind)
    size = lambda most: g.pick(g.int(1, most), g.int(1, most), 8, 16) if most > 8 else g.int(1, most)
    if g.maybe(0.65):
        x = g.input((g.int(1, 3), size(33), *[g.int(1, 14) for _ in range(g.pick(2, 2, 2, 2, 1, 3))]))
    else:
        x = g.input([size(40) for _ in range(g.int(1, 4))][-4:] if g.maybe(0.3) else [g.int(1, 4)] * g.int(0, 2) + [size(40), size(70)])
    if np.prod(g.shape(x)) > MOST:
        return draw(rng, kind)
    for _ in range(g.int(1, 14)):
        if g.made and (g.maybe(0.15) or not g.shape(x)): # a branch
            x = g.pick(*g.inputs, *[m for m in g.made if g.shape(m)])
        table = EXACT if kind == "QDQ" else IMAGE if len(g.shape(x)) > 2 else ROWS
        y = g.pick(*table)(g, x)
        if y and g.types[y] == g.type:
            x = y
            g.made.append(y)
    if not g.made:
        return draw(rng, kind)
    outputs = [g.made[-1]]
    results = [o for node in g.nodes for o in node.output if o not in outputs and g.types[o] in (g.type, TensorProto.UINT8, TensorProto.INT8)]
    while results and g.maybe(0.35) and len(outputs) < 4:
        outputs.append(g.pick(*[r for r in results if r not in outputs] or outputs))
    return g, list(dict.fromkeys(outputs))
