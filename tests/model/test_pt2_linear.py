#!/usr/bin/env python3
"""Linear algebra in archives that torch.export gave as they were: held to NumPy, and, where vectors may have either
sign, to what they make together.

    test_pt2_linear.py RUN_MODEL
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import one_node
from archives import Model
from one_node import OneNode
from runner import Refused, Runner


class Linear(OneNode):
    def square(self, *shape):
        return (self.normal(*shape) + 3 * np.eye(shape[-1])).astype(np.float32)

    def positive(self, n):
        x = self.normal(n, n)
        return (x @ x.T + n * np.eye(n)).astype(np.float32)

    def test_solved(self):
        a, b = self.square(2, 4, 4), self.normal(2, 4, 3)
        self.same("linalg_inv.default", {"A": a}, np.linalg.inv(a))
        self.same("inverse.default", {"self": a}, np.linalg.inv(a))
        self.same("linalg_solve.default", {"A": a, "B": b}, np.linalg.solve(a, b))
        self.same("linalg_det.default", {"A": a}, np.linalg.det(a))
        self.same("linalg_slogdet.default", {"A": a}, *np.linalg.slogdet(a))
        p = self.positive(4)
        self.same("logdet.default", {"self": p}, np.linalg.slogdet(p)[1])
        low, b = np.linalg.cholesky(self.positive(5)), self.normal(5, 2)
        self.same("linalg_solve_triangular.default", {"self": low, "B": b}, np.linalg.solve(low, b), upper=False)

    def test_singular(self):
        """An error, as in PyTorch; so is a matrix without a root."""
        none = np.ones((3, 3), np.float32)
        self.refused("singular", "linalg_inv.default", {"A": none})
        self.refused("singular", "linalg_solve.default", {"A": none, "B": none})
        self.refused("not positive", "linalg_cholesky.default", {"self": -none})
        self.same("linalg_det.default", {"A": none}, np.float32(0))

    def test_roots(self):
        a = self.positive(5)
        low = np.linalg.cholesky(a)
        self.same("linalg_cholesky.default", {"self": a}, low)
        self.same("linalg_cholesky.default", {"self": a}, low.T, upper=True)
        self.same("cholesky.default", {"self": a}, low)
        self.same("linalg_matrix_power.default", {"self": low / 4}, np.linalg.matrix_power(low / 4, 5), n=5)

    def test_vectors(self):
        for shape in (5, 3), (3, 5), (4, 4), (2, 3, 6):
            a = self.normal(*shape)
            least = min(shape[-2:])
            u, s, v = self.run_node("linalg_svd.default", {"A": a}, 3, full_matrices=False)
            np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False), atol=1e-5)
            np.testing.assert_allclose(u * s[..., None, :] @ v, a, atol=1e-5)
            np.testing.assert_allclose(np.swapaxes(u, -1, -2) @ u, np.eye(least) + 0 * (np.swapaxes(u, -1, -2) @ u), atol=1e-5)
            u, s, v = self.run_node("linalg_svd.default", {"A": a}, 3)
            for whole in u, v:
                product = np.swapaxes(whole, -1, -2) @ whole
                np.testing.assert_allclose(product, np.broadcast_to(np.eye(product.shape[-1]), product.shape), atol=1e-5)
            np.testing.assert_allclose((u[..., :least] * s[..., None, :]) @ v[..., :least, :], a, atol=1e-5)
            self.same("linalg_pinv.default", {"self": a}, np.linalg.pinv(a))
        flat = np.outer(self.normal(4), self.normal(3)).astype(np.float32) # of rank 1: the other vectors follow from no column
        u, s, v = self.run_node("linalg_svd.default", {"A": flat}, 3)
        np.testing.assert_allclose(u.T @ u, np.eye(4), atol=1e-5)
        np.testing.assert_allclose((u[:, :3] * s) @ v, flat, atol=1e-5)
        a = self.positive(6)
        for half, triangle in (({}, np.tril(a)), ({"UPLO": "L"}, np.tril(a)), ({"UPLO": "U"}, np.triu(a))): # of which one triangle is read
            values, vectors = self.run_node("linalg_eigh.default", {"self": triangle}, 2, **half)
            np.testing.assert_allclose(values, np.linalg.eigvalsh(a), atol=1e-4)
            np.testing.assert_allclose(vectors * values @ vectors.T, a, atol=1e-4)
            self.same("linalg_eigvalsh.default", {"self": triangle}, np.linalg.eigvalsh(a), **half)

    def test_factors(self):
        for shape in (5, 3), (3, 5), (4, 4), (2, 3, 6):
            a = self.normal(*shape)
            p, low, up = self.run_node("linalg_lu.default", {"A": a}, 3)
            np.testing.assert_allclose(p @ low @ up, a, atol=1e-5)
            whole, pivots = self.run_node("linalg_lu_factor.default", {"A": a}, 2)
            same, places, info = self.run_node("linalg_lu_factor_ex.default", {"A": a}, 3)
            np.testing.assert_array_equal(same, whole)
            np.testing.assert_array_equal(places, pivots)
            self.assertFalse(info.any())
            m = Model()
            factors = m.call("linalg_lu_factor.default", ["lu", "pivots"], A=m.user("x", sizes=list(shape)))
            m.outputs = m.call("lu_unpack.default", ["p", "low", "up"], LU_data=factors[0], LU_pivots=factors[1])
            for got, want in zip(one_node.RUN.run(m.bytes(), [a]), (p, low, up), strict=True):
                np.testing.assert_array_equal(got, want)
        with self.assertRaisesRegex(Refused, "singular"):
            self.run_node("linalg_lu_factor.default", {"A": np.ones((3, 3), np.float32)}, 2)

    def test_norms(self):
        a = self.normal(4, 6)
        for ord in (1, -1, 2, -2, np.inf):
            self.same("linalg_matrix_norm.default", {"self": a}, np.float32(np.linalg.norm(a, ord)), ord=ord)
        for ord in "fro", "nuc":
            self.same("linalg_matrix_norm.str_ord", {"self": a}, np.float32(np.linalg.norm(a, ord)), ord=ord)
        self.refused("is right here", "linalg_matrix_norm.default", {"self": a}, ord=3)

    def test_effects(self):
        """run_decompositions() keeps checks in their order by tokens, which are no tensors."""
        def model(operator):
            m = Model()
            m.inputs.append({"as_tensor": {"name": "token"}})
            m.specs.append({"token": {"arg": {"name": "token"}}})
            x = m.user("x", sizes=[3, 3])
            y, info = m.call("linalg_cholesky_ex.default", ["y", "info"], self=x)
            m.nodes.append({"target": "torch.ops.higher_order.with_effects", "name": "with_effects", "metadata": {},
                            "inputs": [{"name": "", "arg": argument, "kind": 1} for argument in (
                                {"as_tensor": {"name": "token"}}, {"as_operator": operator}, {"as_tensor": {"name": info}}, {"as_string": "linalg.cholesky"})],
                            "outputs": [{"as_tensor": {"name": "after"}}, {"as_none": True}], "is_hop_single_tensor_return": False})
            m.outputs = [y]
            return m.bytes()
        a, check = self.positive(3), "torch.ops.aten._linalg_check_errors.default"
        np.testing.assert_allclose(one_node.RUN.run(model(check), [a])[0], np.linalg.cholesky(a), 1e-5, 1e-5)
        with self.assertRaisesRegex(Refused, "linalg.cholesky: the matrix"):
            one_node.RUN.run(model(check), [-a])
        with self.assertRaisesRegex(Refused, "not known here"):
            one_node.RUN.run(model("torch.ops.aten.print.default"), [a])


RUN = one_node.RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    RUN.main()
