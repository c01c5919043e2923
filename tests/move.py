"""NumPy as the judge of moves: operators.py has more. Elements arrive as they were, so results are
compared exactly. A list of tensors has its elements' shapes under NAME.0, NAME.1, ..."""
import numpy as np

from index import Below


def same(name, _):
    return name


def view(self, size=None, shape=None):
    return self.reshape(size if shape is None else shape)


def flatten(self, start_dim=0, end_dim=-1):
    if not self.ndim:
        return self.reshape(1)
    start, end = start_dim % self.ndim, end_dim % self.ndim
    return self.reshape(*self.shape[:start], int(np.prod(self.shape[start:end + 1])), *self.shape[end + 1:])


def unflatten(self, dim, sizes):
    dim %= self.ndim
    return self.reshape(*self.shape[:dim], *sizes, *self.shape[dim + 1:])


def squeeze(self, dim=None):
    dims = range(self.ndim) if dim is None else [d % self.ndim for d in np.atleast_1d(dim)] if self.ndim else []
    return self.squeeze(tuple(d for d in dims if self.shape[d] == 1))


def part(self, dim, which):
    index = [slice(None)] * self.ndim
    index[dim] = which
    return self[tuple(index)]


def narrow(self, dim, start, length):
    start %= self.shape[dim] or 1
    return part(self, dim, slice(start, start + length))


def unfold(self, dimension, size, step):
    whole = self if self.ndim else self.reshape(1)
    dimension %= whole.ndim
    windows = part(np.lib.stride_tricks.sliding_window_view(whole, size, axis=dimension), dimension, slice(None, None, step))
    return windows if self.ndim else windows[0]


def as_strided(self, size, stride, storage_offset=0):
    flat = np.ascontiguousarray(self).reshape(-1)[storage_offset or 0:]
    return np.lib.stride_tricks.as_strided(flat, size, [n * self.itemsize for n in stride])


def split(self, sizes, dim=0):
    if np.isscalar(sizes):
        sizes = [min(sizes, self.shape[dim] - at) for at in range(0, self.shape[dim], sizes)]
    ends = np.cumsum([0, *sizes])
    return [part(self, dim, slice(a, b)) for a, b in zip(ends, ends[1:])]


def expand(self, size, implicit=False):
    own = (1,) * (len(size) - self.ndim) + self.shape
    return np.broadcast_to(self, [n if n >= 0 else m for n, m in zip(size, own)])


def tile(self, dims):
    return np.tile(self, dims)


def roll(self, shifts, dims=()):
    return np.roll(self, shifts, tuple(dims) if dims else None) if dims else np.roll(self, shifts[0])


