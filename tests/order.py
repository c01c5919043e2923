"""NumPy as the judge of the sort family: equal elements stay in the order in which they came."""
import numpy as np


def ordered(self, dim, descending):
    """Where the elements in order were; NaN is above all numbers."""
    if not self.ndim:
        return np.zeros((), int)
    if not descending:
        return np.argsort(self, dim, kind="stable")
    turned = np.flip(np.argsort(np.flip(self, dim), dim, kind="stable"), dim)
    return self.shape[dim] - 1 - turned


def values(self, at, dim):
    return {"values": np.take_along_axis(self, at, dim) if self.ndim else self, "indices": at}


def sort(self, dim=-1, descending=False, stable=None):
    return values(self, ordered(self, dim, descending), dim)


def topk(self, k, dim=-1, largest=True, sorted=True):
    at = ordered(self, dim, largest)
    return values(self, np.take(at, range(k), dim) if self.ndim else at, dim)


def kth(self, k, dim=-1, keepdim=False):
    at = np.take(ordered(self, dim, False), [k - 1], dim)
    return {key: one if keepdim else one.squeeze(dim) for key, one in values(self, at, dim).items()}


def median(self, dim, keepdim=False):
    return kth(self, (self.shape[dim] + 1) // 2, dim, keepdim)


def nanmedian(self, dim, keepdim=False):
    return median(self, dim, keepdim) # of what has no NaN


def mode(self, dim=-1, keepdim=False):
    """What most are like, and of several such the least; the last of those."""
    def most(row):
        found, counts = np.unique(row, return_counts=True)
        return np.flatnonzero(row == found[np.argmax(counts)])[-1]
    at = np.expand_dims(np.apply_along_axis(most, dim, self), dim)
    return {key: one if keepdim else one.squeeze(dim) for key, one in values(self, at, dim).items()}


def whole(self):
    return np.sort(self, axis=None)[(self.size - 1) // 2]


def nms(dets, scores, iou_threshold):
    kept, left = [], list(np.argsort(-scores, kind="stable"))
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    while left:
        kept.append(left[0])
        low, high = np.maximum(dets[left, :2], dets[left[0], :2]), np.minimum(dets[left, 2:], dets[left[0], 2:])
        shared = np.prod(np.maximum(high - low, 0), 1)
        over = shared / (area[left] + area[left[0]] - shared) > iou_threshold
        left = [i for i, out in zip(left[1:], over[1:]) if not out]
    return np.array(kept, int)


class Sorted(tuple):
    """The shape of an argument whose last dimension is drawn in order."""


def search(sequence, values, right=False, side=None, sorter=None, out_int32=False):
    side, values = side or ("right" if right else "left"), np.asarray(values)
    if sorter is not None:
        sequence = np.take_along_axis(sequence, sorter, -1)
    if sequence.ndim == 1:
        return np.searchsorted(sequence, values, side)
    out = np.zeros(values.shape, int)
    for at in np.ndindex(values.shape[:-1]):
        out[at] = np.searchsorted(sequence[at], values[at], side)
    return out


def narrow(_, parameters):
    return "INT32" if parameters.get("out_int32") else "INT64"


NARROW = {"out_int32": True, "right": True}
SEARCHES = [({"sorted_sequence": Sorted((9,)), "self": (3, 40)}, {}), ({"sorted_sequence": Sorted((3, 20)), "self": (3, 5)}, {"side": "right"}),
            ({"sorted_sequence": Sorted((40,)), "self": (7,)}, NARROW), ({"sorted_sequence": Sorted((0,)), "self": (4,)}, {}),
            ({"sorted_sequence": Sorted((9,)), "self": ()}, {"right": True})]
NUMBERS = [2, 3.5, -1]


def both(name, _):
    return name, "INT64"


def places(*_):
    return "INT64"


CALLS = [({"self": (3, 40)}, {}), ({"self": (90, 2)}, {"dim": 0, "descending": True}), ({"self": (2, 5, 3)}, {"dim": -2}),
         ({"self": (2, 0)}, {}), ({"self": ()}, {})]
STABLE = [(shapes, {**how, "stable": True}) for shapes, how in CALLS]
ONE = [({"self": (3, 41)}, {"dim": 1}), ({"self": (70, 2)}, {"dim": 0, "keepdim": True}), ({"self": (2, 6, 3)}, {"dim": -2})]
WHOLE = [({"self": (3, 41)}, {}), ({"self": (7,)}, {}), ({"self": ()}, {})]
TABLE = {
    "sort": (sort, CALLS, both),
    "sort.stable": (sort, STABLE, both),
    "argsort": (lambda *a, **how: sort(*a, **how)["indices"], CALLS, places),
    "argsort.stable": (lambda *a, **how: sort(*a, **how)["indices"], STABLE, places),
    "topk": (topk, [({"self": (3, 40)}, {"k": 3}), ({"self": (90, 2)}, {"k": 70, "dim": 0, "largest": False}),
                    ({"self": (2, 5, 3)}, {"k": 5, "dim": 1}), ({"self": (4, 9)}, {"k": 0})], both),
    "kthvalue": (kth, [(shapes, {**how, "k": k}) for shapes, how in ONE for k in (1, 5)], both),
    "median.dim": (median, ONE, both),
    "nanmedian.dim": (nanmedian, ONE, both),
    "median": (whole, WHOLE, lambda name, _: name),
    "nanmedian": (whole, WHOLE, lambda name, _: name),
    "mode": (mode, [*ONE, ({"self": (4, 60)}, {})], both, "own", "INT8"),
    "searchsorted.Tensor": (lambda sorted_sequence, self, **how: search(sorted_sequence, self, **how), SEARCHES, narrow),
    "searchsorted.Scalar": (lambda sorted_sequence, self, **how: search(sorted_sequence, self, **how),
                            [({"sorted_sequence": Sorted((30,))}, {"self": n, "right": n > 2}) for n in NUMBERS], narrow),
    "bucketize.Tensor": (lambda self, boundaries, **how: search(boundaries, self, **how),
                         [({"self": (3, 40), "boundaries": Sorted((9,))}, how) for how in ({}, NARROW)], narrow),
    "bucketize.Scalar": (lambda self, boundaries, **how: search(boundaries, self, **how),
                         [({"boundaries": Sorted((30,))}, {"self": n}) for n in NUMBERS], narrow),
    "nms": (nms, [({"dets": (n, 4), "scores": (n,)}, {"iou_threshold": 0.25}) for n in (60, 7, 1)], places),
}
