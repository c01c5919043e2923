"""NumPy's word on pools, pads and what else looks through windows: {operator: (formula, calls,
result, scale, datatype)}, as tests/operators.py has them for the others."""
import itertools

import numpy as np

import linalg


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


# ---- pads, and resampling to the nearest element ----

def padded(self, pad, mode="constant", value=None):
    pairs = [(pad[i], pad[i + 1]) for i in range(0, len(pad), 2)][::-1]
    pairs = [(0, 0)] * (self.ndim - len(pairs)) + pairs
    for axis, (before, behind) in enumerate(pairs):
        keep = range(max(0, -before), self.shape[axis] - max(0, -behind))
        if mode == "circular":
            self, before, behind = self.take(keep, axis), max(0, before), max(0, behind)
        at = np.arange(-before, self.shape[axis] + behind)
        how = {"constant": at.clip(0, max(0, self.shape[axis] - 1)), "reflect": self.shape[axis] - 1 - abs(
                   self.shape[axis] - 1 - abs(at)), "replicate": at.clip(0, self.shape[axis] - 1),
               "circular": at % max(1, self.shape[axis])}[mode]
        inside = ((at >= 0) & (at < self.shape[axis])).reshape([-1] + [1] * (self.ndim - axis - 1))
        picked = self.take(how, axis) if self.size else np.zeros(self.shape[:axis] + at.shape + self.shape[axis + 1:])
        self = picked if mode != "constant" else np.where(inside, picked, np.asarray(value or 0).astype(self.dtype))
    return self


def continued(mode):
    return lambda self, padding: padded(self, padding, mode)


def resized(dims, shift, self, sizes, factors):
    shape = self.shape[-dims:]
    factors = [float(f) for f in factors or []]
    sizes = sizes or [int(n * f) for n, f in zip(shape, factors)]
    for d, (n, out) in enumerate(zip(shape, sizes)):
        scale = np.float32(1 / factors[d]) if factors else np.float32(n) / np.float32(out)
        at = np.floor((np.arange(out, dtype=np.float32) + np.float32(shift)) * scale).astype(int)
        self = self.take(at.clip(0, n - 1), self.ndim - dims + d)
    return self


def nearest(dims, shift):
    return lambda self, output_size, **scales: resized(dims, shift, self, output_size, [*scales.values()])


def nearest_vec(dims, shift):
    return lambda input, output_size=None, scale_factors=None: resized(dims, shift, input, output_size, scale_factors)


NAMED_SCALES = {1: ["scales"], 2: ["scales_h", "scales_w"], 3: ["scales_d", "scales_h", "scales_w"]}
PADS = [({"self": (5,)}, {"pad": [2, 3], "value": 2}), ({"self": (3, 4)}, {"pad": [-1, 1, 0, 2]}),
        ({"self": (2, 0, 3)}, {"pad": [0, 1, 1, 1], "value": -3}), ({"self": (4,)}, {"pad": []}),
        ({"self": (2, 3, 4)}, {"pad": [0, 0, 0, 0, 2, -1], "value": 1})]
MODES = [({"self": (3, 9)}, {"pad": [2, 1], "mode": "reflect"}), ({"self": (3, 4, 9)}, {"pad": [7, -2, 1, 9], "mode": "replicate"}),
         ({"self": (2, 3, 4)}, {"pad": [4, 2], "mode": "circular"}), ({"self": (2, 3)}, {"pad": [1, 2], "value": 0.5}),
         ({"self": (1, 2, 3, 4, 5)}, {"pad": [1, 2, -1, 3, 2, 1], "mode": "circular"}), ({"self": (2, 3)}, {"pad": [1, 2, 0, 1]})]
SIZES = {1: [(2, 3, 7)], 2: [(2, 3, 5, 9)], 3: [(1, 2, 3, 4, 5)]}


