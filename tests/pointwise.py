"""NumPy's word on the pointwise operators: {operator: (formula, calls, result, scale, datatype)}, as
tests/operators.py has them for the others. Formulas get wide arrays: float64, int64 or bool."""
import math

import numpy as np

ONE = [({"self": shape}, {}) for shape in ((131,), (2, 3, 5), (), (0, 4))]
PAIRS = [({"self": (37,), "other": (37,)}, {}), ({"self": (3, 20), "other": (20,)}, {}),
         ({"self": (5, 1), "other": (1, 7)}, {}), ({"self": (), "other": (9,)}, {}),
         ({"self": (2, 0), "other": (1,)}, {})]
THREE = [({"self": (30,), "tensor1": (30,), "tensor2": (30,)}, {}),
         ({"self": (3, 1), "tensor1": (9,), "tensor2": (3, 9)}, {"value": 2})]
SCALAR = [({"self": (40,)}, {"other": 3}), ({"self": (2, 9)}, {"other": 5})]
GRADIENT = [({"grad_output": (131,), "self": (131,)}, {}), ({"grad_output": (2, 9), "self": (2, 9)}, {})]
MASKS = {"condition", "mask"} # arguments that are BOOL whatever the others are


def same(name, _):
    return name


def floating(name, _):
    return name if name in ("FP16", "BF16", "FP32", "FP64") else "FP32"


def with_number(name, _):
    return "INT64" if name == "BOOL" else name


def truth(*_):
    return "BOOL"


def on_floats(formula):
    return lambda self, **how: formula(self.astype(np.float64), **how)


def each(formula):
    def run(self):
        return np.array([formula(v) for v in np.ravel(self)], np.float64).reshape(np.shape(self))
    return run


def power(self, exponent):
    if np.asarray(self).dtype.kind == "f" or np.asarray(exponent).dtype.kind == "f":
        return np.power(np.asarray(self, np.float64), np.asarray(exponent, np.float64))
    a, b = np.broadcast_arrays(np.asarray(self, np.int64), np.asarray(exponent, np.int64))
    whole = [(int(x) ** int(y) if y >= 0 else {1: 1, -1: -1 if y & 1 else 1}.get(int(x), 0)) for x, y in zip(a.ravel(), b.ravel())]
    wrapped = [(v + 2**63) % 2**64 - 2**63 for v in whole]
    return np.array(wrapped, np.int64).reshape(a.shape)


def ints(formula):
    """Of whole numbers, and of BOOL as 0 and 1."""
    return lambda self: formula(self if self.dtype.kind == "f" else self.astype(np.int64))


def two(formula):
    """NumPy's functions take no names."""
    return lambda self, other: formula(self, other)


def choose(condition, self, other):
    return np.where(condition, self, other)


def softplus(self, beta=1, threshold=20):
    return np.where(self * beta > threshold, self, np.log1p(np.exp(self * beta)) / beta)


def elu(self, alpha=1, scale=1, input_scale=1):
    return np.where(self > 0, self * scale, np.expm1(self * input_scale) * alpha * scale)


def clip(low, high):
    def run(self, **how):
        return np.minimum(np.maximum(self, how.get(low, -2**62)), how.get(high, 2**62)).astype(self.dtype)
    return run


