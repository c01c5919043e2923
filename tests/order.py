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


def both(name, _):
    return name, "INT64"


def places(*_):
    return "INT64"


CALLS = [({"self": (3, 40)}, {}), ({"self": (90, 2)}, {"dim": 0, "descending": True}), ({"self": (2, 5, 3)}, {"dim": -2}),
         ({"self": (2, 0)}, {}), ({"self": ()}, {})]
STABLE = [(shapes, {**how, "stable": True}) for shapes, how in CALLS]
ONE = [({"self": (3, 41)}, {"dim": 1}), ({"self": (70, 2)}, {"dim": 0, "keepdim": True}), ({"self": (2, 6, 3)}, {"dim": -2})]
TABLE = {
    "sort": (sort, CALLS, both),
    "sort.stable": (sort, STABLE, both),
    "argsort": (lambda *a, **how: sort(*a, **how)["indices"], CALLS, places),
    "argsort.stable": (lambda *a, **how: sort(*a, **how)["indices"], STABLE, places),
    "topk": (topk, [({"self": (3, 40)}, {"k": 3}), ({"self": (90, 2)}, {"k": 70, "dim": 0, "largest": False}),
                    ({"self": (2, 5, 3)}, {"k": 5, "dim": 1}), ({"self": (4, 9)}, {"k": 0})], both),
    "kthvalue": (kth, [(shapes, {**how, "k": k}) for shapes, how in ONE for k in (1, 5)], both),
    "median.dim": (median, ONE, both),
    "nms": (nms, [({"dets": (n, 4), "scores": (n,)}, {"iou_threshold": 0.25}) for n in (60, 7, 1)], places),
}
