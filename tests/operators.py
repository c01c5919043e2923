"""NumPy as the judge of the operators: what each should give, in wider arithmetic than its own.

JUDGES has an entry for every overload of GET /v1/ops: the formula on wide arrays (float64, int64
or bool), and calls to try it on. A new operator gets one entry here, and every test that runs all
operators has it.
"""
import math

import numpy as np

import attention
import cells
import convolution
import copies
import factories
import gradients
import index
import linalg
import move
import norm
import optimizers
import order
import pointwise
import product
import quantizing
import recurrent
import reductions
import sequences
import softmax
import window
from service import BF16, NAMES, DATATYPES

INTEGERS = ("UINT8", "INT8", "INT16", "INT32", "INT64", "UINT16", "UINT32", "UINT64")
FLOATS = ("FP16", "BF16", "FP32", "FP64")
EPSILON = {"FP16": 2.0**-10, "BF16": 2.0**-7, "FP32": 2.0**-23, "FP64": 2.0**-52}
TINY = {"FP16": 2.0**-24, "BF16": 2.0**-133, "FP32": 2.0**-149, "FP64": 2.0**-1074}


def erf(x):
    return np.array([math.erf(v) for v in np.ravel(x)], np.float64).reshape(np.shape(x))


class Judge:
    """formula(arrays and parameters by name) -> the exact result, wide; several as a tuple,
    or by the names that the schema gives them.
    calls: ({argument: shape}, {parameter: value}) each.
    result: the output's datatype for the input's and the parameters; several as a tuple.
    scale: what the error bound is in units of: "own", each result; "all", the largest result; or
    a formula for it on the absolute values, where sums cancel.
    datatype: what judges from outside draw its tensors in."""

    def __init__(self, formula, calls, result, scale="own", datatype="FP32"):
        self.formula, self.calls, self.result, self.scale = formula, calls, result, scale
        self.datatype = datatype


# ---- datatypes of results ----

def same(name, _):
    return name


def floating(name, parameters):
    """Integers become FP32."""
    return parameters.get("dtype") or (name if name in FLOATS else "FP32")


def with_number(name, _):
    """A whole number makes an INT64 of a BOOL, and leaves all others."""
    return "INT64" if name == "BOOL" else name


# ---- formulas ----

def add(self, other, alpha=1):
    if self.dtype == bool and not np.isscalar(other):
        return self | other
    return self + alpha * other


def sub(self, other, alpha=1):
    return self - alpha * other


def gelu(self, approximate="none"):
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (self + 0.044715 * self**3)
        return self / 2 * (1 + np.tanh(inner))
    return self / 2 * (1 + erf(self / math.sqrt(2)))


def sigmoid(self):
    return 1 / (1 + np.exp(-self))


def layer_norm(input, normalized_shape, weight=1, bias=0, eps=1e-5):
    input = input.astype(np.float64)
    axes = tuple(range(-len(normalized_shape), 0))
    mean = input.mean(axis=axes, keepdims=True)
    return (input - mean) / np.sqrt(input.var(axis=axes, keepdims=True) + eps) * weight + bias


def native_layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    weight, bias = 1 if weight is None else weight, 0 if bias is None else bias
    axes = tuple(range(-len(normalized_shape), 0))
    return (layer_norm(input, normalized_shape, weight, bias, eps),
            input.mean(axis=axes, keepdims=True),
            1 / np.sqrt(input.var(axis=axes, keepdims=True) + eps))


def native_layer_norm_scale(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """On absolute values: means cancel, so theirs is the mean without signs."""
    out, mean, rstd = native_layer_norm(input, normalized_shape, weight, bias, eps)
    largest = 8 * np.max(1 if weight is None else weight, initial=0) + np.max(0 if bias is None else bias, initial=0)
    return np.full(out.shape, largest), mean, rstd


def matmul(self, other):
    return self @ other


ACTIVATIONS = {
    None: lambda x: x, "none": lambda x: x,
    "relu": lambda x: np.maximum(x, 0), "relu6": lambda x: np.clip(x, 0, 6),
    "leaky_relu": lambda x, a=0.01: np.where(x > 0, x, a * x),
    "hardtanh": lambda x, a=-1, b=1: np.clip(x, a, b),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1),
    "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "sigmoid": sigmoid, "tanh": np.tanh, "silu": lambda x: x * sigmoid(x),
    "swish": lambda x: x * sigmoid(x), "gelu": gelu, "gelu_tanh": lambda x: gelu(x, "tanh"),
}


