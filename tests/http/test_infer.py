#!/usr/bin/env python3
"""Running an operator: the forms of tensors both ways, and what a reply says."""
import json
import math

import numpy as np

import operators
import service
from service import BF16

ALL = ["BOOL", "UINT8", "INT8", "INT16", "INT32", "INT64", "FP16", "BF16", "FP32", "FP64", "UINT16",
       "UINT32", "UINT64"]
A = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
B = np.array([10, 20, 30], np.float32)


class Infer(service.ServiceTest):
    def run_op(self, op, inputs, parameters=None, **how):
        reply = self.service.infer(op, inputs, parameters, **how)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def test_both_forms_of_both_routes(self):
        for path in ("/v1/ops/{}", "/v2/models/op.{}/infer", "/v2/models/op.{}/versions/1/infer"):
            for binary in (False, True):
                reply = self.run_op("add", {"self": A, "other": B}, path=path, binary=binary)
                np.testing.assert_array_equal(reply.out, A + B)
                self.assertEqual(reply.json["model_name"], "add" if "ops" in path else "op.add")
                self.assertEqual(reply.json["model_version"], "1")
                self.assertEqual("Inference-Header-Content-Length" in reply.headers, binary)
                self.assertEqual(reply.headers["Content-Type"],
                                 "application/octet-stream" if binary else "application/json")

    def test_what_a_reply_says(self):
        facts = self.run_op("add", {"self": A, "other": B}).parameters
        self.assertEqual(sorted(facts), ["compute_type", "compute_us", "isa", "kernel", "pool", "queue_us"])
        self.assertEqual(facts["compute_type"], "FP32")
        current = self.service.call("GET", "/v1/isa").json["current"]
        self.assertEqual(facts["kernel"], "simd")
        self.assertIn(facts["isa"], ("DEFAULT", "AVX2", "AVX512"))
        self.assertTrue(current.startswith(facts["isa"]))
        self.assertEqual(facts["pool"], "default")
        self.assertGreaterEqual(facts["queue_us"], 0)
        self.assertGreater(facts["compute_us"], 0)
        self.assertLess(facts["compute_us"] + facts["queue_us"], 60e6)

    def test_outputs_are_flat_and_bare(self):
        """Protocol clients choke on nested data and on further members of an output."""
        reply = self.run_op("add", {"self": A, "other": B})
        self.assertEqual(reply.json["outputs"],
                         [{"name": "out", "datatype": "FP32", "shape": [2, 3],
                           "data": [11.0, 22.0, 33.0, 14.0, 25.0, 36.0]}])

    def test_every_datatype_there_and_back(self):
        rng = np.random.default_rng(1)
        for name in ALL:
            for shape in ((), (1,), (0,), (3, 0, 2), (17,), (2, 3, 4), (1,) * 8):
                x = operators.draw(rng, name, shape)
                for binary in (False, True):
                    with self.subTest(datatype=name, shape=shape, binary=binary):
                        out = self.run_op("cast", {"self": x}, {"dtype": name}, binary=binary).out
                        self.assertEqual(service.datatype(out), name)
                        self.assertEqual(out.shape, tuple(shape))
                        self.assertEqual(service.elements(out), service.elements(x))

    def test_numbers_survive_json(self):
        """Integers above 2^53, every finite FP32 pattern drawn, NaN and infinities."""
        wide = np.array([2**53 + 1, -2**63, 2**63 - 1, 0, -1], np.int64)
        np.testing.assert_array_equal(self.run_op("cast", {"self": wide}, {"dtype": "INT64"}).out, wide)
        wide = np.array([2**53 + 1, 2**64 - 1, 2**63, 0, 1], np.uint64)
        np.testing.assert_array_equal(self.run_op("cast", {"self": wide}, {"dtype": "UINT64"}).out, wide)
        rng = np.random.default_rng(2)
        for kind, bits in ((np.float32, np.uint32), (np.float64, np.uint64), (np.float16, np.uint16)):
            x = np.frombuffer(rng.bytes(5000 * kind().nbytes), kind)
            x = np.concatenate([x[~np.isnan(x)], np.array([math.inf, -math.inf, -0.0], kind)])
            out = self.run_op("transpose", {"self": x.reshape(1, -1)}, {"dim0": 0, "dim1": 0}).out
            np.testing.assert_array_equal(out.ravel().view(bits), x.view(bits))
        out = self.run_op("neg", {"self": np.array([math.nan, math.inf, -math.inf], np.float32)}).out
        np.testing.assert_array_equal(out, np.array([math.nan, -math.inf, math.inf], np.float32))

    def test_spellings_of_data(self):
        """Nested, mixed, with blanks and exponents; true and false as BOOL, or 1 and 0."""
        for data in ("[[1,2],[3,4]]", "[1,[2,3],4]", " [ 1 ,\n2.0,\t3e0, 0.4E+1 ] ", "[[[[1]],2],3,[4]]"):
            body = '{"inputs":[{"name":"self","shape":[2,2],"datatype":"FP32","data":%s}]}' % data
            reply = self.service.call("POST", "/v1/ops/relu", body, {"Content-Type": "application/json"})
            self.assertEqual(reply.status, 200, reply.body)
            np.testing.assert_array_equal(reply.out, [[1, 2], [3, 4]])
        body = ('{"inputs":[{"data":[true,false,1,0],"datatype":"BOOL","shape":[4],"name":"self"},'
                '{"name":"other","shape":[],"datatype":"BOOL","data":[false]}]}')
        reply = self.service.call("POST", "/v1/ops/add", body)
        self.assertEqual(reply.json["outputs"][0]["data"], [True, False, True, False])

    def test_mixed_forms_of_inputs(self):
        head = json.dumps({"inputs": [
            {"name": "self", "shape": [2, 3], "datatype": "FP32", "data": A.tolist()},
            {"name": "other", "shape": [3], "datatype": "FP32", "parameters": {"binary_data_size": 12}}]})
        reply = self.service.call("POST", "/v1/ops/add", head.encode() + B.tobytes(),
                                  {"Inference-Header-Content-Length": str(len(head))})
        np.testing.assert_array_equal(reply.out, A + B)
        self.assertNotIn("Inference-Header-Content-Length", reply.headers)

    def test_unaligned_binary(self):
        """Blobs follow each other without padding, whatever their elements' size."""
        x = {"self": np.array([True, False, True]), "other": np.array([1.5, 2.5, 3.5], np.float64)}
        out = self.run_op("add", x, binary=True).out
        self.assertEqual(out.dtype, np.float64)
        np.testing.assert_array_equal(out, [2.5, 2.5, 4.5])

    def test_length_header_of_all(self):
        """JSON alone with the header is fine: the C++ client always sends it."""
        body, headers = service.pack({"self": A})
        reply = self.service.call("POST", "/v1/ops/relu", body, {
            **headers, "inference-header-content-length": str(len(body))})
        np.testing.assert_array_equal(reply.out, A)

    def test_who_decides_the_form_of_outputs(self):
        def is_binary(outputs, wish):
            parameters = {} if wish is None else {"binary_data_output": wish}
            reply = self.run_op("relu", {"self": A}, parameters, outputs=outputs)
            np.testing.assert_array_equal(reply.out, A)
            return "Inference-Header-Content-Length" in reply.headers

        named = [{"name": "out"}]
        binary = [{"name": "out", "parameters": {"binary_data": True}}]
        text = [{"name": "out", "parameters": {"binary_data": False}}]
        for outputs in (None, [], named):
            self.assertEqual([is_binary(outputs, w) for w in (None, False, True)], [False, False, True])
        self.assertEqual([is_binary(binary, w) for w in (None, False, True)], [True] * 3)
        self.assertEqual([is_binary(text, w) for w in (None, False, True)], [False] * 3)

    def test_empty_binary_output(self):
        reply = self.run_op("relu", {"self": np.zeros((0, 5), np.float32)}, binary=True)
        self.assertEqual(reply.out.shape, (0, 5))
        self.assertEqual(len(reply.body), reply.json_length)

    def test_id(self):
        for name in ("a1", "Grüße ☃ 𝔘 \" \\ \n \x01", "x" * 2000):
            self.assertEqual(self.run_op("relu", {"self": A}, id=name).json["id"], name)
        for name in ("", None):
            reply = self.service.call("POST", "/v1/ops/relu", json.loads(
                service.pack({"self": A}, id=name)[0]) if name == "" else
                json.loads(service.pack({"self": A})[0]))
            self.assertNotIn("id", reply.json)

    def test_overloads_and_arguments(self):
        x = np.array([1, 2, 3], np.int64)
        y = np.array([4, 5, 6], np.int64)
        cases = [("add", {"self": x, "other": y}, {}, [5, 7, 9]),
                 ("add.Tensor", {"self": x, "other": y}, {"alpha": 10}, [41, 52, 63]),
                 ("add", {"self": x}, {"other": 2}, [3, 4, 5]),
                 ("add.Scalar", {"self": x}, {"other": 2, "alpha": 3}, [7, 8, 9]),
                 ("sum", {"self": x}, {}, 6),
                 ("sum", {"self": np.array([x, y])}, {"dim": [0]}, [5, 7, 9]),
                 ("sum", {"self": np.array([x, y])}, {"dim": -1}, [6, 15]),
                 ("sum", {"self": x}, {"dtype": "float64"}, 6.0),
                 ("linear", {"input": x, "weight": np.array([x, y])}, {"bias": None}, [14, 32])]
        for op, inputs, parameters, right in cases:
            with self.subTest(op=op, parameters=parameters):
                out = self.run_op(op, inputs, parameters).out
                np.testing.assert_array_equal(out, right)
                self.assertEqual(out.dtype.kind, np.asarray(right).dtype.kind)

    def test_promotion(self):
        """ATen's: dimensions before single numbers, and categories before widths."""
        ints, half = np.array([1, 2], np.int32), np.array([0.5, 0.25], np.float16)
        for a, b, name in ((ints, half, "FP16"), (half, BF16([1, 2]), "FP32"),
                           (np.array([1, 2], np.uint8), np.array([1, -2], np.int8), "INT16"),
                           (half, np.float64(2).reshape(()), "FP16"),
                           (ints, np.float64(2.5).reshape(()), "FP64"),
                           (np.array([True, False]), ints, "INT32"),
                           (np.float32(1).reshape(()), np.float64(1).reshape(()), "FP64")):
            with self.subTest(a=service.datatype(a), b=service.datatype(b)):
                for inputs in ({"self": a, "other": b}, {"self": b, "other": a}):
                    out = self.run_op("add", inputs).out
                    self.assertEqual(service.datatype(out), name)
                    np.testing.assert_array_equal(
                        operators.wide(out), operators.wide(a) + operators.wide(b))
        self.assertEqual(service.datatype(self.run_op("mul", {"self": ints}, {"other": 1.5}).out), "FP32")

    def test_as_pytorch_converts(self):
        """What tests/outside/by_torch.py has found once."""
        ints, reals = np.array([3, -1], np.int32), np.array([[0.5, 2.5]], np.float32)
        for op, inputs, parameters, right in (
                ("outer", {"self": ints, "vec2": reals[0]}, {}, np.float32([[1.5, 7.5], [-0.5, -2.5]])),
                ("slice_scatter", {"self": reals, "src": ints[None]}, {"dim": 1}, np.float32([[3, -1]])),
                ("select_scatter", {"self": ints, "src": np.float32(2.75)}, {"dim": 0, "index": 1}, np.int32([3, 2])),
                ("searchsorted", {"sorted_sequence": np.sort(ints), "self": reals}, {}, np.int64([[1, 1]])),
                ("bucketize", {"self": ints, "boundaries": reals[0]}, {"out_int32": True}, np.int32([2, 0])),
                ("threshold", {"self": ints}, {"threshold": 0, "value": 7}, np.int32([3, 7])),
                ("clamp.Tensor", {"self": ints > 0, "max": ints < 9}, {}, np.array([True, False])),
                ("masked_fill", {"self": ints > 9, "mask": ints > 0}, {"value": 0.5}, np.array([True, False])),
                ("add", {"self": ints > 0, "other": ints < 9}, {"alpha": -1}, np.array([True, True])),
                ("logit", {"self": reals}, {"eps": 1.0}, np.float32([[np.inf, -np.inf]])),
                ("var.correction", {"self": reals[:0]}, {"correction": -1}, np.float32(np.nan)),
                ("linspace", {}, {"start": -3, "end": 5.5, "steps": 9, "dtype": "INT32"}, np.arange(-3, 6, dtype=np.int32)),
                ("logspace", {}, {"start": 0, "end": 3.5, "steps": 4, "dtype": "INT64"}, np.int64([1, 10, 100, 1000]))):
            for kernel in ("ref", None):
                with self.subTest(op=op, kernel=kernel):
                    out = self.run_op(op, inputs, {**parameters, **({"kernel": kernel} if kernel else {})}).out
                    np.testing.assert_array_equal(out, right)
                    self.assertEqual((out.dtype, out.shape), (right.dtype, right.shape))
        found = self.run_op("_embedding_bag", {"weight": reals, "indices": ints[:0], "offsets": np.zeros(1, np.int64)},
                            {"mode": 1}).outputs
        self.assertEqual([service.datatype(one) for one in found.values()], ["FP32", "INT64", "INT64", "INT64"])
        found = self.run_op("_embedding_bag", {"weight": reals, "indices": 0 * ints, "offsets": ints[:1] * 0}, {"mode": 1}).outputs
        self.assertEqual([operators.wide(one).tolist() for one in found.values()], [[[0.5, 2.5]], [0, 0], [2], [2]])
        self.assertEqual([service.datatype(one) for one in found.values()], ["FP32", "INT32", "INT32", "INT32"])

    def test_forced_kernel(self):
        for kernel in ("ref", "simd"):
            reply = self.run_op("tanh", {"self": A}, {"kernel": kernel})
            self.assertEqual(reply.parameters["kernel"], kernel)
            np.testing.assert_allclose(reply.out, np.tanh(A), rtol=1e-6)
        reply = self.run_op("linear", {"input": A, "weight": A}, {"kernel": "onednn"})
        self.assertEqual(reply.parameters["kernel"], "onednn")
        np.testing.assert_allclose(reply.out, A @ A.T)

    def test_explain(self):
        explain = self.run_op("add", {"self": A, "other": B}, {"explain": True}).parameters["explain"]
        self.assertEqual(explain["operator"], "add.Tensor")
        chosen = [c for c in explain["candidates"] if c["verdict"].startswith("chosen")]
        self.assertEqual(len(chosen), 1)
        self.assertEqual(explain["candidates"][-1]["kernel"], "ref")
        for candidate in explain["candidates"]:
            self.assertGreater(len(candidate["verdict"]), 5)
        forced = self.run_op("add", {"self": A, "other": B}, {"explain": True, "kernel": "ref"})
        self.assertEqual(forced.parameters["explain"]["candidates"][-1]["verdict"], "chosen")

    def test_meta(self):
        reply = self.run_op("matmul", {"self": A, "other": A.T.copy()}, {"meta": True})
        self.assertEqual(reply.json["outputs"], [{"name": "out", "datatype": "FP32", "shape": [2, 2]}])

    def test_timeout_and_priority(self):
        for parameters in ({"timeout_ms": 60000}, {"timeout": 60000000}, {"timeout_ms": 0},
                           {"priority": 0}, {"priority": 1}, {"priority": 99}):
            np.testing.assert_array_equal(self.run_op("relu", {"self": A}, parameters).out, A)

    def test_big(self):
        """64 MiB there and 64 MiB back, on more than one thread where there is more than one."""
        n = 1 << (18 if service.SANITIZED else 24)
        x = np.arange(n, dtype=np.float32) % 1024
        reply = self.run_op("mul", {"self": x, "other": x}, {"explain": True}, binary=True)
        self.assertTrue(np.array_equal(reply.out, x * x))
        self.assertFalse(reply.parameters["explain"]["inline"])
        pool = self.service.call("GET", "/v1/pools/default").json
        self.assertEqual(reply.parameters["explain"]["threads"], pool["threads"])

    def test_results_do_not_depend_on_the_form(self):
        rng = np.random.default_rng(5)
        x, w = (rng.standard_normal((30, 50)).astype(np.float32) for _ in range(2))
        text = self.run_op("linear", {"input": x, "weight": w})
        named = {"kernel": text.parameters["kernel"]} # measurements may choose another meanwhile, which may round differently
        self.assertEqual(text.out.tobytes(), self.run_op("linear", {"input": x, "weight": w}, named, binary=True).out.tobytes())


if __name__ == "__main__":
    service.main()
