#!/usr/bin/env python3
"""What requests cost others: whatever one client asks for, the next one is answered soon.

Bounds are those of a machine shared with anything else: seconds, where milliseconds are usual.
"""
import io
import json
import os
import threading
import time

import numpy as np

import service

LONG = 30 # seconds, of what would take minutes
SOON = 20 if service.SANITIZED else 4.5 # seconds; an HTTP thread that computed needed 5 to 13


class Cost(service.ServiceTest):
    def test_deadlines_within_a_matrix(self):
        """One sweep over all pairs of columns takes minutes here: a call leaves in its midst."""
        x = np.random.default_rng(service.seed()).standard_normal((2500, 2500)).astype(np.float32)
        for op, inputs, parameters in (("_linalg_svd", {"A": x}, {}), ("_linalg_eigh", {"A": x}, {}), ("linalg_qr", {"A": x}, {}),
                                       ("_linalg_svd", {"A": x[:1] * 0}, {"full_matrices": True})):
            begin = time.monotonic()
            reply = self.service.infer(op, inputs, {**parameters, "timeout_ms": 300}, binary=True)
            self.problem(reply, 504, "timeout_ms")
            self.assertLess(time.monotonic() - begin, LONG, f"{op} {parameters}")

    def worst_wait(self, work):
        """The longest that health took to answer while work() ran, and what it gave back."""
        worst, over, replies = [0.0], threading.Event(), []
        watching = threading.Event()

        def watch():
            connection = self.service.connect()
            while not over.is_set():
                begin = time.monotonic()
                reply = self.service.call("GET", "/v2/health/live", connection=connection)
                worst[0] = max(worst[0], time.monotonic() - begin)
                self.assertEqual(reply.status, 200)
                watching.set()
                time.sleep(0.002)
            connection.close()

        thread = threading.Thread(target=watch)
        thread.start()
        watching.wait(60)
        try:
            replies.append(work())
        finally:
            over.set()
            thread.join()
        return worst[0], replies[0]

    def answers_meanwhile(self, work, statuses=(200,)):
        waited, reply = self.worst_wait(work)
        self.assertIn(reply.status, statuses, reply.body[:300])
        self.assertLess(waited, SOON)
        return reply

    def explained(self, op, inputs, parameters=None):
        reply = self.service.infer(op, inputs, {**(parameters or {}), "explain": True}, binary=True)
        self.assertEqual(reply.status, 200, reply.body[:300])
        return reply.parameters

    def test_many_groups_and_a_stride(self):
        """A 25 KB request whose gradient had the library walk 2,048 strides of 2^24."""
        groups = 2048
        x = np.ones((1, groups, 1, 1), np.float32)
        for stride in (2**24, 2**31 - 1):
            reply = self.answers_meanwhile(lambda: self.service.infer(
                "convolution_backward",
                {"grad_output": x, "input": x, "weight": np.ones((groups, 1, 1, 1), np.float32)},
                {"bias_sizes": None, "stride": [stride] * 2, "padding": [0, 0], "dilation": [1, 1],
                 "transposed": False, "output_padding": [0, 0], "groups": groups,
                 "output_mask": [True, True, False], "timeout_ms": 60000}, binary=True))
            np.testing.assert_array_equal(reply.outputs["out0"], x)

    def test_paddings_and_dilations(self):
        """Far beyond the tensors, where only the bias is ever seen, or two elements of the input."""
        x, w = np.ones((1, 1, 1, 2), np.float32), np.ones((1, 1, 1, 2), np.float32)
        far = 2**30
        for parameters, right in (({"padding": [far, far], "stride": [far, far]}, (3, 3)),
                                  ({"padding": [0, far], "dilation": [1, far], "stride": [1, far]}, (1, 2)),
                                  ({"padding": [far, 0], "stride": [far, 1]}, (3, 1))):
            reply = self.answers_meanwhile(lambda: self.service.infer(
                "conv2d", {"input": x, "weight": w}, parameters, binary=True))
            self.assertEqual(reply.out.shape[2:], right)

    def test_a_first_call_of_a_library(self):
        """Making a primitive takes milliseconds, so no HTTP thread does; what is made serves the next."""
        for n in (5, 6):
            inputs = {"input": service.BF16(np.ones((1, n))), "weight": service.BF16(np.ones((2, n)))}
            first = self.explained("linear", inputs)
            if first["kernel"] != "onednn":
                self.skipTest("no row of a library takes BF16 here: " + first["kernel"])
            self.assertFalse(first["explain"]["inline"])

    def test_small_calls_are_run_where_they_arrive(self):
        x = np.ones(8, np.float32)
        self.assertTrue(any(self.explained("add", {"self": x, "other": x})["explain"]["inline"]
                            for _ in range(20)))

    def total(self, what):
        """Of all pools."""
        return sum(pool[what] for pool in self.service.call("GET", "/v1/pools").json["pools"])

    def by_a_worker(self, work, statuses=(200, 201)):
        """Jobs are counted behind their replies: the one before this, and this."""
        self.assertTrue(service.eventually(lambda: not self.total("running")))
        before = self.total("done")
        reply = self.answers_meanwhile(work, statuses)
        service.eventually(lambda: self.total("done") > before)
        self.assertEqual(self.total("done"), before + 1)
        return reply

    def test_a_big_file_in_fortran_order(self):
        """64 MiB took 11 s, one element at a time; any rank, and elements of each size."""
        rng = np.random.default_rng(3)
        shape = (1024, 64) if service.SANITIZED else (8192, 8192)
        for big in (rng.integers(0, 255, shape, np.uint8), rng.random((30, 20, 50), np.float32),
                    rng.integers(0, 255, (3, 2, 5, 1, 4, 3, 2, 7), np.int16),
                    rng.random((7, 1, 9)), np.ones(5), np.ones(()), np.ones((3, 0, 2))):
            file = io.BytesIO()
            np.save(file, np.asfortranarray(big))
            put = self.by_a_worker if big.nbytes > 1 << 20 else self.answers_meanwhile
            put(lambda: self.service.call("PUT", "/v1/tensors/fortran", file.getvalue(),
                                          {"Content-Type": "application/x-npy"}), (200, 201))
            out = self.service.op("cast", {"self": service.stored("fortran")},
                                  {"dtype": service.datatype(big), "binary_data_output": True})
            np.testing.assert_array_equal(out, big)

    def test_unknown_sizes_are_tried_by_a_worker(self):
        """Which takes milliseconds; to infer from known ones takes none."""
        for size, ask in (("N", self.by_a_worker), (8, self.answers_meanwhile)):
            args = [{"shape": [size, 64], "datatype": "FP32"}]
            out = ask(lambda: self.service.call("POST", "/v1/ops/relu", {"args": args, "parameters": {"meta": True}}), (200,))
            self.assertEqual(out.json["outputs"][0]["shape"], [size, 64])

    def test_text_is_read_and_written_by_workers(self):
        """A tensor as JSON, there and back, and in a call of an operator: each a job, and one only."""
        n = 100_000
        numbers = np.arange(n, dtype=np.float32) / 8
        body = json.dumps({"shape": [n], "datatype": "FP32", "data": numbers.tolist()})
        self.by_a_worker(lambda: self.service.call("PUT", "/v1/tensors/text", body))
        got = self.by_a_worker(lambda: self.service.call("GET", "/v1/tensors/text")).json
        np.testing.assert_array_equal(np.array(got["data"], np.float32), numbers)
        got = self.by_a_worker(lambda: self.service.infer("neg", {"self": numbers}))
        np.testing.assert_array_equal(got.out, -numbers)
        small = np.ones(3, np.float32)
        wide = {"self": small.reshape(3, 1), "other": service.stored("text")}
        got = self.by_a_worker(lambda: self.service.infer("add", wide)) # a small body, a big reply
        np.testing.assert_array_equal(got.out, np.tile(numbers + 1, (3, 1)))
        self.problem(self.service.call("POST", "/v1/ops/neg", '{"inputs":[' + " " * 200_000), 400)
        self.problem(self.service.call("PUT", "/v1/tensors/text", '{"shape":[' + "1," * 200_000), 400)

    def test_a_task_with_much_text(self):
        numbers = np.arange(50_000, dtype=np.float32)
        body, headers = service.pack({"self": numbers})
        reply = self.service.call("POST", "/v1/ops/neg", body, {**headers, "Prefer": "respond-async"})
        self.assertEqual(reply.status, 202, reply.body[:300])
        result = self.service.call("GET", reply.headers["Location"] + "?wait=60")
        np.testing.assert_array_equal(result.out, -numbers)


class OtherPools(Cost):
    """The same with HTTP threads on no pool's CPU, so that nothing is run where it arrives."""

    args = ("--io-threads", "1", "--io-cpus", str(min(os.sched_getaffinity(0))))

    def test_small_calls_are_run_where_they_arrive(self):
        x = np.ones(8, np.float32)
        self.assertFalse(self.explained("add", {"self": x, "other": x})["explain"]["inline"])


if __name__ == "__main__":
    service.main()
