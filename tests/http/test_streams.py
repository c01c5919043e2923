#!/usr/bin/env python3
"""Calls cut over a pool's streams give what they give whole."""
import os
import threading

import numpy as np

import operators
import service
from service import stored
from streams import CPUS, FIVE, StreamsTest, pool_of

RNG = np.random.default_rng(5)
X = RNG.standard_normal((7, 12)).astype(np.float32)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


class Streams(StreamsTest):
    # Two workers (one where there is one CPU) with five threads; one worker with four.
    args = (*pool_of("two", 2, FIVE), *pool_of("one", 1, 4), *pool_of("tight", 2, 4, ":queue_depth=1"))

    def both(self, op, inputs, parameters, streams, pool="two", **how):
        """The outputs of the call in parts, which are close to those of the whole; how many parts."""
        whole = self.service.infer(op, inputs, {**parameters, "pool": pool}, binary=True)
        self.assertEqual(whole.status, 200, whole.body[:300])
        cut = self.service.infer(op, inputs, {**parameters, "pool": pool, "streams": streams, **how}, binary=True)
        self.assertEqual(cut.status, 200, cut.body[:300])
        for name, out in whole.outputs.items():
            other = cut.outputs[name]
            self.assertEqual((service.datatype(out), out.shape), (service.datatype(other), other.shape))
            a, b = operators.wide(out), operators.wide(other)
            np.testing.assert_allclose(b.astype(np.float64), a.astype(np.float64), rtol=1e-5, atol=1e-5)
        return cut.outputs, cut.parameters["streams"]

    def refused(self, op, inputs, parameters, *words, **how):
        self.problem(self.service.infer(op, inputs, {"pool": "two", **parameters}, **how), 400, *words)


