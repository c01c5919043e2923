"""NumPy's word on the reductions and scans: {operator: (formula, calls, result, scale, datatype)}, as
tests/operators.py has them for the others. Formulas get wide arrays: float64, int64 or bool."""
import numpy as np

FLOATS = ("FP16", "BF16", "FP32", "FP64")
ALL = [({"self": shape}, {}) for shape in ((131,), (2, 3, 5), (), (70, 3))]
EMPTY = [({"self": (0, 4)}, {})]
LINE = [({"self": (4, 9)}, {"dim": 1}), ({"self": (7, 3)}, {"dim": 0, "keepdim": True}), ({"self": (2, 70, 5)}, {"dim": -2}),
        ({"self": ()}, {"dim": -1})]
DIMS = [({"self": (4, 9)}, {"dim": [1]}), ({"self": (2, 3, 4, 5)}, {"dim": [1, -1]}), ({"self": (7, 3)}, {"dim": [0], "keepdim": True}),
        ({"self": (600, 3)}, {"dim": [0]}), ({"self": (3, 300)}, {"dim": [-1]})]
NOTHING = [({"self": (0, 3)}, {"dim": [0]})]
NORMS = [1, 2, 3, 0, -1.5, float("inf"), float("-inf")]


def same(name, _):
    return name


def floating(name, _):
    return name if name in FLOATS else "FP32"


def total(name, parameters):
    return parameters.get("dtype") or (name if name in FLOATS else "INT64")


def asked(name, parameters):
    return parameters.get("dtype") or name


def truth(name, _):
    return "UINT8" if name == "UINT8" else "BOOL"


def counted(*_):
    return "INT64"


def placed(name, _):
    return (name, "INT64")


def axis_of(self, dim, nothing=None):
    """NumPy's axis for dim; along none, or an empty list, it is all, or nothing."""
    if dim is None or self.ndim == 0:
        return None
    if isinstance(dim, int):
        return dim
    return tuple(dim) or nothing


def along(formula):
    def run(self, dim=None, keepdim=False, dtype=None):
        return formula(self, axis=axis_of(self, dim), keepdims=keepdim)
    return run


def whole(formula):
    """Of BOOL as of 0 and 1."""
    return lambda self, **how: formula(self.astype(np.int64) if self.dtype == bool else self, **how)


def mean(self, axis, keepdims):
    summed = np.sum(self.astype(np.float64), axis=axis, keepdims=keepdims)
    return summed / np.float64(self.size / max(1, summed.size))


def asks(formula):
    def run(self, dim=None, keepdim=False):
        return formula(self != 0, axis=axis_of(self, dim, ()), keepdims=keepdim)
    return run


def place(formula):
    """argmax and its like, which take one dimension or none."""
    def run(self, dim=None, keepdim=False):
        if self.ndim == 0:
            return np.zeros((), np.int64)
        found = formula(self, axis=dim)
        if keepdim:
            found = np.expand_dims(found, dim) if dim is not None else found.reshape([1] * self.ndim)
        return np.asarray(found)
    return run


def both(**formulas):
    return lambda self, **how: {name: formula(self, **how) for name, formula in formulas.items()}


def count(self, dim=None):
    return np.count_nonzero(self, axis=axis_of(self, dim))


def deviation(root):
    def run(self, dim=None, unbiased=True, correction=None, keepdim=False):
        axis, off = axis_of(self, dim), int(unbiased) if correction is None else correction
        n = self.size / max(1, np.mean(self, axis=axis).size)
        squares = np.sum((self - np.mean(self, axis=axis, keepdims=True)) ** 2, axis=axis, keepdims=keepdim)
        return np.sqrt(squares / max(0, n - off)) if root else squares / max(0, n - off)
    return run


def with_mean(root):
    def run(self, dim=None, keepdim=False, **how):
        return (deviation(root)(self, dim=dim, keepdim=keepdim, **how), mean(self, axis_of(self, dim), keepdim))
    return run


