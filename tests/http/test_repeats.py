#!/usr/bin/env python3
"""A call that comes again with the same JSON, which the server then does not parse again: the reply
is that of the bytes, tensors, pools and options of this time."""
import json
import re
import threading

import numpy as np

import service
from service import stored


class Repeats(service.ServiceTest):
    def texts(self):
        """How many texts were (known, new) so far."""
        found = self.service.call("GET", "/metrics").body.decode()
        return tuple(int(re.search(rf'texts_total{{known="{known}"}} (\d+)', found)[1])
                     for known in ("yes", "no"))

    def add(self, *values, parameters=None, how=None, **inputs):
        inputs = inputs or {"self": np.array(values, np.float32), "other": np.array(values, np.float32)}
        return self.service.infer("add", inputs, parameters, **(how or {"binary": True}))

    def test_bytes_of_this_time(self):
        before = self.texts()
        rng = np.random.default_rng(1)
        for _ in range(20):
            a, b = rng.standard_normal((2, 64)).astype(np.float32)
            reply = self.service.infer("add", {"self": a, "other": b}, binary=True)
            np.testing.assert_array_equal(reply.out, a + b)
        known, new = self.texts()
        self.assertEqual((known - before[0], new - before[1]), (19, 1))

    def test_conversions_and_odd_places(self):
        """The second input is converted, and begins where its type may not lie."""
        rng = np.random.default_rng(2)
        for wide in (np.float64, np.int64, np.float32):
            for _ in range(4):
                a, b = rng.integers(-9, 9, 3).astype(np.int8), rng.integers(-9, 9, 3).astype(wide)
                for inputs in ({"self": a, "other": b}, {"self": b, "other": a}):
                    reply = self.service.infer("sub", inputs, {"alpha": 2}, binary=True)
                    self.assertEqual(reply.out.dtype, wide)
                    np.testing.assert_array_equal(reply.out, inputs["self"].astype(wide) - 2 * inputs["other"].astype(wide))

    def test_every_operator_again(self):
        for op, arguments in (("softmax", {"dim": -1}), ("sum", {"dim": [0], "keepdim": True}), ("matmul", {}),
                              ("transpose", {"dim0": 0, "dim1": 1}), ("cast", {"dtype": "BF16"})):
            for k in range(4):
                x = np.full((4, 4), k, np.float32)
                inputs = {"self": x, "other": x} if op == "matmul" else {"self": x}
                want = self.service.infer(op, inputs, {**arguments, "explain": True}, binary=True) # never kept
                got = self.service.infer(op, inputs, arguments, binary=True)
                self.assertEqual(got.status, 200, got.body)
                self.assertEqual(got.body[got.json_length:], want.body[want.json_length:], op)
                self.assertEqual(got.json["outputs"], want.json["outputs"])

    def test_options_of_this_time(self):
        """Texts that differ in one option, in turns; each has its own answer, first and later."""
        x = np.array([1, 2, 4], np.float32)
        cases = [({}, 200, lambda r: np.testing.assert_array_equal(r.out, 2 * x)),
                 ({"alpha": 3}, 200, lambda r: np.testing.assert_array_equal(r.out, 4 * x)),
                 ({"alpha": 4}, 200, lambda r: np.testing.assert_array_equal(r.out, 5 * x)),
                 ({"kernel": "ref"}, 200, lambda r: self.assertEqual(r.parameters["kernel"], "ref")),
                 ({"kernel": "nil"}, 400, lambda r: self.problem(r, 400, "nil")),
                 ({"explain": True}, 200, lambda r: self.assertIn("explain", r.parameters)),
                 ({"meta": True}, 200, lambda r: self.assertNotIn("kernel", r.parameters)),
                 ({"pool": "nowhere"}, 404, lambda r: self.problem(r, 404, "nowhere")),
                 ({"binary_data_output": False}, 200,
                  lambda r: self.assertEqual(r.json["outputs"][0]["data"], [2, 4, 8])),
                 ({"nonsense": 1}, 400, lambda r: self.problem(r, 400, "nonsense"))]
        for _ in range(4):
            for parameters, status, check in cases:
                reply = self.service.infer("add", {"self": x, "other": x}, parameters, binary=True)
                self.assertEqual(reply.status, status, parameters)
                check(reply)

    def test_the_path_counts_too(self):
        x = {"self": np.array([3], np.float32), "other": np.array([5], np.float32)}
        for _ in range(3):
            for op, want in (("add", 8), ("sub", -2), ("mul", 15), ("add.Tensor", 8)):
                self.assertEqual(self.service.op(op, x, binary=True), want)
            reply = self.service.infer("mul", x, binary=True, path="/v2/models/op.{}/infer")
            self.assertEqual((reply.json["model_name"], reply.out), ("op.mul", 15))
            self.problem(self.service.infer("nosuch", x, binary=True), 404)

    def test_sizes(self):
        """The text says how many bytes follow it; too few or too many are refused as before."""
        x = {"self": np.ones(8, np.float32), "other": np.ones(8, np.float32)}
        body, headers = service.pack(x, binary=True)
        for _ in range(3):
            self.assertEqual(self.service.call("POST", "/v1/ops/add", body, headers).status, 200)
            self.problem(self.service.call("POST", "/v1/ops/add", body[:-4], headers), 400, "left")
            self.problem(self.service.call("POST", "/v1/ops/add", body + b"1234", headers), 400, "4 bytes more")
            del headers["Inference-Header-Content-Length"]
            head = len(body) - 64
            self.problem(self.service.call("POST", "/v1/ops/add", body[:head], headers), 400,
                         "Inference-Header-Content-Length")
            headers["Inference-Header-Content-Length"] = str(head)

    def test_bools_are_judged(self):
        for byte, status in ((1, 200), (2, 400), (1, 200), (255, 400)):
            body, headers = service.pack({"self": np.array([True]), "other": np.array([True])}, binary=True)
            body = body[:-1] + bytes([byte])
            self.assertEqual(self.service.call("POST", "/v1/ops/mul", body, headers).status, status)

    def test_stored_tensors(self):
        def put(value):
            body = {"shape": list(value.shape), "datatype": service.datatype(value), "data": value.ravel().tolist()}
            self.assertIn(self.service.call("PUT", "/v1/tensors/again", body).status, (200, 201))
        x = np.array([10, 20], np.float32)
        for how in ({"binary": True}, {"binary": False}):
            one = {"self": stored("again"), "other": stored("again")}
            two = {"self": x, "other": stored("again")}
            self.problem(self.service.infer("add", one, **how), 404, "again")
            for value in (np.array([1, 2], np.float32), np.array([3, 4], np.float32),
                          np.array([[5, 6], [7, 8]], np.float32), np.array([1, 2], np.int32),
                          np.array([1, 2, 3], np.float32)):
                put(value)
                for _ in range(2):
                    reply = self.service.infer("add", one, **how)
                    np.testing.assert_array_equal(reply.out, value + value)
                    self.assertEqual(reply.out.dtype, value.dtype)
                    reply = self.service.infer("add", two, **how)
                    if value.shape[-1] == 2:
                        np.testing.assert_array_equal(reply.out, x + value)
                    else:
                        self.assertEqual(reply.status, 400)
            self.service.call("DELETE", "/v1/tensors/again")
            self.problem(self.service.infer("add", one, **how), 404, "again")

    def test_pools(self):
        x = {"self": np.ones(3, np.float32)}
        call = lambda: self.service.infer("relu", x, {"pool": "passing"}, binary=True)  # noqa: E731
        self.problem(call(), 404, "passing")
        for threads in (1, 1, 1):
            made = self.service.call("PUT", "/v1/pools/passing", {"cpus": service.CPUS[0], "threads": threads})
            self.assertIn(made.status, (200, 201), made.body)
            for _ in range(3):
                self.assertEqual(call().parameters["pool"], "passing")
            self.assertIn(self.service.call("DELETE", "/v1/pools/passing").status, (200, 204))
            self.problem(call(), 404, "passing")

    def test_many_clients(self):
        """Each with texts of its own and shared ones, at the same time."""
        wrong = []

        def client(seed):
            rng = np.random.default_rng(seed)
            connection = self.service.connect()
            for i in range(150):
                n = int(rng.integers(1, 40))
                x = rng.integers(-99, 99, n).astype(np.float32)
                more = {"id": f"{seed}-{i}"} if i % 3 == 0 else {}
                reply = self.service.infer("add", {"self": x, "other": x}, binary=True,
                                           connection=connection, **more)
                if not np.array_equal(reply.out, 2 * x) or reply.json.get("id") != more.get("id"):
                    wrong.append((seed, i, reply.body[:200]))
            connection.close()
        threads = [threading.Thread(target=client, args=(seed,)) for seed in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        self.assertEqual(wrong, [])

    def test_same_reply(self):
        """Byte for byte but for the times, whether the text was known or not."""
        def text(reply):
            head = json.loads(reply.body[:reply.json_length])
            for name in ("queue_us", "compute_us"):
                self.assertIsInstance(head["parameters"].pop(name), (int, float))
            return json.dumps(head), reply.body[reply.json_length:]
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        first = self.service.infer("softmax", {"self": x}, {"dim": 1}, binary=True)
        for _ in range(3):
            self.assertEqual(text(self.service.infer("softmax", {"self": x}, {"dim": 1}, binary=True)),
                             text(first))


if __name__ == "__main__":
    service.main()