def pads():
    yield "constant_pad_nd", (lambda self, pad, value=0: padded(self, pad, "constant", value), PADS, same)
    yield "pad", (padded, MODES, same)
    for n in (1, 2, 3):
        calls = [({"self": (2, 3, 4, 5, 6)[-n - 1:]}, {"padding": [2, 1, 0, 2, 1, 1][:2 * n]}),
                 ({"self": (2, 3, 4, 5, 6)[-n - 2:]}, {"padding": [-1, 2, 1, -2, 1, 0][:2 * n]})]
        yield f"reflection_pad{n}d", (continued("reflect"), calls, same)
        yield f"replication_pad{n}d", (continued("replicate"), calls, same)
        for name, shift in (("upsample_nearest", 0), ("_upsample_nearest_exact", 0.5)):
            shape, sizes = SIZES[n][0], [13, 5, 10][-n:]
            yield f"{name}{n}d", (nearest(n, shift), [
                ({"self": shape}, {"output_size": sizes}),
                ({"self": shape}, {"output_size": [2 * s for s in shape[2:]], **dict.fromkeys(NAMED_SCALES[n], 2.1)})], same)
            yield f"{name}{n}d.vec", (nearest_vec(n, shift), [
                ({"input": shape}, {"output_size": sizes, "scale_factors": None}),
                ({"input": shape}, {"output_size": None, "scale_factors": [1.7, 2.0, 0.9][:n]})], same)


# ---- resampling; places are exact here, that FP32 and FP64 agree on them ----

def keys_curve(x, a):
    x = abs(x)
    return np.where(x < 1, (a + 2) * x**3 - (a + 3) * x**2 + 1,
                    np.where(x < 2, a * x**3 - 5 * a * x**2 + 8 * a * x - 4 * a, 0))


def weights(n, out, cubic, antialias, align_corners, factor):
    """The matrix that makes out elements of n."""
    scale = ((n - 1) / (out - 1) if out > 1 else 0) if align_corners else 1 / factor if factor else n / out
    matrix = np.zeros((out, n))
    for i in range(out):
        if antialias:
            wide = max(scale, 1)
            middle, reach = scale * (i + 0.5), wide * (2 if cubic else 1)
            at = np.arange(max(0, int(middle - reach + 0.5)), min(n, int(middle + reach + 0.5)))
            x = (at - middle + 0.5) / wide
            w = keys_curve(x, -0.5) if cubic else np.maximum(0, 1 - abs(x))
            matrix[i, at] = w / w.sum()
            continue
        x = scale * i if align_corners else scale * (i + 0.5) - 0.5
        x = x if cubic else max(0, x)
        for at in range(int(np.floor(x)) - 1, int(np.floor(x)) + 3):
            w = keys_curve(x - at, -0.75) if cubic else max(0, 1 - abs(x - at))
            matrix[i, min(max(at, 0), n - 1)] += w
    return matrix


def resampled(dims, cubic, antialias):
    def run(align_corners, self=None, input=None, output_size=None, scale_factors=None, **scales):
        x = self if input is None else input
        factors = [*scales.values()] or scale_factors or [None] * dims
        kind = x.dtype
        for d in reversed(range(dims)):
            n = x.shape[d + 2]
            out = output_size[d] if output_size else int(n * factors[d])
            matrix = weights(n, out, cubic, antialias, align_corners, factors[d])
            x = np.moveaxis(np.tensordot(matrix, x, (1, d + 2)), 0, d + 2)
            x = x if kind.kind == "f" else np.clip(np.floor(x + 0.5), 0, 255)
        return x
    return run


def magnitude(formula):
    """Of what sums could be: the result without signs is never far below."""
    return lambda **how: np.max(np.abs(formula(**how)), initial=0) * np.ones_like(formula(**how))