def of_both(formula):
    """Deviations of absolute values may be smaller than they are: their scale is the numbers'."""
    def run(self, **how):
        one = formula(self, **how)
        return tuple(np.full(np.shape(part), np.max(self, initial=1) ** 2) for part in one) if isinstance(one, tuple) else \
            np.full(np.shape(one), np.max(self, initial=1) ** 2)
    return run


def logsumexp(self, dim, keepdim=False):
    self, axis = self.astype(np.float64), axis_of(self, dim)
    if self.size == 0:
        return np.log(np.sum(np.exp(self), axis=axis, keepdims=keepdim))
    top = np.max(self, axis=axis, keepdims=True)
    rest = np.log(np.sum(np.exp(self - top), axis=axis, keepdims=True)) + top
    return rest if keepdim else rest.reshape(np.max(self, axis=axis).shape)


def norm(self, ord=2, dim=None, keepdim=False, dtype=None, p=None):
    power, axis, size = ord if p is None else p, axis_of(self, dim), np.abs(self)
    if power == 0:
        return np.sum(self != 0, axis=axis, keepdims=keepdim).astype(np.float64)
    if np.isinf(power):
        return (np.max if power > 0 else np.min)(size, axis=axis, keepdims=keepdim)
    return np.sum(size ** power, axis=axis, keepdims=keepdim) ** (1 / power)


# ---- scans ----

def scanned(formula):
    def run(self, dim, dtype=None):
        return formula(np.atleast_1d(self), axis=dim).reshape(self.shape)
    return run


def picked(best):
    """What np.maximum or minimum keeps, and where it stood last."""
    def values(self, axis):
        return best.accumulate(self, axis=axis)

    def places(self, axis):
        new = (self == values(self, axis)) | (self != self)
        at = np.moveaxis(np.broadcast_to(np.arange(self.shape[axis]), np.moveaxis(self, axis, -1).shape), -1, axis)
        return np.maximum.accumulate(np.where(new, at, 0), axis=axis)
    return both(values=scanned(values), indices=scanned(places))


def log_scan(self, axis):
    return np.logaddexp.accumulate(self, axis=axis)


summed = along(whole(np.sum))
SCANS = [({"self": (4, 9)}, {"dim": 1}), ({"self": (7, 3)}, {"dim": 0}), ({"self": (2, 9, 5)}, {"dim": -2}), ({"self": ()}, {"dim": 0}),
         ({"self": (2, 0)}, {"dim": 1})]
LONG = [({"self": (2, 700)}, {"dim": 1}), ({"self": (3, 600)}, {"dim": 0})]
TYPED = [({"self": (9,)}, {"dim": 0, "dtype": "FP64"})]
VARS = [({"self": (131,)}, {}), ({"self": (30, 4)}, {"unbiased": False})]
VARS_DIM = [(shapes, {**how, "unbiased": False}) for shapes, how in DIMS[:1]] + DIMS
VARS_BY = [(shapes, {**how, "correction": n}) for n, (shapes, how) in enumerate(DIMS)] + DIMS[1:3]


def deviations(name, formula, result=same):
    calls = {name: VARS, name + ".dim": VARS_DIM, name + ".correction": VARS_BY}
    return {op: (formula, those, result, of_both(formula)) for op, those in calls.items()}


