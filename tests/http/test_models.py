#!/usr/bin/env python3
"""Whole models over HTTP: their life, calls in every form, limits, and what goes wrong."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import threading
import time

import numpy as np
import onnx

import models
import service
from service import Service, stored

X = np.array([[1, 2, 3], [-1, -2, -3], [0.5, 0, 8]], np.float32)


class Models(service.ServiceTest):
    def put(self, name, file, headers=None, status=201):
        reply = self.service.call("PUT", "/v1/models/" + name, file, headers)
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply

    def infer(self, name, inputs, parameters=None, **how):
        return self.service.infer(name, inputs, parameters, path="/v2/models/{}/infer", **how)

    def right(self, reply):
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def calls_of_a_plan(self, name):
        """The operators of one plan: there may be one for each number of threads."""
        source = self.service.call("GET", f"/v1/models/{name}/source").body.decode()
        return re.findall(r" = ([a-z_0-9]+)[.(]", source.split("\nrun(")[1])

    def names(self):
        return [m["name"] for m in self.service.call("GET", "/v1/models").json["models"]]

    # ---- their life ----

    def test_life(self):
        file = models.line()
        self.problem(self.service.call("GET", "/v1/models/life"), 404, "life")
        said = self.put("life", file).json
        self.assertGreater(said["bytes"], models.WEIGHT.nbytes)
        self.assertGreater(said["load_us"], 0)
        self.assertEqual({k: said[k] for k in ("name", "format", "file_bytes", "nodes", "calls", "inputs", "outputs")}, {
            "name": "life", "format": "onnx", "file_bytes": len(file), "nodes": 3, "calls": 0,
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 3]}],
            "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, 4]}]})
        self.put("life", file, status=200)
        self.right(self.infer("life", {"x": X}))
        self.assertEqual(self.service.call("GET", "/v1/models/life").json["calls"], 1)
        self.assertIn("life", self.names())
        self.assertEqual(self.names(), sorted(self.names()))
        self.problem(self.service.call("GET", "/v1/models/lfe"), 404, "nearest is life")
        self.problem(self.infer("lfe", {"x": X}), 404, "nearest is life")
        reply = self.service.call("DELETE", "/v1/models/life")
        self.assertEqual((reply.status, reply.body), (204, b""))
        self.problem(self.service.call("DELETE", "/v1/models/life"), 404, "life")
        self.problem(self.infer("life", {"x": X}), 404)
        self.assertNotIn("life", self.names())

    def test_any_media_type(self):
        for media in (None, "application/x-onnx", "application/json", "application/x-www-form-urlencoded", "text/plain"):
            self.service.call("DELETE", "/v1/models/media")
            self.put("media", models.line(), {"Content-Type": media} if media else None)

    def test_names(self):
        file = models.line()
        for name in ("a", "A.b_c-9", "x" * 200, "..a", "%61bc", "operator"):
            self.put(name, file)
            self.right(self.infer(name, {"x": X}))
        self.assertIn("abc", self.names())
        for name in ("op.add", "op.mine", "..", "%2e", "a%2fb", "a%20b", "%c3%bc", "x" * 201, "a%0ab"):
            with self.subTest(name=name):
                self.problem(self.service.call("PUT", "/v1/models/" + name, file), 400)
        self.problem(self.service.call("PUT", "/v1/models/a/b", file), 404)

    def test_files_that_are_wrong(self):
        good = models.line()
        self.put("wrong", models.line(3))
        for file in (b"", b"x", b"PK\3\4", b"\0" * 1000, good[:-7], good[:40], b"PK\3\4" + b"\0" * 100, json.dumps({}).encode(),
                     models.onnx_file([("NoSuchOperator", ["x"], ["y"], {})], [models.port("x", [1])], [models.port("y", [1])])):
            with self.subTest(file=file[:40]):
                self.problem(self.service.call("PUT", "/v1/models/wrong", file), 400)
                self.problem(self.service.call("PUT", "/v1/models/wrong-new", file), 400)
        np.testing.assert_allclose(self.right(self.infer("wrong", {"x": X})).outputs["y"], models.line_of(X, 3))
        self.assertNotIn("wrong-new", self.names())
        self.alive()

    def plans(self, name, count=1):
        """What is shown of them: one is made behind the answer to the call that it was recorded of."""
        for _ in range(1000):
            plans = self.service.call("GET", f"/v1/models/{name}/plan").json["plans"]
            if len(plans) >= count:
                break
            time.sleep(0.01)
        return plans

    def test_source(self):
        self.needs_kernels()
        self.put("written", models.line())
        source = lambda query="": self.service.call("GET", "/v1/models/written/source" + query)
        self.assertIn("no plan yet", source().body.decode())
        for eager in 4 * (False,):
            self.right(self.infer("written", {"x": X}, {"eager": eager}))
        self.plans("written")
        self.problem(source("?asm=x"), 400, "asm", "true or false")
        self.problem(source("?asm=1&after=record"), 400, "asm", "after")
        text = source("?asm=0").body.decode()
        self.assertRegex(text, r"run\(FP32\[3,3\] x\)\n{\n    v0 = dense\(x, FP32\[3,4\], activation='relu, mul', others=\[1\]\); // FP32\[3,4\], \w+@\w+")
        self.put("tiles", models.onnx_file([("Softmax", ["x"], ["s"], {}), ("Relu", ["s"], ["r"], {}), ("Mul", ["r", "f"], ["y"], {})],
                                           [models.port("x", ["n", 3])], [models.port("y", ["n", 3])], {"f": np.float32(1).reshape(())}))
        for _ in range(4):
            self.right(self.infer("tiles", {"x": X}))
        self.assertEqual([step.get("in_place") for step in self.plans("tiles")[0]["steps"]], [None, None, True]) # over the softmax
        source = lambda query="": self.service.call("GET", "/v1/models/tiles/source" + query)
        self.assertRegex(source().body.decode(), r" {4}for \(each tile of \[3,3\]\) {\n {8}v1 = relu\(v0\); .* in the cache, .*\n"
                                                 r" {8}v2 = mul.Tensor\(v1, 1\); .* in place, .*\n {4}}\n {4}return v2;\n}")
        self.assertRegex(source("?asm=1").body.decode(), r"    }\n(; loop \d+: relu mul\n|    // not generated: )")
        self.problem(self.service.call("GET", "/v1/models/nosuch/source"), 404)

    def test_plan_of_8_bits(self):
        """What a static quantizer writes stays in 8 bits, with channels last, from the first convolution to the last."""
        pair = lambda name, scale: [("QuantizeLinear", [name, scale, "z"], [name + "q"], {}), ("DequantizeLinear", [name + "q", scale, "z"], [name + "f"], {})]
        conv = lambda name, to: ("Conv", [name + "f", "wf", "bf"], [to], {"pads": [1, 1, 1, 1]})
        nodes = [("DequantizeLinear", ["w", "ws", "wz"], ["wf"], {}), ("DequantizeLinear", ["b", "bs", "bz"], ["bf"], {}), *pair("x", "s"), conv("x", "c"), ("Relu", ["c"], ["r"], {}), *pair("r", "s"),
                 ("MaxPool", ["rf"], ["p"], {"kernel_shape": [2, 2], "strides": [2, 2]}), *pair("p", "s"), conv("p", "y"), *pair("y", "s")]
        rng = np.random.default_rng(service.seed())
        values = {"s": np.float32(0.05), "z": np.uint8(0), "ws": np.float32(0.02), "wz": np.int8(0), "bs": np.float32(0.05) * np.float32(0.02), "bz": np.int32(0),
                  "w": rng.integers(-99, 100, (3, 3, 3, 3)).astype(np.int8), "b": rng.integers(-99, 100, 3).astype(np.int32)}
        self.put("eighths", models.onnx_file(nodes, [models.port("x", [1, 3, 8, 8])], [models.port("yf", [1, 3, 4, 4])], values))
        x = rng.uniform(0, 5, (1, 3, 8, 8)).astype(np.float32)
        self.right(self.infer("eighths", {"x": x}))
        self.plans("eighths")
        calls = self.calls_of_a_plan("eighths")
        heavy = [op for op in calls if op in ("permute", "qlinear_conv", "conv2d_channels_last", "convolution", "max_pool2d", "max_pool3d")]
        self.assertEqual(heavy, ["permute", "qlinear_conv", "max_pool3d", "qlinear_conv"] + ["permute"] * (len(heavy) > 4)) # unless what reads it reads strides

    def test_plan_of_dynamic_8_bits(self):
        """What a dynamic quantizer writes of a product is one call, and one more for all that read the same 8 bits."""
        scaled = lambda name, to: [("Mul", ["s", name + "s"], [name + "m"], {}), ("MatMulInteger", ["q", name, "z", "none"], [name + "i"], {}),
                                   ("Cast", [name + "i"], [name + "c"], {"to": 1}), ("Mul", [name + "c", name + "m"], [to], {})]
        nodes = [("DynamicQuantizeLinear", ["x"], ["q", "s", "z"], {}), *scaled("a", "af"), ("Add", ["bias", "af"], ["ab"], {}), ("Relu", ["ab"], ["y"], {}), *scaled("b", "w")]
        rng = np.random.default_rng(service.seed())
        w = {name: rng.integers(-99, 100, (40, 9)).astype(np.int8) for name in "ab"}
        values = {**w, "as": np.float32(rng.uniform(0.01, 0.02, 9)), "bs": np.float32(0.02), "none": np.int8(0), "bias": np.float32(rng.normal(0, 1, 9))}
        self.put("dynamic", models.onnx_file(nodes, [models.port("x", [5, 40])], [models.port("y", [5, 9]), models.port("w", [5, 9])], values))
        x = rng.normal(0, 1, (5, 40)).astype(np.float32)
        got = self.right(self.infer("dynamic", {"x": x}))
        right = x @ (w["a"] * values["as"]) + values["bias"], x @ (w["b"] * values["bs"])
        within = [np.abs(w["a"] * values["as"]).sum(0).max(), np.abs(w["b"] * values["bs"]).sum(0).max()]
        for out, y, one in zip("yw", (np.maximum(right[0], 0), right[1]), within): # a step of the 8 bits is off by half of it
            self.assertLess(np.abs(got.outputs[out] - y).max(), one * (x.max() - x.min()) / 255)
        self.plans("dynamic")
        calls = self.calls_of_a_plan("dynamic")
        self.assertEqual(sorted(calls), ["dynamic_quantize_linear", "matmul_integer_to_float", "matmul_integer_to_float", "relu"])

    def test_plan_of_scaled_weights(self):
        """Weights that a file keeps in INT8 stay so: by a Cast and a Mul, or DequantizeLinear, of MatMul and Gemm. Elements are those of FP32."""
        rng = np.random.default_rng(service.seed())
        k, n = 260, 1100
        w = {name: rng.integers(-127, 128, shape).astype(np.int8) for name, shape in (("a", (k, n)), ("b", (n, k)), ("c", (n, k)), ("d", (k, n)), ("e", (k, n)), ("f", (k, n)))}
        scale = {name: rng.uniform(0.01, 0.02, shape).astype(np.float32) for name, shape in (("a", (1, n)), ("b", (1, k)), ("c", (n,)), ("d", ()), ("e", (k, 1)), ("f", (n,)))}
        zero = np.zeros(n, np.int8)
        multiplied = lambda name, turn=False: [("Cast", [name], [name + "c"], {"to": 1}), ("Mul", [name + "s", name + "c"][::-1 if turn else 1], [name + "f"], {})]
        nodes = [*multiplied("a"), ("MatMul", ["x", "af"], ["am"], {}), ("Add", ["am", "bias"], ["ab"], {}), ("Relu", ["ab"], ["y1"], {}),
                 *multiplied("b", True), ("MatMul", ["y1", "bf"], ["y2"], {}),
                 ("DequantizeLinear", ["c", "cs", "zero"], ["cf"], {"axis": 0}), ("Gemm", ["x", "cf", "bias"], ["y3"], {"transB": 1}),
                 ("DequantizeLinear", ["d", "ds"], ["df"], {}), ("Gemm", ["x", "df"], ["y4"], {}),
                 *multiplied("e"), ("MatMul", ["x", "ef"], ["y5"], {}),                                      # its scales are of rows
                 ("DequantizeLinear", ["f", "fs", "one"], ["ff"], {}), ("MatMul", ["x", "ff"], ["y6"], {})]  # its zero is 1
        values = {**w, **{name + "s": s for name, s in scale.items()}, "zero": zero, "one": zero + np.int8(1), "bias": rng.normal(0, 1, n).astype(np.float32)}
        outs = {"y1": n, "y2": k, "y3": n, "y4": n, "y5": n, "y6": n}
        self.put("scaled", models.onnx_file(nodes, [models.port("x", [7, k])], [models.port(y, [7, width]) for y, width in outs.items()], values))
        floats = {name + "f": (w[name].astype(np.float32) - np.float32(name == "f")) * (scale[name] if name != "c" else scale[name][:, None]) for name in w}
        plain = [node for node in nodes if node[0] in ("MatMul", "Gemm", "Add", "Relu")]
        self.put("floats", models.onnx_file(plain, [models.port("x", [7, k])], [models.port(y, [7, width]) for y, width in outs.items()], {**floats, "bias": values["bias"]}))
        x = rng.normal(0, 1, (7, k)).astype(np.float32)
        got, again, eager = (self.right(self.infer("scaled", {"x": x}, how)).outputs for how in ({}, {}, {"eager": True}))
        right = {y: x.astype(np.float64) @ floats[name + "f"].astype(np.float64).T if name == "c" else (got["y1"] if name == "b" else x).astype(np.float64) @ floats[name + "f"]
                 for y, name in zip(outs, "abcdef")}
        right["y1"] = np.maximum(right["y1"] + values["bias"], 0)
        right["y3"] += values["bias"]
        plain = self.right(self.infer("floats", {"x": x})).outputs
        for y in outs:
            np.testing.assert_allclose(got[y], right[y], rtol=1e-4, atol=1e-3, err_msg=y)
            np.testing.assert_allclose(eager[y], right[y], rtol=1e-4, atol=1e-3, err_msg=y)
            np.testing.assert_array_equal(again[y], got[y], err_msg=y)
            if y != "y3": # addmm adds its bias last
                np.testing.assert_array_equal(plain[y], got[y], err_msg=y)
        self.plans("scaled")
        calls = self.calls_of_a_plan("scaled")
        self.assertEqual((calls.count("dense_scaled"), calls.count("linear_scaled")), (3, 1), calls)
        kept = {m["name"]: m["bytes"] for m in self.service.call("GET", "/v1/models").json["models"]}
        self.assertLess(kept["scaled"], 0.6 * kept["floats"])

    def test_scales_of_square_weights(self):
        """Which scale is whose follows from where it stands, not from how many there are; other weights become FP32, and all answers are right."""
        rng = np.random.default_rng(service.seed())
        k = 1024
        w, narrow = rng.integers(-127, 128, (k, k)).astype(np.int8), rng.integers(-127, 128, (k, 31)).astype(np.int8)
        values = {"w": w, "v": narrow, "row": rng.uniform(0.01, 0.02, k).astype(np.float32), "z": np.zeros(k, np.int8), "c": rng.normal(0, 1, (1, k)).astype(np.float32), "one": np.float32(0.5)}
        values["column"] = values["row"][:, None]
        cast = lambda name, scale, to, **how: [("Cast", [name], [to + "c"], {"to": 1}), ("Mul", [to + "c", scale], [to + "f"], how)]
        back = lambda axis, to: [("DequantizeLinear", ["w", "row", "z"], [to + "f"], {"axis": axis})]
        product = lambda to, op="MatMul", *more, **how: [(op, ["x", to + "f", *more], [to], how)]
        columns, rows = (w.astype(np.float32) * values[name] for name in ("row", "column"))
        cases = { # nodes, the matrix that they mean, and how many calls read INT8
            "y1": ([*cast("w", "row", "y1"), *product("y1")], columns, 1),
            "y2": ([*cast("w", "column", "y2"), *product("y2")], rows, 0),
            "y3": ([*back(1, "y3"), *product("y3")], columns, 1),
            "y4": ([*back(0, "y4"), *product("y4")], rows, 0),
            "y5": ([*back(-2, "y5"), *product("y5", "Gemm", transB=1)], rows.T, 1),
            "y6": ([*cast("w", "row", "y6"), *product("y6", "Gemm", transB=1)], columns.T, 0),
            "y7": ([*cast("w", "column", "y7"), *product("y7", "Gemm", transB=1)], rows.T, 1),
            "y8": ([*cast("w", "row", "y8"), *product("y8", "Gemm", alpha=2.0)], columns * 2, 0),
            "y9": ([*cast("w", "row", "y9"), *product("y9", "Gemm", "c")], (columns, values["c"]), 0),
            "y10": ([*cast("v", "one", "y10"), *product("y10")], narrow * np.float32(0.5), 0), # its columns do not fill a panel
        }
        x = rng.normal(0, 1, (5, k)).astype(np.float32)
        right = {y: x.astype(np.float64) @ m[0] + m[1] if type(m) is tuple else x.astype(np.float64) @ m for y, (_, m, _) in cases.items()}
        ports = [models.port("x", [5, k])], [models.port(y, right[y].shape) for y in cases]
        self.put("square", models.onnx_file([node for nodes, _, _ in cases.values() for node in nodes], *ports, values))
        got = self.right(self.infer("square", {"x": x})).outputs
        for y in cases:
            np.testing.assert_allclose(got[y], right[y], rtol=1e-4, atol=1e-3, err_msg=y)
        calls = self.calls_of_a_plan("square")
        self.assertEqual(calls.count("dense_scaled") + calls.count("linear_scaled"), sum(n for _, _, n in cases.values()))
        old = [*cast("w", "row", "y", broadcast=1, axis=0), *product("y")] # as up to operator set 6
        self.put("old", models.onnx_file(old, [models.port("x", [5, k])], [models.port("y", [5, k])], values, opset=6))
        np.testing.assert_allclose(self.right(self.infer("old", {"x": x})).outputs["y"], right["y2"], rtol=1e-4, atol=1e-3)
        no = self.put("misfit", models.onnx_file([*cast("w", "row", "y"), *product("y")], [models.port("x", ["n", 5])], [models.port("y", ["n", k])], values), status=400)
        self.assertIn("they must be equal", no.json["error"])

    def test_constants_of_plans(self):
        """Large constants that plans compute, here FP32 of four bits a number with zeros in FP32, count as the plans' memory: older plans leave."""
        k = 2048
        values = {"b": np.full((k, k // 32, 16), 0x9a, np.uint8), "s": np.full((k, k // 32), 0.5, np.float32), "z": np.full((k, k // 32), 8.5, np.float32)}
        file = models.onnx_file([], [models.port("x", ["n", k])], [models.port("y", ["n", k])], values)
        model = onnx.load_from_string(file)
        model.graph.node.append(onnx.helper.make_node("MatMulNBits", ["x", "b", "s", "z"], ["y"], domain="com.microsoft", K=k, N=k, bits=4, block_size=32))
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        self.put("floating_zeros", model.SerializeToString())
        for rows in range(1, 21): # 16 MiB each
            y = self.right(self.infer("floating_zeros", {"x": np.ones((rows, k), np.float32)})).outputs["y"]
            np.testing.assert_array_equal(y, np.full((rows, k), k / 2 * 0.5 * 2, np.float32)) # of 10 and 9, less 8.5
        plan = lambda: self.service.call("GET", "/v1/models/floating_zeros/plan").json
        before = plan()
        self.assertGreaterEqual(before["evicted_plans"], 4)
        for _ in range(6):
            self.right(self.infer("floating_zeros", {"x": np.ones((20, k), np.float32)}))
        self.assertLessEqual(plan()["recorded_plans"], before["recorded_plans"] + 1) # another one if it is for another number of threads

    def test_plan_of_dynamic_images(self):
        """Convolutions of a dynamic quantizer keep channels last, through what makes 8 bits of their results."""
        conv = lambda x, w, to, **how: [("DynamicQuantizeLinear", [x], [to + "q", to + "s", to + "z"], {}), ("Mul", [to + "s", "ws"], [to + "m"], {}),
                                        ("ConvInteger", [to + "q", w, to + "z", "wz"], [to + "i"], {"pads": [1, 1, 1, 1], **how}),
                                        ("Cast", [to + "i"], [to + "c"], {"to": 1}), ("Mul", [to + "c", to + "m"], [to + "f"], {})]
        nodes = [("Reshape", ["b", "sizes"], ["br"], {}), *conv("x", "u", "a"), ("Add", ["af", "br"], ["ab"], {}), ("Relu", ["ab"], ["r"], {}), *conv("r", "v", "y", group=8)]
        rng = np.random.default_rng(service.seed())
        u, v = (rng.integers(-99, 100, shape).astype(np.int8) for shape in ((8, 3, 3, 3), (8, 1, 3, 3)))
        values = {"u": u, "v": v, "ws": np.float32(0.02), "wz": np.int8(0), "b": np.float32(rng.normal(0, 1, 8)), "sizes": np.int64([1, -1, 1, 1])}
        file = models.onnx_file(nodes, [models.port("x", [1, 3, 9, 7])], [models.port("yf", [1, 8, 9, 7])], values)
        self.put("images", file)
        x = rng.normal(0, 1, (1, 3, 9, 7)).astype(np.float32)
        eager = self.right(self.infer("images", {"x": x}, {"eager": True})).outputs["yf"]
        np.testing.assert_array_equal(self.right(self.infer("images", {"x": x})).outputs["yf"], eager)
        self.plans("images")
        calls = self.calls_of_a_plan("images")
        self.assertEqual(calls, ["dynamic_quantize_linear", "permute", "conv_integer_to_float", "relu", "dynamic_quantize_linear", "conv_integer_to_float", "permute"])

    def test_source_after_a_pass(self):
        """One node through the passes: normed, then a part of the convolution's weights, then without its permutes."""
        self.needs_kernels()
        c = np.arange(1, 5, dtype=np.float32)
        file = models.onnx_file(
            [("Conv", ["x", "w"], ["c"], {}), ("BatchNormalization", ["c", "s", "s", "s", "s"], ["b"], {}), ("Relu", ["b"], ["y"], {})],
            [models.port("x", [1, 3, 8, 8])], [models.port("y", [1, 4, 6, 6])], {"w": np.ones((4, 3, 3, 3), np.float32), "s": c})
        self.put("normed", file)
        after = lambda name, model="normed": self.service.call("GET", f"/v1/models/{model}/source?after={name}")
        self.problem(after("record"), 404, "no plan yet")
        self.right(self.infer("normed", {"x": np.ones((1, 3, 8, 8), np.float32)}))
        plan = self.service.call("GET", "/v1/models/normed/plan").json
        calls = lambda name: re.findall(r" = ([a-z_0-9]+)[.(]", after(name).body.decode())
        self.assertEqual(calls("record"), ["convolution", "batch_norm", "relu"])
        self.assertEqual(calls("clean"), calls("record"))
        self.assertEqual(calls("fold_batch_norm"), ["convolution", "relu"])
        self.assertEqual(calls("post_ops")[-1], calls("views")[-1])
        self.assertNotIn("relu", calls("post_ops"))
        self.assertRegex(after("record").body.decode(), r"^// as recorded, before the passes\n// \d+ threads?\nrun\(FP32\[1,3,8,8\] x\)\n{\n {4}v0 = ")
        self.assertIn("// after fold_batch_norm, which changed 1 steps and left 0\n", after("fold_batch_norm").body.decode())
        self.assertIn("    return v2;\n}", after("record").body.decode())
        self.problem(after("nosuch"), 400, "record, clean, fold_batch_norm")
        self.assertEqual(self.service.call("GET", "/v1/models/normed/plan").json, plan)
        self.put("halved", models.doubling())
        self.right(self.infer("halved", {"x": np.ones(3, np.float32)}))
        self.assertIn("    // what comes next depends on values:\n    return ", after("record", "halved").body.decode())

    def test_times_are_shown_while_a_plan_runs(self):
        """What a plan says does not depend on whether it runs at the moment, or its results are being sent."""
        x = np.ones((1, 3, 64, 64), np.float32)
        file = models.onnx_file([("Conv", ["x", "w"], ["y"], {})], [models.port("x", x.shape)], [models.port("y", [1, 64, 58, 58])],
                                {"w": np.ones((64, 3, 7, 7), np.float32)})
        self.put("timed", file)
        self.right(self.infer("timed", {"x": x}))
        done = threading.Event()
        caller = threading.Thread(target=lambda: [self.infer("timed", {"x": x}) for _ in iter(done.is_set, True)])
        caller.start()
        try:
            for _ in range(100):
                for plan in self.service.call("GET", "/v1/models/timed/plan").json["plans"]: # of a team and, on a busy machine, of one thread
                    self.assertEqual(plan["turns"], 1)
                    self.assertGreater(sum(step["us"] for step in plan["steps"]), 0)
                self.assertRegex(self.service.call("GET", "/v1/models/timed/source").body.decode(), r"conv\w*.* us\b")
        finally:
            done.set()
            caller.join()

    def test_plan_says_what_was_generated(self):
        self.needs_kernels()
        w = np.linspace(-1, 1, 128).astype(np.float32)
        file = models.onnx_file([("Mul", ["x", "w"], ["a"], {}), ("Add", ["a", "x"], ["b"], {}), ("Tanh", ["b"], ["c"], {}), ("Relu", ["c"], ["y"], {})],
                                [models.port("x", ["n", 128])], [models.port("y", ["n", 128])], {"w": w})
        x = np.linspace(-2, 2, 64 * 128).astype(np.float32).reshape(64, 128)
        for level in ("avx512", "avx2", "default"):
            for jit in ("on", "off"):
                with service.Service("--cpu-capability", level, "--jit", jit) as s:
                    self.assertEqual(s.call("PUT", "/v1/models/chain", file).status, 201)
                    reply = s.infer("chain", {"x": x}, path="/v2/models/{}/infer")
                    np.testing.assert_allclose(reply.outputs["y"], np.maximum(np.tanh(x * w + x), 0), rtol=1e-5)
                    steps = s.call("GET", "/v1/models/chain/plan").json["plans"][0]["steps"]
                    why = None if jit == "on" else "generating code is switched off"
                    if steps[0]["isa"] == "DEFAULT":
                        why = "its level is below AVX2"
                    self.assertEqual([(step["kernel"] == "jit", step.get("not_generated")) for step in steps], [(not why, why)] * 4, level)
                    asm = s.call("GET", "/v1/models/chain/source?asm=1").body.decode()
                    self.assertNotIn("; loop", s.call("GET", "/v1/models/chain/source").body.decode())
                    if why:
                        self.assertIn("// not generated: " + why, asm)
                    else: # between the loop over tiles and what is returned
                        self.assertRegex(asm, r"    }\n; loop 0: mul plus tanh relu\n(?s:.*) ret\n(?s:.*)\n    return ")

    def test_plan(self):
        self.needs_kernels()
        self.put("planned", models.line())
        plan = self.service.call("GET", "/v1/models/planned/plan").json
        self.assertEqual(plan["operators"], [{"operator": op, "nodes": 1} for op in ("MatMul", "Mul", "Relu")])
        self.assertEqual((plan["nodes"], plan["inner_nodes"], plan["plans"]), (3, 0, []))
        for rows in (1, 2):
            for eager in (True,) + 20 * (False,): # what comes again gets a plan, for a team and for one thread
                self.right(self.infer("planned", {"x": X[:rows]}, {"eager": eager}))
            self.plans("planned", rows)
        plans = self.plans("planned")
        self.assertEqual({str(p["inputs"][0]["shape"]) for p in plans}, {"[2, 3]", "[1, 3]"})
        for plan in plans:
            self.assertIsNone(plan["op_by_op"])
            self.assertEqual([step["operator"] for step in plan["steps"]], ["dense"])
            self.assertEqual(plan["steps"][-1]["shape"], [plan["inputs"][0]["shape"][0], 4])
        self.put("planned", models.forever(), status=200)
        plan = self.service.call("GET", "/v1/models/planned/plan").json
        self.assertEqual((plan["nodes"], plan["inner_nodes"]), (3, 2))
        for _ in range(20):
            self.right(self.infer("planned", {"n": np.array(2), "x": X[0, :1]}))
        plan, *_ = self.plans("planned")
        self.assertEqual([i["fixed"] for i in plan["inputs"]], [True, False])
        for n in range(3, 20): # one that is another each time is walked
            self.right(self.infer("planned", {"n": np.array(n), "x": X[0, :1]}))
        shown = self.service.call("GET", "/v1/models/planned/plan").json
        self.assertEqual(shown["deciding_inputs"], ["n"])
        self.assertEqual({p["inputs"][0]["fixed"] for p in shown["plans"]}, {True})
        self.assertLessEqual((shown["recorded_plans"], shown["evicted_plans"]), (4, 0))
        self.problem(self.service.call("GET", "/v1/models/nosuch/plan"), 404)

    # ---- the protocol ----

    def test_metadata(self):
        self.put("meta", models.two())
        want = {"name": "meta", "versions": ["1"], "platform": "onnx",
                "inputs": [{"name": "a", "datatype": "FP32", "shape": [-1, 2]}, {"name": "b", "datatype": "FP32", "shape": [2]}],
                "outputs": [{"name": n, "datatype": "FP32", "shape": [-1, 2]} for n in ("sum", "product")]
                + [{"name": "shape", "datatype": "INT64", "shape": [2]}]}
        for path in ("/v2/models/meta", "/v2/models/meta/versions/1"):
            self.assertEqual(self.service.call("GET", path).json, want)
            self.assertEqual(self.service.call("GET", path + "/ready").json, {"name": "meta", "ready": True})
            config = self.service.call("GET", path + "/config").json
            self.assertEqual((config["name"], config["max_batch_size"]), ("meta", 0))
            self.assertEqual(config["input"], [{"name": "a", "data_type": "TYPE_FP32", "dims": [-1, 2]},
                                               {"name": "b", "data_type": "TYPE_FP32", "dims": [2]}])
            self.assertEqual(config["output"][2], {"name": "shape", "data_type": "TYPE_INT64", "dims": [2]})
        for path in ("/v2/models/meta/versions/2", "/v2/models/meta/versions/2/ready", "/v2/models/meta/versions/2/config",
                     "/v2/models/nosuch", "/v2/models/nosuch/config"):
            self.problem(self.service.call("GET", path), 404)
        for body in (b"0", b"{", [], {"ready": 1}):
            self.problem(self.service.call("POST", "/v2/repository/index", body), 400)
        for body in (None, b"", {"ready": True}):
            index = self.service.call("POST", "/v2/repository/index", body).json
            self.assertIn({"name": "meta", "version": "1", "state": "READY"}, index)

    def test_outputs_that_a_file_leaves_open(self):
        """Sizes that every call has are known when a model is loaded; those that values or free sizes decide are not."""
        nodes = [("MatMul", ["x", "w"], ["y"], {}), ("NonZero", ["y"], ["places"], {}), ("Transpose", ["y"], ["turned"], {}),
                 ("Transpose", ["w"], ["constant"], {})]
        outputs = [models.port("y", None), models.port("places", ["two", "n"], "INT64"), models.port("turned", [4, "rows"]),
                   models.port("constant", ["a", "b"])]
        for rows, want in ((5, [[5, 4], [-1, -1], [4, 5], [4, 3]]), ("n", [[-1], [-1, -1], [4, -1], [4, 3]])):
            file = models.onnx_file(nodes, [models.port("x", [rows, 3])], outputs, {"w": models.WEIGHT})
            self.put("open", file)
            found = self.service.call("GET", "/v2/models/open").json["outputs"]
            self.assertEqual([out["shape"] for out in found], want)
            reply = self.infer("open", {"x": np.ones((5, 3), np.float32)})
            self.assertEqual([out["shape"] for out in reply.json["outputs"]], [[5, 4], [2, 15], [4, 5], [4, 3]])
            self.assertEqual(self.service.call("DELETE", "/v1/models/open").status, 204)

    def test_results_that_a_call_has_not(self):
        """How many there are may follow from sizes: what is beyond them is refused, not read."""
        x = {"name": "x", "datatype": "FP32", "shape": [-1]}
        for name, expr in (("alone", "chunk(x, 3)[2] + 1"), ("listed", "cat([chunk(x, 3)[0], chunk(x, 3)[2]])"),
                           ("given", "y = chunk(x, 3)[2]; z = x * 2"), ("one", "y = split(x, 2)[1]")):
            self.put(name, json.dumps({"inputs": [x], "expr": expr}))
            for n in (2, 1, 2, 2, 2, 3):
                reply = self.infer(name, {"x": np.ones(n, np.float32)})
                if n == 3:
                    self.assertEqual(reply.status, 200, reply.body)
                else:
                    self.problem(reply, 400, "is none of them")

    def test_outputs_of_an_expression(self):
        """They are inferred from inputs' shapes, unknown sizes among them; where that cannot be, by a call."""
        x = {"name": "x", "datatype": "INT8", "shape": [-1, 3]}
        w = {"name": "w", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}
        for expr, outputs in (("y = relu(linear(x / 1, w)); best = argmax(y, 1)", [("y", "FP32", [-1, 2]), ("best", "INT64", [-1])]),
                              ("y = cat([w, w], 0); n = sum(x); some = nonzero(x)", [("y", "FP32", [4, 3]), ("n", "INT64", []), ("some", "INT64", [-1, 2])]),
                              ("y = x / index_select(w, 0, select(nonzero(w), 1, 0))", [("y", "FP32", [-1, -1])])):
            self.put("inferred", json.dumps({"inputs": [x], "constants": [w], "expr": expr}))
            found = self.service.call("GET", "/v2/models/inferred").json["outputs"]
            self.assertEqual([(out["name"], out["datatype"], out["shape"]) for out in found], outputs)
            self.assertEqual(self.service.call("DELETE", "/v1/models/inferred").status, 204)
        huge = {"inputs": [{**x, "shape": [9 * 10**15] * 8}], "expr": "relu(x)"}
        self.put("inferred", json.dumps(huge))

    def test_archive(self):
        """PyTorch's archive in place of an ONNX file, under the same name."""
        self.put("either", models.line(2))
        self.put("either", models.line_pt2(), status=200)
        said = self.service.call("GET", "/v1/models/either").json
        self.assertEqual((said["format"], said["inputs"][0]["name"], said["inputs"][0]["shape"]), ("pt2", "x", [-1, 3]))
        self.assertEqual(self.service.call("GET", "/v2/models/either").json["platform"], "pytorch_pt2")
        for parameters in ({}, {}, {"eager": True}):
            for binary in (False, True):
                reply = self.right(self.infer("either", {"x": X}, parameters, binary=binary))
                np.testing.assert_allclose(reply.outputs[said["outputs"][0]["name"]], models.line_of(X))
        plan = self.service.call("GET", "/v1/models/either/plan").json
        self.assertLessEqual({"mm", "relu"}, {o["operator"] for o in plan["operators"]})

    def test_every_form(self):
        self.put("forms", models.two())
        a, b = X[:, :2].copy(), np.array([10, 0.5], np.float32)
        want = {"sum": a + b, "product": a * b, "shape": np.array([3, 2])}
        for binary in (False, True):
            for path in ("/v2/models/{}/infer", "/v2/models/{}/versions/1/infer"):
                reply = self.right(self.service.infer("forms", {"b": b, "a": a}, path=path, binary=binary, id="seven"))
                self.assertEqual((reply.json["model_name"], reply.json["model_version"], reply.json["id"]), ("forms", "1", "seven"))
                self.assertEqual([o["name"] for o in reply.json["outputs"]], list(want))
                for name, value in reply.outputs.items():
                    np.testing.assert_array_equal(value, want[name])
                    self.assertEqual(value.dtype, want[name].dtype)
        some = [{"name": "shape"}, {"name": "product", "parameters": {"binary_data": True}}]
        reply = self.right(self.infer("forms", {"a": a, "b": b}, outputs=some))
        self.assertEqual([o["name"] for o in reply.json["outputs"]], ["product", "shape"])
        np.testing.assert_array_equal(reply.outputs["product"], want["product"])
        self.problem(self.infer("forms", {"a": a, "b": b}, outputs=[{"name": "prod"}]), 400, "forms has no 'prod'")
        self.problem(self.infer("forms", {"a": a, "b": b}, outputs=[{"name": "sum"}] * 2), 400, "twice")
        empty = self.right(self.infer("forms", {"a": a[:0], "b": b}, binary=True)).outputs
        self.assertEqual((empty["sum"].shape, empty["shape"].tolist()), ((0, 2), [0, 2]))

    def test_stored_tensors(self):
        self.put("keeps", models.line())
        self.service.call("PUT", "/v1/tensors/in", {"shape": [3, 3], "datatype": "FP32", "data": X.ravel().tolist()})
        reply = self.right(self.infer("keeps", {"x": stored("in")}, outputs=[{"name": "y", "parameters": {"tensor": "out"}}]))
        self.assertEqual(reply.json["outputs"], [{"name": "y", "datatype": "FP32", "shape": [3, 4], "parameters": {"tensor": "out"}}])
        self.assertEqual(self.service.call("GET", "/v1/tensors/out").json["data"], models.line_of(X).ravel().tolist())
        self.put("again", models.identity(shape=("n", 3)))
        self.right(self.infer("again", {"x": stored("in")}, outputs=[{"name": "y", "parameters": {"tensor": "in"}}]))
        self.assertEqual(self.service.call("GET", "/v1/tensors/in").json["data"], X.ravel().tolist())

    def test_shared_memory(self):
        key, region = f"tensord_models_{os.getpid()}", "/v2/systemsharedmemory/region/models"
        place = np.memmap("/dev/shm/" + key, np.float32, "w+", shape=64)
        self.addCleanup(os.unlink, "/dev/shm/" + key)
        place[:9] = X.ravel()
        self.assertEqual(self.service.call("POST", region + "/register", {"key": "/" + key, "byte_size": 256}).status, 200)
        self.addCleanup(self.service.call, "POST", region + "/unregister")
        def at(offset, size):
            return {"parameters": {"shared_memory_region": "models", "shared_memory_offset": offset, "shared_memory_byte_size": size}}
        given = {"x": {**at(0, 36), "shape": [3, 3], "datatype": "FP32"}}
        self.put("shared", models.line(2))
        reply = self.right(self.infer("shared", given, outputs=[{"name": "y", **at(64, 192)}]))
        self.assertEqual(reply.json["outputs"], [{"name": "y", "datatype": "FP32", "shape": [3, 4]}])
        np.testing.assert_array_equal(place[16:28].reshape(3, 4), models.line_of(X, 2))
        self.problem(self.infer("shared", given, outputs=[{"name": "y", **at(64, 40)}]), 400, "48 bytes")
        self.put("same", models.identity(shape=("n", 3)))
        for offset in (0, 64): # a result that is its input, onto it and elsewhere
            self.right(self.infer("same", given, outputs=[{"name": "y", **at(offset, 36)}]))
            np.testing.assert_array_equal(place[offset // 4:][:9], X.ravel())
        self.problem(self.infer("same", given, outputs=[{"name": "y", **at(4, 36)}]), 400, "overlaps")

    def test_tasks(self): # RT-25
        self.put("later", models.line())
        body, headers = service.pack({"x": X}, binary=True)
        path = "/v2/models/later/infer"
        where = []
        for _ in range(20):
            reply = self.service.call("POST", path, body, {**headers, "Prefer": "respond-async"})
            self.assertEqual(reply.status, 202)
            where.append(reply.headers["Location"])
        self.assertEqual(self.service.call("DELETE", "/v1/models/later").status, 204) # those that wait have it
        for task in where:
            reply = self.right(self.service.call("GET", task + "?wait=30"))
            np.testing.assert_allclose(reply.outputs["y"], models.line_of(X))

    def test_odd_names(self):
        for name in ("input.1", "/model/in:0", "ü", "a b\n", 'quo"te', "n" * 300, "x.0", "self"):
            with self.subTest(name=name):
                self.service.call("DELETE", "/v1/models/odd")
                self.put("odd", models.two(name, "other"))
                reply = self.right(self.infer("odd", {name: X[:, :2], "other": X[0, :2]}))
                np.testing.assert_array_equal(reply.outputs["sum"], X[:, :2] + X[0, :2])
                self.assertEqual(self.service.call("GET", "/v2/models/odd").json["inputs"][0]["name"], name)

    def test_names_that_are_no_text(self):
        """A file may name its tensors with any bytes; replies write what is no UTF-8 as U+FFFD, and requests may, too."""
        file = models.identity("\u00e4\u00e4x", "\u00e4\u00e4y").replace("\u00e4\u00e4".encode(), b"\xff\xfe\x80\xc3")
        self.put("bytes", file)
        name = "\ufffd\ufffd\ufffd\ufffd"
        self.assertEqual(self.service.call("GET", "/v2/models/bytes").json["inputs"][0]["name"], name + "x")
        reply = self.right(self.infer("bytes", {name + "x": X[0]}, outputs=[{"name": name + "y"}]))
        np.testing.assert_array_equal(reply.outputs[name + "y"], X[0])

    # ---- what can be wrong with a call ----

    def test_inputs_that_are_wrong(self):
        self.put("strict", models.two())
        a, b = X[:, :2], X[0, :2]
        self.problem(self.infer("strict", {}), 400, "'a' is missing", "a FP32 [-1,2], b FP32 [2]")
        self.problem(self.infer("strict", {"a": a}), 400, "'b' is missing", "b FP32 [2]")
        self.problem(self.infer("strict", {"a": a, "b": b, "c": b}), 400, "has no 'c'", "a FP32")
        for wrong in (X, a[0], a.astype(np.float64), a.astype(np.int64), a[None]):
            self.problem(self.infer("strict", {"a": wrong, "b": b}), 400, "a")
        twice = {"name": "a", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
        path = "/v2/models/strict/infer"
        for body in (b"", b"{", b"[]", {"inputs": {}}, {"inputs": [twice, twice]}, {"inputs": [1]}, {"args": [twice]}, {"x": [1]},
                     {"inputs": [{**twice, "name": ""}]}, {"inputs": [{**twice, "data": [1]}]}, {"inputs": [{**twice, "shape": [2**40, 2**40]}]}):
            with self.subTest(body=body):
                self.problem(self.service.call("POST", path, body), 400)
        good = {"inputs": [twice, {**twice, "name": "b", "shape": [2]}]}
        self.right(self.service.call("POST", path, {**good, "model_name": "strict"}))
        self.alive()

    def test_parameters(self):
        self.put("asked", models.line())
        for parameters in ({}, {"eager": False}, {"eager": True}, {"kernel": "model"}, {"kernel": "eager"}, {"timeout_ms": 1000},
                           {"priority": 1}, {"pool": "default"}, {"explain": True}):
            reply = self.right(self.infer("asked", {"x": X}, parameters))
            np.testing.assert_allclose(reply.outputs["y"], models.line_of(X))
            eager = parameters.get("eager") or parameters.get("kernel") == "eager"
            self.assertEqual((reply.parameters["kernel"], reply.parameters["pool"]), ("eager" if eager else "model", "default"))
            self.assertGreater(reply.parameters["compute_us"], 0)
        record = self.right(self.infer("asked", {"x": X}, {"explain": True})).parameters["explain"]
        self.assertEqual((record["model"], record["format"], record["nodes"], record["eager"]), ("asked", "onnx", 3, False))
        self.assertGreaterEqual(record["calls"], 1)
        for parameters, word in (({"kernel": "simd"}, "model and eager"), ({"eager": 1}, "true or false"), ({"eagre": True}, "nearest is eager"),
                                 ({"alpha": 2}, "alpha"), ({"trace": True}, "trace"), ({"autocast": "BF16"}, "autocast"),
                                 ({"meta": True}, "meta"), ({"streams": "x"}, "streams"), ({"triton_x": 1}, "reserved")):
            with self.subTest(parameters=parameters):
                self.problem(self.infer("asked", {"x": X}, parameters), 400, word)
        self.problem(self.infer("asked", {"x": X}, {"pool": "nosuch"}), 404, "nosuch")

    def test_time(self):
        self.put("forever", models.forever())
        begin = time.monotonic()
        n = np.array(10**15)
        self.problem(self.infer("forever", {"n": n, "x": X[0, :1]}, {"timeout_ms": 300}), 504, "300 ms")
        self.assertLess(time.monotonic() - begin, 20)
        few = self.right(self.infer("forever", {"n": np.array(3), "x": X[0, :1]}))
        self.assertEqual(few.outputs["y"].tolist(), [8])
        task = self.service.call("POST", "/v2/models/forever/infer", service.pack({"n": n, "x": X[0, :1]})[0],
                                 {"Prefer": "respond-async"}).headers["Location"]
        while self.service.call("GET", task).json.get("state") == "queued":
            time.sleep(0.001)
        self.assertEqual(self.service.call("DELETE", task).status, 204)
        self.right(self.infer("forever", {"n": np.array(1), "x": X[0, :1]}))

    def test_a_moment_on_the_http_thread(self):
        """What is known to be short runs there; what then takes long, as values have it, is a worker's all the same."""
        self.put("moody", models.forever())
        ask = lambda n: self.right(self.infer("moody", {"n": np.array(n), "x": np.zeros(1, np.float32)}, {"explain": True}))
        for _ in range(5): # either side may stall
            for _ in range(200):
                ask(0)
            print("inline:", ask(0).parameters["explain"])
            begin = time.monotonic()
            slow = threading.Thread(target=ask, args=(3000,))
            slow.start()
            waits = [0]
            while slow.is_alive():
                at = time.monotonic()
                self.service.call("GET", "/v2/health/live")
                waits.append(time.monotonic() - at)
            took = time.monotonic() - begin
            print(f"{len(waits) - 1} looks in {took:.2f} s, the longest {max(waits) * 1e3:.1f} ms")
            if took <= 0.5 or max(waits) < took / 2 or service.SANITIZED:
                return
        self.fail("each time it waited for the worker's call")

    # ---- beside one another ----

    def test_replaced_under_load(self):
        """Each answer is the old model's or the new one's, and none is lost."""
        self.put("moving", models.line(1))
        stop, wrong, answered = threading.Event(), [], [0]
        seen = set()
        def work():
            connection = self.service.connect()
            while not stop.is_set():
                reply = self.infer("moving", {"x": X}, binary=True, connection=connection)
                if reply.status != 200:
                    wrong.append(reply.body)
                    continue
                y = reply.outputs["y"]
                factor = y[0].max() / models.line_of(X)[0].max()
                if round(float(factor)) not in range(1, 40) or not np.allclose(y, models.line_of(X, round(float(factor)))):
                    wrong.append(y)
                seen.add(round(float(factor)))
                answered[0] += 1
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for factor in range(2, 40):
            self.put("moving", models.line(factor), status=200)
            time.sleep(0.01)
        stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(seen), 3)
        print(f"{answered[0]} answers of {len(seen)} models")

    def test_values_decide(self):
        """A loop that goes on until a sum is large enough: from four connections, while its plans are looked at."""
        self.put("doubling", models.doubling())
        wrong = []
        def work(seed):
            connection, rng = self.service.connect(), np.random.default_rng(seed)
            for _ in range(60):
                x = (rng.random(3) * 10.0 ** rng.integers(-1, 3)).astype(np.float32)
                y, turns = models.doubling_of(x)
                reply = self.infer("doubling", {"x": x}, binary=True, connection=connection)
                if reply.status != 200 or not np.array_equal(reply.outputs["y"], y) or reply.outputs["z"] != [turns]:
                    wrong.append((x, reply.body))
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            self.assertEqual(self.service.call("GET", "/v1/models/doubling/plan").status, 200)
            self.assertEqual(self.service.call("GET", "/v1/models/doubling/source").status, 200)
            self.assertIn(self.service.call("GET", "/v1/models/doubling/source?after=views").status, (200, 404))
        self.assertEqual(wrong, [])
        plans = self.service.call("GET", "/v1/models/doubling/plan").json["plans"]
        self.assertEqual({plan["op_by_op"] for plan in plans}, {None})
        self.assertGreater(len(plans), 5)

    def test_turns_share_a_plan(self):
        """Turns of a loop that differ in numbers alone run the same steps, and weights are turned round once."""
        self.put("decoder", models.decoder())
        x = np.random.default_rng(service.seed()).standard_normal((1, 16)).astype(np.float32)
        for limit in 40.5, 3, 40.5, 0, 61.5:
            last, rows = models.decoder_of(x, limit)
            inputs = {"x": x, "limit": np.float32(limit).reshape(())}
            for eager in False, True:
                reply = self.infer("decoder", inputs, {"eager": eager}, binary=True)
                np.testing.assert_allclose(reply.outputs["last"], last, 1e-4, 1e-4)
                np.testing.assert_allclose(reply.outputs["rows"], rows, 1e-4, 1e-4)
        said = self.service.call("GET", "/v1/models/decoder/plan").json
        self.assertEqual(said["folded_nodes"], 1)
        self.assertGreaterEqual(max(plan["turns"] for plan in said["plans"]), 55)
        self.assertLess(len(said["plans"]), 12)
        self.assertIn(" turns of a loop", self.service.call("GET", "/v1/models/decoder/source").body.decode())

    def test_the_log_and_metrics(self):
        with Service("--log", "json", "--log-slow-ms", "1") as s:
            s.call("PUT", "/v1/models/told", models.line())
            s.infer("told", {"x": X}, path="/v2/models/{}/infer")
            s.call("PUT", "/v1/models/long", models.forever())
            s.infer("long", {"n": np.array(1500), "x": X[0, :1]}, path="/v2/models/{}/infer")
            text = s.call("GET", "/metrics").body.decode()
            for i in range(70):
                s.call("PUT", f"/v1/models/m{i}", models.line())
                s.infer(f"m{i}", {"x": X}, path="/v2/models/{}/infer")
            later = s.call("GET", "/metrics").body.decode()
        lines = [json.loads(line) for line in s.log.splitlines()]
        told = [l for l in lines if l.get("model") == "told"]
        self.assertEqual([(l["kernel"], l["pool"], "op" in l) for l in told], [("model", "default", False)])
        slow = [l for l in lines if l.get("model") == "long"]
        self.assertEqual(slow[0]["explain"]["model"], "long")
        self.assertIn("tensord_models 2\n", text)
        self.assertIn('tensord_model_duration_seconds_count{model="told"} 1\n', text)
        counts = dict(re.findall(r'^tensord_model_duration_seconds_count\{model="(.*)"\} (\d+)$', later, re.M))
        self.assertEqual(counts, {**dict.fromkeys(["told", "long", *(f"m{i}" for i in range(61))], "1"), "(others)": "9"})

    def test_limits(self):
        """Models count against the store; what has no room changes nothing, and room comes back."""
        with Service("--store-bytes", "12000000") as s:
            used = lambda: s.call("GET", "/v1/models").json["store"]["bytes"]
            before = used()
            self.assertEqual(s.call("PUT", "/v1/models/big", models.weighty(8)).status, 201)
            self.assertGreater(used() - before, 8 << 20)
            self.problem(s.call("PUT", "/v1/models/other", models.weighty(8)), 507, "store-bytes", "the model")
            self.problem(s.call("PUT", "/v1/models/big", models.weighty(8)), 507)
            self.assertEqual([m["name"] for m in s.call("GET", "/v1/models").json["models"]], ["big"])
            self.assertEqual(s.call("PUT", "/v1/tensors/t", {"shape": [1000000], "datatype": "FP32", "data": [0] * 1000000}).status, 507)
            self.assertEqual(s.infer("big", {"x": np.ones((1, 1), np.float32)}, path="/v2/models/{}/infer", binary=True).status, 200)
            self.assertEqual(s.call("DELETE", "/v1/models/big").status, 204)
            self.assertTrue(service.eventually(lambda: used() == before)) # its last call may be given back behind its answer
            self.assertEqual(s.call("PUT", "/v1/models/other", models.weighty(8)).status, 201)

    def test_memory(self):
        with Service("--memory", "100000000") as s:
            self.assertEqual(s.call("PUT", "/v1/models/m", models.weighty(4)).status, 201)
            for n in (1, 50, 1):
                reply = s.infer("m", {"x": np.ones((n, 1), np.float32)}, path="/v2/models/{}/infer", binary=True)
                if n == 1:
                    self.assertEqual(reply.status, 200, reply.body[:200])
                else:
                    self.assertIn(reply.status, (400, 503), reply.body[:200])
            self.assertEqual(s.call("GET", "/v2/health/ready").status, 200)


    def test_json_that_is_wrong(self):
        """Nothing of a model that is no JSON after all stays counted."""
        with Service() as s:
            def held():
                text = s.call("GET", "/metrics").body.decode()
                used, kept = (float(re.search(rf"^tensord_memory_{name} (\S+)$", text, re.M)[1]) for name in ("bytes", "kept_bytes"))
                return used - kept
            before = held()
            for _ in range(20):
                file = b'{"expr": "x", "inputs": [' + b"1," * 50000 + b"]}"
                self.assertEqual(s.call("PUT", "/v1/models/m", file).status, 400)
            self.assertLess(held(), before + (1 << 20))

    def test_tables_of_few_bits(self):
        """Of a table that floats are made of before rows are picked, the server holds the few bits alone; a weight in few
        bits whose product is wanted becomes floats, and those are all that is held."""
        table = np.random.default_rng(1).integers(-128, 128, (1024, 1024), np.int8)
        scale = np.linspace(0.1, 1, 1024, dtype=np.float32)[:, None]
        few = [("Cast", ["t"], ["c"], {"to": 1}), ("Mul", ["c", "s"], ["m"], {}), ("Add", ["m", "b"], ["f"], {})]
        constants = {"t": table, "s": scale, "b": np.float32([3])}
        wanted = table * scale + np.float32(3)
        picked = models.onnx_file([*few, ("Gather", ["f", "i"], ["y"], {})], [models.port("i", None, "INT64")],
                                  [models.port("y", None)], constants)
        self.assertLess(self.put("few", picked).json["bytes"], 1.5 * table.nbytes)
        for at in np.int64([[5, -1], [0, 1023]]), np.int64(7):
            for eager in False, True:
                reply = self.right(self.infer("few", {"i": at}, {"eager": eager}, binary=True))
                np.testing.assert_array_equal(reply.outputs["y"], wanted[at])
        self.problem(self.infer("few", {"i": np.int64([1024])}), 400, "1024")
        both = models.onnx_file([*few, ("Gather", ["f", "i"], ["y"], {}), ("Shape", ["f"], ["z"], {})],
                                [models.port("i", None, "INT64")], [models.port("y", None), models.port("z", [2], "INT64")],
                                constants) # another reads it, too: as it is
        self.assertLess(abs(self.put("both", both).json["bytes"] - 4 * table.nbytes), table.nbytes)
        reply = self.right(self.infer("both", {"i": np.int64([9])}, binary=True))
        np.testing.assert_array_equal(reply.outputs["y"], wanted[[9]])
        for name in "few", "both":
            self.service.call("DELETE", "/v1/models/" + name)

    def test_room_while_folding(self):
        """What only a folded node reads is given back before the next is folded: a chain takes room for one."""
        n = 1 << 20
        nodes = [("Add", [f"v{i}", "x1"], [f"v{i + 1}"], {}) for i in range(8)] + [("Mul", ["v8", "x"], ["y"], {})]
        file = models.onnx_file(nodes, [models.port("x", [1])], [models.port("y", [n])],
                                {"v0": np.zeros(n, np.float32), "x1": np.float32([1])})
        with Service("--store-bytes", "6000000") as s:
            reply = s.call("PUT", "/v1/models/chain", file)
            self.assertEqual(reply.status, 201, reply.body[:300])
            reply = s.infer("chain", {"x": np.float32([2])}, path="/v2/models/{}/infer", binary=True)
            np.testing.assert_array_equal(reply.outputs["y"], np.full(n, 16, np.float32))

    def test_what_is_not_folded(self):
        """A few bytes whose constants are hours of work are loaded at once: they are left to who calls."""
        def shape(name, *sizes):
            return name, np.array(sizes)
        nodes = [("ConstantOfShape", ["a"], ["image"], {}), ("ConstantOfShape", ["b"], ["kernel"], {}),
                 ("Conv", ["image", "kernel"], ["much"], {}), ("Add", ["x", "much"], ["y"], {})]
        file = models.onnx_file(nodes, [models.port("x", [1])], [models.port("y", None)],
                                dict([shape("a", 1, 64, 400, 400), shape("b", 64, 64, 101, 101)]))
        begin = time.monotonic()
        self.put("much", file)
        self.assertLess(time.monotonic() - begin, 20) # the convolution takes a minute
        self.service.call("DELETE", "/v1/models/much")


class Directory(service.ServiceTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def write(self, path, file):
        path = self.folder / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file)

    def test_data_beside_the_file(self):
        """ONNX's external data, as torch.onnx.export writes them: read where a file has others beside it."""
        def save(path, location="line.data"):
            file = onnx.load_model_from_string(models.line())
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            onnx.save_model(file, str(self.folder / path), save_as_external_data=True, location=location, size_threshold=0)
            return onnx.load_model(str(self.folder / path), load_external_data=False)

        def change(path, **values):
            """The same with other words about where the data lie."""
            file = save("good.onnx")
            for entry in file.graph.initializer[0].external_data:
                entry.value = values.pop(entry.key, entry.value)
            for key, value in values.items():
                file.graph.initializer[0].external_data.add(key=key, value=value)
            (self.folder / path).write_bytes(file.SerializeToString())
        save("line.onnx")
        save("many/2/model.onnx", "w.bin")
        change("out.onnx", location="../" * 9 + "etc/passwd")
        change("absolute.onnx", location="/etc/passwd")
        change("none.onnx", location="nosuch.data")
        change("short.onnx", offset="1000000")
        change("length.onnx", length="7")
        change("number.onnx", offset="-1")
        (self.folder / "link.data").symlink_to("/proc/self/environ")
        change("link.onnx", location="link.data")
        os.mkfifo(self.folder / "pipe")
        change("pipe.onnx", location="pipe")
        (self.folder / "folder.bin").mkdir()
        change("folder.onnx", location="folder.bin")
        (self.folder / "deep" / "1" / "model.onnx").mkdir(parents=True)
        with Service("--models", str(self.folder)) as s:
            for name in ("line", "many", "good"):
                reply = s.call("POST", "/v1/models/" + name, {"x": X.tolist()})
                self.assertEqual(reply.json["y"], models.line_of(X).tolist())
            self.assertEqual(sorted(m["name"] for m in s.call("GET", "/v1/models").json["models"]), ["good", "line", "many"])
            reply = s.call("PUT", "/v1/models/sent", (self.folder / "line.onnx").read_bytes()) # over HTTP there is no beside
            self.problem(reply, 400, "line.data", "external_data=False", "form")
        for name, said in (("out", "not in the model's directory"), ("absolute", "cannot be read"), ("none", "cannot be read"), ("short", "ends before"),
                           ("length", "7 bytes, but 48 are right"), ("number", "offset '-1'"), ("link", "not in the model's directory"), ("pipe", "ends before"),
                           ("folder", "'folder.bin', which is a directory"), ("deep/1/model", "it is a directory")):
            self.assertRegex(s.log, rf"{name}\.onnx: not loaded: [^\n]*{re.escape(said)}")
        np.save(self.folder / "x.npy", X)
        for cwd, path in ((self.folder, "line.onnx"), (None, str(self.folder / "line.onnx"))):
            done = subprocess.run([os.path.abspath(service.BINARY), "run", path, "--input", f"x={self.folder / 'x.npy'}", "--json"],
                                  cwd=cwd, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("20", done.stdout)

    def test_directory(self):
        self.write("one.onnx", models.line(1))
        self.write("archive.pt2", models.line_pt2())
        self.write("many/2/model.onnx", models.line(2))
        self.write("many/10/model.onnx", models.line(10))
        self.write("many/9/model.onnx", models.line(9))
        self.write("many/readme.txt", b"-")
        self.write("README.md", b"-")
        self.write("other/file", b"-")
        self.write("bad.onnx", b"no model")
        self.write("cut.pt2", b"PK\3\4")
        self.write("bad name.onnx", models.line())
        self.write("op.x.onnx", models.line())
        self.write("empty/3/other", b"-")
        self.write("one/1/model.onnx", models.line(5))
        self.write("folder.onnx/file", b"-")
        self.write("flat/model.onnx", models.line())
        os.symlink("nowhere", self.folder / "gone.onnx")
        with Service("--models", str(self.folder)) as s:
            names = [m["name"] for m in s.call("GET", "/v1/models").json["models"]]
            self.assertEqual(names[:1] + names[2:], ["archive", "one"])
            for name, factors in (("one", (1, 5)), ("many", (10,))):
                y = s.infer(name, {"x": X}, path="/v2/models/{}/infer").outputs["y"]
                self.assertTrue(any(np.allclose(y, models.line_of(X, f)) for f in factors), name)
        for word in ("model many, ", "bad.onnx: not loaded", "cut.pt2: not loaded", "bad name.onnx: not loaded",
                     "op.x.onnx: not loaded", "empty: not loaded", "given a model this name", "gone.onnx: not loaded: No such file",
                     "folder.onnx: not loaded: a directory", "flat: not loaded: a directory"):
            self.assertIn(word, s.log)
        for word in ("other: ", "README.md", "readme.txt"): # they are no models
            self.assertNotIn(word, s.log)
        self.assertLess(s.log.index("model many, "), s.log.index("ready on"))

    def test_directory_that_is_wrong(self):
        for directory in (str(self.folder / "nosuch"), __file__):
            done = service.run("serve", "--listen", "127.0.0.1:0", "--models", directory)
            self.assertEqual(done.returncode, 2)
            self.assertIn("models:", done.stderr)
        self.write("bad.onnx", b"no model")
        done = service.run("serve", "--listen", "127.0.0.1:0", "--models", str(self.folder), "--bad-models", "stop")
        self.assertEqual(done.returncode, 1)
        self.assertIn("bad-models", done.stderr)
        self.write("bad.onnx", models.line())
        with Service("--models", str(self.folder), "--bad-models", "stop") as s:
            self.assertEqual(s.call("GET", "/v1/models/bad").status, 200)


class Run(service.ServiceTest):
    """`tensord run`."""

    @classmethod
    def setUpClass(cls):
        pass

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name, bytes_or_array):
        path = self.folder / name
        if isinstance(bytes_or_array, bytes):
            path.write_bytes(bytes_or_array)
        else:
            np.save(path, bytes_or_array)
        return str(path)

    def run_model(self, *args, status=0):
        done = service.run("run", *args)
        self.assertEqual(done.returncode, status, done)
        self.assertNotIn("Sanitizer", done.stderr)
        return done

    def test_run(self):
        model, x = self.file("line.onnx", models.line()), self.file("x.npy", X)
        for more in ((), ("--eager",)):
            done = self.run_model(model, "--input", f"x={x}", "--json", *more)
            said = json.loads(done.stdout)
            self.assertEqual([(o["name"], o["datatype"], o["shape"]) for o in said["outputs"]], [("y", "FP32", [3, 4])])
            np.testing.assert_allclose(np.reshape(said["outputs"][0]["data"], (3, 4)), models.line_of(X))
            self.assertEqual(said["parameters"]["kernel"], "eager" if more else "model")
            self.assertNotIn("explain", said["parameters"])
        self.assertIn("explain", json.loads(self.run_model(model, "--input", f"x={x}", "--json", "--explain").stdout)["parameters"])
        text = self.run_model(model, "--input", f"x={x}", "--explain").stdout
        self.assertIn("y  FP32 [3,4]  ", text)
        self.assertIn("3 nodes", text)
        self.assertIn("calls of operators", text)
        text = self.run_model(model, "--input", f"x={x}").stdout
        self.assertNotIn("calls of operators", text)

    def test_files(self):
        names = ("/a/b:0", "..", "ü", "x", "a b\x1b[31m")
        values = {name: np.arange(6).astype(kind).reshape(2, 3) for name, kind in
                  zip(names, (np.float32, np.int64, np.float16, np.bool_, np.float32))}
        kinds = {np.float32: "FP32", np.int64: "INT64", np.float16: "FP16", np.bool_: "BOOL"}
        ports = lambda prefix: [models.port(prefix + n, [2, 3], kinds[v.dtype.type]) for n, v in values.items()]
        model = self.file("m.onnx", models.onnx_file([("Identity", ["=" + n], [n], {}) for n in names], ports("="), ports("")))
        given = [w for i, (n, v) in enumerate(values.items()) for w in ("--input", f"={n}={self.file(f'{i}=.npy', v)}")]
        out = self.folder / "out"
        for _ in range(2):
            done = self.run_model(model, *given, "--output-dir", str(out), "--json")
            said = {o["name"]: o["file"] for o in json.loads(done.stdout)["outputs"]}
            self.assertEqual(set(said), set(names))
            self.assertEqual(sorted(said.values()), sorted(os.listdir(out)))
            for name, file in said.items():
                self.assertRegex(file, r"^[A-Za-z0-9_][A-Za-z0-9._-]*\.npy$")
                got = np.load(out / file)
                np.testing.assert_array_equal(got, values[name])
                self.assertEqual(got.dtype, values[name].dtype)
        text = self.run_model(model, *given, "--output-dir", str(out)).stdout
        self.assertNotIn("\x1b", text)
        for file in said.values():
            self.assertIn(f"{out}/{file}", text)

    def test_shapes(self):
        for shape in ((), (0,), (5,), (1, 2, 3, 1)):
            model = self.file("same.onnx", models.identity(shape=shape))
            x = np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)
            self.run_model(model, "--input", "x=" + self.file("x.npy", x), "--output-dir", str(self.folder))
            np.testing.assert_array_equal(np.load(self.folder / "y.npy"), x)

    def test_what_is_wrong(self):
        model, x = self.file("line.onnx", models.line()), self.file("x.npy", X)
        for status, word, args in (
                (2, "MODEL", ()), (2, "--nosuch", (model, "--nosuch")), (2, "no value", (model, "--input")),
                (2, "NAME=FILE", (model, "--input", "x")), (2, "two", (model, "two")),
                (1, "'x' is missing; the inputs of model: x FP32 [-1,3]", (model,)),
                (1, "has no 'z'", (model, "--input", f"z={x}", "--input", f"x={x}")),
                (1, "twice", (model, "--input", f"x={x}", "--input", f"x={x}")),
                (1, "nosuch.npy", (model, "--input", "x=nosuch.npy")), (1, ".npy file", (model, "--input", f"x={model}")),
                (1, "x", (model, "--input", "x=" + self.file("d.npy", X.astype(np.float64)))),
                (1, "nosuch.onnx", ("nosuch.onnx",)), (1, "run", (x,)), (1, "a directory", (str(self.folder),)),
                (1, "Not a directory", (model, "--input", f"x={x}", "--output-dir", model + "/sub"))):
            with self.subTest(args=args):
                done = self.run_model(*args, status=status)
                self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done)
                self.assertIn(word, done.stderr)


if __name__ == "__main__":
    service.main()
