"""NumPy's word on the pointwise operators: {operator: (formula, calls, result, scale, datatype)}, as
tests/operators.py has them for the others. Formulas get wide arrays: float64, int64 or bool."""
import math
from fractions import Fraction

import numpy as np

ONE = [({"self": shape}, {}) for shape in ((131,), (2, 3, 5), (), (0, 4))]
PAIRS = [({"self": (37,), "other": (37,)}, {}), ({"self": (3, 20), "other": (20,)}, {}),
         ({"self": (5, 1), "other": (1, 7)}, {}), ({"self": (), "other": (9,)}, {}),
         ({"self": (5, 67), "other": (5, 1)}, {}), ({"self": (3, 1), "other": (2, 3, 67)}, {}),
         ({"self": (2, 0), "other": (1,)}, {})]
THREE = [({"self": (30,), "tensor1": (30,), "tensor2": (30,)}, {}),
         ({"self": (3, 1), "tensor1": (9,), "tensor2": (3, 9)}, {"value": 2})]
class Divisor(tuple):
    """The shape of what others are divided by: of whole numbers none is 0."""


RATIOS = [({"self": shapes["self"], "other": Divisor(shapes["other"])}, p) for shapes, p in PAIRS]
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


def round_decimals(self, decimals):
    """The product is rounded to FP32 where the elements are no wider."""
    tens = 10.0 ** abs(decimals)
    wide = np.float32 if np.array_equal(self.astype(np.float32), self) else np.float64
    return np.rint((self / tens).astype(wide)) * tens if decimals < 0 else np.rint((self * tens).astype(wide)).astype(np.float64) / tens


def softplus(self, beta=1, threshold=20):
    return np.where(self * beta > threshold, self, np.log1p(np.exp(self * beta)) / beta)


def elu(self, alpha=1, scale=1, input_scale=1):
    return np.where(self > 0, self * scale, np.expm1(self * input_scale) * alpha * scale)


def clip(low, high):
    def run(self, **how):
        return np.minimum(np.maximum(self, how.get(low, -2**62)), how.get(high, 2**62)).astype(self.dtype)
    return run


def quotient(self, other, rounding_mode=None):
    if rounding_mode is None:
        return self / np.float64(other)
    if self.dtype.kind == "f":
        return (np.floor if rounding_mode == "floor" else np.trunc)(self / other)
    rest = np.fmod(self, other)
    return self // other if rounding_mode == "floor" else (self - rest) // other


def of_quotient(name, parameters):
    return floating(name, parameters) if parameters["rounding_mode"] is None else name


def between(self, min=None, max=None):
    low = self if min is None else np.maximum(self, min)
    return low if max is None else np.minimum(low, max)


def prelu(self, weight):
    weight = weight.reshape(-1, *[1] * (self.ndim - 2)) if weight.size > 1 else weight.ravel()
    return np.where(self > 0, self, self * weight)


def xlogy(self, other):
    return np.where(np.asarray(self) == 0, 0.0, self * np.log(np.where(np.asarray(self) == 0, 1.0, other)))


def shifted(left):
    """Of INT32; from 32 on nothing is left, or the sign."""
    def run(self, other):
        a, b = np.asarray(self, np.int64), np.asarray(other, np.int64)
        far, held = (b < 0) | (b > 31), np.clip(b, 0, 31)
        return np.where(far, 0, a << held) if left else a >> np.where(far, 63, held)
    return run


def logit(self, eps=None):
    x = self if eps is None else np.clip(self, eps, 1 - eps)
    return np.where((x > 0.25) & (x < 0.75), np.log1p((2 * x - 1) / (1 - x)), np.log(x / (1 - x)))


def sinc(x):
    whole = np.rint(x)
    turned = np.sin(np.pi * (x - whole)) * np.where(np.fmod(whole, 2) != 0, -1, 1)
    return np.where(x == 0, 1, turned / (np.pi * np.where(x == 0, 1, x)))


def digamma(x):
    """By what it is of a larger number, whose series is good to all digits; the other way round below 0."""
    if x == 0 or (x < 0 and x == math.floor(x)):
        return math.nan if x else math.copysign(math.inf, -x)
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x - math.floor(x + 0.5)))
    less, z = [], x
    while z < 20:
        less.append(-1 / z)
        z += 1
    i = 1 / (z * z)
    tail = i * (1 / 12 - i * (1 / 120 - i * (1 / 252 - i * (1 / 240 - i / 132))))
    return math.fsum([math.log(z), -0.5 / z, -tail, *less])


