"""NumPy as the judge of the index family: each element where its index says, one after the other."""
import numpy as np


class Below(tuple):
    """The shape of an INT64 argument whose elements are from low to below bound."""
    def __new__(cls, shape, bound, low=0):
        made = super().__new__(cls, shape)
        made.low, made.bound = low, bound
        return made

    def draw(self, rng):
        return np.asarray(rng.integers(self.low, self.bound, self))


class Narrow(Below):
    """The same in INT32."""
    def draw(self, rng):
        return super().draw(rng).astype(np.int32)


class Links(Below):
    """Of each node a feature below bound, and a child, which may be one that takes NaN."""
    def draw(self, rng):
        n = self[0] - 1
        return np.stack([rng.integers(0, self.bound, self[0]), rng.integers(-n, n, self[0])], 1).astype(np.int32)


class Ascending(Below):
    """The same from 0 to bound in this order, and both are there."""
    def draw(self, rng):
        return np.sort(np.concatenate([[0], rng.integers(0, self.bound + 1, self[0] - 2), [self.bound]]))


def same(name, _):
    return name


# ---- reading ----

def gather(self, dim, index, sparse_grad=False):
    at = list(np.indices(index.shape))
    if at:
        at[dim] = index
    return self[tuple(at)]


def take_along_dim(self, indices, dim=None):
    if dim is None:
        return np.take_along_axis(self.ravel(), indices.ravel(), 0)
    shape = [1 if d == dim % self.ndim else n for d, n in enumerate(np.broadcast_shapes(
        *(tuple(1 if d == dim % self.ndim else n for d, n in enumerate(t.shape)) for t in (self, indices))))]
    self = np.broadcast_to(self, [n if d != dim % self.ndim else self.shape[d] for d, n in enumerate(shape)])
    indices = np.broadcast_to(indices, [n if d != dim % self.ndim else indices.shape[d] for d, n in enumerate(shape)])
    return np.take_along_axis(self, indices, dim)


def whole_or(indices):
    """What is None, or left out, is the whole dimension."""
    return tuple(slice(None) if one is None else one for one in indices)


def index(self, indices):
    return self[whole_or(indices)]


def tree_ensemble(self, thresholds, links, trees, values, targets):
    out = np.zeros((len(self), targets), self.dtype)
    for r, row in enumerate(self):
        for node, steps, first in trees:
            for _ in range(steps):
                feature, child = links[node]
                x, limit, place = row[feature], thresholds[node], max(child, -1 - child)
                node = place + (x > limit if child < 0 else not x <= limit)
            out[r, first:first + values.shape[1]] += values[node]
    return out


# ---- writing ----

WAYS = {"write": lambda a, b: b, "add": lambda a, b: a + b, "sum": lambda a, b: a + b, "mean": lambda a, b: a + b,
        "multiply": lambda a, b: a * b, "prod": lambda a, b: a * b, "amin": np.minimum, "amax": np.maximum}