def pixel_shuffle(self, upscale_factor):
    r, (c, h, w) = upscale_factor, self.shape[-3:]
    out = self.reshape(*self.shape[:-3], c // r**2, r, r, h, w)
    order = [*range(out.ndim - 5), *(out.ndim - 5 + k for k in (0, 3, 1, 4, 2))]
    return out.transpose(order).reshape(*self.shape[:-3], c // r**2, h * r, w * r)


def pixel_unshuffle(self, downscale_factor):
    r, (c, h, w) = downscale_factor, self.shape[-3:]
    out = self.reshape(*self.shape[:-3], c, h // r, r, w // r, r)
    order = [*range(out.ndim - 5), *(out.ndim - 5 + k for k in (0, 2, 4, 1, 3))]
    return out.transpose(order).reshape(*self.shape[:-3], c * r**2, h // r, w // r)


def channel_shuffle(self, groups):
    n, channels, *rest = self.shape
    return self.reshape(n, groups, channels // groups, *rest).swapaxes(1, 2).reshape(self.shape)


def on(shape, *parameters):
    return [({"self": shape}, dict(how)) for how in parameters]


def listed(name, *shapes):
    return {f"{name}.{i}": shape for i, shape in enumerate(shapes)}


SHAPES = on((2, 6), {"size": [3, 4]}) + on((2, 3, 5), {"size": [-1, 10]}) + on((), {"size": [1, 1]})
CUTS = on((7, 4), {"dim": 0}) + on((3, 6), {"dim": -1})
TABLE = {
    **{name: (lambda self: self, on((4, 9), {}) + on((), {}), same) for name in ("alias", "detach")},
    **{name: (view, SHAPES, same) for name in ("view", "_unsafe_view")},
    "view.dtype": (lambda self, dtype: self.view({"UINT64": np.uint64, "FP64": np.float64}[dtype]),
                   [({"self": Below((3, 7), 2**62, low)}, {"dtype": dtype}) for low, dtype in ((-2**62, "UINT64"), (2**61, "FP64"))],
                   lambda _, parameters: parameters["dtype"]),
    "reshape": (view, on((2, 6), {"shape": [4, -1]}) + on((5,), {"shape": [1, 5, 1]}), same),
    **{name: (lambda self, other: self.reshape(other.shape), [({"self": (2, 6), "other": (3, 4)}, {})], same)
       for name in ("view_as", "reshape_as")},
    "flatten.using_ints": (flatten, on((2, 3, 4), {}, {"start_dim": 1}, {"start_dim": -2, "end_dim": 1}) + on((), {}), same),
    "unflatten.int": (unflatten, on((4, 6), {"dim": 1, "sizes": [2, 3]}, {"dim": -2, "sizes": [-1, 2, 1]}), same),
    "squeeze": (squeeze, on((1, 3, 1), {}) + on((2,), {}), same),
    "squeeze.dim": (squeeze, on((1, 3, 1), {"dim": 0}, {"dim": 1}, {"dim": -1}), same),
    "squeeze.dims": (squeeze, on((1, 3, 1), {"dim": [0, -1]}, {"dim": [1]}), same),
    "unsqueeze": (lambda self, dim: np.expand_dims(self, dim), on((3, 5), {"dim": 0}, {"dim": -1}, {"dim": 1}) + on((), {"dim": 0}), same),
    **{name: (lambda self, **dims: np.swapaxes(self, *dims.values()), on((2, 3, 5), {a: 0, b: 2}, {a: -1, b: 1}) + on((40, 33), {a: 0, b: 1}), same)
       for name, a, b in (("transpose.int", "dim0", "dim1"), ("swapaxes", "axis0", "axis1"), ("swapdims", "dim0", "dim1"))},
    "t": (lambda self: self.T, on((4, 9), {}) + on((5,), {}) + on((), {}), same),
    "permute": (lambda self, dims: np.transpose(self, dims), on((2, 3, 5), {"dims": [2, 0, 1]}) + on((4, 9), {"dims": [-1, 0]}), same),
    **{name: (lambda self, source, destination: np.moveaxis(self, source, destination), on((2, 3, 5), *how), same)
       for named in ("movedim", "moveaxis")
       for name, how in ((named + ".int", [{"source": 0, "destination": -1}, {"source": 2, "destination": 1}]),
                         (named + ".intlist", [{"source": [0, 1], "destination": [-1, 0]}]))},
    "flip": (lambda self, dims: np.flip(self, dims), on((4, 9), {"dims": [0]}, {"dims": [1, 0]}, {"dims": []}), same),
    "select.int": (lambda self, dim, index: part(self, dim, index), on((4, 9), {"dim": 0, "index": 2}, {"dim": -1, "index": -3}), same),
    "slice.Tensor": (lambda self, dim=0, start=None, end=None, step=1: part(self, dim, slice(start, end, step)),
                     on((7, 9), {}, {"start": 2}, {"dim": 1, "start": -4, "end": -1}, {"dim": 1, "step": 3}, {"start": -99, "end": 99, "step": 2},
                        {"start": 5, "end": 2}), same),
    "narrow": (narrow, on((7, 9), {"dim": 0, "start": 2, "length": 3}, {"dim": 1, "start": -2, "length": 2}, {"dim": 1, "start": 0, "length": 0}), same),
    "diagonal": (lambda self, offset=0, dim1=0, dim2=1: np.diagonal(self, offset, dim1, dim2),
                 on((4, 9), {}, {"offset": 2}, {"offset": -1}) + on((3, 4, 5), {"dim1": 2, "dim2": 0}), same),
    "unfold": (unfold, on((9, 4), {"dimension": 0, "size": 3, "step": 2}, {"dimension": -1, "size": 4, "step": 1}), same),
    "as_strided": (as_strided, on((5, 8), {"size": [3, 4], "stride": [2, 5], "storage_offset": 1}, {"size": [2, 3], "stride": [0, 1]}), same),
    "split.Tensor": (lambda self, split_size, dim=0: split(self, split_size, dim), [(s, {**how, "split_size": 3}) for s, how in CUTS], same),
    "split.sizes": (lambda self, split_size, dim=0: split(self, split_size, dim), on((7, 4), {"split_size": [3, 0, 4]}), same),
    "split_with_sizes": (lambda self, split_sizes, dim=0: split(self, split_sizes, dim), on((3, 7), {"split_sizes": [3, 4], "dim": 1}), same),
    "chunk": (lambda self, chunks, dim=0: split(self, -(-self.shape[dim] // chunks), dim), [(s, {**how, "chunks": 4}) for s, how in CUTS], same),
    "unbind.int": (lambda self, dim=0: [part(self, dim, i) for i in range(self.shape[dim])], CUTS + on((1,), {}), same),
    "expand": (expand, on((3, 1), {"size": [3, 4]}, {"size": [2, -1, 5]}) + on((), {"size": [4]}), same),
    "broadcast_to": (expand, on((3, 1), {"size": [2, 3, 4]}), same),
    "expand_as": (lambda self, other: np.broadcast_to(self, other.shape), [({"self": (3, 1), "other": (2, 3, 5)}, {})], same),
    "broadcast_tensors": (lambda tensors: np.broadcast_arrays(*tensors), [(listed("tensors", (3, 1), (4,), ()), {})], same),
    "meshgrid": (lambda tensors: np.meshgrid(*tensors, indexing="ij"), [(listed("tensors", (3,), (4,), (2,)), {}), (listed("tensors", (3,)), {})], same),
    "meshgrid.indexing": (lambda tensors, indexing: np.meshgrid(*tensors, indexing=indexing),
                          [(listed("tensors", (3,), (4,), (2,)), {"indexing": how}) for how in ("ij", "xy")], same),
    "repeat": (lambda self, repeats: np.tile(self, repeats), on((3, 4), {"repeats": [2, 3]}, {"repeats": [2, 1, 3]}), same),
    "repeat_interleave.self_int": (lambda self, repeats, dim=None, output_size=None: np.repeat(self, repeats, dim),
                                   on((3, 4), {"repeats": 2}, {"repeats": 3, "dim": 0}, {"repeats": 2, "dim": -1, "output_size": 8},
                                      {"repeats": 0, "dim": 1}), same),
    "pixel_shuffle": (pixel_shuffle, on((2, 8, 3, 5), {"upscale_factor": 2}) + on((9, 2, 2), {"upscale_factor": 3}), same),
    "pixel_unshuffle": (pixel_unshuffle, on((2, 3, 4, 6), {"downscale_factor": 2}) + on((1, 9, 3), {"downscale_factor": 3}), same),
    **{name: (channel_shuffle, on((2, 6, 3, 4), {"groups": 3}) + on((1, 4, 40), {"groups": 2}), same)
       for name in ("channel_shuffle", "native_channel_shuffle")},
    "tile": (tile, on((3, 4), {"dims": [2]}, {"dims": [2, 1, 3]}), same),
    **{name: (lambda tensors, dim=0: np.concatenate(tensors, dim), [(listed("tensors", (3, 4), (2, 4), (1, 4)), {}),
                                                                   (listed("tensors", (3, 4), (3, 1)), {"dim": -1})], same) for name in ("cat", "concat", "concatenate")},
    "stack": (lambda tensors, dim=0: np.stack(tensors, dim), [(listed("tensors", (3, 4), (3, 4)), {"dim": how}) for how in (0, 1, -1)], same),
    "roll": (roll, on((4, 9), {"shifts": [2, -11], "dims": [0, 1]}, {"shifts": [5]}), same),
}


def draw(rng, op, draw_shape):
    """A random call, ({argument: shape}, parameters); None where those of the table are all."""
    shape = draw_shape(rng, 1, 4, 9)
    rank, dim = len(shape), int(rng.integers(len(shape)))
    size, said = shape[dim], dim - rank * int(rng.integers(2))
    order = [int(d) for d in rng.permutation(rank)]
    some = order[:int(rng.integers(1, rank + 1))]
    start = int(rng.integers(size))
    cut = int(rng.integers(size + 1))
    thin = tuple(1 if rng.random() < 0.5 else n for n in shape)
    more = (int(rng.integers(1, 4)),) * int(rng.integers(3))
    pair = {"dim0": order[0], "dim1": order[-1] - rank}
    parameters = {
        "flip": {"dims": some}, "transpose.int": pair, "swapdims": pair, "permute": {"dims": order},
        "select.int": {"dim": said, "index": start - size * int(rng.integers(2))},
        "slice.Tensor": {"dim": said, "start": start - size * int(rng.integers(2)), "end": int(rng.integers(-size, 2 * size)), "step": int(rng.integers(1, 4))},
        "narrow": {"dim": said, "start": start, "length": int(rng.integers(size - start + 1))},
        "unfold": {"dimension": said, "size": int(rng.integers(1, size + 1)), "step": int(rng.integers(1, 4))},
        "movedim.intlist": {"source": some, "destination": [int(d) - rank * int(rng.integers(2)) for d in rng.permutation(rank)[:len(some)]]},
        "movedim.int": {"source": said, "destination": order[0]},
        "flatten.using_ints": {"start_dim": dim, "end_dim": int(rng.integers(dim, rank))},
        "unsqueeze": {"dim": int(rng.integers(-rank - 1, rank + 1))}, "split.Tensor": {"split_size": int(rng.integers(1, size + 2)), "dim": said},
        "split_with_sizes": {"split_sizes": [cut, size - cut], "dim": said}, "chunk": {"chunks": int(rng.integers(1, 6)), "dim": said},
        "unbind.int": {"dim": said}, "roll": {"shifts": [int(n) for n in rng.integers(-20, 20, len(some))], "dims": some},
        "repeat": {"repeats": [int(n) for n in rng.integers(1, 4, rank + len(more))]}, "tile": {"dims": [int(n) for n in rng.integers(1, 4, len(some))]},
    }
    if op in ("diagonal",) and rank > 1:
        return {"self": shape}, {"offset": int(rng.integers(-5, 6)), "dim1": order[0], "dim2": order[1] - rank}
    if op in ("squeeze", "squeeze.dim", "squeeze.dims"):
        return {"self": thin}, {"squeeze": {}, "squeeze.dim": {"dim": said}, "squeeze.dims": {"dim": some}}[op]
    if op in ("expand", "broadcast_to"):
        return {"self": thin}, {"size": [*more, *shape]}
    if op in ("cat", "concat", "concatenate"):
        return listed("tensors", *(shape[:dim] + (int(n),) + shape[dim + 1:] for n in rng.integers(0, 9, rng.integers(1, 5)))), {"dim": said}
    if op == "stack":
        return listed("tensors", *[shape] * int(rng.integers(1, 5))), {"dim": int(rng.integers(-rank - 1, rank + 1))}
    return ({"self": shape}, parameters[op]) if op in parameters else None
