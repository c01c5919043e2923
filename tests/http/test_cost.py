#!/usr/bin/env python3
"""What requests cost others: whatever one client asks for, the next one is answered soon.

Bounds are those of a machine shared with anything else: a second, where some milliseconds are usual.
"""
import threading
import time

import numpy as np

import service

SOON = 20 if service.SANITIZED else 1.0 # seconds; an HTTP thread that computes needs many more


class Cost(service.ServiceTest):
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


if __name__ == "__main__":
    service.main()
