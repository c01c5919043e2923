#!/usr/bin/env python3
"""Operators that go where values lead: indices are judged before anything is read, whichever way a
call comes, nobody can change them afterwards, and results have the size that values give them."""
import re
import threading

import numpy as np

import service
import test_shm
from service import stored

TABLE = np.arange(20, dtype=np.float32).reshape(5, 4)
WRONG = np.array([0, 5], np.int64)
MASK = TABLE % 3 == 1


class Index(service.ServiceTest):
    args = ("--pool", f"default={','.join(service.CPUS)}:threads=4")

    def test_out_of_range(self):
        cases = [("gather", {"self": TABLE, "index": np.full((2, 4), 5)}, {"dim": 0}),
                 ("index_select", {"self": TABLE, "index": WRONG}, {"dim": 0}),
                 ("index_select", {"self": TABLE, "index": WRONG - 1}, {"dim": 0}),
                 ("embedding", {"weight": TABLE, "indices": WRONG}, {}),
                 ("index_select", {"self": TABLE[:, :0], "index": WRONG}, {"dim": 0}), # of no elements, as PyTorch refuses it
                 ("embedding", {"weight": TABLE[:, :0], "indices": WRONG}, {}),
                 ("take", {"self": TABLE, "index": np.array([-21])}, {}),
                 ("index", {"self": TABLE, "indices.1": np.array([-5])}, {}),
                 ("index_put", {"self": TABLE, "indices.0": np.array([2**62]), "values": TABLE[:1]}, {}),
                 ("scatter_add", {"self": TABLE, "index": np.full((1, 4), -1), "src": TABLE}, {"dim": 0}),
                 ("one_hot", {"self": WRONG}, {"num_classes": 5})]
        for op, tensors, parameters in cases:
            for kernel in ("simd", "ref"):
                with self.subTest(op=op, kernel=kernel):
                    reply = self.service.infer(op, tensors, {**parameters, "kernel": kernel})
                    self.problem(reply, 400, "out of range", "is right")

    def test_out_of_range_otherwise(self):
        """As a task, on streams, of a stored tensor, in place: refused in the same words, changing nothing."""
        body = {"inputs": [{"name": "weight", "shape": [5, 4], "datatype": "FP32", "data": TABLE.tolist()},
                           {"name": "indices", "shape": [2], "datatype": "INT64", "data": [0, 5]}]}
        task = self.service.call("POST", "/v1/ops/embedding", body, {"Prefer": "respond-async"})
        self.assertEqual(task.status, 202)
        self.problem(self.service.call("GET", f"{task.headers['Location']}?wait=10"), 400, "out of range")
        hints = {"streams": 2, "stream_hints": {"inputs": {"indices": 0}}}
        self.problem(self.service.call("POST", "/v1/ops/embedding", {**body, "parameters": hints}), 400, "out of range")
        self.service.call("PUT", "/v1/tensors/table", {"shape": [5, 4], "datatype": "FP32", "data": TABLE.tolist()})
        tensors = {"self": stored("table"), "index": WRONG}
        self.problem(self.service.infer("index_fill_", tensors, {"dim": 0, "value": 0}), 400, "out of range")
        self.assertEqual(self.service.call("GET", "/v1/tensors/table").status, 200)
        self.assertTrue((self.service.op("relu", {"self": stored("table")}) == TABLE).all())

    def test_results_without_elements(self):
        """Indices are judged too where the result has no elements: in expressions, in plans, of conversions, beside other calls."""
        port = lambda name, t: {"name": name, "shape": list(t.shape), "datatype": {"f": "FP32", "i": "INT64"}[t.dtype.kind], "data": t.ravel().tolist()}
        empty, right = TABLE[:, :0], WRONG - 1
        for expr in ("index_select(x, 0, i)", "relu(index_select(x * 2, 0, i) + 1)", "embedding(x, i + 0)", "index_select(x.t(), 1, i)",
                     "index_select(x.to(BF16), 0, i)", "index_select(x, 0, abs(i) + 0)", "y = sum(ones([3])); z = index_select(x, 0, i)"):
            body = {"inputs": [port("x", empty), port("i", right[1:])], "expr": expr}
            self.assertEqual(self.service.call("POST", "/v1/eval", body).status, 200, expr)
            body["inputs"][1] = port("i", WRONG)
            self.problem(self.service.call("POST", "/v1/eval", body), 400, "out of range", "is right")
            self.service.call("PUT", "/v1/models/none", {"expr": expr, "inputs": [
                {"name": "x", "datatype": "FP32", "shape": [5, 0]}, {"name": "i", "datatype": "INT64", "shape": [-1]}]})
            for index in 4 * (right[1:], WRONG):
                reply = self.service.call("POST", "/v2/models/none/infer", {"inputs": [port("x", empty), port("i", index)]})
                if index is WRONG:
                    self.problem(reply, 400, "out of range", "is right")
                else:
                    self.assertEqual(reply.status, 200, reply.body)

    def test_what_no_result_needs(self):
        """Where no result has elements, nothing is computed, converted or copied but for a check. Nodes of a model are
        computed one by one: those of this size may be refused."""
        for expr, shape in (("x - sum(x, [1], True)", [1 << 40, 0]), ("relu(x + expand(y, [1099511627776, 1])) * 2", [1, 0]),
                            ("index_select(x - sum(x, [1], True), 0, i)", [1 << 40, 0]),
                            ("index_select(expand(y, [1099511627776, 3]), 0, i)", [0]),
                            ("index_select(expand(y, [1099511627776, 3]).to(BF16), 0, i)", [0])):
            inputs = [{"name": "x", "datatype": "FP32", "shape": shape, "data": []},
                      {"name": "y", "datatype": "FP32", "shape": [1, 1], "data": [1]},
                      {"name": "i", "datatype": "INT64", "shape": [0], "data": []}]
            inputs = [port for port in inputs if re.search(rf"\b{port['name']}\b", expr)]
            reply = self.service.call("POST", "/v1/eval", {"inputs": inputs, "expr": expr})
            self.assertEqual(reply.status, 200, (expr, reply.body[:300]))
            self.assertEqual(reply.json["outputs"][0]["data"], [])
            ports = [{k: v for k, v in port.items() if k != "data"} for port in inputs]
            self.assertIn(self.service.call("PUT", "/v1/models/none", {"expr": expr, "inputs": ports}).status, (200, 201))
            for _ in range(4):
                reply = self.service.call("POST", "/v2/models/none/infer", {"inputs": inputs})
                if reply.status != 200:
                    self.problem(reply, 503, "no memory for")

    def test_sequence_without_dimensions(self):
        point = np.float32(2)
        for values in (point, TABLE):
            tensors = {"sorted_sequence": np.asarray(point), "self": np.asarray(values)}
            self.problem(self.service.infer("searchsorted", tensors), 400, "one dimension")

    def test_streams_by_hints_alone(self):
        if self.service.call("GET", "/v1/pools/default").json["threads"] < 2:
            self.skipTest("skipped: one thread, which no call is cut for")
        mask = {"self": TABLE, "indices.0": MASK}
        self.problem(self.service.infer("index", mask, {"streams": 2}), 400, "size")
        tensors = {"self": TABLE, "index": np.array([[1, 2], [0, 3], [3, 3], [0, 0], [1, 1]])}
        reply = self.service.infer("gather", tensors, {"dim": 1, "streams": 2})
        self.problem(reply, 400, "streams", "stream_hints")
        hints = {"dim": 1, "streams": 2, "stream_hints": {"inputs": {"self": 0, "index": 0}}}
        self.assertTrue((self.service.op("gather", tensors, hints) == np.take_along_axis(TABLE, tensors["index"], 1)).all())

    def test_searched_without_a_dimension(self):
        one = np.array(1.5, np.float32)
        for op, inputs, parameters in (("searchsorted", {"sorted_sequence": one, "self": one}, {}), ("searchsorted", {"sorted_sequence": one}, {"self": 2.5}),
                                       ("bucketize", {"boundaries": one, "self": one}, {}), ("bucketize", {"boundaries": one}, {"self": 2.5})):
            self.problem(self.service.infer(op, inputs, parameters), 400, "must have one dimension")

    def test_size_that_values_give(self):
        right = TABLE[MASK]
        for binary in (False, True):
            reply = self.service.infer("index", {"self": TABLE, "indices.0": MASK}, binary=binary)
            self.assertEqual(reply.status, 200, reply.body)
            self.assertTrue(np.array_equal(reply.out, right))
        self.assertEqual(self.service.op("index", {"self": TABLE, "indices.0": MASK & False}).shape, (0,))
        some = np.array([True, False, False, True])
        self.assertTrue((self.service.op("index", {"self": TABLE, "indices.1": some}) == TABLE[:, some]).all())
        self.problem(self.service.infer("index", {"self": TABLE, "indices.0": np.array([1, 2, 3]), "indices.1": some}),
                     400, "2 elements set", "3")
        out = [{"name": "out", "parameters": {"tensor": "chosen"}}]
        reply = self.service.infer("index", {"self": TABLE, "indices.0": MASK}, outputs=out)
        self.assertEqual(reply.json["outputs"][0]["shape"], [len(right)])
        self.assertEqual(self.service.call("GET", "/v1/tensors/chosen").json["shape"], [len(right)])
        self.assertTrue((self.service.op("relu", {"self": stored("chosen")}) == right).all())
        self.assertEqual(self.service.infer("index", {"self": TABLE, "indices.0": MASK}, {"meta": True}).json["outputs"][0]["shape"], [-1])
        values = {"self": TABLE, "indices.0": MASK, "values": np.zeros(3, np.float32)}
        self.problem(self.service.infer("index_put", values), 400, "values")


