#!/usr/bin/env python3
"""Operators without tensors: a backend by device and layout, results by numbers alone."""
import numpy as np

import service

MIB = 1 << 20


class Factories(service.ServiceTest):
    args = ("--memory", str(96 * MIB))

    def post(self, op, status=200, args=(), outputs=None, **parameters):
        body = {"args": list(args), "parameters": parameters, **({"outputs": outputs} if outputs else {})}
        reply = self.service.call("POST", "/v1/ops/" + op, body)
        self.assertEqual(reply.status, status, reply.body[:300])
        return reply

    def one(self, op, *args, **parameters):
        out, = self.post(op, args=args, **parameters).json["outputs"]
        return out["datatype"], out["shape"], out["data"]

    def test_by_curl(self):
        reply = self.service.call("POST", "/v1/ops/zeros", {"parameters": {"size": [2, 3]}})
        self.assertEqual(reply.json["outputs"], [{"name": "out", "datatype": "FP32", "shape": [2, 3], "data": [0] * 6}])
        reply = self.service.call("POST", "/v2/models/op.zeros/infer", {"inputs": [], "parameters": {"size": [2]}})
        self.assertEqual(reply.json["outputs"][0]["data"], [0, 0])

    def test_backend_select(self): # DSP-30
        for device, key, kernel in ((None, "CPU", "simd"), ("cpu", "CPU", "simd"), ("RefCPU", "RefCPU", "ref")):
            said = self.post("zeros", size=[3], device=device, trace=True, explain=True).json["parameters"]
            self.assertEqual([line.split(", kernel")[0].strip() for line in said["trace"]],
                             ["[call] op=[aten::zeros], key=[Tracer]", "[redispatch] op=[aten::zeros], key=[BackendSelect]",
                              f"[redispatch] op=[aten::zeros], key=[{key}]"])
            self.assertEqual((said["kernel"], said["explain"]["key"], said["explain"]["keyset"]),
                             (kernel, key, ["BackendSelect", "Tracer"]))
        lines = self.post("zeros", size=[3], trace=True, exclude_keys=["Tracer"]).json["parameters"]["trace"]
        self.assertEqual(lines[0], "[call] op=[aten::zeros], key=[BackendSelect]")
        self.assertTrue(lines[1].startswith("  [redispatch] op=[aten::zeros], key=[CPU], kernel=[simd@"), lines)
        for how in ({"device": "meta"}, {"meta": True}, {"include_keys": ["Meta"]}):
            self.assertEqual(self.post("ones", size=[1 << 20, 1 << 20], dtype="INT8", **how).json["outputs"],
                             [{"name": "out", "datatype": "INT8", "shape": [1 << 20, 1 << 20]}])

    def test_backends_that_are_not_here(self): # DSP-30
        for how, key in (({"device": "cuda"}, "CUDA"), ({"layout": "sparse_coo"}, "SparseCPU")):
            problem = self.post("zeros", 501, size=[3], **how).json
            self.assertEqual((problem["key"], problem["backends"]), (key, ["CPU", "RefCPU", "Meta"]))
            self.assertIn(f"'{key}'", problem["detail"])
        self.assertIn("on vulkan", self.post("zeros", 501, size=[3], device="vulkan").json["detail"])
        self.problem(self.post("zeros", 400, size=[3], device="tpu"), 400, "device", "RefCPU")
        self.problem(self.post("zeros", 400, size=[3], layout="x"), 400, "layout", "strided")
        self.problem(self.post("zeros", 400, size=[3], device=7), 400, "device")
        problem = self.post("zeros", 501, size=[3], exclude_keys=["BackendSelect"]).json
        self.assertIn("no tensor among its arguments", problem["detail"])

    def test_results(self):
        self.assertEqual(self.one("ones", [2]), ("FP32", [2], [1, 1]))
        self.assertEqual(self.one("ones", [], dtype="BOOL"), ("BOOL", [], [True]))
        for value, datatype, shown in ((7, "INT64", 7), (2.0, "FP32", 2), (True, "BOOL", True), ("NaN", "FP32", "NaN")):
            self.assertEqual(self.one("full", [2], value), (datatype, [2], [shown] * 2))
        self.assertEqual(self.one("full", [1], -1, dtype="UINT8"), ("UINT8", [1], [255]))
        self.assertEqual(self.one("arange", 4), ("INT64", [4], [0, 1, 2, 3]))
        self.assertEqual(self.one("arange", 1, 4), ("INT64", [3], [1, 2, 3]))
        self.assertEqual(self.one("arange", 5, 0, -2), ("INT64", [3], [5, 3, 1]))
        self.assertEqual(self.one("arange", 0, 1, 0.25), ("FP32", [4], [0, 0.25, 0.5, 0.75]))
        self.assertEqual(self.one("arange", 3, 3), ("INT64", [0], []))
        self.assertEqual(self.one("arange", 1.5, 4, 0.5, dtype="INT64"), ("INT64", [5], [1] * 5)) # as ATen: 0.5 is 0 there
        self.assertEqual(self.one("arange", 2**53 - 3, 2**53 - 1)[2], [2**53 - 3, 2**53 - 2])

    def test_rand(self):
        drawn = [self.one("rand", size=[40], **how)[2] for how in ({}, {}, {"generator": None}, {"generator": 5})]
        self.assertEqual(len(set(map(tuple, drawn))), 4) # the same request, another seed
        self.assertEqual(self.one("rand", size=[40], generator=5)[2], drawn[3])
        self.assertEqual(self.one("rand", size=[5, 8], generator=5, device="refcpu")[2], drawn[3])
        self.assertEqual(self.one("rand", size=[1], generator=0, dtype="FP64")[2][0], # of 6627e8d5 e169c58d, Random123's
                         (0x6627e8d5e169c58d >> 11) / 2.0**53)
        for datatype in ("FP16", "BF16", "FP32", "FP64"):
            values = np.array(self.one("rand", size=[20000], dtype=datatype)[2])
            self.assertTrue(0 <= values.min() and values.max() < 1, datatype)
            self.assertAlmostEqual(values.mean(), 0.5, delta=0.03)
            self.assertAlmostEqual(values.var(), 1 / 12, delta=0.01)

    def test_chance(self):
        for op, args in (("randn", [[40]]), ("randint", [100, [40]]), ("randperm", [40])):
            drawn = [self.one(op, *args, **how)[2] for how in ({}, {}, {"generator": 5})]
            self.assertEqual(len(set(map(tuple, drawn))), 3, op)
            self.assertEqual(self.one(op, *args, generator=5, device="refcpu")[2], drawn[2], op)
        self.assertEqual(sorted(self.one("randperm", 200)[2]), list(range(200)))
        self.assertEqual(set(self.one("randint", -2, 3, [400])[2]), set(range(-2, 3)))
        values = np.array(self.one("randn", size=[20000])[2])
        self.assertAlmostEqual(values.mean(), 0, delta=0.04)
        self.assertAlmostEqual(values.var(), 1, delta=0.06)
        whole = np.array(self.one("randint", 10, [20000])[2])
        self.assertAlmostEqual(whole.mean(), 4.5, delta=0.1)

    def test_what_is_wrong(self):
        for op, args, parameters, *words in (
                ("randint", [0, [3]], {}, "high", "0"), ("randint", [5, 5, [3]], {}, "high"), ("randint", [300, [3]], {"dtype": "INT8"}, "high", "INT8"),
                ("randperm", [-1], {}, "n"), ("randperm", [300], {"dtype": "INT8"}, "n", "INT8"), ("eye", [-1], {}, "n"), ("eye", [2, -1], {}, "m"),
                ("linspace", [0, 1, -1], {}, "steps"), ("empty_strided", [[2, 3], [1]], {}, "stride"),
                ("zeros", [[2, -1]], {}, "size", "-1"), ("zeros", [[1] * 9], {}, "size", "8"), ("zeros", [], {}, "size", "missing"),
                ("zeros", [3], {}, "size", "int[]"), ("zeros", [[3]], {"pin_memory": True}, "pin_memory"),
                ("zeros", [[3]], {"dtype": "quint8"}, "dtype"), ("full", [[1], 300], {"dtype": "UINT8"}, "fill_value", "UINT8"),
                ("full", [[1], -256], {"dtype": "UINT8"}, "fill_value"), ("full", [[1], "NaN"], {"dtype": "INT32"}, "fill_value"),
                ("full", [[1], 65505], {"dtype": "FP16"}, "fill_value"), ("full", [[1], 2**31], {"dtype": "INT32"}, "fill_value"),
                ("arange.start_step", [0, 4, 0], {}, "step"), ("arange.start", [4, 0], {}, "step", "away"),
                ("arange.start", [1.0, 0.5], {}, "step"), ("arange", ["Infinity"], {}, "finite"),
                ("arange", [4], {"dtype": "BOOL"}, "dtype", "BOOL"),
                ("rand", [[4]], {"dtype": "INT8"}, "dtype", "FP32"), ("rand", [[4]], {"generator": "x"}, "generator", "seed"),
                ("zeros_", [[3]], {}, "in place")):
            with self.subTest(op=op, args=args):
                self.problem(self.post(op, 400, args, **parameters), 400, *words)

    def test_sizes_are_counted_and_charged(self): # DSP-30
        self.problem(self.post("zeros", 400, size=[2**52, 2**12]), 400, "too large to be counted")
        self.problem(self.post("arange", 400, args=[9e18], dtype="INT64"), 400, "too large to be counted")
        self.problem(self.post("zeros", 400, size=[2**40]), 400, "bytes")
        self.problem(self.post("zeros", 503, size=[20 * MIB]), 503, "--memory")
        keep = [{"name": "out", "parameters": {"tensor": "kept"}}]
        self.problem(self.post("zeros", 507, size=[13 * MIB], outputs=keep), 507, "store-bytes")
        self.post("ones", size=[2 * MIB], outputs=keep)
        self.assertGreaterEqual(self.service.call("GET", "/v1/tensors").json["store"]["bytes"], 8 * MIB)


if __name__ == "__main__":
    service.main()