def scatter(self, dim, index, src=None, value=None, reduce="write", include_self=True):
    out, first = self.copy(), np.zeros(self.shape, bool)
    count = np.zeros(self.shape, int)
    if value is not None:
        src = np.broadcast_to(np.asarray(value).astype(self.dtype), index.shape)
    for at in np.ndindex(index.shape):
        to = at[:dim] + (index[at],) + at[dim % index.ndim + 1:] if dim >= 0 else \
            at[:dim + index.ndim] + (index[at],) + at[dim + index.ndim + 1:]
        kept = include_self or first[to]
        out[to] = WAYS[reduce](out[to], src[at]) if kept else src[at]
        first[to] = True
        count[to] += 1
    if reduce == "mean":
        n = np.where(count > 0, count + include_self, 1)
        out = out / n if out.dtype == np.float64 else (out.astype(np.int64) // n).astype(out.dtype)
    return out


def scatter_add(self, dim, index, src):
    return scatter(self, dim, index, src, reduce="add")


def slices(way):
    def formula(self, dim, index, source=None, value=None, alpha=1):
        out = np.moveaxis(self.copy(), dim, 0)
        given = None if source is None else np.moveaxis(source, dim, 0)
        for i, to in enumerate(index):
            new = np.asarray(value).astype(self.dtype) if given is None else given[i]
            out[to] = out[to] + alpha * new if way == "add" and out.dtype != bool else WAYS[way](out[to], new)
        return np.moveaxis(out, 0, dim)
    return formula


def put(self, index, source, accumulate=False):
    out = self.copy().ravel()
    (np.add.at if accumulate else out.__class__.__setitem__)(out, index.ravel(), source.ravel())
    return out.reshape(self.shape)


def index_put(self, indices, values, accumulate=False):
    out = self.copy()
    if accumulate:
        np.add.at(out, whole_or(indices), values)
    else:
        out[whole_or(indices)] = values
    return out


def embedding_backward(grad_output, indices, num_weights, padding_idx, scale_grad_by_freq):
    out = np.zeros((num_weights, grad_output.shape[-1]))
    for at in np.ndindex(indices.shape):
        by = np.count_nonzero(indices == indices[at]) if scale_grad_by_freq else 1
        if indices[at] != padding_idx:
            out[indices[at]] += grad_output[at] / by
    return out


def max_pool_backward(grad_output, self, indices, **_):
    out = np.zeros((*self.shape[:-2], self.shape[-2] * self.shape[-1]))
    for at in np.ndindex(indices.shape):
        out[(*at[:-2], indices[at])] += grad_output[at]
    return out.reshape(self.shape)


def bags(weight, indices, offsets, mode=0, per_sample_weights=None, include_last_offset=False, padding_idx=-1, **_):
    n = len(offsets) - include_last_offset
    ends = [*offsets, len(indices)]
    out, sizes, largest = np.zeros((n, weight.shape[1])), np.zeros(n, int), np.zeros((n, weight.shape[1]), int)
    for bag in range(n):
        kept = [i for i in range(ends[bag], ends[bag + 1]) if indices[i] != padding_idx]
        rows = weight[indices[kept]] * (1 if per_sample_weights is None else per_sample_weights[kept][:, None])
        sizes[bag] = len(kept) if mode else 0
        if kept and mode == 2:
            largest[bag] = indices[kept][rows.argmax(axis=0)]
        if kept:
            out[bag] = (np.sum, np.mean, np.max)[mode](rows, axis=0)
    of_index = np.repeat(np.arange(n), np.diff(ends[:n + 1]))
    return out, of_index, sizes, largest if mode == 2 else sizes


def masked_scatter(self, mask, source):
    out = np.broadcast_to(self, np.broadcast_shapes(self.shape, mask.shape)).copy()
    mask = np.broadcast_to(mask, out.shape)
    out[mask] = source.ravel()[:np.count_nonzero(mask)]
    return out


def masked_select(self, mask):
    self, mask = np.broadcast_arrays(self, mask)
    return self[mask]


# ---- parts ----

def part(view):
    def formula(self, src, **how):
        out = self.copy()
        view(out, **how)[...] = src
        return out
    return formula


def sliced(out, dim=0, start=None, end=None, step=1):
    return np.moveaxis(np.moveaxis(out, dim, 0)[start:end:step], 0, dim)


def diagonal(out, offset=0, dim1=0, dim2=1):
    view = np.diagonal(out, offset, dim1, dim2)
    view.flags.writeable = True
    return view


def strided(out, size, stride, storage_offset=0):
    flat = out.reshape(-1)[storage_offset:]
    return np.lib.stride_tricks.as_strided(flat, size, [n * out.itemsize for n in stride])


ALONG = [({"self": (5, 7), "index": Below((4, 6), 7), "src": (4, 9)}, {"dim": 1}),
         ({"self": (3, 40), "index": Below((20, 40), 3), "src": (20, 40)}, {"dim": 0}),
         ({"self": (2, 3, 4), "index": Below((2, 5, 3), 3), "src": (2, 5, 3)}, {"dim": -2}),
         ({"self": (9,), "index": Below((30,), 9), "src": (30,)}, {"dim": 0})]
SLICES = [({"self": (5, 7), "index": Below((4,), 5), "source": (4, 7)}, {"dim": 0}),
          ({"self": (3, 6, 2), "index": Below((9,), 6), "source": (3, 9, 2)}, {"dim": 1}),
          ({"self": (40,), "index": Below((9,), 40), "source": (9,)}, {"dim": -1})]
LISTS = [({"self": (5, 7, 3), "indices.0": Below((4,), 5), "values": (4, 7, 3)}, {}),
         ({"self": (5, 7, 3), "indices.1": Below((4, 2), 7, -7), "values": (3,)}, {}),
         ({"self": (5, 7, 3), "indices.0": Below((4, 1), 5), "indices.1": Below((6,), 7), "values": (4, 6, 3)}, {}),
         ({"self": (5, 7, 3), "indices.0": Below((4,), 5), "indices.2": Below((4,), 3), "values": (4, 7)}, {}),
         ({"self": (2, 5, 7, 3), "indices.1": Below((4,), 5), "indices.3": Below((2, 1), 3), "values": ()}, {})]


BAGS = [({"weight": (9, 40), "indices": Below((12,), 9), "offsets": Ascending((4,), 12)}, {"mode": mode})
        for mode in (1, 2)] + [
        ({"weight": (3, 7), "indices": Below((9,), 3), "offsets": Ascending((5,), 9)},
         {"mode": 1, "include_last_offset": True})]
PADDED = [(s, {**how, "padding_idx": 2}) for s, how in BAGS] + [
    ({"weight": (5, 300), "indices": Below((12,), 5), "offsets": Ascending((4,), 12)}, {"mode": 0, "padding_idx": 1}),
    ({"weight": (5, 3), "indices": Below((12,), 5), "offsets": Ascending((3,), 12), "per_sample_weights": (12,)},
     {"mode": 0, "padding_idx": 0})]
EVERY = {"scale_grad_by_freq": False, "sparse": False, "include_last_offset": False}
POOLED = {"kernel_size": 2, "stride": 2, "padding": 0, "dilation": 1, "ceil_mode": False}


def bag_types(name, _):
    return name, "INT64", "INT64", "INT64"


def without(calls, *names, **more):
    return [({k: v for k, v in shapes.items() if k not in names}, {**how, **more}) for shapes, how in calls]


def reduced(*names, **more):
    return [call for name in names for call in without(ALONG, reduce=name, **more)]


def summed(formula, calls):
    return formula, calls, same, formula


TABLE = {
    "gather": (gather, without(ALONG, "src"), same),
    "scatter.src": (scatter, ALONG, same),
    "scatter.value": (scatter, without(ALONG, "src", value=3), same),
    "scatter.reduce": summed(scatter, reduced("add", "multiply")),
    "scatter.value_reduce": summed(scatter, [(s, {**p, "value": 2}) for s, p in without(reduced("add"), "src")]),
    "scatter_add": summed(scatter_add, ALONG),
    "scatter_reduce.two": summed(scatter, reduced("sum", "prod", "amin", "amax", "mean") +
                                 reduced("sum", "prod", "amin", "amax", "mean", include_self=False)),
    "index_select": (lambda self, dim, index: np.take(self, index, dim), without(SLICES, "source"), same),
    "index_add": summed(slices("add"), SLICES + without(SLICES[:1], alpha=2)),
    "index_copy": (slices("write"), SLICES, same),
    "index_fill.int_Scalar": (slices("write"), without(SLICES, "source", value=3), same),
    "index_fill.int_Tensor": (slices("write"), [({**s, "value": ()}, p) for s, p in without(SLICES, "source")], same),
    "tree_ensemble": (tree_ensemble, [
        ({"self": (rows, 6), "thresholds": (9,), "links": Links((9, 2), 6), "trees": Narrow((trees, 3), 3), "values": (9, width)},
         {"targets": width + 2}) for rows, trees, width in [(1, 21, 1), (70, 3, 1), (9, 5, 4)]], same),
    "take": (lambda self, index: self.ravel()[index], [({"self": (5, 7), "index": Below((3, 4), 35, -35)}, {})], same),
    "put": summed(put, [({"self": (5, 7), "index": Below((3, 4), 35), "source": (3, 4)}, {}),
                        ({"self": (5,), "index": Below((12,), 5), "source": (12,)}, {"accumulate": True})]),
    "take_along_dim": (take_along_dim, [({"self": (5, 7), "indices": Below((1, 4), 7)}, {"dim": 1}),
                                        ({"self": (5, 7), "indices": Below((9,), 35)}, {}),
                                        ({"self": (1, 7, 2), "indices": Below((3, 4, 1), 7)}, {"dim": -2})], same),
    "embedding": (lambda weight, indices, **_: weight[indices],
                  [({"weight": (9, 5), "indices": Below((4,), 9)}, {}),
                   ({"weight": (9, 33), "indices": Below((2, 3), 9)}, {"padding_idx": 2})], same),
    "embedding_dense_backward": summed(embedding_backward, [
        ({"grad_output": (6, 5), "indices": Below((6,), 4)},
         {"num_weights": 4, "padding_idx": padding, "scale_grad_by_freq": scaled})
        for padding, scaled in ((-1, False), (1, False), (2, True))]),
    "embedding_bag": (bags, BAGS, bag_types, bags),
    "embedding_bag.padding_idx": (bags, [(s, {**EVERY, **({} if "per_sample_weights" in s else {"per_sample_weights": None}),
                                              **how}) for s, how in PADDED], bag_types, bags),
    "_embedding_bag": (bags, PADDED, bag_types, bags),
    "_embedding_bag_forward_only": (bags, PADDED, bag_types, bags),
    "max_pool2d_with_indices_backward": summed(max_pool_backward, [
        ({"grad_output": (*planes, 3, 4), "self": (*planes, 6, 8), "indices": Below((*planes, 3, 4), 48)},
         POOLED) for planes in ((2,), (2, 3))]),
    "index.Tensor": (index, without(LISTS, "values") + [({"self": (4, 6), "indices.0": Below((5,), 4, -4)}, {})], same),
    "index_put": summed(index_put, LISTS[:1] + LISTS[2:] + without(LISTS[2:], accumulate=True)),
    **{name: (lambda self: np.argwhere(self), [({"self": shape}, {}) for shape in ((40,), (3, 7, 2), (), (2, 0))],
              lambda *_: "INT64") for name in ("nonzero", "argwhere")},
    "masked_select": (masked_select, [({"self": (5, 7), "mask": (5, 7)}, {}), ({"self": (5, 1), "mask": (7,)}, {}),
                                      ({"self": (), "mask": (9,)}, {})], same),
    "masked_scatter": (masked_scatter, [({"self": (5, 7), "mask": (5, 7), "source": (40,)}, {}),
                                        ({"self": (7,), "mask": (5, 1), "source": (6, 7)}, {})], same),
    "one_hot": (lambda self, num_classes: np.eye(num_classes, dtype=int)[self],
                [({"self": Below((4, 3), 5)}, {"num_classes": 5})], lambda *_: "INT64"),
    "select_scatter": (part(lambda out, dim, index: np.moveaxis(out, dim, 0)[index]),
                       [({"self": (4, 5), "src": (5,)}, {"dim": 0, "index": -1}),
                        ({"self": (4, 5, 2), "src": (4, 2)}, {"dim": 1, "index": 3})], same),
    "slice_scatter": (part(sliced), [({"self": (9, 4), "src": (3, 4)}, {"start": 1, "end": -2, "step": 2}),
                                     ({"self": (2, 9), "src": (2, 9)}, {"dim": 1}),
                                     ({"self": (2, 9), "src": (2, 4)}, {"dim": -1, "start": -4, "end": 2**40})], same),
    "diagonal_scatter": (part(diagonal), [({"self": (4, 6), "src": (4,)}, {"offset": 1}),
                                          ({"self": (4, 3, 6), "src": (3, 2)}, {"offset": -2, "dim1": 0, "dim2": 2})], same),
    "as_strided_scatter": (part(strided), [({"self": (4, 6), "src": (3, 2)},
                                            {"size": [3, 2], "stride": [7, 2], "storage_offset": 1})], same),
}
