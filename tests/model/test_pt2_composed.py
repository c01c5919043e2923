#!/usr/bin/env python3
"""Functions that torch.export leaves as they are, in archives made by hand: against NumPy.

    test_pt2_composed.py RUN_MODEL
"""
import pathlib
import sys
import unittest

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import archives
import service
from archives import Bool, Model
from runner import Refused, Runner


def logs(x, axis=1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


class Composed(unittest.TestCase):
    def setUp(self):
        self.rng = np.random.default_rng(service.seed())

    def normal(self, *shape):
        return self.rng.standard_normal(shape).astype(np.float32)

    def model(self, target, inputs, outs=1, **how):
        """One node; inputs by the argument's name, a list of arrays for a list."""
        m, given = Model(), {}
        for name, value in inputs.items():
            for i, array in enumerate(value if isinstance(value, list) else [value]):
                kind = {"f": "float32", "i": "int64"}[array.dtype.kind]
                port = m.user(f"{name}{i}", kind, sizes=list(array.shape))
                given.setdefault(name, []).append(port) if isinstance(value, list) else given.update({name: port})
        m.outputs = [m.call(target, "y", **given, **how)] if outs == 1 else list(m.call(target, [f"y{i}" for i in range(outs)], **given, **how))
        return m

    def same(self, target, inputs, *wanted, **how):
        m = self.model(target, inputs, len(wanted), **how)
        flat = [a for value in inputs.values() for a in (value if isinstance(value, list) else [value])]
        for mode in "eager", "plan":
            for got, want in zip(RUN.run(m.bytes(), flat, how=mode), wanted, strict=True):
                with self.subTest(target, **{k: str(v) for k, v in how.items()}):
                    self.assertEqual(got.shape, np.shape(want))
                    np.testing.assert_allclose(got, want, 2e-5, 2e-5)

    def refused(self, word, target, inputs, **how):
        with self.assertRaises(Refused) as caught:
            RUN.run(self.model(target, inputs, **how).bytes(), [a for a in inputs.values()])
        self.assertIn(word, str(caught.exception))

    def test_losses(self):
        x, t = 2 * self.normal(6, 5), self.normal(6, 5)
        p, d = 1 / (1 + np.exp(-t)), abs(x - t)
        same = {"self": x, "target": t}
        each = [("mse_loss.default", same, {}, d ** 2), ("l1_loss.default", same, {}, d),
                ("huber_loss.default", same, {"delta": 0.7}, np.where(d <= 0.7, d * d / 2, 0.7 * (d - 0.35))),
                ("smooth_l1_loss.default", same, {"beta": 0.5}, np.where(d < 0.5, d * d, d - 0.25)),
                ("soft_margin_loss.default", {"self": x, "target": np.sign(t)}, {}, np.log1p(np.exp(-np.sign(t) * x))),
                ("binary_cross_entropy_with_logits.default", {"self": x, "target": p}, {}, (1 - p) * x + np.log1p(np.exp(-x))),
                ("binary_cross_entropy.default", {"self": p, "target": p}, {}, -p * np.log(p) - (1 - p) * np.log(1 - p)),
                ("kl_div.default", {"self": x, "target": p}, {}, p * (np.log(p) - x)),
                ("kl_div.default", same, {"log_target": True}, np.exp(t) * (t - x)),
                ("poisson_nll_loss.default", {"input": x, "target": p}, {"log_input": True, "full": False, "eps": 1e-8}, np.exp(x) - p * x),
                ("hinge_embedding_loss.default", {"self": x, "target": np.sign(t)}, {"margin": 2.0}, np.where(t > 0, x, np.maximum(2 - x, 0))),
                ("margin_ranking_loss.default", {"input1": x, "input2": t, "target": np.sign(t)}, {"margin": 0.5}, np.maximum(-np.sign(t) * (x - t) + 0.5, 0))]
        for target, inputs, how, wanted in each:
            for reduction, y in enumerate((wanted, wanted.mean(), wanted.sum())):
                self.same(target, inputs, y, **how, reduction=reduction)
            self.same(target, inputs, wanted.mean(), **how)
        a, b, c = self.normal(6, 5), self.normal(6, 5), self.normal(6, 5)
        far = lambda u, v: np.sqrt(((u - v + 1e-6) ** 2).sum(1))
        self.same("triplet_margin_loss.default", {"anchor": a, "positive": b, "negative": c}, np.maximum(far(a, b) - far(a, c) + 1, 0).mean())
        self.refused("reduction", "mse_loss.default", same, reduction=3)

    def test_classes(self):
        for shape in (6, 5), (2, 5, 3):
            x, t = self.normal(*shape), self.rng.integers(0, 5, (shape[0], *shape[2:]))
            t.flat[0] = -100
            known, kept = t != -100, np.where(t < 0, 0, t)
            cost = -np.take_along_axis(logs(x), np.expand_dims(kept, 1), 1).squeeze(1) * known
            for reduction, y in enumerate((cost, cost.sum() / known.sum(), cost.sum())):
                self.same("cross_entropy_loss.default", {"self": x, "target": t}, y, reduction=reduction)
                self.same("nll_loss_nd.default", {"self": logs(x), "target": t}, y, reduction=reduction)
            smooth = 0.9 * cost - 0.1 * logs(x).mean(1) * known
            self.same("cross_entropy_loss.default", {"self": x, "target": t}, smooth.sum() / known.sum(), label_smoothing=0.1)
        x, share = self.normal(6, 5), np.exp(logs(self.normal(6, 5)))
        self.same("cross_entropy_loss.default", {"self": x, "target": share}, -(share * logs(x)).sum(1).mean())
        self.refused("classes", "nll_loss_nd.default", {"self": x, "target": share})

    def test_moved(self):
        x = self.normal(2, 3, 4)
        for k in range(-1, 5):
            self.same("rot90.default", {"self": x}, np.rot90(x, k, (0, 2)), k=k, dims=[0, 2])
        self.same("rot90.default", {"self": x}, np.rot90(x))
        for a, b in ((2, 3), (3, 2)), ((4,), (2, 3)), ((2, 1, 3), (2, 2)):
            a, b = self.normal(*a), self.normal(*b)
            self.same("kron.default", {"self": a, "other": b}, np.kron(a, b))
        self.same("cartesian_prod.default", {"tensors": [x[0, 0], x[0, :, 0]]}, np.stack(np.meshgrid(x[0, 0], x[0, :, 0], indexing="ij"), -1).reshape(-1, 2))
        self.same("isin.Tensor_Tensor", {"elements": np.arange(6).reshape(2, 3), "test_elements": np.int64([4, 1])}, np.isin(np.arange(6).reshape(2, 3), [4, 1]))

    def test_products(self):
        a, b = self.normal(2, 3, 4), self.normal(4, 3, 5)
        self.same("tensordot.default", {"self": a, "other": b}, np.tensordot(a, b, ([1, 2], [1, 0])), dims_self=[1, -1], dims_other=[1, 0])
        self.same("tensordot.default", {"self": a, "other": b}, np.tensordot(a, b, ([2], [0])), dims_self=[2], dims_other=[0])
        self.refused("do not fit", "tensordot.default", {"self": a, "other": b}, dims_self=[0], dims_other=[0])
        self.refused("as many", "tensordot.default", {"self": a, "other": b}, dims_self=[2], dims_other=[0, 1])
        x = [self.normal(2, 3), self.normal(3, 4), self.normal(4, 2)]
        self.same("linalg_multi_dot.default", {"tensors": x}, x[0] @ x[1] @ x[2])

    def test_reduced(self):
        x = self.normal(4, 6)
        for q in 0.0, 0.3, 0.5, 1.0:
            self.same("quantile.scalar", {"self": x}, np.quantile(x, q, 1, keepdims=True), q=q, dim=1, keepdim=True)
            self.same("quantile.scalar", {"self": x}, np.quantile(x, q), q=q)
        self.refused("from 0 to 1", "quantile.scalar", {"self": x}, q=1.5)
        hole = np.where(x > 0.5, np.nan, x).astype(np.float32)
        self.same("nanmean.default", {"self": hole}, np.nanmean(hole, 1), dim=[1])
        self.same("linalg_norm.default", {"self": x}, np.linalg.norm(x))
        self.same("linalg_norm.default", {"self": x}, np.linalg.norm(x, 1, 1, keepdims=True), ord=1, dim=[1], keepdim=True)
        self.refused("matrices", "linalg_norm.default", {"self": x}, ord=1)
        self.same("dist.default", {"self": x, "other": hole}, np.float32(np.nan))
        self.same("trapezoid.dx", {"y": x}, np.trapezoid(x, dx=0.5), dx=0.5)
        size = np.sqrt((x ** 2).sum(0, keepdims=True))
        self.same("renorm.default", {"self": x}, x * np.where(size > 1, 1 / (size + 1e-7), 1), p=2, dim=1, maxnorm=1.0)
        self.same("special_entr.default", {"self": abs(x)}, -abs(x) * np.log(abs(x)))

    def test_batch_norm(self):
        x, w, b, mean, var = self.normal(4, 3, 5), self.normal(3), self.normal(3), self.normal(3), abs(self.normal(3))
        inputs = {"input": x, "weight": w, "bias": b, "running_mean": mean, "running_var": var}
        at = lambda v: v[:, None]
        m, v = x.mean((0, 2)), x.var((0, 2))
        self.same("_native_batch_norm_legit_functional.default", inputs, (x - at(m)) / np.sqrt(at(v) + 1e-5) * at(w) + at(b), m, 1 / np.sqrt(v + 1e-5),
                  0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * 20 / 19, training=True, momentum=0.1, eps=1e-5)


RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    try:
        service.main()
    finally:
        wrong = RUN.close()
        if wrong:
            print(wrong)
            sys.exit(1)