TABLE = {
    "sum": (summed, ALL + EMPTY + [({"self": (33,)}, {"dtype": "FP64"})], total, summed),
    "sum.dim_IntList": (summed, DIMS + NOTHING, total, summed),
    "nansum": (summed, ALL + DIMS, total, summed),
    "mean": (along(mean), ALL + EMPTY + [({"self": (33,)}, {"dtype": "FP64"})], asked, along(mean)),
    "mean.dim": (along(mean), DIMS + NOTHING, asked, along(mean)),
    "prod": (along(whole(np.prod)), [({"self": (9,)}, {}), ({"self": (2, 4)}, {}), ({"self": (0, 3)}, {})], total),
    "prod.dim_int": (along(whole(np.prod)), LINE[:2], total),
    "amax": (along(np.max), ALL + DIMS, same), "amin": (along(np.min), ALL + DIMS, same),
    "aminmax": (both(min=along(np.min), max=along(np.max)), ALL + LINE, same),
    "max": (along(np.max), ALL, same), "min": (along(np.min), ALL, same),
    "max.dim": (both(values=along(np.max), indices=place(np.argmax)), LINE, placed), "min.dim": (both(values=along(np.min), indices=place(np.argmin)), LINE, placed),
    "argmax": (place(np.argmax), ALL + LINE, counted), "argmin": (place(np.argmin), ALL + LINE, counted),
    "any": (asks(np.any), ALL + EMPTY, truth), "any.dim": (asks(np.any), LINE, truth), "any.dims": (asks(np.any), DIMS + [({"self": (4, 9)}, {"dim": []})], truth),
    "all": (asks(np.all), ALL + EMPTY, truth), "all.dim": (asks(np.all), LINE, truth), "all.dims": (asks(np.all), DIMS + [({"self": (4, 9)}, {"dim": []})], truth),
    "xor_sum": (along(lambda self, axis, keepdims: np.bitwise_xor.reduce(self, axis=axis, keepdims=keepdims)), ALL + DIMS + NOTHING, same, "own", "INT64"),
    "count_nonzero": (count, ALL + [({"self": (4, 9)}, {"dim": 1})], counted),
    "count_nonzero.dim_IntList": (count, [(shapes, {"dim": how["dim"]}) for shapes, how in DIMS], counted),
    **deviations("var", deviation(False)), **deviations("std", deviation(True)),
    **deviations("var_mean", with_mean(False)), **deviations("std_mean", with_mean(True)),
    **{name: (logsumexp, DIMS + NOTHING, floating, lambda self, **how: logsumexp(self, **how) + 1) for name in ("logsumexp", "special_logsumexp")},
    "linalg_vector_norm": (norm, ALL + [(shapes, {**how, "ord": n}) for shapes, how in DIMS[:4] for n in NORMS] + [({"self": (9,)}, {"dtype": "FP64"})], asked, norm),
    "norm.Scalar": (norm, ALL + [({"self": (9,)}, {"p": 1})], same, norm),
    "norm.ScalarOpt_dim": (norm, [(shapes, {**how, "p": 3}) for shapes, how in DIMS] + [({"self": (4, 9)}, {"dim": [1], "p": None})], same, norm),
    "norm.ScalarOpt_dtype": (norm, [({"self": (4, 9)}, {"p": 2, "dtype": "FP64"})], asked, norm),
    "cumsum": (scanned(whole(np.cumsum)), SCANS + LONG + TYPED, total, scanned(whole(np.cumsum))),
    "cumprod": (scanned(whole(np.cumprod)), SCANS + TYPED, total), "logcumsumexp": (scanned(log_scan), SCANS + LONG, same),
    "cummax": (picked(np.maximum), SCANS + LONG, placed), "cummin": (picked(np.minimum), SCANS + LONG, placed),
    "norm.ScalarOpt_dim_dtype": (norm, [({"self": (4, 9)}, {"p": 1, "dim": [1], "keepdim": True, "dtype": "FP32"})], asked, norm),
}


def draw(rng, op, draw_shape):
    """One of its calls, on another shape and along other dimensions."""
    calls = TABLE[op][1]
    how = dict(calls[rng.integers(len(calls))][1])
    shape = draw_shape(rng, 1, 4, 14)
    dims = [int(d) - len(shape) * int(rng.integers(2)) for d in rng.permutation(len(shape))]
    if isinstance(how.get("dim"), int):
        how["dim"] = dims[0]
    elif "dim" in how:
        how["dim"] = dims[:rng.integers(1, len(dims) + 1)]
    return {"self": shape}, how
