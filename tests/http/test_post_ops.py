#!/usr/bin/env python3
"""What follows a product or a convolution and is computed with it: as a call of its own, and as a model's plan makes it of separate
ones; stored weights that are packed for them, or not; what is said where it is not done."""
import re

import numpy as np

import models
import service

F32 = np.float32
X = np.array([[1, -2, 3], [-1, 0.5, 2]], F32)
W = np.array([[1, 2, -1], [0.5, -1, 1], [2, 0, 1], [-1, 1, 1]], F32)
B = np.array([0.5, -1, 0, 2], F32)
SUM = X @ W.T + B


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


CURVES = {"sigmoid": sigmoid, "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "tanh": np.tanh, "hardtanh": lambda x: np.clip(x, -1, 1),
          "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1), "leaky_relu": lambda x: np.where(x > 0, x, x * F32(0.01)),
          "gelu_tanh": lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), "relu": lambda x: np.maximum(x, 0),
          "relu6": lambda x: np.clip(x, 0, 6), "silu": lambda x: x * sigmoid(x)}


class PostOps(service.ServiceTest):
    def op(self, op, inputs, status=200, **parameters):
        reply = self.service.infer(op, inputs, parameters, binary=True)
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply if status != 200 else reply.out

    def right(self, got, want):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)

    def test_fused_operators(self): # IND-2, IND-4
        """A linear and a convolution with each of the ten activations, with another tensor, and with both, by each of their kernels."""
        image, kernel = np.arange(2 * 5 * 4 * 3, dtype=F32).reshape(2, 5, 4, 3) / 40 - 1, W.reshape(4, 3, 1, 1)
        plain = self.op("conv2d_channels_last", {"input": image, "weight": kernel, "bias": B})
        self.right(plain, image @ W.T + B)
        other, pixels = np.flip(SUM, 0).copy(), np.flip(plain, 1).copy()
        for how in ({}, {"kernel": "ref"}):
            for name, curve in CURVES.items():
                self.right(self.op("linear", {"input": X, "weight": W, "bias": B}, activation=name, **how), curve(SUM))
                self.right(self.op("conv2d_channels_last", {"input": image, "weight": kernel, "bias": B}, activation=name, **how), curve(plain))
            self.right(self.op("linear", {"input": X, "weight": W, "bias": B, "others.0": other}, activation="plus, relu", **how), np.maximum(SUM + other, 0))
            self.right(self.op("conv2d_channels_last", {"input": image, "weight": kernel, "bias": B, "others.0": pixels}, activation="plus, relu", **how),
                       np.maximum(plain + pixels, 0))
            self.right(self.op("conv2d_channels_last", {"input": image, "weight": kernel, "bias": B, "others.0": pixels, "others.1": B}, activation="mul, minus", **how),
                       plain * pixels - B)

    def test_their_numbers(self): # IND-3
        """By PyTorch's argument list: attr, its scalars in order, the algorithm; they must be there where attr has some."""
        inputs = {"X": X, "W": W, "B": B}
        self.right(self.op("linear_pointwise", inputs, attr="leaky_relu", alpha=0.25), np.where(SUM > 0, SUM, SUM * 0.25))
        self.right(self.op("linear_pointwise", inputs, attr="hardtanh", alpha=-2, beta=3), np.clip(SUM, -2, 3))
        self.right(self.op("linear_pointwise", inputs, attr="gelu", algorithm="tanh"), CURVES["gelu_tanh"](SUM))
        self.right(self.op("linear_pointwise", {"X": X, "W": W}, attr="none"), X @ W.T)
        for attr, numbers, word in (("leaky_relu", {}, "alpha"), ("hardtanh", {"alpha": 1}, "alpha, beta"), ("relu", {"alpha": 1}, "alpha, beta"),
                                    ("gelu", {"algorithm": "cubic"}, "algorithm")):
            self.problem(self.op("linear_pointwise", inputs, 400, attr=attr, **numbers), 400, word)

    def test_spellings(self): # IND-5
        """add, add_, iadd, sub and sub_ with another tensor; into the tensor that is added, too."""
        other = np.flip(SUM, 1).copy()
        for name, sign in (("add", 1), ("add_", 1), ("iadd", 1), ("plus", 1), ("sub", -1), ("sub_", -1), ("minus", -1)):
            self.right(self.op("linear", {"input": X, "weight": W, "bias": B, "others.0": other}, activation=f"{name}, relu"), np.maximum(SUM + sign * other, 0))
        self.right(self.op("linear", {"input": X, "weight": W, "bias": B, "others.0": other}, activation="add(0.5)"), SUM + 0.5 * other)
        self.service.call("PUT", "/v1/tensors/total", {"shape": [2, 4], "datatype": "FP32", "data": other.ravel().tolist()})
        for n in (1, 2):
            reply = self.service.infer("linear", {"input": X, "weight": W, "bias": B, "others.0": service.stored("total")}, {"activation": "add_"},
                                       outputs=[{"name": "out", "parameters": {"tensor": "total"}}])
            self.assertEqual(reply.status, 200, reply.body[:300])
            self.right(self.service.infer("relu", {"self": service.stored("total")}).out, np.maximum(other + n * SUM, 0))

    def test_refused(self): # IND-6
        """An attr that is none, types that differ, another tensor that does not fit: each with the argument's name and what is right."""
        inputs = {"X": X, "W": W}
        self.problem(self.op("linear_pointwise", inputs, 400, attr="swoosh"), 400, "swoosh", "no fusion that is defined")
        self.problem(self.op("linear", {"input": X, "weight": W}, 400, activation="swoosh"), 400, "activation", "is not known")
        self.problem(self.op("linear", {"input": X, "weight": W}, 400, activation="add"), 400, "others")
        self.problem(self.op("linear", {"input": X, "weight": W, "others.0": SUM[:, :3].copy()}, 400, activation="add"), 400, "others")
        self.problem(self.op("linear", {"input": X, "weight": W, "others.0": SUM.astype(np.int32)}, 400, activation="add"), 400, "others")
        self.problem(self.op("linear", {"input": X.astype(np.int64), "weight": W.astype(np.int64)}, 400, activation="relu"), 400, "activation")

    def test_by_curl(self): # IND-15
        """The same in a line, without a word of the protocol."""
        reply = self.service.call("POST", "/v1/ops/linear", {"input": X.tolist(), "weight": W.tolist(), "bias": B.tolist(), "activation": "relu"})
        self.assertEqual(reply.status, 200, reply.body[:300])
        self.right(np.array(reply.json["out"]), np.maximum(SUM, 0))

    # ---- plans ----

    def model(self, name, nodes, shape=(2, 3, 8, 8), constants=None, out=(2, 4, 8, 8)):
        file = models.onnx_file(nodes, [models.port("x", list(shape))], [models.port("y", list(out))],
                                {"k": W.reshape(4, 3, 1, 1), "w": W.T.copy(), **(constants or {})})
        self.service.call("DELETE", f"/v1/models/{name}")
        self.assertEqual(self.service.call("PUT", f"/v1/models/{name}", file).status, 201)
        x = np.linspace(-1, 1, int(np.prod(shape)), dtype=F32).reshape(shape)
        for _ in range(4):
            got = self.service.infer(name, {"x": x}, path="/v2/models/{}/infer", binary=True)
            self.assertEqual(got.status, 200, got.body[:300])
        want = self.service.infer(name, {"x": x}, {"kernel": "eager"}, path="/v2/models/{}/infer", binary=True)
        np.testing.assert_allclose(got.outputs["y"], want.outputs["y"], rtol=1e-4, atol=1e-5)
        return self.service.call("GET", f"/v1/models/{name}/plan").json["plans"][0]

    def test_passes(self): # IND-8
        """In this order, in which each finds what those before it leave."""
        plan = self.model("passes", [("Conv", ["x", "k"], ["c"], {}), ("Relu", ["c"], ["y"], {})])
        self.assertEqual([p["name"] for p in plan["passes"]], ["clean", "fold_batch_norm", "idioms", "channels_last", "products", "post_ops", "views"])

    def test_what_a_pass_leaves(self): # IND-9
        """Said with the step and why; and a call that is to go node by node, or on another device, has no plan at all."""
        nodes = [("Conv", ["x", "k"], ["c"], {}), ("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"], {}), ("Add", ["b", "c"], ["y"], {})]
        plan = self.model("left", nodes, constants={"s": np.ones(4, F32)})
        refused = [left["why"] for p in plan["passes"] if p["name"] == "fold_batch_norm" for left in p["why"]]
        self.assertEqual(len(refused), 1)
        self.assertIn("read", refused[0])
        self.assertEqual(self.service.call("PUT", "/v1/models/eager", models.line()).status, 201)
        for parameters in ({"eager": True}, {"device": "RefCPU"}):
            for _ in range(6):
                reply = self.service.infer("eager", {"x": X}, parameters, path="/v2/models/{}/infer")
                self.assertIn(reply.status, (200, 400), reply.body[:300])
            self.assertEqual(self.service.call("GET", "/v1/models/eager/plan").json["plans"], [])