class Cutting(Streams):
    def test_all_operators(self): # RT-40
        """Each is either refused for a reason or the same, to the bit where rows are not summed."""
        cut, refused = 0, 0
        for name, judged in operators.JUDGES.items():
            for shapes, parameters in judged.calls:
                inputs = operators.draw_all(RNG, judged.datatype, shapes)
                for pool in ("two", "one"):
                    with self.subTest(op=name, shapes=shapes, parameters=parameters, pool=pool):
                        how = {"binary": True}
                        whole = self.service.infer(name, inputs, {**parameters, "pool": pool}, **how)
                        self.assertEqual(whole.status, 200, whole.body[:300])
                        parts = self.service.infer(name, inputs, {**parameters, "pool": pool, "streams": 3}, **how)
                        if parts.status == 400:
                            counted = "size" in parts.json["detail"] # nothing can cut these
                            self.problem(parts, 400, "streams: ", "leave streams out" if counted else "stream_hints")
                            refused += not counted and "shapes" not in parts.json["detail"] # these only hints
                            continue
                        self.assertEqual(parts.status, 200, parts.body[:300])
                        cut += parts.parameters["streams"] > 1
                        for key, out in whole.outputs.items():
                            other = parts.outputs[key]
                            if judged.scale == "own":
                                self.assertEqual(service.elements(out), service.elements(other))
                            else:
                                np.testing.assert_allclose(operators.wide(other), operators.wide(out), rtol=1e-4, atol=1e-4)
        print(f"{cut} cut, {refused} refused")
        self.assertGreater(cut, refused)

    def test_how_many(self): # RT-30
        for batch, asked in ((4, 3), (2, 3), (1, 4), (0, 2), (5, 5), (17, 4), (3, 1)):
            with self.subTest(batch=batch, asked=asked):
                outputs, n = self.both("relu", {"self": f32(batch, 3)}, {}, asked)
                self.assertEqual((n, outputs["out"].shape), (self.parts(asked, batch), (batch, 3)))

    def test_strictly_divisible(self): # RT-28
        for batch, asked, status in ((4, 2, 200), (5, 2, 422), (6, 3, 200), (7, 3, 422), (2, 3, 422), (1, 2, 422), (0, 2, 200), (1, 1, 200)):
            with self.subTest(batch=batch, asked=asked):
                reply = self.service.infer("relu", {"self": f32(batch, 3)}, {"streams": asked, "strict_divisible": True, "pool": "two"})
                if status == 422 and self.most["two"] >= asked:
                    self.problem(reply, 422, "strict_divisible", str(batch), f"{asked} streams")
                elif status == 200:
                    self.assertEqual(reply.status, 200, reply.body)
        if self.most["two"] >= 2:
            strict = {"streams": 2, "strict_divisible": True, "pool": "two"}
            one = self.service.infer("linear", {"input": f32(1, 3), "weight": f32(4, 3)}, strict) # whose weight is no batch
            self.problem(one, 422, "strict_divisible", "a batch of 1 ")
            one = self.service.infer("relu", {"self": f32(1, 4)}, {**strict, "stream_hints": {"inputs": [0]}})
            self.problem(one, 422, "strict_divisible", "a batch of 1 ")
            self.assertEqual(self.service.infer("relu", {"self": f32(1, 4)}, {**strict, "stream_hints": {"inputs": [1]}}).status, 200)
        self.refused("relu", {"self": X}, {"strict_divisible": True}, "strict_divisible", "streams")
        self.assertEqual(self.service.infer("relu", {"self": X}, {"streams": 2, "strict_divisible": False}).status, 200)
        self.refused("relu", {"self": X}, {"streams": 2, "strict_divisible": 1}, "strict_divisible", "true or false")

    def test_what_is_asked(self): # RT-31
        for asked, pool, number in (("auto", "two", FIVE), ("AUTO", "one", 4), ("Auto", "two", FIVE), ("3", "two", 3), (2, "one", 2)):
            self.assertEqual(self.both("relu", {"self": X}, {}, asked, pool)[1], self.parts(number, 7, pool), asked)
        reply = self.service.infer("relu", {"self": X}, {"streams": 9, "pool": "one"})
        self.assertEqual((reply.parameters["streams"], reply.status), (self.most["one"], 200))
        self.assertIn(f"reduced from 9 to the {self.most['one']}", reply.parameters["warning"])
        self.assertNotIn("warning", self.service.infer("relu", {"self": X}, {"streams": 2, "pool": "two"}).parameters)
        self.assertNotIn("streams", self.service.infer("relu", {"self": X}).parameters)
        for wrong in (0, -1, 1.5, "x", "", "0", "2x", True, False, None, [], {}, [2], 1e300, "auto" * 50):
            with self.subTest(wrong=wrong):
                self.refused("relu", {"self": X}, {"streams": wrong}, "streams", "auto")

    def test_only_what_is_a_batch(self):
        """Weights stay whole even where they have as many rows as the input."""
        square = f32(6, 6)
        for pool in ("two", "one"):
            outputs, n = self.both("linear", {"input": square, "weight": f32(6, 6), "bias": f32(6)}, {}, 3, pool)
            self.assertEqual(n, self.parts(3, 6, pool))
            self.both("matmul", {"self": square, "other": f32(6, 6)}, {}, 3, pool)
            self.both("matmul", {"self": f32(5, 2, 3), "other": f32(5, 3, 4)}, {}, 3, pool)
            self.both("conv2d", {"input": f32(4, 4, 5, 5), "weight": f32(4, 4, 3, 3)}, {}, 3, pool)
            self.both("layer_norm", {"input": square, "weight": f32(6), "bias": f32(6)}, {"normalized_shape": [6]}, 4, pool)
            self.both("tril", {"self": f32(4, 5, 5)}, {}, 3, pool)
            self.both("scaled_dot_product_attention", {name: f32(4, 5, 6) for name in ("query", "key", "value")},
                      {"is_causal": True}, 3, pool)
            self.both("add", {"self": f32(1, 5), "other": f32(6, 5)}, {}, 3, pool)
            self.both("add", {"self": f32(6, 1, 1), "other": f32(6, 5)}, {}, 3, pool)
            self.both("add", {"self": f32(6, 5), "other": f32(6, 5).astype(np.float64)}, {}, 4, pool)

    def test_nothing_to_cut(self):
        for op, inputs, parameters, word in (
                ("sum", {"self": X}, {}, "nothing to cut"), ("sum", {"self": X}, {"dim": [0]}, "nothing to cut"),
                ("softmax", {"self": X}, {"dim": 0}, "looks along"), ("softmax", {"self": X}, {"dim": -2}, "looks along"),
                ("transpose", {"self": f32(5, 5)}, {"dim0": 0, "dim1": 1}, "shapes do not say"),
                ("tril", {"self": f32(5, 5)}, {}, "shapes do not say"),
                ("matmul", {"self": f32(5), "other": f32(5)}, {}, "nothing to cut")):
            with self.subTest(op=op):
                self.refused(op, inputs, {**parameters, "streams": 2}, "streams", word)
                self.assertEqual(self.service.infer(op, inputs, {**parameters, "streams": 1}).status, 200) # RT-32
        self.assertEqual(self.service.infer("relu", {"self": f32()}, {"streams": 2}).parameters["streams"], 1)

    def test_bytes_unevenly(self): # RT-37
        a = RNG.integers(-128, 127, (7, 33)).astype(np.int8)
        b = RNG.integers(-128, 127, (33, 5)).astype(np.int8)
        for streams in (2, 3, 4, 5):
            out = self.both("_int_mm", {"self": a, "mat2": b}, {}, streams)[0]["out"]
            np.testing.assert_array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


