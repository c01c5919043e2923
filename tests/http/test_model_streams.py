#!/usr/bin/env python3
"""A model's call cut over a pool's streams gives what it gives whole, on the same weights."""
import os

import numpy as np

import models
import service
from service import Service, stored
from streams import StreamsTest, pool_of

POOLS = (*pool_of("two", 2, 4), *pool_of("one", 1, 4))
RNG = np.random.default_rng(7)


def f32(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def cell():
    """next = x + state, of x [n,3] and a state [2,n,3] of which it adds the first half; total: x's sum."""
    return models.onnx_file(
        [("Gather", ["state", "zero"], ["half"], {"axis": 0}), ("Add", ["x", "half"], ["y"], {}),
         ("Add", ["state", "x"], ["next"], {}), ("ReduceSum", ["x"], ["total"], {"keepdims": 0})],
        [models.port("x", ["n", 3]), models.port("state", [2, "n", 3])],
        [models.port("y", ["n", 3]), models.port("next", [2, "n", 3]), models.port("total", [])], {"zero": np.array(0)})


def picky():
    """y = x + c of four rows: parts of two have none to add."""
    return models.onnx_file([("Add", ["x", "c"], ["y"], {})], [models.port("x", ["n", 3])], [models.port("y", ["m", 3])],
                            {"c": np.ones((4, 3), np.float32)})


def positive():
    """The values of x that are more than 0: as many as there are."""
    return models.onnx_file([("NonZero", ["b"], ["at"], {}), ("Greater", ["x", "zero"], ["b"], {})][::-1],
                            [models.port("x", ["n"])], [models.port("at", [1, "m"], "INT64")], {"zero": np.float32(0)})


class Streams(StreamsTest):
    args = POOLS

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        for name, file in (("line", models.line()), ("two", models.two()), ("cell", cell()), ("picky", picky()),
                           ("positive", positive())):
            cls.service.call("PUT", "/v1/models/" + name, file)

    def infer(self, name, inputs, parameters=None, **how):
        return self.service.infer(name, inputs, {"pool": "two", **(parameters or {})}, path="/v2/models/{}/infer", **how)

    def right(self, reply):
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply

    def refused(self, name, inputs, parameters, *words, **how):
        self.problem(self.infer(name, inputs, {"streams": 2, **parameters}, **how), 400, *words)

    def test_like_the_model(self): # RT-27
        for batch in range(10):
            x = f32(batch, 3)
            for asked in (1, 2, 3, "auto"):
                for pool in ("two", "one"):
                    for how in ({}, {"binary": True}, {"eager": True}):
                        reply = self.right(self.infer("line", {"x": x}, {"streams": asked, "pool": pool, "eager": "eager" in how},
                                                      binary="binary" in how))
                        np.testing.assert_allclose(reply.outputs["y"], models.line_of(x), rtol=1e-5, atol=1e-5)
                        wanted = self.most[pool] if asked == "auto" else asked
                        self.assertEqual(reply.parameters["streams"], self.parts(wanted, batch, pool))

    def test_estimate_of_a_first_call(self):
        """What nobody has timed yet is null, and the reply JSON."""
        self.assertEqual(self.service.call("PUT", "/v1/models/fresh", models.line()).status, 201)
        reply = self.service.infer("fresh", {"x": f32(4, 3)}, {"streams": 2, "explain": True}, path="/v2/models/{}/infer")
        self.assertIsNone(self.right(reply).parameters["explain"]["estimate_us"])

    def test_several_inputs(self):
        a, b = f32(5, 2), f32(2)
        names = [{"name": "sum"}, {"name": "product"}]
        reply = self.right(self.infer("two", {"a": a, "b": b}, {"streams": 2}, outputs=names))
        np.testing.assert_array_equal(reply.outputs["sum"], a + b)
        np.testing.assert_array_equal(reply.outputs["product"], a * b)
        self.refused("two", {"a": a, "b": b}, {}, "cannot be joined into shape") # of a part
        self.refused("cell", {"x": f32(4, 3), "state": f32(2, 4, 3)}, {}, "next", "stream_hints")
        self.refused("cell", {"x": f32(4, 3), "state": f32(2, 4, 3)}, {}, "broadcast", outputs=[{"name": "y"}])
        reply = self.right(self.infer("line", {"x": f32(4, 3)}, {"streams": 2, "explain": True}))
        self.assertGreaterEqual(reply.parameters["explain"]["calls"], 2)

    def test_hints(self):
        x, state = f32(5, 3), f32(2, 5, 3)
        for inputs in ({"x": 0, "state": 1}, [0, 1], {"state": -2, "x": -2}, [[0], {"state": 1}]):
            for outputs in ({"y": 0, "next": 1, "total": None}, [0, [1, None]]):
                for binary in (False, True):
                    reply = self.right(self.infer("cell", {"x": x, "state": state}, {
                        "streams": 2, "stream_hints": {"inputs": inputs, "outputs": outputs}}, binary=binary))
                    got = reply.outputs
                    np.testing.assert_allclose(got["y"], x + state[0], rtol=1e-6)
                    np.testing.assert_allclose(got["next"], x + state, rtol=1e-6)
                    np.testing.assert_allclose(got["total"], x[:3].sum(), rtol=1e-4, atol=1e-5) # the first part's
        good = {"x": x, "state": state}
        for hints, word in (({"inputs": {"x": 0, "nosuch": 0}}, "nosuch"), ({"inputs": {"x": 2}}, "from -2 to 1"),
                            ({"inputs": {"x": 0, "state": 2}}, "3 rows"), ({"inputs": {"x": None}}, "at least one"),
                            ({"inputs": {"x": 0, "state": 1}, "outputs": {"next": 3}}, "from -3 to 2"),
                            ({"inputs": {"x": 0, "state": 1}}, "next"), ({"inputs": [0, 1], "outputs": [0, 1]}, "total"), ({"inputs": [0, 1], "outputs": [0, 0, None]}, "next"),
                            ({"inputs": [1, 2], "outputs": [1, 2, None]}, "part of 2 rows"), ([], "object")):
            with self.subTest(hints=hints):
                self.refused("cell", good, {"stream_hints": hints}, word)

    def test_results_that_are_not_joined(self):
        x, state = f32(5, 3), f32(2, 5, 3)
        parameters = {"streams": 2, "concat_output": False, "stream_hints": {"inputs": [0, 1]}}
        for binary in (False, True):
            got = self.right(self.infer("cell", {"x": x, "state": state}, parameters, binary=binary)).outputs
            self.assertEqual(list(got), [f"{name}[{k}]" for name in ("y", "next", "total") for k in range(2)])
            for k, rows in enumerate((slice(0, 3), slice(3, 5))):
                np.testing.assert_allclose(got[f"next[{k}]"], (x + state)[:, rows], rtol=1e-6)
                np.testing.assert_allclose(got[f"total[{k}]"], x[rows].sum(), rtol=1e-4, atol=1e-5)
            values = np.array([1, -1, 2, 3, -4, 5], np.float32) # results of sizes that nobody knew
            got = self.right(self.infer("positive", {"x": values}, {"streams": 2, "concat_output": False}, binary=binary)).outputs
            self.assertEqual([v.tolist() for v in got.values()], [[[0, 2]], [[0, 2]]])
            for batch in (0, 1): # one part
                got = self.right(self.infer("line", {"x": x[:batch]}, {"streams": 2, "concat_output": False}, binary=binary)).outputs
                np.testing.assert_allclose(got["y[0]"], models.line_of(x[:batch]), rtol=1e-5)
        joined = {"inputs": [0], "outputs": [1]}
        got = self.right(self.infer("positive", {"x": values}, {"streams": 2, "stream_hints": joined})).outputs
        self.assertEqual(got["at"].tolist(), [[0, 2, 0, 2]])
        self.refused("line", {"x": x}, {"concat_output": False}, "no other place", outputs=[{"name": "y", "parameters": {"tensor": "t"}}])

    def test_other_rules(self):
        x = f32(5, 3)
        reply = self.infer("line", {"x": x}, {"streams": 2, "strict_divisible": True})
        self.problem(reply, 422, "5", "2 streams")
        self.right(self.infer("line", {"x": x[:4]}, {"streams": 2, "strict_divisible": True}))
        self.problem(self.infer("line", {"x": x[:1]}, {"streams": 2, "strict_divisible": True}), 422, "a batch of 1 ")
        self.right(self.infer("line", {"x": x[:0]}, {"streams": 2, "strict_divisible": True}))
        reply = self.right(self.infer("line", {"x": x}, {"streams": 2, "stream_mode": "benchmark"}))
        np.testing.assert_allclose(reply.outputs["y"], models.line_of(x), rtol=1e-5, atol=1e-5)
        self.refused("picky", {"x": f32(4, 3)}, {}, "Add") # what a part's run says
        self.right(self.infer("picky", {"x": f32(4, 3)}))
        self.problem(self.infer("line", {"x": x}, {"concat_output": False}), 400, "streams")
        self.problem(self.infer("line", {"x": x}, {"streams": 0}), 400, "streams")
        self.alive()

    def test_places(self):
        x = f32(5, 3)
        self.service.call("PUT", "/v1/tensors/x", {"shape": [5, 3], "datatype": "FP32", "data": x.ravel().tolist()})
        reply = self.right(self.infer("line", {"x": stored("x")}, {"streams": 2}, outputs=[{"name": "y", "parameters": {"tensor": "y"}}]))
        self.assertEqual(reply.json["outputs"][0]["shape"], [5, 4])
        np.testing.assert_allclose(self.service.call("GET", "/v1/tensors/y").json["data"], models.line_of(x).ravel(), rtol=1e-5, atol=1e-5)
        body, headers = service.pack({"x": x}, {"streams": 2, "pool": "two"}, binary=True)
        reply = self.service.call("POST", "/v2/models/line/infer", body, {**headers, "Prefer": "respond-async"})
        reply = self.service.call("GET", reply.headers["Location"] + "?wait=60")
        np.testing.assert_allclose(reply.outputs["y"], models.line_of(x), rtol=1e-5, atol=1e-5)
        key, path = f"tensord_streams_{os.getpid()}", "/v2/systemsharedmemory/region/streams/"
        place = np.memmap("/dev/shm/" + key, np.float32, "w+", shape=64)
        self.addCleanup(os.unlink, "/dev/shm/" + key)
        self.service.call("POST", path + "register", {"key": "/" + key, "byte_size": 256})
        self.addCleanup(self.service.call, "POST", path + "unregister")
        at = {"shared_memory_region": "streams", "shared_memory_offset": 64, "shared_memory_byte_size": 80}
        self.right(self.infer("line", {"x": x}, {"streams": 2}, outputs=[{"name": "y", "parameters": at}]))
        np.testing.assert_allclose(place[16:36].reshape(5, 4), models.line_of(x), rtol=1e-5, atol=1e-5)

    def test_stopped(self):
        self.service.call("PUT", "/v1/models/forever", models.forever())
        reply = self.infer("forever", {"n": np.array(10**15), "x": f32(1)}, {
            "streams": 2, "timeout_ms": 300, "stream_mode": "benchmark"})
        self.problem(reply, 504, "300 ms")
        self.right(self.infer("line", {"x": f32(4, 3)}, {"streams": 2}))


class Weights(service.ServiceTest):
    args = (*POOLS, "--store-bytes", "30000000", "--tune", "off")

    def test_counted_once(self): # RT-27
        """8 MB of weights, and one packed form of them, in as many streams as there are; nor is a second copy resident."""
        used = lambda: self.service.call("GET", "/v1/models").json["store"]["bytes"]
        def resident():
            with open(f"/proc/{self.service.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
        weights = np.tile(np.arange(64, dtype=np.float32)[:, None], (1, 32768))
        file = models.onnx_file([("MatMul", ["x", "w"], ["y"], {})], [models.port("x", ["n", 64])], [models.port("y", ["n", 32768])],
                                {"w": weights})
        self.assertEqual(self.service.call("PUT", "/v1/models/big", file).status, 201)
        x = f32(4, 64)
        def ask(**more):
            reply = self.service.infer("big", {"x": x}, {"pool": "two", **more}, binary=True, path="/v2/models/{}/infer")
            self.assertEqual(reply.status, 200, reply.body[:300])
            np.testing.assert_allclose(reply.outputs["y"][:, ::1000], (x @ weights)[:, ::1000], rtol=1e-3, atol=1e-3)
        for _ in range(20):
            ask()
        whole_bytes = used()
        self.assertLess(whole_bytes, 2.2 * weights.nbytes)
        for n in range(20): # parts of one row read the plain elements, others the packed form
            ask(streams=(1, 2, 4)[n % 3])
        whole = resident()
        cut_bytes = []
        for _ in range(2):
            for _ in range(10):
                ask(streams="auto")
            cut_bytes.append(used())
        for cut in cut_bytes: # "auto" goes by times, and may come to a shape later
            self.assertLess(cut, whole_bytes + weights.nbytes // 2, "plans of the parts' shapes are stored, and no weights")
        self.assertLess(cut_bytes[1] - cut_bytes[0], weights.nbytes // 4, "and none with each call")
        print(f"{whole >> 20} MiB resident, {resident() >> 20} after more cut calls; {cut_bytes[0] >> 20} MiB stored")
        if not service.SANITIZED:
            self.assertLess(resident(), whole + weights.nbytes // 2)


if __name__ == "__main__":
    service.main()
