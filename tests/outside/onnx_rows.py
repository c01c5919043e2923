"""ONNX operators by the service's: one row each.

A row is a formula of calls, in which arguments are the node's inputs and attributes under ONNX's names (an
attribute of an older opset and the input that it has become since have the same name), or a function of
the operators and the node where a formula cannot say it. What is called is an operator of the service by
its whole name, or a helper, which knows shapes, types and numbers alone: nothing here computes on elements.
Several calls a row are as good as one; what ONNX defines by random numbers has no row.
"""
import math

import numpy as np

import service
from onnx import TensorProto, helper as onnx_helper, numpy_helper


class Refused(Exception):
    """Something that a node asks for is not there."""


HELPERS = {}
ROWS = {}


def helper(function):
    HELPERS[function.__name__] = function
    return function


def row(function):
    ROWS[function.__name__] = function
    return function


# ---- helpers: shapes, types, numbers ----

def to_service(value):
    """A tensor as the tests of the service have it."""
    if value is None or isinstance(value, service.BF16):
        return value
    if isinstance(value, list):
        raise Refused("a sequence")
    value = numpy_helper.to_array(value) if hasattr(value, "data_type") else np.asarray(value)
    if value.dtype.name == "bfloat16":
        return service.BF16.of_bits(value.view(np.uint16))
    if value.dtype not in service.NAMES:
        raise Refused(f"type {value.dtype.name}")
    return value


KINDS = {onnx_helper.np_dtype_to_tensor_dtype(np.dtype(kind)): name for name, kind in service.DATATYPES.items()}
KINDS[TensorProto.BFLOAT16] = "BF16"
WHOLE = ("BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64")
RANGES = {"UINT8": (0, 255), "INT8": (-128, 127), "INT16": (-2**15, 2**15 - 1), "INT32": (-2**31, 2**31 - 1),
          "INT64": (-2**63, 2**63 - 1), "BOOL": (0, 1)}


@helper
def kind(x):
    return service.datatype(x)


@helper
def whole(x):
    return kind(x) in WHOLE


@helper
def rank(x):
    return len(x.shape)


@helper
def shape(x):
    return list(x.shape)


@helper
def shape_from(x, axis):
    return list(x.shape)[axis % (rank(x) + 1) if axis >= 0 else axis:]


@helper
def dims_from(x, first):
    return list(range(first, rank(x)))


@helper
def ints(x):
    return None if x is None else [int(v) for v in np.ravel(x)]


@helper
def number(x, default=None):
    return default if x is None else x.values.item() if isinstance(x, service.BF16) else np.asarray(x).item()


@helper
def reverse(x):
    return list(range(rank(x)))[::-1]


@helper
def lowest(x):
    return -math.inf if not whole(x) else RANGES[kind(x)][0]


@helper
def highest(x):
    return math.inf if not whole(x) else RANGES[kind(x)][1]


@helper
def product(numbers):
    return math.prod(ints(numbers))


@helper
def tensor_like(value, like):
    """What older opsets have as an attribute."""
    return array(value, kind(like)) if isinstance(value, float) else value


@helper
def array(values, like="INT64"):
    """Numbers that are known beforehand, as a tensor."""
    return service.BF16(values) if like == "BF16" else np.asarray(values, service.DATATYPES[like])


# ---- one formula ----

for name in ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Exp Floor IsNaN:isnan Log Neg Reciprocal Relu Round Sigmoid "
             "Sign Sin Sinh Softplus Sqrt Tan Tanh HardSwish Mish Erf BitwiseNot:bitwise_not Not:logical_not "
             "Identity:alias").split():
    name, _, called = name.partition(":")
    ROWS[name] = f"{called or name.lower()}(first)"
for name in ("Add:add Sub:sub Mul:mul Equal:eq Less:lt LessOrEqual:le Greater:gt GreaterOrEqual:ge BitwiseAnd:bitwise_and "
             "BitwiseOr:bitwise_or BitwiseXor:bitwise_xor").split():
    name, _, called = name.partition(":")
    ROWS[name] = f"{called}.Tensor(A, B)"

ROWS |= {
    # element by element
    "And": "logical_and(A, B)",
    "Or": "logical_or(A, B)",
    "Xor": "logical_xor(A, B)",
    "Div": "div.Tensor_mode(A, B, 'trunc' if whole(A) else None)",
    "Mod": "fmod.Tensor(A, B) if fmod else remainder.Tensor(A, B)",
    "Pow": "to.dtype(pow.Tensor_Tensor(X, Y), kind(X))",
    "BitShift": "bitwise_left_shift.Tensor(X, Y) if direction == 'LEFT' else bitwise_right_shift.Tensor(X, Y)",
    "Where": "where.self(condition, X, Y)",
    "Clip": "input if min is None and max is None else clamp.Tensor(input, tensor_like(min, input), tensor_like(max, input))",
    "IsInf": "isinf(X) if detect_negative and detect_positive else isneginf(X) if detect_negative else "
             "isposinf(X) if detect_positive else zeros_like(X, dtype='BOOL')",
    "LeakyRelu": "leaky_relu(X, alpha)",
    "PRelu": "prelu(X, slope) if opset < 7 else where.self(lt.Scalar(X, 0), mul.Tensor(X, slope), X)",
    "Elu": "elu(X, alpha)",
    "Selu": "elu(X, alpha, gamma)",
    "Celu": "celu(X, alpha)",
    "ThresholdedRelu": "threshold(X, alpha, 0)",
    "HardSigmoid": "clamp(add.Scalar(mul.Scalar(X, alpha), beta), 0, 1)",
    "Shrink": "sub.Tensor(where.self(lt.Scalar(input, -lambd), add.Scalar(input, bias), zeros_like(input)), "
              "where.self(gt.Scalar(input, lambd), rsub.Scalar(input, bias), zeros_like(input)))",
    "Softsign": "div.Tensor(input, add.Scalar(abs(input), 1))",
    "Swish": "mul.Tensor(X, sigmoid(mul.Scalar(X, alpha)))",
    "SwiGLU": "mul.Tensor(mul.Tensor(A, sigmoid(mul.Scalar(A, alpha))), B)",
    "Gelu": "gelu(X, approximate=approximate)",
    "Cast": "to.dtype(input, to)",
    "CastLike": "to.other(input, target_type)",
    # along dimensions
    "Softmax": "softmax.int(input, axis)",
    "LogSoftmax": "log_softmax.int(input, axis)",
    "Hardmax": "scatter.value(zeros_like(input), axis, argmax(input, axis, True), 1)",
    "Trilu": "triu(input, number(k, 0)) if upper else tril(input, number(k, 0))",
    "TopK": "topk(X, number(K), axis, True if largest is None else largest, True if sorted is None else sorted)",
    # products
    "MatMul": "matmul(A, B)",
    "MatMulInteger": "matmul_integer(A, B, a_zero_point, b_zero_point)",
    "QLinearMatMul": "qlinear_matmul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)",
    "Gemm": "addmm(C, t(A) if transA else A, t(B) if transB else B, beta=beta, alpha=alpha) if C is not None else "
            "mul.Scalar(mm(t(A) if transA else A, t(B) if transB else B), alpha)",
    "Einsum": "einsum(equation, Inputs)",
    # norms
    "InstanceNormalization": "instance_norm(input, scale, B, None, None, True, 0, epsilon, False)",
    "LRN": "div.Tensor(X, pow.Tensor_Scalar(add.Scalar(mul.Scalar(sum.dim_IntList(unfold(constant_pad_nd(mul.Tensor(X, X), "
           "[0] * (2 * rank(X) - 4) + [(size - 1) // 2, size // 2]), 1, size, 1), [-1]), alpha / size), bias), beta))",
    "LayerNormalization": "native_layer_norm(X, shape_from(X, axis), Scale, B, epsilon)",
    "RMSNormalization": "rms_norm(X, shape_from(X, axis), scale, epsilon)",
    # elements moved
    "Concat": "cat(inputs, axis)",
    "Transpose": "permute(data, reverse(data) if perm is None else perm)",
    "Tile": "repeat(input, repeats)",
    "Flatten": "view(input, [product(shape(input)[:axis]), product(shape(input)[axis:])])",
    "Squeeze": "squeeze(data) if axes is None else squeeze.dims(data, axes)",
    "GlobalAveragePool": "mean.dim(X, dims_from(X, 2), True)",
    "GlobalMaxPool": "amax(X, dims_from(X, 2), True)",
    "GatherElements": "gather(data, axis, remainder.Scalar(indices, shape(data)[axis]))",
    "NonZero": "t(nonzero(X))",
    "GridSample": "grid_sampler(X, grid, {'linear': 0, 'bilinear': 0, 'nearest': 1, 'cubic': 2, 'bicubic': 2}[mode], "
                  "{'zeros': 0, 'border': 1, 'reflection': 2}[padding_mode], align_corners)",
    "RotaryEmbedding": "rotary_embedding(X, cos_cache, sin_cache, position_ids, interleaved, num_heads or 0, rotary_embedding_dim)",
    "DynamicQuantizeLinear": "dynamic_quantize_linear(x)",
    # made from numbers and shapes
    "Shape": "array(shape(data)[start:end])",
    "Size": "array(product(shape(data)))",
    "Range": "arange.start_step(number(start), number(limit), number(delta), dtype=kind(start))",
}