def resamplings():
    for name, dims, cubic, antialias in (("upsample_linear1d", 1, False, False), ("upsample_bilinear2d", 2, False, False),
                                         ("upsample_trilinear3d", 3, False, False), ("upsample_bicubic2d", 2, True, False),
                                         ("_upsample_bilinear2d_aa", 2, False, True), ("_upsample_bicubic2d_aa", 2, True, True)):
        shape = (2, 3, 5, 8, 9)[:2] + (3, 8, 5)[-dims:]
        sizes, corners = [[n * 2 for n in shape[2:]], [n * 2 - 1 for n in shape[2:]]]
        few = [n // 4 or 1 for n in (4, 8, 16)[-dims:]]
        formula = resampled(dims, cubic, antialias)
        how = (formula, [
            ({"self": shape}, {"output_size": sizes, "align_corners": False}),
            ({"self": shape}, {"output_size": corners, "align_corners": True}),
            ({"self": (1, 2, *(4, 8, 16)[-dims:])}, {"output_size": few, "align_corners": False})], same, magnitude(formula))
        yield name, how
        yield name + ".vec", (formula, [
            ({"input": shape}, {"output_size": sizes, "align_corners": False, "scale_factors": None}),
            ({"input": shape}, {"output_size": None, "align_corners": False, "scale_factors": [2.0] * dims})], same, magnitude(formula))


# ---- gradients of means, windows side by side ----

def mean_gradient(grad_output, self, kernel_size=None, stride=None, padding=0, ceil_mode=False,
                  count_include_pad=True, divisor_override=None):
    shape = self.shape[-2:]
    axes = ([adapted(n, out) for n, out in zip(shape, grad_output.shape[-2:])] if kernel_size is None
            else given(self, 2, kernel_size, stride, padding, 1, ceil_mode))
    out = np.zeros(self.shape)
    rows, cols = map(list, axes)
    for (y, row), (x, col) in itertools.product(enumerate(rows), enumerate(cols)):
        count = divisor_override or (row[1] * col[1] if count_include_pad else len(row[0]) * len(col[0]))
        out[(..., *np.ix_(row[0], col[0]))] += grad_output[..., y, x, None, None] / count
    return out


def places(size, kernel_size, dilation, padding, stride):
    """Of each place in a window and each window: where in the padded image it lies."""
    axes = []
    for n, k, d, p, s in zip(size, *(many(v, 2) for v in (kernel_size, dilation, padding, stride))):
        windows = (n + 2 * p - d * (k - 1) - 1) // s + 1
        axes.append(np.arange(k)[:, None] * d + np.arange(windows) * s)
    return axes


def im2col(self, kernel_size, dilation, padding, stride):
    (py, px), (rows, cols) = many(padding, 2), places(self.shape[-2:], kernel_size, dilation, padding, stride)
    image = np.pad(self, [(0, 0)] * (self.ndim - 2) + [(py, py), (px, px)])
    columns = image[..., rows[:, None, :, None], cols[None, :, None, :]]
    return columns.reshape(*self.shape[:-3], -1, rows.shape[1] * cols.shape[1])


def col2im(self, output_size, kernel_size, dilation, padding, stride):
    (py, px), (rows, cols) = many(padding, 2), places(output_size, kernel_size, dilation, padding, stride)
    parts = self.reshape(*self.shape[:-2], -1, len(rows), len(cols), rows.shape[1], cols.shape[1])
    image = np.zeros((*parts.shape[:-4], output_size[0] + 2 * py, output_size[1] + 2 * px))
    for i, j in itertools.product(range(len(rows)), range(len(cols))):
        image[(..., *np.ix_(rows[i], cols[j]))] += parts[..., i, j, :, :]
    return image[..., py:py + output_size[0], px:px + output_size[1]]


BACK = {"ceil_mode": False, "count_include_pad": True, "divisor_override": None}
STEPS = {"kernel_size": [2, 3], "dilation": [2, 1], "padding": [1, 2], "stride": [1, 2]}
OTHERS = {
    "avg_pool2d_backward": (mean_gradient, [
        ({"grad_output": (2, 3, 4, 5), "self": (2, 3, 8, 9)}, {"kernel_size": 3, "stride": 2, "padding": 1, **BACK}),
        ({"grad_output": (2, 3, 4), "self": (2, 6, 9)},
         {"kernel_size": [2, 4], "stride": [2, 3], "padding": [0, 2], **BACK, "ceil_mode": True, "count_include_pad": False}),
        ({"grad_output": (1, 7, 4), "self": (1, 8, 5)}, {"kernel_size": 2, "stride": 1, "padding": 0, **BACK, "divisor_override": 3})],
        same, mean_gradient),
    "_adaptive_avg_pool2d_backward": (mean_gradient, [
        ({"grad_output": (2, 3, 4), "self": (2, 7, 10)}, {}), ({"grad_output": (1, 2, 9, 1), "self": (1, 2, 4, 5)}, {})], same, mean_gradient),
    "im2col": (im2col, [({"self": (2, 3, 6, 7)}, STEPS), ({"self": (2, 5, 5)}, {"kernel_size": 3, "dilation": 1, "padding": 1, "stride": 1})], same),
    "col2im": (col2im, [({"self": (2, 12, 24)}, {"output_size": [6, 6], **STEPS}),
                        ({"self": (9, 25)}, {"output_size": [5, 5], "kernel_size": 3, "dilation": 1, "padding": 1, "stride": 1})], same, col2im),
}
# ---- images looked up at places ----

def looked_up(input, grid, interpolation_mode, padding_mode, align_corners):
    sizes, out = input.shape[2:], np.zeros((*input.shape[:2], *grid.shape[1:-1]))

    def inside(x, n):
        if padding_mode == 2:
            low, span = (0, n - 1) if align_corners else (-0.5, n)
            x = low + span - abs((x - low) % (2 * span) - span) if span else 0
        return min(max(x, 0), n - 1) if padding_mode else x

    def taps(x, n):
        x = (x + 1) / 2 * (n - 1) if align_corners else ((x + 1) * n - 1) / 2
        if interpolation_mode == 2:
            return [(inside(np.floor(x) + k, n), keys_curve(x - np.floor(x) - k, -0.75)) for k in range(-1, 3)]
        x = inside(x, n)
        return [(np.rint(x), 1)] if interpolation_mode else [(np.floor(x), 1 - x % 1), (np.floor(x) + 1, x % 1)]

    for at in np.ndindex(*grid.shape[:-1]):
        for several in itertools.product(*map(taps, grid[at][::-1], sizes)):
            place = tuple(int(p) for p, _ in several)
            if all(0 <= p < n for p, n in zip(place, sizes)):
                out[(at[0], slice(None), *at[1:])] += input[(at[0], slice(None), *place)] * np.prod([w for _, w in several])
    return out


def steepness(input, grid, **_):
    """Places are rounded in FP32, and between neighbours lies up to twice the largest element."""
    return np.full((*input.shape[:2], *grid.shape[1:-1]), 16 * np.max(input, initial=0) * (1 + np.max(grid, initial=0)))


def look_ups():
    def calls(shape, dims, modes):
        return [({"input": shape, "grid": (shape[0], *(4, 5, 3)[:dims], dims)},
                 {"interpolation_mode": mode, "padding_mode": padding, "align_corners": corners})
                for mode in modes for padding, corners in ((0, False), (1, True), (2, False))]
    planes, spaces = calls((2, 3, 6, 7), 2, (0, 2)), calls((1, 2, 3, 4, 5), 3, (0,))
    for name, every in (("grid_sampler", planes[:2] + spaces[:1]), ("grid_sampler_2d", planes), ("grid_sampler_3d", spaces)):
        yield name, (looked_up, every, same, steepness)


class Quarters(linalg.Matrix):
    """With which all steps are exact in any type."""
    by = staticmethod(lambda rng, shape: rng.integers(0, 4, shape) / 4)


def fractional(self, kernel_size, output_size, random_samples):
    def starts(d, sample):
        n, last = output_size[d], self.shape[d - 2] - kernel_size[d]
        return [int((i + sample) * (last / (n - 1))) - int(sample * (last / (n - 1))) for i in range(n - 1)] + [last]
    out = np.zeros((*self.shape[:-2], *output_size))
    places = np.zeros(out.shape, np.int64)
    samples = random_samples if self.ndim == 4 else random_samples[0]
    for at in np.ndindex(self.shape[:-2]):
        for (i, y), (j, x) in itertools.product(enumerate(starts(0, samples[at][1])), enumerate(starts(1, samples[at][0]))):
            window = self[at][y:y + kernel_size[0], x:x + kernel_size[1]]
            row, column = np.unravel_index(np.argmax(window), window.shape)
            out[(*at, i, j)], places[(*at, i, j)] = window.max(), (y + row) * self.shape[-1] + x + column
    return out, places


FRACTIONAL = [({"self": (2, 3, 9, 12), "random_samples": Quarters((2, 3, 2))}, {"kernel_size": [3, 2], "output_size": [5, 5]}),
              ({"self": (3, 12, 9), "random_samples": Quarters((1, 3, 2))}, {"kernel_size": [2, 1], "output_size": [5, 9]})]
OTHERS["fractional_max_pool2d"] = (fractional, FRACTIONAL, lambda name, _: (name, "INT64"))
TABLE = {**dict(look_ups()), **dict(pools()), **dict(pads()), **dict(resamplings()), **OTHERS}