def linear(input, weight, bias=0, activation=None):
    return ACTIVATIONS[activation](input @ weight.T + bias)


def dense(input, weight, bias=0, activation=None):
    return ACTIVATIONS[activation](input @ weight + bias)


def linear_pointwise(X, W, B=0, attr="none", alpha=None, beta=None, algorithm=None):
    if attr == "gelu" and algorithm == "tanh":
        attr = "gelu_tanh"
    numbers = [n for n in (alpha, beta) if n is not None]
    return ACTIVATIONS[attr](X @ W.T + B, *numbers)


def pair(value):
    return (value, value) if isinstance(value, int) else tuple(value)


def conv2d(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    image = input if input.ndim == 4 else input[None]
    (sy, sx), (py, px), (dy, dx) = pair(stride), pair(padding), pair(dilation)
    image = np.pad(image, ((0, 0), (0, 0), (py, py), (px, px)))
    n, channels, height, width = image.shape
    outs, per_group, ky, kx = weight.shape
    h, w = (height - dy * (ky - 1) - 1) // sy + 1, (width - dx * (kx - 1) - 1) // sx + 1
    out = np.zeros((n, outs, h, w))
    for o in range(outs):
        first = o // (outs // groups) * per_group
        for i in range(ky):
            for j in range(kx):
                window = image[:, first:first + per_group,
                               i * dy:i * dy + h * sy:sy, j * dx:j * dx + w * sx:sx]
                out[:, o] += np.einsum("nchw,c->nhw", window[:, :, :h, :w], weight[o, :, i, j])
    if bias is not None:
        out += bias[:, None, None]
    return out if input.ndim == 4 else out[0]


ACTIVATION_PARAMETERS = ("activation", "attr", "alpha", "beta", "algorithm", "approximate")

# ---- the table ----

PAIRS = pointwise.PAIRS
ALPHA = [({"self": (4, 9), "other": (9,)}, {"alpha": 2})]
ONE = [({"self": shape}, {}) for shape in ((131,), (2, 3, 5), (), (0, 4))]
MATRICES = [
    ({"self": (5, 7), "other": (7, 3)}, {}), ({"self": (17,), "other": (17,)}, {}),
    ({"self": (4, 9), "other": (9,)}, {}), ({"self": (9,), "other": (9, 4)}, {}),
    ({"self": (2, 3, 8), "other": (8, 5)}, {}), ({"self": (2, 1, 3, 4), "other": (5, 4, 6)}, {}),
    ({"self": (64, 33), "other": (33, 70)}, {}), ({"self": (0, 3), "other": (3, 2)}, {})]
LINEAR = [
    ({"input": (5, 9), "weight": (4, 9), "bias": (4,)}, {}),
    ({"input": (9,), "weight": (4, 9)}, {}),
    ({"input": (2, 3, 8), "weight": (6, 8)}, {}), ({"input": (40, 65), "weight": (33, 65)}, {})]
DENSE = [({**tensors, "weight": tensors["weight"][::-1]}, parameters) for tensors, parameters in LINEAR]
ACTIVATED = [({"input": (6, 16), "weight": (10, 16), "bias": (10,)}, {"activation": name})
             for name in ACTIVATIONS if name]
POINTWISE = [
    ({"X": (6, 16), "W": (10, 16), "B": (10,)}, {"attr": "leaky_relu", "alpha": 0.5}),
    ({"X": (6, 16), "W": (10, 16), "B": (10,)}, {"attr": "hardtanh", "alpha": -0.5, "beta": 2.5}),
    ({"X": (6, 16), "W": (10, 16)}, {"attr": "gelu", "algorithm": "tanh"}),
    ({"X": (6, 16), "W": (10, 16)}, {"attr": "relu"}), ({"X": (6, 16), "W": (10, 16)}, {})]
IMAGES = [
    ({"input": (2, 3, 9, 8), "weight": (4, 3, 3, 3), "bias": (4,)}, {"padding": 1}),
    ({"input": (3, 7, 6), "weight": (5, 3, 2, 3)}, {"stride": [2, 1], "padding": [0, 2]}),
    ({"input": (1, 4, 11, 11), "weight": (8, 2, 3, 3), "bias": (8,)},
     {"groups": 2, "dilation": 2, "stride": 2}),
    ({"input": (1, 6, 5, 5), "weight": (6, 1, 1, 1)}, {"groups": 6}),
    ({"input": (1, 24, 11, 12), "weight": (25, 24, 3, 3), "bias": (25,)}, {"padding": 1})]


def on_floats(formula):
    """The formula, given its first argument in float64 whatever it was."""
    return lambda self, **how: formula(self.astype(np.float64), **how)


def curve(formula, scale="own"):
    return Judge(on_floats(formula), ONE, floating, scale)


SCALAR = [({"self": (40,)}, {"other": 3}), ({"self": (2, 9)}, {"other": -2})]
SCALAR_ALPHA = SCALAR + [({"self": (2, 9)}, {"other": 1, "alpha": 2})]
NORM = [({"input": (5, 16), "weight": (16,), "bias": (16,)}, {"normalized_shape": [16]}),
        ({"input": (2, 3, 7)}, {"normalized_shape": [3, 7]}),
        ({"input": (4, 30), "weight": (30,)}, {"normalized_shape": [30], "eps": 0.1})]
NATIVE_NORM = [(shapes, {"weight": None, "bias": None, "eps": 1e-5, **how}) for shapes, how in NORM]
for shapes, how in NATIVE_NORM: # both are to be given, and may be null
    for name in shapes:
        how.pop(name, None)


JUDGES = {
    "add.Tensor": Judge(add, PAIRS + ALPHA, same),
    "add.Scalar": Judge(add, SCALAR_ALPHA, with_number),
    "mul.Tensor": Judge(lambda self, other: self * other, PAIRS, same),
    "mul.Scalar": Judge(lambda self, other: self * other, SCALAR, with_number),
    "sub.Tensor": Judge(sub, PAIRS + ALPHA, same),
    "sub.Scalar": Judge(sub, SCALAR_ALPHA, same),
    "div.Tensor": Judge(on_floats(lambda self, other: self / other), PAIRS, floating),
    "div.Scalar": Judge(on_floats(lambda self, other: self / other), SCALAR, floating),
    "maximum": Judge(lambda self, other: np.maximum(self, other), PAIRS, same),
    "minimum": Judge(lambda self, other: np.minimum(self, other), PAIRS, same),
    "neg": Judge(lambda self: -self, ONE, same),
    "abs": Judge(lambda self: np.abs(self), ONE, same),
    "relu": Judge(lambda self: np.maximum(self, 0), ONE, same),
    "sqrt": curve(np.sqrt),
    "rsqrt": curve(lambda self: 1 / np.sqrt(self)),
    "erf": curve(erf),
    "silu": curve(lambda self: self * sigmoid(self)),
    "sigmoid": curve(sigmoid),
    "tanh": curve(np.tanh),
    "exp": curve(np.exp),
    "gelu": Judge(on_floats(gelu), ONE + [({"self": (70,)}, {"approximate": "tanh"})], floating,
                  lambda self: self),
    "layer_norm": Judge(layer_norm, NORM, same, "all"),
    "native_layer_norm": Judge(native_layer_norm, NATIVE_NORM, same, native_layer_norm_scale),
    "matmul": Judge(matmul, MATRICES, same, matmul),
    "_int_mm": Judge(lambda self, mat2: self @ mat2,
                     [({"self": (5, 7), "mat2": (7, 3)}, {}), ({"self": (64, 33), "mat2": (33, 70)}, {}),
                      ({"self": (3, 0), "mat2": (0, 4)}, {})], lambda *_: "INT32", datatype="INT8"),
    "linear": Judge(linear, LINEAR, same, linear),
    "dense": Judge(dense, DENSE, same, dense),
    "linear_pointwise": Judge(linear_pointwise, POINTWISE, same, linear_pointwise),
    "conv2d": Judge(conv2d, IMAGES, same, conv2d),
    "threshold_backward": Judge(gradients.threshold, gradients.THRESHOLD, same),
    "sigmoid_backward": Judge(gradients.sigmoid, gradients.ofs("output"), same),
    "tanh_backward": Judge(gradients.tanh, gradients.ofs("output"), same),
    "silu_backward": Judge(gradients.silu, gradients.ofs("self"), same, gradients.unit_slope),
    "gelu_backward": Judge(gradients.gelu, gradients.GELU, same, gradients.unit_slope),
    "native_layer_norm_backward": Judge(
        gradients.layer_norm, gradients.NORM, same, gradients.layer_norm_scale),
    "linear_backward": Judge(gradients.linear, gradients.LINEAR, same, gradients.linear),
    "convolution_backward": Judge(
        gradients.convolution, gradients.IMAGES, same, gradients.convolution),
    **{name: Judge(*row) for module in (
        attention,
        cells,
        convolution,
        copies,
        factories,
        index,
        linalg,
        move,
        norm,
        optimizers,
        order,
        pointwise,
        product,
        quantizing,
        recurrent,
        reductions,
        sequences,
        softmax,
        window,
    ) for name, row in module.TABLE.items()},
}
JUDGES |= {name: JUDGES[of] for name, of in pointwise.ALSO.items()}


# ---- making and comparing tensors ----

def draw(rng, name, shape):
    """A tensor of datatype name whose values are easy on no formula: around 0, of both signs."""
    if name == "BOOL":
        return np.asarray(rng.random(shape) < 0.5)
    if name in INTEGERS:
        low = 0 if name.startswith("U") else -9
        return np.asarray(rng.integers(low, 10, shape), DATATYPES[name])
    values = np.asarray(3 * rng.standard_normal(shape))
    return BF16(values) if name == "BF16" else values.astype(DATATYPES[name])


def draw_all(rng, datatype, shapes):
    """The tensors of a call; those that choose are BOOL."""
    drawn = {name: shape.draw(rng) if isinstance(shape, index.Below) else
             draw(rng, "BOOL" if name in pointwise.MASKS else datatype, shape) for name, shape in shapes.items()}
    drawn |= {name: np.where(drawn[name] == 0, 1, drawn[name]).astype(drawn[name].dtype) for name, shape in shapes.items()
              if isinstance(shape, pointwise.Divisor) and datatype in INTEGERS}
    drawn |= {name: draw_matrices(rng, datatype, shape) for name, shape in shapes.items() if isinstance(shape, linalg.Matrix)}
    drawn |= {name: without_signs(drawn[name]) for name, shape in shapes.items() if isinstance(shape, optimizers.Positive)}
    return drawn | {name: in_order(drawn[name]) for name, shape in shapes.items() if isinstance(shape, order.Sorted)}


def draw_matrices(rng, datatype, shape):
    if datatype != "BF16":
        return shape.draw(rng, DATATYPES[datatype])
    values = shape.draw(rng, np.float64)
    return values if shape.kind else BF16(values)


def without_signs(tensor):
    return BF16(np.abs(tensor.values)) if isinstance(tensor, BF16) else np.abs(tensor)


def in_order(tensor):
    return BF16(np.sort(tensor.values)) if isinstance(tensor, BF16) else np.sort(tensor)


def wide(tensor):
    if isinstance(tensor, BF16):
        return tensor.values.astype(np.float64)
    kind = tensor.dtype.kind
    return tensor if kind == "b" else tensor.astype(np.float64 if kind == "f" else np.int64)


def narrow(name, values):
    """Values as datatype name, as numbers to compare with: rounded, or wrapped."""
    if name == "BF16":
        return BF16(values).values.astype(np.float64)
    values = np.asarray(values)
    if name in FLOATS:
        return values.astype(DATATYPES[name]).astype(np.float64)
    return values.astype(bool if name == "BOOL" else np.int64).astype(DATATYPES[name])


def compare(tensor, name, exact, scale, units):
    """None when tensor is exact to units in the last place of scale, else what is wrong."""
    got_name = "BF16" if isinstance(tensor, BF16) else NAMES[tensor.dtype]
    if got_name != name:
        return f"is {got_name}; {name} is right"
    if tensor.shape != np.shape(exact):
        return f"has shape {tensor.shape}; {np.shape(exact)} is right"
    want, got = narrow(name, exact), wide(tensor)
    if name not in FLOATS:
        same = np.array_equal(tensor, want)
        return None if same else f"differs: {tensor.ravel()[:8]}; {want.ravel()[:8]} is right"
    special = ~np.isfinite(want)
    if not np.array_equal(got[special], want[special], equal_nan=True):
        return f"NaN and infinities differ: {got[special][:8]}; {want[special][:8]} is right"
    fine = ~special
    bound = units * (EPSILON[name] * np.broadcast_to(scale, want.shape)[fine] + TINY[name])
    off = np.abs(got[fine] - np.asarray(exact, np.float64)[fine])
    if off.size and not (off <= bound).all():
        worst = np.argmax(off - bound)
        return (f"is {got[fine][worst]!r} at {worst}; {np.asarray(exact)[fine][worst]!r} is right "
                f"to {bound[worst]:.3g}")
    return None


def named(results):
    """Results by the names that a reply gives them, those of a schema that has its own as a dict."""
    if isinstance(results, dict):
        return results
    if isinstance(results, (tuple, list)): # a list has its names even where it is of one
        return {f"out{i}": one for i, one in enumerate(results)}
    return {"out": results}


def gather(tensors):
    """Elements of a list, called NAME.0, NAME.1, ..., as one argument NAME; one that is not there is None."""
    found = {}
    for name, tensor in tensors.items():
        name, dot, place = name.partition(".")
        if not dot:
            found[name] = tensor
            continue
        several = found.setdefault(name, [])
        several += [None] * (int(place) - len(several)) + [tensor]
    return found


def magnitude(value):
    """Of an array, or of each of a list's."""
    return [None if one is None else np.abs(one) for one in value] if isinstance(value, list) else np.abs(value)


def exact_and_scale(judged, tensors, parameters):
    """The exact results by name, wide, and what the units of their error bounds are relative to."""
    with np.errstate(all="ignore"):
        arrays = gather({key: wide(value) for key, value in tensors.items()})
        exact = named(judged.formula(**arrays, **parameters))
        if judged.scale == "own":
            return exact, {key: np.abs(np.asarray(one, np.float64)) for key, one in exact.items()}
        if isinstance(judged.scale, int): # so many units of the largest, or of 1
            return exact, {key: judged.scale * np.max(np.abs(one), initial=1, where=np.isfinite(one)) for key, one in exact.items()}
        if judged.scale == "all":
            return exact, {key: np.max(np.abs(one), initial=0) for key, one in exact.items()}
        # activations come after the sum, and none is much steeper than 1
        absolute = {key: magnitude(value) for key, value in arrays.items()}
        rest = {k: v for k, v in parameters.items() if k not in ACTIVATION_PARAMETERS}
        scale = named(judged.scale(**absolute, **rest))
        return exact, {key: np.abs(one) for key, one in scale.items()}


def each_of(name, results):
    """The datatype of each result, where they share one or each has its own."""
    return name if isinstance(name, tuple) else (name,) * len(results)


def compare_all(outputs, name, exact, scale, units):
    """compare() for each result of a reply, by its name."""
    if sorted(outputs) != sorted(exact):
        return f"has results {sorted(outputs)}; {sorted(exact)} are right"
    for (key, one), datatype in zip(exact.items(), each_of(name, exact)):
        wrong = compare(outputs[key], datatype, one, scale[key], units)
        if wrong:
            return f"{key}: {wrong}"
    return None


def judge(judged, tensors, parameters, outputs, name, ulp, known=None):
    """compare_all() for one call of an operator whose served bound against its reference is ulp; the
    reference itself may round each step, which is the one unit more; and what is exact here is
    FP64, which for FP64 rounds as often as what it judges. Narrow results are rounded from FP32,
    whose units a bound of many counts. known: what exact_and_scale() has given for the call already."""
    exact, scale = known or exact_and_scale(judged, tensors, parameters)
    more = 16 if name == "FP64" else 1
    ulp = min(ulp, 8) if EPSILON.get(name, 0) > EPSILON["FP32"] else ulp
    return compare_all(outputs, judged.result(name, parameters), exact, scale, ulp + more)