# ---- reductions ----

def axes_of(t, n, x):
    """The dimensions, None for none at all."""
    axes = ints(n.axes)
    return axes if axes else None if n.noop_with_empty_axes else list(range(rank(x)))


def reduction(before, reduce, after=None):
    def reduced(t, n):
        x = before(t, n.data) if before else n.data
        axes = axes_of(t, n, x)
        if axes is not None:
            x = reduce(t, x, axes, bool(n.keepdims))
        return after(t, x) if after else x
    return reduced


def total(t, x, axes, keepdims):
    return t["sum.dim_IntList"](x, axes, keepdims, dtype=kind(x))


def extreme(op, least):
    def reduce(t, x, axes, keepdims):
        if all(x.shape[a] for a in axes):
            return t[op](x, axes, keepdims)
        sizes = [1 if i in [a % rank(x) for a in axes] else size for i, size in enumerate(x.shape)]
        full = t["full"](sizes, least(x), dtype=kind(x))
        return full if keepdims else t["squeeze.dims"](full, axes)
    return reduce


def multiplied(t, x, axes, keepdims):
    for axis in sorted((a % rank(x) for a in axes), reverse=True):
        x = t["prod.dim_int"](x, axis, keepdims, dtype=kind(x))
    return x


def squared(t, x):
    return t["mul.Tensor"](x, x)


def of_same_kind(op):
    def after(t, x):
        return t["to.dtype"](t[op](x), kind(x))
    return after


ROWS |= {
    "ReduceSum": reduction(None, total),
    "ReduceMean": reduction(None, lambda t, x, axes, keepdims: t["mean.dim"](x, axes, keepdims)),
    "ReduceMax": reduction(None, extreme("amax", lowest)),
    "ReduceMin": reduction(None, extreme("amin", highest)),
    "ReduceProd": reduction(None, multiplied),
    "ReduceL1": reduction(lambda t, x: t["abs"](x), total),
    "ReduceL2": reduction(squared, total, of_same_kind("sqrt")),
    "ReduceSumSquare": reduction(squared, total),
    "ReduceLogSum": reduction(None, total, of_same_kind("log")),
    "ReduceLogSumExp": reduction(None, lambda t, x, axes, keepdims: t["logsumexp"](x, axes, keepdims)),
}


def arg_extreme(op):
    def find(t, n):
        if not n.select_last_index:
            return t[op](n.data, n.axis, bool(n.keepdims))
        found = t[op](t["flip"](n.data, [n.axis]), n.axis, bool(n.keepdims))
        return t["rsub.Scalar"](found, n.data.shape[n.axis] - 1)
    return find


def scanned(op, first):
    def scan(t, n):
        x, axis = n.x, number(n.axis) % rank(n.x)
        x = t["flip"](x, [axis]) if n.reverse else x
        if n.exclusive:
            pads = [0, 0] * (rank(x) - 1 - axis) + [1, -1]
            x = t["constant_pad_nd"](x, pads, first)
        x = t[op](x, axis, dtype=kind(n.x))
        return t["flip"](x, [axis]) if n.reverse else x
    return scan


def folded(op):
    def fold(t, n):
        out, *others = n.first_and_more
        for other in others:
            out = t[op](out, other)
        return out
    return fold


ROWS |= {
    "ArgMax": arg_extreme("argmax"), "ArgMin": arg_extreme("argmin"),
    "CumSum": scanned("cumsum", 0), "CumProd": scanned("cumprod", 1),
    "Max": folded("maximum"), "Min": folded("minimum"), "Sum": folded("add.Tensor"),
}


@row
def Mean(t, n):
    return t["div.Scalar"](ROWS["Sum"](t, n), len(n.first_and_more))


@row
def LpNormalization(t, n):
    length = t["linalg_vector_norm"](n.input, n.p, [n.axis], True)
    return t["div.Tensor"](n.input, t["masked_fill.Scalar"](length, t["eq.Scalar"](length, 0), 1))


@row
def MeanVarianceNormalization(t, n):
    std, mean = t["std_mean.correction"](n.X, n.axes or [0, 2, 3], correction=0, keepdim=True)
    return t["div.Tensor"](t["sub.Tensor"](n.X, mean), t["add.Scalar"](std, 1e-9))


@row
def GroupNormalization(t, n):
    scale, bias = n.scale, n.bias
    if n.opset < 21: # one number a group
        each = n.X.shape[1] // n.num_groups
        scale, bias = (t["repeat_interleave.self_int"](v, each) for v in (scale, bias))
    return t["group_norm"](n.X, n.num_groups, scale, bias, n.epsilon)


@row
def BatchNormalization(t, n):
    def normal(mean, var):
        return t["batch_norm"](n.X, n.scale, n.B, mean, var, False, 0, n.epsilon, False)
    means = [n.input_mean, n.input_var] if n.opset > 13 else [n.mean, n.var]
    if not n.training_mode:
        return normal(*means)
    var, mean = t["var_mean.correction"](n.X, [0, *dims_from(n.X, 2)], correction=0)
    return normal(mean, var), *(t["add.Tensor"](t["mul.Scalar"](old, n.momentum), new, alpha=1 - n.momentum)
                                for old, new in zip(means, (mean, var)))


# ---- windows ----