CURVES = {
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erfc": each(math.erfc), "reciprocal": lambda x: 1 / x,
}
REAL = { # of floating types alone
    "frac": lambda self: self - np.trunc(self), "mish": lambda self: self * np.tanh(np.log1p(np.exp(self))),
    "hardsigmoid": lambda self: np.clip(self + 3, 0, 6) / 6, "hardswish": lambda self: self * np.clip(self + 3, 0, 6) / 6,
    "log_sigmoid": lambda self: -np.logaddexp(0, -self), "selu": lambda self: 1.0507009873554805 * elu(self, 1.6732632423543772),
}
WHOLE = {
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "square": lambda x: x * x,
    "relu6": lambda x: np.clip(x, 0, 6),
}
ASKS = {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": lambda self: self == 0}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
MASKED = [({"condition": (40,), "self": (40,), "other": (40,)}, {}), ({"condition": (3, 1), "self": (9,), "other": (3, 9)}, {})]

TABLE = {
    **{name: (on_floats(f), ONE, floating) for name, f in CURVES.items()},
    **{name: (f, ONE, same) for name, f in REAL.items()},
    **{name: (ints(f), ONE, same) for name, f in WHOLE.items()},
    **{name: (ints(f), ONE, truth) for name, f in ASKS.items()},
    **{name + ".Tensor": (two(f), PAIRS, truth) for name, f in COMPARISONS.items()},
    **{name + ".Scalar": (two(f), SCALAR, truth) for name, f in COMPARISONS.items()},
    **{name: (two(f), PAIRS, truth) for name, f in LOGIC.items()},
    **{how.format(name) + ".Tensor": (two(f), PAIRS, same, "own", "INT32") for name, f in BITS.items() for how in ("bitwise_{}", "__{}__")},
    **{how.format(name) + ".Scalar": (two(f), SCALAR, with_number, "own", "INT32") for name, f in BITS.items() for how in ("bitwise_{}", "__{}__")},
    "bitwise_not": (lambda self: np.invert(self), ONE, same, "own", "INT32"),
    "rsub.Tensor": (lambda self, other, alpha=1: other - alpha * self, PAIRS + [({"self": (4, 9), "other": (9,)}, {"alpha": 2})], same),
    "rsub.Scalar": (lambda self, other, alpha=1: other - alpha * self, SCALAR + [({"self": (4, 9)}, {"other": 1, "alpha": 2})], same),
    "fmax": (two(np.fmax), PAIRS, same), "fmin": (two(np.fmin), PAIRS, same),
    "max.other": (two(np.maximum), PAIRS, same), "min.other": (two(np.minimum), PAIRS, same),
    "atan2": (lambda self, other: np.arctan2(self.astype(np.float64), other), PAIRS, floating),
    "hypot": (two(np.hypot), PAIRS, same), "logaddexp": (two(np.logaddexp), PAIRS, same, lambda self, other: self + other + 1),
    "fmod.Tensor": (two(np.fmod), PAIRS, same), "fmod.Scalar": (two(np.fmod), SCALAR, same),
    "remainder.Tensor": (two(np.remainder), PAIRS, same, lambda self, other: self + other), "remainder.Scalar": (two(np.remainder), SCALAR, same, lambda self, other: self + other),
    "floor_divide": (two(np.floor_divide), PAIRS, same), "floor_divide.Scalar": (two(np.floor_divide), SCALAR, same),
    "pow.Tensor_Tensor": (power, [({"self": (37,), "exponent": (37,)}, {}), ({"self": (5, 1), "exponent": (1, 7)}, {})], same),
    "pow.Tensor_Scalar": (power, [({"self": (37,)}, {"exponent": n}) for n in (2, 3, 5)], same),
    "pow.Scalar": (lambda exponent, self: power(self, exponent), [({"exponent": (37,)}, {"self": 3})], same),
    "addcmul": (lambda self, tensor1, tensor2, value=1: self + value * tensor1 * tensor2, THREE, same,
                lambda self, tensor1, tensor2, value=1: self + value * tensor1 * tensor2),
    "clamp": (clip("min", "max"), [({"self": (131,)}, {"min": 1, "max": 3}), ({"self": (9,)}, {"max": 2}), ({"self": (2, 9)}, {"min": 1})], same),
    "hardtanh": (lambda self, min_val=-1, max_val=1: np.clip(self, min_val, max_val), [({"self": (131,)}, {"min_val": 1, "max_val": 6})], same),
    "clamp_min": (clip("min", "max"), [({"self": (131,)}, {"min": 1})], same), "clamp_max": (clip("min", "max"), [({"self": (131,)}, {"max": 1})], same),
    "clamp_min.Tensor": (lambda self, min: np.maximum(self, min), [({"self": (3, 9), "min": (9,)}, {})], same),
    "clamp_max.Tensor": (lambda self, max: np.minimum(self, max), [({"self": (3, 9), "max": (9,)}, {})], same),
    "threshold": (lambda self, threshold, value: np.where(self <= threshold, value, self), [({"self": (131,)}, {"threshold": 1, "value": 2})], same),
    "leaky_relu": (lambda self, negative_slope=0.01: np.where(self > 0, self, self * negative_slope),
                   [({"self": (131,)}, {}), ({"self": (2, 9)}, {"negative_slope": 0.25})], same),
    "elu": (elu, [({"self": (131,)}, {}), ({"self": (2, 9)}, {"alpha": 0.5, "scale": 2, "input_scale": 0.75})], same),
    "softplus": (softplus, [({"self": (131,)}, {}), ({"self": (2, 9)}, {"beta": 2, "threshold": 3})], same),
    "leaky_relu_backward": (lambda grad_output, self, negative_slope, self_is_result: np.where(self > 0, grad_output, grad_output * negative_slope),
                            [(shapes, {"negative_slope": 0.25, "self_is_result": False}) for shapes, _ in GRADIENT], same),
    "hardtanh_backward": (lambda grad_output, self, min_val, max_val: np.where((self <= min_val) | (self >= max_val), 0, grad_output),
                          [(shapes, {"min_val": -1, "max_val": 1}) for shapes, _ in GRADIENT], same),
    "where.self": (choose, MASKED, same),
    "where.ScalarOther": (choose, [({"condition": (3, 1), "self": (9,)}, {"other": 2})], with_number),
    "where.ScalarSelf": (choose, [({"condition": (3, 1), "other": (9,)}, {"self": 2})], with_number),
    "masked_fill.Scalar": (lambda self, mask, value: np.where(mask, value, self), [({"self": (3, 9), "mask": (3, 1)}, {"value": 2})], same),
}
