#!/usr/bin/env python3
"""Functions that torch.export leaves as they are, in archives made by hand: against NumPy.

    test_pt2_composed.py RUN_MODEL
"""
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import one_node
from archives import Model
from one_node import OneNode
from runner import Runner


def logs(x, axis=1):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


class Composed(OneNode):
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
        self.same("chain_matmul.default", {"matrices": x}, x[0] @ x[1] @ x[2])
        for a, b in ((4,), (4,)), ((3, 4), (4,)), ((4,), (5, 4)), ((2, 3, 4), (5, 6, 4)):
            a, b = self.normal(*a), self.normal(*b)
            self.same("inner.default", {"self": a, "other": b}, np.inner(a, b))

    def test_experts(self):
        """Rows in groups, each with a matrix of its own, as transformers computes mixtures of experts: few rows and many, empty groups,
        and rows behind the last."""
        for rows, ends in (9, [0, 4, 4, 7]), (2, [0, 0, 1, 1, 2]), (2, [1, 1, 1, 1]):
            x, w, y = self.normal(rows, 3), self.normal(len(ends), 3, 5), np.zeros((rows, 5), np.float32)
            for group, (begin, end) in enumerate(zip([0, *ends], ends)):
                y[begin:end] = x[begin:end] @ w[group]
            self.same("torch.ops.transformers.grouped_mm_fallback.default", {"input": x, "weight": w, "offs": np.array(ends)}, y)
            self.same("_grouped_mm.default", {"self": x, "mat2": w, "offs": np.array(ends)}, y)

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

    def test_weights(self):
        """Of classes: each counts by its own in a mean."""
        x, w = self.normal(6, 5), abs(self.normal(5)) + 0.5
        t = np.array([0, 1, 4, 3, 1, 2])
        y = -logs(x)
        own = y[np.arange(6), t] * w[t]
        self.same("cross_entropy_loss.default", {"self": x, "target": t, "weight": w}, own.sum() / w[t].sum())
        self.same("cross_entropy_loss.default", {"self": x, "target": t, "weight": w}, own, reduction=0)
        known = t != 3
        self.same("nll_loss_nd.default", {"self": logs(x), "target": t, "weight": w}, (own * known).sum() / (w[t] * known).sum(), ignore_index=3)
        smooth = 0.9 * own + 0.1 * (y * w).mean(1)
        self.same("cross_entropy_loss.default", {"self": x, "target": t, "weight": w}, smooth.sum() / w[t].sum(), label_smoothing=0.1)
        p = 1 / (1 + np.exp(-self.normal(6, 5)))
        more = (1 - p) * x + ((w - 1) * p + 1) * np.log1p(np.exp(-x))
        names = "binary_cross_entropy_with_logits.default"
        self.same(names, {"self": x, "target": p, "pos_weight": w}, more.mean())
        self.same(names, {"self": x, "target": p, "weight": w}, (w * ((1 - p) * x + np.log1p(np.exp(-x)))).sum(), reduction=2)
        sign = np.array([1, -1, -1, 1, 1, -1])
        other = self.normal(6, 5)
        share = (x * other).sum(1) / np.sqrt((x * x).sum(1) * (other * other).sum(1))
        self.same("cosine_embedding_loss.default", {"input1": x, "input2": other, "target": sign}, np.where(sign > 0, 1 - share, np.maximum(share - 0.2, 0)).mean(), margin=0.2)
        room = np.maximum(1 - x[np.arange(6), t][:, None] + x, 0) ** 2
        room[np.arange(6), t] = 0
        self.same("multi_margin_loss.default", {"self": x, "target": t}, room.mean(1).mean(), p=2, margin=1.0)

    def test_made(self):
        a, b = self.normal(2, 3), self.normal(3, 2)
        self.same("block_diag.default", {"tensors": [a, b, a[0]]}, np.block([[a, np.zeros((2, 5))], [np.zeros((3, 3)), b, np.zeros((3, 3))], [np.zeros((1, 5)), a[:1]]]))
        self.same("vander.default", {"x": a[0]}, np.vander(a[0]))
        self.same("gradient.scalarint", {"self": b}, np.gradient(b, 0.5, axis=0), spacing=0.5, dim=0)
        self.refused("two elements", "gradient.scalarint", {"self": b[:1]}, dim=0)
        hole = np.where(b > 0.5, np.nan, b).astype(np.float32)
        known = np.sort(hole[~np.isnan(hole)])
        self.same("nanmedian.default", {"self": hole}, known[(len(known) - 1) // 2] if len(known) else np.float32(np.nan))
        self.same("addbmm.default", {"self": self.normal(2, 2) * 0 + 1, "batch1": a[None], "batch2": b[None]}, 2 + 0.5 * (a @ b), beta=2, alpha=0.5)

    def test_frames(self):
        """A complex tensor is none of the client's: its length, its parts are."""
        x, window = self.normal(2, 64), np.hanning(16).astype(np.float32)
        m = Model()
        given = {"self": m.user("x", sizes=[2, 64]), "window": m.user("w", sizes=[16])}
        y = m.call("stft.default", "y", **given, n_fft=16, hop_length=8, onesided=None, return_complex=True)
        m.outputs = [m.call("abs.default", "a", self=y), m.call("imag.default", "i", self=y)]
        wanted = np.fft.rfft(np.stack([x[:, i:i + 16] for i in range(0, 49, 8)], 1) * window).transpose(0, 2, 1)
        for got, want in zip(one_node.RUN.run(m.bytes(), [x, window]), (abs(wanted), wanted.imag)):
            np.testing.assert_allclose(got, want, 1e-4, 1e-4)

    def test_counted(self):
        """Sizes that values decide."""
        t = np.array([3, 1, 3, 0, 7, 1, 3])
        self.same("bincount.default", {"self": t}, np.bincount(t))
        self.same("bincount.default", {"self": t}, np.bincount(t, minlength=12), minlength=12)
        self.same("bincount.default", {"self": t, "weights": np.arange(7, dtype=np.float32) / 2}, np.bincount(t, np.arange(7) * 0.5))
        self.same("bincount.default", {"self": t[:0]}, np.zeros(4), minlength=4)
        self.refused("from 0 on", "bincount.default", {"self": -t})
        for x in t, self.normal(9), np.round(self.normal(3, 7)):
            values, back, counts = np.unique(x, return_inverse=True, return_counts=True)
            self.same("_unique2.default", {"self": x}, values, back.reshape(x.shape), counts, sorted=True, return_inverse=True, return_counts=True)

    def test_batch_norm(self):
        x, w, b, mean, var = self.normal(4, 3, 5), self.normal(3), self.normal(3), self.normal(3), abs(self.normal(3))
        inputs = {"input": x, "weight": w, "bias": b, "running_mean": mean, "running_var": var}
        at = lambda v: v[:, None]
        m, v = x.mean((0, 2)), x.var((0, 2))
        self.same("_native_batch_norm_legit_functional.default", inputs, (x - at(m)) / np.sqrt(at(v) + 1e-5) * at(w) + at(b), m, 1 / np.sqrt(v + 1e-5),
                  0.9 * mean + 0.1 * m, 0.9 * var + 0.1 * v * 20 / 19, training=True, momentum=0.1, eps=1e-5)


RUN = one_node.RUN = Runner(sys.argv.pop(1))
if __name__ == "__main__":
    RUN.main()