class Hints(Streams):
    def hinted(self, op, inputs, parameters, hints):
        outputs, n = self.both(op, inputs, parameters, 3, stream_hints=hints)
        self.assertEqual(n, self.parts(3, 3))
        return outputs

    def test_dimensions(self): # RT-34, RT-35
        a, b = f32(4, 6, 5), f32(4, 6, 5)
        for hints in ({"inputs": {"self": 0, "other": 0}}, {"inputs": {"self": 1, "other": 1}}, {"inputs": [1, 1]},
                      {"inputs": {"self": -1, "other": 2}}, {"inputs": [2, 2], "outputs": [2]},
                      {"inputs": {"self": 1, "other": 1}, "outputs": {"out": -2}}):
            with self.subTest(hints=hints):
                outputs = self.hinted("add", {"self": a, "other": b}, {}, hints)
                np.testing.assert_array_equal(outputs["out"], a + b)
        self.hinted("add", {"self": a, "other": f32(5)}, {}, {"inputs": {"self": 1}})
        self.hinted("add", {"self": a, "other": f32(5)}, {}, {"inputs": {"self": 2, "other": 0}})
        self.hinted("softmax", {"self": X}, {"dim": 0}, {"inputs": {"self": 1}})
        self.hinted("sum", {"self": X}, {"dim": [0]}, {"inputs": {"self": 1}})
        self.hinted("matmul", {"self": f32(4, 5), "other": f32(5, 9)}, {}, {"inputs": {"self": None, "other": 1}})
        self.hinted("linear", {"input": f32(2, 5), "weight": f32(7, 5), "bias": f32(7)}, {},
                    {"inputs": {"input": None, "weight": 0, "bias": 0}, "outputs": {"out": 1}})

    def test_results_that_are_not_joined(self): # RT-34
        """null takes the first stream's: of a product cut along what is summed, the first partial sum."""
        a, b = f32(3, 6), f32(6, 2)
        reply = self.service.infer("matmul", {"self": a, "other": b}, {
            "streams": 3, "pool": "two", "stream_hints": {"inputs": {"self": 1, "other": 0}, "outputs": {"out": None}}})
        rows = 6 // self.parts(3, 6)
        np.testing.assert_allclose(reply.out, a[:, :rows] @ b[:rows], rtol=1e-5, atol=1e-6)
        self.refused("matmul", {"self": a, "other": b}, {"streams": 3, "stream_hints": {"inputs": {"self": 1, "other": 0}}},
                     "cannot be joined")
        self.refused("matmul", {"self": a, "other": b}, {"streams": 3, "stream_hints": {"inputs": {"self": 0}, "outputs": [None]}},
                     "null")

    def test_lists_of_results(self): # RT-33
        """concat_output false: each stream's own result, one even where there is one stream only."""
        weight = f32(5, 12)
        whole = X @ weight.T
        for binary in (False, True):
            for asked in (1, 2, 3, 9):
                reply = self.service.infer("linear", {"input": X, "weight": weight}, {
                    "bias": None, "streams": asked, "concat_output": False, "pool": "two"}, binary=binary)
                self.assertEqual(reply.status, 200, reply.body[:300])
                n = self.parts(asked, 7)
                self.assertEqual([o["name"] for o in reply.json["outputs"]], [f"out[{i}]" for i in range(n)])
                self.assertEqual([len(reply.outputs[f"out[{i}]"]) for i in range(n)],
                                 [7 // n + (i < 7 % n) for i in range(n)])
                np.testing.assert_allclose(np.concatenate(list(reply.outputs.values())), whole, rtol=1e-5, atol=1e-5)
        a, b = f32(3, 6), f32(6, 2) # partial sums, which nothing could join
        for inputs, hints, want in (
                ({"self": a, "other": b}, {"inputs": [1, 0], "outputs": [None]}, lambda rows: a[:, rows] @ b[rows]),
                ({"self": b.T.copy(), "other": a.T.copy()}, {"inputs": [1, 0]}, lambda rows: b[rows].T @ a[:, rows].T)):
            reply = self.service.infer("matmul", inputs, {"streams": 2, "pool": "one", "concat_output": False,
                                                         "stream_hints": hints}, binary=True)
            self.assertEqual(reply.status, 200, reply.body[:300])
            for i, rows in enumerate((slice(0, 3), slice(3, 6))[:self.parts(2, 6, "one")]):
                np.testing.assert_allclose(reply.outputs[f"out[{i}]"], want(rows), rtol=1e-5, atol=1e-5)
        reply = self.service.infer("add", {"self": X, "other": X}, {
            "streams": 2, "pool": "one", "concat_output": False, "stream_hints": {"inputs": [1, 1]}})
        np.testing.assert_array_equal(np.concatenate(list(reply.outputs.values()), 1), X + X)
        self.assertEqual(self.service.infer("relu", {"self": X}, {"streams": 2, "concat_output": True}).out.shape, X.shape)
        self.refused("relu", {"self": X}, {"streams": 2, "concat_output": 0}, "concat_output", "true or false")
        self.refused("relu", {"self": X}, {"concat_output": False}, "concat_output", "streams")
        self.refused("relu", {"self": X}, {"streams": 2, "concat_output": False}, "concat_output",
                     outputs=[{"name": "out", "parameters": {"tensor": "kept"}}])

    def test_nested_hints(self): # RT-34
        """Arrays and objects nest freely; what is no tensor is whole; leaves are null or dimensions."""
        x, w, bias = f32(2, 5), f32(7, 5), f32(7)
        inputs = {"input": x, "weight": w, "bias": bias}
        for hints in ({"input": None, "weight": 0, "bias": 0}, [None, 0, 0], [[None, 0], 0], [[[None]], [0, [0]]],
                      [None, {"bias": 0, "weight": 0}], {"args": [None], "kwargs": {"weight": 0, "bias": 0}},
                      [{"input": None}, 0, -1]):
            for outputs in ({"out": 1}, [1], [[1]], {"group": {"out": -1}}, {"group": [1]}):
                with self.subTest(inputs=hints, outputs=outputs):
                    self.hinted("linear", inputs, {}, {"inputs": hints, "outputs": outputs})
        norm = {"input": f32(6, 4), "weight": f32(4), "bias": f32(4)}
        for hints in ({"input": 0, "weight": None, "bias": None, "normalized_shape": None}, [0, [None, None]]):
            self.both("layer_norm", norm, {"normalized_shape": [4]}, 3, stream_hints={"inputs": hints})
        for wrong in ([[None, 0], "0"], [[None, True], 0], [None, [0, 0, 0]], [None, {"weight": 0}, 0, 0],
                      [None, {"weight": [0]}, 0], {"input": 0, "more": {"input": 0}}, [[], 0.5],
                      {"kwargs": {"nosuch": 0}}):
            with self.subTest(wrong=wrong):
                self.refused("linear", inputs, {"streams": 2, "stream_hints": {"inputs": wrong}}, "stream_hints")
        self.refused("layer_norm", norm, {"normalized_shape": [4], "streams": 2, "stream_hints": {
            "inputs": {"input": 0, "normalized_shape": 0}}}, "stream_hints")

    def test_benchmark(self): # RT-36
        """Every stream computes the whole: as much work as streams, and a result that is not joined."""
        reply = self.service.infer("tanh", {"self": X}, {"streams": 3, "pool": "two", "stream_mode": "benchmark"})
        self.assertEqual((reply.status, reply.parameters["streams"]), (200, min(3, self.most["two"])), reply.body)
        np.testing.assert_allclose(reply.out, np.tanh(X), rtol=1e-6)
        reply = self.service.infer("sum", {"self": X}, {"streams": 2, "pool": "two", "stream_mode": "benchmark",
                                                       "concat_output": False})
        np.testing.assert_allclose([float(v) for v in reply.outputs.values()], [X.sum()] * 2, rtol=1e-5)
        for more, words in (({"stream_mode": "other"}, ("stream_mode", "benchmark")), ({"stream_mode": 1}, ("stream_mode",)),
                            ({"stream_mode": "benchmark", "strict_divisible": True}, ("stream_mode",)),
                            ({"stream_mode": "benchmark", "stream_hints": {"inputs": [0]}}, ("stream_mode",))):
            self.refused("relu", {"self": X}, {"streams": 2, **more}, *words)
        self.refused("relu", {"self": X}, {"stream_mode": "benchmark"}, "stream_mode", "streams")

    def test_wrong_hints(self):
        a, b = f32(4, 6), f32(4, 6)
        for hints in (1, "0", [], [0, 0], {}, {"inputs": 0}, {"inputs": {}}, {"inputs": {"self": None}},
                      {"inputs": {"self": "0"}}, {"inputs": {"self": True}}, {"inputs": {"self": [0]}},
                      {"inputs": {"self": {}}}, {"inputs": {"self": 0.5}}, {"inputs": {"self": 2, "other": 0}},
                      {"inputs": {"self": -3, "other": 0}}, {"inputs": {"nosuch": 0, "self": 0, "other": 0}},
                      {"inputs": [0, 0, 0]}, {"inputs": [0, 0], "outputs": 0}, {"inputs": [0, 0], "outputs": {"x": 0}},
                      {"inputs": [0, 0], "outputs": [0, 0]}, {"inputs": [0, 0], "outputs": [5]},
                      {"inputs": [0, 0], "more": 1}, {"outputs": [0]}):
            with self.subTest(hints=hints):
                self.refused("add", {"self": a, "other": b}, {"streams": 2, "stream_hints": hints}, "stream_hints")
        for hints, word in (({"inputs": {"self": 0, "other": 1}}, "rows"), ({"inputs": {"self": 0}}, "part of"),
                            ({"inputs": [0, 0], "outputs": [1]}, "joined"), ({"inputs": [0, 0], "outputs": [None]}, "null")):
            with self.subTest(hints=hints):
                self.refused("add", {"self": a, "other": b}, {"streams": 2, "stream_hints": hints}, word)
        self.refused("softmax", {"self": a}, {"dim": 1, "streams": 2, "stream_hints": {"inputs": [1]}}, "looks along")
        self.refused("relu", {"self": a}, {"stream_hints": {"inputs": [0]}}, "stream_hints")


class Ways(Streams):
    """Streams go with everything else that a call can be."""

    def test_forms(self):
        for path in ("/v1/ops/{}", "/v2/models/op.{}/infer"):
            for binary in (False, True):
                reply = self.service.infer("mul", {"self": X, "other": X}, {"streams": 3, "pool": "two"}, path=path, binary=binary)
                np.testing.assert_array_equal(reply.out, X * X)
                self.assertEqual(reply.parameters["streams"], self.parts(3, 7))

    def test_stored_weight(self):
        """Shared by the parts, not copied for each."""
        weight = f32(9, 12)
        self.service.call("PUT", "/v1/tensors/w", {"shape": [9, 12], "datatype": "FP32", "data": weight.ravel().tolist()})
        out = self.both("linear", {"input": X, "weight": stored("w")}, {"bias": None}, 3)[0]["out"]
        np.testing.assert_allclose(out, X @ weight.T, rtol=1e-4, atol=1e-5)
        self.assertEqual(self.service.call("GET", "/v1/tensors/w").json["bytes"], weight.nbytes)
        self.service.call("PUT", "/v1/tensors/rows", {"shape": [7, 12], "datatype": "FP32", "data": X.ravel().tolist()})
        self.both("relu", {"self": stored("rows")}, {}, 3)

    def test_kernels(self):
        for kernel in ("ref", "simd"):
            reply = self.service.infer("tanh", {"self": X}, {"streams": 3, "kernel": kernel, "pool": "two", "explain": True})
            self.assertEqual((reply.parameters["kernel"], reply.parameters["streams"]), (kernel, self.parts(3, 7)))
            np.testing.assert_allclose(reply.out, np.tanh(X), rtol=1e-6)
        self.refused("tanh", {"self": X}, {"streams": 3, "kernel": "nosuch"}, "nosuch")

    def test_meta_and_trace(self):
        reply = self.service.infer("tanh", {"self": X}, {"streams": 3, "meta": True})
        self.assertEqual((reply.status, reply.json["outputs"][0]["shape"]), (200, [7, 12]))
        reply = self.service.infer("tanh", {"self": X}, {"streams": 3, "trace": True, "pool": "two"})
        self.assertEqual((reply.status, reply.parameters["streams"]), (200, self.parts(3, 7)))

    def test_autocast(self):
        out = self.both("linear", {"input": X, "weight": f32(5, 12)}, {"autocast": "BF16", "bias": None}, 3)
        self.assertEqual(out[1], self.parts(3, 7))

    def test_in_place(self):
        self.service.call("PUT", "/v1/tensors/place", {"shape": [7, 12], "datatype": "FP32", "data": X.ravel().tolist()})
        reply = self.service.infer("add_", {"self": stored("place"), "other": X}, {"streams": 3, "pool": "two"})
        self.assertEqual((reply.status, reply.parameters["streams"]), (200, self.parts(3, 7)), reply.body)
        np.testing.assert_array_equal(self.service.op("relu", {"self": stored("place")}), np.maximum(2 * X, 0))

    def test_shared_memory(self):
        key = f"/tensord_streams_{os.getpid()}"
        with open("/dev/shm" + key, "xb") as f:
            f.write(X.tobytes() + bytes(X.nbytes))
        self.addCleanup(os.unlink, f.name)
        path = "/v2/systemsharedmemory/region/streams/"
        self.assertEqual(self.service.call("POST", path + "register", {"key": key, "byte_size": 2 * X.nbytes}).status, 200)

        def place(at):
            return {"parameters": {"shared_memory_region": "streams", "shared_memory_byte_size": X.nbytes,
                                   "shared_memory_offset": at}}
        for at in (X.nbytes, 0): # beside, and in place
            reply = self.service.infer("neg", {"self": {"shape": [7, 12], "datatype": "FP32", **place(0)}},
                                       {"streams": 3, "pool": "two"}, outputs=[{"name": "out", **place(at)}])
            self.assertEqual((reply.status, reply.parameters["streams"]), (200, self.parts(3, 7)), reply.body)
            with open(f.name, "rb") as segment:
                np.testing.assert_array_equal(np.frombuffer(segment.read()[at:at + X.nbytes], np.float32).reshape(X.shape), -X)
        self.service.call("POST", path + "unregister", b"")

    def test_as_a_task(self):
        body, headers = service.pack({"self": X}, {"streams": 3, "pool": "two"}, binary=True)
        reply = self.service.call("POST", "/v1/ops/neg", body, {**headers, "Prefer": "respond-async"})
        self.assertEqual(reply.status, 202)
        reply = self.service.call("GET", reply.headers["Location"] + "?wait=60")
        np.testing.assert_array_equal(reply.out, -X)
        self.assertEqual(reply.parameters["streams"], self.parts(3, 7))

    def test_no_call_waits_for_itself(self): # RT-23
        """More calls at a time than workers, each wanting all of them; a queue without room for helpers."""
        for pool in ("two", "tight"):
            results, lock = [], threading.Lock()

            def call(pool=pool, results=results):
                connection = self.service.connect()
                for i in range(20):
                    x = np.full((9, 9000), i, np.float32) # long enough for calls to meet
                    reply = self.service.infer("neg", {"self": x}, {"streams": "auto", "pool": pool}, binary=True,
                                               connection=connection)
                    with lock:
                        results.append(reply.status if reply.status != 200 else bool((reply.out == -i).all()))
                connection.close()
            threads = [threading.Thread(target=call) for _ in range(8)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            self.assertEqual(len(results), 160)
            self.assertLessEqual(set(results), {True} if pool == "two" else {True, 429})
            self.assertIn(True, results)

    def test_a_pool_that_goes(self):
        self.service.call("PUT", "/v1/pools/gone", {"cpus": CPUS, "streams": 2, "threads": 4})
        statuses = []

        def call():
            for _ in range(30):
                statuses.append(self.service.infer("exp", {"self": f32(64, 256)}, {"streams": 4, "pool": "gone"}, binary=True).status)
        threads = [threading.Thread(target=call) for _ in range(3)]
        for t in threads:
            t.start()
        self.service.call("DELETE", "/v1/pools/gone")
        for t in threads:
            t.join()
        self.assertLessEqual(set(statuses), {200, 404, 503})
        self.alive()


if __name__ == "__main__":
    service.main()