class Window:
    """The numbers of a node that moves a window: of each a list, one a dimension."""

    def __init__(self, n, image, kernel, transposed=False):
        dims = len(kernel)
        self.kernel, self.dims = kernel, dims
        self.strides, self.dilations = n.strides or [1] * dims, n.dilations or [1] * dims
        self.span = [(k - 1) * d + 1 for k, d in zip(kernel, self.dilations)]
        pads = n.pads or [0] * 2 * dims
        self.begin, self.end = pads[:dims], pads[dims:]
        if (n.auto_pad or "NOTSET").startswith("SAME") and not transposed:
            missing = [max((-(-i // s) - 1) * s + span - i, 0) for i, s, span in zip(image, self.strides, self.span)]
            self.share(missing, n.auto_pad == "SAME_UPPER")
        elif n.auto_pad == "VALID":
            self.begin = self.end = [0] * dims

    def share(self, amounts, upper):
        self.begin = [a // 2 if upper else a - a // 2 for a in amounts]
        self.end = [a - b for a, b in zip(amounts, self.begin)]

    def results(self, image, ceil):
        """Results a dimension; a last window that starts behind the image is none."""
        sizes = []
        for i, b, e, s, span in zip(image, self.begin, self.end, self.strides, self.span):
            more = i + b + e - span
            count = (-(-more // s) if ceil else more // s) + 1
            sizes.append(count - 1 if ceil and (count - 1) * s >= i + b else count)
        return sizes


def around(begin, end):
    """Pads as ATen has them: the last dimension's first."""
    return [v for pair in zip(begin[::-1], end[::-1]) for v in pair]


def padded(t, x, w, value=0):
    """x with what lies around it, and what is left of it for the operator to add."""
    if w.begin == w.end:
        return x, w.begin
    return t["constant_pad_nd"](x, around(w.begin, w.end), value), [0] * w.dims


@row
def Conv(t, n):
    w = Window(n, n.X.shape[2:], shape(n.W)[2:])
    x, padding = padded(t, n.X, w)
    return t["convolution"](x, n.W, n.B, w.strides, padding, w.dilations, False, [0] * w.dims, n.group)


@row
def ConvTranspose(t, n):
    image = shape(n.X)[2:]
    w = Window(n, image, shape(n.W)[2:], True)
    more = n.output_padding or [0] * w.dims
    whole = [s * (i - 1) + m + span for s, i, m, span in zip(w.strides, image, more, w.span)]
    same = (n.auto_pad or "NOTSET").startswith("SAME")
    wanted = n.output_shape or ([i * s for i, s in zip(image, w.strides)] if same else None)
    if wanted:
        w.share([a - b for a, b in zip(whole, wanted)], n.auto_pad == "SAME_UPPER")
    direct = w.begin == w.end and min(w.begin) >= 0 and all(m < max(s, d) for m, s, d in zip(more, w.strides, w.dilations))
    out = t["convolution"](n.X, n.W, n.B, w.strides, w.begin if direct else [0] * w.dims, w.dilations, True,
                           more if direct else [0] * w.dims, n.group)
    crop = around([-b for b in w.begin], [m - e for m, e in zip(more, w.end)])
    return out if direct else t["constant_pad_nd"](out, crop)


@row
def ConvInteger(t, n):
    def signed(x, zero):
        x = t["to.dtype"](x, "INT32")
        return x if zero is None else t["sub.Tensor"](x, t["to.dtype"](zero, "INT32"))
    w = Window(n, n.x.shape[2:], shape(n.w)[2:])
    x, padding = padded(t, signed(n.x, n.x_zero_point), w)
    zero = n.w_zero_point
    if zero is not None and zero.size > 1:
        zero = t["view"](zero, [-1] + [1] * (w.dims + 1))
    return t["convolution"](x, signed(n.w, zero), None, w.strides, padding, w.dilations, False, [0] * w.dims, n.group)


@row
def MaxPool(t, n):
    image = shape(n.X)[2:]
    w = Window(n, image, n.kernel_shape)
    direct = w.begin == w.end and all(2 * b <= k for b, k in zip(w.begin, w.kernel))
    if not direct: # with as much behind as the last window may need
        end = [(r - 1) * s + span - i - b for r, s, span, i, b in
               zip(w.results(image, n.ceil_mode), w.strides, w.span, image, w.begin)]
        x = t["constant_pad_nd"](n.X, around(w.begin, end), lowest(n.X))
    name = f"max_pool{w.dims}d" + ("_with_indices" if len(n.outputs) > 1 else "")
    out = t[name](n.X if direct else x, w.kernel, w.strides, w.begin if direct else [0] * w.dims, w.dilations,
                  bool(n.ceil_mode) and direct)
    if len(n.outputs) < 2:
        return out
    if not direct:
        raise Refused("indices into an image with other pads before than behind")
    values, places = out
    if n.storage_order: # the first dimension's neighbours lie side by side
        place = [1]
        for size in image[:-1]:
            place.append(place[-1] * size)
        rest, moved = places, None
        for d in range(w.dims - 1, -1, -1):
            part = t["mul.Scalar"](t["remainder.Scalar"](rest, image[d]), place[d])
            rest = t["floor_divide.Scalar"](rest, image[d])
            moved = part if moved is None else t["add.Tensor"](moved, part)
        places = moved
    planes = n.X.shape[0] * n.X.shape[1]
    first = t["mul.Scalar"](t["arange"](planes, dtype="INT64"), math.prod(image))
    return values, t["add.Tensor"](places, t["view"](first, [*n.X.shape[:2]] + [1] * w.dims))


def summed(t, n, x, w, value=0):
    """The sums of windows, where the last ones may reach beyond the pads."""
    image = shape(x)[2:]
    results = w.results(image, n.ceil_mode)
    beyond = [max((r - 1) * s + span - i - b - e, 0) for r, s, span, i, b, e in
              zip(results, w.strides, w.span, image, w.begin, w.end)]
    x = t["constant_pad_nd"](x, around(w.begin, w.end), value)
    x = t["constant_pad_nd"](x, around([0] * w.dims, beyond))
    ones = t["ones"]([x.shape[1], 1, *w.kernel], dtype=kind(x))
    none = [0] * w.dims
    return t["convolution"](x, ones, None, w.strides, none, w.dilations, False, none, x.shape[1])


@row
def AveragePool(t, n):
    w = Window(n, n.X.shape[2:], n.kernel_shape)
    if w.begin == w.end and set(w.dilations) == {1} and all(2 * b <= k for b, k in zip(w.begin, w.kernel)):
        return t[f"avg_pool{w.dims}d"](n.X, w.kernel, w.strides, w.begin, bool(n.ceil_mode), bool(n.count_include_pad))
    ones = t["ones_like"](n.X)
    return t["div.Tensor"](summed(t, n, n.X, w), summed(t, n, ones, w, n.count_include_pad))


@row
def LpPool(t, n):
    w = Window(n, n.X.shape[2:], n.kernel_shape)
    return t["pow.Tensor_Scalar"](summed(t, n, t["pow.Tensor_Scalar"](t["abs"](n.X), n.p), w), 1 / n.p)


@row
def MaxUnpool(t, n):
    w = Window(n, n.X.shape[2:], n.kernel_shape)
    image = [(i - 1) * s + k - b - e for i, s, k, b, e in zip(n.X.shape[2:], w.strides, w.kernel, w.begin, w.end)]
    sizes = [*n.X.shape[:2], *image]
    flat = t["scatter.src"](t["zeros"]([math.prod(sizes)], dtype=kind(n.X)), 0, t["view"](n.I, [-1]), t["view"](n.X, [-1]))
    out = t["view"](flat, sizes)
    if n.output_shape is None:
        return out
    return t["constant_pad_nd"](out, around([0] * rank(n.X), [b - a for a, b in zip(sizes, ints(n.output_shape))]))


@row
def Col2Im(t, n):
    dims = len(ints(n.image_shape))
    if dims != 2:
        raise Refused("no operator col2im in three dimensions")
    pads = n.pads or [0] * 4
    sizes = [a + b + c for a, b, c in zip(ints(n.image_shape), pads[:2], pads[2:])]
    out = t["col2im"](n.input, sizes, ints(n.block_shape), n.dilations or [1, 1], [0, 0], n.strides or [1, 1])
    return t["constant_pad_nd"](out, around([-p for p in pads[:2]], [-p for p in pads[2:]]))


# ---- elements moved ----

@row
def Reshape(t, n):
    sizes = ints(n.shape)
    if not n.allowzero:
        sizes = [n.data.shape[i] if s == 0 else s for i, s in enumerate(sizes)]
    return t["reshape"](n.data, sizes)


@row
def Unsqueeze(t, n):
    axes = ints(n.axes)
    for axis in sorted(a % (rank(n.data) + len(axes)) for a in axes):
        n.values["data"] = t["unsqueeze"](n.data, axis)
    return n.data


@row
def Expand(t, n):
    return t["expand"](n.input, list(np.broadcast_shapes(n.input.shape, ints(n.shape))))


@row
def Split(t, n):
    size = n.input.shape[n.axis]
    if n.split is not None:
        return t["split_with_sizes"](n.input, n.split, n.axis)
    return t["split.Tensor"](n.input, max(-(-size // len(n.outputs)), 1), n.axis)


@row
def Slice(t, n):
    x, starts, ends = n.data, ints(n.starts), ints(n.ends)
    axes = ints(n.axes) or list(range(len(starts)))
    steps = ints(n.steps) or [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        size = x.shape[axis]
        start, end, step = slice(start, end, step).indices(size)
        if step < 0: # ATen goes forwards only
            x, start, end, step = t["flip"](x, [axis]), size - 1 - start, size - 1 - end, -step
        x = t["slice.Tensor"](x, axis, start, max(end, start), step)
    return x


@row
def Pad(t, n):
    pads, axes = ints(n.pads), ints(n.axes) or list(range(rank(n.data)))
    begin, end = [0] * rank(n.data), [0] * rank(n.data)
    for i, axis in enumerate(axes):
        begin[axis], end[axis] = pads[i], pads[i + len(axes)]
    if n.mode == "constant":
        value = n.constant_value if n.constant_value is not None else n.value
        return t["constant_pad_nd"](n.data, around(begin, end), number(value, 0))
    x = n.data
    for axis, (b, e) in enumerate(zip(begin, end)):
        if b or e:
            x = t["index_select"](x, axis, array(np.pad(np.arange(x.shape[axis]), (b, e), n.mode)))
    return x


@row
def CenterCropPad(t, n):
    begin, end = [0] * rank(n.input_data), [0] * rank(n.input_data)
    for axis, size in zip(n.axes or range(rank(n.input_data)), ints(n.shape)):
        more = size - n.input_data.shape[axis]
        begin[axis] = more // 2 if more > 0 else -(-more // 2)
        end[axis] = more - begin[axis]
    return t["constant_pad_nd"](n.input_data, around(begin, end))


@row
def DepthToSpace(t, n):
    b, (batch, channels, h, w) = n.blocksize, n.input.shape
    if n.mode == "CRD":
        return t["pixel_shuffle"](n.input, b)
    parts = t["permute"](t["view"](n.input, [batch, b, b, channels // b**2, h, w]), [0, 3, 4, 1, 5, 2])
    return t["reshape"](parts, [batch, channels // b**2, h * b, w * b])


@row
def SpaceToDepth(t, n):
    b, (batch, channels, h, w) = n.blocksize, n.input.shape
    if n.mode == "CRD":
        return t["pixel_unshuffle"](n.input, b)
    parts = t["permute"](t["view"](n.input, [batch, channels, h // b, b, w // b, b]), [0, 3, 5, 1, 2, 4])
    return t["reshape"](parts, [batch, channels * b**2, h // b, w // b])


@row
def Gather(t, n):
    return t["index.Tensor"](n.data, [None] * (n.axis % rank(n.data)) + [n.indices])


@row
def Compress(t, n):
    x = t["view"](n.input, [-1]) if n.axis is None else n.input
    return t["index_select"](x, n.axis or 0, t["view"](t["nonzero"](n.condition), [-1]))


def indices_of(t, n):
    """Of GatherND and ScatterND: a tensor of indices a dimension, those of the batch before them."""
    batch, given = n.batch_dims or 0, t["unbind.int"](n.indices, -1)
    free = rank(n.indices) - 1
    return [t["view"](t["arange"](n.data.shape[d], dtype="INT64"), [1] * d + [-1] + [1] * (free - d - 1))
            for d in range(batch)] + given


@row
def GatherND(t, n):
    return t["index.Tensor"](n.data, indices_of(t, n))


@row
def ScatterND(t, n):
    if n.reduction in (None, "none", "add"):
        return t["index_put"](n.data, indices_of(t, n), n.updates, n.reduction == "add")
    deep = n.indices.shape[-1]
    at = None
    for index, size in zip(indices_of(t, n), n.data.shape):
        index = t["remainder.Scalar"](index, size)
        at = index if at is None else t["add.Tensor"](t["mul.Scalar"](at, size), index)
    flat = t["view"](n.data, [math.prod(n.data.shape[:deep]), -1])
    updates = t["view"](n.updates, [-1, flat.shape[1]])
    at = t["expand"](t["view"](at, [-1, 1]), shape(updates))
    return t["view"](t["scatter_reduce.two"](flat, 0, at, updates, REDUCE[n.reduction]), shape(n.data))


REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@row
def ScatterElements(t, n):
    at = t["remainder.Scalar"](n.indices, n.data.shape[n.axis])
    if n.reduction in (None, "none"):
        return t["scatter.src"](n.data, n.axis, at, n.updates)
    return t["scatter_reduce.two"](n.data, n.axis, at, n.updates, REDUCE[n.reduction])


ROWS["Scatter"] = ScatterElements


@row
def TensorScatter(t, n):
    axis, x = n.axis % rank(n.update), n.past_cache
    count = n.update.shape[axis]
    at = t["arange"](count, dtype="INT64")
    if n.write_indices is not None:
        at = t["add.Tensor"](t["unsqueeze"](n.write_indices, 1), at)
        at = t["remainder.Scalar"](at, x.shape[axis]) if n.mode == "circular" else at
        at = t["view"](at, [-1] + [1] * (axis - 1) + [count] + [1] * (rank(x) - axis - 1))
    else:
        at = t["view"](at, [count] + [1] * (rank(x) - axis - 1))
    return t["scatter.src"](x, axis, t["expand"](at, shape(n.update)), n.update)


@row
def ReverseSequence(t, n):
    size, batch = n.input.shape[n.time_axis], n.input.shape[n.batch_axis]
    at, ends = t["arange"](size, dtype="INT64"), t["view"](n.sequence_lens, [batch, 1])
    back = t["sub.Tensor"](t["sub.Scalar"](ends, 1), at)
    at = t["where.self"](t["ge.Scalar"](back, 0), back, at)
    at = at if n.batch_axis < n.time_axis else t["t"](at)
    return t["gather"](n.input, n.time_axis, t["expand"](t["view"](at, shape(at) + [1] * (rank(n.input) - 2)), shape(n.input)))


@row
def OneHot(t, n):
    depth = int(number(n.depth))
    axis = n.axis % (rank(n.indices) + 1)
    at = t["where.self"](t["lt.Scalar"](n.indices, 0), t["add.Scalar"](n.indices, depth), n.indices)
    each = t["view"](t["arange"](depth, dtype=kind(at)), [depth] + [1] * (rank(n.indices) - axis))
    off, on = t["unbind.int"](n.values["values"])
    return t["where.self"](t["eq.Tensor"](t["unsqueeze"](at, axis), each), on, off)


@row
def NonMaxSuppression(t, n):
    most = number(n.max_output_boxes_per_class, 0)
    found = [t["zeros"]([0, 3], dtype="INT64")]
    for b in range(n.boxes.shape[0]):
        x = t["select.int"](n.boxes, 0, b)
        low, high = t["slice.Tensor"](x, 1, 0, 2), t["slice.Tensor"](x, 1, 2, 4)
        if n.center_point_box:
            half = t["mul.Scalar"](high, 0.5)
            low, high = t["sub.Tensor"](low, half), t["add.Tensor"](low, half)
        boxes = t["cat"]([t["minimum"](low, high), t["maximum"](low, high)], 1)
        for c in range(n.scores.shape[1]):
            scores = t["select.int"](t["select.int"](n.scores, 0, b), 0, c)
            good = t["arange"](scores.shape[0], dtype="INT64")
            if n.score_threshold is not None:
                good = t["view"](t["nonzero"](t["gt.Scalar"](scores, number(n.score_threshold))), [-1])
            kept = t["nms"](t["index_select"](boxes, 0, good), t["index_select"](scores, 0, good), number(n.iou_threshold, 0))
            kept = t["slice.Tensor"](t["index_select"](good, 0, kept), 0, 0, most)
            found.append(t["stack"]([t["full_like"](kept, b), t["full_like"](kept, c), kept], 1))
    return t["cat"](found)


# ---- places in images, by grid_sampler ----

def sampled(t, x, rows, cols, padding):
    """x at places given in its elements, of one shape: batch, height, width. There and back in FP64."""
    def edges(at, size): # -1 and 1
        at = t["to.dtype"](at, "FP64")
        return t["sub.Scalar"](t["div.Scalar"](t["add.Scalar"](t["mul.Scalar"](at, 2), 1), size), 1)
    grid = t["stack"]([edges(cols, x.shape[3]), edges(rows, x.shape[2])], -1)
    return t["to.dtype"](t["grid_sampler"](t["to.dtype"](x, "FP64"), grid, 0, padding, False), kind(x))


@row
def RoiAlign(t, n):
    if n.mode != "avg" or not n.sampling_ratio:
        raise Refused("no operator roi_align: largest of shares, or as many samples as a box has elements")
    half = 0.5 if n.coordinate_transformation_mode == "half_pixel" else 0
    box = t["sub.Scalar"](t["mul.Scalar"](n.rois, n.spatial_scale), half)
    left, top, right, bottom = (t["view"](side, [-1, 1]) for side in t["unbind.int"](box, 1))

    def line(low, high, size, results): # the samples' places along a dimension, and which lie within
        long = t["sub.Tensor"](high, low)
        long = long if half else t["clamp_min"](long, 1)
        count = results * n.sampling_ratio
        steps = t["div.Scalar"](t["add.Scalar"](t["arange"](count, dtype=kind(n.X)), 0.5), count)
        at = t["addcmul"](low, long, t["view"](steps, [1, -1]))
        return at, t["logical_and"](t["ge.Scalar"](at, -1), t["le.Scalar"](at, size))
    (y, in_y), (x, in_x) = (line(low, high, n.X.shape[d], results) for low, high, d, results in
                            ((top, bottom, 2, n.output_height), (left, right, 3, n.output_width)))
    sizes = [y.shape[0], y.shape[1], x.shape[1]]
    y, in_y = (t["expand"](t["unsqueeze"](v, 2), sizes) for v in (y, in_y))
    x, in_x = (t["expand"](t["unsqueeze"](v, 1), sizes) for v in (x, in_x))
    values = sampled(t, t["index_select"](n.X, 0, n.batch_indices), y, x, 1)
    values = t["masked_fill.Scalar"](values, t["logical_not"](t["unsqueeze"](t["logical_and"](in_y, in_x), 1)), 0)
    return t["avg_pool2d"](values, [n.sampling_ratio] * 2)


@row
def DeformConv(t, n):
    w = Window(n, n.X.shape[2:], shape(n.W)[2:])
    if w.dims != 2:
        raise Refused("no operator deform_conv in other than two dimensions")
    (batch, channels, *image), outs, parts = n.X.shape, n.W.shape[0], n.offset_group
    high, wide = w.results(image, False)
    taps = math.prod(w.kernel)
    offset = t["view"](n.offset, [batch, parts, taps, 2, high, wide])

    def line(d, along): # where the taps lie, without offsets
        at = (np.arange(w.kernel[d]) * w.dilations[d])[:, None] + np.arange([high, wide][d]) * w.strides[d] - w.begin[d]
        return array(np.broadcast_to(at.reshape(along), (*w.kernel, high, wide)).reshape(taps, high, wide), kind(n.X))
    places = [line(0, (w.kernel[0], 1, high, 1)), line(1, (1, w.kernel[1], 1, wide))]
    columns = []
    for g, x in enumerate(t["chunk"](n.X, parts, 1)):
        own = t["select.int"](offset, 1, g)
        y, x_at = (t["view"](t["add.Tensor"](t["select.int"](own, 2, d), places[d]), [batch, taps * high, wide]) for d in (0, 1))
        values = t["view"](sampled(t, x, y, x_at, 0), [batch, channels // parts, taps, high, wide])
        if n.mask is not None:
            mask = t["select.int"](t["view"](n.mask, [batch, parts, 1, taps, high, wide]), 1, g)
            values = t["mul.Tensor"](values, mask)
        columns.append(values)
    columns = t["view"](t["cat"](columns, 1), [batch, n.group, channels // n.group * taps, high * wide])
    out = t["matmul"](t["view"](n.W, [1, n.group, outs // n.group, -1]), columns)
    out = t["view"](out, [batch, outs, high, wide])
    return out if n.B is None else t["add.Tensor"](out, t["view"](n.B, [1, -1, 1, 1]))


# ---- 8 bits ----

def along(t, values, like, axis, block=0):
    """Scales or zero points as a tensor that broadcasts with what they belong to."""
    if block:
        values = t["repeat_interleave.self_int"](values, block, axis)
        return t["slice.Tensor"](values, axis, 0, like.shape[axis])
    return t["view"](values, [-1 if i == axis % rank(like) else 1 for i in range(rank(like))])


def is_one(values):
    return rank(values) == 0 or values.shape == (1,)


@row
def QuantizeLinear(t, n):
    to = kind(n.y_zero_point) if n.y_zero_point is not None else KINDS.get(n.output_dtype, "UINT8")
    if n.block_size: # no operator has blocks
        x = t["round"](t["div.Tensor"](n.x, along(t, n.y_scale, n.x, n.axis, n.block_size)))
        if n.y_zero_point is not None:
            x = t["add.Tensor"](x, along(t, n.y_zero_point, n.x, n.axis, n.block_size))
        return t["to.dtype"](t["clamp"](x, *RANGES[to]), to)
    if is_one(n.y_scale):
        x = t["div.Tensor"](n.x, n.y_scale) # quantize_per_tensor would multiply by 1 / y_scale, which rounds twice
        return t["quantize_per_tensor"](x, 1, number(n.y_zero_point, 0), *RANGES[to], to)
    zeros = t["zeros_like"](n.y_scale, dtype="INT64") if n.y_zero_point is None else t["to.dtype"](n.y_zero_point, "INT64")
    x = t["div.Tensor"](n.x, along(t, n.y_scale, n.x, n.axis))
    return t["quantize_per_channel"](x, t["ones_like"](n.y_scale), zeros, n.axis, *RANGES[to], to)


@row
def DequantizeLinear(t, n):
    source, to = kind(n.x), kind(n.x_scale)
    if n.block_size:
        x = t["to.dtype"](n.x, to)
        if n.x_zero_point is not None:
            x = t["sub.Tensor"](x, along(t, n.x_zero_point, n.x, n.axis, n.block_size))
        return t["mul.Tensor"](x, along(t, n.x_scale, n.x, n.axis, n.block_size))
    if is_one(n.x_scale):
        return t["dequantize_per_tensor"](n.x, number(n.x_scale), number(n.x_zero_point, 0), *RANGES[source], source, out_dtype=to)
    zeros = None if n.x_zero_point is None else t["to.dtype"](n.x_zero_point, "INT64")
    return t["dequantize_per_channel"](n.x, n.x_scale, zeros, n.axis, *RANGES[source], source, out_dtype=to)


@row
def QLinearConv(t, n):
    sums = ConvInteger(t, n)
    to = kind(n.y_zero_point)
    if n.B is not None:
        sums = t["add.Tensor"](sums, along(t, n.B, sums, 1))
    scale = t["div.Tensor"](t["mul.Tensor"](n.x_scale, n.w_scale), n.y_scale)
    scale = scale if is_one(scale) else along(t, scale, sums, 1)
    y = t["add.Scalar"](t["round"](t["mul.Tensor"](sums, scale)), number(n.y_zero_point))
    return t["to.dtype"](t["clamp"](y, *RANGES[to]), to)


# ---- recurrent ----

def gates(t, x, order, dim):
    """The parts of x in another order."""
    parts = t["chunk"](x, len(order), dim)
    return t["cat"]([parts[i] for i in order], dim)


class Layer:
    """A recurrent node's arguments: time first, gates in ATen's order, one list entry a direction."""

    def __init__(self, t, n, order, activations):
        self.t, self.hidden = t, n.R.shape[-1]
        self.x = t["transpose.int"](n.X, 0, 1) if n.layout else n.X
        self.steps, self.batch, _ = self.x.shape
        self.ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}[n.direction]
        if n.sequence_lens is not None and set(ints(n.sequence_lens)) != {self.steps}:
            raise Refused("sequences of different lengths")
        wanted = activations * len(self.ways)
        if n.clip is not None or n.input_forget or (n.activations or wanted)[:len(wanted)] != wanted:
            raise Refused("a cell with other activations, or a clip")
        self.layout = n.layout
        self.w, self.r = (t["unbind.int"](gates(t, v, order, 1)) for v in (n.W, n.R))
        zero = t["zeros"]([len(self.ways), 2 * len(order) * self.hidden], dtype=kind(n.X))
        halves = t["chunk"](zero if n.B is None else n.B, 2, 1)
        self.wb, self.rb = (t["unbind.int"](gates(t, v, order, 1)) for v in halves)

    def state(self, given):
        t = self.t
        if given is None:
            return t["zeros"]([len(self.ways), self.batch, self.hidden], dtype=kind(self.x))
        return t["transpose.int"](given, 0, 1) if self.layout else given

    def run(self, name, states):
        """ATen's operator: (all outputs, last states)."""
        t, both = self.t, len(self.ways) == 2
        x = t["flip"](self.x, [0]) if self.ways == [True] else self.x
        parameters = [v for one in zip(self.w, self.r, self.wb, self.rb) for v in one]
        y, *last = t[name](x, states if name == "lstm.input" else states[0], parameters, True, 1, 0, False, both, False)
        y = t["flip"](y, [0]) if self.ways == [True] else y
        y = t["view"](y, [self.steps, self.batch, len(self.ways), self.hidden])
        return self.shaped(t["permute"](y, [0, 2, 1, 3]), last)

    def run_steps(self, cell, states):
        """Another cell, step by step: cell(direction, x, states) gives the next states, the output first."""
        t, each, last = self.t, [], []
        for way, back in enumerate(self.ways):
            now, outputs = [t["select.int"](s, 0, way) for s in states], []
            for x in t["unbind.int"](t["flip"](self.x, [0]) if back else self.x):
                now = cell(way, x, now)
                outputs.append(now[0])
            each.append(t["stack"](outputs[::-1] if back else outputs))
            last.append(now)
        return self.shaped(t["stack"](each, 1), [t["stack"](list(s)) for s in zip(*last)])

    def shaped(self, y, last):
        t = self.t
        if self.layout:
            y, last = t["permute"](y, [2, 0, 1, 3]), [t["transpose.int"](s, 0, 1) for s in last]
        return y, *last

    def linear(self, x, w, b, first=0, end=4):
        """By the gates from first to end."""
        t, h = self.t, self.hidden
        rows = (0, first * h, end * h)
        return t["linear"](x, t["slice.Tensor"](w, *rows), t["slice.Tensor"](b, *rows))


@row
def RNN(t, n):
    relu = set(n.activations) == {"Relu"}
    layer = Layer(t, n, [0], ["Relu" if relu else "Tanh"])
    return layer.run("rnn_relu.input" if relu else "rnn_tanh.input", [layer.state(n.initial_h)])


@row
def GRU(t, n):
    layer = Layer(t, n, [1, 0, 2], ["Sigmoid", "Tanh"]) # z r h
    states = [layer.state(n.initial_h)]
    if n.linear_before_reset:
        return layer.run("gru.input", states)

    def cell(way, x, states):
        h, (w, r, wb, rb) = states[0], (v[way] for v in (layer.w, layer.r, layer.wb, layer.rb))
        both = t["sigmoid"](t["add.Tensor"](layer.linear(x, w, wb, 0, 2), layer.linear(h, r, rb, 0, 2)))
        reset, update = t["chunk"](both, 2, 1)
        new = t["tanh"](t["add.Tensor"](layer.linear(x, w, wb, 2), layer.linear(t["mul.Tensor"](reset, h), r, rb, 2)))
        return [t["lerp.Tensor"](new, h, update)]
    return layer.run_steps(cell, states)


@row
def LSTM(t, n):
    layer = Layer(t, n, [0, 2, 3, 1], ["Sigmoid", "Tanh", "Tanh"]) # i o f c
    states = [layer.state(n.initial_h), layer.state(n.initial_c)]
    if n.P is None:
        return layer.run("lstm.input", states)

    def cell(way, x, states):
        (h, c), (w, r, wb, rb) = states, (v[way] for v in (layer.w, layer.r, layer.wb, layer.rb))
        i, f, g, o = t["chunk"](t["add.Tensor"](layer.linear(x, w, wb), layer.linear(h, r, rb)), 4, 1)
        pi, po, pf = t["chunk"](t["select.int"](n.P, 0, way), 3)
        i, f = t["sigmoid"](t["addcmul"](i, pi, c)), t["sigmoid"](t["addcmul"](f, pf, c))
        c = t["addcmul"](t["mul.Tensor"](f, c), i, t["tanh"](g))
        return [t["mul.Tensor"](t["sigmoid"](t["addcmul"](o, po, c)), t["tanh"](c)), c]
    return layer.run_steps(cell, states)


# ---- attention ----

@row
def Attention(t, n):
    def heads(x, count):
        return x if rank(x) == 4 else t["transpose.int"](t["view"](x, [*x.shape[:2], count, -1]), 1, 2)

    def bias(allowed): # False is -inf
        return t["where.ScalarSelf"](t["logical_not"](allowed), -math.inf, t["zeros_like"](allowed, dtype=kind(n.Q)))

    q, k, v = heads(n.Q, n.q_num_heads), heads(n.K, n.kv_num_heads), heads(n.V, n.kv_num_heads)
    before = 0 if n.past_key is None else n.past_key.shape[2]
    if before:
        k, v = t["cat"]([n.past_key, k], 2), t["cat"]([n.past_value, v], 2)
    queries, keys = q.shape[2], k.shape[2]
    mask = None if n.attn_mask is None else bias(n.attn_mask) if kind(n.attn_mask) == "BOOL" else n.attn_mask
    if mask is not None and mask.shape[-1] < keys:
        mask = t["constant_pad_nd"](mask, [0, keys - mask.shape[-1]], -math.inf)
    key, query = t["arange"](keys, dtype="INT64"), t["view"](t["arange"](queries, dtype="INT64"), [-1, 1])
    lengths = None if n.nonpad_kv_seqlen is None else t["view"](n.nonpad_kv_seqlen, [-1, 1, 1, 1])
    offset = t["sub.Scalar"](lengths, queries) if lengths is not None and not before else array([before])
    ahead = t["sub.Tensor"](key, t["add.Tensor"](query, offset)) # of the query's own place
    masks = [] if mask is None else [mask]
    left, right = n.left_window_size, n.right_window_size
    if n.is_causal:
        masks.append(bias(t["le.Scalar"](ahead, 0)))
    if left is not None and left >= 0:
        masks.append(bias(t["ge.Scalar"](ahead, -left)))
    if right is not None and right >= 0:
        masks.append(bias(t["le.Scalar"](ahead, right)))
    if lengths is not None:
        masks.append(bias(t["lt.Tensor"](key, lengths)))
    mask = None
    for one in masks:
        mask = one if mask is None else t["add.Tensor"](mask, one)
    scale = n.scale or 1 / math.sqrt(q.shape[3])
    scores = None
    if n.softcap or len(n.outputs) > 3:
        out, scores = long_attention(t, n, q, k, v, mask, scale)
    else:
        out = t["scaled_dot_product_attention"](q, k, v, mask, 0, False, scale=scale, enable_gqa=q.shape[1] != k.shape[1])
    if rank(n.Q) == 3:
        out = t["reshape"](t["transpose.int"](out, 1, 2), [n.Q.shape[0], queries, -1])
    return out, k, v, scores


def long_attention(t, n, q, k, v, mask, scale):
    """What lies between, which one operator does not show."""
    if q.shape[1] != k.shape[1]:
        k, v = (t["repeat_interleave.self_int"](x, q.shape[1] // x.shape[1], 1) for x in (k, v))
    stages = [t["mul.Scalar"](t["matmul"](q, t["transpose.int"](k, 2, 3)), scale)]
    capped = t["mul.Scalar"](t["tanh"](t["div.Scalar"](stages[0], n.softcap)), n.softcap) if n.softcap else stages[0]
    masked = capped if mask is None else t["add.Tensor"](capped, mask)
    share = t["softmax.int"](masked, -1)
    if mask is not None: # who may see nothing sees nothing
        share = t["masked_fill.Scalar"](share, t["isneginf"](t["amax"](masked, [-1], True)), 0)
    stages += [capped, masked, share]
    return t["matmul"](share, v), stages[n.qk_matmul_output_mode]


@row
def CausalConvWithState(t, n):
    (batch, channels, _), before = n.input.shape, n.weight.shape[2] - 1
    past = t["zeros"]([batch, channels, before], dtype=kind(n.input)) if n.past_state is None else n.past_state
    x = t["cat"]([past, n.input], 2)
    y = t["conv1d"](x, n.weight, n.bias, groups=channels)
    y = y if n.activation == "none" else t["silu"](y)
    return y, t["slice.Tensor"](x, 2, x.shape[2] - before)


@row
def LinearAttention(t, n):
    """Step by step: the state fades, learns a key's value, and answers a query."""
    def heads(x, count):
        x = t["to.dtype"](t["view"](x, [*x.shape[:2], count, -1]), "FP32")
        return t["unbind.int"](t["unsqueeze"](x, -1), 1) # a step: batch, heads, size, 1

    h = n.kv_num_heads
    steps = [heads(n.query, n.q_num_heads), heads(n.key, h), heads(n.value, h)]
    fades = heads(n.decay, h) if n.decay is not None else [None] * n.query.shape[1]
    rates = heads(n.beta, n.beta.shape[2]) if n.beta is not None else fades
    wide, high = steps[1][0].shape[2], steps[2][0].shape[2]
    given = n.past_state
    state = t["zeros"]([n.query.shape[0], h, wide, high], dtype="FP32") if given is None else t["to.dtype"](given, "FP32")
    scale, outputs = n.scale or 1 / math.sqrt(wide), []
    for q, k, v, fade, rate in zip(*steps, fades, rates):
        if n.decay is not None:
            state = t["mul.Tensor"](state, t["exp"](fade))
        v = t["transpose.int"](v, 2, 3)
        if n.beta is not None:
            known = t["matmul"](t["transpose.int"](k, 2, 3), state)
            v = t["mul.Tensor"](t["sub.Tensor"](v, known), rate)
        state = t["addcmul"](state, k, v)
        read = t["repeat_interleave.self_int"](state, n.q_num_heads // h, 1)
        outputs.append(t["mul.Scalar"](t["matmul"](t["transpose.int"](q, 2, 3), read), scale))
    y = t["reshape"](t["stack"](outputs, 1), [*n.query.shape[:2], -1])
    return t["to.dtype"](y, kind(n.query)), t["to.dtype"](state, kind(n.query if given is None else given))


# ---- losses ----

def loss(t, n, x, target, weight):
    """Of logarithms: the target's own, negative; by weights, none where it is to be ignored."""
    ignored = None if n.ignore_index is None else t["eq.Scalar"](target, n.ignore_index)
    at = target if ignored is None else t["masked_fill.Scalar"](target, ignored, 0)
    own = t["neg"](t["squeeze.dim"](t["gather"](x, 1, t["to.dtype"](t["unsqueeze"](at, 1), "INT64")), 1))
    share = t["ones_like"](own) if weight is None else t["index.Tensor"](weight, [at])
    share = share if ignored is None else t["masked_fill.Scalar"](share, ignored, 0)
    own = t["mul.Tensor"](own, share)
    if n.reduction == "none":
        return own
    return t["sum"](own) if n.reduction == "sum" else t["div.Tensor"](t["sum"](own), t["sum"](share))


@row
def NegativeLogLikelihoodLoss(t, n):
    return loss(t, n, n.input, n.target, n.weight)


@row
def SoftmaxCrossEntropyLoss(t, n):
    x = t["log_softmax.int"](n.scores, 1)
    return loss(t, n, x, n.labels, n.weights), x


# ---- signals ----

def cosines(*factors):
    """A window: the sum of factors[i] * cos(2 pi i x), x from 0 to 1."""
    def window(t, n):
        count = number(n.size)
        x = t["mul.Scalar"](t["arange"](count, dtype="FP64"), 2 * math.pi / (count if n.periodic else count - 1))
        out = t["full"]([count], factors[0], dtype="FP64")
        for i, factor in enumerate(factors[1:], 1):
            out = t["add.Tensor"](out, t["cos"](t["mul.Scalar"](x, i)), factor)
        return t["to.dtype"](out, n.output_datatype)
    return window


ROWS |= {"HannWindow": cosines(0.5, -0.5), "HammingWindow": cosines(25 / 46, -21 / 46),
         "BlackmanWindow": cosines(0.42, -0.5, 0.08)}


def transformed(t, x, count, inverse=False, onesided=False):
    """The last dimension but one, real or complex by the last, by a product with sines and cosines."""
    size, parts = x.shape[-2:]
    half = inverse and onesided # the other half of the frequencies is as the first, conjugate
    x = t["constant_pad_nd"](x, [0, 0, 0, (count // 2 + 1 if half else count) - size])
    there = np.arange(x.shape[-2])
    turn = 2 * np.pi * np.outer(there, np.arange(count // 2 + 1 if onesided and not inverse else count)) / count
    turn *= 1 if inverse else -1
    share = 1 / count if inverse else 1
    if half:
        share = share * np.where((there == 0) | (2 * there == count), 1, 2)[:, None]
    cos, sin = np.cos(turn) * share, np.sin(turn) * share
    if half:
        matrix = np.stack([cos, -sin], 1)[..., None]
    else:
        matrix = np.stack([np.stack([cos, sin], -1), np.stack([-sin, cos], -1)], 1)[:, :parts]
    ends = matrix.shape[2:]
    flat = t["reshape"](x, [*x.shape[:-2], -1])
    out = t["matmul"](t["to.dtype"](flat, "FP64"), array(matrix.reshape(flat.shape[-1], -1), "FP64"))
    return t["to.dtype"](t["reshape"](out, [*x.shape[:-2], *ends]), kind(x))


@row
def DFT(t, n):
    axis = (n.axis if n.opset < 20 else number(n.axis, -2)) % rank(n.input)
    inverse, onesided = bool(n.inverse), bool(n.onesided)
    size = n.input.shape[axis]
    count = number(n.dft_length, 2 * (size - 1) if inverse and onesided else size)
    x = t["movedim.int"](n.input, axis, -2)
    return t["movedim.int"](transformed(t, x, count, inverse, onesided), -2, axis)


@row
def STFT(t, n):
    count = number(n.frame_length, n.window.shape[0] if n.window is not None else None)
    frames = t["unfold"](n.signal, 1, count, number(n.frame_step)) # batch, frames, parts, size
    frames = frames if n.window is None else t["mul.Tensor"](frames, n.window)
    return transformed(t, t["transpose.int"](frames, 2, 3), count, onesided=bool(n.onesided))


# ---- made from numbers ----

@row
def Constant(t, n):
    value = next(v for v in (n.value, n.value_float, n.value_floats, n.value_int, n.value_ints) if v is not None)
    if hasattr(value, "data_type"):
        return to_service(value)
    return array(value, "FP32" if n.value_float is not None or n.value_floats is not None else "INT64")


@row
def ConstantOfShape(t, n):
    value = array([0], "FP32") if n.value is None else to_service(n.value)
    return t["full"](n.input, number(value), dtype=kind(value))


@row
def EyeLike(t, n):
    x = t["zeros_like"](n.input, dtype=n.dtype)
    ones = t["ones_like"](t["diagonal"](x, n.k))
    return t["diagonal_scatter"](x, ones, n.k)


@row
def Dropout(t, n):
    if number(n.training_mode, 0) and number(n.ratio, 0.5):
        raise Refused("its numbers are random")
    return n.data, t["ones_like"](n.data, dtype="BOOL")


# ---- images ----

def places(n, size, count, scale, roi):
    """Where along a dimension the results lie, in the argument's elements."""
    x, mode, wide = np.arange(count, dtype=np.float64), n.coordinate_transformation_mode, scale * size
    if mode == "align_corners":
        return x * (size - 1) / (wide - 1) if wide != 1 else 0 * x
    if mode == "asymmetric":
        return x / scale
    if mode == "tf_crop_and_resize":
        start, end = roi[0] * (size - 1), roi[1] * (size - 1)
        return start + x * (end - start) / (count - 1) if count > 1 else 0 * x + (start + end) / 2
    if mode == "pytorch_half_pixel" and count == 1:
        return 0 * x
    shift = size / 2 * (1 - count / wide) if mode == "half_pixel_symmetric" else 0
    return shift + (x + 0.5) / scale - 0.5


def weights(n, x, scale):
    """Of a result at x: the elements that it is made of, and how much of each."""
    spread = min(scale, 1) if n.antialias else 1
    reach = (1 if n.mode == "linear" else 2) / spread
    at = np.arange(math.floor(x - reach) + 1, math.ceil(x + reach))
    d, a = np.abs((at - x) * spread), n.cubic_coeff_a
    if n.mode == "linear":
        share = np.maximum(1 - d, 0)
    else:
        share = np.where(d <= 1, ((a + 2) * d - (a + 3)) * d * d + 1, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a)
    return at, share / share.sum()


NEAREST = {"round_prefer_floor": lambda x: np.ceil(x - 0.5), "round_prefer_ceil": lambda x: np.floor(x + 0.5),
           "floor": np.floor, "ceil": np.ceil}


@row
def Resize(t, n):
    """Whatever its modes are: along each dimension a choice of elements, or a product with a matrix."""
    out, axes = n.X, [a % rank(n.X) for a in n.axes or range(rank(n.X))]
    old = [n.X.shape[a] for a in axes]
    scales = None if n.scales is None or not len(np.ravel(n.scales)) else [float(v) for v in np.ravel(n.scales)]
    if scales:
        sizes = [math.floor(size * s) for size, s in zip(old, scales)]
    else:
        sizes = ints(n.sizes)
        scales = [a / b for a, b in zip(sizes, old)]
        if n.keep_aspect_ratio_policy in ("not_larger", "not_smaller"):
            scales = [(min if n.keep_aspect_ratio_policy == "not_larger" else max)(scales)] * len(old)
            sizes = [math.floor(size * s + 0.5) for size, s in zip(old, scales)]
    roi = np.ravel(n.roi).tolist() if n.roi is not None and np.size(n.roi) else [0] * len(old) + [1] * len(old)
    for i, axis in enumerate(axes):
        bounds = (roi[i], roi[i + len(axes)])
        if scales[i] == 1 and sizes[i] == old[i] and bounds == (0, 1):
            continue
        x = places(n, old[i], sizes[i], scales[i], bounds)
        if n.mode == "nearest":
            at = NEAREST[n.nearest_mode](x).astype(np.int64)
            out = t["index_select"](out, axis, np.clip(at, 0, old[i] - 1))
        else:
            matrix = np.zeros((old[i], sizes[i]))
            for column, place in enumerate(x):
                at, share = weights(n, place, scales[i])
                if n.exclude_outside:
                    share = np.where((at < 0) | (at >= old[i]), 0, share)
                    share = share / share.sum()
                np.add.at(matrix[:, column], np.clip(at, 0, old[i] - 1), share)
            moved = t["matmul"](t["movedim.int"](out, axis, -1), array(matrix, kind(out)))
            out = t["movedim.int"](moved, -1, axis)
        if n.coordinate_transformation_mode == "tf_crop_and_resize":
            beyond = np.reshape((x < 0) | (x > old[i] - 1), [-1] + [1] * (rank(out) - axis - 1))
            out = t["masked_fill.Scalar"](out, beyond, n.extrapolation_value)
    return out


@row
def Upsample(t, n):
    n.values |= {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return Resize(t, n)


@row
def AffineGrid(t, n):
    """Places of a grid over -1 .. 1, and 1, by theta's transpose."""
    batch, _, *image = ints(n.size)
    ends = [1 if n.align_corners else 1 - 1 / s for s in image]
    lines = [t["linspace"](-e, e, s, dtype=kind(n.theta)) for e, s in zip(ends, image)]
    grid = t["meshgrid.indexing"](lines, indexing="ij")[::-1]
    base = t["view"](t["stack"]([*grid, t["ones_like"](grid[0])], -1), [1, -1, len(image) + 1])
    placed = t["matmul"](base, t["transpose.int"](n.theta, 1, 2))
    return t["view"](placed, [batch, *image, len(image)])