def lgamma(x):
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def erfinv(x):
    """Newton's steps; near 1 towards the logarithm of what is left."""
    a = abs(x)
    if not a < 1:
        return math.copysign(math.inf, x) if a == 1 else math.nan
    y = math.sqrt(-math.log(1 - a)) if a > 0.5 else a
    for _ in range(40):
        slope = 2 / math.sqrt(math.pi) * math.exp(-y * y)
        y -= (math.log(1 - a) - math.log(math.erfc(y))) * math.erfc(y) / slope if a > 0.5 else (math.erf(y) - a) / slope
    return math.copysign(y, x)


def i1e(x):
    """The mean of exp(-|x|) sinh(x cos(t)) cos(t) over a circle."""
    c, a = np.cos(np.arange(1, 1024) * (math.pi / 2048)), abs(x)
    half = math.fsum(np.exp(a * (c - 1)) * -np.expm1(-2 * a * c) / 2 * c)
    return math.copysign((half - math.expm1(-2 * a) / 4) / 1024, x)


def bessel_j(n):
    """The mean of cos(n t - x sin(t)) over a circle."""
    t = np.arange(4096) * (math.pi / 2048)
    return lambda x: math.fsum(np.cos(n * t - x * np.sin(t))) / 4096


def bessel_y(n):
    """By the power series in whole numbers, whose terms are far larger than their sum."""
    def run(x):
        if not x > 0:
            return -math.inf if x == 0 else math.nan
        term, h, j, sum_ = Fraction(1), Fraction(0), Fraction(0), Fraction(0)
        for k in range(60):
            more = Fraction(1, k + 1)
            j, sum_ = j + term, sum_ + term * (2 * h + n * more)
            h, term = h + more, -term * Fraction(x) ** 2 / 4 / ((k + 1) * (k + 1 + n))
        half = x / 2 if n else 1
        gamma = 0.5772156649015329
        return 2 / math.pi * (math.log(x / 2) + gamma) * half * float(j) - half * float(sum_) / math.pi - n * 2 / (math.pi * x)
    return run


def bessel_k(n, scaled=False):
    """The integral of exp(-s) (s (1 + s / 2x)) ** (n - 1/2), by steps that are as large as s."""
    u = np.arange(-6, 8, 1 / 64)
    s = np.exp(u - np.exp(-u))

    def run(x):
        if not x > 0:
            return math.inf if x == 0 else math.nan
        whole = np.exp(-s) * (s * (1 + s / (2 * x))) ** (n - 0.5) * s * (1 + np.exp(-u))
        return math.sqrt(math.pi / (2 * x)) / math.gamma(n + 0.5) * math.fsum(whole) / 64 * (1 if scaled else math.exp(-x))
    return run


def erfcx(x):
    """By erfc, the square taken in two exact parts; from 5 on by the continued fraction."""
    most, y = round(x * 1024) / 1024 if abs(x) < 30 else x, 0
    if x < 5:
        return math.inf if x < -26.7 else math.exp(most * most) * math.exp((x - most) * (x + most)) * math.erfc(x)
    for k in range(40, 0, -1):
        y = k / 2 / (x + y)
    return 1 / ((x + y) * math.sqrt(math.pi))


def zeta(s, q):
    """The sum of (q + k) ** -s: twenty terms, and Euler's and Maclaurin's rest; below 0 term by term, where s is whole."""
    if s <= 1 or (q <= 0 and (q == math.floor(q) or s != math.floor(s))):
        return math.inf if s == 1 or (s > 1 and q == math.floor(q)) else math.nan
    terms = []
    while q < 20 + s:
        terms.append(q ** -s)
        q += 1
    i, rising = 1 / (q * q), s * q ** (-s - 1)
    rest = rising * (1 / 12 - i * (s + 1) * (s + 2) * (1 / 720 - i * (s + 3) * (s + 4) * (1 / 30240 - i * (s + 5) * (s + 6) / 1209600)))
    return math.fsum([*terms, q ** (1 - s) / (s - 1), q ** -s / 2, rest])


def polygamma(self, n):
    self = np.asarray(self, np.float64)
    return each(digamma)(self) if n == 0 else each(lambda x: (-1) ** (n + 1) * math.factorial(n) * zeta(n + 1, x))(self)


def zetas(self, other):
    return np.vectorize(zeta, otypes=[np.float64])(np.asarray(self, np.float64), np.asarray(other, np.float64))