class Packed(service.ServiceTest):
    """Weights of [70,90], which are packed for products of many rows."""

    def figures(self, s):
        text = s.call("GET", "/metrics").body.decode()
        return {name: int(n) for name, n in re.findall(r'^tensord_packed_(bytes|total\{form="\w+"\}) (\d+)$', text, re.M)}

    def test_packed_or_not(self): # IND-12
        """The same results, without the memory where it is switched off."""
        rng = np.random.default_rng(service.seed())
        x, w = rng.standard_normal((60, 90)).astype(F32), rng.standard_normal((70, 90)).astype(F32)
        image, kernel = rng.standard_normal((2, 16, 12, 12)).astype(F32), rng.standard_normal((32, 16, 3, 3)).astype(F32)
        deep, pixels = rng.standard_normal((16, 1, 3, 3)).astype(F32), np.ascontiguousarray(image.transpose(0, 2, 3, 1))
        eight = rng.integers(-128, 128, (8, 16, 3, 3)).astype(np.int8)
        scaled = {"x": rng.integers(0, 256, (1, 9, 9, 16)).astype(np.uint8), "x_scale": F32(0.1), "x_zero_point": np.uint8(3), "w": service.stored("q"),
                  "w_scale": F32(0.1), "w_zero_point": np.int8(0), "y_scale": F32(9), "y_zero_point": np.uint8(7)}
        named = {} if service.only_reference() else {"kernel": "simd"}
        results = []
        for packs in ("on", "off"):
            with service.Service("--weight-prepack", packs) as s:
                for name, tensor in (("w", w), ("k", kernel), ("d", deep), ("q", eight)):
                    s.call("PUT", f"/v1/tensors/{name}", {"shape": list(tensor.shape), "datatype": "INT8" if name == "q" else "FP32", "data": tensor.ravel().tolist()})
                results += [[s.infer("linear", {"input": x, "weight": service.stored("w")}, binary=True).out,
                             s.infer("conv2d", {"input": image, "weight": service.stored("k")}, binary=True).out,
                             s.infer("matmul", {"self": x, "other": w.T.copy()}, binary=True).out,
                             s.infer("conv2d_channels_last", {"input": pixels, "weight": service.stored("d")}, {"groups": 16, **named}, binary=True).out,
                             s.infer("qlinear_conv", scaled, named, binary=True).out]]
                told, figures = s.call("GET", "/v1/tensors/w").json, self.figures(s)
                forms = packs == "on" and not service.only_reference()
                for name in "wdq": # of q the sums of its channels are a form as well, which is no other order of it
                    packed = [form["form"] for form in s.call("GET", f"/v1/tensors/{name}").json["packed"] if not form["form"].startswith("sums")]
                    self.assertEqual(bool(packed), forms, name)
                self.assertEqual(figures['total{form="first"}'] > 1, forms)
                if forms:
                    self.assertGreaterEqual(figures["bytes"], sum(form["bytes"] for form in told["packed"]))
                    for name in "wkdq":
                        s.call("DELETE", f"/v1/tensors/{name}")
                    self.assertEqual(self.figures(s)["bytes"], 0)
        for on, off in zip(*results):
            np.testing.assert_allclose(on, off, rtol=1e-4, atol=1e-4)

    def test_for_other_shapes(self): # IND-13
        """A form is found again by calls of its kind, whatever their size; one for another kind is a further one, and counted so."""
        self.needs_kernels()
        rng = np.random.default_rng(service.seed())
        w = rng.standard_normal((70, 90)).astype(F32)
        with service.Service("--tune", "off") as s:
            s.call("PUT", "/v1/tensors/w", {"shape": list(w.shape), "datatype": "FP32", "data": w.ravel().tolist()})

            def after(n, kernel):
                x = rng.standard_normal((n, 90)).astype(F32)
                reply = s.infer("linear", {"input": x, "weight": service.stored("w")}, {"kernel": kernel}, binary=True)
                if reply.status != 200:
                    return None
                np.testing.assert_allclose(reply.out, x.astype(np.float64) @ w.T, rtol=1e-4, atol=1e-4)
                figures = self.figures(s)
                return figures['total{form="first"}'], figures['total{form="further"}']
            self.assertEqual([after(n, "simd") for n in (60, 60, 33, 100)], [(1, 0)] * 4)
            if after(60, "onednn"):
                self.assertEqual(after(60, "onednn"), (1, 1))


if __name__ == "__main__":
    service.main()
