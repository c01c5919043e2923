"""NumPy's word on pools, pads and what else looks through windows: {operator: (formula, calls,
result, scale, datatype)}, as tests/operators.py has them for the others."""
import itertools

import numpy as np


def same(name, _):
    return name


def many(value, dims):
    value = [value] if isinstance(value, int) else list(value)
    return value * dims if len(value) == 1 else value


def lowest(kind):
    return -np.inf if kind.kind == "f" else np.iinfo(kind).min


# ---- pools ----

def spans(size, kernel, stride, padding, dilation, ceil_mode):
    """The windows along one dimension: the places of each that lie inside, and how many there are
    with the padding."""
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = -(-room // stride) + 1 if ceil_mode else room // stride + 1
    if ceil_mode and (count - 1) * stride >= size + padding:
        count -= 1
    for i in range(count):
        begin = i * stride - padding
        places = range(begin, begin + dilation * kernel, dilation)
        yield [p for p in places if 0 <= p < size], sum(p < size + padding for p in places)


def adapted(size, out):
    for i in range(out):
        places = range(i * size // out, -(-(i + 1) * size // out))
        yield list(places), len(places)


def pool(self, dims, windows, formula, kind=None):
    """formula(elements, how many there are with the padding) of each window; elements are last."""
    windows = [list(w) for w in windows]
    out = np.zeros(self.shape[:-dims] + tuple(map(len, windows)), kind or self.dtype)
    for at in itertools.product(*(range(len(w)) for w in windows)):
        taps = [w[i] for w, i in zip(windows, at)]
        elements = self[(..., *np.ix_(*(t[0] for t in taps)))]
        out[(..., *at)] = formula(elements.reshape(*self.shape[:-dims], np.prod([len(t[0]) for t in taps])), taps)
    return out


def given(self, dims, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    stride = kernel_size if stride in (None, []) else stride
    every = (many(v, dims) for v in (kernel_size, stride, padding, dilation))
    return [spans(size, *how, ceil_mode) for size, *how in zip(self.shape[-dims:], *every)]


def largest(dims, with_places=False, adaptive=False):
    def place(self, elements, taps):
        sizes = self.shape[-dims:]
        places = np.ravel_multi_index(np.meshgrid(*(t[0] for t in taps), indexing="ij"), sizes).ravel()
        return places[np.argmax(elements, -1)]

    def run(self, **how):
        windows = [list(w) for w in (map(adapted, self.shape[-dims:], many(how["output_size"], dims)) if adaptive
                                     else given(self, dims, **how))]
        value = pool(self, dims, windows, lambda elements, _: elements.max(-1))
        if not with_places:
            return value
        return value, pool(self, dims, windows, lambda elements, taps: place(self, elements, taps), np.int64)
    return run


def mean(dims, adaptive=False):
    def run(self, count_include_pad=True, divisor_override=None, **how):
        def one(elements, taps):
            count = divisor_override or np.prod([t[1] if count_include_pad else len(t[0]) for t in taps])
            total = elements.sum(-1)
            return total / count if self.dtype.kind == "f" else np.trunc(total / count)
        windows = (map(adapted, self.shape[-dims:], many(how["output_size"], dims)) if adaptive
                   else given(self, dims, **how))
        return pool(self, dims, windows, one)
    return run


LINES = [({"self": (2, 3, 11)}, {"kernel_size": 3, "stride": 2, "padding": 1}), ({"self": (3, 20)}, {"kernel_size": 2}),
         ({"self": (2, 17)}, {"kernel_size": [5], "stride": [3], "padding": 2, "ceil_mode": True})]
PLANES = [({"self": (2, 3, 9, 20)}, {"kernel_size": 3, "stride": 2, "padding": 1}),
          ({"self": (2, 8, 7)}, {"kernel_size": [2, 3], "stride": 1, "padding": [1, 0]}),
          ({"self": (1, 9, 9)}, {"kernel_size": [3, 2], "stride": []}), # as when left out
          ({"self": (1, 2, 6, 11)}, {"kernel_size": [4, 5], "stride": [2, 3], "padding": 2, "ceil_mode": True}),
          ({"self": (3, 7, 7)}, {"kernel_size": 7}), ({"self": (0, 2, 4, 4)}, {"kernel_size": 2})]
CUBES = [({"self": (2, 2, 5, 6, 9)}, {"kernel_size": 3, "stride": 2, "padding": 1}),
         ({"self": (2, 4, 4, 5)}, {"kernel_size": [2, 1, 3], "stride": [1, 2, 3], "ceil_mode": True})]
DILATED = {1: [({"self": (2, 14)}, {"kernel_size": 3, "stride": 1, "padding": 2, "dilation": 2})],
           2: [({"self": (2, 9, 12)}, {"kernel_size": 3, "stride": 2, "dilation": [3, 2]})],
           3: [({"self": (2, 7, 5, 6)}, {"kernel_size": 2, "stride": 1, "dilation": [1, 3, 2]})]}
DIVIDED = [({"self": (2, 8, 9)}, {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False}),
           ({"self": (2, 5, 5)}, {"kernel_size": 2, "divisor_override": -3})]
GIVEN = {1: LINES, 2: PLANES, 3: CUBES}
ADAPTED = {1: [({"self": (2, 3, 11)}, {"output_size": 4}), ({"self": (3, 5)}, {"output_size": [8]})],
           2: [({"self": (2, 3, 7, 7)}, {"output_size": 1}), ({"self": (2, 12, 20)}, {"output_size": [5, 4]}),
               ({"self": (2, 3, 4)}, {"output_size": [0, 2]})],
           3: [({"self": (2, 2, 3, 4, 5)}, {"output_size": [2, 1, 3]})]}


def placed(name, _):
    return name, "INT64"


def pools():
    for n in (1, 2, 3):
        yield f"max_pool{n}d", (largest(n), GIVEN[n] + DILATED[n], same)
        yield f"max_pool{n}d_with_indices", (largest(n, True), GIVEN[n] + DILATED[n], placed)
        yield f"avg_pool{n}d", (mean(n), GIVEN[n] + (DIVIDED if n == 2 else []), same, mean(n))
        yield f"adaptive_max_pool{n}d", (largest(n, True, True), ADAPTED[n], placed)
        for name in [f"adaptive_avg_pool{n}d"] + [f"_adaptive_avg_pool{n}d"] * (n > 1):
            yield name, (mean(n, True), ADAPTED[n], same, mean(n, True))


TABLE = dict(pools())