def gamma_lower(a, x):
    """The power series, whose terms are all positive."""
    if not (a > 0 and x > 0):
        return math.nan if a < 0 or x < 0 or a == x else float(a == 0)
    terms, n = [1.0], a
    while terms[-1] > 1e-20:
        n += 1
        terms.append(terms[-1] * x / n)
    return math.fsum(terms) * math.exp(a * math.log(x) - x - math.lgamma(a + 1))


def gamma_upper(a, x):
    """The integral of exp(-x t) (1 + t) ** (a - 1), by steps that are as large as t."""
    if not (a > 0 and x > 0):
        return math.nan if a < 0 or x < 0 or a == x else float(x == 0)
    s = np.arange(-5, 16, 1 / 64)
    t = np.exp(s - np.exp(-s))
    whole = np.exp((a - 1) * np.log1p(t) - x * t) * t * (1 + np.exp(-s))
    return math.fsum(whole) / 64 * math.exp(a * math.log(x) - x - math.lgamma(a))


def xlog1py(self, other):
    return np.where(np.asarray(self) == 0, 0.0, self * np.log1p(np.where(np.asarray(self) == 0, 1.0, other)))


CURVES = {
    "lgamma": each(lgamma), "digamma": each(digamma), "erfinv": each(erfinv), "i0": np.i0, "special_i0e": lambda x: np.i0(x) * np.exp(-np.abs(x)),
    "special_i1": lambda x: each(i1e)(x) * np.exp(np.abs(x)), "special_i1e": each(i1e), "special_erfcx": each(erfcx),
    **{f"special_bessel_{kind}{n}": each(of(n)) for kind, of in (("j", bessel_j), ("y", bessel_y)) for n in (0, 1)},
    **{f"special_modified_bessel_k{n}": each(bessel_k(n)) for n in (0, 1)},
    "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan,
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "erfc": each(math.erfc), "reciprocal": lambda x: 1 / x, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "sinc": sinc,
}
REAL = { # of floating types alone
    "frac": lambda self: self - np.trunc(self), "mish": lambda self: self * np.tanh(np.log1p(np.exp(self))),
    "hardsigmoid": lambda self: np.clip(self + 3, 0, 6) / 6, "hardswish": lambda self: self * np.clip(self + 3, 0, 6) / 6,
    "log_sigmoid": lambda self: -np.logaddexp(0, -self), "selu": lambda self: 1.0507009873554805 * elu(self, 1.6732632423543772),
}
WHOLE = {
    "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "square": lambda x: x * x,
    "relu6": lambda x: np.clip(x, 0, 6), "positive": lambda x: x,
}
ASKS = {"isposinf": lambda self: self == np.inf, "isneginf": lambda self: self == -np.inf,
        "signbit": lambda self: self < 0, "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_not": lambda self: self == 0}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
