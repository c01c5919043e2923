"""NumPy's word on linear algebra: {operator: (formula, calls, result, scale)}, as tests/pointwise.py has it for the
pointwise operators. Of singular vectors and eigenvectors, of which either sign is right, tests/model/test_pt2_linear.py
judges."""
import numpy as np

from order import Sorted


def draw_positive(rng, shape):
    x = rng.normal(0, 1, shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def draw_strong(rng, shape):
    """Far from singular."""
    return rng.normal(0, 1, shape) + 3 * shape[-1] ** 0.5 * np.eye(shape[-1])


class Matrix(tuple):
    """The shape of matrices; by: how they are drawn; kind: of what type, where that is not the call's."""
    by, kind = staticmethod(draw_strong), None

    def draw(self, rng, kind):
        return self.by(rng, self).astype(self.kind or kind)


class Share(Matrix):
    by = staticmethod(lambda rng, shape: rng.uniform(0.05, 0.95, shape))


class Positive(Matrix):
    by = staticmethod(draw_positive)


def factors(a):
    """P L U of each matrix: (LU, pivots)."""
    less = min(a.shape[-2:])
    lu, pivots = a.copy(), np.zeros((*a.shape[:-2], less), np.int64)
    for at in np.ndindex(a.shape[:-2]):
        w = lu[at]
        for k in range(less):
            best = k + int(np.argmax(np.abs(w[k:, k])))
            w[[k, best]] = w[[best, k]]
            pivots[at + (k,)] = best + 1
            w[k + 1:, k] /= w[k, k]
            w[k + 1:, k + 1:] -= np.outer(w[k + 1:, k], w[k, k + 1:])
    return lu, pivots


def none(a):
    return np.zeros(a.shape[:-2], np.int64)


def inverse(A):
    return np.linalg.inv(A), none(A)


def cholesky(self, upper=False):
    low = np.linalg.cholesky(np.swapaxes(self, -1, -2) if upper else self)
    return np.swapaxes(low, -1, -2) if upper else low, none(self)


def det(A):
    return np.linalg.det(A), *factors(np.swapaxes(A, -1, -2))


def slogdet(A):
    return *np.linalg.slogdet(A), *factors(np.swapaxes(A, -1, -2))


def solve(A, B, left=True):
    turned = lambda x: np.swapaxes(x, -1, -2)
    x = np.linalg.solve(A, B[..., None])[..., 0] if B.ndim == 1 else np.linalg.solve(A, B) if left else turned(np.linalg.solve(turned(A), turned(B)))
    return x, *factors(A), none(A)


def triangular(self, B, upper, left=True, unitriangular=False):
    t = np.triu(self) if upper else np.tril(self)
    if unitriangular:
        t = t - t * np.eye(t.shape[-1]) + np.eye(t.shape[-1])
    return solve(t, B, left)[0]


def cholesky_solve(self, input2, upper=False):
    t = np.triu(input2) if upper else np.tril(input2)
    turned = np.swapaxes(t, -1, -2)
    return np.linalg.solve(turned @ t if upper else t @ turned, self)


def unpacked(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    (m, n), batch, less = LU_data.shape[-2:], LU_data.shape[:-2], min(LU_data.shape[-2:])
    p, none = np.zeros((*batch, m, m)), np.zeros(0)
    for at in np.ndindex(batch):
        rows = list(range(m))
        for k, other in enumerate(LU_pivots[at]):
            rows[k], rows[other - 1] = rows[other - 1], rows[k]
        p[at] = np.eye(m)[:, rows]
    low = np.tril(LU_data[..., :less], -1) + np.eye(m, less)
    return p if unpack_pivots else none, *((low, np.triu(LU_data[..., :less, :])) if unpack_data else (none, none))


def lu(A):
    return unpacked(*factors(A))


class Pivots(Matrix):
    """From 1 to 4."""
    by, kind = staticmethod(lambda rng, shape: rng.integers(1, 5, shape)), np.int32


def qr(A, mode):
    q, r = np.linalg.qr(A, mode)
    return q, r


def exponential(self):
    y = np.eye(self.shape[-1]) + 0 * self
    for k in range(40, 0, -1):
        y = np.eye(self.shape[-1]) + self @ y / k / 64
    for _ in range(6):
        y = y @ y
    return y


def histogram(self, bins=100, min=0, max=0):
    """In the elements' own type, as the operator has it."""
    low, high = (float(min), float(max)) if min != max else (self.min(), self.max())
    low, high = (low - 1, high + 1) if low == high else (low, high)
    inside = self[(self >= low) & (self <= high)]
    return np.bincount(np.minimum(((inside - low) * bins / (high - low)).astype(int), bins - 1), minlength=bins).astype(np.float64)


def weighed(self, edges, weight, density):
    weight = None if weight is None else weight.ravel()
    return {"hist": np.histogram(self, edges, weights=weight, density=density)[0].astype(np.float64), "bin_edges": edges}


def by_number(self, bins=100, range=None, weight=None, density=False):
    low, high = range or (self.min(), self.max())
    return weighed(self.ravel(), np.linspace(low, high, bins + 1), weight, density)


def coupled(pairs, classes):
    """Wu, Lin and Weng's second way, in FP32."""
    one, k = np.float32, classes
    made = np.zeros((len(pairs), k))
    for row, found in zip(np.clip(pairs.astype(one), one(1e-7), one(1) - one(1e-7)), made):
        r = np.zeros((k, k), one)
        r[np.triu_indices(k, 1)] = row
        r += np.tril(one(1) - r.T, -1)
        q = -r.T * r
        q[np.arange(k), np.arange(k)] = [sum(r[j, t] ** 2 for j in range(k) if j != t) for t in range(k)]
        p = np.full(k, one(1) / one(k))
        for _ in range(100):
            qp = q @ p
            all_ = p @ qp
            if np.abs(qp - all_).max() < one(0.005) / one(k):
                break
            for t in range(k):
                step = (all_ - qp[t]) / q[t, t]
                p[t] += step
                all_ = (all_ + step * (step * q[t, t] + 2 * qp[t])) / (1 + step) / (1 + step)
                qp = (qp + step * q[t]) / (1 + step)
                p /= 1 + step
        found[:] = p
    return made


def same(name, _):
    return name


def with_info(name, _):
    return name, "INT32"


SQUARE = [({"A": Matrix((5, 5))}, {}), ({"A": Matrix((2, 3, 4, 4))}, {}), ({"A": Matrix((1, 1))}, {})]
FLAT = [*SQUARE, ({"A": (3, 5)}, {}), ({"A": (2, 6, 4)}, {})]
RIGHT = [({"A": Matrix((5, 5)), "B": (5, 3)}, {}), ({"A": Matrix((2, 4, 4)), "B": (3, 1, 4, 2)}, {}), ({"A": Matrix((4, 4)), "B": (4,)}, {}),
         ({"A": Matrix((4, 4)), "B": (2, 3, 4)}, {"left": False})]
TRIANGLES = [({"self": Matrix((5, 5)), "B": (5, 3)}, {"upper": True}), ({"self": Matrix((2, 4, 4)), "B": (3, 1, 4, 2)}, {"upper": False}),
             ({"self": Matrix((4, 4)), "B": (2, 3, 4)}, {"upper": True, "left": False, "unitriangular": True})]
TABLE = {
    "linalg_inv_ex": (inverse, SQUARE, with_info),
    "linalg_cholesky_ex": (cholesky, [({"self": Positive((5, 5))}, {}), ({"self": Positive((2, 3, 4, 4))}, {"upper": True})], with_info),
    "_linalg_det": (det, SQUARE, lambda name, _: (name, name, "INT32")),
    "_linalg_slogdet": (slogdet, SQUARE, lambda name, _: (name, name, name, "INT32")),
    "_linalg_solve_ex": (solve, RIGHT, lambda name, _: (name, name, "INT32", "INT32")),
    "linalg_solve_triangular": (triangular, TRIANGLES, same),
    "cholesky_solve": (cholesky_solve, [({"self": (5, 3), "input2": Matrix((5, 5))}, {}), ({"self": (4, 2), "input2": Matrix((3, 4, 4))}, {"upper": True})], same),
    "_linalg_svd": (lambda A, **_: (np.zeros(0), np.linalg.svd(A, compute_uv=False), np.zeros(0)),
                    [({"A": shape}, {"full_matrices": False, "compute_uv": False}) for shape in ((5, 3), (2, 3, 7), (4, 4))], lambda name, _: (name,) * 3),
    "_linalg_eigh": (lambda A, **_: (np.linalg.eigvalsh(A), np.zeros(0)), [({"A": Positive((5, 5))}, {"UPLO": "L", "compute_v": False}),
                                                                           ({"A": Positive((2, 4, 4))}, {"UPLO": "U", "compute_v": False})], lambda name, _: (name,) * 2),
    "linalg_qr": (qr, [({"A": shape}, {"mode": mode}) for shape in ((5, 3), (2, 3, 5)) for mode in ("reduced", "complete")], lambda name, _: (name,) * 2),
    "linalg_lu_factor_ex": (lambda A: (*factors(A), none(A)), FLAT, lambda name, _: (name, "INT32", "INT32")),
    "linalg_lu": (lu, FLAT, lambda name, _: (name,) * 3),
    "lu_unpack": (unpacked, [({"LU_data": (2, 4, 3), "LU_pivots": Pivots((2, 3))}, {}), ({"LU_data": (4, 6), "LU_pivots": Pivots((4,))}, {"unpack_data": False}),
                             ({"LU_data": (4, 4), "LU_pivots": Pivots((4,))}, {"unpack_pivots": False})], lambda name, _: (name,) * 3),
    "linalg_matrix_exp": (exponential, [({"self": (4, 4)}, {}), ({"self": (2, 3, 3)}, {})], same),
}
NAMES = {"linalg_inv_ex": "inverse info", "linalg_cholesky_ex": "L info", "_linalg_det": "result LU pivots", "_linalg_slogdet": "sign logabsdet LU pivots",
         "_linalg_solve_ex": "result LU pivots info", "_linalg_svd": "U S Vh", "_linalg_eigh": "eigenvalues eigenvectors", "linalg_qr": "Q R",
         "linalg_lu_factor_ex": "LU pivots info", "linalg_lu": "P L U", "lu_unpack": "P L U"}


def named(name, formula):
    return lambda **how: dict(zip(NAMES[name].split(), formula(**how))) if name in NAMES else formula(**how)


# As many units of the largest element as numbers that are far from singular lose, here and in NumPy.
TABLE = {name: (named(name, row[0]), *row[1:], 256) for name, row in TABLE.items()}
TABLE["pairwise_coupling"] = (coupled, [({"pairs": Share((5, 1))}, {"classes": 2}), ({"pairs": Share((4, 6))}, {"classes": 4})], same, 256)
TABLE["histc"] = (histogram, [({"self": (300,)}, {"bins": 7, "min": -2, "max": 2}), ({"self": (4, 50)}, {"bins": 10}), ({"self": (9,)}, {"bins": 1})], same)
TABLE["histogram.bin_ct"] = (by_number, [({"self": (300,)}, {"bins": 7, "range": [-2.0, 2.0]}), ({"self": (4, 50), "weight": (4, 50)}, {"bins": 10}),
                                         ({"self": (90,)}, {"bins": 5, "density": True})], lambda name, _: (name, name), "all")
TABLE["histogram.bins_tensor"] = (lambda self, bins, weight=None, density=False: weighed(self.ravel(), bins, weight, density), [
    ({"self": (300,), "bins": Sorted((9,))}, {}), ({"self": (4, 50), "bins": Sorted((4,)), "weight": (4, 50)}, {"density": True})], lambda name, _: (name, name), "all")