class Shared(test_shm.Shm):
    def test_counted_into_shared_memory(self):
        segment = self.region("out", TABLE.nbytes)
        reply = self.run_op("index", {"self": TABLE, "indices.0": MASK}, outputs=test_shm.output("out", TABLE.nbytes))
        self.assertEqual(reply.json["outputs"][0]["shape"], [MASK.sum()])
        self.assertTrue((segment.read(TABLE[MASK]) == TABLE[MASK]).all())

    def test_changed_while_it_runs(self):
        """Whoever changes indices or masks while they are used hurts nobody: right before or refused."""
        index = np.zeros(40000, np.int64)
        segment = self.region("index", index.nbytes)
        stop = threading.Event()

        def change():
            wild = np.full(40000, 2**40, np.int64)
            while not stop.is_set():
                segment.write(wild)
                segment.write(index)
        thread = threading.Thread(target=change)
        thread.start()
        try:
            where = test_shm.shared("index", index)
            mask = {**test_shm.shared("index", index.view(np.uint8).astype(bool)), "shape": [40000], "datatype": "BOOL"}
            mask["parameters"]["shared_memory_byte_size"] = 40000
            seen = set()
            for i in range(60):
                for op, tensors, parameters in (
                        ("embedding", {"weight": TABLE, "indices": where}, {}),
                        ("index", {"self": TABLE, "indices.0": where}, {}),
                        ("index", {"self": np.zeros(40000, np.int8), "indices.0": mask}, {})):
                    reply = self.service.infer(op, tensors, {**parameters, "kernel": ("simd", "ref")[i % 2]}, binary=True)
                    self.assertIn(reply.status, (200, 400), reply.body[:200])
                    seen.add(reply.status)
                again = self.service.infer("", {"a": TABLE, "b": index}, binary=True, path="/v1/eval", expr="x = abs(b); y = embedding(a, x)",
                                           outputs=[*test_shm.output("index", index.nbytes, name="x"), {"name": "y"}])
                self.assertEqual(again.status, 200, again.body[:200])
        finally:
            stop.set()
            thread.join()
        self.alive()


del test_shm.Regions # which unittest would run as well
if __name__ == "__main__":
    service.main()