LOGIC = {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}
BITS = {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
SHIFTS = {"bitwise_left_shift": shifted(True), "bitwise_right_shift": shifted(False)}
FRONT = [({"other": (40,)}, {"self": 3}), ({"other": (2, 9)}, {"self": 5})]
FRONT_RATIOS = [({"other": Divisor(shapes["other"])}, p) for shapes, p in FRONT]
MODES = ("trunc", "floor", None)
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
    **{f"bitwise_{name}.Scalar_Tensor": (two(f), FRONT, with_number, "own", "INT32") for name, f in BITS.items()},
    **{name + "." + how: (two(f), calls, same, "own", "INT32") for name, f in SHIFTS.items()
       for how, calls in (("Tensor", PAIRS), ("Tensor_Scalar", SCALAR), ("Scalar_Tensor", FRONT))},
    "div.Tensor_mode": (quotient, [(shapes, {"rounding_mode": m}) for m in MODES for shapes, _ in RATIOS], of_quotient),
    "div.Scalar_mode": (quotient, [(shapes, {**how, "rounding_mode": m}) for m in MODES for shapes, how in SCALAR], of_quotient),
    "copysign.Tensor": (lambda self, other: np.copysign(self.astype(np.float64), other.astype(np.float64)), PAIRS, floating),
    "copysign.Scalar": (lambda self, other: np.copysign(self.astype(np.float64), other), [({"self": (40,)}, {"other": -3})], floating),
    "gcd": (two(np.gcd), PAIRS, same, "own", "INT32"), "lcm": (two(np.lcm), PAIRS, same, "own", "INT32"),
    "isclose": (lambda self, other, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(self, other, rtol, atol, equal_nan),
                PAIRS + [({"self": (3, 40), "other": (40,)}, {"rtol": 0.5, "atol": 0.25, "equal_nan": True})], truth),
    "heaviside": (lambda self, values: np.heaviside(self.astype(np.float64), values), [({"self": (40,), "values": (40,)}, {}), ({"self": (3, 9), "values": (9,)}, {})], same),
    "nextafter": (lambda self, other: np.nextafter(self, other), PAIRS, same),
    "logit": (on_floats(logit), ONE + [({"self": (70,)}, {"eps": 0.125})], floating),
    "xlogy.Tensor": (xlogy, PAIRS, floating), "xlogy.Scalar_Other": (xlogy, SCALAR, floating), "xlogy.Scalar_Self": (xlogy, FRONT, floating),
    "addcdiv": (lambda self, tensor1, tensor2, value=1: self + value * tensor1 / tensor2, THREE, same,
                lambda self, tensor1, tensor2, value=1: self + value * tensor1 / tensor2),
    "lerp.Scalar": (lambda self, end, weight: self + weight * (end - self),
                    [({"self": (40,), "end": (40,)}, {"weight": 0.25}), ({"self": (3, 9), "end": (9,)}, {"weight": 0.75})], same,
                    lambda self, end, weight: self + weight * (end + self)),
    "lerp.Tensor": (lambda self, end, weight: self + weight * (end - self),
                    [({"self": (40,), "end": (40,), "weight": (40,)}, {}), ({"self": (3, 9), "end": (9,), "weight": (3, 1)}, {})],
                    same, lambda self, end, weight: self + 2 * (1 + weight) * (end + self)),
    "fill.Tensor": (lambda self, value: np.full(self.shape, value), [({"self": (3, 9), "value": ()}, {}), ({"self": (0,), "value": ()}, {})],
                    same),
    "logaddexp2": (two(np.logaddexp2), PAIRS, same, lambda self, other: self + other + 1),
    "clamp.Tensor": (between, [({"self": (40,), "min": (40,), "max": (40,)}, {}), ({"self": (3, 9), "min": (9,)}, {}), ({"self": (9,), "max": ()}, {})], same),
    "nan_to_num": (lambda self, nan=0, posinf=0, neginf=0: self, ONE + [({"self": (9,)}, {"nan": 1.5, "posinf": 2.5, "neginf": -3.0})], same),
    "hardshrink": (lambda self, lambd=0.5: np.where(np.abs(self) <= lambd, 0, self), ONE + [({"self": (70,)}, {"lambd": 1.5})], same),
    "softshrink": (lambda self, lambd=0.5: np.sign(self) * np.maximum(np.abs(self) - lambd, 0), ONE + [({"self": (70,)}, {"lambd": 1.5})], same),
    "celu": (lambda self, alpha=1: np.where(self > 0, self, alpha * np.expm1(self / alpha)), ONE + [({"self": (70,)}, {"alpha": 0.5})], same),
    "prelu": (prelu, [({"self": (3, 4, 5), "weight": (4,)}, {}), ({"self": (9,), "weight": (1,)}, {}), ({"self": (2, 9), "weight": (9,)}, {})], same),
    "_prelu_kernel": (lambda self, weight: np.where(self > 0, self, self * weight), [({"self": (3, 9), "weight": (3, 1)}, {})], same),
    "rrelu": (lambda self, lower=1 / 8, upper=1 / 3: np.where(self > 0, self, self * ((lower + upper) / 2)), ONE + [({"self": (70,)}, {"lower": 0.25, "upper": 0.5})], same),
    "remainder.Scalar_Tensor": (two(np.remainder), FRONT_RATIOS, same, lambda self, other: self + other),
    "where.Scalar": (choose, [({"condition": (3, 5)}, {"self": 2, "other": 3})], lambda *_: "INT64"),
    "masked_fill.Tensor": (lambda self, mask, value: np.where(mask, value, self), [({"self": (3, 9), "mask": (3, 1), "value": ()}, {})], same),
    "bitwise_not": (lambda self: np.invert(self), ONE, same, "own", "INT32"),
    "rsub.Tensor": (lambda self, other, alpha=1: other - alpha * self, PAIRS + [({"self": (4, 9), "other": (9,)}, {"alpha": 2})], same),
    "rsub.Scalar": (lambda self, other, alpha=1: other - alpha * self, SCALAR + [({"self": (4, 9)}, {"other": 1, "alpha": 2})], same),
    "fmax": (two(np.fmax), PAIRS, same), "fmin": (two(np.fmin), PAIRS, same),
    "max.other": (two(np.maximum), PAIRS, same), "min.other": (two(np.minimum), PAIRS, same),
    "atan2": (lambda self, other: np.arctan2(self.astype(np.float64), other), PAIRS, floating),
    "hypot": (two(np.hypot), PAIRS, same), "logaddexp": (two(np.logaddexp), PAIRS, same, lambda self, other: self + other + 1),
    "fmod.Tensor": (two(np.fmod), RATIOS, same), "fmod.Scalar": (two(np.fmod), SCALAR, same),
    "remainder.Tensor": (two(np.remainder), RATIOS, same, lambda self, other: self + other), "remainder.Scalar": (two(np.remainder), SCALAR, same, lambda self, other: self + other),
    "floor_divide": (two(np.floor_divide), RATIOS, same), "floor_divide.Scalar": (two(np.floor_divide), SCALAR, same),
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
    "polygamma": (polygamma, [({"self": (131,)}, {"n": 1}), ({"self": (2, 9)}, {"n": 2}), ({"self": (40,)}, {"n": 3}), ({"self": (17,)}, {"n": 0})], floating),
    **{f"special_scaled_modified_bessel_k{n}": (lambda x, n=n: each(bessel_k(n, True))(x.astype(np.float64)), [({"x": (131,)}, {}), ({"x": (2, 9)}, {})], floating)
       for n in (0, 1)},
    "special_polygamma": (polygamma, [({"self": (131,)}, {"n": 2})], floating),
    "special_zeta": (zetas, PAIRS, floating),
    "special_zeta.other_scalar": (zetas, SCALAR, floating),
    "special_zeta.self_scalar": (zetas, [({"other": (40,)}, {"self": 3}), ({"other": (2, 9)}, {"self": 2.5})], floating),
    **{name: (np.vectorize(gamma, otypes=[np.float64]), PAIRS, same) for gamma, names in (
        (gamma_lower, ("igamma", "special_gammainc")), (gamma_upper, ("igammac", "special_gammaincc"))) for name in names},
    "special_xlog1py": (xlog1py, PAIRS, floating),
    "special_xlog1py.other_scalar": (xlog1py, SCALAR, floating),
    "special_xlog1py.self_scalar": (xlog1py, [({"other": (40,)}, {"self": 3}), ({"other": (2, 9)}, {"self": 0})], floating),
    "round.decimals": (round_decimals, [({"self": (131,)}, {"decimals": 2}), ({"self": (2, 9)}, {"decimals": -1}), ({"self": (17,)}, {"decimals": 0})], same),
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

# Beside their roots Python's own lose as many digits as these are small.
for name in "lgamma", "digamma":
    TABLE[name] = (*TABLE[name][:3], 4)
for name in "igamma", "igammac", "special_gammainc", "special_gammaincc":
    TABLE[name] = (two(TABLE[name][0]), *TABLE[name][1:3], 4)
for name in [f"special_bessel_{kind}" for kind in ("j0", "j1", "y0", "y1")] + ["special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1"]:
    TABLE[name] = (*TABLE[name][:3], 4)
for name in "polygamma", "special_polygamma":
    TABLE[name] = (*TABLE[name][:3], 16)

# Other names of the same, here and in operators.py.
ALSO = {
    **{"arc" + name: "a" + name for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "tan2")},
    **{"special_" + name: name for name in ("expm1", "exp2", "log1p", "sinc", "erf", "erfc")},
    "special_expit": "sigmoid", "special_gammaln": "lgamma", "special_psi": "digamma",
    **{"special_" + name: name for name in ("digamma", "erfinv", "i0")}, "special_modified_bessel_i0": "i0", "special_modified_bessel_i1": "special_i1", "special_xlogy": "xlogy.Tensor",
    "negative": "neg", "absolute": "abs", "sgn": "sign", "fix": "trunc", "clip": "clamp", "clip.Tensor": "clamp.Tensor",
    **{f"{name}.{how}": f"{of}.{how}" for name, of in (
        ("multiply", "mul"), ("subtract", "sub"), ("divide", "div"), ("true_divide", "div"), ("not_equal", "ne"), ("less", "lt"),
        ("less_equal", "le"), ("greater", "gt"), ("greater_equal", "ge")) for how in ("Tensor", "Scalar")},
    "divide.Tensor_mode": "div.Tensor_mode", "divide.Scalar_mode": "div.Scalar_mode",
    "__lshift__.Tensor": "bitwise_left_shift.Tensor", "__lshift__.Scalar": "bitwise_left_shift.Tensor_Scalar",
    "__rshift__.Tensor": "bitwise_right_shift.Tensor", "__rshift__.Scalar": "bitwise_right_shift.Tensor_Scalar",
}
